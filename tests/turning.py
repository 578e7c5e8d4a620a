"""Commands to a session: knobs turned and faults injected as they are typed, a sweep run."""

from __future__ import annotations

from replexplorer.core.experiment.experiment import Watch
from replexplorer.core.experiment.sweep import Sweep
from replexplorer.core.experiment.sweep_result import Swept
from replexplorer.core.fault import parse_fault
from replexplorer.engine.experiment.sweep import SweepRun
from replexplorer.engine.outcome import Injected, SetResult
from replexplorer.engine.session import Session


async def turn(session: Session, *texts: str, dry_run: bool = False, anyway: bool = False) -> SetResult:
    """Set each `KEY=VALUE`, as words of one text or apart; `anyway` also while an experiment runs."""
    assignments = tuple(map(session.console.parse, " ".join(texts).split()))
    return await session.console.set(assignments, dry_run=dry_run, anyway=anyway)


async def inject(session: Session, *faults: str) -> tuple[Injected, ...]:
    """One fault after the other, as they are typed; what the last one did."""
    done: tuple[Injected, ...] = ()
    for text in " ".join(faults).split():
        done = await session.console.inject(parse_fault(text, session.fleet.roster))
    return done


async def sweep(
    session: Session, wanted: Sweep, watch: Watch, *, fresh: bool = False, needs_cpu: bool = False
) -> Swept:
    """Measure every combination."""
    return await session.console.run(SweepRun(wanted, watch, fresh, needs_cpu=needs_cpu))
