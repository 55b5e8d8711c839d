"""AssignReplicasToDirs (73): a broker tells the controller in which folder its replicas are.

KIP-858. Source: AssignReplicasToDirsRequest, AssignReplicasToDirsResponse, Kafka 3.7-3.9.
"""

from __future__ import annotations

from wire.schema import ZERO_UUID, Int16, Int32, Int64, Uuid, group, message


@message(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsRequest:
    @group
    class DirectoryData:
        id: Uuid = ZERO_UUID
        topics: list[AssignReplicasToDirsRequest.TopicData] = []

    @group
    class TopicData:
        topic_id: Uuid = ZERO_UUID
        partitions: list[AssignReplicasToDirsRequest.PartitionData] = []

    @group
    class PartitionData:
        partition_index: Int32 = 0

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    directories: list[DirectoryData] = []


@message(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsResponse:
    @group
    class DirectoryData:
        id: Uuid = ZERO_UUID
        topics: list[AssignReplicasToDirsResponse.TopicData] = []

    @group
    class TopicData:
        topic_id: Uuid = ZERO_UUID
        partitions: list[AssignReplicasToDirsResponse.PartitionData] = []

    @group
    class PartitionData:
        partition_index: Int32 = 0
        error_code: Int16 = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    directories: list[DirectoryData] = []
