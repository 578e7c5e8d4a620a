"""The verb `scene`: list, save and apply named sets of knobs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from replexplorer.cli.arguments import Parser, add_global_flags, add_json, sentence
from replexplorer.cli.knobs import apply, turn, turning_arguments
from replexplorer.cli.running import run_async
from replexplorer.cli.wiring import attached
from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.names import Knob, Place, Value, find
from replexplorer.core.text import table
from replexplorer.core.topology import is_pair
from replexplorer.engine.outcome import SetResult
from replexplorer.engine.session import Session
from replexplorer.formats import paths
from replexplorer.formats.json.scene import SceneEntry
from replexplorer.formats.scenes import Scene, find_scene, load_scenes, save_scene, scene_keys

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call

_MOST_NAMED: Final = 6


def run_arguments(parser: ArgumentParser) -> None:
    """What is typed after the verb."""
    actions = parser.add_subparsers(
        title="actions", dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    for name, summary in (
        ("list", "the shipped scenes and your own"),
        ("save", "keep the requested knobs under a name"),
        ("apply", "set the knobs of a scene"),
    ):
        child = actions.add_parser(name, help=summary, description=sentence(summary))
        add_global_flags(child)
        if name != "list":
            child.add_argument("name", metavar="NAME", help="the scene's name")
        if name == "save":
            child.add_argument(
                "keys",
                nargs="*",
                metavar="KEY",
                help="of the knobs to keep; without: those not at their default",
            )
            child.add_argument("--title", metavar="TEXT", default="", help="one line of what it is for")
        if name == "apply":
            turning_arguments(child, dry_run=True)
        else:
            add_json(child)


def run(call: Call) -> int:
    """One of the three actions."""
    match call.args.action:
        case "list":
            return _list(call)
        case "save":
            for key in call.args.keys:
                find(key)
            return run_async(_save(call))
        case _:
            scene = find_scene(call.args.name, paths.scenes_directory())
            return run_async(turn(call, "scene", lambda session: _apply(session, scene, call.args)))


def _list(call: Call) -> int:
    loaded, failed = load_scenes(paths.scenes_directory())
    entries = [
        SceneEntry(
            name=scene.name,
            title=scene.title,
            origin="shipped" if scene.shipped else "user",
            file=str(scene.file),
            knobs=dict(scene.knobs),
        )
        for scene in loaded
    ]
    if call.console.json:
        broken = [
            SceneEntry(
                name=bad.name,
                title="",
                origin="shipped" if bad.shipped else "user",
                file=str(bad.file),
                knobs={},
                error=bad.reason,
            )
            for bad in failed
        ]
        call.console.document([*entries, *broken])
        return 0
    rows = [
        (entry.name, entry.origin, entry.title or ", ".join(_assignments(entry))[:80]) for entry in entries
    ]
    call.console.print(table(rows, ("NAME", "ORIGIN", "TITLE")))
    for bad in failed:
        call.console.warn(f"{bad.reason}: this scene cannot be applied")
    return 0


def _assignments(entry: SceneEntry) -> list[str]:
    return [f"{key}={value}" for key, value in entry.knobs.items()]


async def _save(call: Call) -> int:
    async with attached(call, "scene") as session:
        requested = {name: view.requested for name, view in session.knobs().items()}
    written = scene_keys(requested)
    named = {find(key).key for key in call.args.keys}
    wanted = {key for key in written if _knob(key).key in named} or turned(written)
    knobs = {key: value for key, value in written.items() if key in wanted}
    file, replaced = save_scene(call.args.name, call.args.title, knobs, paths.scenes_directory())
    what = ", ".join(knobs) if len(knobs) <= _MOST_NAMED else f"{len(knobs)} knobs"
    call.console.narrate(f"{'replaced' if replaced else 'saved'} {file}: {what}")
    if call.console.json:
        call.console.document(
            SceneEntry(name=call.args.name, title=call.args.title, origin="user", file=str(file), knobs=knobs)
        )
    return 0


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


async def _apply(session: Session, scene: Scene, args: Namespace) -> SetResult:
    try:
        return await apply(session, scene.assignments(), args)
    except UsageError as error:
        raise UsageError(f"{scene.file}: {error.message}", error.hint) from None
