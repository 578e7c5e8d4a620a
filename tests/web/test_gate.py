"""Who gets in: names, origins, the login, and the file that its password stands in."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession, CookieJar, TCPConnector, web
from aiohttp.test_utils import BaseTestServer, TestServer

from replexplorer.web import gate
from replexplorer.web.gate import Gate, is_loopback, read_password
from tests.known import refused
from tests.typed import table_of

SOCKET = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
"""What a browser asks a websocket with, but for the page that it is on."""


@dataclass
class Browser:
    """One with cookies of its own."""

    client: ClientSession
    server: BaseTestServer

    @property
    def own_page(self) -> dict[str, str]:
        """What it says of itself on a page of the server."""
        return {"Origin": f"http://{self.server.host}:{self.server.port}"}

    async def ask(self, path: str, headers: Mapping[str, str] = {}, **how: Any) -> ClientResponse:
        """The answer, read unless it is a websocket; a form is sent where there is `data`."""
        url, method = self.server.make_url(path), "POST" if "data" in how else "GET"
        async with self.client.request(method, url, headers=headers, allow_redirects=False, **how) as answer:
            if answer.status != 101:
                await answer.read()
        return answer

    async def log_in(self, password: str, headers: Mapping[str, str] | None = None) -> ClientResponse:
        """From the server's own page, or from another."""
        return await self.ask(
            "/login", self.own_page if headers is None else headers, data={"password": password}
        )


@asynccontextmanager
async def browsing(app: web.Application) -> AsyncIterator[Browser]:
    async with TestServer(app) as server, ClientSession(cookie_jar=CookieJar(unsafe=True)) as client:
        yield Browser(client, server)


def guarded(password: str | None = None, *, loopback: bool = True) -> web.Application:
    """A page, a websocket and a file behind a gate."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="inside")

    async def socket(request: web.Request) -> web.WebSocketResponse:
        line = web.WebSocketResponse()
        await line.prepare(request)
        await line.send_str("inside")
        await line.close()
        return line

    app = web.Application()
    Gate(loopback=loopback, password=password).guard(app)
    app.add_routes([web.get("/", page), web.get("/ws", socket), web.get("/page/x", page)])
    return app


HOSTS = """\
localhost:9000         200 200
[::1]:8000             200 200
127.0.0.1.evil.example 403 200
evil.example:8000      403 200
192.0.2.7              403 200
[::1                   403 403
"""
"""What is answered under a name by a server on a loopback address, and by one on any."""
ORIGINS = """\
http://HERE              101
https://HERE             101
null                     403
http://evil.example      403
http://127.0.0.1:1       403
http://HERE.evil.example 403
http://[                 403
"""
"""The page that asks for a websocket, and the answer, whatever the server's address is."""


@pytest.mark.parametrize("loopback", [True, False])
async def test_a_loopback_server_has_loopback_names_alone_and_a_websocket_is_for_our_own_page(
    loopback: bool,
) -> None:
    async with browsing(guarded(loopback=loopback)) as browser:
        for host, *statuses in table_of(HOSTS, None):
            assert (await browser.ask("/", {"Host": host})).status == int(statuses[not loopback]), host
        for origin, status in table_of(ORIGINS, None):
            page = {"Origin": origin.replace("HERE", f"{browser.server.host}:{browser.server.port}")}
            assert (await browser.ask("/ws", SOCKET | page)).status == int(status), origin
        assert (await browser.ask("/ws", SOCKET)).status == 403
        headers = (await browser.ask("/")).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert (headers["X-Frame-Options"], headers["Cache-Control"]) == ("DENY", "no-store")


async def test_the_right_password_from_our_own_page_is_a_cookie_that_scripts_and_other_sites_do_not_get() -> (
    None
):
    async with browsing(guarded("s3cret ü")) as browser:
        login = await browser.ask("/")
        assert (login.status, login.headers["Location"]) == (303, "/login")
        socket = browser.own_page | SOCKET
        for path, headers, status in (("/ws", socket, 401), ("/login", {}, 200), ("/page/x", {}, 200)):
            assert (await browser.ask(path, headers)).status == status
        for headers in ({}, {"Origin": "http://evil.example"}):
            assert (await browser.log_in("s3cret ü", headers)).status == 403
        wrong = await browser.log_in("s3cret")
        assert wrong.status == 401
        assert "s3cret" not in await wrong.text()
        right = await browser.log_in("s3cret ü")
        assert right.status == 303
        [cookie] = right.cookies.values()
        assert cookie["httponly"]
        assert cookie["samesite"] == "Strict"
        assert "s3cret" not in cookie.value
        assert await (await browser.ask("/")).text() == "inside"
        assert (await browser.ask("/ws", socket)).status == 101


async def test_who_guesses_waits_and_the_right_password_is_never_locked_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tries that come at once are looked at one by one; from another address nothing is waited for."""
    monkeypatch.setattr(gate, "WRONG_S", 0.2)
    app = guarded("secret")
    async with (
        browsing(app) as browser,
        ClientSession(connector=TCPConnector(local_addr=("127.0.0.2", 0))) as far,
    ):
        began_s = time.monotonic()
        guesses = [asyncio.create_task(browser.log_in("wrong")) for _ in range(5)]
        assert (await Browser(far, browser.server).log_in("secret")).status == 303
        assert not all(task.done() for task in guesses)
        assert [answer.status for answer in await asyncio.gather(*guesses)] == [401] * 5
        assert time.monotonic() - began_s >= 1
        assert (await browser.log_in("secret")).status == 303


def test_what_is_loopback() -> None:
    for host in ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LOCALHOST"]:
        assert is_loopback(host), host
    for host in ("", *["0.0.0.0", "::", "192.0.2.1", "localhost.evil.example"]):
        assert not is_loopback(host), host


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (b"secret\n", 0o644, "others may open it (mode 0644): chmod 600"),
        (b"secret\n", 0o660, "others may open it (mode 0660): chmod 600"),
        (b"", 0o600, "is empty"),
        (b" \n", 0o600, "is empty"),
        (b"one\ntwo\n", 0o600, "has several lines"),
        (b"\xff\xfe", 0o600, "is not UTF-8 text"),
        (b"x" * 5000, 0o600, "is larger than 1 KB"),
    ],
)
def test_a_password_file_that_will_not_do(tmp_path: Path, content: bytes, mode: int, said: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    os.chmod(file, mode)
    told = refused(read_password, file)
    assert said in told
    assert "secret" not in told


def test_the_password_is_the_line_without_its_end_and_a_directory_has_none(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes("two wörds \r\n".encode())
    for mode in (0o600, 0o400):
        os.chmod(file, mode)
        assert read_password(file) == "two wörds "
    assert refused(read_password, tmp_path)
