"""Brokers and topics of a controller that has none, by the requests that brokers send.

The brokers are registrations only: nobody fetches. Their sessions outlast the measurement, as
:data:`PROPERTIES` say.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from bench.load.connection import Connection
from bench.micro.servers import CLUSTER_ID
from emulator.servers.ports import HOST
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import RequestHeader, encode_request, framed

BROKERS: Final = (901, 902, 903)
"""Broker ids that differ from those of a fleet at the same controller."""
PROPERTIES: Final = MappingProxyType(
    {
        "broker.session.timeout.ms": 3_600_000,
        "auto.leader.rebalance.enable": "false",
        # Kafka's: a record is written as soon as it is there, as ours does.
        "controller.quorum.append.linger.ms": 0,
    }
)
"""Of the controller: no broker is fenced while something is measured."""
_LEVELS: Final = (1, 21)
_AHEAD: Final = 1 << 40
"""A metadata offset that is above each registration: the broker counts as caught up."""
_UNFENCED_S: Final = 30.0
_LEADING_S: Final = 60.0
_PER_REQUEST: Final = 50
"""Topics in one CreateTopics."""


class RpcRefusedError(RuntimeError):
    """A controller answered with an error where none is expected."""


@dataclass(slots=True)
class RpcCluster:
    """What was registered and made."""

    port: int
    epochs: dict[int, int] = field(default_factory=dict)
    """Broker id -> epoch of its registration."""
    topics: dict[str, bytes] = field(default_factory=dict)
    """Name -> id."""
    changes: dict[bytes, int] = field(default_factory=dict)
    """Topic id -> how often the ISR of its partition 0 was changed here."""
    created: int = 0
    """Topics that were asked for one by one."""


def frame(request: object, key: int, version: int) -> bytes:
    """A request as it is sent, with its length."""
    header = RequestHeader(
        api_key=key, api_version=version, correlation_id=1, client_id="rpc-bench"
    )
    return framed(encode_request(header, request))


def heartbeat(cluster: RpcCluster, broker_id: int) -> m.BrokerHeartbeatRequest:
    """The heartbeat of a broker that changes nothing."""
    return m.BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=cluster.epochs[broker_id],
        current_metadata_offset=_AHEAD,
    )


def registered(port: int, cluster_id: str = CLUSTER_ID) -> RpcCluster:
    """Register :data:`BROKERS` with a KRaft controller and have them unfenced.

    Raises:
        RpcRefusedError: the controller refuses them.
        OSError: it cannot be reached.
    """
    return asyncio.run(_registered(port, cluster_id))


def create(cluster: RpcCluster, prefix: str, topics: int, partitions: int) -> None:
    """Create topics with replicas in the order of :data:`BROKERS`; a few topics in each request.

    Raises:
        RpcRefusedError: the controller refuses one.
        OSError: the connection failed.
    """
    asyncio.run(_create(cluster, prefix, topics, partitions))


def creation(names: list[str], partitions: int) -> m.CreateTopicsRequest:
    """CreateTopics with manual assignments."""
    kinds = m.CreateTopicsRequest
    assignments = [
        kinds.CreatableReplicaAssignment(partition_index=index, broker_ids=BROKERS)
        for index in range(partitions)
    ]
    return kinds(
        topics=[
            kinds.CreatableTopic(
                name=name, num_partitions=-1, replication_factor=-1, assignments=assignments
            )
            for name in names
        ],
        timeout_ms=600_000,
    )


async def connected(port: int) -> Connection:
    """A connection that has negotiated its versions.

    Raises:
        OSError: it cannot be reached.
    """
    return await Connection.open((HOST, port), "rpc-bench", itertools.count(1))


async def _registered(port: int, cluster_id: str) -> RpcCluster:
    cluster = RpcCluster(port)
    connection = await connected(port)
    end = time.monotonic() + _LEADING_S
    try:
        for broker_id in BROKERS:
            kinds = m.BrokerRegistrationRequest
            request = kinds(
                broker_id=broker_id,
                cluster_id=cluster_id,
                incarnation_id=UUID(int=broker_id + 1).bytes,
                listeners=[kinds.Listener(name="INTERNAL", host=HOST, port=9_000 + broker_id)],
                features=[
                    kinds.Feature(
                        name="metadata.version",
                        min_supported_version=_LEVELS[0],
                        max_supported_version=_LEVELS[1],
                    )
                ],
                rack=None,
                log_dirs=(UUID(int=1_000 + broker_id).bytes,),
            )
            answer, _ = await connection.call(request, 2)
            while answer.error_code == ErrorCode.NOT_CONTROLLER and time.monotonic() < end:
                # A lone voter that has just started listens before it is elected.
                await asyncio.sleep(0.1)
                answer, _ = await connection.call(request, 2)
            _expect(answer.error_code, f"the registration of broker {broker_id}")
            cluster.epochs[broker_id] = answer.broker_epoch
        end = time.monotonic() + _UNFENCED_S
        for broker_id in BROKERS:
            while (await _beat(connection, cluster, broker_id)).is_fenced:
                if time.monotonic() > end:
                    raise RpcRefusedError(f"broker {broker_id} stays fenced")
                await asyncio.sleep(0.05)
    finally:
        connection.close()
    return cluster


async def _beat(connection: Connection, cluster: RpcCluster, broker_id: int) -> Any:
    answer, _ = await connection.call(heartbeat(cluster, broker_id), 1)
    _expect(answer.error_code, f"the heartbeat of broker {broker_id}")
    return answer


async def _create(cluster: RpcCluster, prefix: str, topics: int, partitions: int) -> None:
    connection = await connected(cluster.port)
    names = [f"{prefix}-{number:06d}" for number in range(topics)]
    count = max(1, min(_PER_REQUEST, 2_000 // partitions))
    try:
        for first in range(0, topics, count):
            request = creation(names[first : first + count], partitions)
            answer, _ = await connection.call(request, 7)
            for one in answer.topics:
                _expect(one.error_code, f"topic {one.name}")
                cluster.topics[one.name] = one.topic_id
    finally:
        connection.close()


def _expect(code: int, what: str) -> None:
    if code:
        raise RpcRefusedError(f"{what} is answered with {ErrorCode(code).name}")
