"""The editor of keys: a key is pressed to bind it, conflicts are told, the file is written or left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from replexplorer.ui.keys.actions import ACTIONS
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.screens.keys import KeysScreen
from tests.ui.driving import Bench, bench


def screen(app: Bench) -> KeysScreen:
    found = app.app.screen
    assert isinstance(found, KeysScreen)
    return found


def shown(app: Bench) -> str:
    return "\n".join(screen(app).listing.rows)


async def opened(app: Bench, words: str = "") -> None:
    """The editor; with the cursor on the first action that has these words."""
    await app.press("K")
    await app.until(lambda: isinstance(app.app.screen, KeysScreen) and bool(screen(app).listing.rows))
    if words:
        await app.press("slash", *words, "enter")


async def closed(app: Bench) -> None:
    await app.press("escape", "escape")
    await app.until(lambda: isinstance(app.app.screen, DashboardScreen))


async def test_a_pressed_key_is_bound_at_once_and_written(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    async with bench(keys_file=file) as app:
        await opened(app, "undo")
        assert "▸ knob.undo" in shown(app)
        await app.press("enter")
        assert "press the key for knob.undo" in shown(app)
        await app.press("f6")
        assert "knob.undo: f6" in shown(app)
        assert file.read_text() == '[keys]\n"knob.undo" = "f6"\n'
        await closed(app)
        assert "f6 undo" in app.text("#footer"), "what was drawn before says it too"
        await app.press("u")
        assert app.facade.called("undo") == []
        await app.press("f6")
        await app.until(lambda: len(app.facade.called("undo")) == 1)


async def test_a_key_of_another_action_is_told_and_swapped_only_when_agreed_to(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    async with bench(keys_file=file) as app:
        await opened(app, "mark.add")
        await app.press("enter", "u")
        assert "u belongs to knob.undo, which would get m." in shown(app)
        await app.press("n")
        assert not file.exists()
        assert dict(app.app.settings.keymap) == {}
        await app.press("enter", "u", "enter")
        assert file.read_text() == '[keys]\n"mark.add" = "u"\n"knob.undo" = "m"\n'
        await closed(app)
        await app.press("m")
        await app.until(lambda: len(app.facade.called("undo")) == 1)
        assert app.facade.called("mark") == []


async def test_one_more_key_keeps_the_others_and_never_takes_an_only_one(tmp_path: Path) -> None:
    async with bench(keys_file=tmp_path / "keys.toml") as app:
        await opened(app, "mark.add")
        await app.press("a", "f6")
        assert dict(app.app.settings.keymap) == {"mark.add": "m,f6"}
        await app.press("a", "x")
        assert "x is the only key of load.toggle" in shown(app)
        assert dict(app.app.settings.keymap) == {"mark.add": "m,f6"}


@pytest.mark.parametrize(("key", "why"), [("5", "types a value"), ("full_stop", "types a value")])
async def test_a_key_that_cannot_be_given_away_is_refused_with_the_reason(key: str, why: str) -> None:
    async with bench() as app:
        await opened(app)
        await app.press("enter", key)
        assert why in shown(app)
        assert dict(app.app.settings.keymap) == {}


async def test_undo_takes_back_change_by_change_and_the_file_follows(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    async with bench(keys_file=file) as app:
        await opened(app, "mark.add")
        await app.press("enter", "f6", "enter", "f7")
        assert '"f7"' in file.read_text()
        await app.press("u")
        assert '"f6"' in file.read_text()
        await app.press("u")
        assert file.read_text() == "[keys]\n"
        assert "u undo" not in shown(app)


async def test_one_or_all_actions_get_their_default_keys_back(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text('[keys]\n"mark.add" = "u"\n"knob.undo" = "m"\nhelp = "f1"\n')
    async with bench(keys_file=file) as app:
        await opened(app, "mark.add")
        assert "(yours; default m)" in shown(app)
        await app.press("d")
        assert "knob.undo would get the default keys too" in shown(app)
        await app.press("enter")
        assert file.read_text() == '[keys]\nhelp = "f1"\n'
        await app.press("D", "enter")
        assert file.read_text() == "[keys]\n"
        assert dict(app.app.settings.keymap) == {}


async def test_a_file_with_mistakes_is_not_written_without_a_word(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    wrong = '[keys]\n"knob.undoo" = "z"\n'
    file.write_text(wrong)
    async with bench(keys_file=file, size=(120, 36)) as app:
        await opened(app, "mark.add")
        assert "keys.toml:2: keys.knob.undoo: no such action" in " ".join(shown(app).split())
        await app.press("enter", "f6")
        assert "has a mistake: writing it drops that line." in " ".join(shown(app).split())
        await app.press("escape")
        assert file.read_text() == wrong
        assert dict(app.app.settings.keymap) == {}, "what is not written is not in force"
        await app.press("enter", "f6", "enter")
        assert file.read_text() == '[keys]\n"mark.add" = "f6"\n'
        assert "no such action" not in shown(app)


async def test_a_file_that_is_no_toml_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    async with bench(keys_file=file) as app:
        file.write_text("[keys]\nhelp = f1\n")
        await opened(app, "mark.add")
        assert "line 2" in shown(app)
        await app.press("enter", "f6")
        assert "nothing changed" in shown(app)
        assert file.read_text() == "[keys]\nhelp = f1\n"
        assert dict(app.app.settings.keymap) == {}


async def test_what_was_edited_by_hand_meanwhile_is_taken_when_the_editor_opens(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    async with bench(keys_file=file) as app:
        file.write_text('[keys]\n"knob.undo" = "f6"\n')
        await opened(app)
        await closed(app)
        assert "f6 undo" in app.text("#footer")


async def test_two_editors_of_one_file_keep_each_others_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    async with bench(keys_file=file) as app:
        await opened(app, "mark.add")
        file.write_text('[keys]\n"knob.undo" = "f6"\n')  # by another, meanwhile
        await app.press("enter", "f7")
        assert file.read_text() == '[keys]\n"knob.undo" = "f6"\n"mark.add" = "f7"\n'
        assert dict(app.app.settings.keymap) == {"knob.undo": "f6", "mark.add": "f7"}
        await app.press("u")
        assert file.read_text() == '[keys]\n"knob.undo" = "f6"\n', "undo takes back what was changed here"


async def test_a_key_that_another_editor_gave_away_meanwhile_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    async with bench(keys_file=file, size=(120, 36)) as app:
        await opened(app, "mark.add")
        file.write_text(theirs := '[keys]\n"knob.undo" = "f6"\n')
        await app.press("enter", "f6")
        assert "nothing changed" in shown(app)
        assert file.read_text() == theirs
        assert dict(app.app.settings.keymap) == {}


async def test_without_a_file_a_change_holds_until_the_end() -> None:
    async with bench() as app:
        await opened(app, "help")
        assert "Changes hold until the program ends." not in shown(app), "the filter stands there"
        await app.press("escape")
        assert "Changes hold until the program ends." in shown(app)


async def test_the_filter_looks_in_ids_titles_and_keys_and_the_list_is_whole_without() -> None:
    async with bench(size=(80, 24)) as app:
        await opened(app)
        await app.press("slash", *"replay mark")
        assert "step.next" in shown(app)
        assert "knob.undo" not in shown(app)
        await app.press("slash", *"zzz", "enter", "enter")
        assert "no action has these words" in shown(app)
        await app.press("escape")
        told = " ".join(" ".join(text for text, _ in row) for row in screen(app).listing._body)
        assert all(action.id in told for action in ACTIONS)
        await app.press("end")
        assert "▸ app.quit" in shown(app)
        await app.press("K")
        assert isinstance(app.app.screen, KeysScreen)
        await app.press("escape")
        await app.until(lambda: isinstance(app.app.screen, DashboardScreen))
