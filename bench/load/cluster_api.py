"""The few administrative calls that seeding and watching need, over raw frames."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.load.admin import RETRIABLE
from bench.load.changes import error_code
from bench.load.connection import CALL_TIMEOUT_S, Connection, address_of
from emulator.servers.waiting import PATIENCE_S
from wire import messages as m
from wire.errors import ErrorCode

TOPIC, BROKER = 2, 4
_TIMEOUT_MS: Final = 20_000
_FOR_NOW: Final = RETRIABLE | {
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.INVALID_REPLICATION_FACTOR,
}
"""Refusals that pass: the controller before had carried it out, or a broker is away or fenced."""
_ids = itertools.count(1)


class RefusedError(RuntimeError):
    """The cluster refused a request; the message names it and the error."""

    error: ErrorCode | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """The content of a broker's Metadata response."""

    controller_id: int
    brokers: Mapping[int, str]
    """Broker id -> ``host:port``."""
    topics: Mapping[str, Mapping[int, tuple[int, tuple[int, ...], tuple[int, ...]]]]
    """Topic -> partition -> (leader, replicas, ISR)."""

    @property
    def partitions(self) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
        """(leader, replicas, ISR) of each partition."""
        return [each for topic in self.topics.values() for each in topic.values()]

    def led(self) -> Counter[int]:
        """Broker id -> partitions it leads."""
        return Counter(leader for leader, _, _ in self.partitions)

    def short(self) -> list[str]:
        """Partitions without leader, or with a replica that is not in sync."""
        return [
            f"{name}-{number}"
            for name, topic in self.topics.items()
            for number, (leader, replicas, isr) in topic.items()
            if leader < 0 or set(isr) != set(replicas)
        ]


async def call(
    address: str, request: Any, version: int | None = None, *, limit_s: float = CALL_TIMEOUT_S
) -> Any:
    """Send one request over a connection of its own.

    Raises:
        OSError: the broker cannot be reached, or does not answer within ``limit_s``.
    """
    connection = await Connection.open(address_of(address), "demo", _ids, limit_s)
    try:
        answer, _ = await connection.call(request, version)
        return answer
    finally:
        connection.close()


async def shape(address: str) -> Shape:
    """The metadata that this broker returns."""
    answer = await call(address, m.MetadataRequest(topics=None, allow_auto_topic_creation=False))
    return Shape(
        answer.controller_id,
        {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers},
        {
            topic.name: {
                p.partition_index: (p.leader_id, tuple(p.replica_nodes), tuple(p.isr_nodes))
                for p in topic.partitions
            }
            for topic in answer.topics
        },
    )


def topic(
    name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> m.CreateTopicsRequest.CreatableTopic:
    """A topic to create."""
    kinds = m.CreateTopicsRequest
    return kinds.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[kinds.CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
    )


async def create_topics(
    controller: str, topics: Sequence[m.CreateTopicsRequest.CreatableTopic]
) -> None:
    """Create topics; what has no answer in time is asked again, for 15 minutes at most.

    Raises:
        RefusedError: one of them was not created.
        TimeoutError: one of them was not created in time.
    """
    left = {topic.name: topic for topic in topics}
    end = time.monotonic() + PATIENCE_S
    in_doubt = False
    while left:
        request = m.CreateTopicsRequest(topics=list(left.values()), timeout_ms=_TIMEOUT_MS)
        try:
            results = (await call(controller, request)).topics
        except TimeoutError:
            results = []
        for result in results:
            done = in_doubt and result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            if not done and result.error_code != ErrorCode.REQUEST_TIMED_OUT:
                _accept(f"CreateTopics {result.name}", result.error_code, result.error_message)
                done = True
            if done:
                del left[result.name]
        in_doubt = True
        if left and time.monotonic() > end:
            raise TimeoutError(f"topics not created within {PATIENCE_S:g} s: {', '.join(left)}")


async def created(broker: str, topics: Sequence[m.CreateTopicsRequest.CreatableTopic]) -> bool:
    """Have the controller create those that are missing, to be called until they are there.

    Returns:
        Whether this broker, ``host:port``, knew all of them before.

    Raises:
        RefusedError: one of them was refused, and asking again would not help.
        OSError: a broker does not answer.
    """
    seen = await shape(broker)
    missing = [one for one in topics if one.name not in seen.topics]
    if missing and seen.controller_id in seen.brokers:
        try:
            await create_topics(seen.brokers[seen.controller_id], missing)
        except RefusedError as refusal:
            if refusal.error not in _FOR_NOW:
                raise
    return not missing


async def set_configs(broker: str, kind: int, name: str, configs: Mapping[str, str]) -> None:
    """Set dynamic configs of one resource; a broker's own go to that broker.

    Raises:
        RefusedError: they were not set.
    """
    kinds = m.IncrementalAlterConfigsRequest
    settings = [
        kinds.AlterableConfig(name=k, config_operation=0, value=v) for k, v in configs.items()
    ]
    resource = kinds.AlterConfigsResource(resource_type=kind, resource_name=name, configs=settings)
    answer = await call(broker, kinds(resources=[resource]))
    for result in answer.responses:
        _accept(f"configs of {name or 'all brokers'}", result.error_code, result.error_message)


async def delete_topic(controller: str, name: str) -> ErrorCode:
    """Ask for a deletion and do not wait for it; returns the answer's error."""
    kinds = m.DeleteTopicsRequest
    request = kinds(topics=[kinds.DeleteTopicState(name=name)], topic_names=[name], timeout_ms=0)
    answer = await call(controller, request)
    return error_code(answer.responses[0].error_code)


def _accept(what: str, code: int, message: str | None) -> None:
    if code != ErrorCode.NONE:
        refusal = RefusedError(f"{what}: {error_code(code).name} {message or ''}")
        refusal.error = error_code(code)
        raise refusal
