"""What crosses between the app and the agent in a sidecar, declared once for both sides.

JSON lines. A request is `{"id": 7, "op": "set_link", ...}`; its answer is `{"id": 7, "ok": {...}}` or
`{"id": 7, "error": {"code", "message"}}`. A line without an id is an error of the bridge itself.

Law: the sidecar's image has this one module of the package, so it needs the standard library alone.
What comes is of the types that are declared here, or it is Malformed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, field, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from replexplorer.core.records import dataclass, frozen

PROTOCOL_VERSION: Final = 11
"""Both sides must speak the same; `hello` says which."""
SHORTEST_FLAP_S: Final = 0.1
"""Of either half: a shorter one is over before both ends have done it."""
LONGEST_FLAP_S: Final = 3600.0

ANSWERS_WITHIN_S: Final = 5.0
LETS_GO_S: Final = 5.0
"""Netem lets what it holds go before its rule does."""
PROBES_S: Final = 6.0
"""How long the agent writes for its probe, at the most."""
COMING_BACK_S: Final = 6.0
"""How long a claim may wait for the return of an app whose bridge ended (shared.py), and more."""

Declared = TypeVar("Declared")
Answered = TypeVar("Answered")


class Malformed(ValueError):
    """What came is not what is declared; in words."""


@frozen
class Shape:
    """What one side of a link does to the packets of one direction; the default does nothing."""

    delay_ms: float = 0.0
    """One way."""
    jitter_ms: float = 0.0
    """Standard deviation of the delay, normal; packets keep their order."""
    cut: bool = False
    """Every packet is lost."""
    loss_percent: float = 0.0
    """Of packets, each on its own."""
    bandwidth_bps: int = 0
    """Bits a second; 0: no limit."""

    @property
    def is_plain(self) -> bool:
        """Nothing is asked: the rule is to be absent."""
        return self == Shape()

    @property
    def loses(self) -> bool:
        """Packets are dropped because it was asked."""
        return self.cut or self.loss_percent > 0

    @property
    def delay_us(self) -> int:
        """The delay in whole microseconds."""
        return round(self.delay_ms * 1000)

    @property
    def jitter_us(self) -> int:
        """The jitter in whole microseconds."""
        return round(self.jitter_ms * 1000)


@frozen
class Flap:
    """A link that goes down and comes up, over and over; both its ends do by the clock, so at once."""

    down_s: float
    """Every packet is lost this long, then none."""
    up_s: float
    since_wall_s: float
    """When it first went down, in seconds since 1970."""

    def __post_init__(self) -> None:
        """Refuse what would never end or never be."""
        if not min(self.down_s, self.up_s) >= SHORTEST_FLAP_S:
            raise Malformed(f"down_s and up_s must be at least {SHORTEST_FLAP_S:g}")

    def phase(self, wall_s: float) -> tuple[bool, float]:
        """Whether the link is down at this moment, and for how many more seconds it stays so or up."""
        into_s = (wall_s - self.since_wall_s) % (self.down_s + self.up_s)
        if into_s < self.down_s:
            return True, self.down_s - into_s
        return False, self.down_s + self.up_s - into_s


@frozen
class LinkState:
    """What one agent knows of its side of the link to one peer, and of its probe of that peer."""

    peer: str
    """The peer's node name."""
    backend: str | None
    """`netem` or `nfqueue`; None when neither works."""
    backend_reason: str
    """Why this backend: `kernel netem answers`, `kernel has no netem: ...`."""
    holds: Literal["sent", "received"] | None
    """Which packets of the peer's this side shapes; netem holds what is sent, NFQUEUE what is received, so
    a direction is a side only together with this."""
    shape: Shape
    """What this side does to them, in force."""
    base_ms: float | None
    """Round trip of the bare path, measured before any delay; None until measured."""
    overhead_ms: float
    """What this agent's own queue adds to a delayed packet, one way; already taken off the delay."""
    measured_ms: float | None
    """Median of the last 5 answered probes sent after the last change; None when none answered."""
    probes: int
    """Answered probes sent since the last change."""
    lost: int
    """Unanswered probes since the last change."""
    dropped: int
    """Packets that the queue or the qdisc dropped though no loss was asked."""
    flap: Flap | None = None
    """In force besides the shape."""
    is_down: bool = False
    """It cuts this side now."""


@frozen
class DiskProbe:
    """Synchronous writes of 512 bytes to the datadir's volume, the server not involved."""

    p50_ms: float
    p95_ms: float
    p99_ms: float
    n: int


@frozen
class DiskState:
    """What one agent knows of its server's fsyncs and of the disk below."""

    attached: bool
    """The server runs with the shim in front of its fsyncs."""
    reason: str | None
    """Why it does not; None when it does."""
    delay_ms: float | None
    """Added to each fsync of a kind that has no delay of its own, in force; None when unknown."""
    fsyncs: Mapping[str, int]
    """Calls since the volume was made, by class of file: redo, binlog, relay, data, other."""
    measured_ms: float | None
    """Mean time that the server pays for an fsync of redo or binlog, the delay included, over the last
    seconds with any since the delay changed; None when there was none."""
    probe: DiskProbe | None
    """The last probe; None when none was run."""
    undo_journal: bool | None = None
    """The shim keeps what a power cut would lose; None when unknown."""
    full: bool | None = None
    """No file of the server's can grow, as on a full disk; None when unknown."""
    redo_delay_ms: float | Literal["auto"] | None = None
    """Added to each fsync of the redo log in place of `delay_ms`; `auto`: nothing else; None when unknown."""
    binlog_delay_ms: float | Literal["auto"] | None = None
    """The same of the binlog."""
    jitter_ms: float | None = None
    """Standard deviation of what is added; None when unknown."""
    measured_by_kind_ms: Mapping[str, float] = field(default_factory=dict)
    """`measured_ms` of redo and binlog apart, each where it had any."""
    stall_ms: float | None = None
    """What a fault adds to each fsync besides the delay; None when unknown."""


@frozen
class Volume:
    """Room on one volume's disk."""

    total_bytes: int
    free_bytes: int
    """For an ordinary user."""


@frozen
class Health:
    """The agent, its machine and what its links carried since it started."""

    node: str
    uptime_s: float
    boot: str | None = None
    """Of this run alone, drawn at its start; None from an agent that knows none."""
    machine_cores: int | None = None
    machine_busy_s: float | None = None
    """CPU of all work on the node's machine since it booted."""
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    """By mount: `data`, `tools`."""
    footprint_bytes: int | None = None
    """What the files in the node's volumes take, the primary's with the tools volume; None: not counted."""
    packets: Mapping[str, int] = field(default_factory=dict)
    """Of all links: `packets` that took a rule, `dropped` though no loss was asked, `lost` because it was;
    and where they are counted `strangers`, not from the rule's peer: 0 is the proof that clients are
    untouched."""


@frozen
class Lease:
    """Who drives the stack's load."""

    holder: str
    """`tui`, `load`, `lab tour`, ..."""
    pid: int
    host: str
    load: Mapping[str, int | float | str] | None = None
    """Knobs of the load that it runs, by key; empty: it runs none now; None: it does not tell."""
    selected: str | None = None
    """The knob that its user looks at, as `rtt@db2`; None: none, or no one looks."""

    def __str__(self) -> str:
        """The name that people see: `load (pid 12)`."""
        return f"{self.holder} (pid {self.pid})"


@frozen
class Experiment:
    """What measures the stack now: nobody else turns its knobs meanwhile."""

    kind: str
    """`lab`, `sweep`."""
    name: str
    """The lab's, or the sweep's grid as it is typed."""
    holder: str
    """`tui`, `lab tour`, `sweep`, ..."""
    pid: int
    host: str


@frozen
class Document:
    """The requested values, kept by the stack for all apps."""

    version: int
    """Grows by one at each write; 0 when nothing was ever written."""
    content: Mapping[str, Any]


@frozen
class Written:
    """The requested document as written; None when somebody else wrote meanwhile."""

    document: Document | None


Place = Literal["lease", "turn", "experiment"]
"""What one app of a stack has at a time: it drives the load, it changes knobs, it measures. Who has the
experiment also keeps all others from their turns."""
LEASE: Final = "lease"
TURN: Final = "turn"
EXPERIMENT: Final = "experiment"


@frozen
class Held:
    """Who has a place now."""

    holder: Experiment | Lease | None
    """None: nobody. Of a turn that an experiment forbids, that experiment."""
    ours: bool
    """It belongs to the app that asked."""


@frozen
class Failure:
    """Why a request was not done."""

    code: str
    """`version`, `request`, `refused` (kernel or tool), `system`, `absent` (no agent)."""
    message: str


@frozen
class Answer:
    """A line from the agent: an answer when it has an id, else the bridge's own error."""

    id: int | None = None
    ok: Mapping[str, Any] | None = None
    """What was asked for."""
    error: Failure | None = None


@frozen
class Welcome:
    """The answer to `hello`."""

    version: int
    node: str
    """Which node's agent this is."""


@dataclass(frozen=True)
class Request(Generic[Answered]):
    """What an app asks; the type in brackets is what answers it."""

    op: ClassVar[str]
    answered_by: ClassVar[Any]
    repeatable: ClassVar[bool]
    """Asked twice it does what it does once."""
    takes_s: ClassVar[float]
    """How long the agent may work on it, besides the time of an answer."""

    def __init_subclass__(cls, *, op: str, repeatable: bool = True, takes_s: float = 0.0) -> None:
        """Know the op by its class."""
        cls.op, cls.repeatable, cls.takes_s = op, repeatable, takes_s
        cls.answered_by = get_args(cls.__dict__["__orig_bases__"][0])[0]
        REQUESTS[op] = cls

    @property
    def deadline_s(self) -> float:
        """When an app gives up waiting for the answer."""
        return ANSWERS_WITHIN_S + self.takes_s


REQUESTS: Final[dict[str, type[Request[Any]]]] = {}
"""Everything that an app may ask, by op."""


@dataclass(frozen=True)
class Hello(Request[Welcome], op="hello"):
    """The first request of every bridge."""

    token: str
    """Of the app, the same on all its bridges: what it holds is its own at every agent."""
    version: int = PROTOCOL_VERSION
    """The version that the app speaks."""


@dataclass(frozen=True)
class AskLink(Request[LinkState], op="link"):
    """The state of the link to a peer."""

    peer: str
    """Node name."""
    anew: bool = False
    """Forget what was measured: both ends are as asked only now."""


@dataclass(frozen=True)
class SetLink(Request[LinkState], op="set_link", takes_s=LETS_GO_S):
    """Shape this side of the link to a peer, answered when in force; the plain shape removes the rule."""

    peer: str
    address: str
    """The peer's IPv4 address."""
    shape: Shape


@dataclass(frozen=True)
class SetFlap(Request[LinkState], op="set_flap", takes_s=LETS_GO_S):
    """Let this side of the link to a peer go down and up until another flap, or None, is asked; the shape
    stays as it is, and may be changed meanwhile."""

    peer: str
    address: str
    """The peer's IPv4 address."""
    flap: Flap | None


@dataclass(frozen=True)
class Watch(Request[LinkState], op="watch"):
    """Probe a peer from now on."""

    peer: str
    address: str
    """The peer's IPv4 address."""


@dataclass(frozen=True)
class AskDisk(Request[DiskState], op="disk"):
    """The node's disk."""

    probe: bool = False
    """Write to it first."""

    @property
    def deadline_s(self) -> float:
        """A probe takes its time."""
        return ANSWERS_WITHIN_S + (PROBES_S if self.probe else 0.0)


@dataclass(frozen=True)
class SetDisk(Request[DiskState], op="set_disk"):
    """Change what the shim does to the node's server; what is None stays as it is."""

    delay_ms: float | None = None
    """Added to each fsync."""
    undo_journal: bool | None = None
    """Keep what a power cut would lose, from now on."""
    full: bool | None = None
    """Refuse what would make a file longer."""
    redo_delay_ms: float | Literal["auto"] | None = None
    """Added to each fsync of the redo log instead."""
    binlog_delay_ms: float | Literal["auto"] | None = None
    """Added to each fsync of the binlog instead."""
    jitter_ms: float | None = None
    """Standard deviation of what is added, normal, none below 0."""
    stall_ms: float | None = None
    """Added to each fsync besides the delay: a fault's."""


@dataclass(frozen=True)
class AskDocument(Request[Document], op="document"):
    """The requested document."""


@dataclass(frozen=True)
class WriteDocument(Request[Written], op="write_document", repeatable=False):
    """Compare and set."""

    content: Mapping[str, Any]
    expect_version: int


@dataclass(frozen=True)
class Take(Request[Held], op="take", takes_s=COMING_BACK_S):
    """Have a place, or say again what it is had for; answered with the holder when it is another's. Some
    seconds after the bridge ended, in which the app can come back through any agent, the place is free."""

    place: Place
    wish: Experiment | Lease
    within_s: float = 0.0
    """A turn is waited for so long."""
    anyway: bool = False
    """A turn though somebody's experiment runs."""

    @property
    def deadline_s(self) -> float:
        """It is waited for."""
        return ANSWERS_WITHIN_S + self.takes_s + self.within_s


@dataclass(frozen=True)
class AskHolder(Request[Held], op="holder"):
    """Who has a place."""

    place: Place


@dataclass(frozen=True)
class Leave(Request[Held], op="leave"):
    """Give a place back, when it is ours, or end our waiting for it."""

    place: Place


@dataclass(frozen=True)
class AskHealth(Request[Health], op="health"):
    """How the agent is, and what it counts."""

    footprint: bool = False
    """Count what the files in the node's volumes take as well."""


def written(declared: Any) -> dict[str, Any]:
    """A request or an answer as its JSON object; a request with its op, in front of which goes an id."""
    content = asdict(declared)
    return {"op": declared.op, **content} if isinstance(declared, Request) else content


def read(asked: type[Declared], line: Mapping[str, Any]) -> Declared:
    """What a line asks, or what one from the agent says; raises Malformed."""
    return cast(Declared, _read(asked, line))


def answer(asked: Request[Answered], content: object) -> Answered:
    """What answers a request; raises Malformed."""
    return cast(Answered, _read(asked.answered_by, content))


def _read(kind: Any, value: object) -> Any:
    """A JSON value as the type that is declared for it; what is not declared is left out."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or (origin is Literal and value in inner):
        return value
    if origin in (Union, UnionType):
        for each in inner:
            with suppress(Malformed):
                return _read(each, value)
    elif isinstance(value, dict) and is_dataclass(kind):
        return _read_object(kind, value)
    elif isinstance(value, dict) and origin is Mapping:
        return {name: _read(inner[1], each) for name, each in value.items()}
    elif kind is float and type(value) is int:
        return float(value)
    elif type(value) is kind:
        return value
    raise Malformed(f"{value!r} is not of type {getattr(kind, '__name__', kind)}")


def _read_object(kind: Any, value: Mapping[str, Any]) -> Any:
    declared = _types(kind)
    try:
        return kind(**{name: _read(declared[name], each) for name, each in value.items() if name in declared})
    except TypeError as lacking:
        raise Malformed(str(lacking)) from None


@cache
def _types(kind: Any) -> dict[str, Any]:
    """Field to type."""
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}
