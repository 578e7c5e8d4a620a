"""The agent's modules for tests: they live beside their Dockerfile and are no package of ours."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent.parent / "compose" / "sidecar"


def load(name: str) -> Any:
    """A module of the agent."""
    if str(DIRECTORY) not in sys.path:
        sys.path.append(str(DIRECTORY))
    return importlib.import_module(name)
