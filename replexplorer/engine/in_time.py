"""Several looks at once, of which a silent one must not keep the others' answers.

Law: silence says something only beside an answer, and only while we get to listen. On a busy machine
everything is slow, and nothing is away for that: what says nothing for several times as long as the
slowest that answered is not waited for, and time in which this process did not run does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Final

_SILENT_S: Final = 0.6
"""The least that a look is given."""
_TIMES_THE_SLOWEST: Final = 4.0
_AT_MOST_S: Final = 10.0
"""As long as nothing has answered."""
_LISTENS_EVERY_S: Final = 0.05


async def in_time(looks: Iterable[Coroutine[Any, Any, bool]], *, patient: bool = False) -> None:
    """Run looks at once, each of which says whether what it looked at has answered; those that are silent
    beside the others are cancelled, none where one is `patient`. What a look raises is raised."""
    waiting = {asyncio.create_task(look, name="look") for look in looks}
    listened_s, limit_s = 0.0, _AT_MOST_S
    try:
        while waiting and (patient or listened_s < limit_s):
            done, waiting = await asyncio.wait(
                waiting, timeout=_LISTENS_EVERY_S, return_when=asyncio.FIRST_COMPLETED
            )
            # A turn that came late counts as one: what came meanwhile was not heard.
            listened_s += 0.0 if done else _LISTENS_EVERY_S
            answered = [task.result() for task in done]
            if any(answered):
                limit_s = min(_AT_MOST_S, max(_SILENT_S, _TIMES_THE_SLOWEST * listened_s))
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
