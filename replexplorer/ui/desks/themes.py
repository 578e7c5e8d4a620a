"""The user's theme files while the dashboard runs: a file that changes is read again, a mistake told."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from replexplorer.core.errors import ReplexplorerError
from replexplorer.formats.paths import toml_files
from replexplorer.formats.themes import FailedTheme, Theme, load_themes

Stamp = tuple[int, int, int]
"""Time of the last change in ns, size in bytes and inode: a file that differs in one was written."""


@dataclass(frozen=True, slots=True)
class ThemeNews:
    """What a look at changed files found."""

    themes: tuple[Theme, ...]
    """Every theme that can be used; one whose file has a mistake is left out: its last good version holds."""
    read: tuple[str, ...]
    """Names of those whose files changed."""
    failed: tuple[FailedTheme, ...]
    """Files that changed and cannot be used."""


class ThemeFiles:
    """The `*.toml` of one directory; `news` is asked from time to time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stamps = self._look()
        loaded = load_themes(directory)[0] if self._stamps else ()
        self._names = {found.file: found.theme.name for found in loaded}

    def news(self) -> ThemeNews | None:
        """What changed since it was last asked; None: nothing, or the directory may not be read meanwhile."""
        before = self._stamps
        try:
            stamps = self._look()
            if stamps == before:
                return None
            loaded, failed = load_themes(self._directory)
        except (ReplexplorerError, OSError):  # a file may go between two looks at it
            return None
        self._stamps = stamps
        changed = {file for file, stamp in stamps.items() if before.get(file) != stamp}
        broken = {self._names[found.file] for found in failed if found.file in self._names}
        self._names |= {found.file: found.theme.name for found in loaded}
        return ThemeNews(
            tuple(found.theme for found in loaded if found.theme.name not in broken),
            tuple(found.theme.name for found in loaded if found.file in changed),
            tuple(found for found in failed if found.file in changed),
        )

    def _look(self) -> dict[Path, Stamp]:
        """Every file's stamp; a file that is gone has none, nor has a link to nowhere."""
        stamps = {}
        for file in toml_files(self._directory):
            with contextlib.suppress(OSError):
                of = file.stat()
                stamps[file] = (of.st_mtime_ns, of.st_size, of.st_ino)
        return stamps
