"""What people read on the screen and in errors is said plainly."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "replexplorer"
ROOT = PACKAGE.parent
UNCLEAR = re.compile(
    r"\banew\b|\bso many\b|\bof ours\b|nobody looked|come what may|drives no more|\btaken back\b"
    r"|\bgiven back\b|told, not asserted|at every look|wait if alone|\btells? (more|what)\b",
    re.IGNORECASE,
)

IDIOM = re.compile(
    r"(?<!`)\banew\b(?!`)|\bso many\b|nobody looked|come what may|\bgiven back\b|\bshall\b"
    r"|^(Draw|Forget|End) it\.$",
    re.IGNORECASE,
)
"""What docstrings do not say either, nor that alone."""


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """Every text of a module but its docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    statements = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in statements:
            yield node.lineno, node.value


@pytest.mark.parametrize(
    "file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: str(file.relative_to(PACKAGE))
)
def test_no_text_for_people_uses_the_project_s_own_idiom(file: Path) -> None:
    assert [(line, text) for line, text in texts(file) if UNCLEAR.search(text)] == []


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md"))]
)
def test_no_page_does_either(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if UNCLEAR.search(line)] == []


@pytest.mark.parametrize(
    "file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: str(file.relative_to(PACKAGE))
)
def test_no_docstring_does_either(file: Path) -> None:
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    found = [node.value for node in nodes if isinstance(node, ast.Expr)]
    said = [(text.lineno, text.value) for text in found if isinstance(text, ast.Constant)]
    assert [(line, text) for line, text in said if isinstance(text, str) and IDIOM.search(text)] == []
