"""Dumps that no rehearsal can begin with are refused with a sentence; what is odd is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.rehearsal.made import document
from bench.rehearsal.verdict import PhaseFigures
from bench.verbs import rehearse
from tests import data
from tests.unit.commands.test_wrong_inputs import call

FULL = "3.9.2-full"
BACK = "3.9.2-rollback-and-stale-migration-znode"
Tree = dict[str, Any]


def recorded(folder: str, step: str) -> Callable[[], Tree]:
    return lambda: data.tree(folder, step)


def without_brokers() -> Tree:
    tree = document(topics=1, partitions=1, brokers=1)
    del tree["nodes"]["/brokers/ids/1"]
    tree["count"] -= 1
    return tree


def cut() -> Tree:
    tree = document(topics=1, partitions=1, brokers=1)
    tree["nodes"].popitem()
    return tree


def grown() -> Tree:
    tree = document(topics=1, partitions=1, brokers=1)
    tree["nodes"]["/more"] = {"null": True}
    return tree


def emptied() -> Tree:
    """The topics are gone, and ``/migration`` names an offset."""
    tree = data.tree(FULL, "1-dualwrite")
    nodes = tree["nodes"]
    for path in [one for one in nodes if one.startswith("/brokers/topics/")]:
        del nodes[path]
    tree["count"] = len(nodes)
    return tree


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (recorded(FULL, "4-finalised"), "final: KRaft controller"),
        (recorded(FULL, "4b-after-finalised-write"), "no broker is in ZooKeeper mode any more"),
        (recorded(FULL, "3-2-broker2-kraft"), "no broker is in ZooKeeper mode any more"),
        (recorded(FULL, "1-dualwrite"), "dual write: KRaft controller"),
        (emptied, "every topic is gone from ZooKeeper"),
        (without_brokers, "no broker is registered in it, and no -c names the file of one"),
        (cut, "it is cut: it says that it has"),
        (grown, "it is changed: it says that it has"),
        (lambda: {"nodes": {}}, "there is no znode in it"),
    ],
)
def test_what_is_no_beginning_is_refused(
    make: Callable[[], Tree], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "tree.json"
    file.write_text(json.dumps(make()))
    code, out, err = call("rehearse", "--dump", str(file), "--out", str(tmp_path / "out"))
    assert (code, out) == (2, "")
    assert said in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("value", ["", "{}", '{"version":0}', None, "{"])
def test_a_migration_znode_that_cannot_be_read_is_a_no_go_that_says_what_to_do(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = document(topics=1, partitions=1, brokers=1)
    shown = {"null": True} if value is None else {"text": value}
    tree["nodes"]["/migration"] = {"acl": [[31, "world", "anyone"]], **shown}
    tree["count"] += 1
    file = tmp_path / "tree.json"
    file.write_text(json.dumps(tree))
    monkeypatch.setattr(rehearse, "_check_machine", lambda _out: None)

    def played(_out: Path, prepared: Any, *_more: object) -> None:
        prepared.found.phases = [PhaseFigures("copy", "", "rehearsed")]

    monkeypatch.setattr(rehearse, "_play_in", played)
    code, out, _ = call("rehearse", "--dump", str(file))
    assert code == 1
    (line,) = [one for one in out.splitlines() if "PF-B01 /migration: " in one]
    assert "to do: delete /migration if no migration is in progress" in line
