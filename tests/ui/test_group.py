"""The members of a group on the dashboard: who takes writes, who is on the way in, what was refused."""

from __future__ import annotations

from dataclasses import replace

from replexplorer.core.server.node_view import Membership, Transfer, TransferKind
from replexplorer.core.system import GALERA, GROUP
from replexplorer.core.tick import Tick
from replexplorer.core.topology import Belonging, Role
from replexplorer.ui.widgets.topology import group_line
from tests.fakes.facade import make_tick
from tests.ui.driving import bench

ONLINE = Membership(Belonging.MEMBER, "ONLINE", size=3, answering=3, queued=0, to_apply=0, conflicts=0)
AWAY = {
    "RECOVERING": replace(ONLINE, belongs=Belonging.JOINING, state="RECOVERING"),
    "ERROR": replace(ONLINE, belongs=Belonging.OUTSIDE, state="ERROR"),
}


def group_tick(*members: Membership) -> Tick:
    """Three nodes that say this of their group; the first takes writes."""
    tick = make_tick(1.0, replicas=2)
    roles = {Belonging.MEMBER: Role.SECONDARY, Belonging.JOINING: Role.JOINING}
    nodes = tuple(
        replace(
            node,
            role=Role.PRIMARY if node.is_source else roles.get(member.belongs, Role.DETACHED),
            state=member.state,
            member=member,
            io_thread=None,
            sql_thread=None,
            lag_s=None,
        )
        for node, member in zip(tick.nodes, members, strict=True)
    )
    return replace(tick, system="group", nodes=nodes)


async def test_members_send_to_each_other() -> None:
    async with bench(group_tick(ONLINE, ONLINE, replace(ONLINE, conflicts=3)), size=(160, 45)) as app:
        rows = [row.strip() for row in app.rows("#topology")]
        assert rows[0] == "db1 primary 9.7.4 :33061 ◂─▸ db2 secondary"
        assert rows[1] == "◂─▸ db3 secondary"
        assert rows[2].startswith("conflicts 3  queued db1 0 db2 0 db3 0")
        assert "members 3/3" in app.text("#header")


def test_of_members_that_count_their_own_the_conflicts_are_added() -> None:
    members = [replace(ONLINE, conflicts=number, gave_way=2) for number in (1, 2, 3)]
    nodes = group_tick(*members).nodes
    text = "".join(part for part, _ in group_line(GALERA, nodes, 120))
    assert text == " conflicts 6  queued db1 0 db2 0 db3 0  gave way 6"
    assert "".join(part for part, _ in group_line(GROUP, nodes, 120)).startswith(" conflicts 3  queued")


async def test_one_that_is_no_member_is_named_with_its_state() -> None:
    tick = group_tick(ONLINE, AWAY["RECOVERING"], AWAY["ERROR"])
    async with bench(tick, size=(160, 45)) as app:
        rows = [row.strip() for row in app.rows("#topology")]
        assert rows[0] == "db1 primary 9.7.4 :33061 ╌╌▸ db2 RECOVERING"
        assert rows[1] == "db3 ERROR"
        assert "members 1/3" in app.text("#header")


async def test_a_member_that_is_given_what_it_lacks_says_which_and_how_far() -> None:
    tick = group_tick(ONLINE, ONLINE, AWAY["RECOVERING"])
    given = Transfer(TransferKind.IST, 0.0, 3.0, donor="db1", done=617, total=1234)
    nodes = (*tick.nodes[:2], replace(tick.nodes[2], reachable=False, transfer=given))
    async with bench(replace(tick, nodes=nodes), size=(160, 45)) as app:
        rows = [row.strip() for row in app.rows("#topology")]
        assert rows[1] == "╌╌▸ db3 IST 50 %"
