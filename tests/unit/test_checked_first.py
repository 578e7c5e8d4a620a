"""What is wrong on any stack is refused in one line before one is looked for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from replexplorer.adapters.docker.hosts import stacks
from replexplorer.core.errors import UsageError
from replexplorer.formats.paths import SHIPPED_TOUR
from tests.unit.conftest import Run

MISTAKES = """\
statsu
frobnicate
scene aply x
set
set rt=5
set workload=~nobody-of-that-name/mine.sql
predict rt=5
predict clients=0
predict rtt=10,,85
predict replica_preserve_commit_order=off
predict binlog_row_image=minimal
load --dur 5
load --duration 0
load --duration nan
load --clients 0
load --processes 0
load --processes 65
load --processes -1
load --processes two
load rtt=5
load --share-lod
load --clients -1
load --clients 1.5
load --rate 0
load --rate fast
load --rate 1e9
load --rate 1e-5
load --rate 5 --arrivals evn
load --workload nope
load --workload ~nobody-of-that-name/mine.sql
load --table-size 999999999999
up --replicas 0
up --for 30
up --image x\udc9b
fault inject kil
fault inject kill=3
fault inject flap=0/0@db2
fault clear bogus@db1
session replay tour
watch
sweep rt=0,10
sweep rtt=0,99999
sweep rtt
sweep scene=none,bth
sweep rtt@replca=0,10
sweep rtt=0,10 foo=1
sweep rtt=0,10 --report /dev/null/x
lab
lab run
lab run wan-isert
lab run tour --report /dev/null/x
lab run systems-78ms --beside
compare x x
compare x b.rxs
compare a.rxs b.rxs --turns 2
compare a.rxs b.rxs
compare x y --turns 0
compare x y --duration 0
advise --goal tps>1 clients=0
advise --goal tps>1 workload=point_select
advise --goal tps>1 replica_preserve_commit_order=off
advise --goal tps>1 sync_binlg=1
advise rtt=10
predict --goal tps<100
session remove tour
drill run kill-primary --set sync_binlog
drill run kill-primary --set sync_bimlog=1
drill run kill-primary --set sync_binlog=-1
drill run latency-ramp --set rtt=3ms
drill run kill-primary --only 1/1
drill run kil-primary
drill run power_cut --only 1/1
drill run matrix --only power-cut nope
attach db --set sync_binlog=0
attach db --allow-changes
attach db --allow-changes --set sync_binlog=0 --lag 10
attach db --for 1
attach db --set sync_binlog=x --allow-changes
attach db --replica http://x
"""


IN_WORDS = """\
\x1b[31mx
lab run ./\x1b[31m.toml
predict rtt=\x1b[31m
export \x1b]0;title\x07 --format md
--config /no/\x1b[31m config
export TMP/own.rxs --format md --output TMP/own.rxs
export TMP/own.rxs --format md --output TMP/link.md
play TMP/2.play --over TMP/own.rxs --cast TMP/own.rxs
play TMP/0.play --cast TMP/x.cast
play TMP/1.play --cast TMP/x.cast
play TMP/2.play --cast TMP/x.cast --over nowhere
play TMP/3.play --cast TMP/x.cast --check
play TMP/4.play --cast TMP/x.cast --check
play TMP/2.play --cast TMP/x.cast --size 9x9
play TMP/2.play --cast TMP/x.cast --size wide
status --jsn
failover --too db2
lab run tour --quik
set rtt=1 --forse
--stak x status
lab --stak=x run tour
down --yes now
up --stack far --on db1
up --stack far --on db1=unix:///a/sock --replicas 1
up --stack far --on db1=nowhere --on db2=unix:///b/sock
up --stack far --on db1=ssh://far --on db2=unix:///b/sock
up --stack far --on db1=ftp://far --on db2=unix:///b/sock
up --stack far --on db1=unix:///a/sock --on db2=unix:///b/sock
workload capture mysql://ada@127.0.0.1:1 --for 1s
--stack mine
--stack ../etc config
config --config TMP/none.toml
config --config ~nobody-of-that-name/config.toml
play TMP/none.play
export ~nobody-of-that-name/a.rxs --format csv
export tour --format csv --output ~nobody-of-that-name/a.csv
export tour --format md --size 80x24
export TMP/loose --format md
replay
compare ~nobody-of-that-name/a.rxs ~nobody-of-that-name/b.rxs
play ~nobody-of-that-name/a.play
lab run ~nobody-of-that-name/a.toml
lab run tour --report ~nobody-of-that-name/report
lab run bulk-load --dump ~nobody-of-that-name/dump
drill run ~nobody-of-that-name/a.toml
drill run kill-primary --report ~nobody-of-that-name/report
attach mysql://watcher@127.0.0.1:1 --defaults-file ~nobody-of-that-name/my.cnf
attach mysql://watcher@127.0.0.1:1 --ssl-ca ~nobody-of-that-name/ca.pem
serve --password-file ~nobody-of-that-name/password
serve --host 0.0.0.0
serve --host ::
serve --host db.example
serve --port 65536
serve --port web
serve --listen 0.0.0.0
serve --listen 127.0.0.1:web
serve --password-file TMP/none
serve --password-file TMP/loose
serve --host 0.0.0.0 --password-file TMP/loose
--view status
--view
"""
"""Of verbs that print no document, of what is refused before anybody looks for `--json`, or is not there."""


PLAYS = """\
until protectd
key s; until end
key s
key s; lab wan-insret
preset bothh
"""
"""What is in 0.play and those after it."""


def test_wrong_words_need_no_stack(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, snapshot: object
) -> None:
    for home in ("STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{home}_HOME", str(tmp_path))  # nothing was recorded here
    monkeypatch.setenv("MYSQL_PWD", "x")
    loose = tmp_path / "loose"
    loose.write_text("secret of the file")
    os.chmod(loose, 0o644)
    session, tour = tmp_path / "own.rxs", SHIPPED_TOUR.read_bytes()
    session.write_bytes(tour)
    (tmp_path / "link.md").symlink_to(session)
    for number, text in enumerate(PLAYS.splitlines()):
        (tmp_path / f"{number}.play").write_text(text.replace("; ", "\n"))
    told = {}
    for words in MISTAKES.splitlines():
        code, out, told[words] = run(f"--stack never-was {words} --json")
        assert (code, json.loads(out)["error"]["code"]) == (UsageError.exit_code, "usage"), words
    for words in IN_WORDS.splitlines():
        code, out, err = run(words.replace("TMP", str(tmp_path)))
        assert out == "", words
        told[words] = f"{code}: {err.replace(str(tmp_path), 'TMP')}"
    assert {words: err.splitlines() for words, err in told.items()} == snapshot
    assert stacks() == []
    assert session.read_bytes() == tour
    assert not (tmp_path / "x.cast").exists()
