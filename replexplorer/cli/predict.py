"""The verb predict: what the model expects of settings, or which ones meet goals; nothing is turned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Literal, NamedTuple

from replexplorer.cli.arguments import check_without_stack
from replexplorer.cli.entry import Call, run_async
from replexplorer.cli.lines import LOSSES, exposure_lines, labelled
from replexplorer.core.change.warnings import warnings_for
from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.core.experiment.sweep import Grid, is_preset, read_grid
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
from replexplorer.core.model.advice import (
    Advice,
    FigureRange,
    Goal,
    GoalFigure,
    Verdict,
    advise,
    expected_exposure,
    read_goals,
    replica_lags,
)
from replexplorer.core.model.fit import checks, ratio_error
from replexplorer.core.model.operating_point import (
    READ_ONLY,
    beyond,
    bound_rtt_ms,
    check_known,
    looked_at,
    operating_point_of,
    unacknowledged,
)
from replexplorer.core.model.prediction import ReplicaLag, link_bound_tps
from replexplorer.core.model.prediction import predict as prediction_of
from replexplorer.core.records import printed
from replexplorer.core.server.exposure import Exposure
from replexplorer.core.stats.ratio import Ratio, interval_text, ratio_text
from replexplorer.core.system import ASYNC, System, system_of, who_has
from replexplorer.core.text import folded, number, table
from replexplorer.core.topology import Roster, new_roster
from replexplorer.formats import paths
from replexplorer.formats.calibration import Calibrated, load_calibration
from replexplorer.formats.scenes import scene_texts


@printed
class PredictTerm:
    """One term of a predicted commit."""

    name: str
    ms: float
    share: float
    """Of the latency, 0 to 1."""


@printed
class PredictDocument:
    """`predict --json`."""

    settings: dict[str, Value]
    """The knobs that it rests on."""
    others_from: Literal["stack", "defaults"]
    """The knobs that were not named."""
    tps: float | None
    """Null where no commit is acknowledged; `limit` says why."""
    latency_ms: float | None
    """Mean service time of a commit."""
    ceiling_tps: float | None
    """The bound that the link sets to these clients; null without semi-sync."""
    terms: list[PredictTerm]
    exposure: Exposure
    """What a failure would lose at this TPS, the mean over time."""
    replicas: list[ReplicaLag]
    """What a minute of this load leaves for each to apply; none of which the model does not know."""
    limit: str
    calibrated: bool
    """False where no run of `calibration` had the like; `warnings` says of what."""
    calibration: Calibrated
    warnings: list[str]
    to_first: Ratio | None = None
    """Of several combinations: TPS over the first one's, with what nine of ten such ratios of the
    calibration's cells are within, each cell predicted from the others. No bounds where either is not
    calibrated, or its TPS is the arrival rate; null of the first."""


@printed
class AdviseDocument:
    """`predict --goal --json`."""

    goals: tuple[Goal, ...]
    conditions: Mapping[KnobName, Value]
    """The knobs that were not chosen and matter."""
    others_from: Literal["stack", "defaults"]
    replicas: int
    looked_at: int
    """Choices of settings."""
    found: Sequence[Advice]
    """Those that meet the goals, then those that may; of each what gives up least comes first."""
    closest: Advice | None
    """Where none does."""
    calibration: Calibrated
    warnings: list[str]


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


def predict(call: Call) -> int:
    """Predict for the knobs that are named, or for every combination of them, as `sweep` would measure them;
    or say which settings meet goals. The other knobs are the stack's, else at their defaults."""
    texts: list[str] = call.args.assignments
    wants = call.args.goal or call.args.command == "advise"
    goals = read_goals(", ".join(call.args.goal or ())) if wants else ()
    has_lists = not goals and any("," in text or is_preset(text.partition("=")[0]) for text in texts)
    if has_lists:
        read_grid(texts, partial(parse_assignment, roster=new_roster()), scene_texts)
    else:
        for text in texts:
            check_without_stack(text)
    ground = ground_of(call, None if goals else call.args.system)
    parse = partial(parse_assignment, roster=ground.roster)
    calibrated = load_calibration(paths.calibration_file())
    if goals:
        return _meet(call, goals, ground, desired_of(map(parse, texts)), calibrated)
    grid = read_grid(texts, parse, scene_texts) if has_lists else None
    cells = [desired_of(map(parse, texts))] if grid is None else [cell.values for cell in grid.cells]
    documents = [predicted(ground, named, calibrated) for named in cells]
    times = ratio_error(checks(calibrated.runs)) if grid else None
    for each in documents[1:]:
        each.to_first = _ratio(documents[0], each, times)
    for warning in dict.fromkeys(warning for document in documents for warning in document.warnings):
        call.console.warn(warning)
    if grid is None:
        return call.console.deliver(documents[0], lambda: render(documents[0], call.console.columns))
    return call.console.deliver(documents, lambda: _table(grid, documents, call.console.columns))


def ground_of(call: Call, system: str | None) -> Ground:
    """The stack that runs; where none does, or `system` is another, the defaults of a new one. Docker is not
    asked for a stack of which this machine has no accounts: nobody can log in."""
    if paths.stack_directory(call.values.stack).exists():
        with suppress(StackUnavailable, MissingPiece):
            ground = run_async(_ground_of_stack(call))
            if system in (None, ground.system.name):
                return ground
    if system is None:
        return Ground({}, new_roster(1), "defaults", ASYNC)
    named = system_of(system)
    return Ground({}, new_roster(named.nodes - 1, mesh=named.mesh), "defaults", named)


async def _ground_of_stack(call: Call) -> Ground:
    from replexplorer.cli.wiring import attached

    async with attached(call, "predict") as session:
        requested = {name: view.requested for name, view in session.knobs().items()}
        return Ground(requested, session.roster, "stack", session.system)


def predicted(ground: Ground, named: Mapping[KnobName, Value], calibrated: Calibrated) -> PredictDocument:
    """The document; raises UsageError when nobody would commit."""
    values, calibration = ground.values(named), calibrated.calibration
    replicas, system = ground.roster.others, ground.system
    setting = operating_point_of(values, replicas, system=system)
    is_open = values[KnobName(keys.LOAD_MODE, Place.LOAD)] == OPEN
    rate_tps = float(values[KnobName(keys.RATE, Place.LOAD)]) if is_open else None
    stuck = unacknowledged(values, replicas, system)
    least_ms = bound_rtt_ms(values, replicas, system)
    ceiling_tps = None if stuck else link_bound_tps(setting, least_ms, calibration)
    prediction = prediction_of(setting, calibration, at_most_tps=ceiling_tps, rate_tps=rate_tps)
    if prediction is None:
        raise UsageError("clients=0 commits nothing", "predict takes 1 or more")
    guessed = beyond(setting, values, replicas, calibration)
    tps = None if stuck else prediction.tps
    applies = not system.is_group and setting.workload not in READ_ONLY
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
        replicas=replica_lags(values, replicas, tps, calibration) if tps is not None and applies else [],
        limit=stuck or prediction.limit,
        calibrated=not guessed,
        calibration=calibrated,
        warnings=_warnings(calibrated, values, named, replicas, guessed),
    )


def _ratio(first: PredictDocument, other: PredictDocument, times: float | None) -> Ratio | None:
    """TPS over the first one's, off by `times` at most; None where either is not known."""
    if not first.tps or other.tps is None:
        return None
    ratio, both = other.tps / first.tps, (first, other)
    if times is None or any(not each.calibrated or keys.RATE in each.settings for each in both):
        return Ratio(ratio, None, None)
    return Ratio(ratio, ratio / times, ratio * times)


def _warnings(
    calibrated: Calibrated,
    values: Mapping[KnobName, Value],
    named: Mapping[KnobName, Value],
    replicas: Sequence[str],
    guessed: Sequence[str],
) -> list[str]:
    """What is wrong with this machine's own calibration, with the settings, and what is a guess."""
    problem = () if calibrated.problem is None else (calibrated.problem,)
    return [*problem, *warnings_for(values, tuple(named), replicas), *dict.fromkeys(guessed)]


_CHOSEN: Final = (
    keys.SEMI_SYNC,
    keys.WAIT_POINT,
    keys.SEMI_SYNC_REPLICAS,
    keys.SYNC_BINLOG,
    keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT,
)
"""Knobs that are chosen where they are not named."""


def _meet(
    call: Call,
    goals: Sequence[Goal],
    ground: Ground,
    named: Mapping[KnobName, Value],
    calibrated: Calibrated,
) -> int:
    """Say which settings meet the goals; returns 1 where none does or may."""
    console = call.console
    if ground.system.is_group:
        raise UsageError(
            f"--goal chooses among semi-sync's settings, and {ground.system.title} has none",
            "without it `replexplorer predict` says what a group should make",
        )
    replicas, values = ground.roster.others, ground.values(named)
    if not values[KnobName(keys.CLIENTS, Place.LOAD)]:
        raise UsageError("clients=0 commits nothing", "--goal takes 1 or more: clients=8")
    if str(values[KnobName(keys.WORKLOAD, Place.LOAD)]) in READ_ONLY:
        raise UsageError("this workload commits nothing", "no setting changes that: name another workload")
    values[KnobName(keys.LOAD_MODE, Place.LOAD)] = "closed"
    chosen = {KnobName(key, SOURCE) for key in _CHOSEN}
    lacking = chosen - ground.requested.keys() if ground.origin == "stack" else ()
    found, closest, looked = advise(goals, values, named, replicas, calibrated.calibration, lacking=lacking)
    guessed = [line for each in (*found, *filter(None, [closest])) for line in each.guessed]
    document = AdviseDocument(
        goals=tuple(goals),
        conditions={
            name: value
            for name, value in looked_at(values).items()
            if name.key not in _CHOSEN or name in named
        },
        others_from=ground.origin,
        replicas=len(replicas),
        looked_at=looked,
        found=found,
        closest=closest,
        calibration=calibrated,
        warnings=_warnings(calibrated, values, named, replicas, guessed),
    )
    for warning in document.warnings:
        console.warn(warning)
    console.deliver(document, lambda: "\n".join(folded(line, console.columns) for line in _advice(document)))
    return 0 if document.found else 1


# -- as text


def _table(grid: Grid, documents: Sequence[PredictDocument], columns: int | None) -> str:
    """A row a combination, and what the model was fitted to."""
    rows = [
        (
            *cell.labels,
            number(each.tps),
            _to_first(each.to_first),
            number(each.latency_ms, 2),
            number(each.ceiling_tps),
            *(loss.short for loss in each.exposure.losses),
            number(max((lag.lag_s for lag in each.replicas), default=None)),
            each.limit,
        )
        for cell, each in zip(grid.cells, documents, strict=True)
    ]
    first = len(grid.dimensions)
    dimensions = (each.key for each in grid.dimensions)
    heads = (*dimensions, "TPS", "TO FIRST", "ms", "CEILING", *LOSSES, "LAG s", "LIMIT")
    numbers = range(first, first + 5 + len(LOSSES))
    found = table(rows, heads, right=numbers, fold=len(heads) - 1, columns=columns)
    return f"{found}\n\n{folded(_TO_FIRST, columns)}\n{folded(_origin(documents[0].calibration), columns)}"


_TO_FIRST: Final = (
    "TO FIRST: TPS over that of the first row, and what nine of ten such ratios of the calibration's cells"
    " are within, each cell predicted from the others; no bounds where one of the two is not calibrated"
)


def _to_first(ratio: Ratio | None) -> str:
    """`x0.12 [0.10, 0.14]`."""
    if ratio is None:
        return ""
    bounds = (ratio.value, ratio.low, ratio.high)
    return f"{ratio_text(*bounds)} {interval_text(*bounds)}".rstrip()


def render(document: PredictDocument, columns: int | None) -> str:
    """TPS, latency and bound, the limit, the terms of a commit, and what it rests on."""
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
    lines += [*labelled(exposure_lines(document.exposure)), *(each.words for each in document.replicas), ""]
    knobs = {parse_name(key): value for key, value in document.settings.items()}
    rests_on = (_basis(knobs, document.others_from), _origin(document.calibration))
    return "\n".join([*lines, *(folded(line, columns) for line in rests_on)])


def _basis(knobs: Mapping[KnobName, Value], others_from: str) -> str:
    """The knobs that count, and where the rest come from."""
    others = "as the stack has them" if others_from == "stack" else "at their defaults"
    told = ", ".join(f"{name} {format_value(name.knob, value)}" for name, value in knobs.items())
    return f"for {told}; knobs not named {others}"


def _origin(source: Calibrated) -> str:
    """What the model was fitted to."""
    whose = "the shipped model" if source.origin == "shipped" else "this machine's model"
    found = source.calibration
    return f"{whose}: {found.validation}; {found.day}, {found.runs} runs, {found.server} on {found.machine}"


_MOST_CHOICES: Final = 5
"""Choices that the text has; all are in --json."""


def _advice(document: AdviseDocument) -> Sequence[str]:
    """The answer, what each choice is and gives up, and what it rests on, line by line."""
    found, looked = document.found, document.looked_at
    met = sum(each.verdict is Verdict.MEETS for each in found)
    answer = f"of {looked} choices of settings {met} meet that, {len(found) - met} may; least given up first:"
    if not found:
        answer = f"none of {looked} choices of settings meets that; the closest:"
    lines = [", ".join(goal.text for goal in document.goals), answer]
    for at, each in enumerate([*found[:_MOST_CHOICES], *filter(None, [document.closest])], start=1):
        lines += ["", f"{at}. {each.verdict}", *(f"  {line}" for line in _choice(each))]
    if len(found) > _MOST_CHOICES:
        lines += ["", f"{len(found) - _MOST_CHOICES} more, in --json"]
    replicas = f"{document.replicas} replica{'s' * (document.replicas != 1)}"
    basis = f"{_basis(document.conditions, document.others_from)}; {replicas}"
    return *lines, "", basis, _origin(document.calibration), "a sweep of these settings measures them"


def _choice(choice: Advice) -> Sequence[str]:
    """The command, each goal with its figure, the figures, and what is given up."""
    figures = {wanted.value: number(each.value) for wanted, each in choice.figures.items()}
    tps = figures.pop(GoalFigure.TPS)
    means = ", ".join(f"{name} {value}" for name, value in figures.items())
    by = "the model" + ("" if choice.calibrated else ", not calibrated")
    return [
        choice.command,
        *(f"{each.goal.text}: {each.verdict}, {_range(each.figure)}" for each in choice.judged),
        f"predicted by {by}: {tps} TPS, {means} ms",
        *(f"gives up: {each}" for each in choice.gives_up or ["nothing"]),
    ]


def _range(figure: FigureRange | None) -> str:
    """`12.3 (9.8 to 15.4)`."""
    if figure is None:
        return "not known"
    digits = 0 if figure.origin == "settings" and figure.high == int(figure.high) else 2
    ends = f" ({number(figure.low, digits)} to {number(figure.high, digits)})"
    return f"{number(figure.value, digits)}{ends if figure.high > figure.low else ''}"
