"""Knobs turned as they are typed."""

from __future__ import annotations

from replexplorer.engine.change.outcome import SetResult
from replexplorer.engine.session import Session


async def turn(session: Session, *texts: str, anyway: bool = False) -> SetResult:
    """Set each `KEY=VALUE`; `anyway` also while an experiment runs."""
    return await session.set([session.parse(text) for text in texts], anyway=anyway)
