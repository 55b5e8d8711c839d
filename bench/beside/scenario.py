"""The load on a controller: topics with manual replica assignments, from many clients."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bench.load.connection import Connection
from bench.rig.ports import HOST
from wire import messages as m
from wire.errors import ErrorCode

REPLICAS: Final = (0, 1, 2)
_VERSION: Final = 7
_METADATA_TOPIC: Final = "__cluster_metadata"


class RefusedError(RuntimeError):
    """A controller answered a request of the scenario with an error."""


@dataclass(frozen=True, slots=True)
class Burst:
    """CreateTopics v7 for one topic each, by clients that have one request outstanding each.

    More requests on one connection would not be read: a Kafka server answers one before it reads
    the next.
    """

    prefix: str
    topics: int
    partitions: int
    clients: int

    def requests(self) -> Iterator[m.CreateTopicsRequest]:
        """One request per topic; all replicas in order 0, 1, 2."""
        kinds = m.CreateTopicsRequest
        assignments = [
            kinds.CreatableReplicaAssignment(partition_index=index, broker_ids=REPLICAS)
            for index in range(self.partitions)
        ]
        for number in range(self.topics):
            topic = kinds.CreatableTopic(
                name=f"{self.prefix}-{number:05d}",
                num_partitions=-1,
                replication_factor=-1,
                assignments=assignments,
            )
            yield kinds(topics=[topic])


@dataclass(frozen=True, slots=True)
class Committed:
    """A burst that was answered to the last request. Times are of ``time.perf_counter``."""

    began_s: float
    ended_s: float
    latencies_ms: list[float]
    last_offset: int
    """The log up to here holds every record of the burst."""


def run(burst: Burst, port: int) -> Committed:
    """Send a burst to a controller and wait for every answer.

    Raises:
        RefusedError: an answer is an error.
        OSError: a connection failed.
    """
    return asyncio.run(_run(burst, port))


async def _run(burst: Burst, port: int) -> Committed:
    ids = itertools.count(1)
    connections = [
        await Connection.open((HOST, port), f"beside-{index}", ids)
        for index in range(burst.clients)
    ]
    requests = list(burst.requests())
    waiting = iter(requests)
    latencies: list[float] = []

    async def client(connection: Connection) -> None:
        for request in waiting:
            sent = time.perf_counter()
            answer, _ = await connection.call(request, _VERSION)
            latencies.append((time.perf_counter() - sent) * 1_000)
            [result] = answer.topics
            if result.error_code:
                error = ErrorCode(result.error_code).name
                raise RefusedError(f"{result.name}: {error}, {result.error_message}")

    try:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for connection in connections:
                tasks.create_task(client(connection))
        ended = time.perf_counter()
        last_offset = await _high_watermark(connections[0]) - 1
    finally:
        for connection in connections:
            connection.close()
    return Committed(began, ended, latencies, last_offset)


async def _high_watermark(connection: Connection) -> int:
    """The high watermark, by a request that both controllers answer."""
    kinds = m.DescribeQuorumRequest
    topic = kinds.TopicData(topic_name=_METADATA_TOPIC, partitions=[kinds.PartitionData()])
    answer, _ = await connection.call(kinds(topics=[topic]))
    if answer.error_code:
        raise RefusedError(f"DescribeQuorum: {ErrorCode(answer.error_code).name}")
    [partition] = answer.topics[0].partitions
    return int(partition.high_watermark)
