"""No verb: the dashboard, with what the configuration and the user's files say of its looks."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from replexplorer.cli.entry import Call, is_served
from replexplorer.cli.wiring import calibration_of, outside_of, provider_of, runs, session_on, to_make
from replexplorer.core.errors import NoSuchStack, ReplexplorerError, UsageError
from replexplorer.core.text import closest
from replexplorer.engine.session import Session
from replexplorer.formats import paths
from replexplorer.formats.keymap import load_keymap
from replexplorer.formats.themes import load_themes
from replexplorer.ports import UpOptions

if TYPE_CHECKING:
    from replexplorer.core.experiment.experiment import NamedExperiment
    from replexplorer.core.experiment.lesson import Lesson
    from replexplorer.core.experiment.sweep_result import Swept
    from replexplorer.engine.view import View
    from replexplorer.ui.settings import Settings


def run(call: Call, lesson: Lesson | None = None) -> int:
    """Run the dashboard, with a lesson or without, until it is quit; says in one line what it left behind."""
    session, settings = live_session(call, "tui")
    settings = replace(settings, lesson=lesson)
    return shown(call, session, settings, "the dashboard", f", stack '{settings.stack}' keeps running")


def watch(call: Call) -> int:
    """The dashboard over what others do with the stack; changes nothing."""
    from replexplorer.engine.session import Spectator

    settings = settings_of(call)
    if not asyncio.run(runs(call.values)) and not is_served():
        raise NoSuchStack(f"no stack '{settings.stack}' runs here", "`replexplorer` starts one and drives it")
    # A tab may be open before the one that drives has brought the stack up.
    outside = outside_of(provider_of(call.values))
    spectator = Spectator(outside, calibration=calibration_of(call), patient=is_served())
    return shown(call, spectator, settings, "the view")


def shown(call: Call, view: View, settings: Settings, what: str, after_crash: str = "") -> int:
    """Run the app until it is quit, say what it left behind, and answer its exit code; raises the one line of
    a defect of `what`."""
    from replexplorer.ui.app import ExplorerApp

    app = ExplorerApp(view, settings)
    left = app.run()
    if app.crash is not None:
        raise crashed(app.crash, what, after_crash)
    if left:
        call.console.narrate(left)
    return app.return_code or 0


def crashed(crash: Exception, what: str, left: str = "") -> ReplexplorerError:
    """The one line of a defect of `what`; its traceback is in the log."""
    from replexplorer.ui.terminal.crash import log_crash

    file = paths.log_file()
    where = f"its traceback is in {file}" if log_crash(crash, file) else f"{file} cannot be written"
    text = " ".join(str(crash).split())[:200]
    why = f"{type(crash).__name__}: {text}" if text else type(crash).__name__
    return ReplexplorerError(f"{what} crashed because of a bug ({why}){left}", f"{where}; please report it")


def live_session(call: Call, holder: str) -> tuple[Session, Settings]:
    """A session on the configured stack, which brings it up when it is started, and how to show it, with all
    labs and drills; raises MissingPiece where Docker does not answer, before any screen is taken."""
    from replexplorer.cli.experiment import DRILLS, LABS, LESSONS
    from replexplorer.cli.lesson import lesson_run
    from replexplorer.core.experiment.matrix import Matrix

    settings, values = settings_of(call), call.values
    up = asyncio.run(to_make(values, UpOptions()))
    stack = provider_of(values, hosts=up.hosts)
    asyncio.run(runs(values))
    session = session_on(
        call,
        stack,
        holder,
        recorded=True,
        calibrated=True,
        up=up,
        asks=True,
        on_quit=values.on_quit,
        heartbeat=True,
    )
    experiments: list[NamedExperiment] = []
    unused: list[str] = []
    for files, more in ((LESSONS, ()), (LABS, ()), (DRILLS, (Matrix(),))):
        own, failed = files.own()
        experiments += [*files.shipped().values(), *more, *(each for each, _ in own)]
        unused += [f"{files.kind} {error} (not used)" for _, error in failed]
    settings = replace(
        settings,
        experiments=tuple(experiments),
        notices=(*settings.notices, *unused),
        give=lambda lesson, watch: lesson_run(call, lesson, session, watch),
        learn=partial(learn, session),
    )
    return session, settings


def settings_of(call: Call) -> Settings:
    """The dashboard's settings; a broken theme or key is a notice, an unknown theme an error."""
    from replexplorer.ui.actions import DEFAULT_KEYS
    from replexplorer.ui.settings import Settings
    from replexplorer.ui.terminal.glyphs import choose_glyphs

    values = call.values
    found = load_themes(paths.themes_directory())
    themes = tuple(theme for theme in found if theme.error is None)
    names = [theme.name for theme in themes]
    if values.theme not in names:
        near = closest(values.theme, names) or f"use one of {', '.join(names)}"
        broken = next((theme.error for theme in found if theme.name == values.theme), None)
        where = call.configuration.origins["theme"].removeprefix("file: ").removeprefix("environment: ")
        raise UsageError(f"{where}: theme: {broken or f'no theme {values.theme!r}'}", near)
    keymap = load_keymap(paths.keys_file(), DEFAULT_KEYS)
    return Settings(
        stack=values.stack,
        theme=values.theme,
        themes=themes,
        glyphs=choose_glyphs(values.glyphs, os.environ, sys.stdout.encoding or "ascii"),
        no_color=bool(os.environ.get("NO_COLOR")),
        on_quit=values.on_quit,
        keymap=keymap.keys,
        notices=(*(f"theme {theme.error} (not used)" for theme in found if theme.error), *keymap.problems),
    )


def learn(session: Session, swept: Swept) -> str:
    """What a finished sweep teaches the model, in words; predictions rest on it from then on."""
    from replexplorer.cli.sweep import learned

    lesson = learned(swept)
    if lesson.calibration is not None:
        session.predictor.calibration = lesson.calibration
    return lesson.told
