"""What a session of the program says first, to a server that is not known yet."""

from __future__ import annotations

from typing import Final

LOOK_AT_ONCE: Final = "SET SESSION autocommit = 1 /*M!100100 , wsrep_sync_wait = 0 */"
"""Who looks at a member of a Galera cluster does not wait until it has applied what the others committed,
whatever its clients are to do: one that is cut off would answer nothing. MariaDB alone reads the comment."""
