"""Tabs: the first drives, those beside it watch; each is a process that ends with it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from aiohttp import ClientWebSocketResponse, WSMsgType

from replexplorer.web import server as server_module
from replexplorer.web.gate import Gate
from replexplorer.web.server import DashboardServer, size_of, table_page
from tests.known import known
from tests.waiting import patience, until_true
from tests.web.test_gate import SOCKET, Browser, browsing

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
    reading: asyncio.Task[None] | None = None

    async def read(self) -> None:
        async for message in self.line:
            if message.type is WSMsgType.BINARY:
                self.seen += message.data.decode()

    async def says(self, end: str) -> None:
        """Wait for these last words of what it has seen."""
        async with asyncio.timeout(20 * patience()):
            while not self.seen.endswith(f"{end};"):
                assert not self.line.closed, f"closed after {self.seen!r}"
                await asyncio.sleep(0.01)

    async def end(self) -> int | None:
        """Wait until the server has closed its line, and tell how."""
        async with asyncio.timeout(20 * patience()):
            await known(self.reading)
        return self.line.close_code

    async def type(self, text: str) -> None:
        await self.line.send_str(json.dumps(["stdin", text]))

    async def answers(self, text: str) -> None:
        """It is alive."""
        await self.type(text)
        await self.says(text)

    def drop(self) -> None:
        """As a cable that is cut: neither end says a word."""
        known(known(self.line._response.connection).transport).abort()

    @property
    def part(self) -> str:
        return self.seen.split()[0]

    @property
    def pid(self) -> int:
        return int(self.seen.split()[1])


@dataclass
class Served(Browser):
    """A browser before a server whose tabs are small programs."""

    async def open(self, name: str) -> Page:
        url = self.server.make_url("/ws").with_query(width=100, height=30, tab=name)
        page = Page(await self.client.ws_connect(url, headers=self.own_page))
        page.reading = asyncio.create_task(page.read())
        return page

    async def opened(self, *names: str) -> list[Page]:
        pages = [await self.open(name) for name in names]
        for page in pages:
            await page.says("100x30")
        return pages


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    def words(drives: bool) -> list[str]:
        return [sys.executable, "-c", PROGRAM, "drives" if drives else "watches"]

    tabs = DashboardServer(words, Gate(loopback=True, password=None))
    async with browsing(tabs.application()) as browser:
        yield Served(browser.client, browser.server)


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
        pages = first, second, third = await here.opened(FIRST, SECOND, THIRD)
        assert [page.part for page in pages] == ["drives", "watches", "watches"]
        assert len({page.pid for page in pages}) == 3
        await first.type("s")
        await first.line.send_str(json.dumps(["resize", {"width": 80, "height": 24}]))
        await first.says("s;resize 80x24")
        await second.answers("z")
        assert "z;" not in first.seen
        await third.line.close()
        await gone(third.pid)
        await first.answers("a")
        await first.line.close()
        [again] = await here.opened(THIRD)
        assert not runs(first.pid)
        assert (again.part, second.part, runs(second.pid)) == ("drives", "watches", True)
    for page in (second, again):
        await gone(page.pid)


@pytest.mark.parametrize(
    ("how", "tab", "code"),
    [
        ("closed", FIRST, None),
        ("dropped", FIRST, None),
        ("opened twice", FIRST, 4002),
        ("quit", THIRD, 4000),
        ("quit", SECOND, 4000),
    ],
)
async def test_who_drives_is_who_drove_or_the_first_to_open_or_to_load_again_where_none_does(
    how: str, tab: str, code: int | None
) -> None:
    async with served() as here:
        first, second = await here.opened(FIRST, SECOND)
        match how:
            case "closed":
                await first.line.close()
            case "dropped":
                first.drop()
                await gone(first.pid)
            case "quit":
                await first.type("q")
                await first.end()
        [again] = await here.opened(tab)
        assert again.part == "drives"
        await gone(first.pid)
        if code is not None:
            assert await first.end() == code
        await (again if tab == SECOND else second).answers("c")


async def test_more_tabs_than_the_machine_should_bear_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_TABS", 1)
    async with served() as here:
        await here.opened(FIRST)
        assert await (await here.open(SECOND)).end() == 4003


async def test_what_no_page_of_ours_says_ends_its_line_alone() -> None:
    async with served() as here:
        [other] = await here.opened(SECOND)
        said = "{", "7", "[]", '["stdin"]', '["stdin", 5]', '["resize", {}]', '["resize", 1]', "[" * 3000
        for words in said:
            [page] = await here.opened(FIRST)
            await page.line.send_str(words)
            await page.end()
            await other.answers("c")
        for query in ("", "?tab=../x", f"?tab={FIRST}&width=wide"):
            assert (await here.ask(f"/ws{query}", here.own_page | SOCKET)).status == 400


async def test_the_page_has_all_from_this_server() -> None:
    async with served() as here:
        text = await (await here.ask("/")).text()
        assert "http" not in text
        files = re.findall('(?:href|src)="(/[^"]*)"', text)
        assert len(files) == 5
        for path in files:
            answer = await here.ask(path)
            assert answer.status == 200, path
            if path.endswith(".css"):
                assert not re.search(r"url\(http|//fonts", await answer.text())
        assert (await here.ask("/static/")).status in (403, 404)
        assert (await here.ask("/alive")).status == 204


def test_a_size_is_kept_within_reason() -> None:
    assert size_of(80, "24") == (80, 24)
    assert size_of(10**9, 0) == (1000, 1)
    with pytest.raises(ValueError, match="wide"):
        size_of("wide", 1)


async def test_the_trainer_s_table_is_behind_the_gate_and_comes_again_by_itself() -> None:
    async def rows() -> list[tuple[str, ...]]:
        return [("student1", "<up>")]

    app = table_page(Gate(loopback=True, password="secret"), "class", ("student", "state"), rows)
    async with browsing(app) as browser:
        assert (await browser.ask("/")).status == 303
        await browser.log_in("secret")
        text = await (await browser.ask("/")).text()
    assert "<tr><td>student1</td><td>&lt;up&gt;</td></tr>" in text
    assert 'http-equiv="refresh"' in text
