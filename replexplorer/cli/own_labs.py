"""Labs by name: ours, and the user's own TOML files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from replexplorer.config import paths
from replexplorer.config.lab_files import LabFile, PhaseTable, read_lab
from replexplorer.core.errors import UsageError
from replexplorer.core.tick import ProtectionState
from replexplorer.engine.labs import LABS, find_lab
from replexplorer.engine.labs.comparison import Comparison, judge_by, read_term
from replexplorer.engine.labs.lab import Lab, Phase, Published, Stretch

_SUFFIX: Final = ".toml"
_QUICK_SHARE: Final = 4
_QUICK_COMMITS_SHARE: Final = 10
_LEAST_S: Final = 2.0


def lab_named(name: str) -> Lab:
    """A lab of ours, one of the user's labs directory, or a TOML file; raises UsageError."""
    if "/" in name or name.endswith(_SUFFIX):
        return own_lab(read_lab(Path(name).expanduser()))
    if name not in LABS and (file := paths.labs_directory() / f"{name}{_SUFFIX}").is_file():
        return own_lab(read_lab(file))
    return find_lab(name)


def own_labs() -> tuple[list[tuple[Lab, Path]], list[UsageError]]:
    """The user's labs with their files, and what is wrong with those that cannot be used."""
    found, failed = [], []
    for file in sorted(paths.labs_directory().glob(f"*{_SUFFIX}")):
        try:
            found.append((own_lab(read_lab(file)), file))
        except UsageError as error:
            failed.append(error)
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
        comparisons.append(Comparison(relation.name, terms[0], relation.sign, terms[1], relation.times))
    semi_sync = "off"
    phases = []
    for phase in tables.phase:
        semi_sync = next((value for text in file.settings(phase) if (value := _semi_sync(text))), semi_sync)
        phases.append(_phase(file, phase, semi_sync))
    return Lab(
        name=file.name,
        title=tables.title or file.name,
        teaches=tables.teaches,
        phases=tuple(phases),
        judge=judge_by(comparisons),
        replicas=tables.replicas,
    )


def _semi_sync(text: str) -> str | None:
    key, _, value = text.partition("=")
    return value if key == "semi_sync" else None


def _phase(file: LabFile, phase: PhaseTable, semi_sync: str) -> Phase:
    state = phase.state or ("protected" if semi_sync == "on" else "off")
    quick_s = phase.quick_seconds or max(_LEAST_S, phase.seconds / _QUICK_SHARE)
    quick_commits = None if phase.commits is None else max(1, phase.commits // _QUICK_COMMITS_SHARE)
    published = phase.published
    return Phase(
        phase.name,
        file.settings(phase),
        full=Stretch(phase.seconds, phase.commits),
        quick=Stretch(quick_s, quick_commits),
        state=ProtectionState(state),
        shows=phase.shows,
        published=Published(published.value, published.unit) if published else None,
        replicas=phase.replicas,
    )
