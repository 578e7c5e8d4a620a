"""What stands in Docker under a stack's label: its nodes in order, and a stack of an earlier version."""

from __future__ import annotations

import pytest

from replexplorer.adapters.docker.inventory import Container, addresses, refuse_other_names
from replexplorer.core.errors import StackUnavailable


def container(node: str, role: str = "mysqld") -> Container:
    return Container(f"{node}-{role}", node, role, "image", "id", "running", None, None, by_compose=False)


def test_a_node_that_is_gone_among_others_is_down() -> None:
    """A stack that lost its first node still has it, and its others keep their names."""
    found = addresses([container("db10"), container("db2"), container("db3", "sidecar")])
    assert [node.name for node in found] == [f"db{number}" for number in range(1, 11)]
    assert [node.name for node in found if node.server_running] == ["db2", "db10"]
    assert addresses([]) == []


def test_a_stack_whose_nodes_have_no_numbers_is_refused_with_the_command_that_removes_it() -> None:
    refuse_other_names("mine", [container("db1"), container("db2")])
    with pytest.raises(
        StackUnavailable, match=r"earlier replexplorer \(its nodes: primary, replica\)"
    ) as told:
        refuse_other_names("mine", [container("primary"), container("replica")])
    assert "replexplorer down --stack mine" in told.value.hint
