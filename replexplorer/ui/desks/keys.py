"""The desk of the keys: what is in force, written to keys.toml with each change, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from replexplorer.core.errors import ReplexplorerError
from replexplorer.formats.keymap import change_keymap, load_keymap
from replexplorer.ui.keys.actions import DEFAULT_KEYS
from replexplorer.ui.keys.bound import BoundKeys


class KeyDesk:
    """Changes the keys; the file first, so that what could not be written is not in force either."""

    def __init__(self, keys: BoundKeys, file: Path | None, *, changed: Callable[[], None]) -> None:
        self.keys = keys
        """Those in force."""
        self.file = file
        """The user's keys.toml; None: what is changed holds until the end."""
        self.problems: tuple[str, ...] = ()
        """What is wrong with the file, a line each."""
        self._changed = changed
        self._before: list[dict[str, str | None]] = []

    @property
    def can_undo(self) -> bool:
        """Something was changed here."""
        return bool(self._before)

    def read(self) -> None:
        """Take the file as it is now; where it cannot be read, the keys stay and `problems` says why."""
        if self.file is None:
            return
        try:
            found = load_keymap(self.file, DEFAULT_KEYS)
        except ReplexplorerError as error:
            self.problems = (str(error),)
            return
        self.problems = found.problems
        if dict(self.keys) != found.keys:
            self._before.clear()
            self._put(found.keys)

    def change(self, keys: Mapping[str, str], *, drop_wrong: bool = False) -> None:
        """Put these in force, with what another program has written of other actions; raises WrongKeymap
        where wrong lines of the file would be lost, and UsageError where it cannot be written: nothing is
        changed then."""
        before = dict(self.keys)
        changed = [action for action in {**before, **keys} if before.get(action) != keys.get(action)]
        if changed:
            self._write({action: keys.get(action) for action in changed}, drop_wrong=drop_wrong)
            self._before.append({action: before.get(action) for action in changed})

    def undo(self, *, drop_wrong: bool = False) -> None:
        """Take the last change back; raises as `change` does."""
        self._write(self._before[-1], drop_wrong=drop_wrong)
        self._before.pop()

    def _write(self, changes: Mapping[str, str | None], *, drop_wrong: bool) -> None:
        """Change these alone: the file may have got others since it was read."""
        if self.file is None:
            both = {**self.keys, **changes}
            keys = {action: key for action, key in both.items() if key is not None}
        else:
            keys = change_keymap(self.file, changes, DEFAULT_KEYS, drop_wrong=drop_wrong)
            self.problems = ()
        self._put(keys)

    def _put(self, keys: Mapping[str, str]) -> None:
        self.keys.change(keys)
        self._changed()
