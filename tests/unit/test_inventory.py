"""What stands in Docker under a stack's label: its nodes in order."""

from __future__ import annotations

from replexplorer.adapters.docker.inventory import Container, addresses


def container(node: str, role: str = "mysqld") -> Container:
    return Container(f"{node}-{role}", node, role, "image", "id", "running", None, None)


def test_a_node_that_is_gone_among_others_is_down() -> None:
    """A stack that lost its first node still has it, and its others keep their names."""
    found = addresses([container("db10"), container("db2"), container("db3", "sidecar")])
    assert [node.name for node in found] == [f"db{number}" for number in range(1, 11)]
    assert [node.name for node in found if node.server_running] == ["db2", "db10"]
    assert addresses([]) == []
