"""A stack of the tests as servers that somebody else made: reached by an address and an account alone."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replexplorer.core.dialect.own_schema import SCHEMA
from replexplorer.formats.json.attach import AttachChanges, RevertReport
from tests.integration.conftest import LiveStack
from tests.integration.shell import Shell
from tests.waiting import patience, until

TLS = "--ssl-mode=REQUIRED"
"""The servers sign their certificates themselves."""
MOVES_BY_ITSELF = ("gtid_", "timestamp", "rand_seed", "pseudo_", "last_insert_id", "innodb_lsn", "slave_pos")


async def outsider(live: LiveStack, home: Path) -> Shell:
    """A user's shell that knows the published address of the source and the account that `dsn` hands out."""
    source = (await live.stack.nodes())[0]
    place = f"127.0.0.1:{source.published_port}"
    user, password = live.credentials.dsn_user, live.credentials.dsn_password
    shell = Shell(home, "default")
    shell.environment |= {
        "HOME": str(home),
        "MYSQL_DSN": f"mysql://{user}:{password}@{place}/sandbox",
        "REPLEXPLORER_ATTACH_ALLOWED": f'["{place}"]',
    }
    return shell


async def variables(live: LiveStack) -> Mapping[tuple[str, str], Any]:
    """Every global variable of every node."""
    found = {}
    for node in await live.stack.nodes():
        async with live.session(node.name) as cursor:
            await cursor.execute("SHOW GLOBAL VARIABLES")
            for name, value in await cursor.fetchall():
                if not name.startswith(MOVES_BY_ITSELF):
                    found[node.name, name] = value
    return found


def journal_of(shell: Shell) -> str:
    """What the one journal says, which its owner alone can read."""
    (journal,) = Path(shell.environment["XDG_STATE_HOME"]).rglob("attached/*.jsonl")
    assert journal.stat().st_mode & 0o777 == 0o600
    return journal.read_text()


async def change_kill_and_revert(live: LiveStack, shell: Shell, *changes: str) -> RevertReport:
    """Change these, kill -9, revert: every variable of every server is as before. Answers what was undone."""
    before = await variables(live)
    with shell.started("attach", TLS, "--allow-changes", "--set", *changes) as attach:
        attach.until_said("Ctrl-C undoes them", within_s=60)
        changed = await variables(live)
        assert sum(before[key] != changed[key] for key in before) >= len(changes)
        attach.send_signal(signal.SIGKILL)
        attach.ends()
    assert live.credentials.dsn_password not in journal_of(shell)
    refused = shell.run("attach", TLS, "--allow-changes", "--set", changes[0], code=4)
    assert "an `attach` that was killed" in refused.stderr
    assert "`replexplorer revert`" in refused.stderr
    report = RevertReport.model_validate(shell.json("revert"))
    assert await variables(live) == before
    assert "no change of `attach` is left" in shell.run("revert").stderr
    return report


LOAD = ("attach", TLS, "--allow-changes", "--load", "50", "--table-size", "1000")
RUNS = "the load runs"
_QUIET_S = 2.0
_STOPS_WITHIN_S = 1.0


async def has_schema(live: LiveStack, node: str) -> bool:
    """Whether the load's schema is there."""
    named = f"SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '{SCHEMA}'"
    return bool(await live.value(node, named))


async def schema_is_gone(live: LiveStack) -> None:
    """From the source when this begins, from its replica soon."""
    assert not await has_schema(live, "db1")

    async def nowhere() -> bool:
        return not await has_schema(live, "db2")

    await until(nowhere, "the replica has dropped it too", within_s=20)


async def updates(live: LiveStack) -> int:
    """UPDATE statements since the source's start."""
    async with live.session("db1") as cursor:
        await cursor.execute("SHOW GLOBAL STATUS LIKE 'Com_update'")
        return int((await cursor.fetchone())[1])


async def run_a_load(live: LiveStack, shell: Shell) -> AttachChanges:
    """Run one to the end of its time: the rate is kept, the schema is dropped, all is as before."""
    before = await variables(live)
    changes = AttachChanges.model_validate(shell.json(*LOAD, "--for", "6s"))
    load = changes.load
    assert load is not None
    assert load.tps is not None
    assert load.server_tps is not None
    assert load.replicates_to, "whoever reads it knows where the rows went"
    assert 40 < load.tps < 60, "Poisson arrivals, 50 a second"
    assert load.server_tps > load.tps / 2
    assert (load.errors, load.unknown, load.ended) == (0, 0, None)
    assert [(each.variable, each.fate) for each in changes.undone] == [(f"schema {SCHEMA}", "restored")]
    await schema_is_gone(live)
    assert await variables(live) == before
    return changes


async def stop_a_load(live: LiveStack, shell: Shell) -> float:
    """End one by a signal; answers after how many seconds the source saw its last statement."""
    with shell.started(*LOAD, "--watch") as attach:
        attach.until_said(RUNS, within_s=60)
        count = await updates(live)

        async def works() -> bool:
            return await updates(live) > count + 20

        await until(works, "it works", within_s=20)
        attach.until(lambda: "errors 0" in attach.printed(), "a line has its TPS", within_s=30)
        attach.send_signal(signal.SIGTERM)
        sent_s = last_s = time.monotonic()
        count = await updates(live)
        while time.monotonic() < last_s + _QUIET_S:
            now = await updates(live)
            if now != count:
                count, last_s = now, time.monotonic()
            await asyncio.sleep(0.02)
        assert attach.ends() == 128 + signal.SIGTERM
    assert last_s - sent_s < _STOPS_WITHIN_S * patience()
    await schema_is_gone(live)
    return last_s - sent_s


async def kill_a_load_and_revert(live: LiveStack, shell: Shell) -> None:
    """kill -9: its generator ends by itself, and `revert` drops the schema and sets the variable back."""
    before = await variables(live)
    with shell.started(*LOAD, "--set", "sync_binlog=9") as attach:
        attach.until_said(RUNS, within_s=60)
        attach.send_signal(signal.SIGKILL)
        attach.ends()
    assert await has_schema(live, "db1")
    assert SCHEMA in journal_of(shell)
    assert live.credentials.dsn_password not in journal_of(shell)
    assert "an `attach` that was killed" in shell.run(*LOAD, code=4).stderr

    async def quiet() -> bool:
        count = await updates(live)
        await asyncio.sleep(0.5)
        return await updates(live) == count

    await until(quiet, "the generator has ended", within_s=10)
    (source,) = RevertReport.model_validate(shell.json("revert")).reverted
    fates = {(row.variable, row.fate) for row in source.variables}
    assert fates == {(f"schema {SCHEMA}", "restored"), ("sync_binlog", "restored")}
    await schema_is_gone(live)
    assert await variables(live) == before


async def stop_a_blocked_load(live: LiveStack, shell: Shell) -> None:
    """End one while its commits wait for an acknowledgement that does not come: the program ends, and its
    schema is dropped once the server lets it."""
    enabled, timeout = "rpl_semi_sync_source_enabled", "rpl_semi_sync_source_timeout"
    before = await live.value("db1", f"SELECT @@GLOBAL.{timeout}")
    await _execute(live, "db1", f"SET GLOBAL {timeout} = 600000", f"SET GLOBAL {enabled} = ON")
    try:
        with shell.started(*LOAD) as attach:
            attach.until_said(RUNS, within_s=60)
            await _execute(live, "db2", "STOP REPLICA IO_THREAD")

            async def blocked() -> bool:
                state = "Waiting for semi-sync ACK from replica"
                return bool(
                    await live.value(
                        "db1",
                        f"SELECT COUNT(*) FROM performance_schema.processlist WHERE state = '{state}'",
                    )
                )

            await until(blocked, "a commit waits", within_s=20)
            attach.send_signal(signal.SIGTERM)
            assert attach.ends() == 128 + signal.SIGTERM
            assert "still to be dropped" in attach.said()
        assert await has_schema(live, "db1")
        await _execute(live, "db2", "START REPLICA IO_THREAD")

        async def goes_on() -> bool:
            return not await blocked()

        await until(goes_on, "the commits are acknowledged", within_s=30)
        shell.run("revert")
        await schema_is_gone(live)
    finally:
        await _execute(live, "db2", "START REPLICA IO_THREAD")
        await _execute(live, "db1", f"SET GLOBAL {enabled} = OFF", f"SET GLOBAL {timeout} = {before}")


async def _execute(live: LiveStack, node: str, *statements: str) -> None:
    async with live.session(node) as cursor:
        for statement in statements:
            await cursor.execute(statement)
