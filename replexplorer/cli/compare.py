"""The verb `compare`: two stacks side by side in one dashboard, or measured and printed."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import ArgumentParser
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from replexplorer.cli.arguments import add_json
from replexplorer.cli.dashboard import compared_session, look, settings_of, told
from replexplorer.cli.output import delivered
from replexplorer.cli.running import run_async
from replexplorer.cli.sessions import opened
from replexplorer.cli.typed import seconds, whole_number
from replexplorer.cli.wiring import composed, load_configuration_of
from replexplorer.core.errors import LoadTaken, NoSuchStack, StackUnavailable, UsageError
from replexplorer.core.history.pair import ComparedStretch, StackSide, compared
from replexplorer.core.machine import Machine, busy_percent
from replexplorer.engine.console import ToggleLoad
from replexplorer.engine.finish import all_of
from replexplorer.engine.session import Session
from replexplorer.reports.compare import compare_document, compare_text

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.core.event import Event
    from replexplorer.core.tick import Tick

_DURATION_S: Final = 20.0
_WARMUP_S: Final = 3.0
_MOST_TURNS: Final = 100
_END_IT: Final = "end what drives it, then compare again"


def run_arguments(parser: ArgumentParser) -> None:
    """Which two, and how they are measured."""
    what = "a stack by its name, or a recording as a path"
    parser.add_argument("a", metavar="A", help=what)
    parser.add_argument("b", metavar="B", help=f"{what}; what is said is B against A")
    parser.add_argument(
        "--duration",
        type=seconds(positive=True),
        metavar="S",
        help=f"measure for this long and print it, without the dashboard (default {_DURATION_S:g} s)",
    )
    parser.add_argument(
        "--warmup",
        type=seconds(positive=False),
        default=_WARMUP_S,
        metavar="S",
        help=f"seconds before, not counted (default {_WARMUP_S:g})",
    )
    parser.add_argument(
        "--turns",
        type=whole_number(1, _MOST_TURNS),
        metavar="N",
        help="one rests while the other runs, N times each, so that they do not take CPU from each other",
    )
    add_json(parser)


def run(call: Call) -> int:
    """Compare two stacks in the dashboard; without a terminal, or where measuring is asked for, print it."""
    args = call.args
    recordings = [_is_recording(word) for word in (args.a, args.b)]
    if args.a == args.b:
        raise UsageError(f"{args.a} is named twice", "name two stacks, or two recordings")
    if any(recordings) and not all(recordings):
        raise UsageError(
            f"{args.a} and {args.b} are a stack and a recording", "name two stacks, or two recordings"
        )
    if all(recordings):
        if args.duration is not None or args.turns is not None:
            raise UsageError("a recording is compared as it is", "leave --duration and --turns out")
        return _recorded(call)
    asked = call.console.json or args.duration is not None or args.turns is not None
    if asked or not (sys.stdout.isatty() and sys.stdin.isatty()):
        return run_async(_measured(call))
    return _shown(call)


def _shown(call: Call) -> int:
    """Both in one dashboard; raises NoSuchStack."""
    from replexplorer.engine.pair import PairedViews
    from replexplorer.ui.comparing import CompareApp

    loaded, names = load_configuration_of(call), (call.args.a, call.args.b)
    for name in names:
        if not asyncio.run(look(name, loaded)):
            raise NoSuchStack(f"no stack '{name}' runs here", f"`replexplorer up --stack {name}` makes it")
    a, b = (compared_session(loaded, name) for name in names)
    settings = replace(settings_of(loaded), stack=" and ".join(names))
    app = CompareApp(PairedViews(a, b, names), settings, a.machine)
    left = app.run()
    if app.crash is not None:
        raise told(app.crash, "the dashboard", "; both stacks keep running")
    if left:
        call.console.narrate(left)
    return app.return_code or 0


def _is_recording(word: str) -> bool:
    return word.endswith(".rxs") or os.sep in word


def _recorded(call: Call) -> int:
    """Two recordings, of each a stretch of its own: they did not run at once."""
    a, b = map(_stretch_of, (call.args.a, call.args.b))
    found = compared(a, b, since_s=float("-inf"))
    document = compare_document(a, b, found, at_once=False)
    return delivered(call.console, document, lambda: compare_text(a, b, found, document))


def _stretch_of(name: str) -> StackSide:
    """What of a recording is compared."""
    with closing(opened(name)) as reader:
        side = StackSide(Path(name).stem)
        for tick in reader.ticks():
            side.feed(tick, 0.0)
        found = side.stretch()
        first_s, last_s = reader.first_s, reader.last_s
        edges = max(found.from_s, first_s), min(found.to_s, last_s)
        return side.taken(ComparedStretch(*edges, found.why, first_s), reader.ticks())


@dataclass(slots=True)
class _Stand:
    """One stack that is measured."""

    session: Session
    side: StackSide
    counts: bool = field(default=False)
    """What is seen now belongs to it: its load runs and is warm."""

    def see(self, tick: Tick) -> None:
        """A look at everything."""
        self.side.tick = tick
        if self.counts:
            self.side.see(tick, self.session.outside.clock.monotonic())

    async def begin(self) -> None:
        """Start the load that its knobs ask for; raises UsageError where they ask for none."""
        load = self.session.foreground()
        if load.requested().clients < 1:
            raise UsageError(
                f"stack {self.side.name} has no clients",
                f"`replexplorer set clients=8 --stack {self.side.name}`",
            )
        with naming(self.side.name):
            await load.drive(load.requested(), lambda _: None)

    async def measure(self, duration_s: float, warmup_s: float) -> None:
        """Take what its load does for this long."""
        if warmup_s:
            await self.session.outside.clock.sleep(warmup_s)
        load = self.session.foreground()
        self.counts = True
        with naming(self.side.name):
            await load.measure(duration_s=duration_s, warmup_s=0.0, on_interval=lambda _: None)
        self.counts = False
        self.side.intervals.extend(load.measured.intervals)

    async def rest(self) -> None:
        """Stop the load."""
        await self.session.console.do(ToggleLoad())


@contextmanager
def naming(stack: str) -> Iterator[None]:
    """What fails within says of which of the two stacks; there is no load beside another one here."""
    try:
        yield
    except StackUnavailable as error:
        error.message = f"stack {stack}: {error.message}"
        if isinstance(error, LoadTaken):
            error.hint = _END_IT
        raise


async def _measured(call: Call) -> int:
    args, console = call.args, call.console
    duration_s, turns = args.duration or _DURATION_S, args.turns or 0

    def hear(name: str) -> Callable[[Event], None]:
        return lambda event: console.hear(replace(event, text=f"{name}: {event.text}"))

    async with (
        _stand(call, args.a) as a,
        _stand(call, args.b) as b,
        a.session.observed(hear(args.a), a.see),
        b.session.observed(hear(args.b), b.see),
    ):
        before = await a.session.machine()
        if turns:
            for turn in range(turns):
                # ABBA: what drifts with time weighs on both alike.
                for stand in (a, b) if turn % 2 == 0 else (b, a):
                    console.progress(f"turn {turn + 1} of {turns}: {stand.side.name}")
                    await stand.begin()
                    await stand.measure(duration_s / turns, args.warmup)
                    await stand.rest()
        else:
            console.progress("preparing the tables")
            await all_of(a.begin(), b.begin())
            before = await a.session.machine()
            console.progress(f"both run for {args.warmup + duration_s:g} s")
            await all_of(a.measure(duration_s, args.warmup), b.measure(duration_s, args.warmup))
        after: Machine | None = await a.session.machine()
    found = compared(a.side, b.side, since_s=float("-inf"))
    document = compare_document(
        a.side,
        b.side,
        found,
        at_once=not turns,
        turns=turns,
        cores=None if after is None else after.cores,
        percent=busy_percent(before, after),
    )
    return delivered(console, document, lambda: compare_text(a.side, b.side, found, document))


@asynccontextmanager
async def _stand(call: Call, name: str) -> AsyncIterator[_Stand]:
    """A stack that runs; raises NoSuchStack."""
    async with composed(call, "compare", name=name) as session:
        call.console.stack = name
        await session.attach()
        yield _Stand(session, StackSide(name))
