"""The tables of docs/ are drawn from the code, links lead to files, and the README names every verb."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from replexplorer.cli.fault import kinds_markdown
from replexplorer.cli.render import knob_catalogue_markdown
from replexplorer.cli.verbs import VERBS
from replexplorer.formats.calibration import shipped_calibration
from replexplorer.reports.prediction import validation_markdown
from replexplorer.ui.keys.actions import keys_markdown

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_the_table_of_knobs_is_drawn_from_the_catalogue() -> None:
    _, _, rest = page("knobs.md").partition("<!-- knobs: drawn from the catalogue -->\n")
    table, _, _ = rest.partition("<!-- end of knobs -->")
    assert table.strip() == knob_catalogue_markdown(), (
        "paste replexplorer.cli.render.knob_catalogue_markdown()"
    )


def test_the_table_of_faults_is_drawn_from_their_kinds() -> None:
    _, _, rest = page("faults.md").partition("<!-- faults: drawn from the code -->\n")
    table, _, _ = rest.partition("<!-- end of faults -->")
    assert table.strip() == kinds_markdown(), "paste replexplorer.cli.fault.kinds_markdown()"


def test_the_table_of_keys_is_drawn_from_the_actions() -> None:
    _, _, rest = page("keys.md").partition("<!-- keys: drawn from the actions -->\n")
    table, _, _ = rest.partition("<!-- end of keys -->")
    assert table.strip() == keys_markdown(), "paste replexplorer.ui.keys.actions.keys_markdown()"


def test_the_table_of_the_prediction_is_drawn_from_the_shipped_calibration() -> None:
    _, _, rest = page("model.md").partition("<!-- prediction: drawn from the shipped calibration -->\n")
    table, _, _ = rest.partition("<!-- end of prediction -->")
    assert table.strip() == validation_markdown(shipped_calibration()), (
        "`python -m tests.bench.calibration` writes replexplorer.reports.prediction.validation_markdown()"
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


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_every_verb_is_named(verb: str) -> None:
    assert f"`{verb}`" in README or f"`replexplorer {verb}" in README
