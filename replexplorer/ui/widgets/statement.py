"""What the selected knob will run, what it does, what it risks, and the values on its ladder."""

from __future__ import annotations

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Knob, KnobName, Value, format_value
from replexplorer.core.load.pacing import HIDES
from replexplorer.core.records import frozen
from replexplorer.core.topology import SOURCE
from replexplorer.engine.outcome import Preview
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words.runs import Line, Run, apart, field, hung, pair, rule, spread, width_of
from replexplorer.ui.words.states import KnobEffect


@frozen
class Intent:
    """The selected knob with the value that it has or would get."""

    name: KnobName
    label: str
    value: Value
    requested: Value
    preview: Preview
    place: tuple[int, int]
    """Position in the panel from 1, and how many knobs there are."""
    effect: KnobEffect
    """What is in effect, and whether it is what was asked for."""
    measured: KnobEffect
    """What is measured of it."""
    problem: str = ""
    """Why a typed value was refused, in one line."""
    here: Knob | None = None
    """The catalogue's row as the node's server takes it; None: as the catalogue has it."""
    typed: str | None = None
    """The value as far as it is typed; None: nothing is."""

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
        node = "the source" if self.name.node == SOURCE else self.name.node
        return where or (f"{node}'s disk" if self.name.knob.backing.value == "disk" else node)


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
    words = [format_value(knob, step).replace(" ", "") for step in steps]
    here = steps.index(intent.value) if intent.value in steps else 0
    for count in range(len(words), 0, -1):
        first = max(0, min(here - count // 2, len(words) - count))
        if sum(len(word) + 2 for word in words[first : first + count]) <= width:
            break
    values = ([(words[at], "title b u" if at == here else "faint")] for at in range(first, first + count))
    return apart(values, "  ")


def _place_of(value: float, knob: Knob) -> int:
    """Where a figure stands among the steps of its knob; steps that are words keep their places."""
    spelled = [word for _, word in knob.words]
    figures = [
        (at, step) for at, step in enumerate(knob.steps) if not isinstance(step, str) and step not in spelled
    ]
    return next((at for at, step in figures if step > value), figures[-1][0] + 1 if figures else 0)


class StatementPanel(Lines[Intent]):
    """The panel under the knobs, of the knob that is selected."""

    GROUND = "panel"
    DEFAULT_CSS = "StatementPanel { height: 8; }"

    def draw(self, shown: Intent, width: int, height: int) -> list[Line]:
        """Rule, statements, help, risks; the ladder in the last row."""
        at, total = shown.place
        verb = "Will run on" if shown.staged else "Runs on"
        title: Line = [(f"{verb} {shown.runs_on}", "title b")]
        body = _block("✖ ", shown.problem, "bad b", width)
        for statement in shown.preview.statements[:3]:
            body += _block("", statement, "warn b", width)
        risks = [line for text in shown.risks for line in _block("▲ ", text, "warn", width)]
        room = height - 2
        keep = max(1, room - len(body) - len(risks))
        body = [*body, *_block("", shown.help, "text", width)[:keep], *risks][:room]
        body += [[] for _ in range(room - len(body))]
        return [
            rule(title, [(f"{at}/{total}", "muted")], width),
            *body,
            [("  ", "text"), *ladder(shown, width - 4)],
        ]


def _block(symbol: str, text: str, words: str, width: int) -> list[Line]:
    """A text in rows, the first with its symbol and the others indented under it; nothing for an empty
    one."""
    return hung([(f"  {symbol}", words)], text, width - 2, words) if text else []


class KnobLine(Lines[Intent]):
    """The selected knob in three rows of a small screen: place, value, statement."""

    DEFAULT_CSS = "KnobLine { height: 3; }"

    def draw(self, shown: Intent, width: int, height: int) -> list[Line]:
        """Rule with the knob's place, its value with the ladder, what it runs and risks."""
        all_knobs: Line = [("Enter all knobs", "muted")]
        at, total = shown.place
        knob, effect, measured = shown.name.knob, shown.effect, shown.measured
        title: Line = [("Knob ", "title b"), (f"{at} of {total}, {knob.group.upper()}", "muted")]
        value: Line = [
            (format_value(knob, shown.value), f"{'warn' if shown.staged else 'title'} on select b")
        ]
        if shown.typed is not None:
            value = field(shown.typed)
        left: list[Run] = [
            (" ▸ ", "accent b"), (shown.label, "title b"), ("  ◂ ", "accent b"),
            *value, (" ▸  ", "accent b"),
            *pair("in effect", effect.text, "muted" if effect.as_asked else "warn b"),
        ]  # fmt: skip
        if measured.text:
            figure = pair("measured", measured.text, "muted" if measured.as_asked else "warn b")
            left += [("  ", "text"), *figure]
        steps = ladder(shown, width - width_of(left) - 3)
        return [rule(title, all_knobs, width), spread(left, [*steps, (" ", "text")], width), _below(shown)]


def _below(shown: Intent) -> list[Run]:
    """What is wrong with what was typed; else what the value runs, or what the knob does, and what it
    risks."""
    if shown.problem:
        return [(f" ✖ {shown.problem}", "bad b")]
    line: list[Run] = [(f" {shown.help}", "muted")]
    if statement := "; ".join(shown.preview.statements):
        prompt = "mysql> " if shown.name.knob.backing.value == "global" else "agent> "
        line = [(f" {prompt}", "faint"), (statement, "warn b")]
    if shown.name.key == keys.LOAD_MODE and not shown.staged:
        line = [(f" {shown.help.partition(';')[0]}", "text")]
    return [*line, *([(f"  ▲ {shown.risks[0]}", "warn")] if shown.risks else ())]
