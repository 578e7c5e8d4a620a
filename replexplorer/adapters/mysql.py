"""Control connections to MySQL servers: asyncmy behind `ports.Sql`.

Law: one connection a server, one statement at a time. What the driver raises never leaves this
module: a server's answer becomes ServerRefused with its number, everything else
ServerUnreachable. After a failure or a cancel the connection is closed, never reused.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple, NoReturn

from replexplorer.core.dialect.question import LOOK_AT_ONCE, Row
from replexplorer.core.errors import NoAnswerInTime, ServerRefused, ServerUnreachable, UsageError
from replexplorer.core.records import frozen, replace
from replexplorer.core.text import one_line
from replexplorer.ports import NodeAddress

# The driver logs a server's warnings; unheard, Python would write them over the dashboard.
logging.getLogger("asyncmy").addHandler(logging.NullHandler())

CONNECT_TIMEOUT_S: Final = 2.0
"""How long a login may take, so that a dead server is noticed soon."""
PROBE_TIMEOUT_S: Final = 0.3
"""How long a node's own address may take to answer a TCP connect."""
_CLOSE_TIMEOUT_S: Final = 0.5
_MOST_SAID: Final = 400
"""Characters of an error that a server repeats a statement or a set in."""

SERVER_GONE: Final = 2006
"""The client found the connection closed before it sent anything."""
LOST_NUMBERS: Final = frozenset({0, 1053, 1927, 2002, 2003, SERVER_GONE, 2013, 2014, 2055, 3169, 4031})
"""Error numbers after which the connection is gone: the client library's own (2xxx), shutdown in
progress (1053), killed (1927 MariaDB, 3169 MySQL) and disconnected for idleness (4031)."""


class Address(NamedTuple):
    """Where a server answers."""

    host: str
    port: int
    path: str
    """`direct` (the node's own address), `published` (where its provider lets others reach it) or `tunnel`
    (the node's own address, by a way that its provider opens for each connection)."""


SSL_MODES: Final = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
"""What MySQL's own clients take for --ssl-mode."""


def tls_failure(error: BaseException) -> str | None:
    """Why TLS failed, in words, where the driver's error comes from that."""
    import ssl

    cause = error.__cause__
    if not isinstance(cause, ssl.SSLError):
        return None
    return str(getattr(cause, "verify_message", "") or cause.reason or cause).lower().replace("_", " ")


@frozen
class Tls:
    """What protects a login to a server that somebody else made."""

    mode: str
    """One of `SSL_MODES`."""
    ca: str | None = None
    """A file of certificates instead of the system's."""

    def context(self) -> Any:
        """For the driver, None where TLS is disabled; raises UsageError for a broken file of certificates."""
        return None if self.mode == "DISABLED" else _context(self.mode, self.ca)


@cache
def _context(mode: str, ca: str | None) -> Any:
    import ssl

    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--ssl-ca={ca}", (error.strerror or str(error)).lower()) from None
    context.check_hostname = mode == "VERIFY_IDENTITY"
    if not mode.startswith("VERIFY_"):
        context.verify_mode = ssl.CERT_NONE
    return context


Locate = Callable[[], Awaitable[Address]]
"""Finds the server again before each login; may raise ReplexplorerError."""
Dial = Callable[[], Awaitable[socket.socket]]
"""Makes a connection to the server that is not logged in yet; may raise ReplexplorerError."""


async def connect_address(node: NodeAddress) -> Address:
    """Where to connect to this node: its own address where the host reaches it, else published.

    A refused connect at its own address may be the server being away or a router that knows no
    such host: then the published port is taken only if a server greets there.
    Raises ServerUnreachable when the node has neither.
    """
    direct = None if node.address is None else Address(node.address, node.port, "direct")
    published = None
    if node.published_host is not None and node.published_port is not None:
        published = Address(node.published_host, node.published_port, "published")
    if direct is None or published is None:
        if only := direct or published:
            return only
        raise ServerUnreachable(f"{node.name} has no address", "run `replexplorer up`")
    try:
        await _reach(direct)
    except ConnectionRefusedError:
        return published if await _is_greeted(published) else direct
    except OSError:  # a timeout is one too
        return published
    return direct


async def tunnel_address(node: NodeAddress) -> Address:
    """Where a node's server is for the other nodes, when it is dialled by a tunnel; raises ServerUnreachable
    while it has no address."""
    if node.address is None:
        raise ServerUnreachable(f"{node.name} has no address", "run `replexplorer up`")
    return Address(node.address, node.port, "tunnel")


async def _reach(address: Address, greeting_bytes: int = 0) -> None:
    """Open a TCP connection, read this many bytes, close; raises OSError or IncompleteReadError."""
    async with asyncio.timeout(PROBE_TIMEOUT_S):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        try:
            await reader.readexactly(greeting_bytes)
        finally:
            writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _is_greeted(address: Address) -> bool:
    """Whether a server speaks first at this address, as MySQL does."""
    try:
        await _reach(address, greeting_bytes=1)
    except (OSError, EOFError):  # Docker's proxy accepts and closes when nobody is behind it
        return False
    return True


def _import_driver() -> None:
    """Import what a login needs before its time runs: on a busy machine that alone takes a second."""
    import asyncmy.cursors
    import asyncmy.errors  # noqa: F401


class ControlConnection:
    """One control connection to one server (`ports.Sql`); it logs in at the first call."""

    def __init__(
        self,
        node: str,
        locate: Locate,
        user: str,
        password: str,
        *,
        dial: Dial | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        tls: Tls | None = None,
    ) -> None:
        """`dial` opens the way to a server that cannot be reached by its address; None: TCP from here."""
        self.node = node
        self._dial = dial
        self.address: Address | None = None
        """Where the last login went; None before the first."""
        self._locate = locate
        self._user = user
        self._password = password
        self._connect_timeout_s = connect_timeout_s
        self._tls = tls
        self._lock = asyncio.Lock()
        self._connection: Any = None

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Row]:
        """Run a statement and answer its rows; see `ports.Sql`.

        A connection that was closed while idle (the server restarted) is opened again and the
        statement sent once; one lost after sending is ServerUnreachable, its outcome unknown.
        """
        _import_driver()
        try:
            async with asyncio.timeout(deadline_s), self._lock:
                return await self._run(statement, args)
        except TimeoutError:
            raise NoAnswerInTime(f"{self.node} did not answer within {deadline_s:g} s") from None

    async def _run(self, statement: str, args: Sequence[Any]) -> Sequence[Row]:
        """Run a statement under the lock."""
        from asyncmy.errors import MySQLError

        for attempt in (1, 2):
            if self._connection is None:
                self._connection = await self._log_in()
            connection = self._connection
            try:
                async with connection.cursor() as cursor:
                    await cursor.execute(statement, tuple(args) or None)
                    rows = await cursor.fetchall() if cursor.description else ()
                return [_with_text(row) for row in rows]
            except MySQLError as error:
                number = error_number(error)
                if number not in LOST_NUMBERS:
                    raise ServerRefused(number, f"{self.node}: {number} {error_text(error)}") from None
                self._drop(connection)
                if number != SERVER_GONE or attempt == 2:
                    raise ServerUnreachable(f"{self.node}: the connection was lost") from None
            except BaseException as error:
                self._drop(connection)
                if isinstance(error, OSError | RuntimeError) and not isinstance(error, TimeoutError):
                    raise ServerUnreachable(f"{self.node}: the connection was lost ({error})") from None
                raise
        raise AssertionError("unreachable")

    async def _log_in(self) -> Any:
        """A new connection; raises ServerUnreachable."""
        address = await self._locate()
        self.address = address
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                sock = await self._dial() if self._dial is not None else None
                return await log_in(
                    address.host,
                    address.port,
                    self._user,
                    self._password,
                    sock=sock,
                    as_dicts=True,
                    first=LOOK_AT_ONCE,
                    tls=self._tls,
                )
        except TimeoutError:
            where = f"{address.host}:{address.port}"
            place = "" if where == self.node else f" at {where}"
            raise ServerUnreachable(
                f"{self.node} did not accept a login{place} within {self._connect_timeout_s:g} s"
            ) from None
        except ServerRefused as refused:
            hint = "check the account and its password" if refused.number == _ACCESS_DENIED else ""
            raise ServerUnreachable(f"{self.node} refused the login: {refused.message}", hint) from None
        except ServerUnreachable as gone:
            named = self.node in gone.message  # a server that is known by its address
            raise ServerUnreachable(
                gone.message if named else f"{self.node}: {gone.message}", gone.hint
            ) from None

    def _drop(self, connection: Any) -> None:
        """Close without a word: the stream is in an unknown state."""
        connection.close()
        if self._connection is connection:
            self._connection = None

    async def close(self) -> None:
        """Close the connection, also under a call that waits; a later call opens it again."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._lock.locked():
            connection.close()
            return
        await close_politely(connection)


async def log_in(
    host: str,
    port: int,
    user: str,
    password: str,
    *,
    database: str | None = None,
    sock: socket.socket | None = None,
    as_dicts: bool = False,
    first: str | None = None,
    tls: Tls | None = None,
    tracks: bool = False,
) -> Any:
    """An asyncmy connection in autocommit mode, over `sock` if it is given, with TLS if that is; `first` is
    the statement that it begins with (the driver's own `init_command` commits after it, which a member of a
    Galera cluster without a majority refuses). Where it `tracks`, OK packets carry what the session is set to
    track (CLIENT_SESSION_TRACK).

    Raises ServerRefused with the server's number (1045 wrong password, 1040 too many
    connections, 1049 no such database), ServerUnreachable for everything else. The caller bounds
    the time. caching_sha2_password falls back to RSA when the server's cache is cold: keys of our own servers
    are taken as they come.
    """
    import asyncmy
    from asyncmy.constants.CLIENT import SESSION_TRACK
    from asyncmy.cursors import Cursor, DictCursor
    from asyncmy.errors import MySQLError

    if tls is not None and tls.mode == "PREFERRED":
        again = partial(log_in, host, port, user, password, database=database, as_dicts=as_dicts, first=first)
        try:
            return await again(tls=replace(tls, mode="REQUIRED"))
        except ServerUnreachable:  # it may have none
            return await again(tls=replace(tls, mode="DISABLED"))
    try:
        context = None if tls is None else tls.context()
        connecting = (asyncmy.connect if tls is None else _connect_without_rsa)(
            host=host,
            port=port,
            user=user,
            password=password,
            database=database,
            sock=sock,
            autocommit=True,
            cursor_cls=DictCursor if as_dicts else Cursor,
            program_name="replexplorer",
            client_flag=SESSION_TRACK if tracks else 0,
            ssl=context,
            auth_plugin_map=_REFUSED_IN_THE_CLEAR if context is None else None,
        )
        connection = await _connected(connecting)
        if first is not None:
            try:
                await connection.query(first)
            except BaseException:
                connection.close()
                raise
        return connection
    except MySQLError as error:
        number = error_number(error)
        if (why := tls_failure(error)) is not None:
            raise ServerUnreachable(
                f"TLS to {host}:{port} failed ({why})",
                "name its certificate authority with --ssl-ca=FILE, or set --ssl-mode",
            ) from None
        if number in LOST_NUMBERS:
            raise _no_server(f"{host}:{port}", error.__cause__) from None
        raise ServerRefused(number, f"{number} {error_text(error)}") from None
    except TimeoutError:
        raise
    except OSError as error:
        raise _no_server(f"{host}:{port}", error) from None
    except (RuntimeError, ValueError, LookupError):  # another protocol ends in the driver's parser
        raise ServerUnreachable(f"what answers at {host}:{port} is not a MySQL server") from None


_ACCESS_DENIED: Final = 1045


def _no_server(where: str, why: BaseException | None) -> ServerUnreachable:
    """An unknown host, a refused connection or another end before the greeting."""
    if isinstance(why, socket.gaierror):
        return ServerUnreachable(f"the host of {where} is not known", "check the address")
    reason = f" ({os.strerror(why.errno)})" if isinstance(why, OSError) and why.errno is not None else ""
    return ServerUnreachable(f"no MySQL server answers at {where}{reason}")


def _keep_password(connection: Any) -> NoReturn:
    """Refuse a server that asks for the password as it is; the driver calls this before it answers."""
    raise ServerUnreachable(
        "the server asks for the password in clear text, which is sent over TLS only",
        "use --ssl-mode=VERIFY_IDENTITY, with --ssl-ca=FILE for its certificate authority",
    )


_REFUSED_IN_THE_CLEAR: Final = dict.fromkeys(("mysql_clear_password", "dialog"), _keep_password)
"""Authentication plugins that send the password as it is: MySQL's own clients refuse the first unless it is
allowed, the driver obeys whoever answers."""


async def _connect_without_rsa(**settings: Any) -> Any:
    """As the driver connects, but the password is encrypted by no RSA key: the driver takes whatever key
    comes, and so whoever sent it can read it."""
    from asyncmy.connection import Connection

    class WithoutKey(Connection):
        @property
        def _server_public_key(self) -> bytes | None:
            return None

        @_server_public_key.setter
        def _server_public_key(self, key: bytes | None) -> None:
            if key is not None:
                raise ServerUnreachable(
                    "the server wants the password encrypted with an RSA key that is not known here",
                    "use --ssl-mode=REQUIRED",
                )

    connection = WithoutKey(**settings)  # type: ignore[no-untyped-call]
    await connection.connect()
    return connection


async def _connected(connecting: Awaitable[Any]) -> Any:
    """What the driver answers; CancelledError where the task was cancelled meanwhile, whatever it answers.

    It connects within asyncio.wait_for, which before Python 3.12 forgets that it was cancelled where the
    connection is made or refused at the same moment (CPython issue 86296): whoever ends a task that logs in
    again and again would wait for it for ever.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    connection: Any = None
    try:
        connection = await connecting
    finally:
        if task is not None and task.cancelling() > before:
            if connection is not None:
                connection.close()
            raise asyncio.CancelledError
    return connection


async def close_politely(connection: Any) -> None:
    """Say goodbye to the server and close; never raises, never waits long."""
    from asyncmy.errors import MySQLError

    with contextlib.suppress(MySQLError, OSError, RuntimeError, TimeoutError):
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await connection.ensure_closed()
    connection.close()


def error_number(error: BaseException) -> int:
    """MySQL's number of a driver error; 0 when it carries none, as for a broken packet stream."""
    number = error.args[0] if error.args else 0
    return number if isinstance(number, int) else 0


def error_text(error: BaseException) -> str:
    """The server's words in one line."""
    return one_line(str(error.args[-1]), _MOST_SAID) if error.args else type(error).__name__


def _with_text(row: Mapping[str, Any]) -> Row:
    """The row with binary strings (as in some performance_schema tables) read as text."""
    return {
        name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for name, value in row.items()
    }
