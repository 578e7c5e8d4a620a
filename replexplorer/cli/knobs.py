"""Verbs on knobs: set, get, reset, and preset: named sets of them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from replexplorer.cli.arguments import check_without_stack
from replexplorer.cli.render import render_knobs, render_set
from replexplorer.cli.wiring import attached
from replexplorer.core.errors import MissingPiece, NoSuchStack, StackUnavailable, UsageError
from replexplorer.core.knobs.names import addressed, find
from replexplorer.core.preset import Preset
from replexplorer.core.text import table
from replexplorer.core.topology import is_pair
from replexplorer.formats.scenes import find_scene, load_scenes, own_file, save_scene, scene_keys

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.core.preset import SavedData
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
        report = result.of_verb(session.roster.source, (time.monotonic() - began_s) * 1000)
        for warning in report.all_warnings:
            call.console.warn(warning)
        call.console.deliver(report, lambda: render_set(report))
    return StackUnavailable.exit_code if result.unmet else 0


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


async def list_scenes(call: Call) -> int:
    """Those that ship and the user's own, with the rows that this stack has of them."""
    saved: Mapping[str, SavedData] = {}
    with suppress(MissingPiece, StackUnavailable):
        async with attached(call, "preset list", look=False) as session:
            saved = await session.console.saved.by_preset()
    found = []
    for scene in load_scenes():
        rows = saved.get(scene.name)
        if rows is not None and scene.data:
            scene = replace(scene, data_bytes=rows.bytes, data_age_s=time.time() - rows.saved_s)
        found.append(scene)
    usable = [scene for scene in found if scene.error is None]
    lines = [
        (each.name, each.origin, each.holds, each.title or ", ".join(each.assignments())[:60])
        for each in usable
    ]
    call.console.deliver(found, lambda: table(lines, ("NAME", "ORIGIN", "HOLDS", "TITLE")))
    for scene in found:
        if scene.error is not None:
            call.console.warn(f"{scene.error}: this preset cannot be applied")
    return 0


async def save(call: Call) -> int:
    """The requested knobs under a name, all or those that are named, and with `--data` the rows."""
    args, console = call.args, call.console
    named = {find(key).key for key in args.keys}
    if named and args.data:
        raise UsageError("--data keeps all knobs with the rows", "leave the keys out")
    file = own_file(args.name)
    async with attached(call, "preset save") as session:
        views, faults = session.knobs(), session.state.faults
        if faults and not named:
            raise StackUnavailable(
                f"the fault {faults[0]} is in force, and no preset has faults", "`replexplorer fault clear`"
            )
        if args.data:
            rows = await session.console.save_data(args.name, console.progress, args.force)
            console.narrate(f"saved {rows.bytes / 1e6:,.0f} MB of rows")
        else:
            await session.console.saved.forget(args.name)
    knobs = scene_keys({name: view.requested for name, view in views.items()})
    if named:
        knobs = {key: value for key, value in knobs.items() if find(key.partition("@")[0]).key in named}
    scene = Preset(args.name, args.title, "user", file, knobs, not named, args.data)
    replaced = save_scene(scene)
    what = ", ".join(knobs) if len(knobs) <= _MOST_NAMED else f"{len(knobs)} knobs"
    console.narrate(f"{'replaced' if replaced else 'saved'} {file}: {what}")
    if console.json:
        console.document(scene)
    return 0


async def remove(call: Call) -> int:
    """A preset of the user's, with the rows that this stack has of it."""
    name, had = call.args.name, False
    file = own_file(name)
    with suppress(NoSuchStack):
        async with attached(call, "preset remove", look=False) as session:
            had = await session.console.saved.forget(name)
    if not had:
        find_scene(name)
    file.unlink(missing_ok=True)
    call.console.narrate(f"removed the preset {name}{' and its rows' if had else ''}")
    return 0


async def apply_scene(call: Call) -> int:
    """Set the knobs of a preset, or return to it where it is whole; what cannot be is said with its file."""
    args, report = call.args, call.console.progress
    preset = find_scene(args.name)

    async def change(session: Session) -> SetResult:
        done = await session.console.apply(preset, report, dry_run=args.dry_run, anyway=args.force)
        if preset.data and not args.dry_run:
            call.console.narrate(f"the rows of all nodes are those of {args.name} again")
        return done

    return await _turn(call, "preset apply", change)
