"""Verbs on knobs: set, get, reset, and preset: named sets of them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from replexplorer.cli.arguments import check_without_stack
from replexplorer.cli.render import render_knobs, render_set
from replexplorer.cli.wiring import attached
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.knobs.names import Knob, Place, Value, addressed, find
from replexplorer.core.text import table
from replexplorer.core.topology import is_pair
from replexplorer.formats import paths
from replexplorer.formats.scenes import Scene, find_scene, load_scenes, save_scene, scene_keys

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.engine.outcome import SetResult
    from replexplorer.engine.session import Session


async def set_knobs(call: Call) -> int:
    """Turn knobs; all are checked before the first statement runs."""
    texts: list[str] = call.args.assignments
    for text in texts:
        check_without_stack(text)
    return await _turn(call, "set", lambda session: _set(session, texts, call))


async def reset(call: Call) -> int:
    """All knobs to their defaults."""
    return await _turn(call, "reset", lambda session: session.console.reset(call.args.force))


async def _set(session: Session, texts: Iterable[str], call: Call) -> SetResult:
    """Parse all, then turn all."""
    assignments = tuple(session.console.parse(text) for text in texts)
    return await session.console.set(assignments, dry_run=call.args.dry_run, anyway=call.args.force)


async def _turn(call: Call, holder: str, change: Callable[[Session], Awaitable[SetResult]]) -> int:
    """Attach, change, and report what was changed."""
    began_s = time.monotonic()
    async with attached(call, holder, look=False) as session:
        session.narrate = call.console.narrate
        await session.state.read_document()
        written_s = session.state.requested.written_s
        result = await change(session)
        if not result.dry_run:  # its own request hides from now on what restarts took before it
            await session.restorer.catch_up(written_s)
        report_set(call, session, result, time.monotonic() - began_s)
    return StackUnavailable.exit_code if result.unmet else 0


def report_set(call: Call, session: Session, result: SetResult, took_s: float) -> SetResult:
    """Print what was turned, and answer it as --json has it."""
    report = result.of_verb(session.roster.source, took_s * 1000)
    for warning in report.all_warnings:
        call.console.warn(warning)
    call.console.deliver(report, lambda: render_set(report))
    return report


async def get(call: Call) -> int:
    """Knobs with their values on this stack, or those of them that are named."""
    asked: list[str] = call.args.keys
    for key in asked:
        find(key.partition("@")[0])
    async with attached(call, "get") as session:
        names = [name for key in asked for name in addressed(key, session.roster)]
        if any(is_pair(name.node) for name in names):
            await session.state.look_at_links(name.node for name in names)
        views = session.knobs()
    for name in names:
        if name not in views:
            raise UsageError(f"this server has no {name.key}", "`replexplorer get` lists what it has")
    knobs = {str(name): views[name] for name in names or views}
    call.console.deliver(knobs, lambda: render_knobs(knobs, call.console.columns))
    if not call.console.json:
        for name in {name.key: name for name in names}.values():
            own = knobs[str(name)].variable
            also = f" ({own})" if own not in (None, name.key) else ""
            call.console.narrate(f"{name.key}{also}: {name.knob.help}")
    return 0


# -- scenes

_MOST_NAMED: Final = 6


def list_scenes(call: Call) -> int:
    """Those that ship and the user's own."""
    found = load_scenes(paths.scenes_directory())
    usable = [scene for scene in found if scene.error is None]
    rows = [(each.name, each.origin, each.title or ", ".join(each.assignments())[:80]) for each in usable]
    call.console.deliver(found, lambda: table(rows, ("NAME", "ORIGIN", "TITLE")))
    for scene in found:
        if scene.error is not None:
            call.console.warn(f"{scene.error}: this preset cannot be applied")
    return 0


async def save(call: Call) -> int:
    """The requested knobs under a name."""
    args = call.args
    named = {find(key).key for key in args.keys}
    async with attached(call, "scene") as session:
        requested = {name: view.requested for name, view in session.knobs().items()}
    written = scene_keys(requested)
    wanted = {key for key in written if _knob(key).key in named} or turned(written)
    knobs = {key: value for key, value in written.items() if key in wanted}
    file, replaced = save_scene(args.name, args.title, knobs, paths.scenes_directory())
    what = ", ".join(knobs) if len(knobs) <= _MOST_NAMED else f"{len(knobs)} knobs"
    call.console.narrate(f"{'replaced' if replaced else 'saved'} {file}: {what}")
    if call.console.json:
        call.console.document(Scene(args.name, args.title, "user", file, knobs))
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


async def apply_scene(call: Call) -> int:
    """Set the knobs of a scene; what cannot be is said with its file."""
    scene = find_scene(call.args.name, paths.scenes_directory())

    async def change(session: Session) -> SetResult:
        try:
            return await _set(session, scene.assignments(), call)
        except UsageError as error:
            raise UsageError(f"{scene.file}: {error.message}", error.hint) from None

    return await _turn(call, "scene", change)
