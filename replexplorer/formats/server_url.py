"""The address of a server that somebody else made, as it is typed: `mysql://user@host:port`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from replexplorer.core.errors import UsageError
from replexplorer.core.printable import one_line

PORT: Final = 3306
_SCHEMES: Final = ("mysql", "mariadb")
_LOOPBACK: Final = re.compile(r"localhost|127(\.\d{1,3}){3}|::1", re.IGNORECASE)
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*|::[A-Fa-f0-9.:]*")
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """Where a server is, and as whom one logs in; `repr` hides the password."""

    host: str
    port: int = PORT
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def place(self) -> str:
        """`host:port`, by which people know it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether nobody else can hear what is said to it."""
        return _LOOPBACK.fullmatch(self.host) is not None


def parse_server_url(text: str, *, with_password: bool = False) -> ServerUrl:
    """Read `mysql://[user@]host[:port][/database]`, or `host[:port]` alone; the database says nothing here.

    Raises UsageError for what is none, and for a password unless it may be there: every user of a machine
    sees the arguments of its programs.
    """
    written = text if "://" in text else f"mysql://{text}"
    try:
        found = urlsplit(written)
        host, port = found.hostname, found.port
    except ValueError:
        raise _wrong(text) from None
    if found.scheme not in _SCHEMES or not host or not _HOST.fullmatch(host) or found.query or found.fragment:
        raise _wrong(text)
    if found.password is not None and not with_password:
        raise UsageError(
            f"the address of {host} has a password in it, which every user of this machine can see",
            "leave it out: it is asked for, or read from an option file or from MYSQL_PWD or MYSQL_DSN",
        )
    user = None if found.username is None else unquote(found.username)
    password = None if found.password is None else unquote(found.password)
    return ServerUrl(host, PORT if port is None else port, user, password)


def _wrong(text: str) -> UsageError:
    shown = one_line(re.sub(r"(?<=:)[^:@/]*(?=@)", "...", text), _SHOWN)  # never a password
    return UsageError(f"{shown!r} is no address of a server", "write mysql://USER@HOST:PORT")


def node_names(places: list[ServerUrl]) -> list[str]:
    """What servers are called: the host, with the port where more than one is there."""
    hosts = [place.host for place in places]
    return [
        re.sub(r"[^A-Za-z0-9._-]", "_", place.host)
        + (f"-{place.port}" if hosts.count(place.host) > 1 else "")
        for place in places
    ]
