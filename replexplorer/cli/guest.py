"""What comes before and after somebody else's servers are changed: grants, names, the journal, undoing."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from replexplorer.cli.question import can_ask, typed
from replexplorer.cli.server_login import Known
from replexplorer.core.change.journalled import TakenBack
from replexplorer.core.errors import MissingPiece, StackUnavailable
from replexplorer.core.server.busy import why_to_ask
from replexplorer.formats import paths

if TYPE_CHECKING:
    from replexplorer.adapters.attached.journal import ChangeJournal
    from replexplorer.adapters.attached.provider import AttachedProvider
    from replexplorer.cli.entry import Call


async def lacking(servers: AttachedProvider) -> tuple[str, ...]:
    """What the account may not see, in a line; nothing where it may see all. Raises MissingPiece where it may
    not see replication itself: an unknown state would look like a bad one."""
    from replexplorer.core.dialect.grants import SEE, WATCH, needed

    found = await servers.account()
    needs = needed(found.server, found.account, found.grants)
    blind = [word for each in needs if each.need.purpose == SEE for word in each.lacking]
    if blind:
        raise MissingPiece(
            f"{found.account} lacks {', '.join(blind)} at {servers.name}", "--grants prints what is needed"
        )
    watch = (each for each in needs if each.need.purpose == WATCH)
    lacking = tuple(dict.fromkeys(word for each in watch for word in each.lacking))
    if not lacking:
        return ()
    return (
        f"{found.account} lacks {', '.join(lacking)} at {servers.name}, and what needs that is unknown:"
        " --grants prints the statements",
    )


async def ask_for_the_name(call: Call, servers: AttachedProvider, allowed: tuple[str, ...]) -> None:
    """Let the name be typed of what may be in use; raises StackUnavailable where it is not."""
    call.console.progress(f"looking at what goes on at {servers.name}")
    place, bustle = await servers.bustle()
    why = why_to_ask(place if bustle.is_busy else servers.name, bustle, allowed)
    if why is None:
        return
    if not can_ask(call.console):
        listed = f'attach_allowed = ["{servers.name}"] in the configuration, where nobody depends on it'
        hint = "run it on a terminal, where its name can be typed" if bustle.is_busy else listed
        raise StackUnavailable(f"{why}: its name has to be typed", hint)
    settings, load = "Its settings are about to be changed", "a load is about to run there"
    if call.args.load is None:
        what = settings
    else:
        what = f"{settings}, and {load}" if call.args.set else load.capitalize()
    call.console.narrate(f"{why}. {what}, and every client feels it.")
    if await typed(call.console, f"Type {servers.name} to go on:") != servers.name:
        raise StackUnavailable("that is not its name: nothing was changed", "try again")


async def begin_journal(servers: AttachedProvider, known: Known) -> ChangeJournal:
    """The journal of these servers, begun. Raises StackUnavailable where a killed one left something."""
    from replexplorer.adapters.attached.journal import VERSION, ChangeJournal, file_of

    nodes = [(node.name, servers.url(node.name)) for node in await servers.nodes()]
    journal = ChangeJournal.open(file_of(paths.attached_directory(), servers.name))
    try:
        if journal.outstanding:
            raise StackUnavailable(
                f"changes of an `attach` that was killed are still in force at {servers.name}",
                "`replexplorer revert` undoes them",
            )
        journal.begin(
            {
                "kind": "attach",
                "version": VERSION,
                "pid": os.getpid(),
                "began_wall_s": round(time.time(), 3),
                "source": servers.name,
                "nodes": [
                    {"name": name, "host": url.host, "port": url.port, "user": url.user}
                    for name, url in nodes
                ],
                "ssl_mode": known.login.ssl_mode,
                "ssl_ca": known.login.ssl_ca,
                "password_from": known.password_from,
                "defaults_file": known.defaults_file,
            }
        )
    except BaseException:
        journal.close()
        raise
    return journal


async def undo_all(servers: AttachedProvider, journal: ChangeJournal) -> Sequence[TakenBack]:
    """Undo all, on connections of their own: those of a session may be in the middle of something. Answers
    what became of each; what could not be undone stays in the journal."""
    from replexplorer.adapters.attached.undo import undo

    nodes = {node.name: node for node in await servers.nodes()}
    return await undo(journal, lambda name: servers.connection(nodes[name]))
