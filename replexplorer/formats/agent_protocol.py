"""The protocol between the app and the agent in a sidecar: JSON lines, one model a shape.

A request carries an id and an op; the answer carries the id and either `ok` or `error`. A line without
an id is an error of the bridge itself. Requests are strict: the app sends nothing that is
not here. Answers ignore fields they do not know, so that an agent may tell more.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, TypeAdapter

# Models are built when they are first used: a verb uses few, and on a busy machine its start takes long.


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class AskDocument(_Asked):
    """The requested document; answered by `Document`."""

    op: Literal["document"] = "document"


class WriteDocument(_Asked):
    """Compare and set; answered by `Written`."""

    op: Literal["write_document"] = "write_document"
    expect_version: NonNegativeInt
    content: dict[str, Any]


class TakeLease(_Asked):
    """Become the driver of the load, or say anew what one drives; answered by `LeaseState`. Some seconds
    after the bridge ended, in which the app can come back through any agent, the lease ends."""

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
    in time, and with the experiment of another app, while which nobody else may turn anything. The turn
    ends as the lease does."""

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
    ends as the lease does."""

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


Request = Annotated[
    AskDocument
    | WriteDocument
    | TakeLease
    | AskLease
    | ReleaseLease
    | TakeTurn
    | LeaveTurn
    | BeginExperiment
    | EndExperiment,
    Field(discriminator="op"),
]
"""Everything that an app may ask."""

REQUEST: TypeAdapter[Request] = TypeAdapter(Request, config=ConfigDict(defer_build=True))


class _Told(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


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
    """It belongs to the app that asked."""


class LeaseState(_Told):
    """The lease, or the turn, now."""

    lease: LeaseHolder | None
    ours: bool
    """It belongs to the app that asked."""
    experiment: ExperimentHolder | None = None
    """Because of which a turn was refused."""


class Failure(_Told):
    """Why a request was not done."""

    code: str
    """`version`, `request`, `refused` (kernel or tool), `system`, `absent` (no agent)."""
    message: str


class Answer(_Told):
    """A line from the agent: an answer when it has an id, else the bridge's own error."""

    id: int | None = None
    ok: dict[str, Any] | None = None
    error: Failure | None = None
