"""A ZooKeeper whose log is synced slowly: one change waits, many share a sync."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench.runs import zookeepers
from bench.runs.scenario import Case

pytestmark = [pytest.mark.jvm, pytest.mark.jars]
SYNC_MS = 120.0


def test_a_write_takes_as_long_as_a_sync_and_many_at_once_not_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeepers, "warm", lambda client: client.create(zookeepers.WARM_UP, b""))
    with (
        zookeepers.running(Case("slow", fsync_ms=(SYNC_MS,)), tmp_path) as servers,
        zookeepers.connected(servers.hosts) as client,
    ):
        assert servers.leader().four_letters("mntr")
        began = time.monotonic()
        client.set(zookeepers.WARM_UP, b"x")
        one_s = time.monotonic() - began
        assert one_s * 1e3 >= SYNC_MS
        began = time.monotonic()
        for pending in [client.set_async(zookeepers.WARM_UP, b"x") for _ in range(200)]:
            pending.get(timeout=60)
        # Each by itself would take 24 s.
        assert time.monotonic() - began < 200 * SYNC_MS / 1e3 / 3
