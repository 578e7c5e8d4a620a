"""The rows of the catalogue that only Galera's servers have.

Each member has its own value of each. The options of Galera's provider (`gcs.fc_limit`) are variables of the
server since MariaDB loads the plugin `wsrep_provider`; their own spelling is accepted as well. Defaults, and
that each can be set while the server runs, were read from MariaDB 11.8 with Galera 26.4 (information_schema.
system_variables).
"""

from __future__ import annotations

from typing import Final

from replexplorer.core.knobs.knob import ON_OFF, Backing, Group, Kind, Knob, Place, Restart

_WSREP: Final = "wsrep_"
_PROVIDER: Final = f"{_WSREP}provider_"


def _row(
    key: str,
    label: str,
    default: int | str,
    help_text: str,
    *,
    ladder: tuple[int, ...] = (),
    least: int = 0,
    most: int | None = None,
    unit: str = "",
    choices: tuple[str, ...] = (),
    alias: str = "",
    restart: Restart = Restart.NONE,
    risk: str = "",
    seldom: bool = True,
    server_default: int | None = None,
) -> Knob:
    """A row of words, where it has choices, else of whole numbers."""
    return Knob(
        key=key,
        label=label,
        group=Group.GALERA,
        kind=Kind.CHOICE if choices else Kind.INT,
        place=Place.MEMBERS,
        backing=Backing.SERVER,
        default=default,
        help=help_text,
        unit=unit,
        choices=choices,
        minimum=None if choices else least,
        maximum=most,
        ladder=ladder,
        restart=restart,
        risk=risk,
        variables=(key,),
        aliases=(alias,) if alias else (),
        seldom=seldom,
        server_defaults=() if server_default is None else (("mariadb", server_default),),
    )


GALERA_ROWS: Final[tuple[Knob, ...]] = (
    _row(
        f"{_WSREP}sync_wait",
        "sync wait",
        0,
        "Statements that wait until all that was committed before is applied here: 1 reads, 2 UPDATE and"
        " DELETE, 4 INSERT and REPLACE, 8 SHOW, added up.",
        ladder=(0, 1, 3, 7, 15),
        most=15,
        restart=Restart.SESSIONS,
        seldom=False,
    ),
    _row(
        f"{_WSREP}slave_threads",
        "appliers",
        4,
        "Threads that apply what other members commit.",
        ladder=(1, 2, 4, 8, 16),
        least=1,
        most=512,
        unit="threads",
        seldom=False,
        server_default=1,
    ),
    _row(
        f"{_WSREP}retry_autocommit",
        "retries",
        1,
        "How often the server itself runs a single statement again that lost against another member's.",
        ladder=(0, 1, 2, 4, 8),
        most=10_000,
        unit="tries",
        restart=Restart.SESSIONS,
        seldom=False,
    ),
    _row(
        f"{_PROVIDER}gcs_fc_limit",
        "fc limit",
        16,
        "Length of a member's apply queue at which the whole cluster pauses commits (multiplied by the square"
        " root of the number of members).",
        ladder=(1, 4, 16, 64, 256, 1024, 10_000),
        most=2**31 - 1,
        unit="commits",
        alias="gcs.fc_limit",
        seldom=False,
    ),
    _row(
        f"{_PROVIDER}evs_send_window",
        "send window",
        4,
        "Messages that a member has under way at once before it waits for their delivery.",
        ladder=(1, 2, 4, 32, 128, 512),
        least=1,
        most=2**31 - 1,
        unit="messages",
        alias="evs.send_window",
    ),
    _row(
        f"{_PROVIDER}evs_user_send_window",
        "user window",
        2,
        "Of the messages in evs.send_window, how many may carry transactions.",
        ladder=(1, 2, 4, 16, 64, 256),
        least=1,
        most=2**31 - 1,
        unit="messages",
        alias="evs.user_send_window",
    ),
    _row(
        f"{_PROVIDER}evs_suspect_timeout",
        "suspect",
        5,
        "Silence after which a member is suspected, and dropped where all others suspect it too.",
        ladder=(1, 2, 5, 10, 30),
        least=1,
        most=3600,
        unit="s",
        alias="evs.suspect_timeout",
    ),
    _row(
        f"{_PROVIDER}evs_inactive_timeout",
        "inactive",
        15,
        "Silence after which a member is dropped without asking the others.",
        ladder=(3, 5, 15, 30, 60),
        least=1,
        most=3600,
        unit="s",
        alias="evs.inactive_timeout",
    ),
    _row(
        f"{_PROVIDER}pc_ignore_sb",
        "ignore split",
        "off",
        "Keep committing after a split into two equal halves; has no effect in a cluster of three.",
        choices=ON_OFF,
        alias="pc.ignore_sb",
        risk="on: two halves that do not hear each other both commit, and diverge",
    ),
    _row(
        f"{_WSREP}dirty_reads",
        "dirty reads",
        "off",
        "Answer reads at a member that is cut off from the majority.",
        choices=ON_OFF,
        restart=Restart.SESSIONS,
        risk="on: a member that is cut off answers with old rows",
    ),
)
