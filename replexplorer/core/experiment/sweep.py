"""A sweep's plan: which settings there are, in which order they are run, and how long that takes.

Law: every combination of the knobs' values is one cell. A pass runs every cell once in a random
order of its own, so that drift falls on no setting; the seed determines all orders.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from random import Random
from typing import ClassVar, Final

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.experiment import ExperimentGroup, Stage
from replexplorer.core.json_keys import json_keys
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Assignment, KnobName, Value, desired_of, format_value
from replexplorer.core.records import frozen
from replexplorer.core.system import System
from replexplorer.core.text import duration_text

PRESET: Final = "preset"
"""The key of a dimension of presets."""
DURATION_S: Final = 5.0
"""Of a run, where nothing else is asked."""
SETTLING_S: Final = 1.5
"""What a load runs before it is measured, and about what turning the knobs takes."""
_SETTLING_LATENCIES: Final = 4

Parse = Callable[[str], Assignment]
SceneTexts = Callable[[str], Sequence[str]]
"""A scene's `KEY=VALUE` texts by its name; raises UsageError for an unknown one."""


@frozen
class Choice:
    """One value of a dimension."""

    label: str
    """As it is shown: `10 ms`, `on`, `network`."""
    values: Mapping[KnobName, Value]


@json_keys(hide="choices", show="unit values")
@frozen
class Dimension:
    """A knob, or a set of knobs that scenes turn together, with the values that it takes."""

    key: str
    """`rtt`, `rtt@db3`, `preset`."""
    choices: tuple[Choice, ...]

    @property
    def unit(self) -> str | None:
        """Of its values; None for words and scenes."""
        return None if self.key == PRESET else next(iter(self.names)).knob.unit or None

    @property
    def values(self) -> Sequence[Value]:
        """In the sweep's order; the names of scenes."""
        if self.key == PRESET:
            return self.labels
        return [next(iter(choice.values.values())) for choice in self.choices]

    @property
    def labels(self) -> Sequence[str]:
        """The same as they are shown."""
        return [choice.label for choice in self.choices]

    @property
    def names(self) -> frozenset[KnobName]:
        """Every knob that one of its values turns."""
        return frozenset(name for choice in self.choices for name in choice.values)


@frozen
class Cell:
    """One combination."""

    index: int
    choices: tuple[int, ...]
    """The index of each dimension's value."""
    values: Mapping[KnobName, Value]
    labelled: Mapping[str, str]
    """By the key of each dimension its value as it is shown, in order."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The values as they are shown."""
        return tuple(self.labelled.values())


@frozen
class Grid:
    """All combinations of some dimensions."""

    dimensions: tuple[Dimension, ...]

    @property
    def size(self) -> int:
        """How many cells there are."""
        return prod(len(dimension.choices) for dimension in self.dimensions)

    @property
    def cells(self) -> Sequence[Cell]:
        """Every combination, the last dimension changing fastest."""
        ranges = [range(len(dimension.choices)) for dimension in self.dimensions]
        return [self._cell(index, each) for index, each in enumerate(product(*ranges))]

    def _cell(self, index: int, choices: tuple[int, ...]) -> Cell:
        taken = [dimension.choices[at] for dimension, at in zip(self.dimensions, choices, strict=True)]
        values = {name: value for choice in taken for name, value in choice.values.items()}
        labels = {each.key: choice.label for each, choice in zip(self.dimensions, taken, strict=True)}
        return Cell(index, choices, values, labels)

    @property
    def names(self) -> tuple[KnobName, ...]:
        """Every knob that a cell turns."""
        return tuple(dict.fromkeys(name for each in self.dimensions for name in sorted(each.names)))

    @property
    def varied(self) -> tuple[Dimension, ...]:
        """The dimensions of more than one value."""
        return tuple(dimension for dimension in self.dimensions if len(dimension.choices) > 1)

    def describe(self, cell: Cell) -> str:
        """`rtt=10 ms clients=8`: what is varied."""
        varied = self.varied or self.dimensions
        return " ".join(f"{each.key}={cell.labelled[each.key]}" for each in varied)

    @property
    def text(self) -> str:
        """The grid as it is typed, in the knobs' own units."""
        return " ".join(
            f"{dimension.key}={','.join(_typed(dimension, choice) for choice in dimension.choices)}"
            for dimension in self.dimensions
        )


@frozen
class Sweep:
    """What is to be swept, and how."""

    kind: ClassVar = "sweep"
    """The verb that runs it."""
    teaches: ClassVar = "what each knob does by itself"
    grid: Grid
    duration_s: float = DURATION_S
    """Measured in each run."""
    repeats: int = 1
    """Passes over all cells."""
    seed: int | None = None
    """Of the orders; None: any."""

    @property
    def total(self) -> int:
        """Runs, without those that have to be done again."""
        return self.grid.size * self.repeats

    @property
    def words(self) -> str:
        """What it would be: `48 runs of 5 s, about 8 min`."""
        took = duration_text(self.seconds())
        return f"{runs_text(self.total)} of {self.duration_s:g} s, about {took}"

    @property
    def identity(self) -> str:
        """A short name that only the same sweep has."""
        seed = "" if self.seed is None else f" seed={self.seed}"
        scenes = [
            sorted((str(n), v) for n, v in c.values.items()) for d in self.grid.dimensions for c in d.choices
        ]
        text = f"{self.grid.text} duration={self.duration_s:g} repeat={self.repeats}{seed} {scenes}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """The grid as it is typed."""
        return self.grid.text

    @property
    def title(self) -> str:
        """In a line."""
        return f"Sweep of {self.grid.text}"

    group: ClassVar = ExperimentGroup.COST
    """What it is about."""

    def unfit(self, _: System) -> str:
        """Nothing: its knobs were read for the stack."""
        return ""

    @property
    def stages(self) -> Sequence[Stage]:
        """Its runs, pass by pass, as if in the grid's order."""
        return self.repeats * [Stage(self.grid.describe(cell), "") for cell in self.grid.cells]

    @property
    def turns(self) -> tuple[str, ...]:
        """Keys of the knobs that it turns."""
        return tuple(map(str, self.grid.names))

    def seconds(self, *, quick: bool = False) -> float:
        """About how long all runs take."""
        return self.repeats * sum(self.run_s(cell) for cell in self.grid.cells)

    def run_s(self, cell: Cell) -> float:
        """About how long one run of a cell takes, with turning the knobs."""
        return self.duration_s + settling_s(cell.values) + SETTLING_S

    def order(self, seed: int, number: int) -> list[Cell]:
        """The cells in the order of one pass; passes count from 0."""
        cells = list(self.grid.cells)
        Random(f"{seed}/{number}").shuffle(cells)
        return cells


def runs_text(count: int) -> str:
    """`1 run`, `48 runs`."""
    return f"{count} run{'' if count == 1 else 's'}"


def settling_s(values: Mapping[KnobName, Value]) -> float:
    """How long a load settles under these values before it is measured: time, and some latencies."""
    asked = [float(value) for name, value in values.items() if name.key in (keys.RTT, keys.FSYNC_DELAY)]
    return SETTLING_S + _SETTLING_LATENCIES * max(asked, default=0.0) / 1000


def read_grid(texts: Sequence[str], parse: Parse, scene: SceneTexts) -> Grid:
    """Read `KEY[@NODE]=V1,V2,...` texts; raise UsageError in one line.

    `parse` reads one `KEY=VALUE` for the stack. `preset=A,B` makes one dimension of the presets' knobs.
    """
    if not texts:
        raise UsageError("nothing to sweep", "give KEY=V1,V2,..., for example rtt=0,10 clients=1,8,32")
    dimensions: list[Dimension] = []
    for text in texts:
        dimension = _read_dimension(text, parse, scene)
        for other in dimensions:
            both = dimension.names & other.names
            if both:
                name = min(str(each) for each in both)
                where = dimension.key if dimension.key == other.key else f"{other.key} and {dimension.key}"
                raise UsageError(
                    f"{name} is named twice, by {where}", "give each knob once with all its values"
                )
        dimensions.append(dimension)
    return Grid(tuple(dimensions))


def read_sweep(line: str, parse: Parse, scene: SceneTexts) -> Sweep:
    """Read a sweep typed as one line, with `duration=S` and `repeat=N` among the knobs; raise UsageError."""
    texts: list[str] = []
    given = {"duration": DURATION_S, "repeat": 1.0}
    for text in line.split():
        key, _, value = text.partition("=")
        if key in given:
            given[key] = _number(key, value.removesuffix("s"))
        else:
            texts.append(text)
    return Sweep(read_grid(texts, parse, scene), given["duration"], int(given["repeat"]))


def _number(key: str, text: str) -> float:
    is_whole = key == "repeat"
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6 or (is_whole and value % 1):
        right = "a whole number from 1" if is_whole else "a number of seconds above 0"
        raise UsageError(f"{key}={text[:20]} is not possible", f"give {right}")
    return value


def is_preset(key: str) -> bool:
    """Whether it stands for presets, which were called scenes."""
    return key.strip().lower() in (PRESET, "scene")


def _read_dimension(text: str, parse: Parse, scene: SceneTexts) -> Dimension:
    key, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise UsageError(f"{text!r} is not KEY=V1,V2,...", "for example rtt=0,10,85 or clients=1,8,32")
    words = [word.strip() for word in values.split(",")]
    if not all(words):
        raise UsageError(f"{text!r} has an empty value", "give KEY=V1,V2,... without spaces")
    if is_preset(key):
        if twice := [word for word in words if words.count(word) > 1]:
            raise UsageError(f"{key}={twice[0]} is given twice", "give each preset once")
        # A knob that one of the scenes leaves out keeps its value in its cells.
        return Dimension(PRESET, tuple(Choice(word, desired_of(map(parse, scene(word)))) for word in words))
    choices: list[Choice] = []
    for word in words:
        assignment = parse(f"{key}={word}")
        knob = assignment.names[0].knob
        choice = Choice(
            format_value(knob, assignment.value), dict.fromkeys(assignment.names, assignment.value)
        )
        if any(choice.values == other.values for other in choices):
            raise UsageError(f"{key}={word} is given twice", "give each value once")
        if knob.key == keys.CLIENTS and assignment.value == 0:
            raise UsageError("clients=0 commits nothing", "give 1 or more")
        choices.append(choice)
    _, at, node = key.partition("@")
    return Dimension(f"{knob.key}{at}{node}", tuple(choices))


def _typed(dimension: Dimension, choice: Choice) -> str:
    if dimension.key == PRESET:
        return choice.label
    value = next(iter(choice.values.values()))
    return f"{value:g}" if isinstance(value, float) else str(value)
