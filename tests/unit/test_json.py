"""The JSON shapes are those of the contract, and `schema` describes them."""

from __future__ import annotations

import argparse
import io
import json
import math

import pytest
from pydantic import ValidationError

from replexplorer.cli.arguments import build_parser
from replexplorer.cli.output import Output
from replexplorer.core.errors import ServerRefused
from replexplorer.engine import outcome
from replexplorer.formats.json.error import ErrorDocument
from replexplorer.formats.json.get import GetKnob
from replexplorer.formats.json.lab import LabResult
from replexplorer.formats.json.measured import Latency
from replexplorer.formats.json.model import JsonObject
from replexplorer.formats.json.schema import DOCUMENTS, document_schema, schema
from replexplorer.formats.json.set import RolledBack, SetReport
from replexplorer.formats.json.status import Status
from replexplorer.formats.json.text import to_json

ROOM = "replexplorer.formats.json."

STATUS = """
{"stack": "default", "state": "up",
 "nodes": [{"name": "db1", "role": "primary", "host": "10.0.0.2", "port": 3306, "published_port": 49153,
            "path": "direct", "flavor": "mysql", "version": "9.7.4-2", "server_uuid": "u", "reachable": true,
            "is_source": true,
            "gtid_executed": "u:1-5"},
           {"name": "db2", "role": "replica", "host": null, "port": null, "published_port": null,
            "path": null, "flavor": null, "version": null, "server_uuid": null, "reachable": false,
            "is_source": false,
            "gtid_executed": null,
            "io_thread": "on", "sql_thread": "on", "lag_s": 0.0}],
 "protection": {"state": "protected", "requested": true, "operational": true, "replicas_acking": 1,
                "replicas_required": 1, "wait_point": "after_sync", "timeout_ms": 10000, "fallbacks": 0},
 "links": [{"a": "db1", "b": "db2", "replica": "db2", "backend": "nfqueue",
            "rtt_asked_ms": 85.0, "rtt_measured_ms": 85.4,
            "rtt_base_ms": 0.1, "jitter_ms": 0.0, "loss_percent": 0.0, "partition": "none", "dropped": 0}],
 "disks": [{"node": "db1", "fsync_delay_ms": 0.0, "fsync_measured_ms": 0.2, "disk_probe_ms": 0.1,
            "fsyncs": {"redo": 0, "binlog": 0, "relay": 0, "other": 0}}],
 "exposure": {"process_dies": {"commits": 0, "low": 0, "high": 0, "age_ms": null},
              "power_cut": {"commits": 455, "low": 443, "high": 470, "age_ms": 413.0},
              "source_lost": {"unknown": "no replica has answered yet"}},
 "load": {"driver": null, "clients": 0}, "footprint_bytes": 0,
 "knobs": {"sync_binlog": {"requested": 1, "effective": 1, "node": "db1"}}}
"""
"""The contract's own example with its dots filled in."""

GET = """
{"requested": 1, "effective": 1, "default": 1, "min": 0, "max": 4294967295, "unit": "commits",
 "node": "db1", "scope": "global", "restart": "none", "note": null, "help": "x"}
"""

LAB = """
{"lab": "wan-insert", "source": {"title": "t", "author": "a", "url": "u"}, "server": "mysql 9.7.4-2",
 "started": "2026-01-01T00:00:00Z",
 "phases": [{"name": "semi-sync", "settings": {"rtt": 85}, "rtt_measured_ms": 85.4, "fsync_measured_ms": 0.1,
             "disk_probe_ms": 0.1, "published": {"value": 11.51, "unit": "tps"}, "ceiling_tps": 11.7,
             "predicted_tps": 11.6, "tps": 11.4, "latency_ms": null, "n": 300}],
 "relations": [{"name": "semi-sync stays below 1/RTT", "holds": true, "evidence": "11.4 <= 11.7"}],
 "verdict": "holds"}
"""

SET = """
{"changed": [{"key": "sync_binlog", "node": "db1", "name": "sync_binlog", "before": 1, "requested": 0,
              "effective": 0, "took_ms": 1.5, "statements": ["SET GLOBAL sync_binlog = 0"]}],
 "warnings": ["w"], "rolled_back": false}
"""


@pytest.mark.parametrize(
    ("shape", "text"), [(Status, STATUS), (GetKnob, GET), (LabResult, LAB), (SetReport, SET)]
)
def test_the_contracts_example_fits(shape: type[Status], text: str) -> None:
    document = shape.model_validate_json(text)
    assert shape.model_validate_json(to_json(document)) == document
    for key, value in json.loads(text).items():
        if not isinstance(value, dict | list):
            assert json.loads(to_json(document))[key] == value


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError):
        ErrorDocument.model_validate({"error": {"code": "c", "message": "m", "hint": ""}, "more": 1})


def test_zero_and_unknown_are_not_the_same() -> None:
    unknown = Latency(mean=None, min=None, p50=None, p95=None, p99=None, max=None)
    assert json.loads(to_json(unknown))["mean"] is None
    assert json.loads(to_json(unknown.model_copy(update={"mean": 0.0})))["mean"] == 0.0


def test_a_number_that_is_none_is_null() -> None:
    latency = Latency(mean=math.nan, min=math.inf, p50=1, p95=1, p99=1, max=1)
    assert json.loads(to_json(latency))["mean"] is None
    assert json.loads(to_json(latency))["min"] is None


def test_the_schema_describes_every_document_and_is_json() -> None:
    whole = json.loads(to_json(schema()))
    assert set(whole["properties"]) == set(DOCUMENTS)
    assert whole["properties"]["themes"]["type"] == "array"
    assert whole["properties"]["get"]["additionalProperties"]["$ref"] == "#/$defs/GetKnob"
    for reference in _references(whole):
        assert reference.removeprefix("#/$defs/") in whole["$defs"]


@pytest.mark.parametrize("verb", DOCUMENTS)
def test_one_document_alone_has_its_definitions_and_no_more(verb: str) -> None:
    alone = document_schema(verb)
    assert {reference.removeprefix("#/$defs/") for reference in _references(alone)} == set(alone["$defs"])


def test_every_verb_that_prints_json_has_its_document() -> None:
    """`up`, `reset`, `scene save` and `scene apply` had none."""
    assert set(_verbs_with_json(build_parser())) - {"schema"} <= set(DOCUMENTS)


def test_every_shape_is_part_of_a_document() -> None:
    """What a module of the room declares and does not put into its DOCUMENTS would be in no schema."""
    shapes = [shape for shape in _below(JsonObject) if shape.__module__.startswith(ROOM)]
    last = {shape.__name__ for shape in shapes if not shape.__subclasses__()}
    assert last <= set(schema()["$defs"]) <= {shape.__name__ for shape in shapes}


def _below(shape: type[JsonObject]) -> list[type[JsonObject]]:
    return [found for each in shape.__subclasses__() for found in (each, *_below(each))]


def _verbs_with_json(parser: argparse.ArgumentParser, words: str = "") -> list[str]:
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                found += _verbs_with_json(child, f"{words} {name}".strip())
        elif "--json" in action.option_strings:
            found.append(words)
    return found


@pytest.mark.parametrize("not_undone", [(), ("primary: SET GLOBAL sync_binlog = 1",)])
def test_a_set_that_failed_on_the_way_prints_what_its_shape_says(not_undone: tuple[str, ...]) -> None:
    """A rollback that failed was printed as `false` where only `true` was allowed."""
    out = io.StringIO()
    error = outcome.RolledBack(ServerRefused(1227, "primary: 1227 access denied"), not_undone)
    Output(json=True, out=out, err=io.StringIO()).fail(
        error, changed=[], warnings=[], rolled_back=error.complete
    )
    printed = RolledBack.model_validate_json(out.getvalue())
    assert printed.rolled_back is not bool(not_undone)
    assert all(each in printed.error.hint for each in not_undone)
    alternatives = document_schema("set")["anyOf"]
    assert {"$ref": "#/$defs/RolledBack"} in alternatives


def _references(part: object) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if "$ref" in part else []
        return own + [found for inner in part.values() for found in _references(inner)]
    if isinstance(part, list):
        return [found for inner in part for found in _references(inner)]
    return []
