"""Who gets in: names, origins, the login, and the file that its password stands in."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar, TCPConnector, web
from aiohttp.test_utils import BaseTestServer, TestServer

from replexplorer.web import gate
from replexplorer.web.gate import Gate, is_loopback, read_password
from tests.known import refused

SOCKET = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
"""What a browser asks a websocket with, but for the page that it is on."""


@asynccontextmanager
async def served(
    password: str | None = None, *, loopback: bool = True
) -> AsyncIterator[tuple[ClientSession, BaseTestServer]]:
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
    async with TestServer(app) as server, ClientSession(cookie_jar=CookieJar(unsafe=True)) as client:
        yield client, server


def origin(server: BaseTestServer) -> dict[str, str]:
    return {"Origin": f"http://{server.host}:{server.port}"}


HOSTS = """\
localhost:9000         200 200
[::1]:8000             200 200
127.0.0.1.evil.example 403 200
evil.example:8000      403 200
192.0.2.7              403 200
[::1                   403 403
"""
"""What is answered under a name by a server on a loopback address, and by one on any."""


@pytest.mark.parametrize("line", HOSTS.splitlines())
async def test_a_loopback_server_has_loopback_names_alone(line: str) -> None:
    host, *answers = line.split()
    for loopback, status in zip((True, False), answers, strict=True):
        async with (
            served(loopback=loopback) as (client, server),
            client.get(server.make_url("/"), headers={"Host": host}) as answer,
        ):
            assert answer.status == int(status)


@pytest.mark.parametrize("loopback", [True, False])
@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("http://{here}", 101),
        ("https://{here}", 101),
        (None, 403),
        ("null", 403),
        ("http://evil.example", 403),
        ("http://127.0.0.1:1", 403),
        ("http://{here}.evil.example", 403),
        ("http://[", 403),
    ],
)
async def test_a_websocket_is_for_our_own_page(said: str | None, status: int, loopback: bool) -> None:
    async with served(loopback=loopback) as (client, server):
        page = {} if said is None else {"Origin": said.format(here=f"{server.host}:{server.port}")}
        async with client.get(server.make_url("/ws"), headers=SOCKET | page) as answer:
            assert answer.status == status


async def test_without_the_password_there_is_the_login_alone() -> None:
    async with served("secret") as (client, server):
        async with client.get(server.make_url("/"), allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/login")
        for path, headers, status in (
            ("/ws", origin(server) | SOCKET, 401),
            ("/login", {}, 200),
            ("/page/x", {}, 200),
        ):
            async with client.get(server.make_url(path), headers=headers) as answer:
                assert answer.status == status


async def test_the_right_password_is_a_cookie_that_scripts_and_other_sites_do_not_get() -> None:
    async with served("s3cret ü") as (client, server):
        login = server.make_url("/login")
        async with client.post(login, data={"password": "s3cret"}, headers=origin(server)) as answer:
            assert answer.status == 401
            assert "s3cret" not in await answer.text()
        async with client.post(
            login, data={"password": "s3cret ü"}, headers=origin(server), allow_redirects=False
        ) as answer:
            assert answer.status == 303
            [cookie] = answer.cookies.values()
            assert cookie["httponly"]
            assert cookie["samesite"] == "Strict"
            assert "s3cret" not in cookie.value
        async with client.get(server.make_url("/")) as answer:
            assert await answer.text() == "inside"
        async with client.ws_connect(server.make_url("/ws"), headers=origin(server)) as line:
            assert (await line.receive_str()) == "inside"


async def test_a_login_from_another_site_s_page_is_no_login() -> None:
    async with served("secret") as (client, server):
        for headers in ({}, {"Origin": "http://evil.example"}):
            async with client.post(
                server.make_url("/login"), data={"password": "secret"}, headers=headers
            ) as answer:
                assert answer.status == 403


async def test_who_guesses_waits_and_the_right_password_is_never_locked_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tries that come at once are looked at one by one; from another address nothing is waited for."""
    monkeypatch.setattr(gate, "WRONG_S", 0.2)
    async with served("secret") as (client, server):
        login = server.make_url("/login")

        async def status(password: str) -> int:
            data = {"password": password}
            async with client.post(login, data=data, headers=origin(server), allow_redirects=False) as answer:
                return answer.status

        began_s = time.monotonic()
        guesses = [asyncio.create_task(status("wrong")) for _ in range(5)]
        async with ClientSession(
            connector=TCPConnector(local_addr=("127.0.0.2", 0)), cookie_jar=CookieJar(unsafe=True)
        ) as other:
            data = {"password": "secret"}
            async with other.post(login, data=data, headers=origin(server), allow_redirects=False) as answer:
                assert answer.status == 303
        assert not all(task.done() for task in guesses)
        assert sorted(await asyncio.gather(*guesses)) == [401] * 5
        assert time.monotonic() - began_s >= 1
        assert await status("secret") == 303


async def test_every_answer_forbids_frames_and_foreign_sources() -> None:
    async with served() as (client, server), client.get(server.make_url("/")) as answer:
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Cache-Control"] == "no-store"


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
