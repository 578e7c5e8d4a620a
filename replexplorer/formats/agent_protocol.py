"""The protocol between the app and the agent in a sidecar: JSON lines, one model a shape.

A request carries an id and an op; the answer carries the id and either `ok` or `error`. A line without
an id is an event, or an error of the bridge itself. Requests are strict: the app sends nothing that is
not here. Answers ignore fields they do not know, so that an agent may tell more.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, TypeAdapter

PROTOCOL_VERSION = 3
"""Both sides must speak the same; `hello` says which."""


# Models are built when they are first used: a verb uses few, and on a busy machine its start takes long.


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Hello(_Asked):
    """The first request of every bridge."""

    op: Literal["hello"] = "hello"
    version: int = PROTOCOL_VERSION
    """The version that the app speaks."""


class AskLink(_Asked):
    """The state of the link to a peer; answered by `Link`."""

    op: Literal["link"] = "link"
    peer: str
    """Node name."""
    anew: bool = False
    """Forget what was measured: both ends are as asked only now."""


class SetLink(_Asked):
    """Shape this side of the link to a peer, all 0 removes the rule; answered by `Link` when in force."""

    op: Literal["set_link"] = "set_link"
    peer: str
    address: str
    """The peer's IPv4 address."""
    delay_ms: NonNegativeFloat
    """One way."""
    jitter_ms: NonNegativeFloat
    """Standard deviation of the delay."""
    loss_percent: NonNegativeFloat
    bandwidth_bps: NonNegativeInt
    """0: no limit."""
    cut: bool
    """Lose every packet."""


class AskDisk(_Asked):
    """The node's disk; answered by `Disk`."""

    op: Literal["disk"] = "disk"
    probe: bool = False
    """Write to it first."""


class SetDisk(_Asked):
    """Add this to each fsync of the node's server; answered by `Disk`."""

    op: Literal["set_disk"] = "set_disk"
    delay_ms: NonNegativeFloat


class Watch(_Asked):
    """Probe a peer from now on; answered by `Link`."""

    op: Literal["watch"] = "watch"
    peer: str
    address: str
    """The peer's IPv4 address."""


class AskDocument(_Asked):
    """The requested document; answered by `Document`."""

    op: Literal["document"] = "document"


class WriteDocument(_Asked):
    """Compare and set; answered by `Written`."""

    op: Literal["write_document"] = "write_document"
    expect_version: NonNegativeInt
    content: dict[str, Any]


class TakeLease(_Asked):
    """Become the driver of the load, or say anew what one drives; answered by `LeaseState`. The lease ends
    with the bridge."""

    op: Literal["take_lease"] = "take_lease"
    holder: str
    pid: int
    host: str
    load: dict[str, int | float | str] | None = None
    """Knobs of the load that it runs, by key; empty: it runs none now."""


class AskLease(_Asked):
    """Who drives; answered by `LeaseState`."""

    op: Literal["lease"] = "lease"


class ReleaseLease(_Asked):
    """Give the lease back, when it is ours; answered by `LeaseState`."""

    op: Literal["release_lease"] = "release_lease"


class TakeTurn(_Asked):
    """Wait for our turn to change knobs; answered by `LeaseState`, with the holder when it did not come
    in time, and with the experiment of another bridge, while which nobody else may turn anything. The turn
    ends with the bridge."""

    op: Literal["take_turn"] = "take_turn"
    holder: str
    pid: int
    host: str
    within_s: NonNegativeFloat
    anyway: bool = False
    """Though somebody's experiment runs."""


class LeaveTurn(_Asked):
    """End our turn, or our waiting for it; answered by `LeaseState`."""

    op: Literal["leave_turn"] = "leave_turn"


class BeginExperiment(_Asked):
    """Run an experiment from now on: nobody else turns a knob meanwhile; answered by `ExperimentState`. It
    ends with the bridge."""

    op: Literal["begin_experiment"] = "begin_experiment"
    kind: str
    """`lab`, `sweep`."""
    name: str
    holder: str
    pid: int
    host: str


class EndExperiment(_Asked):
    """Our experiment is over; answered by `ExperimentState`."""

    op: Literal["end_experiment"] = "end_experiment"


class AskHealth(_Asked):
    """What the agent costs and counts; answered by `Health`."""

    op: Literal["health"] = "health"


Request = Annotated[
    Hello
    | AskLink
    | SetLink
    | Watch
    | AskDisk
    | SetDisk
    | AskDocument
    | WriteDocument
    | TakeLease
    | AskLease
    | ReleaseLease
    | TakeTurn
    | LeaveTurn
    | BeginExperiment
    | EndExperiment
    | AskHealth,
    Field(discriminator="op"),
]
"""Everything that an app may ask."""

REQUEST: TypeAdapter[Request] = TypeAdapter(Request, config=ConfigDict(defer_build=True))


class _Told(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class Welcome(_Told):
    """The answer to `Hello`."""

    version: int
    node: str
    """Which node's agent this is."""


class Link(_Told):
    """One agent's side of a link; fields as in `ports.LinkState`."""

    peer: str
    backend: str | None
    backend_reason: str
    delays: Literal["sent", "received"] | None
    """Which packets of the peer's this side shapes: netem what is sent, NFQUEUE what is received."""
    delay_ms: float
    jitter_ms: float
    loss_percent: float
    bandwidth_bps: int
    cut: bool
    base_ms: float | None
    overhead_ms: float
    measured_ms: float | None
    probes: int
    lost: int
    dropped: int


class DiskProbe(_Told):
    """The last synchronous writes to the datadir's volume."""

    p50_ms: float
    p95_ms: float
    p99_ms: float
    n: int


class Disk(_Told):
    """One node's disk; fields as in `ports.DiskState`."""

    attached: bool
    reason: str | None
    delay_ms: float | None
    fsyncs: dict[str, NonNegativeInt]
    measured_ms: float | None
    measured_n: NonNegativeInt
    probe: DiskProbe | None


class Document(_Told):
    """The requested document."""

    version: NonNegativeInt
    content: dict[str, Any]


class Written(_Told):
    """The document as written; null when somebody else wrote meanwhile."""

    document: Document | None


class LeaseHolder(_Told):
    """Who holds the lease."""

    holder: str
    pid: int
    host: str
    load: dict[str, int | float | str] | None = None
    """Knobs of the load that it runs, by key; null when it does not tell."""


class ExperimentHolder(_Told):
    """The experiment that runs, and whose it is."""

    kind: str
    name: str
    holder: str
    pid: int
    host: str


class ExperimentState(_Told):
    """The experiment now."""

    experiment: ExperimentHolder | None
    ours: bool
    """It belongs to the bridge that asked."""


class LeaseState(_Told):
    """The lease, or the turn, now."""

    lease: LeaseHolder | None
    ours: bool
    """It belongs to the bridge that asked."""
    experiment: ExperimentHolder | None = None
    """Because of which a turn was refused."""


class Volume(_Told):
    """Room on one volume's disk."""

    total_bytes: int
    free_bytes: int
    """For an ordinary user."""


class Health(_Told):
    """The agent's cost and counts since it started."""

    node: str
    boot: str | None = None
    """Of this run alone, drawn at its start; None from an agent that knows none."""
    uptime_s: float
    cpu_s: float
    """Of the agent."""
    bridges: int
    machine_cores: int | None = None
    machine_busy_s: float | None = None
    """CPU of all work on the node's machine since it booted."""
    backend: str | None
    backend_reason: str
    packets: int
    """That took a link's rule."""
    held: int
    dropped: int
    """Though no loss was asked."""
    lost: int
    """Because it was."""
    client_packets: int | None
    """Under a rule though not to its peer: 0 is the proof that clients are untouched. None: not counted."""
    queue_cpu_s: float | None = None
    """Of the process that holds packets; None with netem."""
    queue_packets: int | None = None
    """That it held since it started."""
    delay_error_p99_us: float | None = None
    """How far from their due time it let packets go."""
    timer_late_us: float | None = None
    queue_restarts: int = 0
    volumes: dict[str, Volume]
    """By mount: `data`, `tools`."""
    footprint_bytes: int | None = None
    """What the files in the node's volumes take, the primary's with the tools volume; None: not counted."""


class Failure(_Told):
    """Why a request was not done."""

    code: str
    """`version`, `request`, `refused` (kernel or tool), `node`, `system`, `absent` (no agent)."""
    message: str


class Answer(_Told):
    """A line from the agent: an answer when it has an id, else an event or the bridge's own error."""

    id: int | None = None
    ok: dict[str, Any] | None = None
    error: Failure | None = None
    event: str | None = None
    """`document` or `lease`: it changed."""
    version: int | None = None
    """Of the document, with its event."""
    lease: LeaseHolder | None = None
    """With its event; null when nobody drives."""
