"""Running `iptables`, `tc` and `ip`: what they refuse, in one line."""

from __future__ import annotations

import asyncio


class Refused(Exception):
    """The kernel or a tool refused, in words."""


async def run(argv: list[str]) -> tuple[int, str, str]:
    """Run a tool: exit status, standard output, standard error."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError:
        return 127, "", f"{argv[0]} is not installed"
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace")


async def must(argv: list[str]) -> str:
    """Run a tool that has to succeed; raise Refused with its last line."""
    status, out, err = await run(argv)
    if status:
        lines = (err or out).strip().splitlines()
        raise Refused(f"{argv[0]}: {lines[-1].removeprefix('Error: ') if lines else f'exit status {status}'}")
    return out
