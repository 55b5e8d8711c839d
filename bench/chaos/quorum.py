"""Which controllers answer DescribeQuorum as the leader of the quorum."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.chaos.stage import Stage
from bench.demo.controllers import IDS
from emulator.io.kafka_client import Connection
from emulator.servers.ports import HOST
from wire import messages as m

TOPIC: Final = "__cluster_metadata"
_ASK_S: Final = 1.0


def described(port: int) -> Any:
    """The DescribeQuorum answer of the controller at a port; None if it does not lead."""
    kind = m.DescribeQuorumRequest
    topic = kind.TopicData(topic_name=TOPIC, partitions=[kind.PartitionData()])
    with contextlib.suppress(OSError), contextlib.closing(Connection(HOST, port, _ASK_S)) as made:
        answer = made.call(kind(topics=[topic]))
        for found in (each for one in answer.topics for each in one.partitions):  # none: an error
            if found.error_code == 0 and found.high_watermark > 0:
                return found
    return None


@dataclass(frozen=True, slots=True, order=True)
class Leader:
    """A controller that answers as the leader."""

    epoch: int
    node_id: int
    high_watermark: int


def leaders(stage: Stage) -> Sequence[Leader]:
    """All such controllers, by epoch: two, while the older leader has not learned of the newer."""
    found = []
    for node_id, server in zip(IDS, stage.controllers, strict=True):
        answer = described(server.port) if server.alive else None
        if answer is not None and answer.leader_id == node_id:
            found.append(Leader(answer.leader_epoch, node_id, answer.high_watermark))
    return sorted(found)
