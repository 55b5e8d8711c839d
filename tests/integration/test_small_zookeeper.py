"""A real ZooKeeper with ``jute.maxbuffer`` at 64 KiB: requests become small enough for it.

The limits are those of the server alone. Nothing tells the controller of them.
"""

from __future__ import annotations

import pytest

from emulator.servers.zookeeper import ZooKeeper
from tests.integration.node_stage import staged

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

JUTE_MAXBUFFER = 65_535


@pytest.mark.requirement("W04", "W07")
def test_large_changes_and_large_readings_fit_a_small_zookeeper(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A topic of 900 partitions is 1,803 znodes, 200 KB; at the end the whole tree is read."""
    zookeeper = ZooKeeper(tmp_path_factory.mktemp("small"), fsync=False)
    zookeeper.java_flags = (f"-Djute.maxbuffer={JUTE_MAXBUFFER}",)
    more = {
        "kraftbridge.zk.write.behind.max.records": 10_000,
        "kraftbridge.zk.write.behind.multi.ops": 1_000,
    }
    with zookeeper, staged(zookeeper, tmp_path_factory.mktemp("node"), more) as stage:
        stage.create(stage.name(), 900)
        status = stage.settle()
        learned = status["migration"]["zookeeper"]
        assert learned["requests_too_large"] >= 1
        assert learned["request_bytes_max"] <= JUTE_MAXBUFFER
        assert stage.scrape()["kraft_bridge_zk_request_limit_bytes"] == learned["request_bytes_max"]
        too_long = [frame for _, frame in stage.seen if len(frame) > JUTE_MAXBUFFER]
        assert 2 <= len(too_long) <= 20, "two before it concludes; each may be two multis in flight"
        assert len(stage.multis()) < 120

        seen, sessions = len(stage.seen), learned["sessions"]
        for _ in range(3):
            stage.create(stage.name(), 900)
        settled = stage.settle()["migration"]["zookeeper"]
        assert max(len(frame) for _, frame in stage.seen[seen:]) <= JUTE_MAXBUFFER
        assert settled["sessions"] == sessions, "no connection was lost"

        assert stage.bridge.stop() == 0
        stage.bridge.start().wait_dual_write()
        assert stage.disagreements() == []
