"""Files as the daemon takes them: a tar in memory."""

from __future__ import annotations

import io
import tarfile

_READ_BY_ALL = 0o644


def one_file(name: str, text: str) -> bytes:
    """A tar with one file that every user of the container can read."""
    content = text.encode()
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), _READ_BY_ALL
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()
