"""How one logs in to servers that one has: an address, an option file, the environment, a prompt.

Law: a password comes from an option file, the environment or the terminal; never from an argument.
"""

from __future__ import annotations

import getpass
import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.formats.paths import expanded, user_home
from replexplorer.formats.server_url import (
    PORT,
    ServerUrl,
    parse_server_url,
    read_option_files,
    standard_files,
)

if TYPE_CHECKING:
    from replexplorer.adapters.attached.provider import Login
    from replexplorer.cli.output import Output

DSN: Final = "MYSQL_DSN"
PASSWORD: Final = "MYSQL_PWD"  # noqa: S105 - the variable's name, which MySQL's own clients read


@dataclass(frozen=True, slots=True)
class Known:
    """A server with how one logs in there."""

    source: ServerUrl
    login: Login


def known_login(
    args: Namespace,
    console: Output,
    environment: Mapping[str, str] = os.environ,
    source: ServerUrl | None = None,
) -> Known:
    """Where to, or to this `source`, and as whom; asks for the password where nothing says it and somebody
    can answer. Raises UsageError."""
    named = args.defaults_file
    options = read_option_files(standard_files(environment) if named is None else [expanded(named)])
    if source is None:
        source = _source(args.url, options, environment)
    elif environment.get(DSN):
        by_dsn = parse_server_url(environment[DSN], with_password=True)
        if by_dsn.place == source.place:
            source = replace(source, password=by_dsn.password)
    user = source.user or options.get("user") or getpass.getuser()
    password = source.password
    if password is None:
        password = options.get("password") or environment.get(PASSWORD)
        password = password or _asked(f"{user} at {source.place}", console)
    return Known(source, _login(args, options, user, password))


def _source(url: str | None, options: Mapping[str, str], environment: Mapping[str, str]) -> ServerUrl:
    """The server that is named first."""
    if url is not None:
        return parse_server_url(url)
    if environment.get(DSN):
        return parse_server_url(environment[DSN], with_password=True)
    if "host" not in options:
        raise UsageError(
            "no server is named", f"name it as mysql://USER@HOST:PORT, in {DSN}, or in an option file"
        )
    try:
        return ServerUrl(options["host"], int(options.get("port", PORT)))
    except ValueError:
        raise UsageError(f"port={options['port']} in the option file is no port", "correct it") from None


def _asked(whom: str, console: Output) -> str:
    """The password that is typed; empty where nobody can answer."""
    home = user_home()
    login_paths = None if home is None else home / ".mylogin.cnf"
    if login_paths is not None and login_paths.exists():
        console.warn(f"{login_paths} is not read: put the password into an option file, or into {PASSWORD}")
    if sys.stdin is None or not sys.stdin.isatty() or not console.err.isatty():
        return ""
    try:
        return getpass.getpass(f"Password of {whom}: ", console.err)
    except EOFError:
        raise StackUnavailable("no password was typed", "try again") from None


def _login(args: Namespace, options: Mapping[str, str], user: str, password: str) -> Login:
    """The login that flags and options say; raises UsageError for a mode that is none."""
    from replexplorer.adapters.attached.provider import Login
    from replexplorer.adapters.mysql import SSL_MODES

    mode = args.ssl_mode or options.get("ssl-mode", "").upper() or None
    if mode is not None and mode not in SSL_MODES:
        raise UsageError(f"ssl-mode={mode} in the option file", f"is one of {', '.join(SSL_MODES)}")
    ca = args.ssl_ca or options.get("ssl-ca") or None
    return Login(user, password, mode, None if ca is None else str(expanded(ca).absolute()))
