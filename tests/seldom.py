"""Long tests of what seldom changes: skipped where the same content has passed before.

A test says with `@pytest.mark.content("compose/**/*", ...)` what files it tests; its own file counts as
well. What passed is remembered beside the checkout, in pytest's cache, so a fresh checkout runs everything.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REASON = "passed here before with the same content: `make test-all` runs it again"


@functools.lru_cache
def digest(patterns: tuple[str, ...], root: Path = ROOT) -> str:
    """A hash of the names and contents of all files of the patterns."""
    files = sorted({file for pattern in patterns for file in root.glob(pattern) if file.is_file()})
    digest = hashlib.sha256()
    for file in files:
        if "__pycache__" not in file.parts:
            content = file.read_bytes()
            digest.update(f"{file.relative_to(root)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def content_of(item: pytest.Item) -> str | None:
    """What the test is a test of; None for one that always runs."""
    marks = list(item.iter_markers("content"))
    if not marks:
        return None
    patterns = {str(pattern) for mark in marks for pattern in mark.args}
    return digest((*sorted(patterns), item.path.relative_to(ROOT).as_posix()))


def passed_before(item: pytest.Item) -> bool:
    """Whether this test passed here with this content."""
    content, cache = content_of(item), getattr(item.config, "cache", None)
    return content is not None and cache is not None and cache.get(_key(item), None) == content


def will_run(item: pytest.Item) -> bool:
    """Whether this run of the tests does not skip it."""
    return bool(item.config.getoption("--in-full")) or not passed_before(item)


def remember(item: pytest.Item) -> None:
    """The test has passed."""
    content, cache = content_of(item), getattr(item.config, "cache", None)
    if content is not None and cache is not None:
        cache.set(_key(item), content)


def _key(item: pytest.Item) -> str:
    name = hashlib.sha256(f"{item.path.relative_to(ROOT)}::{item.name}".encode()).hexdigest()[:24]
    return f"passed/{name}"
