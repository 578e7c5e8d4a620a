"""The verb compare: two stacks in turns, or two recordings, B against A."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from replexplorer.adapters.recording import SessionReader
from replexplorer.cli.recordings import file_of
from replexplorer.cli.wiring import composed
from replexplorer.core.errors import LoadTaken, StackUnavailable, UsageError
from replexplorer.core.records import dataclass, replace
from replexplorer.reports.recordings import ComparedRun, compare_report, recorded_run

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.core.event import Event
    from replexplorer.core.tick import Tick
    from replexplorer.engine.session import Session


_DURATION_S: Final = 20.0
_TURNS: Final = 2


async def compare(call: Call) -> int:
    """Measure two stacks in turns, or read two recordings, and print B against A."""

    args, pair = call.args, (call.args.a, call.args.b)
    recordings = [word.endswith(".rxs") or os.sep in word for word in pair]
    if args.a == args.b:
        raise UsageError(f"{args.a} is named twice", "name two stacks, or two recordings")
    if any(recordings) and not all(recordings):
        raise UsageError(
            f"{args.a} and {args.b} are a stack and a recording", "name two stacks, or two recordings"
        )
    if not all(recordings):
        return await _measured(call)
    if args.duration is not None or args.turns is not None:
        raise UsageError("a recording is compared as it is", "leave --duration and --turns out")
    found = []
    for name in pair:
        with closing(SessionReader(file_of(name, call))) as reader:
            found.append(recorded_run(Path(name).stem, reader.ticks()))
    (a, of_a), (b, of_b) = found
    document, text = compare_report(a, b, epochs=(of_a, of_b))
    return call.console.deliver(document, lambda: text)


@dataclass(slots=True)
class _Stand:
    """One stack that is measured."""

    session: Session
    run: ComparedRun
    counts: bool = False
    """What is seen now belongs to it: its load runs and is warm."""

    def see(self, tick: Tick) -> None:
        """A look at everything."""
        if self.counts:
            self.run.look(tick)

    async def take_turn(self, duration_s: float, warmup_s: float) -> None:
        """Run the load that its knobs ask for and stop it; raises UsageError where they ask for none."""
        session, name = self.session, self.run.name
        if session.driving.settings().clients < 1:
            raise UsageError(f"stack {name} has no clients", f"`replexplorer set clients=8 --stack {name}`")
        with naming(name):
            await session.drive(session.driving.settings())
            await session.outside.clock.sleep(warmup_s)
            self.counts = True
            found = await session.rig.load.measure(duration_s=duration_s)
            self.counts = False
        self.run.intervals.extend(found.load.intervals)
        await session.console.toggle_load()


@contextmanager
def naming(stack: str) -> Iterator[None]:
    """What fails within says of which of the two stacks; no load can be added to another one here."""
    try:
        yield
    except StackUnavailable as error:
        error.message = f"stack {stack}: {error.message}"
        if isinstance(error, LoadTaken):
            error.hint = "end what drives it, then compare again"
        raise


async def _measured(call: Call) -> int:
    args, console, turns = call.args, call.console, call.args.turns or _TURNS
    async with AsyncExitStack() as opened:
        stands = []
        for name in (args.a, args.b):

            def hear(event: Event, name: str = name) -> None:
                console.hear(replace(event, text=f"{name}: {event.text}"))

            session = await opened.enter_async_context(composed(call, "compare", name=name))
            console.stack = name
            await session.attach()
            stand = _Stand(session, ComparedRun(name))
            await opened.enter_async_context(session.observed(hear, stand.see))
            stands.append(stand)
        for turn in range(turns):  # ABBA: what drifts with time weighs on both alike
            for stand in stands if turn % 2 == 0 else reversed(stands):
                console.progress(f"turn {turn + 1} of {turns}: {stand.run.name}")
                await stand.take_turn((args.duration or _DURATION_S) / turns, args.warmup)
    a, b = stands
    document, text = compare_report(a.run, b.run, turns=turns)
    return console.deliver(document, lambda: text)
