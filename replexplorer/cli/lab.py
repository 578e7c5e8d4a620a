"""The verb `lab`: list the scripted experiments, run one and say whether its relations hold."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from replexplorer.cli.console import number, table
from replexplorer.cli.load_report import latency
from replexplorer.cli.running import run_async
from replexplorer.cli.wiring import composed
from replexplorer.config.shapes import LabEntry, LabPhase, Relation
from replexplorer.config.shapes import LabResult as LabDocument
from replexplorer.core.errors import ExpectationFailed
from replexplorer.engine.labs import LABS, find_lab
from replexplorer.engine.labs.lab import Lab, LabResult, PhaseResult, run_lab
from replexplorer.ports import UpOptions

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call


def run(call: Call) -> int:
    """List the labs, or run one."""
    if call.args.action == "list":
        return _list(call)
    return run_async(_run(call, find_lab(call.args.name)))


def _list(call: Call) -> int:
    if call.console.json:
        call.console.document([LabEntry(name=lab.name, title=lab.title) for lab in LABS.values()])
    else:
        rows = [(lab.name, lab.title, f"{lab.seconds(quick=False):.0f} s") for lab in LABS.values()]
        call.console.print(table(rows, ("NAME", "TITLE", "TAKES"), right=(2,)))
    return 0


async def _run(call: Call, lab: Lab) -> int:
    """Bring a stack up where none is, run, and remove the stack again if this call made it."""
    console = call.console
    async with composed(
        call, f"lab {lab.name}", up=UpOptions(), on_quit="remove", beside=call.args.beside
    ) as session:
        try:
            await session.up(lambda step: console.progress(step.text, step.done))
            result = await run_lab(session, lab, quick=call.args.quick, narrate=console.narrate)
        finally:
            console.narrate(await asyncio.shield(session.close()))
    document = lab_document(result)
    if console.json:
        console.document(document)
    else:
        console.print(render_lab(document))
    return 0 if document.verdict == "holds" else ExpectationFailed.exit_code


def lab_document(result: LabResult) -> LabDocument:
    """The result as `lab run --json` prints it."""
    verdict: Literal["holds", "deviates"] = "holds" if result.verdict == "holds" else "deviates"
    return LabDocument(
        lab=result.lab.name,
        source=None,
        server=result.server,
        started=datetime.fromtimestamp(result.started_wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        phases=[_phase(phase) for phase in result.phases],
        relations=[
            Relation(name=relation.name, holds=relation.holds, evidence=relation.evidence)
            for relation in result.relations
        ],
        verdict=verdict,
    )


def _phase(result: PhaseResult) -> LabPhase:
    return LabPhase(
        name=result.phase.name,
        settings={str(name): value for name, value in result.settings.items()},
        clients=result.clients,
        rtt_measured_ms=_rounded(result.rtt_measured_ms, 3),
        fsync_measured_ms=_rounded(result.fsync_measured_ms, 3),
        disk_probe_ms=_rounded(result.disk_probe_ms, 3),
        ceiling_tps=_rounded(result.ceiling_tps, 2),
        tps=round(result.tps, 2),
        latency_ms=latency(result.service),
        protection=result.protection.state.value,
        errors=result.errors,
        n=result.service.count,
    )


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


_HEADINGS = ("PHASE", "CLIENTS", "RTT ms", "TPS", "CEILING", "p50 ms", "p95 ms", "p99 ms", "PROTECTION")


def render_lab(document: LabDocument) -> str:
    """The table of phases, then each relation with its evidence, then the verdict."""
    rows = [
        (
            phase.name,
            str(phase.clients),
            number(phase.rtt_measured_ms),
            number(phase.tps),
            number(phase.ceiling_tps),
            *(
                number(value, 2)
                for value in (
                    (phase.latency_ms.p50, phase.latency_ms.p95, phase.latency_ms.p99)
                    if phase.latency_ms
                    else (None, None, None)
                )
            ),
            phase.protection or "-",
        )
        for phase in document.phases
    ]
    relations = [
        ("holds" if relation.holds else "DEVIATES", relation.name, relation.evidence)
        for relation in document.relations
    ]
    started = document.started.replace("T", " ").removesuffix("Z")
    return "\n".join(
        (
            f"{document.lab} on {document.server}, {started} UTC",
            "",
            table(rows, _HEADINGS, right=range(1, 8)),
            "",
            table(relations),
            "",
            f"verdict: {document.verdict}",
        )
    )
