"""Metrics of the metadata log: those of Kafka's bean ``raft-metrics``, and of its snapshots."""

from __future__ import annotations

from typing import Final

from emulator.trace.metric import Metric, MetricKind


def _raft(name: str, text: str, attribute: str, unit: str = "records") -> Metric:
    bean = f"kafka.server:type=raft-metrics,name={attribute}"
    return Metric(name, text, unit=unit, source="KafkaRaftMetrics, Kafka 3.9", bean=bean)


CURRENT_EPOCH = _raft(
    "kraft_bridge_leader_epoch", "Leader epoch of the metadata quorum.", "current-epoch", "1"
)
CURRENT_LEADER = _raft(
    "kraft_bridge_leader_id",
    "node.id of the controller that leads in that epoch; -1: none is known.",
    "current-leader",
    "1",
)
HIGH_WATERMARK = _raft(
    "kraft_bridge_high_watermark",
    "Offset of the first record that is not committed; -1: not known.",
    "high-watermark",
)
LOG_END_OFFSET = _raft(
    "kraft_bridge_log_end_offset", "Offset of the next record.", "log-end-offset"
)
SNAPSHOT_FAILURES = Metric(
    "kraft_bridge_snapshot_failures",
    "Snapshots of the metadata that could not be written; the log is kept, and they are repeated.",
    kind=MetricKind.COUNTER,
)

RAFT_METRICS: Final[tuple[Metric, ...]] = (
    CURRENT_EPOCH,
    CURRENT_LEADER,
    HIGH_WATERMARK,
    LOG_END_OFFSET,
    SNAPSHOT_FAILURES,
)
"""In the order declared."""
