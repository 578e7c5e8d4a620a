"""Verbs on knobs: set, get, reset, and scene: named sets of them."""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from replexplorer.cli.render import render_knobs, render_set
from replexplorer.cli.running import run_async, running_s
from replexplorer.cli.wiring import attached
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.knobs.names import (
    Knob,
    KnobName,
    KnobView,
    Place,
    Value,
    addressed,
    find,
    parse_assignment,
)
from replexplorer.core.text import table
from replexplorer.core.topology import is_pair, new_roster
from replexplorer.engine.outcome import RolledBack, SetResult
from replexplorer.engine.session import Session
from replexplorer.formats import paths
from replexplorer.formats.files import workload_file
from replexplorer.formats.scenes import Scene, find_scene, load_scenes, save_scene, scene_keys

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call


def set_knobs(call: Call) -> int:
    """Turn knobs; all are checked before the first statement runs."""
    texts: list[str] = call.args.assignments
    for text in texts:
        check_without_stack(text)
    return run_async(turn(call, "set", lambda session: apply(session, texts, call.args)))


def reset(call: Call) -> int:
    """All knobs to their defaults."""
    return run_async(turn(call, "reset", lambda session: session.console.reset(call.args.anyway)))


def get(call: Call) -> int:
    """Knobs with their values on this stack."""
    for key in call.args.keys:
        find(key.partition("@")[0])
    return run_async(_get(call))


async def _get(call: Call) -> int:
    async with attached(call, "get") as session:
        roster = session.roster
        names = [name for key in call.args.keys for name in addressed(key, roster)]
        if any(is_pair(name.node) for name in names):
            await session.look_at(names)
        chosen = _chosen(names, session.knobs())
    knobs = {str(name): view for name, view in chosen.items()}
    if call.console.json:
        call.console.document(knobs)
    else:
        call.console.print(render_knobs(knobs, call.console.columns))
        for key in dict.fromkeys(name.key for name in chosen) if call.args.keys else ():
            call.console.narrate(f"{key}: {find(key).help}")
    return 0


def _chosen(names: Sequence[KnobName], views: dict[KnobName, KnobView]) -> dict[KnobName, KnobView]:
    for name in names:
        if name not in views:
            raise UsageError(f"this server has no {name.key}", "`replexplorer get` lists what it has")
    return {name: views[name] for name in names} if names else views


def check_without_stack(text: str) -> None:
    """Refuse what is wrong on any stack before one is looked for; raise UsageError."""
    left, equals, value = text.partition("=")
    found = parse_assignment(f"{left.partition('@')[0]}{equals}{value}", new_roster())
    if found.names[0].knob.is_file(str(found.value)):
        workload_file(str(found.value))


async def apply(session: Session, texts: Iterable[str], args: Namespace) -> SetResult:
    """Parse all, then turn all; `--dry-run` and `--anyway` are heard."""
    assignments = tuple(session.console.parse(text) for text in texts)
    return await session.console.set(assignments, dry_run=args.dry_run, anyway=args.anyway)


_CONNECTING_IS_SAID_AFTER_S: Final = 2.0
"""A busy machine takes long to reach its own servers."""


async def turn(call: Call, holder: str, change: Callable[[Session], Awaitable[SetResult]]) -> int:
    """Attach, change, and report what was changed, or that all of it was rolled back."""
    began_s = time.monotonic() - running_s()
    try:
        connecting = asyncio.get_running_loop().call_later(
            _CONNECTING_IS_SAID_AFTER_S, call.console.progress, "connecting to the stack"
        )
        try:
            async with attached(call, holder, look=False) as session:
                connecting.cancel()
                session.narrate = call.console.narrate
                await session.sight.read_document()
                written_s = session.sight.requested.written_s
                result = await change(session)
                if not result.dry_run:  # its own request hides from now on what restarts took before it
                    await session.restorer.catch_up(written_s)
                source = session.roster.source
                took_s = time.monotonic() - began_s
        finally:
            connecting.cancel()
    except RolledBack as error:
        call.console.fail(error, changed=[], warnings=[], rolled_back=error.complete)
        return error.exit_code
    report = result.of_verb(source, took_s * 1000)
    for warning in report.all_warnings:
        call.console.warn(warning)
    if call.console.json:
        call.console.document(report)
    else:
        call.console.print(render_set(report))
    return StackUnavailable.exit_code if result.unmet else 0


_MOST_NAMED: Final = 6


def scene(call: Call) -> int:
    """One of the three actions."""
    match call.args.action:
        case "list":
            return _list_scenes(call)
        case "save":
            for key in call.args.keys:
                find(key)
            return run_async(_save(call))
        case _:
            scene = find_scene(call.args.name, paths.scenes_directory())
            return run_async(turn(call, "scene", lambda session: _apply_scene(session, scene, call.args)))


def _list_scenes(call: Call) -> int:
    found = load_scenes(paths.scenes_directory())
    if call.console.json:
        call.console.document(found)
        return 0
    rows = [
        (scene.name, scene.origin, scene.title or ", ".join(scene.assignments())[:80])
        for scene in found
        if scene.error is None
    ]
    call.console.print(table(rows, ("NAME", "ORIGIN", "TITLE")))
    for scene in found:
        if scene.error is not None:
            call.console.warn(f"{scene.error}: this scene cannot be applied")
    return 0


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
        call.console.document(Scene(call.args.name, call.args.title, "user", file, knobs))
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


async def _apply_scene(session: Session, scene: Scene, args: Namespace) -> SetResult:
    try:
        return await apply(session, scene.assignments(), args)
    except UsageError as error:
        raise UsageError(f"{scene.file}: {error.message}", error.hint) from None
