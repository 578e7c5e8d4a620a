"""The verb `advise`: which settings meet goals, by what sweeps measured here and by the model."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Final

from replexplorer.cli.arguments import add_json
from replexplorer.cli.knobs import check_without_stack
from replexplorer.cli.output import delivered
from replexplorer.cli.predict import calibration_source, requested_of
from replexplorer.cli.running import run_async
from replexplorer.core.change.warnings import warnings_for
from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.sweep_runs import SweptRun
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import (
    SOURCE,
    KnobName,
    Place,
    Value,
    defaults,
    desired_of,
    parse_assignment,
)
from replexplorer.core.model.advice import Basis, MeasuredRun, advise
from replexplorer.core.model.fitted import OperatingPoint
from replexplorer.core.model.goals import Goal, read_goals
from replexplorer.core.model.operating_point import (
    READ_ONLY,
    beyond,
    check_known,
    looked_at,
    operating_point_of,
)
from replexplorer.formats import paths
from replexplorer.formats.calibration import load_calibration
from replexplorer.formats.small_file import read_bytes
from replexplorer.reports.advice import advice_document, render, write_report
from replexplorer.reports.directory import report_directory

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call

_CHOSEN: Final = frozenset(
    {
        keys.SEMI_SYNC,
        keys.WAIT_POINT,
        keys.SEMI_SYNC_REPLICAS,
        keys.SYNC_BINLOG,
        keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT,
    }
)
"""Knobs that are chosen where they are not named."""
_MOST_BYTES: Final = 1 << 26
"""Of a sweep's journal that is read."""


def run_arguments(parser: ArgumentParser) -> None:
    """What is typed after the verb."""
    parser.add_argument(
        "--goal",
        action="append",
        required=True,
        metavar="GOALS",
        help="mean, p50, p95, p99 (ms), tps, rpo, power_cut, process_dies (commits or s) with < <= > >= =;"
        " for example 'p99 < 20ms, rpo = 0'",
    )
    parser.add_argument(
        "assignments",
        nargs="*",
        metavar="KEY=VALUE",
        help="what holds in any case, as `set` takes it; the rest is the stack's, or the defaults",
    )
    parser.add_argument("--report", metavar="DIR", help="write report.md and result.json there")
    add_json(parser)


def run(call: Call) -> int:
    """Advise; answers 1 where no choice of settings meets the goals or may."""
    goals = read_goals(", ".join(call.args.goal))
    for text in call.args.assignments:
        check_without_stack(text)
    return run_async(_run(call, goals))


async def _run(call: Call, goals: tuple[Goal, ...]) -> int:
    console, report = call.console, report_directory(call.args.report)
    requested, roster, origin, system = await requested_of(call, "advise")
    if system.is_group:
        raise UsageError(
            f"advise chooses among semi-sync's settings, and {system.title} has none",
            "`replexplorer predict` says what a group should make",
        )
    replicas = roster.others
    named = desired_of(parse_assignment(text, roster) for text in call.args.assignments)
    values = {**defaults(replicas), **requested, **named}
    check_known(values, named)
    if not values[KnobName(keys.CLIENTS, Place.LOAD)]:
        raise UsageError("clients=0 commits nothing", "advise takes 1 or more: clients=8")
    if str(values[KnobName(keys.WORKLOAD, Place.LOAD)]) in READ_ONLY:
        raise UsageError("this workload commits nothing", "no setting changes that: name another workload")
    values[KnobName(keys.LOAD_MODE, Place.LOAD)] = "closed"
    calibrated = load_calibration(paths.calibration_file())
    evidence, unread = measured_here()
    basis = Basis(calibrated.calibration, calibrated.runs, evidence)
    chosen = {KnobName(key, SOURCE) for key in _CHOSEN}
    lacking = chosen - requested.keys() if origin == "stack" else ()
    advised = advise(goals, values, named, replicas, basis, lacking=lacking)
    told = [*advised.found, *([advised.closest] if advised.closest is not None else [])]
    calibration = calibrated.calibration

    def beyond_of(settings: Mapping[KnobName, Value]) -> tuple[str, ...]:
        turned = {**values, **settings}
        return beyond(operating_point_of(turned, replicas), turned, replicas, calibration)

    document = advice_document(
        advised,
        {name: v for name, v in looked_at(values).items() if name.key not in _CHOSEN or name in named},
        origin=origin,
        replicas=len(replicas),
        guessed=lambda advice: bool(beyond_of(advice.settings)),
        calibration=calibration_source(calibrated),
        warnings=[
            *([calibrated.problem] if calibrated.problem else []),
            *unread,
            *warnings_for(values, tuple(named), replicas),
            *dict.fromkeys(line for each in told for line in beyond_of(each.settings)),
        ],
    )
    for warning in document.warnings:
        console.warn(warning)
    write = None if report is None else partial(write_report, report, document)
    return delivered(console, document, partial(render, document), write) or (0 if document.found else 1)


def measured_here() -> tuple[list[MeasuredRun], list[str]]:
    """The runs that count of all sweeps that this machine keeps, and which files could not be read."""
    found: list[MeasuredRun] = []
    unread: list[str] = []
    for file in sorted(paths.sweeps_directory().glob("*.jsonl")):
        try:
            for line in read_bytes(file, _MOST_BYTES).splitlines():
                entry = json.loads(line)
                if "run" in entry and (run := _evidence(SweptRun.from_wire(entry["run"]))) is not None:
                    found.append(run)
        except (UsageError, KeyError, TypeError, ValueError, RecursionError):
            unread.append(f"{file} cannot be read as a sweep's journal: what is behind that is left out")
    return found, unread


def _evidence(run: SweptRun) -> MeasuredRun | None:
    if run.why is not None or not run.tps or run.setting is None or not run.service.count:
        return None
    known = {each.name for each in fields(OperatingPoint)}
    setting = {name: value for name, value in run.setting.items() if name in known}
    return MeasuredRun(OperatingPoint(**setting), run.tps, run.service)
