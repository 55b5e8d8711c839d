"""AlterReplicaLogDirs (34): move replicas between the folders of one broker.

KIP-113, KIP-482 (v2). Source: AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Int16, Int32, String, group, message


@message(key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    @group
    class AlterReplicaLogDir:
        path: String = ""
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = []

    @group
    class AlterReplicaLogDirTopic:
        name: String = ""
        partitions: Sequence[Int32] = ()

    dirs: list[AlterReplicaLogDir] = []


@message(key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    @group
    class AlterReplicaLogDirTopicResult:
        topic_name: String = ""
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = []

    @group
    class AlterReplicaLogDirPartitionResult:
        partition_index: Int32 = 0
        error_code: Int16 = 0

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = []
