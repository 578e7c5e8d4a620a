"""Tabs: the first drives, those beside it watch; each is a process that ends with it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio import Transport
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, CookieJar, WSMsgType
from aiohttp.test_utils import BaseTestServer, TestServer

from replexplorer.web import server as server_module
from replexplorer.web.gate import Gate
from replexplorer.web.server import DashboardServer, size_of, table_page
from tests.waiting import patience, until_true
from tests.web.test_gate import SOCKET, origin

PROGRAM = """
import json, os, sys
def put(kind, payload):
    sys.stdout.buffer.write(kind + len(payload).to_bytes(4, "big") + payload)
    sys.stdout.buffer.flush()
sys.stdout.buffer.write(b"__GANGLION__\\n")
put(b"D", f"{sys.argv[1]} {os.getpid()} {os.environ['COLUMNS']}x{os.environ['ROWS']};".encode())
stdin = sys.stdin.buffer
while True:
    kind = stdin.read(1)
    if not kind:
        break
    payload = stdin.read(int.from_bytes(stdin.read(4), "big"))
    if kind == b"M":
        said = json.loads(payload)
        put(b"D", f"{said['type']} {said.get('width')}x{said.get('height')};".encode())
    elif payload == b"q":
        print("what is left behind", file=sys.stderr)
        break
    elif payload == b"fill":
        put(b"D", b"x" * 100_000 + b";")
    else:
        put(b"D", payload + b";")
"""
"""What Textual's web driver says and hears, as a program of its own: it says which part it plays, its
process and its size, then answers each message."""
FIRST, SECOND, THIRD = (f"{at:032x}" for at in (1, 2, 3))


@dataclass
class Page:
    """One tab's line, and what came over it."""

    line: ClientWebSocketResponse
    seen: str = ""
    closed: int | None = None
    reading: asyncio.Task[None] | None = field(default=None, repr=False)

    async def read(self) -> None:
        async for message in self.line:
            if message.type is WSMsgType.BINARY:
                self.seen += message.data.decode()
        self.closed = self.line.close_code

    async def until(self, seen: Callable[[str], object]) -> None:
        async with asyncio.timeout(20 * patience()):
            while not seen(self.seen):
                assert not self.line.closed, f"closed after {self.seen!r}"
                await asyncio.sleep(0.01)

    async def end(self) -> None:
        """Wait until the server has closed its line."""
        assert self.reading is not None
        async with asyncio.timeout(20 * patience()):
            await self.reading

    async def type(self, text: str) -> None:
        await self.line.send_str(json.dumps(["stdin", text]))

    def drop(self) -> None:
        """As a cable that is cut: nobody says a word."""
        self.transport.abort()

    @property
    def transport(self) -> Transport:
        connection = self.line._response.connection
        assert connection is not None
        assert connection.transport is not None
        return connection.transport

    @property
    def part(self) -> str:
        return self.seen.split()[0]

    @property
    def pid(self) -> int:
        return int(self.seen.split()[1])


@dataclass
class Served:
    """A server whose tabs are small programs."""

    client: ClientSession
    server: BaseTestServer
    tabs: DashboardServer

    async def open(self, name: str, width: int = 100, height: int = 30) -> Page:
        line = await self.client.ws_connect(
            self.server.make_url("/ws").with_query(width=width, height=height, tab=name),
            headers=origin(self.server),
        )
        page = Page(line)
        page.reading = asyncio.create_task(page.read())
        return page

    async def opened(self, name: str) -> Page:
        page = await self.open(name)
        await page.until(lambda seen: seen.endswith(";"))
        return page


def words_of(drives: bool) -> list[str]:
    return [sys.executable, "-c", PROGRAM, "drives" if drives else "watches"]


@asynccontextmanager
async def served(words: Callable[[bool], list[str]] = words_of) -> AsyncIterator[Served]:
    tabs = DashboardServer(words, Gate(loopback=True, password=None))
    async with TestServer(tabs.application()) as server, ClientSession() as client:
        yield Served(client, server, tabs)


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def gone(pid: int) -> None:
    await asyncio.to_thread(until_true, lambda: not runs(pid), f"process {pid} is gone")


async def test_the_first_tab_drives_the_next_watch_and_each_is_a_process_that_ends_with_it() -> None:
    async with served() as here:
        first, second, third = [await here.opened(name) for name in (FIRST, SECOND, THIRD)]
        assert [page.part for page in (first, second, third)] == ["drives", "watches", "watches"]
        assert len({first.pid, second.pid, third.pid}) == 3
        assert " 100x30;" in first.seen
        await first.type("s")
        await first.line.send_str(json.dumps(["resize", {"width": 80, "height": 24}]))
        await first.until(lambda seen: seen.endswith("s;resize 80x24;"))
        await second.type("z")
        await second.until(lambda seen: seen.endswith("z;"))
        assert "z;" not in first.seen
        await third.line.close()
        await gone(third.pid)
        await first.type("a")
        await first.until(lambda seen: seen.endswith("a;"))
        await first.line.close()
        again = await here.opened(THIRD)
        assert not runs(first.pid)
        assert (again.part, second.part, runs(second.pid)) == ("drives", "watches", True)
    for page in (second, again):
        await gone(page.pid)


@pytest.mark.parametrize(
    ("how", "tab", "code"),
    [("closed", FIRST, None), ("dropped", FIRST, None), ("opened twice", FIRST, 4002), ("quit", THIRD, 4000)],
)
async def test_who_drives_is_who_drove_or_the_first_to_open_where_nobody_does(
    how: str, tab: str, code: int | None
) -> None:
    async with served() as here:
        first, second = await here.opened(FIRST), await here.opened(SECOND)
        match how:
            case "closed":
                await first.line.close()
            case "dropped":
                first.drop()
                await gone(first.pid)
            case "quit":
                await first.type("q")
                await first.end()
        assert (await here.opened(tab)).part == "drives"
        await gone(first.pid)
        if code is not None:
            await first.end()
            assert first.closed == code
        await second.type("c")
        await second.until(lambda seen: seen.endswith("c;"))


async def test_a_watching_tab_that_is_loaded_again_drives_where_nobody_does() -> None:
    async with served() as here:
        first, second = await here.opened(FIRST), await here.opened(SECOND)
        await first.type("q")
        await gone(first.pid)
        await second.line.close()
        again = await here.opened(SECOND)
        assert again.part == "drives"
        assert not runs(second.pid)


async def test_more_tabs_than_the_machine_should_bear_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_TABS", 1)
    async with served() as here:
        await here.opened(FIRST)
        more = await here.open(SECOND)
        await more.end()
        assert more.closed == 4003


@pytest.mark.parametrize(
    "said", ["{", "7", "[]", '["stdin"]', '["stdin", 5]', '["resize", {}]', '["resize", 1]', "[" * 3000]
)
async def test_what_no_page_of_ours_says_ends_its_line_alone(said: str) -> None:
    async with served() as here:
        first, second = await here.opened(FIRST), await here.opened(SECOND)
        await first.line.send_str(said)
        await first.end()
        await second.type("c")
        await second.until(lambda seen: seen.endswith("c;"))


@pytest.mark.parametrize("query", [{}, {"tab": "../x"}, {"tab": FIRST, "width": "wide"}])
async def test_a_line_without_the_name_of_a_tab_is_refused(query: dict[str, str]) -> None:
    async with served() as here:
        url = here.server.make_url("/ws").with_query(query)
        async with here.client.get(url, headers=origin(here.server) | SOCKET) as answer:
            assert answer.status == 400


async def test_the_page_has_all_from_this_server() -> None:
    async with served() as here:
        async with here.client.get(here.server.make_url("/")) as answer:
            text = await answer.text()
        assert "http" not in text
        named = [part.split('"')[0] for part in text.replace('src="', 'href="').split('href="')[1:]]
        files = [path for path in named if path.startswith("/")]
        assert len(files) == 5
        for path in files:
            async with here.client.get(here.server.make_url(path)) as answer:
                assert answer.status == 200, path
                body = await answer.read()
            if path.endswith(".css"):
                assert b"url(http" not in body
                assert b"//fonts" not in body
        async with here.client.get(here.server.make_url("/static/")) as answer:
            assert answer.status in (403, 404)
        async with here.client.get(here.server.make_url("/alive")) as answer:
            assert answer.status == 204


def test_a_size_is_kept_within_reason() -> None:
    assert size_of(80, "24") == (80, 24)
    assert size_of(10**9, 0) == (1000, 1)
    with pytest.raises(ValueError, match="wide"):
        size_of("wide", 1)


async def test_the_trainer_s_table_is_behind_the_gate_and_comes_again_by_itself() -> None:
    async def rows() -> list[tuple[str, ...]]:
        return [("student1", "<up>")]

    app = table_page(Gate(loopback=True, password="secret"), "class", ("student", "state"), rows)
    async with TestServer(app) as server, ClientSession(cookie_jar=CookieJar(unsafe=True)) as client:
        login = await client.get(server.make_url("/"))
        page = await client.post(login.url, data={"password": "secret"}, headers=origin(server))
        text = await page.text()
    assert login.url.path == "/login"
    assert "<tr><td>student1</td><td>&lt;up&gt;</td></tr>" in text
    assert 'http-equiv="refresh"' in text
