"""Why a server that was started answers nobody: it has ended, and what it said of that, or is slow."""

from __future__ import annotations

from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.limits import MORE_AIO
from replexplorer.core.server.start_log import lacked_aio, why_it_ended
from replexplorer.engine.fleet import STARTS_WITHIN_S, Fleet


async def ended(fleet: Fleet, node: str) -> StackUnavailable:
    """A server that ended while it started, with the first error of its log and what helps."""
    provider = fleet.outside.provider
    words, log = f"the server of {node} ended while it started", f"its log: {provider.server_log(node)}"
    try:
        said = why_it_ended(line for _, line in await provider.server_process(node).log())
    except ReplexplorerError:
        said = None
    if said is None:
        return StackUnavailable(words, log)
    if lacked_aio(said):
        return StackUnavailable(
            f"{words}: {said}: its machine's servers have used up fs.aio-max-nr",
            f"`{MORE_AIO}` there, as root, then `replexplorer up`; or end other stacks; {log}",
        )
    return StackUnavailable(f"{words}: {said}", log)


async def no_login(fleet: Fleet, node: str) -> StackUnavailable:
    """A server that accepts no login within STARTS_WITHIN_S: it runs, or it has ended."""
    provider = fleet.outside.provider
    if any(each.name == node and not each.server_running for each in await provider.nodes()):
        return await ended(fleet, node)
    return StackUnavailable(
        f"{node} accepts no login {STARTS_WITHIN_S:g} s after its start",
        f"its log: {provider.server_log(node)}",
    )
