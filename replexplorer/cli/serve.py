"""`serve`: the dashboard in a browser."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from replexplorer.cli.dashboard import look, settings_of
from replexplorer.cli.running import run_async
from replexplorer.cli.typed import whole_number
from replexplorer.cli.wiring import load_configuration_of
from replexplorer.core.errors import MissingPiece, UsageError
from replexplorer.core.hints import command
from replexplorer.formats.paths import expanded

if TYPE_CHECKING:
    from aiohttp.web import AppRunner

    from replexplorer.cli.entry import Call
    from replexplorer.web.server import DashboardServer

PORT: Final = 8000


def run_arguments(parser: ArgumentParser) -> None:
    """Where it listens, and to whom."""
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="listen here (default 127.0.0.1, this machine)"
    )
    parser.add_argument(
        "--port",
        type=whole_number(0, 65535),
        default=PORT,
        metavar="N",
        help=f"listen here (default {PORT}; 0: any free one)",
    )
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        help="ask for the password in FILE (mode 0600) before anything else",
    )


def run(call: Call) -> int:
    """Serve the dashboard until Ctrl-C; the first tab drives, those beside it watch."""
    from replexplorer.web.gate import Gate, is_loopback
    from replexplorer.web.password import read_password
    from replexplorer.web.server import DashboardServer

    args = call.args
    loopback = is_loopback(args.host)
    if not loopback and args.password_file is None:
        raise UsageError(
            f"--host {args.host} lets other machines in", "add --password-file FILE, or leave --host out"
        )
    file = args.password_file
    password = None if file is None else read_password(expanded(file))
    loaded = load_configuration_of(call)
    settings_of(loaded)  # what is wrong with theme and keys is said here, not in every tab
    asyncio.run(look(loaded.values.stack, loaded))
    words = [sys.executable, "-P", "-m", "replexplorer", "--stack", loaded.values.stack]
    if args.config is not None:
        words += ["--config", str(expanded(args.config).absolute())]

    def words_of(drives: bool) -> Sequence[str]:
        return words if drives else [*words, "--view"]

    async def serving() -> int:
        server = DashboardServer(words_of, Gate(loopback=loopback, password=password))
        return await _serve(call, server, args.host, args.port, encrypted_elsewhere=loopback)

    return run_async(serving())


async def _serve(
    call: Call, server: DashboardServer, host: str, port: int, *, encrypted_elsewhere: bool
) -> int:
    """Listen until cancelled, then end every tab's process."""
    from aiohttp import web

    runner = web.AppRunner(server.application(), access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        taken = await listen(runner, host, port)
        call.console.print(address_of(host, taken))
        call.console.out.flush()
        call.console.narrate("the first tab drives, those beside it watch; Ctrl-C ends all")
        if not encrypted_elsewhere:
            call.console.warn(
                "password and picture cross the network as they are: use `ssh -L` or a TLS proxy"
            )
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
        if server.has_driven:
            name = call.console.stack
            call.console.narrate(
                f"stack '{name}' keeps running if it ran; {command('down', name)} removes it"
            )
    return 0


async def listen(runner: AppRunner, host: str, port: int) -> int:
    """Begin to listen and answer the port; raises MissingPiece or UsageError where that cannot be."""
    from aiohttp import web

    address = "127.0.0.1" if host.lower() == "localhost" else host.strip("[]")
    try:
        await web.TCPSite(runner, address, port).start()
    except socket.gaierror:
        raise UsageError(f"--host {host} is no address", "name one of this machine's, as 127.0.0.1") from None
    except OSError as error:
        where = f"{host} port {port}"
        if error.errno == errno.EADDRINUSE:
            raise MissingPiece(f"{where} is taken by another program", "--port 0 picks a free one") from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise MissingPiece(f"{where} is not for this user", "choose a port from 1024 on") from None
        raise UsageError(
            f"--host {host}: {error.strerror or error}", "name an address of this machine"
        ) from None
    return int(runner.addresses[0][1])


def address_of(host: str, port: int) -> str:
    """What to open; the machine's name where it listens to all of its addresses."""
    bare = host.strip("[]")
    name = socket.gethostname() if bare in ("0.0.0.0", "::", "") else bare  # noqa: S104
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/"
