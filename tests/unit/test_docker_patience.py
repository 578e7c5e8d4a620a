"""A busy daemon is waited for, and one that says nothing is given up."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from replexplorer.adapters.docker import client
from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.core.errors import MissingPiece

TIMEOUT_S = 0.4


class Daemon:
    """A daemon that says nothing to the first calls of a kind."""

    def __init__(self) -> None:
        self.silent: dict[str, int] = {}
        """Part of a path to how many calls get no answer in time."""
        self.calls: list[str] = []

    def answer(self, method: str, path: str) -> Any:
        self.calls.append(f"{method} {path.partition('?')[0].rpartition('/')[0].rpartition('/')[2]}")
        for part, left in [*self.silent.items()]:
            if part in path and left:
                self.silent[part] -= 1
                time.sleep(3 * TIMEOUT_S)
        if "version" in path:
            return {"ApiVersion": "1.41", "Version": "20.10"}
        return {"Id": "x"} if method == "POST" else []


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    found = Daemon()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(found.answer(self.command, self.path)).encode()
            try:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                return  # who asked has gone

        do_POST = do_GET  # noqa: N815 - http.server calls it so

        def address_string(self) -> str:
            return "here"

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True

    path = tmp_path / "docker.sock"
    with Server(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        monkeypatch.setattr(client, "CALL_TIMEOUT_S", TIMEOUT_S)
        monkeypatch.setattr(client.connect, "__kwdefaults__", {"timeout_s": TIMEOUT_S})
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


async def call(work: Callable[[Any], Any]) -> Any:
    stack = DockerProvider("s")
    try:
        return await stack.on("db1", work)
    finally:
        await stack.close()


async def test_a_daemon_that_never_answers_is_given_up_in_one_line(daemon: Daemon) -> None:
    daemon.silent["containers/json"] = 9
    with pytest.raises(MissingPiece, match="Docker did not answer in time") as caught:
        await call(lambda client: client.containers())
    assert daemon.calls.count("GET containers") == 1
    assert "\n" not in str(caught.value)


async def test_a_daemon_that_accepts_and_says_nothing_is_waited_for_once(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PING_TIMEOUT_S", TIMEOUT_S)
    monkeypatch.setattr(client, "_silent_until_s", {})
    daemon.silent["_ping"] = 9
    for _ in range(3):
        with pytest.raises(MissingPiece, match="Docker did not answer in time"):
            await call(lambda client: client.containers())
    assert daemon.calls == ["GET "]
    client._silent_until_s.clear()
    daemon.silent.clear()
    assert await call(lambda client: client.containers()) == []
