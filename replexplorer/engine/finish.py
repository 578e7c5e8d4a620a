"""Work that must not stop halfway, whoever is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


async def to_the_end(work: Coroutine[Any, Any, _T]) -> _T:
    """Run work to its end and answer as it does.

    A cancel that comes meanwhile is not lost: it is delivered at the caller's next await.
    """
    task = asyncio.create_task(work)
    caller = asyncio.current_task()
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled and caller is not None:
        caller.uncancel()
        caller.cancel()
    return task.result()


async def all_of(*works: Coroutine[Any, Any, None]) -> None:
    """Run works at once; the first failure ends the others before it is raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
