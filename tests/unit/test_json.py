"""What verbs print is what `schema` says of it, made of the values' own types."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path

from replexplorer.cli.machine import documents
from replexplorer.cli.output import Output
from replexplorer.core.errors import ServerRefused
from replexplorer.engine import outcome
from replexplorer.formats.documents import schema, to_json
from tests.unit.conftest import Run

DOCUMENTS = documents()
WHOLE = schema(DOCUMENTS)


def test_zero_and_unknown_are_not_the_same() -> None:
    values = [None, 0.0, math.nan, math.inf, 0.0001234567, 3, True, Path("/a/\udcff")]
    assert json.loads(to_json(values)) == [None, 0.0, None, None, 0.000123, 3, True, "/a/\udcff"]


def referenced(text: str) -> set[str]:
    """Of a schema's text, the definitions that it refers to."""
    return set(re.findall(r'"#/\$defs/(\w+)"', text))


def test_the_schema_describes_every_document_and_one_alone_has_its_definitions_and_no_more(run: Run) -> None:
    whole = json.loads(to_json(WHOLE))
    assert set(whole["properties"]) == set(DOCUMENTS)
    assert referenced(to_json(WHOLE)) <= set(whole["$defs"])
    for verb in ("status", "lab run", "keys"):
        text = run(f"schema {verb}").out
        assert referenced(text) == set(json.loads(text)["$defs"])


def test_a_description_is_for_who_reads_the_document() -> None:
    """A docstring is read in the source and in the schema, where a module says nothing."""
    told = re.findall(r'"description": "(.*)"', to_json(WHOLE))
    assert len(told) > 300
    assert [text for text in told if re.search(r"\b(core|engine|formats|reports)[./]\w|\bNone\b", text)] == []


def test_a_set_that_failed_on_the_way_prints_what_its_shape_says() -> None:
    """A rollback that failed was printed as `false` where only `true` was allowed."""
    for not_undone in ((), ("primary: SET GLOBAL sync_binlog = 1",)):
        out, refusal = io.StringIO(), ServerRefused(1227, "primary: 1227 access denied")
        Output(json=True, out=out, err=io.StringIO()).fail(outcome.RolledBack(refusal, not_undone))
        printed = json.loads(out.getvalue())
        assert set(printed) == set(WHOLE["$defs"]["FailedSet"]["properties"])
        assert printed["rolled_back"] is not bool(not_undone)
        assert all(each in printed["error"]["hint"] for each in not_undone)
    assert {"$ref": "#/$defs/FailedSet"} in WHOLE["properties"]["set"]["anyOf"]
