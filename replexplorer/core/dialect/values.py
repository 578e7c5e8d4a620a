"""A variable's value as a server writes it, and as ours."""

from __future__ import annotations

import re

from replexplorer.core.knobs.catalogue import ON_OFF, Kind, Knob, Value


def from_server(knob: Knob, text: str) -> Value:
    """A server's value as ours: lower-case words, whole numbers; what is neither stays a word."""
    if knob.kind is Kind.CHOICE:
        return knob.word(text)
    number = whole(text)
    return text.strip().lower() if number is None else number


def literal(knob: Knob, value: Value) -> str:
    """Our value as SQL: numbers bare, on and off as keywords, other words quoted in capitals."""
    if not isinstance(value, str):
        return str(int(value))
    return value.upper() if value in ON_OFF else f"'{value.upper()}'"


def whole(value: object) -> int | None:
    """A whole number out of a column that may be text, a number, empty or NULL."""
    match = re.fullmatch(r"\s*(-?\d+)(?:\.0*)?\s*", str(value))
    return int(match[1]) if match else None


def is_on(value: str) -> bool:
    """Whether a switch is on, as `SHOW VARIABLES` or a status says it."""
    return value.strip().upper() in ("ON", "1", "YES")
