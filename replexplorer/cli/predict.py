"""The verb predict: what the model expects of settings, or which ones meet goals; nothing is turned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from replexplorer.cli.knobs import check_without_stack, scene_texts
from replexplorer.cli.render import LOSSES, exposure_lines, labelled, losses_shortly
from replexplorer.cli.wiring import attached
from replexplorer.core.change.warnings import warnings_for
from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.core.experiment.sweep import SCENE, Grid, read_grid
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import (
    SOURCE,
    KnobName,
    Place,
    Value,
    defaults,
    desired_of,
    format_value,
    parse_assignment,
    parse_name,
)
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.model.advice import Advice, Basis, advise, expected_exposure, read_goals
from replexplorer.core.model.ceiling import bound
from replexplorer.core.model.operating_point import (
    READ_ONLY,
    beyond,
    bound_rtt_ms,
    check_known,
    looked_at,
    operating_point_of,
    unacknowledged,
)
from replexplorer.core.model.prediction import alone_ms
from replexplorer.core.model.prediction import predict as prediction_of
from replexplorer.core.system import ASYNC, System, system_of, who_has
from replexplorer.core.text import number, table
from replexplorer.core.topology import Roster, new_roster
from replexplorer.formats import paths
from replexplorer.formats.calibration import Calibrated, load_calibration
from replexplorer.reports.prediction import (
    AdviseDocument,
    PredictCalibration,
    PredictDocument,
    PredictTerm,
    advice_report,
)
from replexplorer.reports.report import plain_text

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call


class Ground(NamedTuple):
    """What settings are predicted on: a stack, or one that would be made."""

    requested: Mapping[KnobName, Value]
    roster: Roster
    origin: Literal["stack", "defaults"]
    """Where the knobs that are not named come from."""
    system: System

    def values(self, named: Mapping[KnobName, Value]) -> dict[KnobName, Value]:
        """All knobs, with those that are named; raises UsageError for one that the model or the system does
        not know."""
        for name in named:
            if not self.system.has(name.knob):
                raise UsageError(f"{self.system.title} has no {name.key}", who_has(name.knob))
        values = {**defaults(self.roster.others), **self.requested, **named}
        check_known(values, named)
        return values


async def predict(call: Call) -> int:
    """Predict for the knobs that are named, or for every combination of them, as `sweep` would measure them;
    or say which settings meet goals. The other knobs are the stack's, else at their defaults."""
    if call.args.goal:
        return await meet_goals(call)
    texts: list[str] = call.args.assignments
    has_lists = any("," in text or text.partition("=")[0].strip() == SCENE for text in texts)
    if has_lists:
        read_grid(texts, partial(parse_assignment, roster=new_roster()), scene_texts)
    else:
        for text in texts:
            check_without_stack(text)
    ground = await ground_of(call, call.args.system)
    parse = partial(parse_assignment, roster=ground.roster)
    grid = read_grid(texts, parse, scene_texts) if has_lists else None
    calibrated = load_calibration(paths.calibration_file())
    cells = [desired_of(map(parse, texts))] if grid is None else [cell.values for cell in grid.cells]
    documents = [predicted(ground, named, calibrated) for named in cells]
    for warning in dict.fromkeys(warning for document in documents for warning in document.warnings):
        call.console.warn(warning)
    if grid is None:
        return call.console.deliver(documents[0], partial(render, documents[0]))
    return call.console.deliver(documents, lambda: _table(grid, documents, call.console.columns))


def _table(grid: Grid, documents: Sequence[PredictDocument], columns: int | None) -> str:
    """A row a combination, and what the model was fitted to."""
    rows = [
        (
            *cell.labels,
            number(each.tps),
            number(each.latency_ms, 2),
            number(each.ceiling_tps),
            *losses_shortly(each.exposure),
            each.limit,
        )
        for cell, each in zip(grid.cells, documents, strict=True)
    ]
    first = len(grid.dimensions)
    heads = (*(each.key for each in grid.dimensions), "TPS", "ms", "CEILING", *LOSSES, "LIMIT")
    numbers = range(first, first + 3 + len(LOSSES))
    found = table(rows, heads, right=numbers, fold=len(heads) - 1, columns=columns)
    return f"{found}\n\n{_origin(documents[0])}"


async def ground_of(call: Call, system: str | None = None) -> Ground:
    """The stack that runs; where none does, or `system` is another, the defaults of a new one."""
    try:
        async with attached(call, "predict") as session:
            if system in (None, session.system.name):
                requested = {name: view.requested for name, view in session.knobs().items()}
                return Ground(requested, session.roster, "stack", session.system)
    except (StackUnavailable, MissingPiece):
        pass
    if system is None:
        return Ground({}, new_roster(1), "defaults", ASYNC)
    named = system_of(system)
    return Ground({}, new_roster(named.nodes - 1, mesh=named.mesh), "defaults", named)


def predicted(ground: Ground, named: Mapping[KnobName, Value], calibrated: Calibrated) -> PredictDocument:
    """The document; raises UsageError when nobody would commit."""
    values, calibration = ground.values(named), calibrated.calibration
    replicas, system = ground.roster.others, ground.system
    setting = operating_point_of(values, replicas, system=system)
    rate_tps = None
    if values[KnobName(keys.LOAD_MODE, Place.LOAD)] == OPEN:
        rate_tps = float(values[KnobName(keys.RATE, Place.LOAD)])
    stuck = unacknowledged(values, replicas, system)
    least_ms = bound_rtt_ms(values, replicas, system)
    ceiling_tps = None
    if setting.semi_sync and not stuck:  # the link's bound, with the calibrated local cost of one client
        ceiling = bound(setting.clients, least_ms, alone_ms(replace(setting, rtt_ms=least_ms), calibration))
        ceiling_tps = None if ceiling is None else ceiling.tps
    prediction = prediction_of(setting, calibration, at_most_tps=ceiling_tps, rate_tps=rate_tps)
    if prediction is None:
        raise UsageError("clients=0 commits nothing", "predict takes 1 or more")
    guessed = beyond(setting, values, replicas, calibration)
    tps = None if stuck else prediction.tps
    return PredictDocument(
        settings={str(name): value for name, value in looked_at(values).items()},
        others_from=ground.origin,
        tps=tps,
        latency_ms=None if stuck else prediction.latency_ms,
        ceiling_tps=ceiling_tps,
        terms=[
            PredictTerm(name=str(term), ms=ms, share=ms / prediction.latency_ms)
            for term, ms in ({} if stuck else prediction.terms).items()
        ],
        exposure=expected_exposure(values, replicas, setting, tps, least_rtt_ms=calibration.least_rtt_ms),
        limit=stuck or prediction.limit,
        calibrated=not guessed,
        calibration=calibration_source(calibrated),
        warnings=[*_problems(calibrated), *warnings_for(values, tuple(named), replicas), *guessed],
    )


def _problems(calibrated: Calibrated) -> list[str]:
    """What is wrong with this machine's own calibration."""
    return [] if calibrated.problem is None else [calibrated.problem]


def calibration_source(calibrated: Calibrated) -> PredictCalibration:
    """What the model was fitted to."""
    calibration = calibrated.calibration
    return PredictCalibration(
        origin="shipped" if calibration.is_shipped else "own",
        file=str(calibrated.file),
        day=calibration.day,
        machine=calibration.machine,
        server=calibration.server,
        runs=calibration.runs,
        cells=calibration.validation.cells,
        median_error=calibration.validation.median_error,
        p90_error=calibration.validation.p90_error,
        noise=calibration.validation.noise,
    )


def render(document: PredictDocument) -> str:
    """TPS, latency and bound, the limit, the terms of a commit, and what it rests on."""
    others = "as the stack has them" if document.others_from == "stack" else "at their defaults"
    knobs = ", ".join(
        f"{key} {format_value(parse_name(key).knob, value)}" for key, value in document.settings.items()
    )
    lines = []
    if document.tps is not None:
        clients = int(document.settings[keys.CLIENTS])
        figures = f"{number(document.tps)} TPS, {number(document.latency_ms, 2)} ms a commit"
        figures += "" if document.calibrated else ", not calibrated"
        if document.ceiling_tps is not None:
            ceiling = number(document.ceiling_tps)
            figures += f"; ceiling of {clients} client{'s' * (clients > 1)} {ceiling} TPS"
        lines.append(figures)
    lines += [document.limit, ""]
    if document.terms:
        rows = [(each.name, number(each.ms, 2), f"{each.share * 100:.1f} %") for each in document.terms]
        lines += [table(rows, ("TERM OF A COMMIT", "ms", "SHARE"), right=(1, 2)), ""]
    lines += [*labelled(exposure_lines(document.exposure)), ""]
    return "\n".join([*lines, f"for {knobs}; knobs not named {others}", _origin(document)])


def _origin(document: PredictDocument) -> str:
    """What the model was fitted to."""
    source = document.calibration
    whose = "the shipped model" if source.origin == "shipped" else "this machine's model"
    error = f"{source.median_error:.0%}".replace("%", " %")
    return (
        f"{whose}: median error {error} over {source.cells} cells, cross-validated;"
        f" {source.day}, {source.runs} runs, {source.server} on {source.machine}"
    )


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


async def meet_goals(call: Call) -> int:
    """Say which settings meet the goals; returns 1 where none does or may."""
    console = call.console
    goals = read_goals(", ".join(call.args.goal))
    for text in call.args.assignments:
        check_without_stack(text)
    ground = await ground_of(call)
    if ground.system.is_group:
        raise UsageError(
            f"--goal chooses among semi-sync's settings, and {ground.system.title} has none",
            "without it `replexplorer predict` says what a group should make",
        )
    replicas = ground.roster.others
    named = desired_of(parse_assignment(text, ground.roster) for text in call.args.assignments)
    values = ground.values(named)
    if not values[KnobName(keys.CLIENTS, Place.LOAD)]:
        raise UsageError("clients=0 commits nothing", "--goal takes 1 or more: clients=8")
    if str(values[KnobName(keys.WORKLOAD, Place.LOAD)]) in READ_ONLY:
        raise UsageError("this workload commits nothing", "no setting changes that: name another workload")
    values[KnobName(keys.LOAD_MODE, Place.LOAD)] = "closed"
    calibrated = load_calibration(paths.calibration_file())
    basis = Basis(calibrated.calibration, calibrated.runs)
    chosen = {KnobName(key, SOURCE) for key in _CHOSEN}
    lacking = chosen - ground.requested.keys() if ground.origin == "stack" else ()
    advised = advise(goals, values, named, replicas, basis, lacking=lacking)
    told = [*advised.found, *([advised.closest] if advised.closest is not None else [])]
    calibration = calibrated.calibration

    def beyond_of(settings: Mapping[KnobName, Value]) -> tuple[str, ...]:
        turned = {**values, **settings}
        return beyond(operating_point_of(turned, replicas), turned, replicas, calibration)

    def judged(advice: Advice) -> Advice:
        return replace(advice, calibrated=not beyond_of(advice.settings))

    document = AdviseDocument(
        goals=advised.goals,
        conditions={
            name: value
            for name, value in looked_at(values).items()
            if name.key not in _CHOSEN or name in named
        },
        others_from=ground.origin,
        replicas=len(replicas),
        looked_at=advised.looked_at,
        found=[judged(each) for each in advised.found],
        closest=None if advised.closest is None else judged(advised.closest),
        calibration=calibration_source(calibrated),
        warnings=[
            *_problems(calibrated),
            *warnings_for(values, tuple(named), replicas),
            *dict.fromkeys(line for each in told for line in beyond_of(each.settings)),
        ],
    )
    for warning in document.warnings:
        console.warn(warning)
    found = advice_report(document)
    console.deliver(document, partial(plain_text, found, console.columns))
    return 0 if document.found else 1
