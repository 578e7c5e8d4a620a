"""The document of `status` as metrics: the format's grammar, base units, nothing for what is not known."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from replexplorer.core.link import LinkSettings, LinkView
from replexplorer.core.server.disk import DiskView
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.server.node_view import NodeView, ThreadError
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.server.truth import ReplicaTruth, Workers
from replexplorer.engine.outcome import Status
from replexplorer.formats.documents import plain
from replexplorer.formats.prometheus import METRICS, exposition
from tests.typed import fields
from tests.unit.test_cli_render import everything_down, status_of

REPLICA = NodeView(
    "db2",
    "replica",
    sql_error=ThreadError(1062, "Duplicate entry"),
    **fields("reachable=True gtid_executed='u:1-7' io_thread='on' sql_thread='error' lag_s=1.5"),
    applier=ReplicaTruth("db2", queued=12, applied_tps=245.5, drain_s=4.0, workers=Workers(3, 4)),
)
STATUS = status_of(
    stack='a"b\\c\nd',
    nodes=(
        NodeView("db1", "primary", reachable=True, gtid_executed="u:1-9", is_source=True),
        REPLICA,
        NodeView("db3", "down", reachable=False, diverged="lacks a transaction of its own"),
    ),
    protection=Protection(
        ProtectionState.DEGRADED, **fields("requested=True replicas_acking=0 replicas_required=1 fallbacks=2")
    ),
    links=(LinkView("db2", settings=LinkSettings(85.0), rtt_measured_ms=85.432, source="db1"),),
    disks=(DiskView("db1", delay_ms=0.0, measured_ms=0.25),),
    exposure=Exposure(Loss(0, 0, 0), Loss(5, 4, 7, 12.0), Unknown("nobody says", 3)),
    footprint_bytes=12_345_678_901,
)


def parsed(status: Status) -> dict[str, float]:
    """Series and figures as Prometheus' own library reads them."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(exposition(plain(status))):
        assert family.documentation
        for name, labels, figure, *_ in family.samples:
            assert (family.type == "counter") == name.endswith("_total")
            assert labels.pop("stack") == 'a"b\\c\nd'
            series = ",".join(f'{label}="{value}"' for label, value in labels.items())
            found[f"{name.removeprefix('replexplorer_')}{{{series}}}"] = figure
    return found


def test_the_figures_of_a_status_are_series_in_base_units(snapshot: object) -> None:
    found = parsed(STATUS)
    assert {key: value for key, value in found.items() if "state=" not in key or value} == snapshot


def test_every_metric_has_its_figure_in_the_document() -> None:
    series = {each.partition("{")[0] for each in parsed(STATUS)}
    assert series == {metric.name for metric in METRICS}


def test_what_is_not_known_has_no_series() -> None:
    lines = exposition(plain(everything_down())).splitlines()
    names = {line.split()[2].removeprefix("replexplorer_") for line in lines if line.startswith("# TYPE")}
    assert names == {"node_up", "protection_state", "link_rtt_asked_seconds"}
    maria = status_of(nodes=[replace(REPLICA, flavor="mariadb")])
    assert "executed" not in exposition(plain(maria)), "its position is no count"
