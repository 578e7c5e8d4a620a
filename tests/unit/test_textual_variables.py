"""The terminal library's own variables: one that points nowhere is named with its remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from replexplorer.cli.textual_variables import check_textual_variables
from replexplorer.core.errors import UsageError


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("TEXTUAL_LOG", "/nowhere/x", "its directory does not exist"),
        ("TEXTUAL_LOG", "/", "is a directory"),
        ("TEXTUAL_SCREENSHOT_LOCATION", "/nowhere/x", "does not exist"),
        ("TEXTUAL_SCREENSHOT_LOCATION", "/dev/null", "is no directory"),
        ("TEXTUAL_DRIVER", "/nowhere/x", "names no driver"),
        ("TEXTUAL_DRIVER", "nowhere:Nothing", "names no driver"),
        ("TEXTUAL_DRIVER", "os:Nothing", "names no driver"),
        ("TEXTUAL_DRIVER", "", "names no driver"),
        ("TEXTUAL_COLOR_SYSTEM", "nowhere", "must be one of auto, standard, 256, truecolor, windows"),
    ],
)
def test_a_variable_that_points_nowhere_is_named(variable: str, value: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_textual_variables({variable: value})
    assert caught.value.exit_code == 2
    assert caught.value.message == f"{variable}={value}"
    assert caught.value.hint.startswith(problem)
    assert caught.value.hint.endswith(f"correct it, or unset {variable}")


def test_what_works_is_left_alone(tmp_path: Path) -> None:
    check_textual_variables({})
    check_textual_variables(
        {
            "TEXTUAL_LOG": str(tmp_path / "log"),
            "TEXTUAL_SCREENSHOT_LOCATION": str(tmp_path),
            "TEXTUAL_DRIVER": "textual.drivers.linux_driver:LinuxDriver",
            "TEXTUAL_COLOR_SYSTEM": "256",
        }
    )
