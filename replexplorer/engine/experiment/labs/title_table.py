"""The big table that `archive` takes half away of: the shape of IMDB's titles, filled from a seed."""

from __future__ import annotations

from random import Random
from typing import Final

from replexplorer.ports import Report, Sql

DATABASE: Final = "replexplorer"
TABLE: Final = f"{DATABASE}.title"
DEADLINE_S: Final = 900.0
"""For a statement on a table of this size."""
_BATCH: Final = 1_000
_COLUMNS: Final = (
    "id INT NOT NULL AUTO_INCREMENT, title TEXT NOT NULL, kind_id INT NOT NULL, production_year INT, "
    "imdb_id INT, phonetic_code VARCHAR(5), season_nr INT, PRIMARY KEY (id), KEY title_key (title(100)), "
    "KEY kind_key (kind_id), KEY year_key (production_year), KEY imdb_key (imdb_id), "
    "KEY phonetic_key (phonetic_code)"
)


async def fill(sql: Sql, rows: int, tell: Report) -> None:
    """Create the table with this many rows, always the same: half of the titles are up to 'g'."""
    await sql.query(f"CREATE TABLE {TABLE} ({_COLUMNS}) ENGINE=InnoDB", deadline_s=DEADLINE_S)
    random = Random(1)
    for first in range(0, rows, _BATCH):
        tell("filling the table", first / rows)
        values = ",".join(_row(random) for _ in range(min(_BATCH, rows - first)))
        await sql.query(
            f"INSERT INTO {TABLE} (title, kind_id, production_year, imdb_id, phonetic_code, season_nr) "
            f"VALUES {values}",
            deadline_s=DEADLINE_S,
        )


def _row(random: Random) -> str:
    first = random.choice("abcdef") if random.random() < 0.5 else random.choice("ghijklmnopqrstuvwxyz")
    words = " ".join(
        "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(4)
    )
    code = random.choice("ABCDEFGH") + str(random.randint(100, 9999))
    return (
        f"('{first}{words}',{random.randint(1, 7)},{random.randint(1890, 2012)},{random.randrange(10**7)},"
        f"'{code}',{random.randint(1, 20)})"
    )
