"""What a remedy asks the user to type: one of our verbs, with the stack where it is not the default one."""

from __future__ import annotations

import re
from typing import Final

DEFAULT_STACK: Final = "default"
"""The stack that a verb addresses when none is named."""


_NEEDS_STACK: Final = re.compile(r"\breplexplorer (up|down|status|get|reset)\b(?! --(?:stack|all)\b)")


def with_stack(text: str, stack: str) -> str:
    """The text with the stack in each command that addresses one; whoever wrote it may not know its name."""
    return text if stack == DEFAULT_STACK else _NEEDS_STACK.sub(rf"\g<0> --stack {stack}", text)


def command(verb: str, stack: str, *words: str) -> str:
    """`` `replexplorer down --stack demo` ``: what does this to that stack."""
    named = () if stack == DEFAULT_STACK else ("--stack", stack)
    return f"`{' '.join(('replexplorer', verb, *words, *named))}`"
