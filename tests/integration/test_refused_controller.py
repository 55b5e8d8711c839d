"""A controller on a restored folder, at the address that running brokers know.

Brokers have read further than its log goes. They must keep what they have, and follow the right
folder again when that is started, without a restart of theirs.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.load import cluster_api as api
from emulator.servers.bridge import Bridge
from emulator.servers.waiting import wait_for
from emulator.servers.zk_dump import contents, dump
from tests.kit.fixtures import StartBrokers
from wire import messages as m

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

STARTS = 3
"""Of the restored folder: in the end its epoch is above that of the right folder's next start."""
FETCHES = re.compile(r'^kraft_bridge_requests_total\{api="Fetch",.*\} (\d+)', re.MULTILINE)
FETCHES_MIN = 6
RESIGNED = re.compile(r"\[Controller id=\d+\] Resigned")
KRAFT = "dual write"
"""The phase in which every broker is in KRaft mode."""


def fetches(bridge: Bridge) -> int:
    """How often the copy was asked for its log."""
    found = FETCHES.search(bridge.wait_page("/metrics"))
    return int(found[1]) if found else 0


def asked(bridge: Bridge, times: int) -> None:
    """Wait until the broker has asked it for its log so often."""
    wait_for("requests of the broker", lambda: fetches(bridge) >= times)


def followed(bridge: Bridge) -> tuple[int, int]:
    """End of the log, and how far the one broker has read it."""
    kinds = m.DescribeQuorumRequest
    partition = kinds.PartitionData(partition_index=0)
    asked = kinds(topics=[kinds.TopicData(topic_name="__cluster_metadata", partitions=[partition])])
    answer = asyncio.run(api.call(f"127.0.0.1:{bridge.port}", asked, 1))
    (found,) = answer.topics[0].partitions
    ends = [one.log_end_offset for one in found.observers]
    return found.current_voters[0].log_end_offset, max(ends, default=-1)


def resigned(lines: list[str]) -> bool:
    """Whether the broker, controller in ZooKeeper mode before, says that it is no longer."""
    return any(RESIGNED.search(line) for line in lines)


def status(bridge: Bridge) -> dict[str, Any]:
    return bridge.wait_status("an answer", bool)


def follows(bridge: Bridge) -> bool:
    end, read = followed(bridge)
    return end - read < 10


@pytest.mark.parametrize(
    ("release", "kraft"), [("3.9.2", False), ("3.9.2", True), ("3.4.1", False)]
)
def test_running_brokers_survive_a_restored_controller_at_their_address(
    release: str, kraft: bool, brokers: StartBrokers, tmp_path: Path
) -> None:
    cluster = brokers(release, count=1)
    (broker,) = cluster.brokers
    right = Bridge(tmp_path / "right", cluster.zk, release=release)
    restored = Bridge(tmp_path / "restored", cluster.zk, release=release, port=right.port)
    try:
        cluster.migrate(right.port, rolling=False)
        cluster_id = json.loads(contents(dump(cluster.zk))["/cluster/id"] or b"")["id"]
        right.format(cluster_id).start().wait_dual_write()
        # A broker that was the controller and has not yet heard of the claim makes the topic itself
        # and answers REQUEST_TIMED_OUT (docs/divergence.md).
        wait_for("the old controller resigns", lambda: resigned(broker.lines()))
        asyncio.run(api.create_topics(broker.bootstrap, [api.topic("first", 1, 1, {})]))
        if kraft:
            broker.stop()
            broker.zk, broker.migration = None, False
            broker.start().wait_started()
            right.wait_status("dual write", lambda found: found["migration"]["phase"] == KRAFT)
        right.wait_drained()
        assert right.stop() == 0
        shutil.copytree(right.data, restored.data)
        right.start().wait_dual_write()
        later = [api.topic(f"later-{index}", 3, 1, {}) for index in range(20)]
        asyncio.run(api.create_topics(broker.bootstrap, later))
        right.wait_drained()
        wait_for("the broker has read the log", lambda: follows(right))
        epoch = status(right)["leader_epoch"]
        assert right.stop() == 0
        logged = len(broker.lines())

        for start in range(STARTS):
            restored.start().wait_started()
            refused = restored.wait_status(
                "a refusal", lambda found: found["migration"]["phase"] == "refused"
            )
            assert refused["leader_epoch"] == epoch + start
            (waiting,) = refused["migration"]["waiting"]
            assert "start the controller with the folder that was used last" in waiting["text"]
            asked(restored, FETCHES_MIN)
            end = status(restored)["offsets"]["log_end"]
            asked(restored, fetches(restored) + FETCHES_MIN)
            assert status(restored)["offsets"]["log_end"] == end, "nobody's records"
            restored.stop()

        assert broker.alive
        right.start().wait_dual_write()
        wait_for("the broker follows the right log", lambda: follows(right))
        asyncio.run(api.create_topics(broker.bootstrap, [api.topic("after", 1, 1, {})]))
        wait_for(
            "the topic on the broker",
            lambda: "after" in asyncio.run(api.shape(broker.bootstrap)).topics,
        )
        wait_for("the broker has read it", lambda: follows(right))
        shape = asyncio.run(api.shape(broker.bootstrap))
        assert {"first", "later-0", "later-19", "after"} <= shape.topics.keys()
        bad = re.compile("truncat|FATAL|fault handler", re.IGNORECASE)
        assert [line for line in broker.lines()[logged:] if bad.search(line)] == []
    finally:
        restored.kill()
        right.kill()
