"""The `TEXTUAL_*` variables that end the terminal library when they are wrong, looked at beforehand."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.formats.paths import expanded

_COLOR_SYSTEMS: Final = ("auto", "standard", "256", "truecolor", "windows")


def check_textual_variables(environ: Mapping[str, str]) -> None:
    """Raise UsageError naming the first variable that the dashboard could not start, or end, with."""
    for variable, wrong in _CHECKS.items():
        value = environ.get(variable)
        problem = wrong(value) if value is not None else ""
        if problem:
            raise UsageError(f"{variable}={value}", f"{problem}; correct it, or unset {variable}")


def _log(value: str) -> str:
    if not value:
        return ""
    file = Path(value)
    if file.is_dir():
        return "is a directory"
    found = _directory(str(file.parent))
    if found:
        return f"its directory {found}"
    return "cannot be written" if file.exists() and not os.access(file, os.W_OK) else ""


def _directory(value: str) -> str:
    """What is wrong with a directory to write in."""
    if not value:
        return ""
    try:
        path = expanded(value)
    except UsageError as error:
        return f"is {error.message}"
    if not path.is_dir():
        return "does not exist" if not path.exists() else "is no directory"
    return "" if os.access(path, os.W_OK | os.X_OK) else "cannot be written"


def _driver(value: str) -> str:
    module, _, name = value.partition(":")
    try:
        getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError, TypeError):
        return "names no driver that can be imported (MODULE:CLASS)"
    return ""


def _color_system(value: str) -> str:
    return "" if value in _COLOR_SYSTEMS else f"must be one of {', '.join(_COLOR_SYSTEMS)}"


_CHECKS: Final[Mapping[str, Callable[[str], str]]] = {
    "TEXTUAL_LOG": _log,
    "TEXTUAL_SCREENSHOT_LOCATION": _directory,
    "TEXTUAL_DRIVER": _driver,
    "TEXTUAL_COLOR_SYSTEM": _color_system,
}
"""What is wrong with a value, in words; empty when nothing is."""
