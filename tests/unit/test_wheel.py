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
    pip = f"-m pip --python {home}/bin/python install --quiet --no-deps --no-index {wheel}"
    for words in (f"-m venv --without-pip {home}", pip):
        subprocess.run([sys.executable, *words.split()], check=True, capture_output=True, timeout=120)
    (packages,) = home.glob("lib/python*/site-packages")
    # A path line is not searched for further .pth files: the checkout's editable install stays out.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def test_the_wheel_carries_compose_and_themes_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    files = [file for folder in ("compose", "themes") for file in (CHECKOUT / folder).rglob("*")]
    paths = [file.relative_to(CHECKOUT) for file in files if file.is_file()]
    shipped = {
        f"replexplorer/_shipped/{path}"
        for path in paths
        if not any(part.startswith((".", "__")) for part in path.parts)
    }
    assert shipped
    assert shipped - names == set()
    assert not [name for name in names if name.startswith("tests/")]


INSTALLED = """
import replexplorer, replexplorer.formats.paths as paths, replexplorer.formats.scenes as scenes
print(replexplorer.__file__)
print(paths.shipped("compose") / "mysql")
print(paths.shipped("themes") / "dark.toml")
print(scenes.SHIPPED_DIRECTORY / "both.toml")
print(paths.SHIPPED_TOUR)
"""


def test_the_installed_program_runs_and_finds_what_ships(scripts: Path) -> None:
    """Started far from the checkout."""

    def run(program: str, *words: str) -> str:
        return subprocess.run(
            [str(scripts / program), *words], cwd="/", capture_output=True, text=True, check=True, timeout=60
        ).stdout

    assert run("replexplorer", "--version") == f"replexplorer {__version__}\n"
    assert run("replexplorer", "predict", "rtt=10ms")
    lines = run("python", "-c", INSTALLED).split()
    assert len(lines) == 5
    for line in lines:
        assert line.startswith(str(scripts.parent))
        assert Path(line).exists()
