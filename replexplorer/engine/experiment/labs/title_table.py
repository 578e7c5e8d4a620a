"""The big table that `archive` takes half away of: IMDB's titles as the article shows them, filled from a
seed. Its two foreign keys are left out: CREATE TABLE ... LIKE copies none, and a DELETE of episodes' parents
would be refused by one."""

from __future__ import annotations

from random import Random
from typing import Final

from replexplorer.ports import Report, Sql

DATABASE: Final = "replexplorer"
TABLE: Final = f"{DATABASE}.title"
DEADLINE_S: Final = 900.0
"""For a statement on a table of this size."""
_BATCH: Final = 1_000
ALL_ROWS: Final = 2_172_320
"""Of the article's table."""
GONE: Final = 1_085_426
"""Those of them whose title is up to 'g'."""
_COLUMNS: Final = (
    "id INT NOT NULL AUTO_INCREMENT, title TEXT NOT NULL, imdb_index VARCHAR(12), kind_id INT NOT NULL, "
    "production_year INT, imdb_id INT, phonetic_code VARCHAR(5), episode_of_id INT, season_nr INT, "
    "episode_nr INT, series_years VARCHAR(49), md5sum VARCHAR(32), PRIMARY KEY (id), "
    "KEY idx_title (title(10)), KEY idx_pcode (phonetic_code), KEY idx_epof (episode_of_id), "
    "KEY idx_md5 (md5sum), KEY title_kind_id_exists (kind_id)"
)
_FILLED: Final = (
    "title, kind_id, production_year, imdb_id, phonetic_code, episode_of_id, season_nr, episode_nr, md5sum"
)


async def fill(sql: Sql, rows: int, tell: Report) -> None:
    """Create the table with this many rows, always the same; as large a share of the titles as the
    article's is up to 'g'."""
    create = f"CREATE TABLE {TABLE} ({_COLUMNS}) ENGINE=InnoDB DEFAULT CHARSET=latin1"
    await sql.query(create, deadline_s=DEADLINE_S)
    random = Random(1)
    for first in range(0, rows, _BATCH):
        tell("filling the table", first / rows)
        values = ",".join(_row(random) for _ in range(min(_BATCH, rows - first)))
        await sql.query(
            f"INSERT INTO {TABLE} ({_FILLED}) VALUES {values}",
            deadline_s=DEADLINE_S,
        )


def _row(random: Random) -> str:
    goes = random.random() < GONE / ALL_ROWS
    first = random.choice("abcdef") if goes else random.choice("ghijklmnopqrstuvwxyz")
    words = " ".join(
        "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(4)
    )
    code = random.choice("ABCDEFGH") + str(random.randint(100, 9999))
    return (
        f"('{first}{words}',{random.randint(1, 7)},{random.randint(1890, 2012)},{random.randrange(10**7)},"
        f"'{code}',{random.randint(1, ALL_ROWS)},{random.randint(1, 20)},{random.randint(1, 30)},"
        f"'{random.getrandbits(128):032x}')"
    )
