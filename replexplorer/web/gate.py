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
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from string import Template
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from replexplorer.core.printable import one_line

PAGES: Final = Path(__file__).parent / "page"
_OPEN_TO_ALL: Final = ("/login", "/page/", "/static/")
"""What the login itself needs; nothing in it is of a stack."""
_MOST_SAID: Final = 100
"""Characters of a name that is repeated."""
_MOST_AT_ONCE: Final = 10
_WITHIN_S: Final = 60.0
_APART_S: Final = 1.0
"""After that number of passwords from one address in this time, its next ones are looked at so far apart."""
_MOST_WAIT_S: Final = 30.0
"""An address whose passwords would wait longer is to come again."""
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

    def __init__(
        self, *, loopback: bool, password: str | None, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`loopback`: it listens to this machine alone; `now` is in seconds."""
        self._loopback = loopback
        self._password = None if password is None else _digest(password)
        self._cookies: set[str] = set()
        self._tries: dict[str, deque[float]] = {}
        """By address, when its passwords of the last time are looked at."""
        self._now = now

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
            raise web.HTTPBadRequest(text="that is no form\n") from None
        # Counted once all of the form is there: nothing else comes between, however many ask at a time.
        address = request.remote or ""
        wait_s = self._wait_s(address)
        if wait_s > _MOST_WAIT_S:
            page = _login_page("Too many passwords from this address: wait a minute.", status=429)
            page.headers["Retry-After"] = f"{_WITHIN_S:.0f}"
            return page
        await asyncio.sleep(wait_s)
        if not isinstance(given, str) or not hmac.compare_digest(_digest(given), self._password):
            return _login_page("That is not the password.", status=401)
        self._tries.pop(address, None)
        cookie = secrets.token_urlsafe(32)
        self._cookies.add(cookie)
        response = web.Response(status=303, headers={"Location": "/"})
        response.set_cookie(
            _cookie_of(request), cookie, path="/", httponly=True, samesite="Strict", secure=request.secure
        )
        return response

    def _wait_s(self, address: str) -> float:
        """How long the next password from an address waits for its turn: who guesses waits, and the right
        password is looked at in its turn, and at once from anywhere else."""
        now_s = self._now()
        for each in [each for each, tries in self._tries.items() if tries[-1] < now_s - _WITHIN_S]:
            del self._tries[each]
        tries = self._tries.setdefault(address, deque(maxlen=_MOST_AT_ONCE))
        is_quick = len(tries) < _MOST_AT_ONCE or tries[0] < now_s - _WITHIN_S
        at_s = now_s if is_quick else max(now_s, tries[-1] + _APART_S)
        if at_s - now_s <= _MOST_WAIT_S:
            tries.append(at_s)
        return at_s - now_s


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
