"""docs/drills.md: its tables are drawn from the code, and its example is a drill."""

from __future__ import annotations

import re
from pathlib import Path

from replexplorer.cli.experiment import DRILLS
from replexplorer.core.experiment.drill import FIGURES, Doing
from replexplorer.formats.experiment_file import StepTable, read_drill

PAGE = Path(__file__).parents[2] / "docs" / "drills.md"


def part(name: str) -> str:
    """What stands between a table's marks."""
    text = PAGE.read_text(encoding="utf-8")
    return text.partition(f"<!-- {name}: drawn from the code -->\n")[2].partition(f"<!-- end of {name} -->")[
        0
    ]


def test_every_drill_stands_there() -> None:
    rows = [f"| `{drill.name}` | {drill.title} | {drill.teaches} |\n" for drill in DRILLS.shipped().values()]
    assert part("drills") == "".join(["| drill | what happens | what it shows |\n|---|---|---|\n", *rows])


def test_every_figure_stands_there() -> None:
    rows = [f"| `{name}` | {words} |\n" for name, words in FIGURES.items()]
    assert part("figures") == "".join(["| figure | what it is |\n|---|---|\n", *rows])


def test_every_step_stands_there() -> None:
    for doing in Doing:
        assert f"`{doing} = " in PAGE.read_text(encoding="utf-8"), doing
        assert doing.value in StepTable.model_fields


def test_the_example_is_a_drill(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    (tmp_path / "mine.toml").write_text(found[1])
    assert read_drill(tmp_path / "mine.toml").expects
