"""`classroom`: its students, and what came of a verb for each."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from replexplorer.formats.json.model import JsonObject


class StudentJson(JsonObject):
    """One student's stack."""

    student: str
    stack: str
    host: str | None = Field(
        description="the Docker host, as `classroom up --on` was told; null: this machine"
    )
    state: str | None = Field(description="up, partial, down, starting; null: it does not answer")
    protection: str | None
    tps: float | None = Field(description="transactions that the source logged a second, between two looks")
    load: str | None = Field(description="who drives one")
    memory_bytes: int | None = Field(description="of its containers, without the page cache")
    problem: str | None = Field(description="why it does not answer")


class ClassStatus(JsonObject):
    """`classroom status`."""

    name: str
    students: list[StudentJson]


class OutcomeJson(JsonObject):
    """What came of a verb for one student."""

    student: str
    stack: str
    exit_code: int
    took_ms: float
    answer: Any = Field(description="the verb's own document; null where it prints none")
    said: list[str] = Field(description="its lines on stderr, progress included")


class ClassOutcome(JsonObject):
    """`classroom do`, `up` and `down`."""

    name: str
    verb: list[str]
    exit_code: int = Field(description="the greatest among the students'")
    students: list[OutcomeJson]


DOCUMENTS: Final[dict[str, Any]] = {
    "classroom status": ClassStatus,
    "classroom do": ClassOutcome,
    "classroom up": ClassOutcome,
    "classroom down": ClassOutcome,
}
