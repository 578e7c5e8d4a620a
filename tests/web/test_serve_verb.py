"""What `serve` and `--view` refuse before anything is begun: one line, exit code 2."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from replexplorer.cli import main

LOOSE = "secret of the file"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serve", "--host", "0.0.0.0"], "--host 0.0.0.0 lets other machines in: add --password-file FILE"),
        (["serve", "--host", "::"], "--host :: lets other machines in"),
        (["serve", "--host", "db.example"], "--host db.example lets other machines in"),
        (["serve", "--port", "65536"], "at least 0 and at most 65535"),
        (["serve", "--port", "web"], "'web' is not a whole number"),
        (["serve", "--password-file", "{tmp}/none"], "no such password file: {tmp}/none"),
        (["serve", "--password-file", "{tmp}/loose"], "{tmp}/loose: others may open it (mode 0644): chmod"),
        (["serve", "--host", "0.0.0.0", "--password-file", "{tmp}/loose"], "others may open it (mode 0644)"),
        (["--view", "status"], "--view is the dashboard's: status has no such flag"),
        (["--view"], "the dashboard needs a terminal"),
    ],
)  # fmt: skip
def test_it_is_one_line_and_exit_code_2(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loose = tmp_path / "loose"
    loose.write_text(LOOSE)
    os.chmod(loose, 0o644)
    code = main([word.format(tmp=tmp_path) for word in words])
    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    [line] = printed.err.splitlines()
    assert line.startswith("replexplorer: ")
    assert said.format(tmp=tmp_path) in line
    assert LOOSE not in line
