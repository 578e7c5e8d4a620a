"""The file of a class: who its students are and how their stacks were asked for.

It is written before the first stack is made, so that `down` finds whatever a killed `up` left.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Final

from replexplorer.core.classroom import STUDENT, ClassRoll
from replexplorer.core.errors import MissingPiece
from replexplorer.core.limits import ServerLimits
from replexplorer.formats import paths
from replexplorer.formats.small_file import read_bytes
from replexplorer.formats.whole_file import keep_record

_MOST_BYTES: Final = 1 << 18


def _file(name: str) -> Path:
    return paths.class_directory(name) / "class.json"


def password_file(name: str, student: str) -> Path:
    """Where a student's password is kept."""
    return paths.class_directory(name) / f"{student}.password"


def read_class(name: str) -> ClassRoll | None:
    """The class; None where there is none. Raises MissingPiece for a file that cannot be read."""
    file = _file(name)
    try:
        content = json.loads(read_bytes(file, _MOST_BYTES))
        hosts = {str(student): str(host) for student, host in content["hosts"].items()}
        if not hosts or not all(map(STUDENT.fullmatch, hosts)):
            raise ValueError("no names of students")
        limits = ServerLimits(content["cpus"], content["memory_bytes"])
        return ClassRoll(name, hosts, int(content["replicas"]), limits, frozenset(content["settled"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise MissingPiece(
            f"cannot read the students of class {name}, {file} ({error})", "correct or remove the file"
        ) from None


def write_class(roll: ClassRoll) -> None:
    """Keep it, mode 0600 in a directory of mode 0700; raises MissingPiece when it cannot be written."""
    content = {
        "hosts": dict(roll.hosts),
        "replicas": roll.replicas,
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
