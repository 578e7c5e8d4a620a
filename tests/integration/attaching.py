"""A stack of the tests as servers that somebody else made: reached by an address and an account alone."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.integration.conftest import LiveStack
from tests.integration.shell import Shell

TLS = "--ssl-mode=REQUIRED"
"""The servers sign their certificates themselves."""
MOVES_BY_ITSELF = ("gtid_", "timestamp", "rand_seed", "pseudo_", "last_insert_id", "innodb_lsn", "slave_pos")


async def outsider(live: LiveStack, home: Path) -> Shell:
    """A user's shell that knows the published address of the source and the account that `dsn` hands out."""
    source = (await live.stack.nodes())[0]
    place = f"127.0.0.1:{source.published_port}"
    user, password = live.credentials.dsn_user, live.credentials.dsn_password
    options = f"host=127.0.0.1\nport={source.published_port}\nuser={user}\npassword={password}\n"
    (home / ".my.cnf").write_text(f"[client]\n{options}")
    shell = Shell(home, "default")
    shell.environment |= {
        "HOME": str(home),
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
    (journal,) = Path(shell.environment["XDG_STATE_HOME"]).rglob("attached/*.json")
    assert journal.stat().st_mode & 0o777 == 0o600
    return journal.read_text()


async def change_kill_and_revert(live: LiveStack, shell: Shell, *changes: str) -> Any:
    """Change these, kill -9, revert: every variable of every server is as before. Answers what was undone."""
    before = await variables(live)
    with shell.started("attach", TLS, "--allow-changes", "--set", *changes) as attach:
        attach.until_said("at Ctrl-C", within_s=60)
        changed = await variables(live)
        assert sum(before[key] != changed[key] for key in before) >= len(changes)
        attach.send_signal(signal.SIGKILL)
        attach.ends()
    assert live.credentials.dsn_password not in journal_of(shell)
    refused = shell.run("attach", TLS, "--allow-changes", "--set", changes[0], code=4)
    assert "an `attach` that was killed" in refused.stderr
    assert "`replexplorer attach revert`" in refused.stderr
    report = shell.json("revert", apart=True)
    assert await variables(live) == before
    assert "no change of `attach` is left" in shell.run("revert").stderr
    return report
