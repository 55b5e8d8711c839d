"""ControlledShutdown (7): a ZooKeeper-mode broker asks to hand its leaders over before it stops.

KIP-380 (v2), KIP-482 (v3). Source: ControlledShutdownRequest, ControlledShutdownResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int16, Int32, Int64, String, field, group, message


@message(key=7, versions="0-3", flexible="3+")
class ControlledShutdownRequest:
    broker_id: Int32 = 0
    broker_epoch: Int64 = field(-1, versions="2+", ignorable=True)


@message(key=7, versions="0-3", flexible="3+")
class ControlledShutdownResponse:
    @group
    class RemainingPartition:
        topic_name: String = ""
        partition_index: Int32 = 0

    error_code: Int16 = 0
    remaining_partitions: list[RemainingPartition] = []
