"""Every verb, a row each; importing this imports none of them.

Law: a verb is its row here and its module. The function that the row names takes a Call and answers the exit
code; beside it, `NAME_arguments` declares what may be typed after the verb. Without one it takes --json.
"""

from __future__ import annotations

import importlib
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any, Final, NamedTuple


class Verb(NamedTuple):
    """One verb: its line in --help, and where its function is."""

    name: str
    summary: str
    target: str
    """`module:function` below `replexplorer.cli`."""

    @property
    def function(self) -> Callable[[Any], int]:
        """What carries it out; imports its module."""
        found: Callable[[Any], int] = self._named("")
        return found

    @property
    def arguments(self) -> Callable[[ArgumentParser], None] | None:
        """What declares its arguments; None where --json is the only one. Imports its module."""
        return self._named("_arguments")  # type: ignore[no-any-return]

    def _named(self, suffix: str) -> Any:
        module, _, function = self.target.partition(":")
        return getattr(importlib.import_module(f"replexplorer.cli.{module}"), function + suffix, None)


VERBS: Final[tuple[Verb, ...]] = (
    Verb("up", "bring the stack up, or repair it; wait until it answers", "stack:up"),
    Verb("down", "remove everything of the stack", "stack:down"),
    Verb("status", "nodes, protection, links and knobs", "stack:status"),
    Verb("attach", "watch, or change for a while, servers that you have", "attach:run"),
    Verb("revert", "undo what a killed attach left changed", "revert:run"),
    Verb("set", "turn knobs and wait until they are in effect", "knobs:set_knobs"),
    Verb("get", "knobs with value, default, range and help", "knobs:get"),
    Verb("reset", "all knobs to their defaults", "knobs:reset"),
    Verb("scene", "named sets of knobs: list, save, apply", "scene:run"),
    Verb("load", "run a load in the foreground and report", "load:run"),
    Verb("workload", "capture another server's workload as a file", "workload:run"),
    Verb("lab", "scripted experiments: list, run", "lab:run"),
    Verb("drill", "rehearse a failure and count what it lost: list, run", "drill:run"),
    Verb("fault", "break a node or a link on purpose: list, inject, clear", "fault:run"),
    Verb("failover", "promote a replica in place of a source that is gone", "roles:failover"),
    Verb("switchover", "swap the roles of the source and a replica", "roles:switchover"),
    Verb("rejoin", "let a node follow the source again, rebuilt if necessary", "roles:rejoin"),
    Verb("classroom", "a stack for each student: up, status, do, serve, down", "classroom:run"),
    Verb("sweep", "measure every combination of some knobs", "sweep:run"),
    Verb("compare", "two stacks side by side, and one against the other", "compare:run"),
    Verb("replay", "play a recorded session in the dashboard", "recorded:replay"),
    Verb("play", "perform a script of keys and waits on the dashboard", "play:run"),
    Verb("export", "a recorded session as a page, a table, a log or a cast", "recorded:export"),
    Verb("serve", "the dashboard in a browser: one drives, others watch", "serve:run"),
    Verb("predict", "what the model expects of settings; changes nothing", "predict:run"),
    Verb("advise", "which settings meet goals for latency, TPS and loss", "advise:run"),
    Verb("check-schema", "tables that hurt replication, each with its remedy", "check_schema:run"),
    Verb("dsn", "the address of a server for mysql, mycli, sysbench", "stack:dsn"),
    Verb("doctor", "what is here and what is missing, with the remedy", "machine:doctor"),
    Verb("config", "effective configuration and where each value came from", "machine:config"),
    Verb("themes", "built-in and own themes", "machine:themes"),
    Verb("keys", "key bindings", "machine:keys"),
    Verb("completion", "what makes the shell complete verbs, knobs and names", "completion:script"),
    Verb("schema", "JSON Schema of every --json document", "machine:schema"),
)
"""In the order of --help."""
