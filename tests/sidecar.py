"""The agent's modules for tests: they live beside their Dockerfile and are no package of ours."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

DIRECTORY = Path(__file__).parent.parent / "compose" / "sidecar"


def load(name: str) -> Any:
    """A module of the agent."""
    if str(DIRECTORY) not in sys.path:
        sys.path.append(str(DIRECTORY))
    return importlib.import_module(name)


def load_virtual(name: str, clock: object) -> Any:
    """A copy of a module of the agent whose `time` is this clock."""
    copy = ModuleType(name)
    SourceFileLoader(name, load(name).__file__).exec_module(copy)
    vars(copy)["time"] = clock
    return copy
