"""keys.toml: what is wrong is told by file and key, and the rest counts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from textual._keyboard_protocol import FUNCTIONAL_KEYS, MODIFIER_FUNCTIONAL_KEYS
from textual.keys import Keys, _character_to_key

from replexplorer.formats.keymap import key_name, load_keymap
from replexplorer.ui.actions import (
    ACTIONS,
    ATTACHED,
    DEFAULT_KEYS,
    DRIVE,
    FOOTER,
    REPLAY,
    VIEW,
    key_label,
    keys_of,
)
from tests.known import refused

DEFAULTS = {"knob.undo": "u", "load.toggle": "x", "help": "question_mark", "knob.prev": "up,k"}
Parse = Callable[[str], tuple[dict[str, str], tuple[str, ...]]]


@pytest.fixture
def parse(tmp_path: Path) -> Parse:
    def parsed(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
        file = tmp_path / "keys.toml"
        file.write_text(text)
        found = load_keymap(file, DEFAULTS)
        return dict(found.keys), tuple(each.removeprefix(f"{tmp_path}/") for each in found.problems)

    return parsed


MISTAKES = """\
"knob.undoo" = "z"
"knob.undo" = 3
"knob.undo" = ""
"knob.undo" = "x"
"knob.undo" = "z"; "load.toggle" = "z"
"knob.undo" = "ctrl+"
"knob.undo" = "entr"
load.toggle = "F5, ?x"
"knob.undo" = "ctrl+F36"
"knob.undo" = "page_up"
"knob.undo" = "5"
"knob.undo" = "z,ctrl+c"
[kays]
"""


def test_each_problem_names_file_and_key(parse: Parse, snapshot: object) -> None:
    told = {}
    for line in MISTAKES.splitlines():
        keys, told[line] = parse("[keys]\n" + line.replace("; ", "\n"))
        assert len(set(keys.values())) == len(keys)
    assert (told, parse("keys = 3")) == snapshot


def test_ids_may_be_quoted_or_bare_and_keys_change_hands(parse: Parse, snapshot: object) -> None:
    """Giving up a clash gives the default back to its owner."""
    changed = (
        '"knob.undo" = "z"\nload.toggle = "F5,Ctrl+L"',
        '"knob.undo" = "x"\n"load.toggle" = "u"',
        '"load.toggle" = "u"\n"knob.undo" = "k"',
    )
    assert [parse(f"[keys]\n{each}") for each in changed] == snapshot


def test_keys_are_named_as_the_terminal_library_names_them() -> None:
    written = "Ctrl+P shift+left R ctrl+/ ctrl+shift+PageDown ä"
    names = "ctrl+p shift+left R ctrl+slash ctrl+shift+pagedown ä"
    assert [key_name(each) for each in written.split()] == names.split()
    marks = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~§€"
    assert [key_name(mark) for mark in marks] == [_character_to_key(mark) for mark in marks]


def test_every_key_that_a_terminal_sends_can_be_named() -> None:
    sent = {each.value for each in Keys if re.fullmatch(r"[a-z0-9_+]+", each.value)} - {"ctrl+c", "return"}
    sent |= set(FUNCTIONAL_KEYS.values()) - set(MODIFIER_FUNCTIONAL_KEYS) - set("0123456789")
    assert len(sent) > 100
    for key in sent:
        assert key_name(key)


def test_a_broken_file_is_a_usage_error_and_an_absent_one_nothing(tmp_path: Path) -> None:
    assert load_keymap(tmp_path / "keys.toml", DEFAULTS).keys == {}
    (tmp_path / "keys.toml").write_text("[keys\n")
    assert "keys.toml: is not TOML" in refused(load_keymap, tmp_path / "keys.toml", DEFAULTS)


def test_the_registry_has_no_clash_and_the_footer_no_unknown_action() -> None:
    keys = [key for action in ACTIONS for key in action.keys.split(",")]
    assert len(keys) == len(set(keys))
    assert {one for item in FOOTER for one in item.actions.split()} <= set(DEFAULT_KEYS)


def test_in_ascii_no_two_keys_of_a_key_line_look_alike() -> None:
    for items in (mode.footer for mode in (DRIVE, REPLAY, VIEW, ATTACHED)):
        bound = [keys_of(action, {})[0] for item in items for action in item.actions.split()]
        labels = [key_label(key, in_ascii=True) for key in bound]
        assert all(label.isascii() for label in labels)
        assert len(set(labels)) == len(set(bound))
