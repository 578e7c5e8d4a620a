"""Where a server of somebody else's is and how one logs in there: the address as it is typed,
`mysql://user@host:port`, and the option files of MySQL's and MariaDB's own clients.

Law: option files are read as the clients read them (MySQL manual, "Using Option Files"): `[client]`, dashes
and underscores are one, a later value beats an earlier one. Options of others, and files that are included,
are not looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from replexplorer.core.errors import UsageError
from replexplorer.core.records import frozen
from replexplorer.core.text import one_line
from replexplorer.formats.files import read_text

PORT: Final = 3306
_SCHEMES: Final = ("mysql", "mariadb")
_LOOPBACK: Final = re.compile(r"localhost|127(\.\d{1,3}){3}|::1", re.IGNORECASE)
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*|::[A-Fa-f0-9.:]*")
_SHOWN: Final = 80


@frozen
class ServerUrl:
    """Where a server is, and as whom one logs in."""

    host: str
    port: int = PORT
    user: str | None = None

    @property
    def place(self) -> str:
        """`host:port`, by which people know it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether nobody else can hear what is said to it."""
        return _LOOPBACK.fullmatch(self.host) is not None


def parse_server_url(text: str) -> ServerUrl:
    """Read `mysql://[user@]host[:port][/database]`, or `host[:port]` alone; the database says nothing here.

    Raises UsageError for what is none, and for one with a password: every user of a machine sees the
    arguments of its programs.
    """
    written = text if "://" in text else f"mysql://{text}"
    try:
        found = urlsplit(written)
        host, port = found.hostname, found.port
    except ValueError:
        raise _wrong(text) from None
    if found.scheme not in _SCHEMES or not host or not _HOST.fullmatch(host) or found.query or found.fragment:
        raise _wrong(text)
    if found.password is not None:
        raise UsageError(
            f"the address of {host} has a password in it, which every user of this machine can see",
            "leave it out; it is asked for, or read from an option file or from MYSQL_PWD",
        )
    user = None if found.username is None else unquote(found.username)
    return ServerUrl(host, PORT if port is None else port, user)


def _wrong(text: str) -> UsageError:
    shown = one_line(re.sub(r"(?<=:)[^:@/]*(?=@)", "...", text), _SHOWN)  # never a password
    return UsageError(f"{shown!r} is not the address of a server", "write mysql://USER@HOST:PORT")


def node_names(places: list[ServerUrl]) -> list[str]:
    """What servers are called: the host, with the port where more than one is there."""
    hosts = [place.host for place in places]
    return [
        re.sub(r"[^A-Za-z0-9._-]", "_", place.host)
        + (f"-{place.port}" if hosts.count(place.host) > 1 else "")
        for place in places
    ]


OPTIONS: Final = ("host", "port", "user", "password", "ssl-mode", "ssl-ca")
"""What is read."""
_GROUPS: Final = ("client", "client-server", "client-mariadb", "replexplorer")
_MOST_BYTES: Final = 1 << 16
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "s": " ", "\\": "\\", '"': '"', "'": "'"}
_QUOTED: Final = re.compile(r"""(['"])((?:\\.|(?!\1).)*)""")
_PLACES: Final = ("/etc/my.cnf", "/etc/mysql/my.cnf")


def standard_files(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that the clients read by themselves and that are there, in their order."""
    home = environment.get("HOME")
    places = [Path(place) for place in _PLACES]
    if home:
        places.append(Path(home) / ".my.cnf")
    return tuple(place for place in places if os.access(place, os.R_OK) and place.is_file())


def read_option_files(files: Iterable[Path]) -> dict[str, str]:
    """The options of these files by their names with dashes; raises UsageError naming a file that cannot be
    read."""
    found: dict[str, str] = {}
    for file in files:
        group = ""
        for line in map(str.strip, read_text(file, "option file", _MOST_BYTES).splitlines()):
            if line.startswith("["):
                group = line[1:].partition("]")[0].strip().lower()
            elif group in _GROUPS:
                name, _, value = line.partition("=")
                name = name.strip().lower().replace("_", "-").removeprefix("loose-")
                if name in OPTIONS:
                    found[name] = _value(value.strip())
    return found


def _value(text: str) -> str:
    """A value without quotes, with its escapes read; a comment behind it is none of it."""
    quoted = _QUOTED.match(text)
    inner = quoted[2] if quoted else text.partition("#")[0].rstrip()
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), inner)
