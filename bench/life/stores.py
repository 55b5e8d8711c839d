"""The two stores, read from outside: ZooKeeper raw, the metadata log by Kafka's own tool."""

from __future__ import annotations

import shutil
import tempfile
from typing import Any

from bench.judge import matrix_stores as judge
from bench.judge import stores as plain
from bench.life.stage import Stage
from bench.rig.bridge import Bridge
from bench.rig.waiting import PATIENCE_S
from bench.rig.zk_dump import UnreadableError, contents, dump, versions


def tree(stage: Stage) -> judge.Stores:
    """ZooKeeper now."""
    found = dump(stage.zk.hosts, with_secrets=True, timeout_s=PATIENCE_S)
    held = judge.read_tree(contents(found))
    held.plain.versions = versions(found)
    return held


def log(stage: Stage) -> judge.Stores:
    """The log of the controller that leads.

    Raises:
        ProcessError: a server has ended.
        TimeoutError: Kafka's tool cannot read it.
    """
    records = stage.wait("log read whole", lambda: _records(stage, stage.leader()))
    return judge.read_log(records)


def longest(stage: Stage) -> list[dict[str, Any]]:
    """Records of the longest log of the controllers, which may have ended.

    Raises:
        ProcessError: a server has ended.
        TimeoutError: Kafka's tool cannot read one.
    """
    nodes = stage.controllers.nodes.values()
    read = stage.wait("logs read whole", lambda: [_records(stage, node) for node in nodes])
    return max(read, key=len)


def _records(stage: Stage, node: Bridge) -> list[dict[str, Any]]:
    folder = node.data / "__cluster_metadata-0"
    with tempfile.TemporaryDirectory() as scratch:
        copies = [str(shutil.copy(one, scratch)) for one in sorted(folder.glob("*.log"))]
        printed = stage.tools.run(
            "kafka.tools.DumpLogSegments",
            *("--cluster-metadata-decoder", "--skip-record-metadata"),
            *("--files", ",".join(copies)),
        )
    if printed.code:
        raise UnreadableError(f"kafka-dump-log cannot read the log: {printed.err[:300]}")
    return list(plain.read_dump(printed.out))


def agree(stage: Stage) -> tuple[judge.Stores, list[str]]:
    """The log, and what differs between it and ZooKeeper, as of one offset.

    Both are read again while ``/migration`` lacks a change of the log: ZooKeeper was read from that
    offset on, and the log after it. Once it lacks none, what differs is a fault, and is not waited
    for.

    Raises:
        ProcessError: a server has ended.
        TimeoutError: it lacked one for 15 minutes, or Kafka's tool cannot read the log.
    """

    def level() -> tuple[judge.Stores, judge.Stores] | None:
        reached = stage.znode("/migration")["kraft_metadata_offset"]
        held = tree(stage)
        wanted = log(stage)
        # The log of one that leads no more may end before that offset.
        end = max(wanted.last_change, wanted.plain.offset)
        return (wanted, held) if wanted.last_change <= reached <= end else None

    found = stage.wait("/migration at the end of the log", level)
    assert found is not None
    wanted, held = found
    return wanted, judge.differences(held, wanted)
