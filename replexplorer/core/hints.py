"""What a remedy tells the user to type: a verb of ours, with the stack where it is not the default one."""

from __future__ import annotations

from typing import Final

DEFAULT_STACK: Final = "default"
"""The stack that a verb addresses when none is named."""


def command(verb: str, stack: str, *words: str) -> str:
    """`` `replexplorer down --stack demo` ``: what does this to that stack."""
    named = () if stack == DEFAULT_STACK else ("--stack", stack)
    return f"`{' '.join(('replexplorer', verb, *words, *named))}`"
