"""The docs are drawn from the code: tables, links, every verb's name, and the README's cast."""

from __future__ import annotations

import argparse
import html
import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.prediction_tables import validation_markdown
from replexplorer.cli.arguments import COMMANDS, GROUPS, build_parser
from replexplorer.cli.experiment import DRILLS
from replexplorer.core.experiment.drill import FIGURES
from replexplorer.core.fault import KINDS
from replexplorer.core.knobs.names import BY_KEY, Knob, describe_range, format_value
from replexplorer.formats.calibration import shipped_calibration
from replexplorer.formats.play_script import read_play
from replexplorer.ui.actions import ACTIONS, key_label, keys_of
from tests.pictures import SIZES

Rows = Iterable[tuple[str, ...]]
ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def drawn(name: str, what: str) -> str:
    """What stands in a page of the docs between the comments that begin and end it."""
    [found] = re.findall(rf"<!-- {what}: .*? -->\n(.*?)<!-- end of {what} -->", page(name), re.DOTALL)
    return re.sub(r"\|(---\|)+", lambda line: line[0].replace("---", " --- "), str(found).strip())


def table_of(rows: Rows, *heads: str) -> str:
    """A table of the docs."""
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


def knobs() -> Rows:
    for knob in BY_KEY.values():
        names = dict.fromkeys((knob.key, *knob.variables[:1]))
        yield ", ".join(f"`{name}`" for name in names), describe_range(knob), default_words(knob), knob.help


def keys() -> Rows:
    for each in ACTIONS:
        yield f"`{each.id}`", " ".join(f"`{key_label(key)}`" for key in keys_of(each.id, {})), each.title


def commands() -> Rows:
    parsers: dict[str, argparse.ArgumentParser] = {}

    def collect(parser: argparse.ArgumentParser, name: str = "") -> None:
        parsers[name] = parser
        for action in parser._actions:
            for word, child in action.choices.items() if isinstance(action.choices, dict) else ():
                collect(child, f"{name} {word}".strip())

    collect(build_parser())
    for group, verbs in GROUPS.items():
        yield f"**{group}**", ""
        for name in (name for verb in verbs for name in COMMANDS if f"{name} ".startswith(f"{verb} ")):
            typed = re.sub(r" \[-(?:[^][]|\[[^]]*\])*\]", "", parsers[name].format_usage())
            if "run" in COMMANDS[name] and name != "config":
                yield f"`{' '.join(typed.split()[2:])}`", COMMANDS[name]["does"]


def faults() -> Rows:
    return [(f"`{kind.form}`", kind.does, kind.without_node, kind.undone) for kind in KINDS]


def drills() -> Rows:
    return [(f"`{drill.name}`", drill.title, drill.teaches) for drill in DRILLS.shipped().values()]


def figures() -> Rows:
    return [(f"`{name}`", words) for name, words in FIGURES.items()]


TABLES = {
    "knobs: knobs | knob | values | default | what it does": knobs,
    "faults: faults | fault | what happens | without `@NODE` | `fault clear`": faults,
    "drills: drills | drill | what happens | what it shows": drills,
    "drills: figures | figure | what it is": figures,
    "keys: keys | id | keys | does": keys,
    "commands: commands | command | what it does": commands,
}
"""Pages and their tables with the heads: paste one where it differs."""


@pytest.mark.parametrize("where", TABLES)
def test_the_tables_of_the_docs_are_drawn_from_the_code(where: str) -> None:
    place, *heads = where.split(" | ")
    name, what = place.split(": ")
    assert drawn(f"reference/{name}", what) == table_of(TABLES[where](), *heads)


def test_the_table_of_the_prediction_is_drawn_from_the_shipped_calibration() -> None:
    table = drawn("measurements/calibration", "prediction")
    assert table == validation_markdown(shipped_calibration()), (
        "`python -m bench.calibration` writes bench.prediction_tables.validation_markdown()"
    )
    assert str(shipped_calibration().calibration.validation) in README


def test_the_readme_and_the_commands_are_read_in_five_minutes() -> None:
    assert len(README.encode()) <= 5 * 1024
    assert len(page("reference/commands").encode()) <= 9 * 1024


def test_links_and_named_files_are_there_and_lines_fit_a_terminal_and_a_diff() -> None:
    """At most 120 columns: what can be broken, which rows of tables, pictures and addresses cannot."""
    for file in PAGES:
        text = file.read_text(encoding="utf-8")
        linked = [file.parent / target for target in re.findall(r"\]\(([^)#:]+)\)", text)]
        assert [path for path in (*linked, *named_in(text)) if not path.exists()] == [], file
        text = re.sub(r"<!-- (\S+): .*?<!-- end of \1 -->", "", text, flags=re.DOTALL)
        lines = (re.sub(r"\]\([^)]*\)", "", line) for line in text.splitlines())
        assert [line for line in lines if len(line) > 120 and not line.startswith(("|", "!["))] == [], file


def named_in(text: str) -> list[Path]:
    return [ROOT / name for name in re.findall(r"\bdocs/[a-z/-]+\.md", text)]


def test_pages_that_the_code_names_are_there() -> None:
    sources = (file for room in ("replexplorer", "bench") for file in (ROOT / room).rglob("*"))
    for file in (each for each in sources if each.suffix in (".py", ".toml")):
        named = named_in(file.read_text(encoding="utf-8"))
        assert [path for path in named if not path.exists()] == [], file


# -- what the README shows was drawn by the play next to it, over the tour that ships


def test_the_pictures_are_of_the_play_and_load_nothing() -> None:
    for name in SIZES:
        play, file = (ROOT / "docs" / f"{name}.{kind}" for kind in ("play", "svg"))
        script = read_play(play.read_text(encoding="utf-8"), play.name)
        steps = sum(line.word == "caption" for line in script.lines) or 1
        ElementTree.parse(file)  # a browser shows nothing of what is not XML
        picture = html.unescape(file.read_text(encoding="utf-8")).replace("\xa0", " ")
        assert script.title in picture
        assert picture.count('class="step"') == steps, "run `make pictures`"
        assert "font/woff;base64" in picture
        assert not re.findall(r"url\((?!data:|#)", picture)
