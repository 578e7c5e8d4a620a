"""Scenes: the shipped modes, saving and reading back, and errors that name file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from replexplorer.core.knobs.names import defaults, desired_of, parse_assignment, parse_name
from replexplorer.core.preset import Preset
from replexplorer.core.topology import Roster, new_roster
from replexplorer.formats import scenes
from replexplorer.formats.scenes import (
    SHIPPED,
    find_scene,
    load_scenes,
    own_file,
    read_scene,
    save_scene,
    scene_keys,
    turned,
)
from tests.known import refused
from tests.typed import typed


@pytest.fixture(autouse=True)
def _own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own are here."""
    monkeypatch.setattr(scenes, "scenes_directory", lambda: tmp_path)


REPLICAS = ("db2", "db3")


def test_a_shipped_mode_is_the_published_one(snapshot: object) -> None:
    modes = [find_scene(name) for name in SHIPPED]
    assert {mode.name: (mode.origin, mode.title, mode.knobs) for mode in modes} == snapshot


def test_the_four_modes_are_listed_before_the_users_own(tmp_path: Path) -> None:
    save_scene(Preset("zoo", "", "user", tmp_path / "zoo.toml", {"rtt": 85.0}))
    (tmp_path / "broken.toml").write_text("[knobs]\nrtt = 'abc'\n")
    found = load_scenes()
    assert [scene.name for scene in found if not scene.error] == [*SHIPPED, "zoo"]
    [broken] = [scene for scene in found if scene.error]
    assert f"{tmp_path}/broken.toml" in str(broken.error)


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    requested = defaults(REPLICAS) | typed("rtt@db2=85.5 semi_sync=on")
    knobs, file = scene_keys(requested), own_file("mine")
    wrote = Preset("mine", 'with "quotes" and \\', "user", file, knobs, whole=True)
    assert not save_scene(wrote)
    scene = find_scene("mine")
    assert scene == wrote
    assert scene.holds == "all knobs"
    texts = [parse_assignment(text, new_roster(2)) for text in scene.assignments()]
    assert desired_of(texts) == requested
    assert save_scene(scene)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_where_all_replicas_agree_the_key_is_bare_and_a_link_between_two_never_is() -> None:
    own = {"rtt@db2:db3": 5.0, "sync_relay_log@db2": 1, "sync_relay_log@db3": 100, "sync_binlog": 0}
    agreed = typed("rtt@db2=5 rtt@db3=5 sync_binlog@db2=0")
    requested = agreed | {parse_name(name): value for name, value in own.items()}
    assert scene_keys(requested) == {**own, "rtt": 5.0, "sync_binlog@db2": 0}
    farther = requested | typed("rtt@db2:db3=9")
    assert scene_keys(farther) == {**scene_keys(requested), "rtt@db2:db3": 9.0}


def test_a_scene_from_before_nodes_had_numbers_is_applied(tmp_path: Path) -> None:
    """Its aliases are the nodes that have the roles now, after a failover."""
    roster = Roster(("db1", "db2", "db3"), "db2")
    (tmp_path / "old.toml").write_text(
        'title = "two replicas"\n[knobs]\nsync_binlog = 0\n"rtt@replica" = 85.0\n'
        '"rtt@replica2" = 5.0\n"innodb_flush_log_at_trx_commit@primary" = 2\n"sync_relay_log@replica2" = 7\n'
    )
    scene = find_scene("old")
    now = "sync_binlog=0 rtt@db1=85 rtt@db3=5 innodb_flush_log_at_trx_commit=2 sync_relay_log@db3=7"
    assert desired_of([parse_assignment(text, roster) for text in scene.assignments()]) == typed(now)


MISTAKES = """\
[knobs]; sync_binlgo = 1
[knobs]; semi_sync_timeout = 0
[knobs]; rtt = "85%"
[knobs]; rtt = [1]
[knobs]; semi_sync.on = true
[knobs]
title = 5; [knobs]; rtt = 1
[knob]; rtt = 1
rtt =
"""


def test_a_wrong_scene_is_one_line_with_file_and_key(tmp_path: Path, snapshot: object) -> None:
    told = {}
    for line in MISTAKES.splitlines():
        (tmp_path / "wrong.toml").write_text(line.replace("; ", "\n"))
        told[line] = refused(find_scene, "wrong").replace(str(tmp_path), "HERE")
    assert told == snapshot


def test_words_and_units_are_accepted_as_on_the_command_line(tmp_path: Path, snapshot: object) -> None:
    file = tmp_path / "words.toml"
    file.write_text('[knobs]\nsemi_sync = true\nrtt = "85ms"\n"rtt@db3" = 10\nsemi_sync_timeout = "10s"\n')
    assert read_scene(file).assignments() == snapshot


def test_an_unknown_scene_gets_a_suggestion_and_an_unusable_name_is_refused() -> None:
    assert "did you mean network" in refused(find_scene, "netwrok")
    assert "unknown preset" in refused(find_scene, "../../etc/passwd")
    for name in ("none", "Bad Name", "", "../up", "a" * 41):
        assert refused(own_file, name)


def test_a_sweep_turns_of_a_whole_scene_what_is_not_at_its_default_on_all_replicas_where_one_has_it() -> None:
    """It turned every knob, so that `sweep scene=none,mine` was refused beside any other knob."""
    at_rest = {"sync_binlog": 1, "sync_binlog@db2": 1, "rtt@db2": 0.0, "rtt@db3": 0.0}
    assert turned(at_rest) == set(at_rest)
    assert turned(at_rest | {"sync_binlog": 0}) == {"sync_binlog"}
    assert turned(at_rest | {"rtt@db3": 5.0}) == {"rtt@db2", "rtt@db3"}
