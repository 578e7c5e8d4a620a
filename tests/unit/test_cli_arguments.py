"""The command line: global flags on both sides, suggestions, exit codes, --help."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from argcomplete.completers import SuppressCompleter
from argcomplete.finders import CompletionFinder

from replexplorer import __version__
from replexplorer.cli.arguments import COMMANDS, GROUPS, VERBS, completing_parser, function, parse
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import BY_KEY
from replexplorer.core.load.pacing import MOST_PROCESSES
from replexplorer.core.system import SYSTEMS
from replexplorer.core.topology import MOST_REPLICAS
from tests.known import refused
from tests.typed import table_of
from tests.unit.conftest import Run

LISTED = {name: how for name, how in COMMANDS.items() if how.get("listed", True)}
FIRSTS = "up down status set load lab drill attach"
NOUNS = "lab fault workload classroom drill role session preset scene"


def test_help_explains_what_comes_first_and_names_the_rest(run: Run) -> None:
    code, text, _ = run("--help")
    assert code == 0
    firsts = [name for name, how in COMMANDS.items() if "first" in how]
    assert firsts == FIRSTS.split() == re.findall(r"^    (\w+) +[A-Z].*\.$", text, re.M)
    for group, verbs in GROUPS.items():
        [line] = re.findall(rf"^  {group}  +(.*)", text, re.M)
        assert {*verbs} <= {*re.split(r"[ |\[\]]+", line)}
    assert "exit codes:" in text
    assert len(text.splitlines()) <= 45
    assert max(map(len, text.splitlines())) <= 100


def test_help_all_explains_every_command_in_its_group(run: Run) -> None:
    code, text, _ = run("help")
    assert code == 0
    assert run("help all").out == text
    assert sorted(VERBS) == sorted(name for name in LISTED if " " not in name)
    wanted = [(name, how["does"]) for name, how in LISTED.items() if "run" in how]
    assert sorted(re.findall(r"^  ([a-z ]+?) {2,}(.*)$", text, re.M)) == sorted(wanted)


def test_help_of_a_command_is_its_help_and_so_is_a_noun_alone(run: Run) -> None:
    for words in (*VERBS, "lab run", "attach revert", "failover", "classroom each"):
        printed = run(f"{words} --help")
        assert printed.code == 0
        assert run(f"help {words}") == printed
        assert words not in NOUNS.split() or run(words) == printed


def test_a_command_has_a_sentence_and_two_examples_that_can_be_typed() -> None:
    for name, how in LISTED.items():
        if "run" in how and name != "config":  # bare, it is `config show`
            assert re.fullmatch(r"[A-Z][a-z]+ .*\.", how["does"])
            assert len(how["examples"]) == 2
            for typed, _ in how["examples"]:
                assert parse(shlex.split(typed.partition(" > ")[0])).command == name


SPELLINGS = """scene list                         preset list
scene save x rtt                   preset save x rtt
scene apply none --anyway          preset apply none --force
failover --to db2 --anyway         role failover --to db2 --force
switchover                         role switchover
rejoin db1 --copy                  role rejoin db1 --copy
check-schema a --node db2          check a --node db2
replay tour --speed 2              session replay tour --speed 2
export tour --format csv           session export tour --format csv
revert mysql://a@b                 attach revert mysql://a@b
themes                             config themes
keys                               config keys
schema lab run                     config schema lab run
classroom do set rtt=1             classroom each set rtt=1
load --beside                      load --share-load
lab run tour --repeats 2 --beside  lab run tour --repeat 2 --share-load
drill run matrix --fresh           drill run matrix --restart
sweep rtt=0,1 --fresh              sweep rtt=0,1 --restart
set rtt=1 --anyway                 set rtt=1 --force
serve --host ::1 --port 9          serve --listen [::1]:9
serve --host a.b                   serve --listen a.b
serve --port 0                     serve --listen :0
serve --host ::1                   serve --listen ::1
classroom serve --port 9000        classroom serve --listen :9000
--json status                      status --json
--stack a --config f -v status     status --stack a --config f -v
--stack a status -v --config f     status --stack a --config f -v
--stack b status --stack a         status --stack a
--stack a scene apply none -v      preset apply none --stack a -v
--json lab --stack a list          lab list --json --stack a
-v --json attach revert            attach revert -v --json
"""


def test_an_old_spelling_means_what_the_new_one_does() -> None:
    for line in SPELLINGS.splitlines():
        old, new = (vars(parse(each.split())) for each in re.split(r" {2,}", line))
        for typed in (old, new):
            typed["host"] = str(typed.get("host")).strip("[]")
            for word in ("verb", "action", "listen"):
                typed.pop(word, None)
        assert old == new, line


def test_a_host_called_revert_is_an_address() -> None:
    for words in ("attach mysql://revert", "attach --for 1 revert"):
        assert parse(words.split()).url == words.split()[-1]


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"replexplorer {__version__}\n", "")


AMOUNTS = """\
--duration 10    = 10
--duration 1.5   = 1.5
--duration 10s   = 10
--duration 500ms = 0.5
--duration 2min  = 120
--duration 1e1   = 10
--table-size 1m  = 1000000
--clients 1k     = 1000
--rate 1.5k      = 1500
"""


def test_durations_have_units_and_counts_thousands_and_millions() -> None:
    for flag, written, _, amount in table_of(AMOUNTS, None):
        assert getattr(parse(["load", flag, written]), flag[2:].replace("-", "_")) == float(amount), flag


def test_every_command_has_a_function() -> None:
    assert all(callable(function(how["run"])) for how in COMMANDS.values() if "run" in how)


LIMITS: list[tuple[str, object, object]] = [
    ("load --clients", BY_KEY[keys.CLIENTS].maximum, 1025),
    ("load --rate", BY_KEY[keys.RATE].maximum, 100_001),
    ("load --processes", MOST_PROCESSES, MOST_PROCESSES + 1),
    ("up --replicas", MOST_REPLICAS, MOST_REPLICAS + 1),
    ("up --memory", 512, 511),
    ("up --cpus", 1024, 1025),
    *(("up --system", each, "x") for each in SYSTEMS),
    *(("up --flavor", each, "x") for system in SYSTEMS.values() for each in system.flavors),
]


def test_the_declared_limits_are_those_of_the_program() -> None:
    for words, most, beyond in LIMITS:
        parse(f"{words} {most}".split())
        refused(parse, f"{words} {beyond}".split())


# -- completion in the shell: which words fit, and that bash is given them


ASK = """
eval "$(replexplorer completion bash)"
for COMP_LINE in "$@"; do
    COMP_POINT=${#COMP_LINE} COMP_TYPE=9
    _python_argcomplete replexplorer
    echo "${COMPREPLY[*]}"
done
"""


@pytest.mark.costly("each Tab starts the program")
def test_bash_is_given_them() -> None:
    """What it may choose from after each of these lines."""
    lines = {"replexplorer set semi_sync=o": "off on", "replexplorer 'unended": ""}
    here = Path(sys.executable).parent
    told = subprocess.check_output(
        ["bash", "-c", ASK, "bash", *lines],
        env=os.environ | {"PATH": f"{here}:{os.environ['PATH']}"},
        text=True,
        timeout=60,
    )
    assert told.splitlines() == [*lines.values()]


COMPLETED = """\
swi                      :
role swi                 : switchover
attach re                :
set semi_sync=o          : semi_sync=off semi_sync=on
set wait_point=after_c   : wait_point=after_commit
set rtt@db2=             :
set nonsense=            :
set rt                   : rtt=
lab run wan-             : wan-insert wan-threads
fault inject part        : partition
preset apply net         : network
"""


def test_verbs_knobs_values_and_names_are_given() -> None:
    for line in COMPLETED.splitlines():
        typed, words = line.split(" :")
        *before, prefix = typed.split()
        finder = CompletionFinder(completing_parser(), default_completer=SuppressCompleter())
        given = finder._get_completions(["replexplorer", *before], prefix, "", None)  # type: ignore[no-untyped-call]
        assert [each.strip() for each in given] == words.split(), line
