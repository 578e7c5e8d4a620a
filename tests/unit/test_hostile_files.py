"""Whatever is where a file is expected ends in one error, soon and in little memory."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replexplorer.adapters import recording
from replexplorer.adapters.client_logs import FileClientLogs
from replexplorer.adapters.journal import MOST_BYTES, FileJournal
from replexplorer.core.errors import MissingPiece, UsageError
from replexplorer.core.loss.client_log import HEAD
from replexplorer.core.loss.ledger import count_losses
from replexplorer.formats import paths
from replexplorer.formats.calibration import read_calibration
from replexplorer.formats.configuration import load_configuration
from replexplorer.formats.experiment_file import read_drill, read_lab, read_lesson
from replexplorer.formats.export import csv_rows, json_lines
from replexplorer.formats.files import MOST_TOML_BYTES, read_workload
from replexplorer.formats.keymap import load_keymap
from replexplorer.formats.scenes import read_scene
from replexplorer.formats.server_url import read_option_files
from replexplorer.formats.themes import read_theme
from replexplorer.ui.actions import DEFAULT_KEYS
from tests.affordable import affordable
from tests.amount import examples
from tests.unit.test_export import markdown_of

FUZZ = settings(max_examples=examples(0.3), suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_keys(file: Path) -> None:
    """Raises what is told of a file that is TOML and not usable."""
    for problem in load_keymap(file, DEFAULT_KEYS).problems:
        raise UsageError(problem)


def read_client_log(file: Path) -> None:
    """As the end of a drill does it."""
    log = FileClientLogs(file.parent)._read(file.parent)
    count_losses(log, {"db1": {}, "db2": {}}, "db1", executed={"db1": "", "db2": ""}, failed_at_us=5)


def read_journal(file: Path) -> None:
    """As a sweep that goes on does it."""
    asyncio.run(FileJournal("sweep", file).read())


TOML: dict[str, Callable[[Path], object]] = {
    "config": partial(load_configuration, named_by_user=True),
    "keys": read_keys,
    "theme": read_theme,
    "scene": read_scene,
    "lab": read_lab,
    "drill": read_drill,
    "lesson": partial(read_lesson, named=Mock()),
    "calibration": read_calibration,
    "workload": read_workload,
}
TEXTS = TOML | {"option file": lambda file: read_option_files([file])}
READERS = TEXTS | {"client log": read_client_log, "journal": read_journal}
EACH = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A client log's name, which any other file may have as well."""
    return tmp_path / "0.log"


def answered(read: Callable[[Path], object], file: Path) -> str:
    """What a reader says: nothing, or the one error that it may raise."""
    with affordable():
        try:
            read(file)
        except (UsageError, MissingPiece) as error:
            return str(error)
    return ""


def endless(file: Path) -> None:
    file.touch()
    os.truncate(file, 2 << 30)


NO_FILES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "directory": os.mkdir,
    "device": partial(os.symlink, "/dev/zero"),
    "link to itself": lambda file: os.symlink(file, file),
    "gigabytes": endless,
}


@EACH
@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
def test_what_is_no_file_is_named_and_neither_waited_for_nor_read(
    read: Callable[[Path], object], make: Callable[[Path], object], file: Path
) -> None:
    make(file)
    assert str(file.parent) in answered(read, file)


@pytest.mark.parametrize("read", TEXTS.values(), ids=TEXTS)
def test_what_is_no_text_is_told(read: Callable[[Path], object], file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    assert answered(read, file) == f"{file}: is not UTF-8 text"


FULL = MOST_TOML_BYTES - 100
TREES = {
    "lists": "a = " + "[" * (FULL // 2) + "]" * (FULL // 2),
    "dotted key": "a" + ".a" * (FULL // 2) + " = 1",
    "header": "[a" + ".a" * (FULL // 2) + "]\nb = 1",
    "digits": f"a = {'9' * FULL}",
    "quotes": "a = " + '"\\"' * (FULL // 3),
    "blanks": "a." + " " * FULL + ".b",
    "not closed": "a = [" + "1," * (FULL // 2),
}


@pytest.mark.parametrize("read", TOML.values(), ids=TOML)
@pytest.mark.parametrize("text", TREES.values(), ids=TREES)
def test_a_document_as_bad_as_it_can_be_is_one_error(
    read: Callable[[Path], object], text: str, file: Path
) -> None:
    file.write_text(text)
    assert answered(read, file) or read is read_workload  # any words may be SQL


@EACH
@FUZZ
@given(content=st.binary(max_size=300))
def test_bytes(read: Callable[[Path], object], content: bytes, file: Path) -> None:
    file.write_bytes(content)
    answered(read, file)


BOMBS = {
    "an endless line": ("client log", f"{HEAD}7\nt 1\n" + "i" * 5_000_000),
    "numbers of many digits": ("client log", f"{HEAD}7\nt 1\ni {'9' * 120} 1\ns db1 1 1 {'9' * 60}\n"),
    "spans turned round": ("client log", f"{HEAD}7\ns db1 1 9 1\n"),
    "all rows at once": ("client log", f"{HEAD}7\ns db1 1 0 {1 << 62}\n"),
    "lists in lists": ("journal", "[" * 100_000 + "]" * 100_000 + "\n"),
    "a long number": ("journal", '{"a": ' + "9" * 100_000 + "}\n"),
}  # fmt: skip


def test_a_log_as_bad_as_it_can_be_is_one_error(file: Path) -> None:
    for case, (kind, text) in BOMBS.items():
        file.write_text(text)
        assert answered(READERS[kind], file) or str(1 << 62) in text, case


def test_a_journal_as_large_as_it_may_be_is_read_within_the_limit(file: Path) -> None:
    line = json.dumps({"run": 1, "settings": {"rtt": 85.0}, "tps": [1.0] * 100}) + "\n"
    file.write_text(line * (MOST_BYTES // len(line)))
    assert answered(read_journal, file) == ""


# -- a recorded session


TICKS = 12


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The beginning of the tour, and its last rows, as one file."""
    file = tmp_path_factory.mktemp("short") / "short.rxs"
    shutil.copyfile(paths.SHIPPED_TOUR, file)
    with closing(sqlite3.connect(file, isolation_level=None)) as base:
        until = base.execute("SELECT at_s FROM tick ORDER BY at_s LIMIT 1 OFFSET ?", (TICKS,)).fetchone()[0]
        for table in ("tick", "part", "setting", "epoch"):
            base.execute(f"DELETE FROM {table} WHERE at_s > ?", (until,))
        base.execute("DELETE FROM event WHERE tick_s > ?", (until,))
        base.execute("INSERT INTO event VALUES (1000, ?, ?, 1.7e9, 'mark', 'rtt', 1)", (until, until))
        base.execute("VACUUM")
    return file


@pytest.fixture
def session(short: Path, tmp_path: Path) -> Path:
    return Path(shutil.copyfile(short, tmp_path / "own.rxs"))


def altered(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as base:
        for statement in statements:
            base.execute(statement)


def exported(file: Path) -> str:
    """Read it as every verb does; answers the error, or nothing."""
    with affordable():
        try:
            with closing(recording.SessionReader(file)) as reader:
                reader.events()
                markdown_of(reader.about, list(reader.ticks()))
                csv.writer(io.StringIO()).writerows(csv_rows(reader.ticks()))
                for line in json_lines(reader.about, reader.ticks()):
                    json.dumps(line, allow_nan=False)
        except UsageError as error:
            return str(error)
    return ""


def test_the_session_itself_is_whole(session: Path) -> None:
    assert exported(session) == ""


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS at_s FROM c"
SCHEMAS: dict[str, tuple[str, ...]] = {
    "view": ("DROP TABLE tick", f"CREATE VIEW tick AS {ENDLESS}"),
    "view of parts": ("DROP TABLE part", f"CREATE VIEW part AS {ENDLESS}"),
    "view of no table": (f"CREATE VIEW more AS {ENDLESS}",),
    "trigger": ("CREATE TRIGGER t AFTER INSERT ON tick BEGIN SELECT 1; END",),
    "generated column": (
        "DROP TABLE event",
        "CREATE TABLE event (id, tick_s, at_s, wall_s, severity, text AS (hex(zeroblob(100000000))), mark)",
        "INSERT INTO event VALUES (1, 0, 0, 1.7e9, 'info', 1)",
    ),
    "virtual table": ("DROP TABLE meta", "CREATE VIRTUAL TABLE meta USING fts5(key, value)"),
    "no table": ("DROP TABLE part",),
}


@pytest.mark.parametrize("statements", SCHEMAS.values(), ids=SCHEMAS)
def test_what_is_no_plain_table_is_refused(session: Path, statements: tuple[str, ...]) -> None:
    altered(session, *statements)
    assert "is damaged: it" in exported(session)


WRONG = """\
UPDATE tick SET tps = 1.5e300 WHERE rowid = 5 -- figure of no size
UPDATE tick SET n = 4611686018427387904 WHERE rowid = 5 -- count of no size
UPDATE tick SET at_s = 9e999 WHERE rowid = 5 -- tick at no time
UPDATE tick SET at_s = NULL WHERE rowid = 5 -- tick at nothing
UPDATE tick SET tps = 9e999 WHERE rowid = 5 -- infinite figure
UPDATE tick SET n = x'00ff' WHERE rowid = 5 -- figure as a blob
UPDATE tick SET service = 'abc' WHERE rowid = 5 -- histogram as a text
UPDATE tick SET service = x'6364646c0001054600' WHERE rowid = 5 -- histogram of 2^40 slots
UPDATE event SET at_s = 9e999 -- event at no time
UPDATE event SET text = NULL -- event without a text
INSERT INTO meta VALUES ('a', x'00') -- fact as a blob
UPDATE part SET json = replace(hex(zeroblob(100000)), '00', '[') WHERE name = 'nodes' -- deep json
UPDATE part SET json = '{' WHERE name = 'links' -- half a json
UPDATE tick SET at_s = 'abc' WHERE at_s = (SELECT MAX(at_s) FROM tick) -- last tick at no time
UPDATE tick SET wall_s = 'abc' WHERE rowid = 5 -- tick of no day
UPDATE tick SET wall_s = 1e20 WHERE rowid = 5 -- tick of a day to come
UPDATE event SET wall_s = -1 -- event of no day
UPDATE OR REPLACE part SET at_s = 'abc' -- part at no time
DELETE FROM tick -- no tick
PRAGMA user_version = 99 -- another format"""


@pytest.mark.parametrize("statement", WRONG.splitlines(), ids=lambda line: line.partition(" -- ")[2])
def test_what_no_session_holds_is_refused(session: Path, statement: str, snapshot: object) -> None:
    altered(
        session,
        """INSERT OR REPLACE INTO part SELECT 'ceiling', at_s, '{"tps":1,"clients":1,"rtt_ms":1,"local_ms":1}'
        FROM tick LIMIT 1""",
        statement,
    )
    assert exported(session).partition("own.rxs ")[2] == snapshot


def test_what_is_no_session_or_torn_or_too_large_or_has_a_pipe_next_to_it_is_refused(session: Path) -> None:
    os.mkfifo(f"{session}-wal")
    assert "own.rxs-wal is not a file" in exported(session)
    os.unlink(f"{session}-wal")
    os.truncate(session, session.stat().st_size // 2)
    assert "is damaged" in exported(session)
    os.truncate(session, recording.MOST_BYTES + 1)
    assert "own.rxs is larger than 1024 MB" in exported(session)
    session.write_text("hello, this is no database")
    assert "is not a session file" in exported(session)
    session.unlink()
    assert "no session file" in exported(session)
    altered(session, "CREATE TABLE t (a)")
    assert "is not a session file" in exported(session)


@FUZZ
@given(
    edits=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=30)), max_size=8),
    kept=st.floats(0, 2),
)
def test_any_damage(short: Path, tmp_path: Path, edits: list[tuple[float, bytes]], kept: float) -> None:
    content = bytearray(short.read_bytes())
    size, file = len(content), tmp_path / "damaged.rxs"
    for where, damage in edits:
        at = int(where * size)
        content[at : at + len(damage)] = damage
    file.write_bytes(content[: int(kept * size)])
    exported(file)
