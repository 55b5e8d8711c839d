"""Topics and partitions: ids 2, 3, 5, 9.

KIP-631, KIP-858 (directories, v1), KIP-966 (eligible leader replicas, v2).
Source: the records of the same names, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import ZERO_UUID, Int8, Int32, String, Uuid, field, record


@record(key=2, versions="0")
class TopicRecord:
    name: String = ""
    topic_id: Uuid = ZERO_UUID


@record(key=3, versions="0-2")
class PartitionRecord:
    partition_id: Int32 = -1
    topic_id: Uuid = ZERO_UUID
    replicas: Sequence[Int32] = ()
    isr: Sequence[Int32] = ()
    removing_replicas: Sequence[Int32] = ()
    adding_replicas: Sequence[Int32] = ()
    leader: Int32 = -1
    leader_recovery_state: Int8 = field(0, tag=0)
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Sequence[Uuid] = field((), versions="1+")
    eligible_leader_replicas: Sequence[Int32] | None = field(None, versions="2+", tag=1)
    last_known_elr: Sequence[Int32] | None = field(None, versions="2+", tag=2)


@record(key=5, versions="0-2")
class PartitionChangeRecord:
    partition_id: Int32 = -1
    topic_id: Uuid = ZERO_UUID
    isr: Sequence[Int32] | None = field(None, tag=0)
    leader: Int32 = field(-2, tag=1)
    replicas: Sequence[Int32] | None = field(None, tag=2)
    removing_replicas: Sequence[Int32] | None = field(None, tag=3)
    adding_replicas: Sequence[Int32] | None = field(None, tag=4)
    leader_recovery_state: Int8 = field(-1, tag=5)
    directories: Sequence[Uuid] | None = field(None, versions="1+", tag=8)
    eligible_leader_replicas: Sequence[Int32] | None = field(None, versions="2+", tag=6)
    last_known_elr: Sequence[Int32] | None = field(None, versions="2+", tag=7)


@record(key=9, versions="0")
class RemoveTopicRecord:
    topic_id: Uuid = ZERO_UUID
