"""The two stores, read from outside: ZooKeeper raw, the metadata log by Kafka's own tool."""

from __future__ import annotations

import shutil
import tempfile
from typing import Any

from bench.judge import matrix_stores as judge
from bench.judge import stores as plain
from bench.life.stage import Stage
from emulator.servers.bridge import Bridge
from emulator.servers.zk_dump import UnreadableError, contents, dump, versions


def tree(stage: Stage) -> judge.Stores:
    """ZooKeeper now."""
    found = dump(stage.zk.hosts, with_secrets=True)
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

    Raises:
        ProcessError: a server has ended.
        TimeoutError: it lacked one for 15 minutes, or Kafka's tool cannot read the log.
    """

    def read() -> tuple[judge.Stores, plain.Records]:
        return plain.at_one_offset(
            lambda: int(stage.znode("/migration")["kraft_metadata_offset"]),
            lambda: tree(stage),
            lambda: _records(stage, stage.leader()),
        )

    held, records = stage.wait("/migration at the end of the log", read)
    wanted = judge.read_log(records)
    return wanted, judge.differences(held, wanted)
