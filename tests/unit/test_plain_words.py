"""What people read on the screen and in errors is said plainly."""

from __future__ import annotations

import re

import pytest

from tests.program_texts import ROOT, texts_in

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


def found_in_program(words: re.Pattern[str], *, prose: bool) -> list[str]:
    """Where the program's docstrings, or all its other texts, say this."""
    return [
        f"{module}:{text.line}: {text.value}"
        for module, texts in texts_in("replexplorer").items()
        for text in texts
        if text.is_prose is prose and words.search(text.value)
    ]


def test_no_text_for_people_uses_the_project_s_own_idiom() -> None:
    assert found_in_program(UNCLEAR, prose=False) == []


def test_no_docstring_does_either() -> None:
    assert found_in_program(IDIOM, prose=True) == []


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md"))]
)
def test_no_page_does_either(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if UNCLEAR.search(line)] == []


@pytest.mark.parametrize(("words", "text"), [(UNCLEAR, "so many rows"), (IDIOM, "Forget it.")])
def test_the_rule_finds_what_it_is_for(words: re.Pattern[str], text: str) -> None:
    assert words.search(text)
