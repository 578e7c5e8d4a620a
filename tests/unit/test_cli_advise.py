"""The verb advise without a stack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.conftest import Run


@pytest.fixture(autouse=True)
def no_stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No stack was made here, and nothing was calibrated."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def answer(run: Run, goal: str, *words: str, code: int = 0) -> Any:
    printed = run("predict", "--goal", goal, *words, "--json")
    assert printed.code == code
    return json.loads(printed.out)


def test_the_answer_is_commands_that_can_be_typed(run: Run) -> None:
    document = answer(run, "rpo = 0, power_cut = 0", "rtt=10ms", "clients=8")
    first = document["found"][0]
    assert first["verdict"] == "meets"
    assert first["set"].startswith("replexplorer set semi_sync=on sync_binlog=1 ")
    assert [goal["text"] for goal in document["goals"]] == [
        "rpo (source lost) = 0 commits",
        "power_cut = 0 commits",
    ]
    assert document["conditions"]["rtt@db2"] == 10.0
    assert document["closest"] is None
    assert run("set", *first["set"].split()[2:], "--dry-run").code != 2


def test_advice_that_rests_on_what_was_never_calibrated_says_so(run: Run) -> None:
    words = ("semi_sync=on", "rtt=10ms", "clients=8")
    for wait_point, is_told in (("after_sync", False), ("after_commit", True)):
        document = answer(run, "rpo = 0", *words, f"wait_point={wait_point}")
        assert {each["settings"]["wait_point"] for each in document["found"]} == {wait_point}
        assert any("after_commit was not calibrated" in each for each in document["warnings"]) == is_told
    # Semi-sync is off as things stand: what is advised has it on.
    document = answer(run, "rpo = 0", "rtt=10ms", "wait_point=after_commit")
    assert any("after_commit was not calibrated" in each for each in document["warnings"])


def test_no_choice_that_meets_the_goals_is_exit_1_with_the_closest(
    run: Run,
) -> None:
    document = answer(run, "mean < 5ms, rpo = 0", "rtt=85ms", code=1)
    assert document["found"] == []
    assert document["closest"]["verdict"] == "misses"
    printed = run("advise", "--goal", "mean < 5ms, rpo = 0", "rtt=85ms")
    assert printed.code == 1
    assert "none of 18 choices of settings meets that; the closest:" in printed.out


def test_all_choices_have_one_origin_and_what_is_not_known_may_be_met(
    run: Run,
) -> None:
    document = answer(run, "p99 < 500ms, rpo = 0, lag < 1s", "rtt=10", "clients=8", "workload=insert")
    origins = {figure["origin"] for each in document["found"] for figure in each["figures"].values()}
    assert origins == {"model"}
    lags = [goal for each in document["found"] for goal in each["goals"] if goal["goal"].startswith("lag")]
    assert {(goal["verdict"], goal["figure"]) for goal in lags} == {("may meet", None)}


def test_the_old_name_says_the_same_and_is_not_listed(run: Run) -> None:
    shown, again = (run(verb, "--goal", "rpo = 0", "rtt=10", "clients=8") for verb in ("predict", "advise"))
    assert shown == again
    assert shown.code == 0
    assert "least given up first:" in shown.out
    assert shown.out.count("predicted by the model") == shown.out.count("replexplorer set ") == 5
    assert " more, in --json" in shown.out
    assert "advise" not in run("--help").out
