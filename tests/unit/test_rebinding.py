"""Other keys for an action: each has one, no key two actions, and what is taken back is as it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replexplorer.formats.keymap import Keymap, parse_keymap
from replexplorer.ui.keys.actions import ACTIONS, DEFAULT_KEYS, keys_of
from replexplorer.ui.keys.rebinding import owner_of, reset_with, with_key, with_one_more, without

IDS = [action.id for action in ACTIONS]
KEYS = ["f1", "f2", "ctrl+x", *(key for keys in DEFAULT_KEYS.values() for key in keys.split(","))]
TURNS = st.lists(
    st.tuples(st.sampled_from(["bind", "add", "reset"]), st.sampled_from(IDS), st.sampled_from(KEYS)),
    max_size=12,
)


@given(TURNS)
def test_whatever_is_bound_every_action_has_keys_and_no_key_two_actions(
    turns: list[tuple[str, str, str]],
) -> None:
    keymap: dict[str, str] = {}
    for what, action, key in turns:
        before = keymap
        if what == "bind":
            keymap = with_key(keymap, action, key)
            assert keys_of(action, keymap) == (key,)
        elif what == "add":
            more = with_one_more(keymap, action, key)
            assert more is not None or keys_of(owner_of(key, keymap) or "", keymap) == (key,)
            keymap = keymap if more is None else more
            assert more is None or key in keys_of(action, keymap)
        else:
            keymap = without(keymap, reset_with(keymap, action))
            assert keys_of(action, keymap) == keys_of(action, {})
        held = [key for one in IDS for key in keys_of(one, keymap)]
        assert len(held) == len(set(held)), (before, what, action, key)
        assert all(keys_of(one, keymap) for one in IDS)
    lines = "".join(f'"{action}" = "{keys}"\n' for action, keys in keymap.items())
    assert parse_keymap(f"[keys]\n{lines}", DEFAULT_KEYS, "keys.toml") == Keymap(keymap), "as it is written"


def test_a_key_of_another_action_is_exchanged() -> None:
    swapped = with_key({}, "knob.undo", "x")
    assert swapped == {"knob.undo": "x", "load.toggle": "u"}
    assert with_key(swapped, "load.toggle", "x") == {}, "and back: nothing differs from the defaults"


def test_of_several_keys_the_first_is_exchanged_for_the_one_that_was_pressed() -> None:
    assert with_key({}, "knob.prev", "l") == {"knob.prev": "l", "knob.more": "right,up"}


def test_one_more_key_is_taken_unless_it_is_the_only_one() -> None:
    assert with_one_more({}, "mark.add", "k") == {"mark.add": "m,k", "knob.prev": "up"}
    assert with_one_more({}, "mark.add", "x") is None


def test_a_default_is_given_back_by_whoever_has_it() -> None:
    keymap = with_key(with_key({}, "knob.undo", "x"), "mark.add", "u")
    assert keymap == {"knob.undo": "x", "load.toggle": "m", "mark.add": "u"}
    assert reset_with(keymap, "knob.undo") == ["knob.undo", "mark.add", "load.toggle"]
    assert reset_with({"help": "f1"}, "help") == ["help"]
