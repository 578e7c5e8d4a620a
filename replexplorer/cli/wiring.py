"""Composition: the configuration of a call, and later the adapters behind a session."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.config.model import LoadedConfiguration


def load_configuration_of(call: Call) -> LoadedConfiguration:
    """The effective configuration: `--config`, else REPLEXPLORER_CONFIG, else the user's own file."""
    from replexplorer.config import paths
    from replexplorer.config.model import load_configuration

    named = call.args.config or os.environ.get("REPLEXPLORER_CONFIG")
    file = Path(named).expanduser() if named else paths.config_file()
    loaded = load_configuration(file, named_by_user=bool(named), flags={"stack": call.args.stack})
    for variable in loaded.unknown_variables:
        call.console.warn(f"{variable} is no setting: `replexplorer config` lists them")
    return loaded
