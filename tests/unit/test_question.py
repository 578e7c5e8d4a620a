"""A yes or no at the terminal: who may be asked, and what counts as yes."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from collections.abc import Iterator

import pytest

from replexplorer.cli.output import Output


class Screen(io.StringIO):
    """A stderr that somebody sees."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def typing(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """What a person types on the terminal that is stdin."""
    theirs, ours = os.openpty()
    with open(ours, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield theirs
    os.close(theirs)


def test_only_a_plain_yes_is_yes(typing: int) -> None:
    for line, yes in {"y": True, "YES ": True, "n": False, "": False, "yeah": False, "\x04": False}.items():
        screen = Screen()
        console = Output(err=screen)
        assert console.can_ask
        os.write(typing, line.encode() + b"\n")
        assert asyncio.run(console.says_yes("Re-apply\x1b[2J it?")) is yes, line
        assert screen.getvalue().endswith("it? [y/N] ")
        assert "\x1b[2J" not in screen.getvalue()


def test_nobody_is_asked_who_cannot_answer(typing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not Output(err=io.StringIO()).can_ask
    assert not Output(json=True, err=Screen()).can_ask
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert not Output(err=Screen()).can_ask
