"""`attach` on a terminal: the dashboard over servers that somebody else runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from replexplorer.cli.dashboard import settings_of, told
from replexplorer.cli.guest import ask_for_the_name, begin_journal, lacking, undo_all
from replexplorer.cli.guest_load import visiting_load
from replexplorer.cli.revert import narrate_undone
from replexplorer.cli.wiring import load_configuration_of, outside_of_attached
from replexplorer.core.change.journalled import Fate, TakenBack
from replexplorer.core.errors import StackUnavailable
from replexplorer.engine.session import Session, SessionOptions
from replexplorer.engine.spectator import Spectator
from replexplorer.engine.view import View
from replexplorer.engine.visit import Visit

if TYPE_CHECKING:
    from replexplorer.adapters.attached.journal import ChangeJournal
    from replexplorer.adapters.attached.provider import AttachedProvider
    from replexplorer.cli.entry import Call
    from replexplorer.cli.server_login import Known
    from replexplorer.ui.settings import Settings

_UNDONE_WITHIN_S: Final = 20.0
"""How long the settings' undoing may take after the terminal is gone; what is left by then stays in the
journal."""


def is_wanted(call: Call) -> bool:
    """Whether `attach` opens the dashboard: on a terminal, unless lines or a document are asked for."""
    args = call.args
    if args.watch or args.json or args.set or args.grants:
        return False
    return sys.stdout.isatty() and sys.stdin.isatty()


def dashboard(call: Call, servers: AttachedProvider, known: Known) -> int:
    """Run the dashboard until it is quit, or its time is over; what was turned is undone then. Raises what
    keeps it from being opened before any screen is taken."""
    loaded = load_configuration_of(call)
    notices = asyncio.run(_looked_at(call, servers))
    settings = settings_of(loaded)
    settings = replace(
        settings,
        stack=servers.name,
        visits=True,
        ends_after_s=call.args.for_s,
        notices=(*settings.notices, *notices),
        close_deadline_s=_UNDONE_WITHIN_S,
    )
    if not call.args.allow_changes:
        return _shown(Spectator(outside_of_attached(servers, None)), settings)
    asyncio.run(ask_for_the_name(call, servers, loaded.values.attach_allowed))
    changes = _Changes(servers, asyncio.run(begin_journal(servers, known)))
    session = Session(
        outside_of_attached(servers, changes.journal), SessionOptions(holder="attach", reapply="off")
    )
    load = None
    if call.args.load is not None:
        load = asyncio.run(visiting_load(call, servers, changes.journal))
        settings = replace(settings, loads=True)
    try:
        code = _shown(Visit(session, changes.take_back, load), settings)
    finally:
        undone = asyncio.run(changes.take_back())
        changes.journal.close()
        narrate_undone(call.console, servers.name, undone)
    return StackUnavailable.exit_code if any(each.fate is Fate.UNREACHED for each in undone) else code


class _Changes:
    """What was turned, until it was taken back, once."""

    def __init__(self, servers: AttachedProvider, journal: ChangeJournal) -> None:
        self.journal = journal
        self._servers = servers
        self._undone: Sequence[TakenBack] | None = None

    async def take_back(self) -> Sequence[TakenBack]:
        """Undo all; answers what became of each."""
        if self._undone is None:
            self._undone = await undo_all(self._servers, self.journal)
        return self._undone


async def _looked_at(call: Call, servers: AttachedProvider) -> tuple[str, ...]:
    """Find the servers; answers what is to be said of them."""
    call.console.progress(f"connecting to {servers.name}")
    await servers.nodes()
    return (*await lacking(servers), *servers.warnings)


def _shown(view: View, settings: Settings) -> int:
    """Run the app; its exit code."""
    from replexplorer.ui.app import ExplorerApp

    app = ExplorerApp(view, settings)
    app.run()
    if app.crash is not None:
        raise told(app.crash, "the dashboard")
    return app.return_code or 0
