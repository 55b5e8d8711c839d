"""A production's ZooKeeper is read at the rate that was asked for, and never written."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from bench.rehearsal.slowly import SlowReads
from emulator.servers import zk_dump
from tests.kit.reads import Answered


class Recorded:
    """A ZooKeeper of 50 znodes, and when it was asked for what."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.asked: list[tuple[float, str]] = []

    def pause(self, seconds: float) -> None:
        self.now_s += seconds

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **_more: Any) -> Any:
            self.asked.append((self.now_s, name))
            self.now_s += 0.001
            if name == "get_children":
                return [f"n{number}" for number in range(50)]
            answer = {"get_async": (b"x", Stat()), "get_acls_async": ([], Stat())}.get(name, [])
            return Answered(lambda: answer)

        return call


class Stat:
    """Of a znode."""

    version = cversion = czxid = mzxid = pzxid = ctime = mtime = ephemeralOwner = 0  # noqa: N815


@pytest.mark.parametrize("per_s", [20.0, 200.0])
def test_reads_come_no_faster_than_asked_for_and_nothing_else_is_done(per_s: float) -> None:
    server = Recorded()
    client = SlowReads(server, per_s, lambda: server.now_s, server.pause)  # type: ignore[arg-type]

    found = zk_dump.dump("h:1", connect=lambda _hosts: client)  # type: ignore[arg-type,return-value]
    assert client.trip_s == pytest.approx(0.001)
    assert found["count"] == 50
    assert {name for _, name in server.asked} == {
        "start",
        "sync",
        "get_async",
        "get_acls_async",
        "get_children",
        "get_children_async",
        "stop",
        "close",
    }
    reads = [at for at, name in server.asked if name.startswith(("get", "sync"))]
    assert len(reads) == 11 + 151
    gaps = [after - before for before, after in pairwise(reads)]
    assert min(gaps) >= 1 / per_s - 1e-9
    assert max(gaps) < 1 / per_s + 0.01, "and no slower"
