"""The passwords of one stack: made at random, kept in a file of mode 0600, never anywhere else.

The containers get them as a file on the tools volume that only the server's user can read. The
file on the host names the stack's network, so that the passwords of an older stack of the same
name are told from its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from replexplorer.core.errors import MissingPiece, UsageError
from replexplorer.core.records import frozen
from replexplorer.formats.files import read_bytes, whole_file
from replexplorer.formats.paths import OPTION_FILE
from replexplorer.ports import Credentials

CONTROL_USER: Final = "replexplorer"
"""The app's own account on every node; start-mysqld makes it."""
DSN_USER: Final = "sandbox"
"""The account that `dsn` hands out; start-mysqld makes it."""
REPLICATION_USER: Final = "replication"
"""The account that replicas log in to their source by; start-mysqld makes it."""
SERVER_UID: Final = 999
"""The server's user and group in every image."""

_MOST_BYTES: Final = 1 << 16
_KEYS: Final = ("control", "dsn", "replication")


@frozen
class StoredAccounts:
    """What this machine keeps of one stack's accounts."""

    credentials: Credentials
    network: str
    """The stack's, which tells it from an older one of the same name."""


def generate() -> Credentials:
    """The accounts with new random passwords."""
    return _accounts({key: secrets.token_hex(16) for key in _KEYS})


def _accounts(passwords: Mapping[str, str]) -> Credentials:
    control, dsn, replication = (passwords[key] for key in _KEYS)
    return Credentials(CONTROL_USER, control, DSN_USER, dsn, REPLICATION_USER, replication)


def encode(accounts: Credentials) -> str:
    """`name=value` lines, as start-mysqld reads them."""
    passwords = (accounts.control_password, accounts.dsn_password, accounts.replication_password)
    return "".join(f"{key}={password}\n" for key, password in zip(_KEYS, passwords, strict=True))


def write(file: Path, kept: StoredAccounts) -> None:
    """Keep the passwords, mode 0600, replaced in one step; raises MissingPiece when it cannot."""
    keep(file, f"{encode(kept.credentials)}origin={kept.network}\n")


def keep(file: Path, text: str) -> None:
    """Write a text with passwords, mode 0600 in a directory of mode 0700, replaced in one step; raises
    MissingPiece when it cannot."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with whole_file(file, mode=0o600) as stream:
            stream.write(text)
    except (OSError, UsageError) as error:
        reason = error.hint if isinstance(error, UsageError) else error.strerror or str(error)
        raise MissingPiece(f"cannot keep the stack's passwords in {file}", reason) from None


def option_file(user: str, password: str, host: str, port: int) -> str:
    """The text of an option file: the clients of MySQL and MariaDB read it with --defaults-file, sysbench
    with --config-file (it warns of the lines that are not its own)."""
    options = {"host": host, "port": str(port), "user": user, "password": password}
    sections = {
        "client": options,
        "mysql": {"database": "sandbox"},
        "sysbench": {"mysql-db": "sandbox", **{f"mysql-{key}": value for key, value in options.items()}},
    }
    lines = ["# Written by `replexplorer sql --option-file`; goes with the stack."]
    for section, values in sections.items():
        lines += ["", f"[{section}]", *(f"{key}={value}" for key, value in values.items())]
    return "\n".join([*lines, ""])


def forget(file: Path) -> None:
    """Remove the passwords that are kept in this file, and the option files next to it."""
    for kept in (file, *file.parent.glob(f"*{OPTION_FILE}")):
        with suppress(OSError):
            kept.unlink(missing_ok=True)
    with suppress(OSError):
        file.parent.rmdir()


def read(file: Path) -> StoredAccounts | None:
    """The passwords that are kept; None when the file is lost, broken or another user's."""
    try:
        lines = read_bytes(file, _MOST_BYTES).decode("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    return (
        StoredAccounts(_accounts(values), values.get("origin", "")) if all(map(values.get, _KEYS)) else None
    )
