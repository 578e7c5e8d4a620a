"""Themes: the built-in ones and the user's own, read from TOML files of one shape.

Law: a broken theme never takes the app down; it is reported by file, line and key and left out. A
theme names every token, so that no screen can meet a colour that is missing. Nothing is read
at import.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from replexplorer.core.errors import UsageError
from replexplorer.core.json_keys import json_keys
from replexplorer.core.records import dataclass, field, replace
from replexplorer.formats.files import TomlFile
from replexplorer.formats.paths import shipped, toml_files

BUILT_IN: Final = ("dark", "light", "safe", "projector")
"""Names of the themes that ship, in the order of `theme.next`."""


def _color(text: str) -> str:
    """`#rrggbb` of that or of `#rgb`; raise ValueError on anything else."""
    if not re.fullmatch(r"#([0-9a-fA-F]{3}){1,2}", text):
        raise ValueError(f"{text!r} is not a color: write it as #rrggbb")
    return (text if len(text) == 7 else "#" + "".join(2 * digit for digit in text[1:])).lower()


Color = Annotated[str, AfterValidator(_color)]
"""A colour that is always `#rrggbb` once it is read."""


TABLES: Final = {
    # Grounds, letters and lines.
    "screen": "bg panel rule text muted faint title accent select grid axis",
    # What the charts draw; `tpsfill` is the band between p50 and p99 as well.
    "series": "tps tpsfill ceiling p50 p95 p99 max mark fault faultbg",
    # The parts of one commit; `oncolor` is the text on them.
    "anatomy": "execute redo binlog ack engine oncolor queue fsync_queue ack_queue wire other group",
    # The grounds of the protection states; `onstate` is the text on them.
    "status": "protected degraded async armed blocked partitioned onstate",
    # Differences, warnings and keys.
    "figures": "good bad warn key keybg",
    # Grounds of the charts' windows by what they are of, and words on those that no state has a colour for.
    "bands": "down restart partitionbg blockedbg degradedbg downbg restartbg",
}
"""The tables of a theme file, and the tokens that each gives a colour to: all of them."""
TOKENS: Final = tuple(token for tokens in TABLES.values() for token in tokens.split())
"""Every token that a theme gives a colour to."""


def _table(name: str) -> Any:
    """The model of one table, without room for unknown keys; a word of Python's may be a key."""
    tokens: dict[str, Any] = {f"{each}_": (Color, Field(alias=each)) for each in TABLES[name].split()}
    return create_model(name.title(), __config__=ConfigDict(extra="forbid"), **tokens)


class ThemeFile(BaseModel):
    """One theme file: these keys and its tables."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,30}$")]
    dark: bool
    description: str = ""


_WHOLE_FILE: Final = create_model("Theme", __base__=ThemeFile, **{name: _table(name) for name in TABLES})


@json_keys(hide="tokens")
@dataclass(frozen=True, kw_only=True, slots=True)
class Theme:
    """A theme; one with an error is not used."""

    name: str
    dark: bool | None
    origin: Literal["built-in", "user"] = "user"
    file: Path
    description: str = ""
    error: str | None = None
    """With the file's name, in one line."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Token (as `p50`, `async`) to `#rrggbb`, all tables together."""


def read_theme(file: Path) -> Theme:
    """Read one theme file; raises UsageError naming the file, the line and the first wrong key."""
    read = TomlFile(file, "theme").read(_WHOLE_FILE)
    tables = read.model_dump(by_alias=True, include={*TABLES})
    tokens = {token: color for table in tables.values() for token, color in table.items()}
    return Theme(name=read.name, dark=read.dark, file=file, description=read.description, tokens=tokens)


def load_themes(user_directory: Path | None = None) -> tuple[Theme, ...]:
    """All themes: the built-in ones first, then the user's `*.toml` by file name; at last what is broken.

    A user's theme with a built-in name takes its place; of two user files with one name the
    second fails.
    """
    built_in = (read_theme(shipped("themes") / f"{name}.toml") for name in BUILT_IN)
    loaded = {theme.name: replace(theme, origin="built-in") for theme in built_in}
    failed: list[Theme] = []
    for file in () if user_directory is None else toml_files(user_directory):
        try:
            theme = read_theme(file)
            before = loaded.get(theme.name)
            if before is not None and before.origin == "user":
                raise UsageError(f"{file}: name: {theme.name!r} is taken by {before.file.name}")
            loaded[theme.name] = theme
        except UsageError as error:
            failed.append(Theme(name=file.stem, dark=None, file=file, error=str(error)))
    return (*loaded.values(), *failed)
