"""The rig: all that an experiment may do with a stack.

Labs, sweeps and drills work through it and through nothing else: they turn, look, measure, run SQL on a
node and write into the log. What they take is a `loan`, returned however they end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from replexplorer.core.dialect.flavours import Dialect
from replexplorer.core.event import Severity
from replexplorer.core.experiment.owed import Owed
from replexplorer.core.experiment.sighting import Sighting
from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import Assignment, Desired
from replexplorer.core.load.interval import Interval, Measurement
from replexplorer.core.loss.client_log import RunLog
from replexplorer.core.loss.ledger import LossLedger
from replexplorer.core.model.fitted import OperatingPoint
from replexplorer.core.role_change import RoleChange
from replexplorer.core.server.anatomy import Anatomy
from replexplorer.core.server.counters import CommitCost, CostSample
from replexplorer.core.server.exposure import Exposure
from replexplorer.core.server.protection import Protection
from replexplorer.engine.outcome import Cleared
from replexplorer.ports import Clock, Journal, LoadSettings, Report, ServerProcess, Sql

_Found = TypeVar("_Found", covariant=True)


class Log(Protocol):
    """Where an experiment says what it does: the log of events, the marks on the charts, the epoch ledger."""

    def tell(self, severity: Severity, text: str, *, mark: int | None = None) -> None:
        """Put a fact into the log, at the mark of this number where one is given."""
        ...

    def begin_change(self, title: str) -> int:
        """The epoch before ends here; answers the number of the mark that begins the next."""
        ...

    def change_effective(
        self, number: int, title: str, text: str, *, measured_from_s: float | None = None
    ) -> None:
        """What began is in force: its mark is drawn, and its epoch measured from this moment on, or from a
        later one of the monotonic clock."""
        ...

    def end_epoch(self, at_s: float | None = None) -> None:
        """The newest epoch ends, now or at this moment of the monotonic clock."""
        ...

    def begin_restoring(self) -> None:
        """What was turned is turned back from here on: no epoch, and no outage on the way."""
        ...

    def restored(self) -> None:
        """All is as it was before."""
        ...


class Forecast(Protocol):
    """What the fitted model knows of the settings in force."""

    def setting(self) -> OperatingPoint:
        """These settings as the model sees them."""
        ...

    def expected_tps(self, protection: Protection, rtt_ms: float | None) -> float | None:
        """Transactions a second over a link of this round trip; None where the model cannot tell."""
        ...


@dataclass(frozen=True, slots=True)
class Findings:
    """What a load did while it was measured."""

    load: Measurement
    """Its own figures."""
    anatomy: Anatomy | None = None
    """The mean commit taken apart; None without a commit, and where the source does not count."""
    exposure: Exposure | None = None
    """What a failure would have lost meanwhile (`exposure_meter.over_time`); None before any look."""
    machine_percent: float | None = None
    """CPU of the source's machine, of all its cores, whoever used it, from the call on; None where no agent
    says."""
    cost: CommitCost | None = None
    """What a commit cost the servers, from the call on; None where it is not known."""


class Load(Protocol):
    """The load that an experiment measures."""

    @property
    def settings(self) -> LoadSettings | None:
        """What our load was last told; None while we run none."""
        ...

    async def drive(self, *, clients: int) -> None:
        """Run the load as requested, with this many clients; one that runs already follows. Raises
        StackUnavailable naming the driver when somebody else drives."""
        ...

    async def follow(self, *, clients: int | None = None, table_size: int | None = None) -> None:
        """Let the load go on with this many clients, or as requested, and on a table of this many rows;
        does nothing when none runs."""
        ...

    async def stop(self) -> None:
        """End our load; nothing when none runs."""
        ...

    async def keep_ledger(self, *, clients: int) -> None:
        """Run the load with this many clients of the workload `ledger`, whatever is requested, their client
        logs those of a new run; `follow` goes back to what is requested. Raises as `drive`."""
        ...

    async def client_log(self) -> RunLog:
        """All that the clients have noted in the run that `keep_ledger` began, up to now; raises
        StackUnavailable before it did."""
        ...

    async def measure(
        self,
        *,
        duration_s: float = 0.0,
        commits: int = 0,
        from_s: float | None = None,
        on_interval: Callable[[Interval], None] = lambda _: None,
        into: Measurement | None = None,
    ) -> Findings:
        """The load's figures over this many seconds and commits, from a moment of the monotonic clock on
        (None: with the next interval that begins), `into` what the caller keeps when it is cancelled. An
        open loop is drained at the end, and goes on with the next `follow`. Raises StackUnavailable when
        the load ends."""
        ...


class Rig(Protocol):
    """One stack, as experiments work on it."""

    @property
    def load(self) -> Load:
        """The load that is measured."""
        ...

    @property
    def log(self) -> Log:
        """Where the experiment says what it does."""
        ...

    @property
    def forecast(self) -> Forecast:
        """What the fitted model expects here."""
        ...

    @property
    def clock(self) -> Clock:
        """The time that everything here goes by."""
        ...

    # -- looking

    @property
    def seen(self) -> Sighting:
        """What was last seen, with what was turned since."""
        ...

    async def look(self, *, probe: bool = False, with_gtids: bool = False) -> Sighting:
        """Look at everything now; what does not answer is unknown. With `probe` disks that were never
        probed are; what each server has executed is known only `with_gtids`."""
        ...

    def at_risk(self) -> tuple[float, Exposure] | None:
        """What the exposure meter found when the source last answered, and when on the monotonic clock; None
        before that. A fault is injected right after a look."""
        ...

    async def cost(self) -> CostSample | None:
        """What the servers' work has cost so far: two of these around a load say what a commit costs
        (`commit_cost`); None where the source does not answer."""
        ...

    async def rtt_ms(self) -> float | None:
        """The round trip that a commit waits for, as the agents measure it now; None where no probe is
        answered."""
        ...

    # -- turning

    def parse(self, text: str) -> Assignment:
        """Read `KEY[@NODE]=VALUE` for this stack; raises UsageError."""
        ...

    def check(self, desired: Desired) -> None:
        """Raise what `turn` would refuse by what was last seen."""
        ...

    async def turn(self, desired: Desired) -> None:
        """Turn knobs and wait until they are effective; raises UsageError, StackUnavailable, RolledBack."""
        ...

    async def request(self, desired: Desired) -> None:
        """Only write the request down: whoever finds its server again applies it."""
        ...

    def lost(self, nodes: Iterable[str]) -> Desired:
        """What was requested of these nodes and went with their restart; empty where the user wants that
        left alone."""
        ...

    # -- nodes

    def sql(self, node: str) -> Sql:
        """A new connection to a node's server, for whoever closes it; raises StackUnavailable when there is
        no such node."""
        ...

    def dialect(self, node: str) -> Dialect:
        """How that node's server is asked; raises StackUnavailable when there is no such node, or when it
        was never reached."""
        ...

    def process(self, node: str) -> ServerProcess:
        """A node's server as the machine sees it, to kill, stop or freeze it; raises StackUnavailable when
        there is no such node, MissingPiece where nobody here may do that."""
        ...

    async def scale(self, replicas: int, report: Report) -> None:
        """Bring replicas up, or remove the last ones with their data, until there are this many."""
        ...

    async def attach(self, replicas: int | None) -> None:
        """Let the first of the replicas, this many or for None all, receive events, and stop the others' IO
        threads; waits until the source has noticed."""
        ...

    # -- breaking something on purpose

    async def inject(self, text: str) -> tuple[Fault, ...]:
        """Do a fault, `KIND[=VALUE][@NODE]`, to its nodes; answers what is in force by that. Raises
        UsageError, StackUnavailable, MissingPiece; then nothing of it is."""
        ...

    async def clear(self, text: str | None = None) -> tuple[Cleared, ...]:
        """Mend the faults that this text means, `KIND[@NODE]`, all for None; answers which, and what servers
        that are back lost. Raises UsageError
        where nothing of that kind is in force."""
        ...

    async def reckon(self, survivor: str, *, failed_at_s: float | None = None) -> LossLedger:
        """End the load and compare what its clients were told with the rows on each node that answers, of
        which one is the survivor; `failed_at_s`: when the failure was, on the monotonic clock.

        The relay logs are applied first. Raises StackUnavailable where the survivor does not answer, or
        does not apply what it has received.
        """
        ...

    # -- roles

    async def failover(self, to: str | None = None, *, since_s: float | None = None) -> RoleChange:
        """Promote the replica that lacks least, or `to`, in place of a source that is gone, and was
        lost `since_s` on the monotonic clock (None: now). Raises UsageError, StackUnavailable,
        ServerRefused."""
        ...

    async def switchover(self, to: str | None = None) -> RoleChange:
        """Let the source and the nearest replica, or `to`, change places. Raises as `failover`; then the
        source takes writes as before."""
        ...

    async def rejoin(self, node: str, *, rebuild: bool = False) -> RoleChange:
        """Let a node follow the source again, started where it is down; what it has and the source lacks is
        lost, and told. With `rebuild` it gets a copy of the source's data in any case. Raises as
        `failover`."""
        ...

    # -- the experiment

    async def owe(self, owed: Owed | None) -> None:
        """Let the stack keep what this experiment gives back, signed as ours; should it be killed, the next
        start does it. None: nothing any more."""
        ...

    def reserved(self, kind: str, name: str) -> AbstractAsyncContextManager[None]:
        """Nobody else turns a knob meanwhile, in any process. Raises UsageError while another experiment of
        this session runs, StackUnavailable naming that of another."""
        ...

    def journal(self, kind: str, identity: str) -> Journal | None:
        """The file that keeps what a `sweep` or a `matrix` of this identity has found; None: none does."""
        ...


class Procedure(Protocol[_Found]):
    """An experiment that can be run on a rig: a lab, a sweep."""

    async def run(self, rig: Rig) -> _Found:
        """Run it to its end, and return everything that it took."""
        ...
