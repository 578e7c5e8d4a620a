"""What is wrong on the replicas, in one row over the charts; there is no row while nothing is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replexplorer.core.server.replication import Trouble
from replexplorer.ui.keys.actions import key_label, keys_of
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words.runs import Line, Run, spread, width_of


class ReplicaStrip(Lines):
    """`✖ db2: SQL thread error   ▲ db3: IO thread stopped      f repair  N nodes`."""

    GROUND = "panel"
    DEFAULT_CSS = "ReplicaStrip { height: 1; }"

    def __init__(self, keymap: Mapping[str, str], *, glyphs: Glyphs = BRAILLE, id: str | None = None) -> None:
        super().__init__(glyphs=glyphs, id=id)
        self._keymap = keymap
        self._troubles: Sequence[Trouble] = ()

    def show(self, troubles: Sequence[Trouble]) -> None:
        """Show what is wrong with each replica, in one row; none clears it."""
        if troubles != self._troubles:
            self._troubles = troubles
            self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Each replica with its trouble; a server's own words where there is room for them."""
        keys = self._keys()
        rows = [self._row(with_why=True), self._row(), self._row(is_brief=True), self._row(is_first=True)]
        room = width - width_of(keys)
        return [spread(next((row for row in rows if width_of(row) < room), rows[-1]), keys, width)]

    def _row(self, *, with_why: bool = False, is_brief: bool = False, is_first: bool = False) -> list[Run]:
        """All of them; brief without the word `thread`, `is_first` each with its first words alone: a lag
        comes of the thread that does not run."""
        row: list[Run] = []
        for trouble in self._troubles:
            symbol, ink = ("✖", "bad") if trouble.is_failure else ("▲", "warn")
            row += [("   " if row else " ", "text"), (f"{symbol} {trouble.replica}: ", f"{ink} b")]
            words = ", ".join(trouble.words[:1] if is_first else trouble.words)
            row.append((words.replace(" thread", "") if is_brief or is_first else words, f"{ink} b"))
            if with_why and trouble.why:
                row.append((f": {trouble.why}", ink))
        return row

    def _keys(self) -> list[Run]:
        """What can be done about it."""
        words = [("nodes.open", "nodes")]
        if any(trouble.can_be_repaired for trouble in self._troubles):
            words.insert(0, ("stack.repair", "repair"))
        runs: list[Run] = []
        for action, word in words:
            key = key_label(keys_of(action, self._keymap)[0])
            runs += [("  ", "text"), (key, "key b"), (f" {word}", "muted")]
        return [*runs, (" ", "text")]
