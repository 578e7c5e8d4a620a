"""Who may come in: a page of another site never, and where there is a password only who has given it.

Law: on a loopback address the Host header must be a loopback name, else a name of somebody else's that
resolves to it (DNS rebinding) would make this server part of their site. A websocket and a form are taken
from our own pages alone, whatever the address: a browser sends them from any page, cookies or not.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import html
import ipaddress
import os
import secrets
import stat
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from string import Template
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from replexplorer.core.errors import UsageError
from replexplorer.core.text import one_line
from replexplorer.formats.files import read_text

PAGES: Final = Path(__file__).parent / "page"
_OPEN_TO_ALL: Final = ("/login", "/page/", "/static/")
"""What the login itself needs; nothing in it is of a stack."""
_MOST_SAID: Final = 100
"""Characters of a name that is repeated."""
WRONG_S: Final = 1.0
"""A wrong password holds up the next ones of its address for so long, and no other address."""
_MOST_BYTES: Final = 1024
"""Of a password's file."""
_HEADERS: Final = {
    # xterm writes its colours into style elements; everything else comes from files of this server.
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens here."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Gate:
    """The checks of one server, and its login."""

    def __init__(self, *, loopback: bool, password: str | None) -> None:
        """`loopback`: it listens to this machine alone."""
        self._loopback = loopback
        self._password = None if password is None else _digest(password)
        self._cookies: set[str] = set()
        self._guesses: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By address: its passwords are looked at one by one."""

    def guard(self, app: web.Application) -> None:
        """Put this in front of an application, with the login's page."""
        app.middlewares.append(self._check)
        app.on_response_prepare.append(_add_headers)
        app.add_routes([web.get("/login", self._ask), web.post("/login", self._take)])

    @web.middleware
    async def _check(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        if not self._is_our_name(request):
            name = one_line(html.escape(request.host), _MOST_SAID)
            return web.Response(status=403, text=f"this server is not {name}\n")
        is_socket = request.headers.get("Upgrade", "").lower() == "websocket"
        if (is_socket or request.method not in ("GET", "HEAD")) and not _is_our_page(request):
            return web.Response(status=403, text="only a page of this server may do that\n")
        if not self._may_enter(request):
            if is_socket or request.path == "/alive":
                return web.Response(status=401, text="log in first\n")
            return web.Response(status=303, headers={"Location": "/login"})
        return await handler(request)

    def _is_our_name(self, request: web.Request) -> bool:
        try:
            name = urlsplit(f"//{request.host}").hostname or ""
        except ValueError:
            return False
        return not self._loopback or is_loopback(name)

    def _may_enter(self, request: web.Request) -> bool:
        if self._password is None or any(request.path.startswith(path) for path in _OPEN_TO_ALL):
            return True
        given = request.cookies.get(_cookie_of(request), "")
        return any(hmac.compare_digest(_digest(given), _digest(known)) for known in self._cookies)

    async def _ask(self, request: web.Request) -> web.Response:
        """The login's page."""
        if self._password is None:
            raise web.HTTPSeeOther("/")
        return _login_page("")

    async def _take(self, request: web.Request) -> web.Response:
        """A password: a cookie for the right one."""
        if self._password is None:
            raise web.HTTPSeeOther("/")
        try:
            given = (await request.post()).get("password", "")
        except (ValueError, LookupError, BadHttpMessage):  # no form, or in no encoding
            raise web.HTTPBadRequest(text="that is not a form\n") from None
        async with self._guesses[request.remote or ""]:  # who guesses waits
            is_right = hmac.compare_digest(_digest(str(given)), self._password)
            if not is_right:
                await asyncio.sleep(WRONG_S)
        if not is_right:
            return _login_page("That is not the password.", status=401)
        cookie = secrets.token_urlsafe(32)
        self._cookies.add(cookie)
        response = web.Response(status=303, headers={"Location": "/"})
        response.set_cookie(
            _cookie_of(request), cookie, path="/", httponly=True, samesite="Strict", secure=request.secure
        )
        return response


def _digest(password: str) -> bytes:
    """As long for every password or cookie, so that a comparison says nothing of its length."""
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()


def _cookie_of(request: web.Request) -> str:
    """A browser keeps cookies by name of host, not by port: two servers of one machine need two."""
    name = request.transport.get_extra_info("sockname") if request.transport is not None else None
    return f"replexplorer-{name[1] if name else 0}"


def _is_our_page(request: web.Request) -> bool:
    """Whether the page that asks came from the host and port that it asks."""
    try:
        origin = urlsplit(request.headers.get("Origin", ""))
    except ValueError:
        return False
    return origin.scheme in ("http", "https") and origin.netloc.lower() == request.host.lower()


def _login_page(problem: str, status: int = 200) -> web.Response:
    page = Template((PAGES / "login.html").read_text(encoding="utf-8"))
    text = page.substitute(problem=html.escape(problem))
    return web.Response(status=status, text=text, content_type="text/html")


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    is_file = request.path.startswith(("/static/", "/page/"))
    response.headers.update(_HEADERS)
    response.headers["Cache-Control"] = "no-cache" if is_file else "no-store"


def read_password(file: Path) -> str:
    """The password in a file; raises UsageError in one line, which never has any of it."""
    text = read_text(file, "password file", _MOST_BYTES).rstrip("\r\n")
    found = os.stat(file)
    if stat.S_IMODE(found.st_mode) & 0o077:
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        raise UsageError(f"password file {file}: others may open it (mode {mode})", f"chmod 600 {file}")
    if found.st_uid not in (os.geteuid(), 0):
        raise UsageError(f"password file {file} is another user's", "name one of your own")
    if not text.strip():
        raise UsageError(f"password file {file} is empty", "write the password into its first line")
    if "\n" in text or "\r" in text:
        raise UsageError(f"password file {file} has several lines", "the password is one line")
    return text
