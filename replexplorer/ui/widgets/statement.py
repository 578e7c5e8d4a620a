"""What the selected knob will run, what it does, what it risks, and the values on its ladder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from textual.reactive import reactive

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Knob, KnobName, Value, format_value
from replexplorer.core.load.pacing import HIDES
from replexplorer.core.topology import SOURCE
from replexplorer.engine.outcome import Preview
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words.runs import Line, Run, rule, width_of, wrapped
from replexplorer.ui.words.states import InForce, Measured

TYPED_WIDTH: Final = 12
"""Columns of the field for a typed value."""
_TIE: Final = "\ue000"
"""A blank that no row is broken at."""


@dataclass(frozen=True, slots=True)
class Intent:
    """The selected knob with the value that it has or would get."""

    name: KnobName
    label: str
    value: Value
    requested: Value
    preview: Preview
    place: tuple[int, int]
    """Position in the panel from 1, and how many knobs there are."""
    hidden_below: int = 0
    """Knobs under the panel's last row."""
    problem: str = ""
    """Why a typed value was refused, in one line."""
    here: Knob | None = None
    """The catalogue's row as the node's server takes it; None: as the catalogue has it."""

    @property
    def staged(self) -> bool:
        """The value is not what is in force."""
        return self.value != self.requested

    @property
    def risks(self) -> tuple[str, ...]:
        """What can be lost with this value, and the planner's warnings."""
        knob = self.name.knob
        risk = (knob.risk,) if knob.risk and risky(self.name, self.value) else ()
        return (*risk, *(text for text in self.preview.warnings if text not in risk))

    @property
    def help(self) -> str:
        """What the knob does; of the load's mode, what the chosen one hides."""
        return HIDES.get(str(self.value), "") if self.name.key == keys.LOAD_MODE else self.name.knob.help

    @property
    def runs_on(self) -> str:
        """Where the statements run, in words."""
        where = {"link": "the sidecars", "load": "the load"}.get(self.name.knob.backing.value)
        node = "the primary" if self.name.node == SOURCE else self.name.node
        return where or (f"{node}'s disk" if self.name.knob.backing.value == "disk" else node)


@dataclass(frozen=True, slots=True)
class FoldIntent:
    """The line of a fold, with the knobs that it stands for."""

    title: str
    labels: tuple[str, ...]
    """The folded knobs; none when all are shown."""

    @property
    def what(self) -> str:
        """What is folded away."""
        return f"{', '.join(self.labels)}: at their defaults" if self.labels else "all of them are shown"

    @property
    def help(self) -> str:
        """How it is turned, and what it never hides."""
        if self.labels:
            return "→ shows them; what is not at its default is always shown"
        return "← folds away what is at its default; what is not stays"


def risky(name: KnobName, value: Value) -> bool:
    """Whether the catalogue's risk applies: it begins with `not X:` or with the values it is about."""
    head, colon, _ = name.knob.risk.partition(":")
    if not colon:
        return value != name.knob.default
    if head.startswith("not "):
        return str(value) != head.removeprefix("not ")
    return str(value) in head.split(", ")


def ladder(intent: Intent, width: int) -> list[Run]:
    """The knob's values with the present one underlined; the part around it when they do not fit."""
    knob = intent.here or intent.name.knob
    steps = list(knob.steps)
    if intent.value not in steps and not isinstance(intent.value, str):
        steps.insert(_place_of(intent.value, knob), intent.value)
    words = [format_value(knob, step) for step in steps]
    units = {word.partition(" ")[2] for word in words if word[0].isdigit()}
    unit = units.pop() if len(units) == 1 else ""  # one for all stands once, behind the last that is shown
    words = [word.removesuffix(f" {unit}") if unit else word.replace(" ", "") for word in words]
    width -= len(unit) - 1 if unit else 0
    here = steps.index(intent.value) if intent.value in steps else 0
    first, last = here, here + 1
    while True:
        sides = [(first, last + 1), (first - 1, last)]
        if last - here > here - first + 1:
            sides.reverse()  # the value stays in the middle
        wider = [(a, b) for a, b in sides if a >= 0 and b <= len(words)]
        fitting = [(a, b) for a, b in wider if sum(len(word) + 2 for word in words[a:b]) <= width]
        if not fitting:
            break
        first, last = fitting[0]
    runs: list[Run] = []
    for at in range(first, last):
        runs += [(words[at], "title b u" if steps[at] == intent.value else "faint"), ("  ", "text")]
    return [*runs[:-1], (f" {unit}" if unit else "", "faint")]


def _place_of(value: float, knob: Knob) -> int:
    """Where a figure stands among the steps of its knob; steps that are words keep their places."""
    spelled = [word for _, word in knob.words]
    figures = [
        (at, step) for at, step in enumerate(knob.steps) if not isinstance(step, str) and step not in spelled
    ]
    return next((at for at, step in figures if step > value), figures[-1][0] + 1 if figures else 0)


class StatementPanel(Lines):
    """The panel under the knobs."""

    GROUND: ClassVar[str] = "panel"
    DEFAULT_CSS = "StatementPanel { height: 8; }"

    intent: reactive[Intent | None] = reactive(None)
    """What is selected."""
    fold: reactive[FoldIntent | None] = reactive(None)
    """What the line of a fold stands for, while the cursor is on it."""

    def watch_intent(self) -> None:
        """Repaint for the knob that is selected now."""
        self.repaint()

    def watch_fold(self) -> None:
        """Repaint for the fold that the cursor is on."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Rule, statements, help, risks; the ladder in the last row."""
        intent = self.intent
        if intent is None and self.fold is not None:
            texts = ((self.fold.what, "text"), (self.fold.help, "muted"))
            told = [[("  ", ink), (row, ink)] for text, ink in texts for row in wrapped(text, width - 4)]
            return [rule([(self.fold.title.capitalize(), "title b")], [], width), *told]
        if intent is None:
            return [rule([("Knobs", "title b")], [], width)]
        at, total = intent.place
        more = " ▾" if intent.hidden_below else ""
        verb = "Will run on" if intent.staged else "Runs on"
        rows: list[Line] = [
            rule([(f"{verb} {intent.runs_on}", "title b")], [(f"{at}/{total}{more}", "muted")], width)
        ]
        room = height - 2
        body: list[Line] = []
        if intent.problem:
            body += _block("✖ ", intent.problem, "bad b", width)
        for statement in intent.preview.statements[:3]:
            body += _block("", statement, "warn b", width)
        risks = [line for text in intent.risks for line in _block("▲ ", text, "warn", width)]
        help_rows = [[("  ", "text"), (row, "text")] for row in wrapped(intent.help, width - 4)]
        keep = max(1, room - len(body) - len(risks)) if len(body) < room else 0
        body += [*help_rows[:keep], *risks]
        rows += body[:room]
        rows += [[] for _ in range(height - 1 - len(rows))]
        return [*rows[: height - 1], [("  ", "text"), *ladder(intent, width - 4)]]


def _block(symbol: str, text: str, words: str, width: int) -> list[Line]:
    """A text in rows, the first with its symbol and the others indented under it; a variable and its value
    stay in one row, or at least `= value` does."""
    indent = "  " + " " * len(symbol)
    room = width - 2 - len(indent)
    tied = text.replace(" = ", f"{_TIE}={_TIE}")
    if any(len(word) > room for word in tied.split()):
        tied = text.replace(" = ", f" ={_TIE}")
    rows = [row.replace(_TIE, " ") for row in wrapped(tied, room)]
    return [[("  " + symbol if at == 0 else indent, words), (row, words)] for at, row in enumerate(rows)]


class KnobLine(Lines):
    """The selected knob in three rows of a small screen: place, value, statement."""

    DEFAULT_CSS = "KnobLine { height: 3; }"

    intent: reactive[Intent | None] = reactive(None)
    """What is selected."""
    fold: reactive[FoldIntent | None] = reactive(None)
    """What the line of a fold stands for, while the cursor is on it."""
    effect: reactive[InForce] = reactive(InForce("", True))
    """What is in effect, and whether it is what was asked for."""
    measured: reactive[Measured] = reactive(Measured())
    """What is measured of it."""

    def watch_measured(self) -> None:
        """Repaint with what is measured now."""
        self.repaint()

    def watch_fold(self) -> None:
        """Repaint for the fold that the cursor is on."""
        self.repaint()

    def watch_intent(self) -> None:
        """Repaint for the knob that is selected now."""
        self.repaint()

    typing: reactive[bool] = reactive(False)
    """A field for a typed value stands over the value."""

    def watch_typing(self) -> None:
        """Make room for the field, or take it back."""
        self.repaint()

    @property
    def value_column(self) -> int:
        """Where the value begins in the second row."""
        return 7 + len(self.intent.label) if self.intent is not None else 0

    def watch_effect(self) -> None:
        """Repaint with what is in force now."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Rule with the knob's place, its value with the ladder, what it runs and risks."""
        intent = self.intent
        if intent is None and self.fold is not None:
            return [
                rule([(self.fold.title.capitalize(), "title b")], [("Enter all knobs", "muted")], width),
                [(" ▸ ", "accent b"), (self.fold.what, "text")],
                [(f" {self.fold.help}", "muted")],
            ]
        if intent is None:
            return [rule([("Knobs", "title b")], [], width)]
        at, total = intent.place
        heading = intent.name.knob.group.upper()
        title: Line = [("Knob ", "title b"), (f"{at} of {total}, {heading}", "muted")]
        text, as_asked = self.effect
        value = " " * TYPED_WIDTH if self.typing else format_value(intent.name.knob, intent.value)
        left: Line = [
            (" ▸ ", "accent b"), (intent.label, "title b"), ("  ◂ ", "accent b"),
            (value, "warn on select b" if intent.staged else "title on select b"), (" ▸", "accent b"),
            ("  in effect ", "muted"), (text, "muted" if as_asked else "warn b"),
        ]  # fmt: skip
        if self.measured.text:
            ink = "warn b" if self.measured.apart else "muted"
            left = [*left, ("  measured ", "muted"), (self.measured.text, ink)]
        steps = ladder(intent, width - width_of(left) - 3)
        gap = width - width_of(left) - width_of(steps) - 1
        statement = "; ".join(intent.preview.statements)
        prompt = "mysql> " if intent.name.knob.backing.value == "global" else "agent> "
        below: list[Run] = [(f" {intent.help}", "muted")]
        if statement:
            below = [(f" {prompt}", "faint"), (statement, "warn b")]
        if intent.name.key == keys.LOAD_MODE and not intent.staged:
            below = [(f" {intent.help.partition(';')[0]}", "text")]
        if intent.problem:
            below = [(f" ✖ {intent.problem}", "bad b")]
        elif intent.risks:
            below.append((f"  ▲ {intent.risks[0]}", "warn"))
        return [
            rule(title, [("Enter all knobs", "muted")], width),
            [*left, (" " * max(1, gap), "text"), *steps],
            below,
        ]
