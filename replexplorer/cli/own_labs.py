"""Labs by name: ours, and the user's own TOML files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import KnobName, desired_of, parse_assignment
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.topology import SOURCE, new_roster
from replexplorer.engine.experiment.labs import LABS, find_lab
from replexplorer.engine.experiment.labs.comparison import Comparison, judge_by, read_term
from replexplorer.engine.experiment.labs.lab import Lab, Length, Phase, Published
from replexplorer.formats import paths
from replexplorer.formats.lab_files import LabFile, PhaseTable, read_lab
from replexplorer.formats.paths import expanded

_SUFFIX: Final = ".toml"
_SEMI_SYNC: Final = KnobName(keys.SEMI_SYNC, SOURCE)
_QUICK_SHARE: Final = 4
_QUICK_COMMITS_SHARE: Final = 10
_LEAST_S: Final = 2.0


def lab_named(name: str) -> Lab:
    """A built-in lab, one of the user's labs directory, or a TOML file; raises UsageError."""
    file = own_file(name)
    return own_lab(read_lab(file)) if file is not None else find_lab(name, beside=[f.stem for f in _files()])


def own_file(name: str) -> Path | None:
    """The file of a lab of one's own; None for a built-in one."""
    if "/" in name or name.endswith(_SUFFIX):
        return expanded(name)
    return None if name in LABS else {file.stem: file for file in _files()}.get(name)


def _files() -> Sequence[Path]:
    return paths.toml_files(paths.labs_directory())


def own_labs() -> tuple[list[tuple[Lab, Path]], list[tuple[Path, UsageError]]]:
    """The user's labs with their files, and those that cannot be used with what is wrong."""
    found, failed = [], []
    for file in _files():
        try:
            if file.stem in LABS:
                raise UsageError(f"{file}: the lab {file.stem} ships", "give the file another name")
            found.append((own_lab(read_lab(file)), file))
        except UsageError as error:
            failed.append((file, error))
    return found, failed


def own_lab(file: LabFile) -> Lab:
    """The lab of a file; raises UsageError naming the line of a relation that names nothing."""
    tables = file.tables
    names = [phase.name for phase in tables.phase]
    comparisons = []
    for at, relation in enumerate(tables.relation):
        terms = []
        for key in ("left", "right"):
            try:
                terms.append(read_term(getattr(relation, key), names))
            except UsageError as error:
                raise file.wrong(("relation", at, key), error) from None
        if not any(term.phase for term in terms):
            constants = UsageError("compares two numbers", "one side is a figure of a phase, as PHASE.tps")
            raise file.wrong(("relation", at, "left"), constants)
        if terms[0] == terms[1]:
            itself = UsageError("compares a figure with itself", "name another phase or figure")
            raise file.wrong(("relation", at, "right"), itself)
        comparisons.append(Comparison(relation.name, terms[0], relation.sign, terms[1], relation.times))
    phases, waits = [], False
    for phase in tables.phase:
        turned = desired_of(parse_assignment(text, new_roster()) for text in file.settings(phase))
        waits = turned.get(_SEMI_SYNC, "on" if waits else "off") == "on"
        phases.append(_phase(file, phase, waits=waits))
    return Lab(
        name=file.name,
        title=tables.title or file.name,
        teaches=tables.teaches,
        phases=tuple(phases),
        judge=judge_by(comparisons),
        replicas=tables.replicas,
    )


def _phase(file: LabFile, phase: PhaseTable, *, waits: bool) -> Phase:
    state = phase.state or ("protected" if waits else "off")
    quick_s = phase.quick_seconds or max(_LEAST_S, phase.seconds / _QUICK_SHARE)
    quick_commits = None if phase.commits is None else max(1, phase.commits // _QUICK_COMMITS_SHARE)
    published = phase.published
    return Phase(
        phase.name,
        file.settings(phase),
        full=Length(phase.seconds, phase.commits),
        quick=Length(quick_s, quick_commits),
        state=ProtectionState(state),
        shows=phase.shows,
        published=Published(published.value, published.unit) if published else None,
        replicas=phase.replicas,
    )
