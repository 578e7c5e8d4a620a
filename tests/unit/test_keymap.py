"""keys.toml: what is wrong is told by file and key, and the rest counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from replexplorer.core.errors import UsageError
from replexplorer.formats.keymap import key_name, load_keymap, parse_keymap
from replexplorer.ui.keys.actions import ACTIONS, DEFAULT_KEYS, FOOTER, key_label

DEFAULTS = {"knob.undo": "u", "load.toggle": "x", "help": "question_mark", "knob.prev": "up,k"}


def parse(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    found = parse_keymap(text, DEFAULTS, "keys.toml")
    return dict(found.keys), found.problems


def test_ids_may_be_written_quoted_or_bare() -> None:
    assert parse('[keys]\n"knob.undo" = "z"\nload.toggle = "F5, ?x"')[1] == (
        "keys.toml: keys.load.toggle: `?x` is not a key",
    )
    assert parse('[keys]\n"knob.undo" = "z"\nload.toggle = "F5,Ctrl+L"')[0] == {
        "knob.undo": "z",
        "load.toggle": "f5,ctrl+l",
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[keys]\n"knob.undoo" = "z"', "keys.knob.undoo: no such action"),
        ('[keys]\n"knob.undo" = 3', "keys.knob.undo: must be a text"),
        ('[keys]\n"knob.undo" = ""', "keys.knob.undo: must be a text"),
        ('[keys]\n"knob.undo" = "x"', "keys.knob.undo: `x` already belongs to load.toggle"),
        (
            '[keys]\n"knob.undo" = "z"\n"load.toggle" = "z"',
            "keys.load.toggle: `z` already belongs to knob.undo",
        ),
        ('[keys]\n"knob.undo" = "ctrl+"', "`ctrl+` is not a key"),
        ('[kays]\n"knob.undo" = "z"', "kays: unknown table"),
        ("keys = 3", "keys: must be a table"),
    ],
)
def test_each_problem_names_file_and_key(text: str, problem: str) -> None:
    keys, problems = parse(text)
    assert len(problems) == 1
    assert problems[0].startswith("keys.toml: ")
    assert problem in problems[0]
    assert len(set(keys.values())) == len(keys)


def test_two_actions_may_swap_their_keys() -> None:
    assert parse('[keys]\n"knob.undo" = "x"\n"load.toggle" = "u"') == (
        {"knob.undo": "x", "load.toggle": "u"},
        (),
    )


def test_giving_up_a_clash_gives_the_default_back_to_its_owner() -> None:
    keys, problems = parse('[keys]\n"load.toggle" = "u"\n"knob.undo" = "k"')
    assert keys == {}
    assert len(problems) == 2


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("?", "question_mark"),
        ("Ctrl+P", "ctrl+p"),
        ("shift+left", "shift+left"),
        ("R", "R"),
        ("ctrl+/", "ctrl+slash"),
    ],
)
def test_keys_are_named_as_the_terminal_library_names_them(written: str, name: str) -> None:
    assert key_name(written) == name


def test_a_broken_file_is_a_usage_error_and_an_absent_one_nothing(tmp_path: Path) -> None:
    assert load_keymap(tmp_path / "keys.toml", DEFAULTS).keys == {}
    (tmp_path / "keys.toml").write_text("[keys\n")
    with pytest.raises(UsageError, match=r"keys\.toml: is not TOML"):
        load_keymap(tmp_path / "keys.toml", DEFAULTS)


def test_the_registry_has_no_clash_and_the_footer_no_unknown_action() -> None:
    keys = [key for action in ACTIONS for key in action.keys.split(",")]
    assert len(keys) == len(set(keys))
    assert {one for item in FOOTER for one in item.actions} <= set(DEFAULT_KEYS)


@pytest.mark.parametrize(
    ("key", "label"), [("ctrl+p", "^p"), ("shift+left", "shift+←"), ("question_mark", "?"), ("R", "R")]
)
def test_keys_are_written_shortly(key: str, label: str) -> None:
    assert key_label(key) == label
