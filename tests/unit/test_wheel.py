"""The wheel carries what it needs and works where no checkout is."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from replexplorer import __version__

CHECKOUT = Path(__file__).parents[2]
pytestmark = pytest.mark.in_full


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the checkout, without the network."""
    directory = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script directory of an environment with the wheel, and our dependencies beside it."""
    home = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True, timeout=120)
    python = home / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run(
        [*install, "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)],
        check=True,
        capture_output=True,
        timeout=120,
    )
    (packages,) = home.glob("lib/python*/site-packages")
    # A path line is not searched for further .pth files: the checkout's editable install stays out.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def run(scripts: Path, *words: str) -> str:
    """What a program of the environment prints, started far from the checkout."""
    done = subprocess.run(
        [str(scripts / words[0]), *words[1:]], cwd="/", capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_the_wheel_carries_compose_themes_and_scenes(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    beside = (
        "formats/shipped_scenes/network.toml",
        "formats/shipped_calibration.json",
        "recordings/tour.rxs",
    )
    assert {f"replexplorer/{name}" for name in beside} <= names
    shipped = [
        path for folder in ("compose", "themes") for path in (CHECKOUT / folder).rglob("*") if path.is_file()
    ]
    missing = [
        str(path)
        for path in shipped
        if not any(part.startswith((".", "__")) for part in path.relative_to(CHECKOUT).parts)
        and f"replexplorer/_shipped/{path.relative_to(CHECKOUT)}" not in names
    ]
    assert shipped
    assert missing == []
    assert not [name for name in names if name.startswith("tests/")]


def test_the_installed_program_runs(scripts: Path) -> None:
    assert run(scripts, "replexplorer", "--version") == f"replexplorer {__version__}\n"


def test_the_installed_program_finds_what_ships(scripts: Path) -> None:
    program = (
        "import replexplorer, replexplorer.formats.paths as paths, replexplorer.formats.scenes as scenes\n"
        "print(replexplorer.__file__)\n"
        "print(paths.shipped('compose') / 'mysql')\n"
        "print(paths.shipped('themes') / 'dark.toml')\n"
        "print(scenes.SHIPPED_DIRECTORY / 'both.toml')\n"
    )
    home = str(scripts.parent)
    lines = run(scripts, "python", "-c", program).split()
    assert len(lines) == 4
    for line in lines:
        assert line.startswith(home)
        assert Path(line).exists()
