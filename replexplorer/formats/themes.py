"""Themes: the built-in ones and the user's own, read from TOML files of one shape.

Law: a broken theme never takes the app down; it is reported by file and key and left out. A
theme names every token, so that no screen can meet a colour that is missing. Nothing is read
at import.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from replexplorer.core.errors import UsageError
from replexplorer.core.printable import one_line
from replexplorer.formats.paths import toml_files
from replexplorer.formats.small_file import MOST_TOML_BYTES, WrongToml, parse_toml, read_bytes
from replexplorer.formats.toml_place import line_of

BUILT_IN: Final = ("dark", "light", "safe", "projector")
"""Names of the themes that ship, in the order of `theme.next`."""

_MIXED_SHARES: Final = (0.3, 0.45, 0.6, 0.8, 1.0)
"""Of the colour of TPS in the shades of a theme that names none."""
_BAND_SHARE: Final = 0.2
"""Of a band's word in the ground of a theme that names none."""
_QUEUE_SHARE: Final = 0.45
"""Of the colour of acknowledgements in that of the queue for them, where a theme names none."""
_AT_LINE: Final = re.compile(r"at line (\d+)")
_HEX: Final = re.compile(r"#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})")


def parse_color(text: str) -> tuple[int, int, int]:
    """`#rrggbb` or `#rgb` as red, green and blue in 0..255; raise ValueError on anything else."""
    if not _HEX.fullmatch(text):
        raise ValueError(f"{text!r} is not a colour: write it as #rrggbb")
    digits = text[1:] if len(text) == 7 else "".join(digit * 2 for digit in text[1:])
    return int(digits[0:2], 16), int(digits[2:4], 16), int(digits[4:6], 16)


def _checked(text: str) -> str:
    """The colour as `#rrggbb`."""
    return "#{:02x}{:02x}{:02x}".format(*parse_color(text))


Color = Annotated[str, AfterValidator(_checked)]
"""A colour that is always `#rrggbb` once it is read."""


class _Strict(BaseModel):
    """A table without room for unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class ScreenColors(_Strict):
    """`[screen]`: grounds, letters and lines."""

    bg: Color
    panel: Color
    rule: Color
    text: Color
    muted: Color
    faint: Color
    title: Color
    accent: Color
    select: Color
    grid: Color
    axis: Color


class SeriesColors(_Strict):
    """`[series]`: what the charts draw."""

    tps: Color
    tpsfill: Color
    ceiling: Color
    p50: Color
    p95: Color
    p99: Color
    max: Color
    mark: Color
    fault: Color
    faultbg: Color


class AnatomyColors(_Strict):
    """`[anatomy]`: the parts of one commit; `oncolor` is the text on them.

    The optional ones came later: a theme without them borrows other tables' colours.
    """

    execute: Color
    redo: Color
    binlog: Color
    ack: Color
    engine: Color
    oncolor: Color
    queue: Color | None = None
    fsync_queue: Color | None = None
    ack_queue: Color | None = None
    wire: Color | None = None
    other: Color | None = None
    group: Color | None = None


class HeatColors(_Strict):
    """`[heat]`: shades of a density from few to many; a theme without them mixes its own."""

    heat1: Color
    heat2: Color
    heat3: Color
    heat4: Color
    heat5: Color


class StatusColors(_Strict):
    """`[status]`: the grounds of the protection states; `onstate` is the text on them."""

    protected: Color
    degraded: Color
    async_: Annotated[Color, Field(alias="async")]
    armed: Color
    blocked: Color
    partitioned: Color
    onstate: Color


class BandColors(_Strict):
    """`[bands]`: grounds of the charts' windows, by what they are of, and the words on those that no
    protection state has a colour for. A theme leaves out what it likes: a ground is then mixed from its
    word's colour."""

    down: Color | None = None
    restart: Color | None = None
    partitionbg: Color | None = None
    blockedbg: Color | None = None
    degradedbg: Color | None = None
    downbg: Color | None = None
    restartbg: Color | None = None


class FigureColors(_Strict):
    """`[figures]`: differences, warnings and keys."""

    good: Color
    bad: Color
    warn: Color
    key: Color
    keybg: Color


class Theme(_Strict):
    """One theme file."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,30}$")]
    dark: bool
    description: str = ""
    screen: ScreenColors
    series: SeriesColors
    anatomy: AnatomyColors
    status: StatusColors
    figures: FigureColors
    heat: HeatColors | None = None
    bands: BandColors = Field(default_factory=BandColors)

    def tokens(self) -> dict[str, str]:
        """Token (as `p50`, `async`) to `#rrggbb`, all tables together."""
        tables = (
            self.screen, self.series, self.anatomy, self.status, self.figures,
            self.heat or self._mixed, self.bands,
        )  # fmt: skip
        queue = self.anatomy.queue or self.series.mark
        borrowed = {
            "queue": queue, "fsync_queue": queue,
            "ack_queue": _between(queue, self.anatomy.ack, _QUEUE_SHARE),
            "wire": self.series.max, "group": self.anatomy.ack,
            "other": self.screen.muted, **self._bands,
        }  # fmt: skip
        return {
            key: color or borrowed[key]
            for table in tables
            for key, color in table.model_dump(by_alias=True).items()
        }

    @property
    def _bands(self) -> dict[str, str]:
        """The bands' colours for a theme that names none."""
        down, restart = self.bands.down or self.figures.bad, self.bands.restart or self.series.mark
        words = {
            "partition": self.status.partitioned, "blocked": self.status.blocked,
            "degraded": self.status.degraded, "down": down, "restart": restart,
        }  # fmt: skip
        grounds = {f"{name}bg": _between(self.screen.bg, word, _BAND_SHARE) for name, word in words.items()}
        return {"down": down, "restart": restart, **grounds}

    @property
    def _mixed(self) -> HeatColors:
        """Shades between the ground and the colour of TPS."""
        shades = {
            name: _between(self.screen.bg, self.series.tps, share)
            for name, share in zip(HeatColors.model_fields, _MIXED_SHARES, strict=True)
        }
        return HeatColors.model_validate(shades)


def _between(one: str, other: str, share: float) -> str:
    """The colour that lies so far from one on the way to another."""
    pairs = zip(parse_color(one), parse_color(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def _token_names() -> tuple[str, ...]:
    """Every token's name, from the models."""
    tables: tuple[type[BaseModel], ...] = (
        ScreenColors,
        SeriesColors,
        AnatomyColors,
        StatusColors,
        FigureColors,
        HeatColors,
        BandColors,
    )
    return tuple(field.alias or name for table in tables for name, field in table.model_fields.items())


TOKENS: Final = _token_names()
"""Every token that a theme gives a colour to."""


@dataclass(frozen=True, slots=True)
class LoadedTheme:
    """A theme and the file that it came from."""

    theme: Theme
    file: Path
    built_in: bool


@dataclass(frozen=True, slots=True)
class FailedTheme:
    """A theme file that could not be used, and why, in one line without the file's name."""

    file: Path
    reason: str
    line: int | None = None
    """Where in the file; None where it is the file as a whole."""

    def __str__(self) -> str:
        """File, line and reason."""
        return f"{self.file}{'' if self.line is None else f':{self.line}'}: {self.reason}"


class WrongTheme(UsageError):
    """A theme file that cannot be used."""

    def __init__(self, failed: FailedTheme) -> None:
        super().__init__(f"theme {failed}")
        self.failed = failed
        """Why not."""


def read_theme(file: Path) -> Theme:
    """Read one theme file; raise WrongTheme naming the file, the line and the first wrong key."""
    text, line = "", None
    try:
        text = read_bytes(file, MOST_TOML_BYTES).decode("utf-8")
        return Theme.model_validate(parse_toml(text))
    except ValidationError as error:
        reason, line = _first(error), line_of(text.splitlines(), error.errors()[0]["loc"])
    except WrongToml as error:
        reason = ": ".join(filter(None, (".".join(map(str, error.where)), error.words.removeprefix("is "))))
        at = _AT_LINE.search(reason)
        line = int(at[1]) if at is not None else line_of(text.splitlines(), error.where)
    except UnicodeDecodeError:
        reason = "not UTF-8"
    except OSError as error:
        reason = error.strerror or str(error)
    raise WrongTheme(FailedTheme(file, reason, line))


def load_themes(
    user_directory: Path | None = None,
) -> tuple[tuple[LoadedTheme, ...], tuple[FailedTheme, ...]]:
    """All themes: the built-in ones first, then the user's `*.toml` by file name; and those that failed.

    A user's theme with a built-in name takes its place; of two user files with one name the
    second fails.
    """
    loaded: dict[str, LoadedTheme] = {}
    failed: list[FailedTheme] = []
    shipped = themes_directory()
    _collect((shipped / f"{name}.toml" for name in BUILT_IN), loaded, failed, built_in=True)
    if user_directory is not None:
        _collect(toml_files(user_directory), loaded, failed, built_in=False)
    return tuple(loaded.values()), tuple(failed)


def themes_directory() -> Path:
    """Where the built-in themes are: inside the package when installed, else in the checkout."""
    package = Path(str(resources.files("replexplorer")))
    shipped = package / "_shipped" / "themes"
    return shipped if shipped.is_dir() else package.parent / "themes"


def _collect(
    files: Iterable[Path], loaded: dict[str, LoadedTheme], failed: list[FailedTheme], *, built_in: bool
) -> None:
    """Read files into the two collections."""
    for file in files:
        try:
            theme = read_theme(file)
        except WrongTheme as error:
            failed.append(error.failed)
            continue
        before = loaded.get(theme.name)
        if before is not None and not before.built_in:
            line = line_of(file.read_text(encoding="utf-8").splitlines(), ("name",))
            failed.append(FailedTheme(file, f"name: {theme.name!r} is taken by {before.file.name}", line))
            continue
        loaded[theme.name] = LoadedTheme(theme, file, built_in)


def _first(error: ValidationError) -> str:
    """The first problem as `series.p50: what is wrong`."""
    problem = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in problem["loc"]) or "theme"
    kind = problem["type"]
    if kind == "missing":
        return f"{where}: missing"
    if kind == "extra_forbidden":
        return f"{where}: unknown key"
    if kind == "string_pattern_mismatch":
        return f"{where}: {one_line(repr(problem['input']), 60)} is no theme name: use a-z, 0-9, - and _"
    return f"{where}: {problem['msg'].removeprefix('Value error, ')}"
