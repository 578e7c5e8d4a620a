"""What the load could make: the bound that the link sets, and what the model expects, at this moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import SOURCE, Group, KnobName, Place, Value
from replexplorer.core.link import NO_PARTITION
from replexplorer.core.load.interval import LoadView
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.model.ceiling import Ceiling, acknowledging_rtt_ms, bound, local_cost_ms
from replexplorer.core.model.fitted import Calibration, OperatingPoint, Prediction
from replexplorer.core.model.operating_point import applier_of, operating_point_of
from replexplorer.core.model.prediction import measured, predict
from replexplorer.core.records import dataclass, replace
from replexplorer.core.server.anatomy import Anatomy
from replexplorer.core.server.protection import WAITING, Protection, ProtectionState
from replexplorer.engine.observe.state import StackState

_KEY_SPREAD: Final = KnobName(keys.KEY_SPREAD, Place.LOAD)
_ROWS_A_CLIENT: Final = 10
"""With fewer, a commit often finds its row locked by another."""


@dataclass(slots=True)
class Predictor:
    """Ceiling and prediction of each tick; keeps what the ceiling has learnt while async."""

    state: StackState
    calibration: Calibration | None = None
    """What the model was fitted to; None: no prediction."""
    _local_ms: float | None = None
    """Execute and fsync time of one commit: the least seen (`ceiling.local_cost_ms`) while commits were
    asynchronous, under `_local_of`."""
    _local_of: Sequence[tuple[KnobName, Value | None]] = ()
    """The durability settings and the workload that it was measured under."""

    def ceiling(self, protection: Protection, load: LoadView) -> Ceiling | None:
        """The bound that the link sets; none while commits do not wait for a replica, and none where
        neither the link nor a measured local cost bounds anything: a bound of tens of thousands says
        nothing."""
        self._learn(protection, load)
        if not self._in_force(load, protection).semi_sync:
            return None
        if self._local_ms is None and not any(self.state.asked_rtts_ms()):
            return None
        rtt_ms = acknowledging_rtt_ms(self._rtts_ms(), protection.replicas_required or 1)
        return bound(load.clients, rtt_ms, self._local_ms)

    def predicted(
        self,
        protection: Protection,
        load: LoadView,
        *,
        anatomy: Anatomy | None = None,
        ceiling: Ceiling | None = None,
    ) -> Prediction | None:
        """What the model expects of the load that runs, with the round trip, the fsync and, by the
        anatomy, the local cost as they are measured; None without a calibration or a load, while the
        primary is down, and while commits wait for a link that is cut or not measured."""
        setting = self._in_force(load, protection)
        if load.state == "stopped" or not self._can_tell(setting, protection) or self.calibration is None:
            return None
        local = None
        if anatomy is not None:
            setting, local = measured(setting, self.calibration, anatomy)
        return predict(
            setting,
            self.calibration,
            local=local,
            at_most_tps=None if ceiling is None else ceiling.tps,
            rate_tps=load.rate_asked_tps,
            anatomy=anatomy,
        )

    def expected_tps(self, protection: Protection, rtt_ms: float | None) -> float | None:
        """What the calibration alone expects of the settings in force, over a link of this round trip:
        nothing of it is taken from the load that it is compared with; None where it cannot tell."""
        setting = _waiting(self.setting(), protection)
        if not self._can_tell(setting, protection) or self.calibration is None:
            return None
        if rtt_ms is not None:
            setting = replace(setting, rtt_ms=rtt_ms)
        load = self.state.wanted_load()
        rate_tps = float(load[keys.RATE]) if load[keys.LOAD_MODE] == OPEN else None
        prediction = predict(replace(setting, fsync_ms=None), self.calibration, rate_tps=rate_tps)
        return None if prediction is None else prediction.tps

    def setting(self) -> OperatingPoint:
        """The settings in force as the model sees them, and as requested what is not known; round trips
        and fsync are the measured ones."""
        fleet = self.state.fleet
        setting = operating_point_of(
            self._values(), fleet.replica_names, rtts_ms=self._rtts_ms(), system=fleet.system
        )
        disk = self.state.disks.get(fleet.source_name)
        return replace(setting, fsync_ms=disk.measured_ms if disk else None)

    def applier(self, replica: str) -> OperatingPoint:
        """The same of a replica's applier."""
        return applier_of(self._values(), replica)

    def _values(self) -> Mapping[KnobName, Value | None]:
        """Of all knobs, as in force, else as requested."""
        values: dict[KnobName, Value | None] = {}
        for name in self.state.names():
            effective = self.state.effective_value(name)
            values[name] = self.state.requested_value(name) if effective is None else effective
        return values

    def _in_force(self, load: LoadView, protection: Protection) -> OperatingPoint:
        """The settings with the load as it is, and as commits really wait."""
        setting = replace(self.setting(), clients=load.clients)
        return _waiting(setting, protection)

    def _can_tell(self, setting: OperatingPoint, protection: Protection) -> bool:
        """Whether the primary commits, enough links that are waited for are whole and measured, and clients
        do not wait for each other's row locks, which the model does not know."""
        whole = [
            link
            for link in self.state.links.values()
            if link.rtt_measured_ms is not None and link.partition in (None, NO_PARTITION)
        ]
        rows = int(self.state.effective_value(_KEY_SPREAD) or self.state.requested_value(_KEY_SPREAD))
        if protection.state is ProtectionState.DOWN or 0 < rows < _ROWS_A_CLIENT * setting.clients:
            return False
        return not setting.semi_sync or len(whole) >= (protection.replicas_required or 1)

    def _rtts_ms(self) -> list[float | None]:
        return [link.rtt_measured_ms for link in self.state.links.values()]

    def _learn(self, protection: Protection, load: LoadView) -> None:
        """Remember what a commit costs while nothing waits for the link."""
        settings = [
            (name, self.state.effective_value(name))
            for name in self.state.names()
            if name.node == SOURCE and name.knob.group in (Group.DURABILITY, Group.BINLOG, Group.DISK)
        ]
        settings.append((KnobName(keys.WORKLOAD, Place.LOAD), load.workload))
        if settings != self._local_of:
            self._local_ms, self._local_of = None, settings
        if protection.state is ProtectionState.OFF and load.state == "running":
            seen_ms = load.mean_ms if load.service is None else local_cost_ms(load.clients, load.service)
            if seen_ms is not None and (self._local_ms is None or seen_ms < self._local_ms):
                self._local_ms = seen_ms


def _waiting(setting: OperatingPoint, protection: Protection) -> OperatingPoint:
    """The setting as commits wait now: fallen back, or not switched yet, they do not."""
    return setting if protection.state in WAITING else replace(setting, semi_sync=False)
