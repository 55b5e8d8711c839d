"""The requests whose cost is measured, as frames, and what their answers must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from bench.micro.client import Calls, NextFrame
from bench.micro.registrations import (
    BROKERS,
    RpcCluster,
    RpcRefusedError,
    creation,
    frame,
    heartbeat,
)
from wire import messages as m
from wire.frame import decode_response

ALTER_PREFIX: Final = "alter"
"""Topics of one partition, one for each connection that changes an ISR."""
_MARK: Final = 0x5A17C3E9
"""Placeholder for the partition epoch in an encoded request."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One API under measurement.

    ``source`` makes the requests of one connection, by its place. ``code`` takes the error out of
    an answer.
    """

    name: str
    key: int
    version: int
    source: Callable[[RpcCluster, int], NextFrame]
    code: Callable[[Any], int]

    def check(self, calls: Calls) -> None:
        """The last answers are no errors; each follows from all answers before it.

        Raises:
            RpcRefusedError: one is.
        """
        for place, data in calls.last.items():
            _, message = decode_response(self.key, self.version, data)
            if self.code(message):
                raise RpcRefusedError(f"{self.name}, connection {place}: {message}")


def _same(request: Callable[[RpcCluster], object], key: int, version: int) -> Any:
    def source(cluster: RpcCluster, _place: int) -> NextFrame:
        data = frame(request(cluster), key, version)
        return lambda: data

    return source


def _alterations(cluster: RpcCluster, place: int) -> NextFrame:
    """Shrink and expand the ISR of one partition in turn; each needs the epoch before it."""
    topic_id = cluster.topics[f"{ALTER_PREFIX}-{place:06d}"]
    kinds = m.AlterPartitionRequest
    templates = []
    for isr in (BROKERS[:2], BROKERS):
        partition = kinds.PartitionData(
            new_isr_with_epochs=[
                kinds.BrokerState(broker_id=one, broker_epoch=cluster.epochs[one]) for one in isr
            ],
            partition_epoch=_MARK,
        )
        topic = kinds.TopicData(topic_id=topic_id, partitions=[partition])
        request = kinds(
            broker_id=BROKERS[0], broker_epoch=cluster.epochs[BROKERS[0]], topics=[topic]
        )
        head, _, tail = frame(request, 56, 3).partition(_MARK.to_bytes(4, "big"))
        templates.append((head, tail))

    def step() -> bytes:
        epoch = cluster.changes.get(topic_id, 0)
        cluster.changes[topic_id] = epoch + 1
        head, tail = templates[epoch % 2]
        return head + epoch.to_bytes(4, "big") + tail

    return step


def _creations(cluster: RpcCluster, _place: int) -> NextFrame:
    """Topics of one partition, each with a new name."""
    head, _, tail = frame(creation(["one-00000000"], 1), 19, 7).partition(b"00000000")

    def step() -> bytes:
        cluster.created += 1
        return b"%s%08d%s" % (head, cluster.created, tail)

    return step


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        one.name: one
        for one in (
            Kind(
                "heartbeat",
                63,
                1,
                _same(lambda cluster: heartbeat(cluster, BROKERS[0]), 63, 1),
                lambda answer: int(answer.error_code),
            ),
            Kind(
                "api-versions",
                18,
                3,
                _same(
                    lambda _: m.ApiVersionsRequest(
                        client_software_name="bench", client_software_version="1"
                    ),
                    18,
                    3,
                ),
                lambda answer: int(answer.error_code),
            ),
            Kind(
                "alter-partition",
                56,
                3,
                _alterations,
                lambda answer: int(answer.error_code or answer.topics[0].partitions[0].error_code),
            ),
            Kind(
                "create-topic", 19, 7, _creations, lambda answer: int(answer.topics[0].error_code)
            ),
        )
    }
)
