"""What an experiment measures under: every knob as it found or turned it, so that all else is noticed.

Law: a figure counts only for the settings that it names. What differs from the baseline was changed by
somebody else, and what was measured meanwhile is invalid. Unknown is not changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replexplorer.core.knobs.names import Backing, Desired, KnobName, Value, format_change, same_value
from replexplorer.core.server.counters import Sample, restarted

if TYPE_CHECKING:
    from replexplorer.engine.observe.sight import Sight


@dataclass(slots=True)
class Baseline:
    """The knobs as an experiment expects them."""

    sight: Sight
    _requested: dict[KnobName, Value] = field(default_factory=dict)
    _effective: dict[KnobName, Value] = field(default_factory=dict)
    _samples: dict[str, Sample] = field(default_factory=dict)
    _version: int = 0
    """Of the document, when it was as expected."""

    def turned(self, desired: Desired) -> None:
        """The experiment itself turned these: what they are now is learned at the next `begin`."""
        links = {name.node for name in desired if name.knob.backing is Backing.LINK}
        for name in tuple(self._effective):
            of_link = name.knob.backing is Backing.LINK and name.node in links
            if name in desired or of_link:  # a link's knobs depend on each other
                del self._effective[name]
        self._requested.update(desired)
        self._version = self.sight.requested.version

    def begin(self) -> None:
        """A measurement begins, after a look at everything: what is not known yet is taken as it is."""
        for name in self.sight.names():
            self._requested.setdefault(name, self.sight.requested_value(name))
            value = self.sight.effective_value(name)
            if value is not None and name.knob.backing is not Backing.LOAD:
                self._effective.setdefault(name, value)
        self._samples = self._seen()
        self._version = self.sight.requested.version

    def _seen(self) -> dict[str, Sample]:
        return {name: sample.counters for name, sample in self.sight.samples.items()}

    def restarted(self) -> tuple[str, ...]:
        """Servers that began anew since `begin`."""
        return tuple(
            name
            for name, sample in self._seen().items()
            if name in self._samples and restarted(self._samples[name], sample)
        )

    def changed(self, *, own: str) -> tuple[str, ...]:
        """What somebody else changed since, after a look at everything; `own` is how this session signs.
        Each in words: the knob with both values, and whose hand it was."""
        document = self.sight.requested
        asked = {
            name: (before, now)
            for name, before in self._requested.items()
            if not same_value(name.knob, before, now := self.sight.requested_value(name))
        }
        found = [f"{format_change(name, *values)}, by {document.writer}" for name, values in asked.items()]
        for name, before in self._effective.items():
            seen = self.sight.effective_value(name)
            if name not in asked and seen is not None and not same_value(name.knob, before, seen):
                found.append(f"{format_change(name, before, seen)}, by hand")
        if not found and document.version != self._version and document.writer != own:
            found.append(f"knobs were turned and turned back by {document.writer}")
        return tuple(found)
