"""From what is to what was asked: ordered steps, each with its way back, or a refusal.

Laws: a knob that already is effective makes no step, so planning twice changes nothing; delays
that fall go first and those that rise go last; semi-sync goes off before anything else on a
server and on after everything else; the undo of the steps done, newest first, leads back.
Nothing is run here and nothing is refused halfway: a plan exists only when all of it may run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from replexplorer.core.change.warnings import warnings_for
from replexplorer.core.dialect.flavours import Dialect
from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import (
    SEMI_SYNC,
    SEMI_SYNC_REPLICAS,
    SOURCE,
    Backing,
    Desired,
    Kind,
    KnobName,
    Restart,
    Value,
    describe_range,
    format_value,
    is_in_range,
    same_value,
)
from replexplorer.core.link import NO_PARTITION, LinkSettings
from replexplorer.core.records import field, frozen, replace
from replexplorer.core.topology import ends_of, in_order, is_pair


@frozen
class Observed:
    """What the planner knows of the stack."""

    values: Mapping[KnobName, Value | None]
    """Effective values. Of links and disks: what the agents have in force, not what is measured."""
    replicas: tuple[str, ...]
    """All replicas of the stack, reachable or not."""
    servers: Mapping[str, Dialect]
    """By node; only nodes that a login reaches now."""
    semi_sync_clients: int | None = None
    """Replicas registered with the source, which also counts while semi-sync is off; None unknown."""
    registered: Mapping[str, bool | None] = field(default_factory=dict)
    """Replica to its own `replica_registered` status."""
    switched_off: frozenset[str] = frozenset()
    """Replicas that will not register when they next connect: their own semi-sync switch is off."""
    doubtful: frozenset[KnobName] = frozenset()
    """Knobs that have the asked value and whose effect is not seen: asked for again, they are carried
    out again."""
    late: Mapping[str, str] = field(default_factory=dict)
    """Nodes whose server runs and did not answer in time, each in words."""
    appliers_off: frozenset[str] = frozenset()
    """Replicas whose applier does not run, so that it is not started behind the operator's back."""
    detached: frozenset[str] = frozenset()
    """Nodes that run and follow no source: there is nothing of theirs to register or to acknowledge."""
    load_runs: bool = False
    """Our own load process runs; otherwise load knobs are only stored."""
    asked_of_links: Mapping[str, LinkSettings] = field(default_factory=dict)
    """By where its knobs stand, what is requested of each link; a knob that is not turned goes on being
    asked."""
    impossible: Mapping[KnobName, str] = field(default_factory=dict)
    """Knobs that this stack cannot turn, each with the reason."""
    restarts_threads: bool = True
    """Replication threads may be restarted for a change."""
    commits_are_acknowledged: bool = False
    """Commits wait for acknowledgements that come, on servers that may hold them back for a change."""
    takes_rows: bool = True
    """A commit of our own may be made, to see it acknowledged."""
    mended_by: str = "run `replexplorer up` to bring it back"
    """What is done about a node that is down."""


@frozen
class ReadBack:
    """After the step, this knob's variable must read as this value."""

    name: KnobName
    value: Value


@frozen
class SqlStep:
    """Statements on one server, in order."""

    node: str
    statements: tuple[str, ...]
    checks: tuple[ReadBack, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """Run whenever `before` ran, also when a statement failed: an applier must not stay stopped."""

    @property
    def names(self) -> tuple[KnobName, ...]:
        """The knobs that it makes effective."""
        return tuple(check.name for check in self.checks)


@frozen
class IoRestart:
    """Make a replica register with its source's semi-sync; crosses the link about 17 times."""

    node: str
    enabling: tuple[str, ...]
    stop: str
    start: str
    """Run whenever `stop` ran: the thread must not stay stopped."""
    names: tuple[KnobName, ...] = ()

    @property
    def statements(self) -> tuple[str, ...]:
        """All, in order."""
        return (*self.enabling, self.stop, self.start)


@frozen
class LinkStep:
    """Give a link these settings, all of them at once."""

    link: str
    """Where its knobs stand: the far node of a link of the source (`db2`), else both nodes (`db2:db3`)."""
    settings: LinkSettings
    names: tuple[KnobName, ...]
    """The knobs that it makes effective."""

    @property
    def heals(self) -> bool:
        """It ends a partition."""
        return self.settings.partition == NO_PARTITION and any(n.key == keys.PARTITION for n in self.names)


@frozen
class DiskStep:
    """Change the shim in front of a node's disk."""

    name: KnobName
    value: Value

    @property
    def node(self) -> str:
        """The node."""
        return self.name.node

    @property
    def names(self) -> tuple[KnobName, ...]:
        """The knob that it makes effective."""
        return (self.name,)


@frozen
class LoadStep:
    """Change the running load."""

    changes: Mapping[str, Value]
    """Knob key to value, only what changes."""
    names: tuple[KnobName, ...]


@frozen
class FreshSessions:
    """Let every client of the load reconnect: a variable is copied when a session begins."""

    names: tuple[KnobName, ...] = ()


@frozen
class Kick:
    """One commit of our own, so that `armed` becomes `protected`; past its deadline only a warning."""

    deadline_s: float
    names: tuple[KnobName, ...] = ()
    """The switch, if it was on already and this completes the repair of its effect."""
    mending: tuple[str, ...] = ()
    """The statements that ran for that, as `written` writes them."""


Step = SqlStep | IoRestart | LinkStep | DiskStep | LoadStep | FreshSessions | Kick


@frozen
class Planned:
    """A step with the steps that take it back."""

    step: Step
    undo: tuple[Step, ...] = ()
    """Empty where nothing is to be undone, or where the value before is unknown."""


@frozen
class Plan:
    """What a `set` will do."""

    steps: tuple[Planned, ...]
    changes: Mapping[KnobName, tuple[Value | None, Value]]
    """Knobs that a step turns, in the order of the steps, each with its value before and as requested."""
    stored: tuple[KnobName, ...]
    """Knobs of the load that are only stored, because no load runs here."""
    unchanged: tuple[KnobName, ...]
    """Knobs that already are as asked."""
    warnings: tuple[str, ...]

    def rollback(self, done: int | None = None) -> tuple[Step, ...]:
        """The steps that take back the first `done` steps (all when None), newest first."""
        return tuple(step for planned in reversed(self.steps[:done]) for step in planned.undo)


def make_plan(observed: Observed, desired: Desired) -> Plan:
    """Plan the way from `observed` to `desired`, which names only the knobs that were asked.

    Raises UsageError when a server lacks a knob, the value is out of that server's range, or the
    change needs a restart of the server; StackUnavailable when a node that must change is down,
    or when too few replicas are up for semi-sync to be switched on.
    """
    return _Planner(observed, desired).plan()


def kick_deadline_s(rtts_ms: Iterable[float]) -> float:
    """How long the kick may wait: max(2 s, 3 x the largest asked RTT)."""
    return max(2.0, 3 * max(rtts_ms, default=0.0) / 1000)


def written(steps: Iterable[Step], source: str = SOURCE) -> tuple[str, ...]:
    """The steps for people: statements as they run, with their node's name when it is not the source;
    `source` names that, if it is known."""
    lines: list[str] = []
    for step in steps:
        match step:
            case SqlStep() | IoRestart():
                prefix = "" if step.node == SOURCE else f"{step.node}: "
                lines.extend(prefix + statement for statement in statements_of(step))
            case LinkStep():
                told = (
                    f"{name.key} {format_value(name.knob, step.settings.values()[name.key])}"
                    for name in step.names
                )
                ends = ends_of(step.link) if is_pair(step.link) else (source, step.link)
                lines.append(f"link {' <-> '.join(ends)}: {', '.join(told)}")
            case DiskStep():
                value = format_value(step.name.knob, step.value)
                node = source if step.node == SOURCE else step.node
                lines.append(f"disk of {node}: {step.name.key} {value}")
            case LoadStep():
                lines.extend(f"load: {key} {value}" for key, value in step.changes.items())
            case FreshSessions():
                lines.append("load: new sessions")
            case Kick():
                lines.append("one commit, to see it acknowledged")
    return tuple(lines)


def statements_of(step: Step) -> tuple[str, ...]:
    """The SQL that a step runs, in order; none for steps that are not on a server."""
    match step:
        case SqlStep():
            return (*step.before, *step.statements, *step.after)
        case IoRestart():
            return step.statements
        case Kick():
            return step.mending
        case _:
            return ()


class _Planner:
    """One planning: sorts the wanted changes into phases, in the order of the laws."""

    def __init__(self, observed: Observed, desired: Desired) -> None:
        self.observed = observed
        self.wanted = dict(desired)
        self.after: dict[KnobName, Value | None] = {**observed.values, **self.wanted}
        self.changed = {
            name: value
            for name, value in self.wanted.items()
            if name in observed.doubtful or not same_value(name.knob, observed.values.get(name), value)
        }

    def plan(self) -> Plan:
        """Check all, then order all."""
        stored = tuple(
            name for name in self.wanted if name.knob.backing is Backing.LOAD and not self.observed.load_runs
        )
        active = {name: value for name, value in self.changed.items() if name not in stored}
        for name, value in active.items():
            self._check(name, value)
        easier, harder = self._links(active)
        falls, rises = self._disks(active)
        steps = [
            *easier,
            *falls,
            *self._semi_sync(active, "off"),
            *self._replica_settings(active),
            *self._primary_settings(active),
            *self._load(active),
            *self._semi_sync(active, "on"),
            *self._kick(active),
            *rises,
            *harder,
        ]
        return Plan(
            steps=tuple(steps),
            changes={
                name: (self._before(name), active[name]) for planned in steps for name in planned.step.names
            },
            stored=stored,
            unchanged=tuple(name for name in self.wanted if name not in active and name not in stored),
            warnings=warnings_for(self.after, self.wanted, self.observed.replicas),
        )

    def _before(self, name: KnobName) -> Value | None:
        return self.observed.values.get(name)

    def _server(self, node: str) -> Dialect:
        try:
            return self.observed.servers[node]
        except KeyError:
            if (late := self.observed.late.get(node)) is not None:
                raise StackUnavailable(late, "try again") from None
            raise StackUnavailable(f"{node} is down", self.observed.mended_by) from None

    def _check(self, name: KnobName, value: Value) -> None:
        """Refuse what this stack cannot do."""
        if (reason := self.observed.impossible.get(name)) is not None:
            raise MissingPiece(f"{name} cannot be changed", reason)
        if name.key == keys.JITTER:
            self._check_jitter(name)
        if name.knob.backing is not Backing.SERVER:
            return
        server = self._server(name.node).capabilities
        knob = server.knob(name.key)
        is_word = knob.kind is Kind.CHOICE and value in name.knob.choices  # any other was found there
        if not (value in knob.choices if is_word else is_in_range(knob, value)):
            raise UsageError(
                f"{name}={value} is out of range", f"{server.title} takes {describe_range(knob)}"
            )
        before = self._before(name)
        if name.key == keys.INNODB_DOUBLEWRITE and before is not None and "off" in (value, before):
            raise UsageError(
                f"{name} cannot change from {before} to {value} while the server runs",
                "to or from off needs a restart of the server; on and detect_only change live",
            )

    def _check_jitter(self, name: KnobName) -> None:
        """Refuse a jitter that the delays do not take; one that they do not take any more is limited."""
        settings = self._settings(name.node)
        if settings.jitter_ms > settings.jitter_limit_ms:
            limit = format_value(name.knob, round(settings.jitter_limit_ms, 3))
            rtt = format_value(name.knob, settings.total_ms)
            raise UsageError(
                f"{name}={format_value(name.knob, settings.jitter_ms)} is more than the link's delay takes",
                f"with rtt {rtt} it can be {limit} at most, half the one-way delay each way",
            )

    def _settings(self, link: str) -> LinkSettings:
        """What a link is to do: what was requested of it, with what is wanted now."""
        asked = self.observed.asked_of_links.get(link) or self._effective(link)
        wanted = {n.key: v for n, v in self.wanted.items() if n.node == link}
        return LinkSettings.of({**asked.values(), **wanted})

    def _effective(self, link: str) -> LinkSettings:
        """What a link does now."""
        return LinkSettings.of({n.key: v for n, v in self.observed.values.items() if n.node == link})

    def _links(self, active: Mapping[KnobName, Value]) -> tuple[list[Planned], list[Planned]]:
        """Link steps that ask less, and those that ask more; of an unknown link all counts as less
        where it is the default, and nothing can be undone."""
        easier: list[Planned] = []
        harder: list[Planned] = []
        of_links = [name for name in active if name.knob.backing is Backing.LINK]
        for link in in_order({name.node for name in of_links}):
            names = [name for name in of_links if name.node == link]
            target, now = self._settings(link), self._effective(link)
            known = all(self._before(name) is not None for name in names)
            between = now.easier(target) if known else target
            less = [n for n in names if between.values()[n.key] == target.values()[n.key]]
            if not known and any(active[n] != n.knob.default for n in names):
                less = []
            more = [n for n in names if n not in less]
            if less:
                undo = (LinkStep(link, now, tuple(less)),) if known else ()
                easier.append(Planned(LinkStep(link, between if more else target, tuple(less)), undo))
            if more:
                undo = (LinkStep(link, between if less else now, tuple(more)),) if known else ()
                harder.append(Planned(LinkStep(link, target, tuple(more)), undo))
        return easier, harder

    def _disks(self, active: Mapping[KnobName, Value]) -> tuple[list[Planned], list[Planned]]:
        """Disk steps that fall, and those that rise; from an unknown value only the default is a fall."""
        falls: list[Planned] = []
        rises: list[Planned] = []
        for name, value in active.items():
            if name.knob.backing is not Backing.DISK:
                continue
            before = self._before(name)
            undo = () if before is None else (DiskStep(name, before),)
            falling = value == name.knob.default
            if isinstance(value, int | float) and isinstance(before, int | float):
                falling = value < before
            (falls if falling else rises).append(Planned(DiskStep(name, value), undo))
        return falls, rises

    def _set(self, node: str, values: Sequence[tuple[KnobName, Value]]) -> SqlStep:
        """One step on one server, with its applier stopped around it where a knob needs that."""
        server = self._server(node)
        stop = any(name.knob.restart is Restart.APPLIER for name, _ in values)
        stop = stop and node not in self.observed.appliers_off
        hold: list[str] = []
        go_on: list[str] = []
        for name, _ in values if self.observed.commits_are_acknowledged else ():
            first, last = server.holding_commits(name.key)
            hold += first
            go_on += last
        return SqlStep(
            node,
            statements=tuple(server.set(name.key, value) for name, value in values),
            checks=tuple(ReadBack(name, value) for name, value in values),
            before=(*hold, *((server.stop_applier,) if stop else ())),
            after=(*((server.start_applier,) if stop else ()), *go_on),
        )

    def _setting(self, node: str, names: Sequence[KnobName]) -> Planned:
        """Set these knobs of one node in one step, and know the way back."""
        known = [(name, before) for name in reversed(names) if (before := self._before(name)) is not None]
        undo = (self._set(node, known),) if known else ()
        return Planned(self._set(node, [(name, self.wanted[name]) for name in names]), undo)

    def _replica_settings(self, active: Mapping[KnobName, Value]) -> list[Planned]:
        """Knobs on replicas: one step each, those of the applier together in one restart a node."""
        steps: list[Planned] = []
        for node in self.observed.replicas:
            here = [n for n in active if n.node == node and n.knob.backing is Backing.SERVER]
            steps += [self._setting(node, [n]) for n in here if n.knob.restart is not Restart.APPLIER]
            applier = [n for n in here if n.knob.restart is Restart.APPLIER]
            steps += [self._setting(node, applier)] if applier else []
        return steps

    def _primary_settings(self, active: Mapping[KnobName, Value]) -> list[Planned]:
        """Knobs on the primary except the semi-sync switch.

        On the way back sessions are renewed once: after the setting that is undone last.
        """
        here = [n for n in active if n.node == SOURCE and n.knob.backing is Backing.SERVER and n != SEMI_SYNC]
        steps = [self._setting(SOURCE, [name]) for name in here]
        copied = [index for index, name in enumerate(here) if name.knob.restart is Restart.SESSIONS]
        if copied and self.observed.load_runs:
            first = steps[copied[0]]
            steps[copied[0]] = Planned(first.step, (*first.undo, FreshSessions()))
        return steps

    def _load(self, active: Mapping[KnobName, Value]) -> list[Planned]:
        """New sessions where a variable needs them, then the load's own knobs in one step."""
        steps: list[Planned] = []
        if self.observed.load_runs and any(
            name.node == SOURCE and name.knob.restart is Restart.SESSIONS for name in active
        ):
            steps.append(Planned(FreshSessions()))
        names = tuple(name for name in active if name.knob.backing is Backing.LOAD)
        if names:
            known = {name: before for name in names if (before := self._before(name)) is not None}
            undo = (LoadStep({n.key: v for n, v in known.items()}, tuple(known)),) if known else ()
            steps.append(Planned(LoadStep({name.key: active[name] for name in names}, names), undo))
        return steps

    def _semi_sync(self, active: Mapping[KnobName, Value], when: str) -> list[Planned]:
        """The switch; before it goes on, replicas that have not registered restart their IO thread."""
        if active.get(SEMI_SYNC) != when:
            return []
        if when == "on":
            return [*self._registrations(), *([] if self._is_on else [self._setting(SOURCE, [SEMI_SYNC])])]
        switch = self._setting(SOURCE, [SEMI_SYNC])
        kick = (self._kick_step(),) if self.observed.takes_rows else ()
        undo = (*switch.undo, *kick) if switch.undo else ()
        return [Planned(switch.step, undo)]

    @property
    def _is_on(self) -> bool:
        """Semi-sync is on already: asked for again, its effect is repaired and nothing is switched."""
        return self._before(SEMI_SYNC) == "on"

    def _registrations(self) -> list[Planned]:
        """What makes replicas register with the source: now where too few have, else when next they
        connect."""
        again = self._unregistered_replicas()
        if again and not self.observed.restarts_threads:
            raise MissingPiece(
                f"semi_sync=on needs {again[0]} to connect again; its threads are not restarted from here",
                f"restart the replication IO thread of {again[0]} by hand, then try again",
            )
        steps: list[Planned] = []
        for node in again:
            server = self._server(node)
            steps.append(Planned(IoRestart(node, server.register, server.stop_io, server.start_io)))
        for node in self.observed.replicas:
            if node in self.observed.switched_off and node not in again:
                steps.append(Planned(SqlStep(node, self._server(node).register, checks=())))
        return steps

    def _unregistered_replicas(self) -> list[str]:
        """Replicas to restart for semi-sync, those behind a cut link left out; raise when too few are
        up for it to be switched on."""
        clients, replicas = self.observed.semi_sync_clients, self.observed.replicas
        required = self.after.get(SEMI_SYNC_REPLICAS)
        needed = min(required if isinstance(required, int) else 1, len(replicas))
        if clients is None or clients >= needed:
            return []
        detached = self.observed.detached
        up = [node for node in replicas if node in self.observed.servers and node not in detached]
        if len(up) < needed and not self._is_on:
            away = [node for node in replicas if node not in up]
            follow = all(node in detached for node in away)
            state, mends = "is down", self.observed.mended_by
            if follow:
                state, mends = "follows no source", f"`replexplorer role rejoin {away[0]}` brings it back"
            elif set(away) <= self.observed.late.keys():
                state, mends = "did not answer in time", "try again"
            missing = f"{', '.join(away)} {state}"
            raise StackUnavailable(
                f"semi_sync=on needs {needed} replica{'s' if needed > 1 else ''}, and {missing}", mends
            )
        doubtful = [node for node in up if not self.observed.registered.get(node)]
        # Nothing passes a link that is silent and will be.
        return [
            node
            for node in doubtful or up
            if not (self._settings(node).is_silent and self._effective(node).is_silent)
        ]

    def _kick(self, active: Mapping[KnobName, Value]) -> list[Planned]:
        """After semi-sync went on, or fewer acknowledgements are needed while it is on."""
        if not self.observed.takes_rows:
            return []
        if self.after.get(SEMI_SYNC) != "on":
            return []
        before, wanted = self._before(SEMI_SYNC_REPLICAS), active.get(SEMI_SYNC_REPLICAS)
        fewer = isinstance(before, int) and isinstance(wanted, int) and wanted < before
        if SEMI_SYNC in active and self._is_on:
            mending = written(planned.step for planned in self._registrations())
            return [Planned(replace(self._kick_step(), names=(SEMI_SYNC,), mending=mending))]
        return [Planned(self._kick_step())] if SEMI_SYNC in active or fewer else []

    def _kick_step(self) -> Kick:
        """The kick runs before delays rise, but never with less patience than after."""
        settings = [
            each
            for replica in self.observed.replicas
            for each in (self._settings(replica), self._effective(replica))
        ]
        return Kick(kick_deadline_s(each.total_ms for each in settings))
