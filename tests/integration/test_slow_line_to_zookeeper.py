"""A real ZooKeeper at the end of a slow line: requests become small enough to arrive in time."""

from __future__ import annotations

import pytest

from emulator.servers.zookeeper import ZooKeeper
from tests.integration.node_stage import staged

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

BYTES_PER_S = 15_000
"""40 kB in 2/3 of a session of 4 s; the topic below is 200 kB, in multis of up to 1,000 znodes."""


@pytest.mark.requirement("W04")
def test_a_large_change_arrives_over_a_slow_line(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    zookeeper = ZooKeeper(tmp_path_factory.mktemp("far"), fsync=False)
    more = {
        "kraftbridge.zk.write.behind.max.records": 10_000,
        "kraftbridge.zk.write.behind.multi.ops": 1_000,
        "zookeeper.session.timeout.ms": 4_000,
    }
    with zookeeper, staged(zookeeper, tmp_path_factory.mktemp("node"), more) as stage:
        stage.proxy.throttle(BYTES_PER_S)
        since = len(stage.seen)
        stage.create(stage.name(), 900)
        learned = stage.settle()["migration"]["zookeeper"]
        assert learned["requests_too_slow"] >= 1
        assert learned["request_bytes_max"] < 40_000
        carried = sum(len(frame) for _, frame in stage.seen[since:])
        assert carried < 600_000, "not sent over and over"
        stage.proxy.throttle(0)
        sessions = learned["sessions"]
        for _ in range(4):
            stage.create(stage.name(), 900)
        grown = stage.settle()["migration"]["zookeeper"]
        assert grown["request_bytes_max"] > 2 * learned["request_bytes_max"]
        assert grown["sessions"] == sessions
        assert stage.disagreements() == []
