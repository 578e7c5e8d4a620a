"""What a figure was measured under: enough to judge it elsewhere, and to run it again."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from replexplorer import __version__
from replexplorer.core.experiment.snapshot import UNKNOWN
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import BY_KEY, Backing, Value, format_value, parse_name, same_value
from replexplorer.core.server.counters import CommitCost
from replexplorer.core.system import DEFAULT, Conditions, MachineFacts, SettingValues, system_of
from replexplorer.core.text import number, utc, utc_for_people
from replexplorer.formats.calibration import this_machine
from replexplorer.formats.files import workload_file
from replexplorer.reports.report import ReportColumn, ReportTable, numbers

if TYPE_CHECKING:
    from replexplorer.engine.session import Session

_CPU_INFO: Final = Path("/proc/cpuinfo")


def conditions_of(session: Session, turned: Iterable[Value] = ()) -> Conditions:
    """The stack and its machine as they are, from the session's last look; with the text of the workloads
    among what is requested and among the values that will be `turned`."""
    seen = session.rig.seen
    asked = dict.fromkeys([*(view.requested for view in seen.knobs.values()), *turned])
    files = [value for value in asked if isinstance(value, str) and BY_KEY[keys.WORKLOAD].is_file(value)]
    return Conditions(
        program=__version__,
        server=None if seen.server == UNKNOWN else seen.server,
        replicas=len(seen.replicas),
        system=seen.system.name,
        machine=machine(),
        settings={
            str(name): SettingValues(requested=view.requested, effective=view.effective)
            for name, view in seen.knobs.items()
        },
        workload_files=dict(workload_file(file) for file in files),
        other_driver=None if seen.driver is None else str(seen.driver),
    )


def machine() -> MachineFacts:
    """This host, on which the stack, the load and we run."""
    pages = "SC_PAGE_SIZE", "SC_PHYS_PAGES"
    return MachineFacts(
        words=this_machine(),
        cores=os.cpu_count() or 1,
        memory_bytes=os.sysconf(pages[0]) * os.sysconf(pages[1]),
        kernel=f"{platform.system()} {platform.release()}",
        architecture=platform.machine(),
        cpu=_cpu(),
    )


def _cpu() -> str | None:
    """The processor's name; None where the system does not say it there."""
    try:
        lines = _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next((name for name in names if name), None)


def others(conditions: Conditions, varied: Container[str]) -> Conditions:
    """The same with those settings alone that were not varied."""
    settings = {name: value for name, value in conditions.settings.items() if name not in varied}
    return replace(conditions, settings=settings)


def measured_on(server: str, began_wall_s: float, *, quick: bool) -> str:
    """`mysql 9.7.4, 2026-11-21 15:04:05 UTC, shortened (--quick)`."""
    began = utc_for_people(utc(began_wall_s))
    return f"{server}, {began}, replexplorer {__version__}{', shortened (--quick)' * quick}"


def rows(conditions: Conditions) -> list[tuple[str, str]]:
    """In words, a fact a row: the server, the machine, the settings that are not at their defaults."""
    machine = conditions.machine
    nodes = f"{conditions.replicas} replica{'s' * (conditions.replicas != 1)}"
    if conditions.systems:
        nodes = f"a new stack for each of {', '.join(conditions.systems)}"
    return [
        ("server", f"{conditions.server or 'unknown'}, {nodes}; replexplorer {conditions.program}"),
        ("machine", machine.words + (f", {machine.cpu}" if machine.cpu else "")),
        ("settings", settings_words(conditions)),
        *([("next to it", f"the load of {conditions.other_driver}")] if conditions.other_driver else []),
    ]


def settings_words(conditions: Conditions) -> str:
    """The settings that are not at their server's defaults, requested and, where it differs, in effect."""
    told = []
    for name, each in conditions.settings.items():
        knob = parse_name(name).knob
        asked, effective = (
            "unknown" if value is None else format_value(knob, value)
            for value in (each.requested, each.effective)
        )
        # The load's own line tells the load.
        as_asked = each.effective is None or knob.backing is Backing.LOAD
        if not as_asked and not same_value(knob, each.requested, each.effective):
            told.append(f"{name} {asked} ({effective} in effect)")
        elif not same_value(knob, each.requested, knob.default_of(_flavor(conditions))):
            told.append(f"{name} {asked}")
    return ", ".join(told) or "all knobs at their defaults"


def _flavor(conditions: Conditions) -> str | None:
    """The first word of `mariadb 11.8.9`; None if the server is unknown."""
    return conditions.server.partition(" ")[0] if conditions.server else None


def again(conditions: Conditions, command: Sequence[str], varied: Container[str] = ()) -> list[str]:
    """The commands that run the same on another machine, on a stack of its own: what was requested first."""
    system, flavor = system_of(conditions.system), _flavor(conditions)
    turned = []
    for name, each in conditions.settings.items():
        knob, value = parse_name(name).knob, each.requested
        if name not in varied and value is not None and not same_value(knob, value, knob.default_of(flavor)):
            turned.append(f"{name}={value}")
    kind = [] if system.name == DEFAULT else ["--system", system.name]
    if flavor in system.flavors[1:]:
        kind += ["--flavor", flavor]
    lines = [
        ["replexplorer", "up", *kind, "--replicas", str(conditions.replicas)],
        ["replexplorer", "reset"],
    ]
    if turned:
        lines.append(["replexplorer", "set", *turned])
    told = [shlex.join(line) for line in (*lines, command)]
    for path in conditions.workload_files:  # which somebody else has elsewhere
        told = [line.replace(path, f"./{Path(path).name}") for line in told]
    return told


COST_HEADINGS: Final = ("CPU us", "replica CPU us", "redo B", "binlog B", "sent B")
"""Of `cost_cells`."""
COST_TITLE: Final = "what a commit cost the servers"
"""Over a table of them."""
COST_NOTE: Final = (
    "CPU of the source's server and of each replica's, bytes written to redo log and binlog and sent to each"
    " replica: all that was done meanwhile over the commits that the source wrote to its binlog."
)


def cost_table(
    columns: Sequence[ReportColumn],
    costs: Sequence[tuple[Sequence[str], CommitCost | None]],
    title: str = COST_TITLE,
) -> ReportTable:
    """A row for each of these costs behind the cells of its columns; none where nothing is known."""
    known = any(cost is not None for _, cost in costs)
    shown = [(*cells, *cost_cells(cost)) for cells, cost in costs if known]
    return ReportTable((*columns, *numbers(*COST_HEADINGS)), shown, title, COST_NOTE)


def cost_line(cost: CommitCost) -> str:
    """`CPU us: db1 812, db2 640; bytes: redo 1,210, binlog 480, to db2 505 (of 9,312 commits)`."""
    cpu = ", ".join(f"{name} {number(value, 0)}" for name, value in cost.cpu_us.items())
    sent = "".join(f", to {name} {number(value, 0)}" for name, value in cost.sent_bytes.items())
    logs = f"redo {number(cost.redo_bytes, 0)}, binlog {number(cost.binlog_bytes, 0)}"
    return f"CPU us: {cpu}; bytes: {logs}{sent} (of {cost.commits:,} commits)"


def cost_cells(cost: CommitCost | None) -> tuple[str, ...]:
    """Under `COST_HEADINGS`, several replicas' apart by a stroke; dashes where nothing is known."""
    if cost is None:
        return ("-",) * len(COST_HEADINGS)
    return (
        number(cost.cpu_us.get(cost.source), 0),
        _each(value for name, value in cost.cpu_us.items() if name != cost.source),
        number(cost.redo_bytes, 0),
        number(cost.binlog_bytes, 0),
        _each(cost.sent_bytes.values()),
    )


def _each(values: Iterable[float | None]) -> str:
    return " / ".join(number(value, 0) for value in values) or "-"
