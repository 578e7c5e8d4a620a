"""A link between two nodes: asked, in force and measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.catalogue import Value
from replexplorer.core.link import CUT, NO_PARTITION, LinkSettings
from replexplorer.core.wire import Flap


@dataclass(frozen=True, slots=True)
class LinkView:
    """The link between the primary and one replica, or between two replicas: asked, in force, measured."""

    replica: str
    """The replica; of a link between two of them both in order of name, `db2:db3`. Its knobs stand here."""
    backend: str | None = None
    """`netem` or `nfqueue`."""
    settings: LinkSettings = field(default_factory=LinkSettings)
    """Requested."""
    values: Mapping[str, Value] | None = None
    """Knob key to what the agents have in force; None while an agent does not answer."""
    as_asked: bool = True
    """What is in force is what the request needs; also True while that is unknown."""
    rtt_measured_ms: float | None = None
    """Median of the last 5 probes sent after the last change; None when none answered."""
    rtt_base_ms: float | None = None
    probes_lost_percent: float | None = None
    """Of the probes since the last change; None when there is none yet."""
    dropped: int | None = None
    """Packets dropped though no loss was asked."""
    healing: bool = False
    """The partition is over and the stream has not moved yet: TCP waits for its next try."""
    flap: Flap | None = None
    """It goes down and comes up by the clock, beside what its knobs ask."""
    is_down: bool = False
    """Because of that it is down now."""
    congestion: str | None = None
    """TCP's congestion control at its ends, `reno`; None while unknown."""
    fault: str | None = None
    """What is wrong with the link, in words; None while it does what was asked."""

    @property
    def rtt_asked_ms(self) -> float:
        """The round trip requested, one-way overrides included."""
        return self.settings.total_ms

    @property
    def partition(self) -> str | None:
        """The partition in force, be it a flap's; None while unknown."""
        if self.is_down:
            return CUT
        return None if self.values is None else str(self.values[keys.PARTITION])

    @property
    def is_cut(self) -> bool:
        """A partition is in force; False while that is unknown."""
        return self.partition not in (None, NO_PARTITION)

    @property
    def is_asked(self) -> bool:
        """Anything but a bare path is requested."""
        return self.settings != LinkSettings()

    @property
    def is_shaped(self) -> bool:
        """Something is in force; False while that is unknown."""
        return self.values is not None and LinkSettings.of(self.values) != LinkSettings()


def partition_words(links: Sequence[LinkView]) -> tuple[str, ...]:
    """The partitions in force: `ack`, or `db3 ack` where not all links of several have the same."""
    cut = {link.replica: link.partition for link in links if link.is_cut}
    if len(cut) == len(links) and len(set(cut.values())) == 1:
        return (str(next(iter(cut.values()))),)
    return tuple(f"{replica} {partition}" for replica, partition in cut.items())
