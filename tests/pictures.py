"""`make pictures`: draw the README's picture, the recorded tour with 32 clients across 85 ms."""

from __future__ import annotations

import asyncio
from pathlib import Path

from replexplorer.adapters.recording import SessionReader
from replexplorer.engine.replay import Replay
from replexplorer.formats.paths import shipped_tour
from replexplorer.ui.app import ExplorerApp
from replexplorer.ui.settings import Settings
from tests.ui.test_replay import Player, StillClock

DRAWN = Path(__file__).parents[1] / "docs" / "dashboard.svg"
SIZE = (160, 45)
AFTER_MARK = 5
"""The change to AFTER_COMMIT: what stands before it and since is seen at once."""
AFTER_S = 9.5


async def main() -> None:
    """Jump to the moment and write what stands there."""
    reader = SessionReader(shipped_tour())
    mark_s = next(event.at_s for event in reader.events() if event.mark == AFTER_MARK)
    goal_s = max(tick.at_s for tick in reader.ticks() if tick.at_s <= mark_s + AFTER_S)
    replay = Replay(reader, StillClock())
    replay.toggle()
    app = ExplorerApp(replay, Settings(stack="tour, recorded"))
    async with app.run_test(size=SIZE) as pilot:
        player = Player(app, pilot, replay)
        await player.at(reader.first_s)
        replay.seek(goal_s - reader.first_s)
        await player.at(goal_s)
        await pilot.pause()
        DRAWN.write_text(app.export_screenshot(title="replexplorer replay tour"), encoding="utf-8")
    print(f"written: {DRAWN}")


if __name__ == "__main__":
    asyncio.run(main())
