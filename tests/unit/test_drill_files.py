"""Drills as TOML: what a file says, the line of what is wrong with it, and their page."""

from __future__ import annotations

import os
import re
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from replexplorer.cli.arguments import parse
from replexplorer.cli.experiment import DRILLS
from replexplorer.cli.experiment_run import drill_asked
from replexplorer.core.experiment.drill import Doing
from replexplorer.formats.experiment_file import StepTable, checked, read_drill, rows_of
from tests.known import known, refused
from tests.unit.conftest import told_of_mistakes

MINE = """\
title = "Our source freezes"
teaches = "What a freeze costs us."
clients = 4
replicas = 2

[set]
semi_sync = "on"
rtt = "20ms"

[[precheck]]
state = "protected"
within = 30

[[step]]
wait = 9
shows = "all is well"

[[step]]
inject = "pause"
for = 12
quick = 3

[[step]]
set = { "rtt@db3" = "5ms" }

[[step]]
until = "writing"
within = 20

[[expect]]
name = "nothing is lost"
left = "lost"
is = "<="
right = "clients"
times = 2
plus = 1

[[expect]]
name = "the freeze is seen"
passes = "down"

[[rollback]]
set = { rtt = "0ms" }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    return file


def test_a_file_is_a_drill(file: Path, snapshot: object) -> None:
    drill = DRILLS.named(str(file))
    assert asdict(drill) == snapshot
    assert drill.turns == ("semi_sync", "rtt", "rtt@db3")
    assert drill.faults == ("pause",)


MISTAKES = """\
title = "Our source freezes"        -> titel = "x"
clients = 4                         -> clients = 0
rtt = "20ms"                        -> rtt = "20parsec"
state = "protected"                 -> state = "protectd"
wait = 9                            -> wait = -9
wait = 9                            -> wait = 9; inject = "kill"
wait = 9                            ->
inject = "pause"                    -> inject = "pasue"
for = 12                            -> within = 12
until = "writing"                   -> until = "writting"
until = "writing"; within = 20      -> clear = "kill"
until = "writing"; within = 20      -> clear = false
left = "lost"                       -> left = "losst"
is = "<="                           -> is = "=<"
left = "lost"                       -> passes = "off"; left = "lost"
left = "lost"                       ->
set = { rtt = "0ms" }               -> set = { rtt = "-1ms" }
"""
"""What is there, and what instead."""


def test_a_mistake_names_file_line_and_key(file: Path, snapshot: object) -> None:
    assert told_of_mistakes(MISTAKES, file, read_drill) == snapshot


def test_settings_that_are_typed_take_the_place_of_its_own() -> None:
    args = parse(["drill", "run", "kill-primary", "--set", "sync_binlog=0", "rtt=5ms", "--set", "clients=1"])
    settings = dict(text.split("=") for text in drill_asked(args).settings)
    assert settings["sync_binlog"] == "0"
    assert settings["rtt"] == "5ms"
    assert settings["semi_sync"] == "off"


def test_a_drill_that_ships_expects_something_and_says_what_it_sets() -> None:
    for name, drill in DRILLS.shipped().items():
        assert drill.teaches
        assert drill.expects
        assert drill.seconds(quick=True) < drill.seconds(quick=False), name
        assert not [step.shows for step in drill.narrated.steps if "{" in step.shows], "a name for its value"
        # Each flavor comes with a wait point of its own, under which other sessions see other rows.
        settings = {text.partition("=")[0] for text in drill.settings if text != "semi_sync=off"}
        assert ("semi_sync" in settings) == ("wait_point" in settings), name


def test_the_narration_says_what_is_so_under_the_settings_and_which_are_the_drill_s_own(
    snapshot: object,
) -> None:
    asked_for = DRILLS.named("power-cut").with_settings(["sync_binlog=1000"])
    lost = DRILLS.named("source-lost").with_settings(["semi_sync=on"])
    told = [each.narrated.steps[0].shows for each in (DRILLS.named("power-cut"), asked_for, lost)]
    assert (told, asked_for.sets) == snapshot


# -- docs/reference/drills.md: each step is on it, and its example is a drill


PAGE = (Path(__file__).parents[2] / "docs/reference/drills.md").read_text(encoding="utf-8")


def test_every_step_is_on_the_page_and_its_example_is_a_drill(tmp_path: Path) -> None:
    steps = [doing for doing in Doing if doing in StepTable.model_fields]
    assert [doing for doing in steps if f"`{doing} = " not in PAGE] == []
    (tmp_path / "mine.toml").write_text(known(re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL))[1])
    assert read_drill(tmp_path / "mine.toml").expects


# -- the dump that the bulk-load lab inserts


DUMP = """\
-- a dump
CREATE TABLE employees (emp_no INT NOT NULL);
INSERT INTO `departments` VALUES ('d001','(1,''x'',''y'',''z'',''M'',''2000-01-01'')');
INSERT INTO `employees` VALUES (10001,'1953-09-02','Georgi','Facello','M','1986-06-26'),
(10002,'1964-06-02','Bezalel','O\\'Simmel','F','1985-11-21'),
(10003, '1959-12-03', 'Parto', 'Bam''ford', 'M', '1986-08-28');
INSERT INTO titles VALUES (1,'a','b','c','M','d');
INSERT INTO employees VALUES (10004,'1954-05-01','Chirstian','Koblick','M','1986-12-01');
"""


def test_rows_come_in_order_with_their_escapes_and_no_other_table_s(tmp_path: Path, snapshot: object) -> None:
    """What is no dump is an error that names what it is, soon."""
    file, began_s = tmp_path / "employees.sql", time.process_time()
    assert "no dump" in refused(checked, file)
    for content, told in (
        (b"SELECT 1;", "has no row of employees"),
        (b"INSERT INTO employees VALUES " + b"(1,'" * 500_000, "has no row of employees"),
        (b"\xff\xff", "is not a text file"),
    ):
        file.write_bytes(content)
        assert told in refused(checked, file)
    assert time.process_time() - began_s < 2
    file.write_text(DUMP)
    assert list(rows_of(checked(file))) == snapshot
    file.unlink()
    os.mkfifo(file)
    assert "is a pipe" in refused(checked, file)
