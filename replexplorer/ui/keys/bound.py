"""The user's keys in force: one mapping that every screen holds, so that a change is seen by all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class BoundKeys(Mapping[str, str]):
    """Binding id to comma-separated keys, for the ids whose keys are not the default ones."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = dict(keys)

    def __getitem__(self, action: str) -> str:
        """The action's keys."""
        return self._keys[action]

    def __iter__(self) -> Iterator[str]:
        """Ids with keys of the user's own."""
        return iter(self._keys)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._keys)

    def change(self, keys: Mapping[str, str]) -> None:
        """Put other keys in force."""
        self._keys = dict(keys)
