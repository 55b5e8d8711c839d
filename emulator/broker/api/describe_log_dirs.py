"""DescribeLogDirs (35): the folders of this broker and the replicas in them. KIP-113, KIP-827 (v4).

Kafka: KafkaApis.handleDescribeLogDirsRequest, ReplicaManager.describeLogDirs (3.9).

CLUSTER_AUTHORIZATION_FAILED without DESCRIBE on the cluster: in the response from v3 on, below it
there are no folders. Without topics every replica is listed. As no records are stored, all sizes
and lags are 0; every replica is in the first folder. The size of the volume is not given (-1).
"""

from __future__ import annotations

from collections.abc import Iterable

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, serves
from emulator.broker.serving.reading import reading
from emulator.controller.result import one_error
from emulator.metadata.acls import Operation
from emulator.seam import RECORDS_PER_SLICE, Pace, Slices
from wire import messages as m
from wire.errors import ErrorCode

Response = m.DescribeLogDirsResponse
Folder = m.DescribeLogDirsResponse.DescribeLogDirsResult
Topic = m.DescribeLogDirsResponse.DescribeLogDirsTopic
refused = one_error(Response)


@serves(m.DescribeLogDirsRequest, refused=refused)
def describe_log_dirs(
    cluster: KnownCluster, request: m.DescribeLogDirsRequest, asked: Asked
) -> Slices[m.DescribeLogDirsResponse]:
    """List the replicas of this broker by folder."""
    if not reading(cluster, request, asked).may_on_cluster(Operation.DESCRIBE):
        return refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = yield from _wanted(cluster, request.topics)
    first, *others = asked.config.log_dirs
    hosted = yield from _replicas(cluster, wanted, asked.config.node_id)
    return Response(
        results=[
            Folder(log_dir=first, topics=hosted),
            *(Folder(log_dir=folder) for folder in others),
        ]
    )


def _wanted(
    cluster: KnownCluster, topics: Iterable[m.DescribeLogDirsRequest.DescribableLogDirTopic]
) -> Slices[dict[str, set[int]]]:
    """The partitions that are asked for and exist: a topic may be asked for millions."""
    wanted: dict[str, set[int]] = {}
    pace = Pace(RECORDS_PER_SLICE)
    for topic in topics:
        numbers = wanted.setdefault(topic.topic, set())
        known = cluster.topic(topic.topic)
        for index in topic.partitions:
            if pace.over():
                yield
            if known is not None and index in known.partitions:
                numbers.add(index)
    return wanted


def _replicas(
    cluster: KnownCluster, wanted: dict[str, set[int]] | None, broker_id: int
) -> Slices[list[Topic]]:
    found = []
    kind = Response.DescribeLogDirsPartition
    pace = Pace(RECORDS_PER_SLICE)
    for topic in cluster.topics() if wanted is None else map(cluster.topic, wanted):
        if pace.over():
            yield
        if topic is None:
            continue
        asked = topic.partitions if wanted is None else sorted(wanted[topic.name])
        partitions = []
        for index in asked:
            if pace.over():
                yield
            partition = topic.partitions.get(index)
            if partition is not None and broker_id in partition.replicas:
                partitions.append(kind(partition_index=index))
        if partitions:
            found.append(Topic(name=topic.name, partitions=partitions))
    return found
