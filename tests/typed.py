"""Values as short texts, for tables of tests."""

from __future__ import annotations

import re
from ast import literal_eval
from typing import Any, Final

from replexplorer.core.knobs.names import KnobName, Value, parse_name, parse_value

WORD: Final = re.compile(r"([^\s=]+)(?:=('[^']*'|\S+))?")
"""A name, and what is written after its `=`."""


def typed(text: str) -> dict[KnobName, Value]:
    """`rtt@db2=85ms sync_binlog=0`: each value by its knob on its node, as a user types them."""
    found = {}
    for each in text.split():
        key, _, value = each.partition("=")
        name = parse_name(key)
        found[name] = parse_value(name.knob, value)
    return found


def fields(text: str) -> dict[str, Any]:
    """`clients=9 oldest_s=None why='too short'`: values by the names of fields; other words are left out."""
    return {name: literal_eval(written) for name, written in WORD.findall(text) if written}


def table_of(text: str, between: str | None = "|") -> list[list[str]]:
    """The cells of each line, without the blanks around them; between None: words."""
    return [[cell.strip() for cell in line.split(between)] for line in text.splitlines()]


def values_of(text: str) -> list[list[Any]]:
    """The values of each line, as Python writes them, with no blank in any."""
    return [[literal_eval(word) for word in line.split()] for line in text.splitlines()]
