"""No verb: the dashboard, with what the configuration and the user's files say of its looks."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from replexplorer.cli.entry import is_served
from replexplorer.cli.wiring import (
    calibration_of,
    load_configuration_of,
    new_stack_options,
    outside_of,
    provider_of,
    recorder_of,
    stack_names,
)
from replexplorer.core.errors import NoSuchStack, ReplexplorerError, UsageError
from replexplorer.engine.session import Session, SessionOptions
from replexplorer.formats import paths
from replexplorer.formats.configuration import LoadedConfiguration, closest
from replexplorer.formats.keymap import load_keymap
from replexplorer.formats.themes import load_themes
from replexplorer.ports import UpOptions

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.core.experiment.drill_result import DrillResult
    from replexplorer.core.experiment.matrix_result import MatrixResult
    from replexplorer.core.experiment.swept import Swept
    from replexplorer.engine.experiment.labs.lab import LabResult
    from replexplorer.ui.settings import Neighbours, Settings


def run(call: Call) -> int:
    """Run the dashboard until it is quit; says in one line what it left behind."""
    from replexplorer.ui.app import ExplorerApp

    session, settings = live_session(call, "tui")
    app = ExplorerApp(session, settings)
    left = app.run()
    if app.crash is not None:
        raise told(app.crash, "the dashboard", f", stack '{settings.stack}' keeps running")
    if left:
        call.console.narrate(left)
    return app.return_code or 0


def live_session(call: Call, holder: str) -> tuple[Session, Settings]:
    """A session on the configured stack, which brings it up when it is started, and how to show it; raises
    MissingPiece where Docker does not answer, before any screen is taken."""
    loaded = load_configuration_of(call)
    settings = _with_labs(settings_of(loaded))
    stack = provider_of(loaded.values)
    up = asyncio.run(new_stack_options(stack, loaded.values, UpOptions()))
    asyncio.run(look(stack.name, loaded))
    options = SessionOptions(
        holder=holder,
        up=up,
        reapply=loaded.values.reapply,
        asks=True,
        on_quit=loaded.values.on_quit,
        table_size=loaded.values.workload.table_size,
        heartbeat=True,
        calibration=calibration_of(call),
    )
    outside = outside_of(stack, recorder_of(loaded.values, options.holder))
    session = Session(outside, options)
    neighbours = neighbours_of(session, loaded)
    return session, replace(settings, learn=partial(learn, session), neighbours=neighbours)


def neighbours_of(session: Session, loaded: LoadedConfiguration) -> Neighbours:
    """The stacks that this one may be compared with."""
    from replexplorer.ui.settings import Neighbours

    async def names() -> list[str]:
        return [name for name in await stack_names() if name != session.name]

    return Neighbours(names, partial(compared_session, loaded), session.machine)


def compared_session(loaded: LoadedConfiguration, name: str, loads: bool = True) -> Session:
    """A session on a stack that is compared: drives its load, at once where it `loads`; records nothing."""
    values = loaded.values
    options = SessionOptions(
        holder="compare", reapply=values.reapply, table_size=values.workload.table_size, rests=not loads
    )
    return Session(outside_of(provider_of(values, name)), options)


def watch(call: Call) -> int:
    """The dashboard over what others do with the stack; changes nothing."""
    from replexplorer.engine.spectator import Spectator
    from replexplorer.ui.app import ExplorerApp

    loaded = load_configuration_of(call)
    settings = settings_of(loaded)
    stack = provider_of(loaded.values)
    served = is_served()
    if not asyncio.run(look(stack.name, loaded)) and not served:
        raise NoSuchStack(f"no stack '{stack.name}' runs here", "`replexplorer` starts one and drives it")
    # A tab may be open before the one that drives has brought the stack up.
    spectator = Spectator(outside_of(stack), calibration=calibration_of(call), patient=served)
    app = ExplorerApp(spectator, settings)
    app.run()
    if app.crash is not None:
        raise told(app.crash, "the view")
    return app.return_code or 0


def told(crash: Exception, what: str, left: str = "") -> ReplexplorerError:
    """The one line of a defect of `what`; its traceback is in the log."""
    from replexplorer.ui.terminal.crash import log_crash

    file = paths.log_file()
    where = f"its traceback is in {file}" if log_crash(crash, file) else f"{file} cannot be written"
    text = " ".join(str(crash).split())[:200]
    why = f"{type(crash).__name__}: {text}" if text else type(crash).__name__
    return ReplexplorerError(f"{what} ended on a defect ({why}){left}", f"{where}; please report it")


async def look(name: str, loaded: LoadedConfiguration) -> bool:
    """One question to Docker: whether there is such a stack; raises MissingPiece when it does not answer."""
    stack = provider_of(loaded.values, name)
    try:
        return bool(await stack.nodes())
    finally:
        await stack.close()


def settings_of(loaded: LoadedConfiguration) -> Settings:
    """The dashboard's settings; a broken theme or key is a notice, an unknown theme an error."""
    from replexplorer.ui.keys.actions import DEFAULT_KEYS
    from replexplorer.ui.settings import Settings
    from replexplorer.ui.terminal.glyphs import choose_glyphs

    values = loaded.values
    themes, failed = load_themes(paths.themes_directory())
    names = [found.theme.name for found in themes]
    if values.theme not in names:
        near = closest(values.theme, names) or f"there are {', '.join(names)}"
        broken = next((str(found) for found in failed if found.file.stem == values.theme), None)
        where = loaded.origins["theme"].removeprefix("file: ").removeprefix("environment: ")
        raise UsageError(f"{where}: theme: {broken or f'no theme {values.theme!r}'}", near)
    keymap = load_keymap(paths.keys_file(), DEFAULT_KEYS)
    return Settings(
        stack=values.stack,
        theme=values.theme,
        themes=tuple(found.theme for found in themes),
        glyphs=choose_glyphs(values.glyphs, os.environ, sys.stdout.encoding or "ascii"),
        no_color=bool(os.environ.get("NO_COLOR")),
        on_quit=values.on_quit,
        keymap=keymap.keys,
        notices=(*(f"theme {found} (not used)" for found in failed), *keymap.problems),
    )


def _with_labs(settings: Settings) -> Settings:
    """The user's own labs and all drills as well; a broken file is a notice."""
    from replexplorer.cli.own_drills import own_drills, shipped_drills
    from replexplorer.cli.own_labs import own_labs
    from replexplorer.core.experiment.matrix import Matrix

    own, failed = own_labs()
    drills, broken = own_drills()
    return replace(
        settings,
        labs=tuple(lab for lab, _ in own),
        drills=(*shipped_drills().values(), Matrix(), *(drill for drill, _ in drills)),
        notices=(
            *settings.notices,
            *(f"lab {error} (not used)" for _, error in failed),
            *(f"drill {error} (not used)" for _, error in broken),
        ),
        lab_page=_lab_page,
    )


def _lab_page(result: LabResult | DrillResult | MatrixResult) -> str:
    """A lab's, a drill's or the matrix' result as `--report` writes it."""
    import shlex

    from replexplorer.core.experiment.drill_result import DrillResult
    from replexplorer.core.experiment.matrix import MATRIX
    from replexplorer.core.experiment.matrix_result import MatrixResult
    from replexplorer.reports.drill_pages import drill_markdown
    from replexplorer.reports.drill_result import drill_document
    from replexplorer.reports.lab_pages import markdown, rerun
    from replexplorer.reports.lab_result import lab_document
    from replexplorer.reports.matrix_pages import matrix_document, matrix_markdown

    if isinstance(result, MatrixResult):
        matrix = matrix_document(result)
        quick = ["--quick"] if result.quick else []
        matrix.again = [shlex.join(["replexplorer", "drill", "run", MATRIX, *quick])]
        return matrix_markdown(matrix)
    if isinstance(result, DrillResult):
        drilled = drill_document(result)
        quick = ["--quick"] if result.quick else []
        drilled.again = [shlex.join(["replexplorer", "drill", "run", result.drill.name, *quick])]
        return drill_markdown(drilled)
    document = lab_document(result)
    document.again = [shlex.join(rerun(result.lab.name, quick=result.quick))]
    return markdown(document)


def learn(session: Session, swept: Swept) -> str:
    """What a finished sweep teaches the model, in words; predictions rest on it from then on."""
    from replexplorer.cli.calibrating import learned

    lesson = learned(swept)
    if lesson.calibration is not None:
        session.learn(lesson.calibration)
    return lesson.told
