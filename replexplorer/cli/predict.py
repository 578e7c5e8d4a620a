"""The verb `predict`: what the model expects of settings; nothing is turned, and no stack is needed."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from replexplorer.cli.arguments import add_json
from replexplorer.cli.knobs import check_without_stack
from replexplorer.cli.output import delivered
from replexplorer.cli.render import LOSSES, exposure_lines, losses_shortly
from replexplorer.cli.running import run_async
from replexplorer.cli.sweep import scene_texts
from replexplorer.cli.wiring import attached
from replexplorer.core.change.warnings import warnings_for
from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.core.experiment.sweep import SCENE_KEYS, read_grid
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import (
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
from replexplorer.core.model.ceiling import bound
from replexplorer.core.model.exposure import expected_exposure
from replexplorer.core.model.fitted import Calibration, OperatingPoint, Prediction
from replexplorer.core.model.operating_point import (
    beyond,
    bound_rtt_ms,
    check_known,
    looked_at,
    operating_point_of,
    unacknowledged,
)
from replexplorer.core.model.prediction import alone_ms, predict
from replexplorer.core.system import ASYNC, SYSTEMS, System, system_of, who_has
from replexplorer.core.text import number, table
from replexplorer.core.topology import Roster, new_roster
from replexplorer.formats import paths
from replexplorer.formats.calibration import Calibrated, load_calibration
from replexplorer.formats.json.predict import PredictCalibration, PredictDocument, PredictTerm
from replexplorer.reports.documents import exposure_document

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call

_NO_STACK = new_roster(1)
"""The nodes of a stack that is not there."""


def run_arguments(parser: ArgumentParser) -> None:
    """What is typed after the verb."""
    parser.add_argument(
        "assignments",
        nargs="*",
        metavar="KEY=VALUE",
        help="as `set` takes them; others are the stack's, or the defaults where none runs",
    )
    parser.add_argument(
        "--system",
        choices=tuple(SYSTEMS),
        help="predict for a new stack of this system; without it for the stack that runs, else async",
    )
    add_json(parser)


class _Asked(NamedTuple):
    """The knobs that a prediction is asked for."""

    values: Mapping[KnobName, Value]
    named: Sequence[KnobName]
    replicas: tuple[str, ...]
    origin: str
    """Where the knobs that were not named come from."""
    system: System = ASYNC


def run(call: Call) -> int:
    """Predict for the knobs that are named, the stack's others, else the defaults."""
    texts: list[str] = call.args.assignments
    if any(_is_list(text) for text in texts):
        read_grid(texts, partial(parse_assignment, roster=new_roster()), scene_texts)
        return run_async(_run_list(call, texts))
    for text in texts:
        check_without_stack(text)
    return run_async(_run(call, texts))


def _is_list(text: str) -> bool:
    """Whether several values are given, or a scene's."""
    key, _, value = text.partition("=")
    return "," in value or key.strip() in SCENE_KEYS


async def _run_list(call: Call, texts: Sequence[str]) -> int:
    """Predict for every combination, as `sweep` would measure them."""
    requested, roster, origin, system = await requested_of(call, "predict", call.args.system)
    replicas = roster.others
    grid = read_grid(texts, partial(parse_assignment, roster=roster), scene_texts)
    _check_system([name for cell in grid.cells for name in cell.values], system)
    calibrated = load_calibration(paths.calibration_file())
    documents = []
    for cell in grid.cells:
        values = {**defaults(replicas), **requested, **cell.values}
        check_known(values, cell.values)
        documents.append(predicted(_Asked(values, tuple(cell.values), replicas, origin, system), calibrated))
    for warning in dict.fromkeys(warning for document in documents for warning in document.warnings):
        call.console.warn(warning)
    if call.console.json:
        call.console.document([*documents])
        return 0
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
    numbers, columns = range(first, first + 3 + len(LOSSES)), call.console.columns
    call.console.print(table(rows, heads, right=numbers, fold=len(heads) - 1, columns=columns))
    call.console.print("\n" + _origin(documents[0]))
    return 0


async def _run(call: Call, texts: Sequence[str]) -> int:
    requested, roster, origin, system = await requested_of(call, "predict", call.args.system)
    replicas = roster.others
    named = desired_of(parse_assignment(text, roster) for text in texts)
    _check_system(named, system)
    values = {**defaults(replicas), **requested, **named}
    check_known(values, named)
    asked = _Asked(values, tuple(named), replicas, origin, system)
    calibrated = load_calibration(paths.calibration_file())
    document = predicted(asked, calibrated)
    for warning in document.warnings:
        call.console.warn(warning)
    return delivered(call.console, document, partial(render, document))


async def requested_of(
    call: Call, verb: str, system: str | None = None
) -> tuple[Mapping[KnobName, Value], Roster, str, System]:
    """What is requested of the stack, its nodes, whose values these are, and what it is; of a `system` that
    is named and not the stack's the defaults."""
    try:
        async with attached(call, verb) as session:
            if system in (None, session.system.name):
                requested = {name: view.requested for name, view in session.knobs().items()}
                return requested, session.roster, "stack", session.system
    except (StackUnavailable, MissingPiece):
        pass
    if system is None:
        return {}, _NO_STACK, "defaults", ASYNC
    named = system_of(system)
    return {}, new_roster(named.nodes - 1, mesh=named.mesh), "defaults", named


def _check_system(named: Iterable[KnobName], system: System) -> None:
    """Raise UsageError for a knob that the system's servers cannot have."""
    for name in named:
        if not system.has(name.knob):
            raise UsageError(f"{system.title} has no {name.key}", who_has(name.knob))


def predicted(asked: _Asked, calibrated: Calibrated) -> PredictDocument:
    """The document; raises UsageError when nobody would commit."""
    values, calibration = asked.values, calibrated.calibration
    setting = operating_point_of(values, asked.replicas, system=asked.system)
    rate_tps = None
    if values[KnobName(keys.LOAD_MODE, Place.LOAD)] == OPEN:
        rate_tps = float(values[KnobName(keys.RATE, Place.LOAD)])
    stuck = unacknowledged(values, asked.replicas, asked.system)
    least_ms = bound_rtt_ms(values, asked.replicas, asked.system)
    ceiling_tps = None if stuck else _ceiling_tps(replace(setting, rtt_ms=least_ms), calibration)
    prediction = predict(setting, calibration, at_most_tps=ceiling_tps, rate_tps=rate_tps)
    if prediction is None:
        raise UsageError("clients=0 commits nothing", "predict takes 1 or more")
    guessed = beyond(setting, values, asked.replicas, calibration)
    warnings = [
        *([calibrated.problem] if calibrated.problem else []),
        *warnings_for(values, asked.named, asked.replicas),
        *guessed,
    ]
    return PredictDocument(
        settings={str(name): value for name, value in looked_at(values).items()},
        others_from="stack" if asked.origin == "stack" else "defaults",
        tps=None if stuck else round(prediction.tps, 2),
        latency_ms=None if stuck else round(prediction.latency_ms, 3),
        ceiling_tps=None if ceiling_tps is None else round(ceiling_tps, 2),
        terms=[] if stuck else _terms(prediction),
        exposure=exposure_document(
            expected_exposure(
                values,
                asked.replicas,
                setting,
                None if stuck else prediction.tps,
                least_rtt_ms=calibration.least_rtt_ms,
            )
        ),
        limit=stuck or prediction.limit,
        calibrated=not guessed,
        calibration=calibration_source(calibrated),
        warnings=warnings,
    )


def _ceiling_tps(setting: OperatingPoint, calibration: Calibration) -> float | None:
    """The bound that the link sets, with the calibrated local cost of one client; none without semi-sync."""
    if not setting.semi_sync:
        return None
    ceiling = bound(setting.clients, setting.rtt_ms, alone_ms(setting, calibration))
    return None if ceiling is None else ceiling.tps


def _terms(prediction: Prediction) -> list[PredictTerm]:
    return [
        PredictTerm(name=str(term), ms=round(ms, 3), share=round(ms / prediction.latency_ms, 4))
        for term, ms in prediction.terms.items()
    ]


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
    rows = [
        (term.name, number(term.ms, 2), f"{term.share:.1%}".replace("%", " %")) for term in document.terms
    ]
    clients = int(document.settings[keys.CLIENTS])
    ceiling = f"; ceiling of {clients} client{'s' * (clients > 1)} {number(document.ceiling_tps)} TPS"
    figures = [
        f"{number(document.tps)} TPS, {number(document.latency_ms, 2)} ms a commit"
        + ("" if document.calibrated else ", not calibrated")
        + (ceiling if document.ceiling_tps is not None else "")
    ]
    lines = [
        *(figures if document.tps is not None else ()),
        document.limit,
        "",
        *((table(rows, ("TERM OF A COMMIT", "ms", "SHARE"), right=(1, 2)), "") if rows else ()),
        *exposure_lines(document.exposure),
        "",
        f"for {knobs}; knobs not named {others}",
        _origin(document),
    ]
    return "\n".join(lines)


def _origin(document: PredictDocument) -> str:
    """What the model was fitted to."""
    source = document.calibration
    whose = "the shipped model" if source.origin == "shipped" else "this machine's model"
    error = f"{source.median_error:.0%}".replace("%", " %")
    return (
        f"{whose}: median error {error} over {source.cells} cells, cross-validated;"
        f" {source.day}, {source.runs} runs, {source.server} on {source.machine}"
    )
