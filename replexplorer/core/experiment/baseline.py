"""What an experiment measures under: every knob as it found or turned it, so that all else is noticed.

Law: a figure counts only for the settings that it names. What differs from the baseline was changed by
somebody else, and what was measured meanwhile is invalid. Unknown is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from replexplorer.core.experiment.sighting import Sighting
from replexplorer.core.knobs.names import Backing, Desired, KnobName, Value, format_change, same_value
from replexplorer.core.server.counters import Sample, restarted


@dataclass(slots=True)
class Baseline:
    """The knobs as an experiment expects them."""

    _requested: dict[KnobName, Value] = field(default_factory=dict)
    _effective: dict[KnobName, Value] = field(default_factory=dict)
    _counters: Mapping[str, Sample] = field(default_factory=dict)
    _version: int = 0
    """Of the document, when it was as expected."""

    def turned(self, desired: Desired, seen: Sighting) -> None:
        """The experiment itself turned these: what they are now is learned at the next `begin`."""
        links = {name.node for name in desired if name.knob.backing is Backing.LINK}
        for name in tuple(self._effective):
            of_link = name.knob.backing is Backing.LINK and name.node in links
            if name in desired or of_link:  # a link's knobs depend on each other
                del self._effective[name]
        self._requested.update(desired)
        self._version = seen.version

    def begin(self, seen: Sighting) -> None:
        """A measurement begins, after a look at everything: what is not known yet is taken as it is."""
        for name, view in seen.knobs.items():
            self._requested.setdefault(name, view.requested)
            if view.effective is not None and name.knob.backing is not Backing.LOAD:
                self._effective.setdefault(name, view.effective)
        self._counters = seen.counters
        self._version = seen.version

    def restarted(self, seen: Sighting) -> tuple[str, ...]:
        """Servers that restarted since `begin`."""
        return tuple(
            name
            for name, sample in seen.counters.items()
            if name in self._counters and restarted(self._counters[name], sample)
        )

    def changed(self, seen: Sighting) -> tuple[str, ...]:
        """What somebody else changed since, after a look at everything. Each in words: the knob with both
        values, and whose hand it was."""
        asked = {
            name: (before, now)
            for name, before in self._requested.items()
            if not same_value(name.knob, before, now := seen.requested(name))
        }
        found = [f"{format_change(name, *values)}, by {seen.writer}" for name, values in asked.items()]
        for name, before in self._effective.items():
            effective = seen.effective(name)
            if name not in asked and effective is not None and not same_value(name.knob, before, effective):
                found.append(f"{format_change(name, before, effective)}, by hand")
        if not found and seen.version != self._version and not seen.is_ours:
            found.append(f"knobs were turned and turned back by {seen.writer}")
        return tuple(found)
