"""Where files are: the user's own under XDG, and what ships with the program.

Nothing here makes a directory; whoever writes a file does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Final

import platformdirs

from replexplorer.core.errors import MissingPiece, UsageError

APPLICATION: Final = "replexplorer"
"""The directory's name below each XDG directory."""
ENV_PREFIX: Final = "REPLEXPLORER_"
"""The prefix of our environment variables."""
OPTION_FILE: Final = ".cnf"
"""Ends the name of an option file of MySQL's clients."""


def _own(kind: Callable[..., Path]) -> Path:
    """The program's directory of this kind; raises MissingPiece where the user has no home to have it in."""
    try:
        return kind(APPLICATION, appauthor=False)
    except RuntimeError:  # neither the variable of its kind nor HOME is set, and no such user is known
        remedy = "set HOME, or XDG_CONFIG_HOME, XDG_STATE_HOME and XDG_CACHE_HOME, to full paths"
        raise MissingPiece("this user has no home directory", remedy) from None


def config_directory() -> Path:
    """`$XDG_CONFIG_HOME/replexplorer`: config.toml, keys.toml, themes/, scenes/, labs/, drills/, lessons/."""
    return _own(platformdirs.user_config_path)


def config_file() -> Path:
    """The configuration file that is read when no other is named."""
    return config_directory() / "config.toml"


def keys_file() -> Path:
    """The user's key bindings."""
    return config_directory() / "keys.toml"


def themes_directory() -> Path:
    """The user's own themes."""
    return config_directory() / "themes"


def scenes_directory() -> Path:
    """The user's own scenes."""
    return config_directory() / "scenes"


def experiments_directory(kind: str) -> Path:
    """The user's own labs, drills or lessons."""
    return config_directory() / f"{kind}s"


def expanded(written: str) -> Path:
    """The path with `~` and `~NAME` as users' directories; raises UsageError where there is no such user."""
    path = os.path.expanduser(written)
    if path.startswith("~"):  # as a Path, which has no `./`, it could not be told from a file of that name
        home = path.partition("/")[0]
        raise UsageError(
            f"{written}: this machine has no user {home[1:]}", f"write the path in full, or ./{home}"
        )
    return Path(path)


def is_there(file: Path) -> bool:
    """Whether there is such a file or link; raises PermissionError where this user may not look."""
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    return True


def toml_files(directory: Path) -> list[Path]:
    """The user's own `*.toml` there, by name; none without the directory. Raises PermissionError where this
    user may not look."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(directory / name for name in names if name.endswith(".toml") and not name.startswith("."))


def state_directory() -> Path:
    """`$XDG_STATE_HOME/replexplorer`: accounts of the stacks, the sessions, the log."""
    return _own(platformdirs.user_state_path)


def stack_directory(stack: str) -> Path:
    """What this host keeps of one stack: its accounts, and option files for clients."""
    return state_directory() / "stacks" / stack


def option_file(stack: str, user: str, node: str, *, direct: bool) -> Path:
    """The option file that `dsn --defaults-file` writes for clients; it goes with the stack's accounts."""
    return stack_directory(stack) / f"{user}-{node}{'' if direct else '-published'}{OPTION_FILE}"


def journal(kind: str, stack: str, identity: str) -> Path:
    """The journal of one unfinished `sweep` or `matrix` of a stack; finished ones lie next to it."""
    directory = {"sweep": "sweeps", "matrix": "matrices"}[kind]
    return state_directory() / directory / f"{stack}-{identity}.jsonl"


def ledgers_directory(stack: str) -> Path:
    """The client logs of a stack's `ledger` loads, a directory a run."""
    return state_directory() / "ledgers" / stack


def class_directory(name: str) -> Path:
    """What is kept of one class: its students, and a file with each one's password."""
    return state_directory() / "classes" / name


def lesson_state(stack: str) -> Path:
    """Where the lesson of a stack is, while one is given there."""
    return stack_directory(stack) / "lesson.json"


def lesson_result(name: str) -> Path:
    """What a lesson came to when it was given last on this machine."""
    return state_directory() / "lessons" / f"{name}.json"


def captured_workload(server: str) -> Path:
    """The load of another server that `up --like` found there; it stays when the stack goes."""
    return state_directory() / "workloads" / f"{server}.sql"


def attached_directory() -> Path:
    """The journals of changes on servers that somebody else made, a file a source while there are any."""
    return state_directory() / "attached"


def sessions_directory() -> Path:
    """The recorded sessions."""
    return state_directory() / "sessions"


def calibration_file() -> Path:
    """What the model was last fitted to on this machine, by a sweep."""
    return state_directory() / "calibration.json"


def log_file() -> Path:
    """The program's own log."""
    return state_directory() / "log"


def cache_directory() -> Path:
    """`$XDG_CACHE_HOME/replexplorer`: what can be lost at any time."""
    return _own(platformdirs.user_cache_path)


PACKAGE: Final = Path(str(files("replexplorer")))
"""Where the program is, in a wheel as in a checkout."""


SHIPPED_TOUR: Final = PACKAGE / "recordings" / "tour.rxs"
"""The recorded tour that ships inside the package."""


def shipped_experiments(kind: str) -> Path:
    """The labs, drills or lessons that ship inside the package."""
    return PACKAGE / f"{kind}s"


def shipped(name: str) -> Path:
    """A directory that ships with the program, `compose` or `themes`.

    It lies inside the package of an installed wheel, and next to the package in a checkout.
    Raises FileNotFoundError when neither is there.
    """
    for candidate in (PACKAGE / "_shipped" / name, PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"{name}/ is neither in the package {PACKAGE} nor next to it")
