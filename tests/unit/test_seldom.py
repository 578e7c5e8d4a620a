"""A long test that passed is run again as soon as what it tests is another, and never silently left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests import seldom


def test_a_digest_is_of_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").write_text("two")
    (tmp_path / "__pycache__").mkdir()
    digests = {seldom.digest(("*",), tmp_path)}
    for name, text in (("a", "onet"), ("b", "wo"), ("c", "")):
        (tmp_path / name).write_text(text)
        seldom.digest.cache_clear()
        digests.add(seldom.digest(("*",), tmp_path))
    assert len(digests) == 4
    (tmp_path / "__pycache__" / "a.pyc").write_text("compiled")
    seldom.digest.cache_clear()
    assert seldom.digest(("**/*",), tmp_path) in digests


@dataclass
class Item:
    """Of a test, what is looked at."""

    patterns: tuple[str, ...]
    kept: dict[str, object] = field(default_factory=dict)
    name: str = "test_that"
    path: Path = Path(__file__)

    def iter_markers(self, name: str) -> Iterator[pytest.Mark]:
        if self.patterns:
            yield pytest.Mark(name, self.patterns, {}, _ispytest=True)

    @property
    def config(self) -> Any:
        cache = SimpleNamespace(get=self.kept.get, set=lambda key, value: self.kept.update({key: value}))
        return SimpleNamespace(cache=cache)


@pytest.mark.parametrize(
    ("before", "now", "skipped"),
    [
        (("tests/guest/*",), ("tests/guest/*",), True),
        (("tests/guest/*",), ("tests/guest/*", "tests/sidecar.py"), False),
        ((), (), False),
    ],
)
def test_only_the_same_test_of_the_same_content_is_left_out(
    before: tuple[str, ...], now: tuple[str, ...], skipped: bool
) -> None:
    first = Item(before)
    assert not seldom.passed_before(cast(pytest.Item, first))
    seldom.remember(cast(pytest.Item, first))
    assert seldom.passed_before(cast(pytest.Item, Item(now, first.kept))) is skipped
    assert not seldom.passed_before(cast(pytest.Item, Item(now, first.kept, name="test_other")))
