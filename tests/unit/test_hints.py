"""Commands to type in a remedy address the stack that it is about."""

from __future__ import annotations

import io
import json

from replexplorer.cli.output import Output
from replexplorer.core.errors import StackUnavailable
from replexplorer.core.text import command, with_stack

HINTS = """\
`replexplorer up` brings it back
replexplorer down, then up
`replexplorer down --stack demo` first
`replexplorer down --all`
`replexplorer doctor` says more
`replexplorer scene list` shows them"""


def test_a_remedy_names_the_stack_where_it_is_not_the_default(snapshot: object) -> None:
    assert with_stack(HINTS, "default") == HINTS
    assert [with_stack(text, "demo") for text in HINTS.splitlines()] == snapshot


def test_a_command_is_written_as_it_is_typed() -> None:
    assert command("down", "default") == "`replexplorer down`"
    assert command("set", "demo", "partition=none") == "`replexplorer set partition=none --stack demo`"


def test_an_error_of_a_verb_addresses_its_stack_for_people_and_for_scripts() -> None:
    out, err = io.StringIO(), io.StringIO()
    console = Output(json=True, out=out, err=err)
    console.stack = "demo"
    console.fail(StackUnavailable("replica is down", "`replexplorer up` brings it back"))
    assert err.getvalue() == (
        "replexplorer: replica is down: `replexplorer up --stack demo` brings it back\n"
    )
    assert json.loads(out.getvalue())["error"]["hint"] == "`replexplorer up --stack demo` brings it back"
