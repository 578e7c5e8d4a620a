"""Every text of the program's modules, for the tests that read the tree: parsed once in a process."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Text:
    """A string literal, or a constant part of one."""

    line: int
    value: str
    is_prose: bool
    """A docstring, or the words under a field: a statement of its own."""


def texts_of(source: str) -> Iterator[Text]:
    """All texts of a module's source."""
    nodes = list(ast.walk(ast.parse(source)))
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Text(node.lineno, node.value, id(node) in prose)


@functools.cache
def texts_in(room: str) -> dict[str, tuple[Text, ...]]:
    """The texts of every module of a room of the checkout (`replexplorer`, `compose`), by its path there."""
    files = sorted((ROOT / room).rglob("*.py"))
    return {
        file.relative_to(ROOT / room).as_posix(): tuple(texts_of(file.read_text(encoding="utf-8")))
        for file in files
    }
