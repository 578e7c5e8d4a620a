"""What this machine has and lacks, each with its remedy; looks only, changes nothing.

Law: what was not probed is `unknown`, never assumed. A missing piece names one command.
"""

from __future__ import annotations

import locale
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from replexplorer import __version__
from replexplorer.core.errors import MissingPiece
from replexplorer.core.records import dataclass, field, printed
from replexplorer.core.system import system_of
from replexplorer.core.wire import LinkState
from replexplorer.formats.configuration import Configuration
from replexplorer.formats.paths import shipped

if TYPE_CHECKING:
    from docker.api.client import APIClient

    from replexplorer.adapters.docker.images import ImageState

REGISTRY_TIMEOUT_S: Final = 10
"""How long a registry may take to answer."""
DISK_WANTED_BYTES: Final = 5 * 1024**3
"""Below this the load stops by itself."""
DISK_NEEDED_BYTES: Final = 2 * 1024**3
"""What images and a stack take at the least."""

_MAKER: Final = "mmdebstrap"

NO_NETEM: Final = "kernel has no netem"
"""The agents' diagnosis of all that a kernel without the module says."""

State = Literal["ok", "warning", "missing", "unknown"]


@dataclass(slots=True)
class Check:
    """One thing that doctor looked at."""

    name: str
    state: State
    detail: str
    remedy: str | None = None
    packages: list[str] = field(default_factory=list)
    """Host packages that remedy it, by Debian's names."""


_Case = tuple[bool, State, str, str | None]


def _first(name: str, *cases: _Case) -> Check:
    """What the first case that holds says: its state, detail and remedy."""
    _, state, detail, remedy = next(case for case in cases if case[0])
    return Check(name, state, detail, remedy)


@printed
class Doctor:
    """`doctor --json`."""

    version: str
    ready: bool
    """Nothing that `up` needs is missing."""
    checks: list[Check]


def examine(
    configuration: Configuration,
    state: Path,
    *,
    link: LinkState | None,
    progress: Callable[[str], None] = lambda text: None,
) -> Doctor:
    """Look at everything; `state` is the state directory, `link` the source's side of a running stack's."""
    checks = [Check("python", "ok", f"Python {sys.version.split()[0]}, replexplorer {__version__}")]
    info: Mapping[str, Any] = {}
    try:
        progress("asking Docker")
        with _connect() as client:
            found, info = _docker(client, configuration, progress)
            checks += found
    except MissingPiece as error:
        checks.append(Check("docker", "missing", error.message, error.hint))
    checks += [_link(link, info), _terminal(), _glyphs(), _state_path(state)]
    return Doctor(
        version=__version__,
        ready=not any(check.state == "missing" for check in checks),
        checks=checks,
    )


def _connect() -> APIClient:
    from replexplorer.adapters.docker.client import connect

    return connect(timeout_s=REGISTRY_TIMEOUT_S)


def _docker(
    client: APIClient, configuration: Configuration, progress: Callable[[str], None]
) -> tuple[list[Check], Mapping[str, Any]]:
    """The daemon, images and room, and what the daemon reports of its host."""
    from replexplorer.adapters.docker.client import spoken

    with spoken():
        version: dict[str, Any] = client.version()
        info: dict[str, Any] = client.info()
    detail = (
        f"Docker {version.get('Version')}, API {version.get('ApiVersion')}, {info.get('OperatingSystem')}"
    )
    is_rootless = any("rootless" in option for option in info.get("SecurityOptions") or [])
    foreign, remedy = "switch Docker to Linux containers", "the link may need a Docker that runs as root"
    docker = _first(
        "docker",
        (info.get("OSType") != "linux", "missing", f"{detail}: not Linux containers", foreign),
        (is_rootless, "warning", f"{detail}, rootless", remedy),
        (True, "ok", detail, None),
    )
    return [docker, *_images(client, configuration, progress), _disk(info)], info


def _images(client: APIClient, configuration: Configuration, progress: Callable[[str], None]) -> list[Check]:
    """Those that a new stack takes, and those of other servers."""
    from replexplorer.adapters.docker import images

    server = None
    if configuration.image is None:
        system = system_of(configuration.system)
        server = images.server_for(system.name, configuration.flavor or system.flavors[0]).says
    states = images.states(shipped("compose"))
    wanted = [state for state in states if state.says in (server, images.SIDECAR.says)]
    here = "; ".join(_built(state) if state.present else f"{state.says} not built yet" for state in wanted)
    checks = [
        Check("images", "ok", here),
        _registry(client, wanted, progress),
    ]
    for state in states:
        if state not in wanted:
            made = _built(state) if state.present else "not built yet: the first such stack builds it"
            checks.append(Check(f"{state.says} image", "ok", made))
    return checks


def _built(state: ImageState) -> str:
    return f"built: {state.reference} ({state.built_with or 'versions unknown'})"


def _registry(client: APIClient, states: Sequence[ImageState], progress: Callable[[str], None]) -> Check:
    """Where our images' base is from; nobody is asked where it is here."""
    from replexplorer.adapters.docker.client import spoken
    from replexplorer.adapters.docker.images import BASE, OWN_BASE

    if all(state.present for state in states):
        return Check("registry", "ok", "not asked: the images are built")
    with spoken():
        if any(client.images(name) for name in (BASE, OWN_BASE)):
            return Check("registry", "ok", "not asked: the images' base is here")
    progress("asking whether an image registry answers")
    if _registry_answers(client):
        return Check("registry", "ok", f"answers for {BASE}")
    if shutil.which(_MAKER):
        return Check("registry", "ok", f"none answers: {_MAKER} makes the base image")
    lacks = f"none answers, and {_MAKER}, which would make the base image, is not installed"
    return Check("registry", "missing", lacks, f"sudo apt-get install {_MAKER}", [_MAKER])


def _registry_answers(client: APIClient) -> bool:
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    from replexplorer.adapters.docker.images import BASE

    try:
        client.inspect_distribution(BASE)  # type: ignore[no-untyped-call]
    except (DockerException, RequestException, OSError):
        return False
    return True


def _disk(info: Mapping[str, Any]) -> Check:
    """Room where Docker keeps its data, when that is a path of this host."""
    root = Path(str(info.get("DockerRootDir") or ""))
    try:
        usage = shutil.disk_usage(root if root.is_dir() else Path("/"))
    except OSError as error:
        return Check("disk", "unknown", f"cannot read the free space: {error.strerror}")
    detail = f"{usage.free / 1024**3:.1f} GB free of {usage.total / 1024**3:.0f} GB"
    few, stops = (
        f"{detail}: too little for images and a stack",
        f"{detail}: the load stops below 5 GB or 10 %",
    )
    remedy = "free some space: `docker system df` shows what Docker uses"
    return _first(
        "disk",
        (usage.free < DISK_NEEDED_BYTES, "missing", few, remedy),
        (usage.free < max(DISK_WANTED_BYTES, usage.total // 10), "warning", stops, remedy),
        (True, "ok", detail, None),
    )


def _link(link: LinkState | None, info: Mapping[str, Any]) -> Check:
    """What shapes packets; only a sidecar can tell, because it tries."""
    if link is None:
        return Check("link", "unknown", "kernel netem or NFQUEUE: unknown until a stack runs and tries them")
    remedy = _netem_remedy(info) if NO_NETEM in link.backend_reason else None
    if link.backend is None:
        return Check("link", "warning", f"packets cannot be shaped here: {link.backend_reason}", remedy)
    return Check("link", "ok", f"{link.backend}: {link.backend_reason}", remedy)


def _netem_remedy(info: Mapping[str, Any]) -> str:
    """How a host of this kind gets kernel netem, from `docker info`
    (docs/contributing/instrument.md, "Looking at servers")."""
    system = str(info.get("OperatingSystem", ""))
    if "Docker Desktop" in system and "microsoft" not in str(info.get("KernelVersion", "")).lower():
        return "Docker Desktop's kernel has no netem and takes no extra modules"
    packages = {"Ubuntu": "linux-modules-extra-$(uname -r)", "Fedora": "kernel-modules-extra"}
    package = next((f"; it is in {each}" for name, each in packages.items() if name in system), "")
    return f"for kernel netem: `sudo modprobe sch_netem`, where the kernel has the module{package}"


def _terminal() -> Check:
    columns, rows = shutil.get_terminal_size()
    name = os.environ.get("TERM", "")
    detail = f"{columns}x{rows}, TERM={name or 'not set'}"
    is_piped = not sys.stderr.isatty() and not sys.stdout.isatty()
    return _first(
        "terminal",
        (is_piped, "unknown", "no terminal here: `replexplorer lab run tour` needs none", None),
        (name in ("", "dumb"), "warning", detail, "the dashboard needs a terminal with cursor control"),
        (columns < 80 or rows < 24, "warning", detail, "the dashboard needs 80x24: make the window larger"),
        (True, "ok", detail, None),
    )


def _glyphs() -> Check:
    """Whether the charts can be drawn with braille: the encoding decides, the font cannot be asked."""
    encoding = (sys.stdout.encoding or locale.getpreferredencoding(do_setlocale=False)).lower()
    ascii_only = "use a UTF-8 locale such as LC_ALL=C.UTF-8; until then charts are ASCII"
    blocks, seen = 'glyphs = "block" in config.toml', "UTF-8; do these look like dots? ⠁⠃⠇⡇⣇⣧⣷⣿ if not, set"
    is_console = os.environ.get("TERM") == "linux"
    return _first(
        "glyphs",
        ("utf" not in encoding, "warning", f"encoding {encoding}", ascii_only),
        (is_console, "warning", "UTF-8, but the console's font has no braille", blocks),
        (True, "ok", f"{seen} {blocks}", None),
    )


def _state_path(path: Path) -> Check:
    """Whether passwords and sessions can be kept: the one directory that is written to."""
    nearest = next(parent for parent in (path, *path.parents) if parent.exists())
    if os.access(nearest, os.W_OK):
        return Check("state path", "ok", str(path))
    return Check(
        "state path", "missing", f"cannot write to {path}", "make it writable, or set XDG_STATE_HOME"
    )
