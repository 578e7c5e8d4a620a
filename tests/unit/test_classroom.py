"""A class: who sits where, what fits, what is kept, and what `classroom` refuses before anything runs."""

from __future__ import annotations

import asyncio
import json
import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replexplorer.cli import main
from replexplorer.cli.entry import Call
from replexplorer.cli.output import Output
from replexplorer.cli.students import Ended, for_each, outcome
from replexplorer.core.classroom import (
    RESERVED_BYTES,
    ClassRoll,
    Room,
    fitting,
    names_in,
    numbered,
    placed,
    shortage,
    stack_bytes,
    worst,
)
from replexplorer.core.errors import MissingPiece, UsageError
from replexplorer.core.limits import ServerLimits, server_aio
from replexplorer.formats import paths
from replexplorer.formats.class_file import forget_class, password_file, read_class, write_class
from replexplorer.formats.stack_file import limits_in, limits_labels, read_stack_file

GIB = 1 << 30
TWO = ClassRoll("class", {"anna": "", "ben": "east"}, 2, ServerLimits(0.5, 768 << 20))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def test_students_are_spread_and_who_has_a_place_keeps_it() -> None:
    assert placed(numbered(5), ["east", "west"], {}) == {
        "student1": "east",
        "student2": "west",
        "student3": "east",
        "student4": "west",
        "student5": "east",
    }
    assert placed(["b", "c"], ["east", "west"], {"a": "east"}) == {"a": "east", "b": "west", "c": "east"}
    assert placed(["a"], [], {}) == {"a": ""}


def test_names_are_read_a_line_each() -> None:
    assert names_in("anna\n\n# those of the back row\nteam-2  # two of them\n", "names") == ["anna", "team-2"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("anna\nBen\n", r"names line 2: 'Ben' is no name"),
        ("anna\n../x\n", r"names line 2: '../x' is no name"),
        ("anna\nanna\n", "names line 2: anna stands there twice"),
        ("# nobody\n", "names 0 students"),
    ],
)
def test_a_wrong_name_is_refused_by_its_line(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        names_in(text, "names")


def test_what_fits_leaves_the_machine_its_own_part() -> None:
    memory, disk = stack_bytes(1)
    assert fitting(Room(RESERVED_BYTES + 3 * memory, None), 1) == 3
    assert fitting(Room(RESERVED_BYTES + 3 * memory - 1, None), 1) == 2
    assert fitting(Room(RESERVED_BYTES + 3 * memory, RESERVED_BYTES + disk), 1) == 1
    assert fitting(Room(0, 0), 1) == 0
    assert stack_bytes(3) == (2 * memory, 2 * disk)


def test_a_kernel_that_has_no_asynchronous_io_left_is_named() -> None:
    room = Room(100 * GIB, None, 7 * server_aio("mysql"))
    assert fitting(room, 1) == 3
    said = shortage(room, 4, 1, "this machine")
    assert said is not None
    assert "sysctl fs.aio-max-nr" in said
    assert shortage(room, 3, 1, "this machine") is None
    assert fitting(room, 1, "mariadb") == fitting(replace(room, aio=None), 1), "MariaDB needs none"
    assert shortage(room, 4, 1, "this machine", "mariadb") is None


def test_a_shortage_is_said_with_figures() -> None:
    assert shortage(Room(100 * GIB, 100 * GIB), 20, 1, "this machine") is None
    said = shortage(Room(8 * GIB, 9 * GIB), 20, 1, "this machine")
    assert said is not None
    assert "20 more stacks need" in said
    assert "this machine has 8.0 GiB and 9.0 GiB of disk left" in said


def test_a_stack_is_asked_for_with_limits_and_all_nodes_on_the_student_s_host() -> None:
    limits = ["--replicas", "2", "--cpus", "0.5", "--memory", "768"]
    assert TWO.words("anna") == limits
    assert TWO.words("ben") == [*limits, "--on", "db1=east", "--on", "db2=east", "--on", "db3=east"]
    assert replace(TWO, flavor="mariadb").words("anna") == [*limits[:2], "--flavor", "mariadb", *limits[2:]]


@pytest.mark.parametrize(
    ("codes", "code"), [([], 0), ([0, 0], 0), ([0, 4, 2], 4), ([0, 130, 5], 130), ([0, -9], 130)]
)
def test_the_exit_code_says_the_worst(codes: list[int], code: int) -> None:
    assert worst(codes) == code


@pytest.mark.parametrize("roll", [replace(TWO, flavor="mariadb"), replace(TWO, limits=ServerLimits())])
def test_what_is_kept_of_a_class_is_read_as_it_was(roll: ClassRoll) -> None:
    write_class(roll)
    assert read_class("class") == roll


def test_a_class_of_before_there_were_flavors_has_the_usual_server() -> None:
    keep_class({key: value for key, value in KEPT.items() if key != "flavor"})
    roll = read_class("class")
    assert roll is not None
    assert roll.flavor is None


def test_a_class_is_kept_where_only_its_trainer_reads_it() -> None:
    assert read_class("class") is None
    write_class(TWO)
    assert read_class("class") == TWO
    file = paths.class_directory("class") / "class.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    password_file("class", "anna").write_text("x")
    forget_class("class")
    assert not file.parent.exists()


def test_what_is_kept_of_a_class_and_cannot_be_removed_is_named() -> None:
    directory = paths.class_directory("class")
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.write_text("no directory")
    with pytest.raises(MissingPiece, match=r"cannot remove .*class"):
        forget_class("class")


KEPT: dict[str, Any] = {
    "hosts": {"anna": ""},
    "replicas": 1,
    "flavor": "mysql",
    "cpus": 1.0,
    "memory_bytes": GIB,
    "settled": [],
}
"""The file of a class."""


def keep_class(content: object) -> None:
    file = paths.class_directory("class") / "class.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("cpus", "many", "cpus should be a valid number, not 'many'"),
        ("cpus", 0, "cpus should be greater than 0, not 0"),
        ("memory_bytes", 1.5, "memory_bytes should be a valid integer"),
        ("memory_bytes", 1024, "memory_bytes should be greater than or equal to 536870912, not 1024"),
        ("replicas", True, "replicas should be a valid integer, not True"),
        ("flavor", "postgres", "flavor must be 'mysql' or 'mariadb', not 'postgres'"),
        ("hosts", {"anna": 7}, "hosts.anna must be text, not 7"),
        ("hosts", {}, "hosts "),
        ("settled", None, "settled "),
        ("student", 1, "student no such key"),
    ],
)
def test_a_wrong_value_in_the_file_of_a_class_is_one_line_that_names_it(
    key: str, value: object, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_class(KEPT | {key: value})
    assert main(["classroom", "up"]) == 3
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"class.json ({says}" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"hosts": {"../x": ""}}'])
def test_a_broken_file_of_a_class_is_named(text: str) -> None:
    file = paths.class_directory("class") / "class.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(MissingPiece, match=r"class\.json"):
        read_class("class")


@pytest.mark.parametrize(
    "limits", [ServerLimits(), ServerLimits(0.5), ServerLimits(None, GIB), ServerLimits(2, GIB)]
)
def test_limits_are_the_servers_and_stand_in_the_network_s_labels(limits: ServerLimits) -> None:
    made = read_stack_file(paths.shipped("compose") / "stack.yaml").limited(limits)
    assert limits_in(made.network_labels()) == limits == limits_in(limits_labels(limits))
    for node in ("db1", "db2", "db3"):
        server, sidecar = made.service(node, "mysqld"), made.service(node, "sidecar")
        assert (server.cpus, server.mem_limit) == (limits.cpus, limits.memory_bytes)
        assert (sidecar.cpus, sidecar.mem_limit) == (None, None)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["up"], 2, "--students N or --names FILE"),
        (["up", "--students", "0"], 2, "0 is below 1"),
        (["up", "--students", "2", "--memory", "100"], 2, "100 is below"),
        (["up", "--students", "2", "--flavor", "postgres"], 2, "'postgres': known: mysql, mariadb"),
        (["up", "--students", "2", "--class", "A b"], 2, "--class A b"),
        (["up", "--students", "2", "--stack", "x"], 2, "--class NAME"),
        (["status"], 4, "no class 'class'"),
        (["do", "set", "rtt=85ms"], 4, "no class 'class'"),
        (["do"], 2, "which verb?"),
        (["do", "down"], 2, "for a class there are set,"),
        (["do", "set", "rt=85ms"], 2, "rt"),
        (["do", "set", "rtt=85ms", "--stack", "x"], 2, "leave it out"),
        (["serve"], 4, "no class 'class'"),
    ],
)
def test_what_is_wrong_is_one_line_before_anything_runs(
    words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classroom", *words]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert says in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--students", "1"], "has ben as well"),
        (["--students", "1", "--memory", "1024"], "has ben as well"),
        (["--replicas", "1"], "has 2 replicas"),
        (["--cpus", "1"], "0.5 cores, 768 MiB"),
        (["--flavor", "mysql"], "was made with mariadb, not mysql"),
    ],
)
def test_a_class_that_is_there_only_grows(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_class(ClassRoll("class", {"student1": "", "ben": ""}, 2, TWO.limits, "mariadb"))
    assert main(["classroom", "up", *words]) == 2
    assert says in capsys.readouterr().err


def test_down_of_no_class_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["classroom", "down", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["students"] == []


def call_of(config: str | None = None) -> Call:
    return Call(cast(Any, SimpleNamespace(config=config)), Output())


async def test_each_student_has_a_process_few_at_once_and_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    running = most = 0

    async def run(call: Call, stack: str, words: Any) -> Ended:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        broken = stack == "class-student2"
        return Ended(4, 0.1, "", "replexplorer: db1 is down\n") if broken else Ended(0, 0.1, '{"a": 1}', "")

    monkeypatch.setattr("replexplorer.cli.students.run_verb", run)
    roll = ClassRoll("class", dict.fromkeys(numbered(6), ""))
    heard: list[str] = []
    ends = await for_each(
        call_of(), roll, numbered(6), lambda _: ["reset"], at_once=2, after=lambda name, _: heard.append(name)
    )
    assert most == 2
    assert [name for name, _ in ends] == numbered(6)
    assert sorted(heard) == numbered(6)
    document = outcome(roll, ["reset"], ends, worst(ended.exit_code for _, ended in ends))
    assert document.exit_code == 4
    assert [each.exit_code for each in document.students] == [0, 4, 0, 0, 0, 0]
    assert document.students[0].answer == {"a": 1}
    assert document.students[1].said == ["replexplorer: db1 is down"]


async def test_what_fails_beside_a_verb_is_raised_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(call: Call, stack: str, words: Any) -> Ended:
        return Ended(0, 0.1, "", "")

    def after(student: str, ended: Ended) -> None:
        raise MissingPiece("cannot write class.json", "No space left on device")

    monkeypatch.setattr("replexplorer.cli.students.run_verb", run)
    roll = ClassRoll("class", dict.fromkeys(numbered(3), ""))
    with pytest.raises(MissingPiece, match=r"class\.json"):
        await for_each(call_of(), roll, numbered(3), lambda _: ["up"], at_once=2, after=after)
