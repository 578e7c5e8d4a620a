"""The action registry as Textual's bindings."""

from __future__ import annotations

from collections.abc import Sequence

from textual.binding import Binding, BindingType

from replexplorer.ui.keys.actions import Action


def bindings_of(actions: Sequence[Action]) -> list[BindingType]:
    """The registry's rows as bindings."""
    return [Binding(action.keys, action.method, action.title, show=False, id=action.id) for action in actions]
