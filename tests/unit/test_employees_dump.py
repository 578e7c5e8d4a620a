"""An employees.sql, row by row."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from replexplorer.core.errors import UsageError
from replexplorer.formats.experiment_file import checked, rows_of

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


def test_rows_come_in_order_with_their_escapes_and_no_other_table_s(tmp_path: Path) -> None:
    file = tmp_path / "employees.sql"
    file.write_text(DUMP)
    rows = list(rows_of(checked(file)))
    assert [row.partition(",")[0] for row in rows] == ["(10001", "(10002", "(10003", "(10004"]
    assert rows[1] == "(10002,'1964-06-02','Bezalel','O\\'Simmel','F','1985-11-21')"
    assert "Bam''ford" in rows[2]


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "no dump"), (b"SELECT 1;", "has no row of employees"), (b"\xff\xfe", "is not a text file")],
)
def test_a_file_that_is_no_dump_is_told(tmp_path: Path, content: bytes | None, told: str) -> None:
    file = tmp_path / "employees.sql"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=told):
        checked(file)


def test_a_dump_as_bad_as_it_can_be_ends_soon(tmp_path: Path) -> None:
    file = tmp_path / "employees.sql"
    os.mkfifo(file)
    with pytest.raises(UsageError, match="is a pipe"):
        checked(file)
    file.unlink()
    file.write_text("INSERT INTO employees VALUES " + "(1,'" * 500_000)
    began_s = time.process_time()
    with pytest.raises(UsageError, match="has no row of employees"):
        checked(file)
    assert time.process_time() - began_s < 2
