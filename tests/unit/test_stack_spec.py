"""What a stack's containers are made with, how they are paused, and why a server ended as it started."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import pytest
from docker.errors import APIError

from replexplorer import __version__
from replexplorer.adapters.docker.build import Made, StackSpec, Steps
from replexplorer.adapters.docker.inventory import VERSION, Inventory
from replexplorer.adapters.docker.process import _freeze
from replexplorer.core.machine import ServerLimits
from replexplorer.core.server.comeback import lacked_aio, why_it_ended
from tests.known import known

IMAGES = {"sidecar": "replexplorer/sidecar:x", "mysqld": "mysql:8.4"}
LIMITED = StackSpec("mine", "async", IMAGES, ServerLimits(0.5, 1 << 30))


class Client:
    """As much of the Docker SDK's client as making containers asks for: it keeps what it is told."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []

    def create_endpoint_config(self, **how: Any) -> Any:
        return how

    create_host_config = create_endpoint_config

    def create_networking_config(self, how: Any) -> Any:
        return how

    def create_container(self, image: str, **how: Any) -> Any:
        self.made.append({"image": image, **how})
        return {"Id": how["name"]}


def test_a_node_is_a_sidecar_and_a_server_with_the_least_privileges_and_the_limits(
    snapshot: object,
) -> None:
    for node in ("db1", "db3"):
        client = Client()
        steps = Steps(client, Inventory(()), LIMITED, {})
        made = steps.server(node, steps.sidecar(node))
        assert made == Made(f"replexplorer-mine-{node}", "created")
        assert {each["labels"].pop(VERSION) for each in client.made} == {__version__}
        assert client.made == snapshot


def test_limits_are_in_the_network_s_labels() -> None:
    gib = 1 << 30
    for limits in (ServerLimits(), ServerLimits(0.5), ServerLimits(None, gib), ServerLimits(2, gib)):
        labels = StackSpec("mine", "async", IMAGES, limits).limit_labels()
        assert Inventory((), networks=({"Id": "n", "Labels": labels},)).limits() == limits


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


def test_the_first_error_is_the_cause_and_of_an_empty_log_nothing_is_said(snapshot: object) -> None:
    """And whether the kernel lacked what asynchronous reads take."""
    other = "2026-11-23  4:40:00 0 [ERROR] Aborting\n", "one\n\nstart-mysqld: no passwords\n\n"
    logs = (WITHOUT_AIO, NO_AIO, NO_AIO_57, GOT_AIO, *other)
    causes = [known(why_it_ended(log.splitlines())) for log in logs]
    assert [(cause, lacked_aio(cause)) for cause in causes] == snapshot
    assert why_it_ended(["", "  "]) is None


def test_what_a_terminal_would_obey_is_shown_and_a_long_line_is_cut() -> None:
    found = known(why_it_ended([f"0 [ERROR] \x1b[2J{'long ' * 100}"]))
    assert found.startswith(r"\x1b[2Jlong")
    assert len(found) <= 200


BUSY = APIError("Cannot pause container 4c: OCI runtime pause failed: unable to freeze: unknown")
NO_SUCH = APIError("no such container")


def test_only_a_container_that_did_not_freeze_in_time_is_asked_again() -> None:
    for answers, times in (([BUSY, BUSY, None], 3), ([BUSY] * 9, 4), ([NO_SUCH] * 9, 1)):
        client = Mock()
        client.pause.side_effect = answers
        with nullcontext() if answers[-1] is None else pytest.raises(APIError):
            _freeze(client, "4c")
        assert client.pause.call_count == times
