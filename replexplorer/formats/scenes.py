"""Scenes: named sets of knobs as TOML, the four durability modes that ship and the user's own.

Law: an error names the file and the key. A scene is checked whole before a knob is turned.
The shipped modes are those of "Semi-sync replication is not slow!" (docs/reference/labs.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.names import Knob, KnobName, Place, Value, find, parse_value
from replexplorer.core.preset import Preset, typed_value
from replexplorer.core.text import closest
from replexplorer.core.topology import is_pair
from replexplorer.formats.files import TomlFile, whole_file
from replexplorer.formats.paths import is_there, scenes_directory, toml_files

SHIPPED: Final = ("none", "local", "network", "both")
"""The scenes that ship, in the order of `scene list`."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


class _SceneFile(BaseModel):
    """The file's shape."""

    model_config = ConfigDict(extra="forbid")

    title: str = ""
    whole: bool = False
    data: bool = False
    knobs: Annotated[dict[str, Any], Field(min_length=1)]
    """Each value is checked by what its knob takes."""


SHIPPED_DIRECTORY: Final = Path(__file__).with_name("shipped_scenes")
"""Where the shipped scenes are: next to this module, in a wheel as in a checkout."""


def load_scenes() -> tuple[Preset, ...]:
    """Every scene: the shipped ones first, then the user's by name; one that is broken has an error."""
    own = [file for file in toml_files(scenes_directory()) if file.stem not in SHIPPED]
    return (*map(_shipped, SHIPPED), *map(_own, own))


def _shipped(name: str) -> Preset:
    return replace(read_scene(SHIPPED_DIRECTORY / f"{name}.toml"), origin="shipped")


def _own(file: Path) -> Preset:
    try:
        return read_scene(file)
    except UsageError as error:
        return Preset(file.stem, "", "user", file, {}, error=str(error))


def find_scene(name: str) -> Preset:
    """The preset of this name; raise UsageError with the nearest name, or naming file and key."""
    if name in SHIPPED:
        return _shipped(name)
    file = scenes_directory() / f"{name}.toml"
    if _NAME.fullmatch(name) and is_there(file):
        return read_scene(file)
    near = closest(name, [*SHIPPED, *(found.stem for found in toml_files(scenes_directory()))])
    raise UsageError(f"unknown preset {name!r}", near or "`replexplorer preset list` shows them")


def scene_texts(name: str) -> tuple[str, ...]:
    """A scene's `KEY=VALUE` texts, of a whole one what it turns, so that a sweep can turn others; raises
    UsageError."""
    scene = find_scene(name)
    kept = turned(scene.knobs) if scene.whole else scene.knobs
    return replace(scene, knobs={key: scene.knobs[key] for key in scene.knobs if key in kept}).assignments()


def turned(written: Mapping[str, Value]) -> set[str]:
    """Written keys of what is not at its default, of all replicas where one is not; of all where everything
    is at its default: a scene that takes all back."""
    found = {key for key, value in written.items() if value != _knob(key).default}
    everywhere = {_knob(key).key for key in found if _knob(key).place is Place.REPLICAS and not is_pair(key)}
    return found | {key for key in written if _knob(key).key in everywhere and not is_pair(key)} or set(
        written
    )


def _knob(written: str) -> Knob:
    return find(written.partition("@")[0])


def read_scene(file: Path) -> Preset:
    """Read and check one scene file; raise UsageError naming the file and the first wrong key."""
    toml = TomlFile(file, "preset file")
    content = toml.read(_SceneFile)
    knobs: dict[str, Value] = {}
    for written, value in content.knobs.items():
        key, at, node = written.partition("@")
        text = str(value).lower() if isinstance(value, bool) else typed_value(value)
        try:
            knob = find(key)
            knobs[f"{knob.key}{at}{node.strip()}"] = parse_value(knob, text)
        except UsageError as error:
            raise toml.wrong(("knobs", written), error.message, error.hint) from None
    return Preset(file.stem, content.title, "user", file, knobs, content.whole, content.data)


def scene_keys(requested: Mapping[KnobName, Value]) -> dict[str, Value]:
    """Requested values by written key; where all replicas agree the key is bare and fits any stack. A link
    between two of them is never bare."""
    written: dict[str, Value] = {}
    for name, value in requested.items():
        among = {
            other for known, other in requested.items() if known.key == name.key and not is_pair(known.node)
        }
        everywhere = name.knob.place is Place.REPLICAS and len(among) == 1 and not is_pair(name.node)
        written[name.key if everywhere else str(name)] = value
    return written


def own_file(name: str) -> Path:
    """Where the user's scene of this name is, or is to be; raises UsageError when the name is not usable."""
    if name in SHIPPED:
        raise UsageError(f"the preset {name!r} ships with replexplorer", "choose another name")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a name for a preset", "use a-z, 0-9, - and _, at most 40 characters"
        )
    return scenes_directory() / f"{name}.toml"


def save_scene(scene: Preset) -> bool:
    """Write the user's scene whole or not at all; answers whether it replaced one."""
    replaced = scene.file.exists()
    lines = [f"title = {_written(scene.title)}"]
    lines += [f"{key} = true" for key in ("whole", "data") if getattr(scene, key)]
    lines += ["", "[knobs]"]
    for key, value in scene.knobs.items():
        lines.append(f"{key if '@' not in key else _written(key)} = {_written(value)}")
    with whole_file(scene.file, parents=True) as stream:
        stream.write("\n".join(lines) + "\n")
    return replaced


def _written(value: Value) -> str:
    """A value of TOML, whose texts are JSON's but for one character that must be escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
