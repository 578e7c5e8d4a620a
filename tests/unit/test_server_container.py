"""A server's process as Docker holds it: what is tried again, and what is not."""

from __future__ import annotations

from contextlib import nullcontext
from unittest.mock import Mock

import pytest
from docker.errors import APIError

from replexplorer.adapters.docker.process import _freeze

BUSY = APIError("Cannot pause container 4c: OCI runtime pause failed: unable to freeze: unknown")


NO_SUCH = APIError("no such container")


@pytest.mark.parametrize(
    ("answers", "times"), [([BUSY, BUSY, None], 3), ([BUSY] * 9, 4), ([NO_SUCH] * 9, 1)], ids=str
)
def test_only_a_container_that_did_not_freeze_in_time_is_asked_again(
    answers: list[APIError | None], times: int
) -> None:
    client = Mock()
    client.pause.side_effect = answers
    with nullcontext() if answers[-1] is None else pytest.raises(APIError):
        _freeze(client, "4c")
    assert client.pause.call_count == times
