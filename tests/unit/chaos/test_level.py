"""Logs and ZooKeeper are waited for while they lack something; what differs then is a fault."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from bench.chaos.level import differing, whole_logs
from bench.judge.stores import Entities, end_of, from_log
from emulator.servers.zk_dump import UnreadableError

CONFIG = {"resourceType": 2, "resourceName": "t", "name": "k", "value": "v"}


def log(*kinds: str) -> list[dict[str, Any]]:
    """One record per kind: ``config``, or ``no-op``."""
    types = {"config": "CONFIG_RECORD", "no-op": "NO_OP_RECORD"}
    return [
        {"type": types[kind], "data": CONFIG if kind == "config" else {}, "offset": offset}
        for offset, kind in enumerate(kinds)
    ]


def same(records: list[dict[str, Any]]) -> Entities:
    return from_log(records)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between the looks; none is really made."""
    pauses: list[float] = []
    monkeypatch.setattr("bench.chaos.level.time.sleep", pauses.append)
    return pauses


def test_a_log_that_is_behind_is_read_again(looks: list[float]) -> None:
    states: Iterator[Any] = iter(
        [subprocess.CalledProcessError(1, "dump"), log("config"), log("config", "no-op")]
    )

    def read(_node: int) -> list[dict[str, Any]]:
        found = next(states)
        if isinstance(found, Exception):
            raise found
        return list(found)

    assert end_of(whole_logs(read, [3000], 2)[3000]) == 1
    assert len(looks) == 2


def test_a_log_that_stays_behind_is_returned_as_it_is() -> None:
    assert whole_logs(lambda _node: log("config"), [3000], 2, patience_s=0) == {3000: log("config")}


def test_zookeeper_that_lacks_nothing_is_compared_at_once(looks: list[float]) -> None:
    whole = log("config", "no-op", "no-op")
    assert differing(lambda: 0, lambda: same(whole), lambda: whole, lambda: None) == []
    [line] = differing(lambda: 0, Entities, lambda: whole, lambda: None)
    assert line.startswith("config topics/t")
    assert not looks, "a difference is not waited for"


def test_zookeeper_that_is_behind_is_read_again(looks: list[float]) -> None:
    whole = log("config", "config")
    trees = iter([UnreadableError("slow"), Entities(), same(whole)])

    def tree() -> Entities:
        found = next(trees)
        if isinstance(found, Exception):
            raise found
        return found

    offsets = iter([0, 0, 1])
    assert differing(lambda: next(offsets), tree, lambda: whole, lambda: None) == []
    assert len(looks) == 2


def test_a_change_that_zookeeper_never_gets_is_a_fault() -> None:
    whole = log("config", "no-op", "config")
    [line] = differing(lambda: 1, lambda: same(whole), lambda: whole, lambda: None, patience_s=0)
    assert line.endswith("ZooKeeper at offset 1 lacks CONFIG_RECORD at 2")


def test_the_log_of_a_leader_that_is_behind_zookeeper_is_read_again(looks: list[float]) -> None:
    logs: Iterator[Any] = iter(
        [log("config"), subprocess.CalledProcessError(1, "dump"), log("config", "config")]
    )

    def read() -> list[dict[str, Any]]:
        found = next(logs)
        if isinstance(found, Exception):
            raise found
        return list(found)

    tree = same(log("config", "config"))
    assert differing(lambda: 1, lambda: tree, read, lambda: None) == []
    assert len(looks) == 2
