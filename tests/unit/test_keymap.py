"""keys.toml: what is wrong is told by file and key, and the rest counts."""

from __future__ import annotations

import re
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


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


def parsed(file: Path, text: str) -> tuple[dict[str, str], list[str]]:
    """The keys, and the problems."""
    file.write_text(text)
    found = load_keymap(file, DEFAULTS)
    return dict(found.keys), [each.removeprefix(f"{file.parent}/") for each in found.problems]


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


def test_each_problem_names_file_and_key(file: Path, snapshot: object) -> None:
    told = {}
    for line in MISTAKES.splitlines():
        keys, told[line] = parsed(file, "[keys]\n" + line.replace("; ", "\n"))
        assert len(set(keys.values())) == len(keys)
    assert (told, parsed(file, "keys = 3")) == snapshot


def test_ids_may_be_quoted_or_bare_and_keys_change_hands(file: Path, snapshot: object) -> None:
    """Giving up a clash gives the default back to its owner."""
    changed = (
        '"knob.undo" = "z"\nload.toggle = "F5,Ctrl+L"',
        '"knob.undo" = "x"\n"load.toggle" = "u"',
        '"load.toggle" = "u"\n"knob.undo" = "k"',
    )
    assert [parsed(file, f"[keys]\n{each}") for each in changed] == snapshot


def test_keys_are_named_as_the_terminal_library_names_them() -> None:
    marks = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~§€"
    assert [key_name(mark) for mark in marks] == [_character_to_key(mark) for mark in marks]


def test_every_key_that_a_terminal_sends_can_be_named() -> None:
    sent = {each.value for each in Keys if re.fullmatch(r"[a-z0-9_+]+", each.value)} - {"ctrl+c", "return"}
    sent |= set(FUNCTIONAL_KEYS.values()) - set(MODIFIER_FUNCTIONAL_KEYS) - set("0123456789")
    assert len(sent) > 100
    assert all(map(key_name, sent))


def test_a_broken_file_is_a_usage_error_and_an_absent_one_nothing(file: Path) -> None:
    assert load_keymap(file, DEFAULTS).keys == {}
    file.write_text("[keys\n")
    assert "keys.toml: is not TOML" in refused(load_keymap, file, DEFAULTS)


def test_the_registry_has_no_clash_and_the_footer_no_unknown_action() -> None:
    keys = [key for action in ACTIONS for key in action.keys.split(",")]
    assert len(keys) == len(set(keys))
    assert {one for item in FOOTER for one in item.actions.split()} <= set(DEFAULT_KEYS)


def test_in_ascii_no_two_keys_of_a_key_line_look_alike() -> None:
    for mode in (DRIVE, REPLAY, VIEW, ATTACHED):
        bound = {keys_of(action, {})[0] for item in mode.footer for action in item.actions.split()}
        labels = {key_label(key, in_ascii=True) for key in bound}
        assert all(map(str.isascii, labels))
        assert len(labels) == len(bound)
