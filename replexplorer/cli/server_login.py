"""Where a server outside a stack is, and as whom to log in: its URL, an option file, a variable, a prompt.

Law: no password is taken from the arguments, which every user of the machine can see.
"""

from __future__ import annotations

import getpass
import os
import re
import sys
from argparse import ArgumentParser, Namespace
from configparser import ConfigParser, Error
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from replexplorer.core.errors import UsageError
from replexplorer.formats.small_file import read_text

if TYPE_CHECKING:
    from replexplorer.adapters.mysql import ControlConnection
    from replexplorer.cli.output import Output

PORT: Final = 3306
_MOST_BYTES: Final = 1 << 16
_VARIABLE: Final = "MYSQL_PWD"


@dataclass(frozen=True, slots=True)
class ServerLogin:
    """A server, and an account on it; `repr` hides the password."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"


def login_arguments(parser: ArgumentParser) -> None:
    """What says where a server is."""
    parser.add_argument(
        "url", nargs="?", metavar="URL", help="mysql://USER@HOST:PORT; the password never stands in it"
    )
    parser.add_argument(
        "--defaults-file",
        metavar="FILE",
        help="an option file of the mysql clients: host, port, user and password of its [client]",
    )


def login_of(args: Namespace, console: Output) -> ServerLogin:
    """The arguments' login; asks for the password where no file and no variable has it. Raises UsageError."""
    given = _from_url(args.url) if args.url else {}
    options = {**(_from_file(Path(args.defaults_file)) if args.defaults_file else {}), **given}
    host = options.get("host")
    if host is None:
        raise UsageError("no server is named", "give mysql://USER@HOST:PORT, or --defaults-file FILE")
    port = options.get("port", str(PORT))
    if not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise UsageError(f"{port!r} is no port", "give 1 to 65535")
    user = options.get("user") or getpass.getuser()
    password = options.get("password")
    if password is None:
        password = os.environ.get(_VARIABLE)
    if password is None:
        password = _asked(f"password of {user} at {host}: ", console)
    return ServerLogin(host, int(port), user, password)


def connection_of(login: ServerLogin) -> ControlConnection:
    """A connection that logs in when it is first used."""
    from replexplorer.adapters.mysql import Address, ControlConnection

    async def locate() -> Address:
        return Address(login.host, login.port, "direct")

    return ControlConnection(login.address, locate, login.user, login.password)


def _from_url(text: str) -> dict[str, str]:
    shown = re.sub(r"(?<=:)[^:@/]*(?=@)", "...", text)
    wrong = UsageError(f"{shown!r} is no address of a server", "write mysql://USER@HOST:PORT")
    try:
        url = urlsplit(text if "://" in text else f"mysql://{text}")
        host, port = url.hostname, url.port
    except ValueError:
        raise wrong from None
    if url.scheme not in ("mysql", "mariadb") or not host or url.query or url.fragment:
        raise wrong
    if url.password is not None:
        raise UsageError(
            f"the address of {host} has a password in it, which every user of this machine can see",
            f"leave it out: it is asked for, or read from an option file or from {_VARIABLE}",
        )
    found = {"host": host}
    if port is not None:
        found["port"] = str(port)
    if url.username:
        found["user"] = unquote(url.username)
    return found


def _from_file(file: Path) -> dict[str, str]:
    text = read_text(file, "option file", _MOST_BYTES)
    parser = ConfigParser(interpolation=None, allow_no_value=True, strict=False, comment_prefixes=("#", ";"))
    lines = [line for line in text.splitlines() if not line.startswith("!")]
    try:
        parser.read_string("\n".join(lines))
    except Error:
        raise UsageError(f"{file} is no option file", "as the mysql clients read it, with [client]") from None
    section = parser["client"] if parser.has_section("client") else {}
    return {
        name: value.strip("\"'")
        for name, value in section.items()
        if name in ("host", "port", "user", "password") and value is not None
    }


def _asked(question: str, console: Output) -> str:
    if sys.stdin is None or not sys.stdin.isatty() or not console.err.isatty():
        raise UsageError(
            "no password for the server",
            f"give it in --defaults-file FILE or in {_VARIABLE}, or use a terminal",
        )
    return getpass.getpass(question, stream=console.err)
