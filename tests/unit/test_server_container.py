"""A server's process as Docker holds it: what is tried again, and what is not."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from docker.errors import APIError

from replexplorer.adapters.docker.process import _freeze

BUSY = APIError("Cannot pause container 4c: OCI runtime pause failed: unable to freeze: unknown")


def test_a_container_that_did_not_freeze_in_time_is_asked_again() -> None:
    client = Mock()
    client.pause.side_effect = [BUSY, BUSY, None]
    _freeze(client, "4c")
    assert client.pause.call_count == 3


@pytest.mark.parametrize(("refused", "times"), [(BUSY, 4), (APIError("no such container"), 1)])
def test_a_container_that_cannot_be_paused_is_an_error(refused: APIError, times: int) -> None:
    client = Mock()
    client.pause.side_effect = refused
    with pytest.raises(APIError):
        _freeze(client, "4c")
    assert client.pause.call_count == times
