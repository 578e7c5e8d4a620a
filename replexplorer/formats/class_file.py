"""The file of a class: who its students are and how their stacks were asked for.

It is written before the first stack is made, so that `down` finds whatever a killed `up` left.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from replexplorer.core.classroom import MOST_STUDENTS, STUDENT, ClassRoll
from replexplorer.core.errors import MissingPiece
from replexplorer.core.limits import LEAST_MEMORY_MIB, MOST_CPUS, ServerLimits
from replexplorer.core.topology import MOST_REPLICAS
from replexplorer.formats import paths
from replexplorer.formats.configuration import first_error
from replexplorer.formats.small_file import read_bytes
from replexplorer.formats.whole_file import keep_record

_MOST_BYTES: Final = 1 << 18
_Student = Annotated[str, Field(pattern=f"^{STUDENT.pattern}$")]


class _ClassFile(BaseModel):
    """The file's shape."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    hosts: Annotated[dict[_Student, str], Field(min_length=1, max_length=MOST_STUDENTS)]
    replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)]
    flavor: Literal["mysql", "mariadb"] | None = None
    cpus: Annotated[float | None, Field(gt=0, le=MOST_CPUS)]
    memory_bytes: Annotated[int | None, Field(ge=LEAST_MEMORY_MIB << 20)]
    settled: frozenset[str]


def _file(name: str) -> Path:
    return paths.class_directory(name) / "class.json"


def password_file(name: str, student: str) -> Path:
    """Where a student's password is kept."""
    return paths.class_directory(name) / f"{student}.password"


def read_class(name: str) -> ClassRoll | None:
    """The class; None where there is none. Raises MissingPiece for a file that cannot be read, naming the
    key that is wrong."""
    file = _file(name)
    try:
        read = _ClassFile.model_validate_json(read_bytes(file, _MOST_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError as error:
        where, what = first_error(error)
        problem = f"{'.'.join(where)} {what}".strip()
    except (OSError, ValueError) as error:
        problem = str(error)
    else:
        limits = ServerLimits(read.cpus, read.memory_bytes)
        return ClassRoll(name, read.hosts, read.replicas, limits, read.flavor, read.settled)
    raise MissingPiece(
        f"cannot read the students of class {name}, {file} ({problem})", "correct or remove the file"
    )


def write_class(roll: ClassRoll) -> None:
    """Keep it, mode 0600 in a directory of mode 0700; raises MissingPiece when it cannot be written."""
    content = {
        "hosts": dict(roll.hosts),
        "replicas": roll.replicas,
        "flavor": roll.flavor,
        "cpus": roll.limits.cpus,
        "memory_bytes": roll.limits.memory_bytes,
        "settled": sorted(roll.settled),
    }
    keep_record(_file(roll.name), content)


def forget_class(name: str) -> None:
    """Remove all that is kept of the class, passwords too; raises MissingPiece when it cannot be removed."""
    directory = paths.class_directory(name)
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        return
    except OSError as error:
        raise MissingPiece(f"cannot remove {directory}", (error.strerror or str(error)).lower()) from None
