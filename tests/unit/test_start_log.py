"""Why a server ended while it started, from what it wrote."""

from __future__ import annotations

import pytest

from replexplorer.core.server.comeback import lacked_aio, why_it_ended
from tests.known import known

# As MySQL 8.0.22 wrote them (docker-library/mysql, issue 727), shortened.
NO_AIO = """\
10:18:16Z 1 [System] [MY-013576] [InnoDB] InnoDB initialization has started.
10:18:16Z 1 [Warning] [MY-012582] [InnoDB] io_setup() failed with EAGAIN. Will make 5 attempts ...
10:18:18Z 1 [Warning] [MY-012583] [InnoDB] io_setup() attempt 5.
10:18:19Z 1 [ERROR] [MY-012584] [InnoDB] io_setup() failed with EAGAIN after 5 attempts.
10:18:19Z 1 [ERROR] [MY-012954] [InnoDB] Cannot initialize AIO sub-system
10:18:19Z 0 [ERROR] [MY-010119] [Server] Aborting
"""
# As MySQL 5.7 did.
NO_AIO_57 = """\
00:29:11Z 0 [Warning] InnoDB: io_setup() failed with EAGAIN. Will make 5 attempts ...
00:29:14Z 0 [ERROR] InnoDB: io_setup() failed with EAGAIN after 5 attempts.
00:29:14Z 0 [ERROR] InnoDB: Cannot initialize AIO sub-system
"""
# The kernel had what it needed at the third attempt: that is not why it ended.
GOT_AIO = """\
10:18:16Z 1 [Warning] [MY-012582] [InnoDB] io_setup() failed with EAGAIN. Will make 5 attempts ...
10:18:20Z 0 [ERROR] [MY-000067] [Server] unknown variable 'sync_binlogg=1'.
10:18:20Z 0 [ERROR] [MY-010119] [Server] Aborting
"""
# As 9.7.4 does where it is refused even the one by which it asks: it goes on, and ends for another reason.
WITHOUT_AIO = """\
05:38:20Z 1 [ERROR] [MY-012584] [InnoDB] io_setup() failed with EAGAIN after 5 attempts.
05:38:20Z 1 [Warning] [MY-012654] [InnoDB] Linux Native AIO disabled.
05:38:21Z 0 [ERROR] [MY-000067] [Server] unknown variable 'x=1'.
"""


@pytest.mark.parametrize(
    ("log", "said", "aio"),
    [
        (WITHOUT_AIO, "[MY-000067] [Server] unknown variable 'x=1'", False),
        (NO_AIO, "[MY-012584] [InnoDB] io_setup() failed with EAGAIN after 5 attempts", True),
        (NO_AIO_57, "InnoDB: io_setup() failed with EAGAIN after 5 attempts", True),
        (GOT_AIO, "[MY-000067] [Server] unknown variable 'sync_binlogg=1'", False),
        ("2026-11-23  4:40:00 0 [ERROR] Aborting\n", "Aborting", False),
        ("one\n\nstart-mysqld: no passwords\n\n", "start-mysqld: no passwords", False),
    ],
)
def test_the_first_error_is_the_cause(log: str, said: str, aio: bool) -> None:
    found = why_it_ended(log.splitlines())
    assert found == said
    assert lacked_aio(found) == aio


def test_of_an_empty_log_nothing_is_said() -> None:
    assert why_it_ended(["", "  "]) is None


def test_what_a_terminal_would_obey_is_shown_and_a_long_line_is_cut() -> None:
    found = known(why_it_ended([f"0 [ERROR] \x1b[2J{'long ' * 100}"]))
    assert found.startswith(r"\x1b[2Jlong")
    assert len(found) <= 200
