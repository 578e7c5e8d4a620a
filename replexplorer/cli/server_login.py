"""How one logs in to servers that one has: an address, an option file, the environment, a prompt.

Law: a password comes from an option file, the environment or the terminal; never from an argument.
"""

from __future__ import annotations

import getpass
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.formats.option_file import read_option_files, standard_files
from replexplorer.formats.paths import expanded, user_home
from replexplorer.formats.server_url import PORT, ServerUrl, parse_server_url

if TYPE_CHECKING:
    from replexplorer.adapters.attached.provider import Login
    from replexplorer.cli.output import Output

DSN: Final = "MYSQL_DSN"
PASSWORD: Final = "MYSQL_PWD"  # noqa: S105 - the variable's name, which MySQL's own clients read
_MOST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class Known:
    """A server with how one logs in there."""

    source: ServerUrl
    login: Login
    password_from: str
    """In words: `MYSQL_PWD`, `option file`, `prompt`; for whoever has to log in again."""
    defaults_file: str | None = None
    """The option file that was named, from any directory."""


def login_arguments(parser: ArgumentParser) -> None:
    """As MySQL's own clients have them."""
    from replexplorer.adapters.mysql import SSL_MODES

    parser.add_argument(
        "--defaults-file", metavar="FILE", help="read this option file and none of the usual ones (~/.my.cnf)"
    )
    parser.add_argument(
        "--ssl-mode",
        type=str.upper,
        choices=SSL_MODES,
        metavar="MODE",
        help=f"one of {', '.join(SSL_MODES)}; default: VERIFY_IDENTITY, on this machine PREFERRED",
    )
    parser.add_argument(
        "--ssl-ca", metavar="FILE", help="who may have signed the servers' certificates (PEM)"
    )


def known_login(args: Namespace, console: Output, environment: Mapping[str, str] = os.environ) -> Known:
    """Where to and as whom, asking for the password where nothing says it and somebody can answer. Raises
    UsageError."""
    options = _options(args.defaults_file, environment)
    source, origin = _source(args.url, options, environment)
    user = source.user or options.get("user") or getpass.getuser()
    password, password_from = password_for(source, user, options, console, environment, origin)
    named = None if args.defaults_file is None else str(expanded(args.defaults_file).absolute())
    return Known(source, login_with(args, options, user, password), password_from, named)


def _options(file: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    return read_option_files(standard_files(environment) if file is None else [expanded(file)])


def _source(
    url: str | None, options: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[ServerUrl, str]:
    """The server, and what named it."""
    if url is not None:
        return parse_server_url(url), "argument"
    if environment.get(DSN):
        return parse_server_url(environment[DSN], with_password=True), DSN
    if "host" not in options:
        raise UsageError(
            "no server is named", f"name it as mysql://USER@HOST:PORT, in {DSN}, or in an option file"
        )
    port = options.get("port", str(PORT))
    if not port.isascii() or not port.isdigit() or not 0 < int(port) <= _MOST_PORT:
        raise UsageError(f"port={port} in the option file is no port", "correct it")
    return ServerUrl(options["host"], int(port)), "option file"


def password_for(
    source: ServerUrl,
    user: str,
    options: Mapping[str, str],
    console: Output,
    environment: Mapping[str, str],
    origin: str = "argument",
) -> tuple[str, str]:
    """The password, and where it came from; empty where nothing says it and nobody can answer."""
    if source.password is not None:
        return source.password, origin
    if options.get("password"):
        return options["password"], "option file"
    if environment.get(PASSWORD):
        return environment[PASSWORD], PASSWORD
    home = user_home()
    login_paths = None if home is None else home / ".mylogin.cnf"
    if login_paths is not None and login_paths.exists():
        console.warn(f"{login_paths} is not read: put the password into an option file, or into {PASSWORD}")
    if sys.stdin is None or not sys.stdin.isatty() or not console.err.isatty():
        return "", "nowhere"
    try:
        return getpass.getpass(f"Password of {user} at {source.place}: ", console.err), "prompt"
    except EOFError:
        raise StackUnavailable("no password was typed", "try again") from None


def login_with(args: Namespace, options: Mapping[str, str], user: str, password: str) -> Login:
    """The login that flags and options say; raises UsageError for a mode that is none."""
    from replexplorer.adapters.attached.provider import Login
    from replexplorer.adapters.mysql import SSL_MODES

    mode = args.ssl_mode or options.get("ssl-mode", "").upper() or None
    if mode is not None and mode not in SSL_MODES:
        raise UsageError(f"ssl-mode={mode} in the option file", f"is one of {', '.join(SSL_MODES)}")
    ca = args.ssl_ca or options.get("ssl-ca") or None
    return Login(user, password, mode, None if ca is None else str(expanded(ca).absolute()))
