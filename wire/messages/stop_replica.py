"""StopReplica (5): the controller tells a ZooKeeper-mode broker to stop, or delete, replicas.

KIP-380 (v1), KIP-482 (v2), KIP-570 (v3), KIP-866 (v4). Source: StopReplicaRequest,
StopReplicaResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Bool, Int16, Int32, Int64, String, field, group, message


@message(key=5, versions="0-4", flexible="2+")
class StopReplicaRequest:
    @group
    class StopReplicaPartitionV0:
        topic_name: String = ""
        partition_index: Int32 = 0

    @group
    class StopReplicaTopicV1:
        name: String = ""
        partition_indexes: Sequence[Int32] = ()

    @group
    class StopReplicaTopicState:
        topic_name: String = ""
        partition_states: list[StopReplicaRequest.StopReplicaPartitionState] = []

    @group
    class StopReplicaPartitionState:
        partition_index: Int32 = 0
        leader_epoch: Int32 = -1
        delete_partition: Bool = False

    controller_id: Int32 = 0
    is_kraft_controller: Bool = field(False, versions="4+")
    controller_epoch: Int32 = 0
    broker_epoch: Int64 = field(-1, versions="1+", ignorable=True)
    delete_partitions: Bool = field(False, versions="0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = field([], versions="0")
    topics: list[StopReplicaTopicV1] = field([], versions="1-2")
    topic_states: list[StopReplicaTopicState] = field([], versions="3+")


@message(key=5, versions="0-4", flexible="2+")
class StopReplicaResponse:
    @group
    class StopReplicaPartitionError:
        topic_name: String = ""
        partition_index: Int32 = 0
        error_code: Int16 = 0

    error_code: Int16 = 0
    partition_errors: list[StopReplicaPartitionError] = []
