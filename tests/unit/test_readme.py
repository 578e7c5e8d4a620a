"""The tables of docs/ are drawn from the code, links lead to files, and the README names every verb."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from bench.prediction_tables import validation_markdown
from replexplorer.cli.arguments import VERBS
from replexplorer.core.fault import KINDS
from replexplorer.core.knobs.names import BY_KEY, Knob, describe_range, format_value
from replexplorer.formats.calibration import shipped_calibration
from replexplorer.ui.actions import ACTIONS, key_label, keys_of

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def drawn(name: str, what: str) -> str:
    """What stands in a page of the docs between the comments that begin and end it."""
    [found] = re.findall(rf"<!-- {what}: .*? -->\n(.*?)<!-- end of {what} -->", page(name), re.DOTALL)
    return str(found).strip()


def table_of(rows: Iterable[tuple[str, ...]], *heads: str) -> str:
    """A table of the docs, to be pasted where it differs."""
    cells = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells)


def default_words(knob: Knob) -> str:
    """`AFTER_SYNC (mariadb: AFTER_COMMIT)`, `1 (mariadb server: 0)`."""
    usual = format_value(knob, knob.default)
    others = [f"{flavor}: {format_value(knob, value)}" for flavor, value in knob.flavor_defaults]
    others += [
        f"{flavor} server: {'by the machine' if value is None else format_value(knob, value)}"
        for flavor, value in knob.server_defaults
    ]
    return f"{usual} ({', '.join(others)})" if others else usual


def test_the_table_of_knobs_is_drawn_from_the_catalogue() -> None:
    table = drawn("knobs", "knobs")
    rows = [(f"`{k.key}`", describe_range(k), default_words(k), k.help) for k in BY_KEY.values()]
    wanted = table_of(rows, "knob", "values", "default", "what it does")
    assert table.replace("|---|---|---|---|", "| --- | --- | --- | --- |") == wanted


def test_the_table_of_faults_is_drawn_from_their_kinds() -> None:
    table = drawn("faults", "faults")
    rows = [(f"`{kind.form}`", kind.does, kind.without_node, kind.undone) for kind in KINDS]
    assert table == table_of(rows, "fault", "what happens", "without `@NODE`", "`fault clear`")


def test_the_table_of_keys_is_drawn_from_the_actions() -> None:
    rows = [
        (f"`{each.id}`", " ".join(f"`{key_label(key)}`" for key in keys_of(each.id, {})), each.title)
        for each in ACTIONS
    ]
    table = drawn("keys", "keys").replace("|---|---|---|", "| --- | --- | --- |")
    assert table == table_of(rows, "id", "keys", "does"), "paste it"


def test_the_table_of_the_prediction_is_drawn_from_the_shipped_calibration() -> None:
    table = drawn("model", "prediction")
    assert table == validation_markdown(shipped_calibration()), (
        "`python -m bench.calibration` writes bench.prediction_tables.validation_markdown()"
    )
    assert str(shipped_calibration().calibration.validation) in README


def test_the_readme_is_read_in_five_minutes() -> None:
    assert len(README.encode()) <= 9 * 1024


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.name)
def test_links_and_named_files_are_there(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    linked = [file.parent / target for target in re.findall(r"\]\(([^)#:]+)\)", text)]
    named = [ROOT / name for name in re.findall(r"\bdocs/[a-z-]+\.md", text)]
    assert not [path for path in (*linked, *named) if not path.exists()]


def test_every_verb_is_named() -> None:
    assert [v for v in VERBS if f"`{v}`" not in README and f"`replexplorer {v}" not in README] == []
