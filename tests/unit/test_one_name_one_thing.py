"""A class's name says one thing: two rooms do not use the same one for things of their own."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "replexplorer"
JSON = PACKAGE / "formats" / "json"
"""A verb's JSON may be called as the thing that it shows."""


def classes(root: Path, *, but: Path | None = None) -> dict[str, list[str]]:
    """Every public class at the top of a module, with the modules that have one of the name."""
    found = defaultdict(list)
    for file in sorted(root.rglob("*.py")):
        if but is None or not file.is_relative_to(but):
            for name in re.findall(r"^class ([A-Za-z]\w*)", file.read_text(encoding="utf-8"), re.MULTILINE):
                found[name].append(str(file.relative_to(root)))
    return found


def test_no_two_modules_have_a_class_of_the_same_name() -> None:
    assert {name: files for name, files in classes(PACKAGE, but=JSON).items() if len(files) > 1} == {}


def test_what_is_defined_twice_is_found(tmp_path: Path) -> None:
    for room in ("a", "b"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "model.py").write_text("class Run: ...\n", encoding="utf-8")
    assert classes(tmp_path) == {"Run": ["a/model.py", "b/model.py"]}
