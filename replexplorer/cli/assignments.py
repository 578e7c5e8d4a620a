"""`KEY=VALUE` and scenes as they are typed, for verbs that read them before there is a stack."""

from __future__ import annotations

from replexplorer.core.knobs.names import parse_assignment
from replexplorer.core.topology import new_roster
from replexplorer.formats import paths
from replexplorer.formats.files import workload_file
from replexplorer.formats.scenes import find_scene


def check_without_stack(text: str) -> None:
    """Refuse what is wrong on any stack before one is looked for; raise UsageError."""
    left, equals, value = text.partition("=")
    found = parse_assignment(f"{left.partition('@')[0]}{equals}{value}", new_roster())
    if found.names[0].knob.is_file(str(found.value)):
        workload_file(str(found.value))


def scene_texts(name: str) -> tuple[str, ...]:
    """A scene's `KEY=VALUE` texts; raises UsageError."""
    return find_scene(name, paths.scenes_directory()).assignments()
