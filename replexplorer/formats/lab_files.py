"""Labs of one's own as TOML: phases with knobs, and relations as simple comparisons.

Law: an error names the file, the line and the key, and nothing has been turned by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.names import Place, find, parse_assignment
from replexplorer.core.topology import MOST_REPLICAS, SOURCE, new_roster
from replexplorer.formats.configuration import first_error
from replexplorer.formats.small_file import MOST_TOML_BYTES, WrongToml, parse_toml, read_text
from replexplorer.formats.toml_place import placed


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PublishedFigure(_Part):
    """`published = { value = 11.51, unit = "tps" }`."""

    value: float
    unit: str = "tps"


class PhaseTable(_Part):
    """One `[[phase]]`."""

    name: Annotated[str, Field(min_length=1, max_length=40)]
    shows: str = ""
    """What to watch."""
    set: dict[str, bool | int | float | str] = Field(default={})
    """Knobs, by their keys."""
    seconds: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """How long it is measured."""
    quick_seconds: Annotated[float | None, Field(gt=0, le=3600)] = None
    """Under --quick; a quarter of `seconds`, at least 2, when it is not given."""
    commits: Annotated[int | None, Field(ge=1)] = None
    """Measured until this many commits instead; a tenth of them under --quick."""
    state: Literal["protected", "off"] | None = None
    """The protection state that is asked for; by `semi_sync` when it is not given."""
    replicas: Annotated[int | None, Field(ge=0, le=MOST_REPLICAS)] = None
    """This many replicas are attached."""
    published: PublishedFigure | None = None


class RelationTable(_Part):
    """One `[[relation]]`: left is times x right."""

    name: Annotated[str, Field(min_length=1)]
    left: float | str
    sign: Literal["<", "<=", ">", ">="] = Field(alias="is")
    right: float | str
    times: Annotated[float, Field(gt=0)] = 1.0


class LabTables(_Part):
    """The file."""

    title: str = ""
    teaches: str = ""
    replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] = 1
    phase: Annotated[list[PhaseTable], Field(min_length=1)]
    relation: list[RelationTable] = Field(default=[])


@dataclass(frozen=True, slots=True)
class LabFile:
    """A lab of one's own, read and checked, and where its parts stand."""

    file: Path
    name: str
    """The file's stem."""
    tables: LabTables
    lines: Sequence[str]

    def settings(self, phase: PhaseTable) -> tuple[str, ...]:
        """The phase's knobs as they are typed, by their own keys."""
        return tuple(f"{canonical_key(key)}={typed_value(value)}" for key, value in phase.set.items())

    def wrong(self, where: Sequence[str | int], error: UsageError) -> UsageError:
        """The error with its place: `mine.toml:12: relation 1.left: ...`."""
        return placed(self.file, self.lines, where, error)


def read_lab(file: Path) -> LabFile:
    """Read and check a lab; raises UsageError naming file, line and key."""
    text = read_text(file, "lab file", MOST_TOML_BYTES)
    lines = text.splitlines()
    try:
        tables = LabTables.model_validate(parse_toml(text))
    except WrongToml as error:
        if not error.where:
            raise UsageError(f"{file}", error.words) from None
        raise placed(file, lines, error.where, UsageError(error.words, "")) from None
    except ValidationError as error:
        wrong = UsageError(first_error(error)[1], "")
        raise placed(file, lines, error.errors()[0]["loc"], wrong) from None
    found = LabFile(file, file.stem, tables, lines)
    names = [phase.name for phase in tables.phase]
    for at, phase in enumerate(tables.phase):
        if names.index(phase.name) != at:
            raise found.wrong(("phase", at, "name"), UsageError(f"{phase.name!r} is another phase's name"))
        for key, value in phase.set.items():
            try:
                parse_assignment(f"{key}={typed_value(value)}", new_roster(tables.replicas))
            except UsageError as error:
                raise found.wrong(("phase", at, "set", key), error) from None
    return found


def canonical_key(key: str) -> str:
    """`KEY@NODE` of any of the knob's names; the node is left out where the knob has but one."""
    name, _, node = key.partition("@")
    node = node.strip()
    return find(name).key if node in ("", SOURCE, Place.LOAD) else f"{find(name).key}@{node}"


def typed_value(value: bool | float | str) -> str:
    """A value of TOML as it is typed."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
