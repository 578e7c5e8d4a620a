"""What verbs print is what `schema` says of it, made of the values' own types."""

from __future__ import annotations

import argparse
import io
import json
import math
import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pytest

from replexplorer.cli.arguments import OLD, VERBS, build_parser
from replexplorer.cli.machine import documents
from replexplorer.cli.output import Output
from replexplorer.core.errors import ServerRefused
from replexplorer.core.json_keys import json_keys, json_text
from replexplorer.engine import outcome
from replexplorer.formats.documents import plain, schema, to_json
from tests.typed import fields, table_of
from tests.unit.conftest import Run

DOCUMENTS = documents()
WHOLE = schema(DOCUMENTS)


class Word(StrEnum):
    ON = "on"


@json_text
@dataclass(frozen=True)
class Name:
    key: str

    def __str__(self) -> str:
        return f"{self.key}@db2"


@json_keys(hide="kept", show="double", source="from")
@dataclass(frozen=True)
class Thing:
    """A thing."""

    source: str
    """Where it was,
    or None."""
    kept: object = None
    mean_ms: float | None = None
    parts: dict[Name, tuple[Word, ...]] = field(default_factory=dict)
    _own: int = 0

    @property
    def double(self) -> float | None:
        """Twice the mean."""
        return None if self.mean_ms is None else 2 * self.mean_ms


def test_a_value_is_written_as_its_class_says(snapshot: object) -> None:
    assert plain(Thing("db1", object(), 1.23456, {Name("rtt"): (Word.ON,)})) == snapshot
    assert plain(Path("/a/\udcff")) == "/a/\udcff"


def test_zero_and_unknown_are_not_the_same() -> None:
    values = [None, 0.0, math.nan, math.inf, 0.0001234567, 3, True]
    assert json.loads(to_json(values)) == [None, 0.0, None, None, 0.000123, 3, True]


WRONG_KEYS = """\
show='source'  | has no source
hide='double'  | has no double
gone='here'    | has no gone
source='parts' | has parts twice
"""


def test_what_cannot_be_is_refused_where_it_is_said() -> None:
    for keys, told in table_of(WRONG_KEYS):
        with pytest.raises(TypeError, match=f"Thing {told}"):
            json_keys(**fields(keys))(Thing)
    with pytest.raises(TypeError, match="no JSON of <object"):
        plain([object()])


def test_a_type_is_described_as_it_is_written(snapshot: object) -> None:
    assert to_json(schema({"thing": Thing})["$defs"]["Thing"]) == snapshot


def test_the_schema_describes_every_document_and_is_json() -> None:
    whole = json.loads(to_json(WHOLE))
    assert set(whole["properties"]) == set(DOCUMENTS)
    assert whole["properties"]["themes"]["type"] == "array"
    assert whole["properties"]["get"]["additionalProperties"]["$ref"] == "#/$defs/KnobView"
    for reference in _references(whole):
        assert reference.removeprefix("#/$defs/") in whole["$defs"]


def test_a_description_is_for_who_reads_the_document() -> None:
    """A docstring is read in the source and in the schema, where a module says nothing."""
    told = [
        text
        for shape in WHOLE["$defs"].values()
        for text in (
            shape.get("description"),
            *(each.get("description") for each in shape.get("properties", {}).values()),
        )
        if text is not None
    ]
    assert len(told) > 300
    assert [text for text in told if re.search(r"\b(core|engine|formats|reports)[./]\w|\bNone\b", text)] == []


def test_one_document_alone_has_its_definitions_and_no_more(run: Run) -> None:
    for verb in ("status", "lab run", "keys"):
        found = json.loads(run(f"schema {verb}").out)
        assert {each.removeprefix("#/$defs/") for each in _references(found)} == set(found["$defs"])


def test_every_verb_that_prints_json_has_its_document() -> None:
    """`up`, `reset`, `preset save` and `preset apply` had none."""
    assert set(_verbs_with_json(build_parser([*VERBS, *OLD]))) <= set(DOCUMENTS)


def _verbs_with_json(parser: argparse.ArgumentParser, words: str = "") -> list[str]:
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                found += _verbs_with_json(child, f"{words} {name}".strip())
        elif "--json" in action.option_strings and parser._subparsers is None:
            found.append(words)
    return found


def test_a_set_that_failed_on_the_way_prints_what_its_shape_says() -> None:
    """A rollback that failed was printed as `false` where only `true` was allowed."""
    for not_undone in ((), ("primary: SET GLOBAL sync_binlog = 1",)):
        out = io.StringIO()
        error = outcome.RolledBack(ServerRefused(1227, "primary: 1227 access denied"), not_undone)
        Output(json=True, out=out, err=io.StringIO()).fail(error)
        printed = json.loads(out.getvalue())
        assert set(printed) == set(WHOLE["$defs"]["FailedSet"]["properties"])
        assert printed["rolled_back"] is not bool(not_undone)
        assert all(each in printed["error"]["hint"] for each in not_undone)
    assert {"$ref": "#/$defs/FailedSet"} in WHOLE["properties"]["set"]["anyOf"]


def _references(part: object) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if "$ref" in part else []
        return own + [found for inner in part.values() for found in _references(inner)]
    if isinstance(part, list):
        return [found for inner in part for found in _references(inner)]
    return []
