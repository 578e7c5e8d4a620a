"""What the source's sessions wait for, below the charts."""

from __future__ import annotations

import asyncio
from typing import Final

from textual import work

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.server.waits import ServerWaits, pages
from replexplorer.engine.view import View
from replexplorer.ui.screens.lists import Listed, ListScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.words.runs import Line, hung

_AGAIN_S: Final = 1.0
"""After the server did not answer."""


class WaitsScreen(ListScreen):
    """The server is asked for as long as it is open."""

    def __init__(self, view: View, settings: Settings) -> None:
        super().__init__(settings, "waits")
        self._view = view
        self._found: ServerWaits | None = None
        self._problem = ""
        """Why nothing is known."""

    def on_mount(self) -> None:
        """Begin to ask."""
        self._look()

    @work(exclusive=True, group="waits", exit_on_error=False)
    async def _look(self) -> None:
        while (looks := self._view.waits()) is not None:
            try:
                async for found in looks:
                    self._found, self._problem = found, ""
                    self.fill()
            except ReplexplorerError as error:
                self._found, self._problem = None, str(error)
                self.fill()
            await asyncio.sleep(_AGAIN_S)

    def listed(self) -> Listed:
        """Each part below its heading."""
        found = self._found
        rows: list[Line] = (
            hung([(" ▲ ", "warn b")], self._problem, self.width, "warn") if self._problem else []
        )
        for heading, lines in pages(found) if found else ():
            rows += [[(f" {heading}", "accent b")], *([(f" {line}", "text")] for line in lines), []]
        return Listed([("Waits ", "title b"), (found.title if found else "", "muted")], rows)
