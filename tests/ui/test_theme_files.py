"""A theme file that is saved while the dashboard runs is drawn at once; of a mistake the colours stay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from textual.notifications import Notify

from replexplorer.formats.themes import load_themes, themes_directory
from replexplorer.ui import app as app_module
from replexplorer.ui.desks.themes import ThemeFiles
from replexplorer.ui.style.theme import inks_of
from tests.ui.driving import Bench, bench

DARK = (themes_directory() / "dark.toml").read_text()
MINE = DARK.replace('name = "dark"', 'name = "mine"')
TITLE_LINE = 1 + next(at for at, line in enumerate(MINE.splitlines()) if line.startswith("title"))


def with_title(color: str) -> str:
    lines = MINE.splitlines()
    lines[TITLE_LINE - 1] = f'title = "{color}"'
    return "\n".join(lines) + "\n"


def told(app: Bench) -> list[str]:
    return [message.notification.message for message in app.messages if isinstance(message, Notify)]


def title_color(app: Bench) -> str | None:
    color = inks_of(app.app).style("title").color
    return color.name if color else None


def save(file: Path, text: str) -> None:
    """As editors do: another file takes its place."""
    part = file.with_suffix(".part")
    part.write_text(text)
    os.replace(part, file)


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "THEMES_EVERY_S", 0.05)


async def test_what_is_saved_is_drawn_and_what_is_wrong_is_told_by_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(with_title("#112233"))
    themes = tuple(found.theme for found in load_themes(tmp_path)[0])
    async with bench(themes=themes, theme="mine", themes_directory=tmp_path) as app:
        assert title_color(app) == "#112233"
        save(file, with_title("#aabbcc"))
        await app.until(lambda: title_color(app) == "#aabbcc", "the new colour")
        assert told(app) == ["theme mine: read again"]
        header = app.dashboard.query_one("#header").render_line(0)
        shown = {segment.style.color.name for segment in header if segment.style and segment.style.color}
        assert "#aabbcc" in shown
        save(file, with_title("blue"))
        await app.until(lambda: len(told(app)) == 2, "the mistake")
        assert told(app)[1].startswith(f"theme {file}:{TITLE_LINE}: screen.title: 'blue' is not a colour")
        assert title_color(app) == "#aabbcc"
        save(file, with_title("#445566"))
        await app.until(lambda: title_color(app) == "#445566", "the colour once it is right")
        file.unlink()
        save(tmp_path / "other.toml", MINE.replace('name = "mine"', 'name = "other"'))
        await app.until(lambda: "other" in app.app.theme_names, "a look after the file went")
        assert title_color(app) == "#445566", "a theme in use stays, whatever becomes of its file"


async def test_a_new_file_is_a_theme_to_choose_and_a_broken_one_of_a_built_in_name_changes_nothing(
    tmp_path: Path,
) -> None:
    async with bench(themes_directory=tmp_path) as app:
        save(tmp_path / "mine.toml", with_title("#112233"))
        await app.until(lambda: "mine" in app.app.theme_names, "the new theme")
        assert app.app.theme == "dark"
        app.app.use_theme("mine")
        await app.until(lambda: title_color(app) == "#112233", "its colour")
        own = tmp_path / "own-dark.toml"
        save(own, with_title("#778899").replace('name = "mine"', 'name = "dark"'))
        app.app.use_theme("dark")
        await app.until(lambda: title_color(app) == "#778899", "the user's own dark")
        save(own, "name = ")
        await app.until(lambda: any("own-dark.toml:1: " in line for line in told(app)), "the mistake")
        assert title_color(app) == "#778899", "the last good version, not the built-in one"


def test_a_link_to_nowhere_beside_them_hides_no_file(tmp_path: Path) -> None:
    """Emacs leaves such links beside what is being edited."""
    for number in range(10):  # some of them are listed before some files, in whatever order that is
        (tmp_path / f"gone{number}.toml").symlink_to("somebody@nowhere.4711")
    files = ThemeFiles(tmp_path)
    for name in ("a", "mine", "z"):
        save(tmp_path / f"{name}.toml", MINE.replace('name = "mine"', f'name = "{name}"'))
    news = files.news()
    assert news is not None
    assert news.read == ("a", "mine", "z")
    assert files.news() is None


def test_a_directory_that_is_closed_meanwhile_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ThemeFiles(tmp_path)
    save(tmp_path / "mine.toml", MINE)
    with monkeypatch.context() as closed:
        closed.setattr(os, "listdir", _refused)  # as for anybody but root
        assert files.news() is None
    news = files.news()
    assert news is not None
    assert news.read == ("mine",)


def _refused(directory: Path) -> list[str]:
    raise PermissionError(13, "Permission denied", str(directory))
