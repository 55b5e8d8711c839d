"""A long answer is of one state of the cluster, whatever becomes known between its slices."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.broker.machine import BrokerNode
from emulator.broker.registry import served
from emulator.broker.zookeeper.metadata_cache import ZkMetadataCache
from emulator.metadata.image import Image
from emulator.metadata.replay import replay
from emulator.seam import Accepted, Received, Send
from tests.kit.joined import LOOPBACK
from tests.kit.laws import examples
from tests.unit.broker.control import live, update
from tests.unit.broker.joined_brokers import Stage
from tests.unit.broker.zookeeper_stage import ZooKeeperStage
from tests.unit.controller.world import broker, header, image_of, partition, topic, uuid
from wire import messages as m
from wire import records as r
from wire.frame import decode_response, encode_request, framed

SMALL = re.compile("[A-Z]+_(PER_SLICE|IN_PART)")
NAMES = [f"t{n}" for n in range(6)]
CONN = 77_000


@contextmanager
def slices_of(size: int) -> Iterator[None]:
    served()
    with pytest.MonkeyPatch.context() as patch:
        for name, module in sorted(sys.modules.items()):
            for constant in filter(SMALL.fullmatch, dir(module) if "emulator." in name else ()):
                patch.setattr(module, constant, size)
        yield


def changes(number: int) -> list[object]:
    """Each alone would show in an answer that mixes the state before it with the one after it."""
    one = number % 6
    register = r.UnregisterBrokerRecord(broker_id=1 + number % 3, broker_epoch=101 + number % 3)
    moved = r.PartitionChangeRecord(topic_id=uuid(one), partition_id=0, leader=1 + number % 3)
    config = r.ConfigRecord(
        resource_type=2, resource_name=NAMES[one], name="retention.ms", value=str(number)
    )
    return [register, moved, config, r.RemoveTopicRecord(topic_id=uuid(one))][number % 4 :][:1]


def states(numbers: list[int]) -> list[Image]:
    found = [
        image_of(
            *(broker(n, end_points=[endpoint(n)]) for n in (1, 2, 3)),
            *(topic(name, n) for n, name in enumerate(NAMES)),
            *(partition(n, at, replicas=(1 + n % 3, 3)) for n in range(6) for at in range(2)),
        )
    ]
    for number in numbers:
        image = found[-1]
        for record in changes(number):
            gone = getattr(record, "topic_id", uuid(0)) not in image.topics
            if gone or getattr(record, "broker_id", 1) not in image.brokers:
                continue
            image = replay(image, record, image.offset + 1, 1)
        found.append(image)
    return found


def endpoint(number: int) -> Any:
    kind = r.RegisterBrokerRecord.BrokerEndpoint
    return kind(name="PLAINTEXT", host="h", port=number)


Named = m.MetadataRequest.MetadataRequestTopic
Resource = m.DescribeConfigsRequest.DescribeConfigsResource
Paged = m.DescribeTopicPartitionsRequest
Offsets = m.ListOffsetsRequest
REQUESTS: list[tuple[object, int]] = [
    (m.MetadataRequest(topics=[Named(name=name) for name in NAMES]), 8),
    (m.MetadataRequest(topics=None, include_topic_authorized_operations=True), 9),
    (m.MetadataRequest(topics=[]), 0),
    (Paged(topics=[], cursor=None), 0),
    (m.DescribeLogDirsRequest(topics=None), 4),
    (
        m.DescribeConfigsRequest(
            resources=[
                Resource(resource_type=2, resource_name=name, configuration_keys=("retention.ms",))
                for name in NAMES
            ]
        ),
        4,
    ),
    (
        Offsets(
            topics=[
                Offsets.ListOffsetsTopic(
                    name=name, partitions=[Offsets.ListOffsetsPartition(timestamp=-1)]
                )
                for name in NAMES
            ]
        ),
        7,
    ),
]


class Client:
    """Of a broker whose cluster changes when the test says so."""

    def __init__(self, node: BrokerNode) -> None:
        self.node = node
        self.answers: list[bytes] = []
        self.step([Accepted(CONN, "PLAINTEXT", LOOPBACK)])

    def step(self, events: list[Any]) -> None:
        for effect in self.node.step(events, 1_000_000):
            if isinstance(effect, Send) and effect.conn == CONN:
                self.answers.append(effect.data[4:])

    def ask(self, request: object, version: int, meanwhile: Iterator[Any]) -> Any:
        head = header(request, version)
        self.step([Received(CONN, framed(encode_request(head, request)))])
        while not self.answers:
            next(meanwhile, None)
            self.step([])
        told: Any = decode_response(head.api_key, version, self.answers.pop())[1]
        if hasattr(told, "controller_id"):
            told.controller_id = -1  # any broker
        return told


def of_kraft() -> Client:
    (node,) = Stage().running(1)
    node.side.exchange = lambda now_ms: None  # type: ignore[method-assign]  # nor what it learns
    return Client(node)


@pytest.mark.parametrize("which", range(len(REQUESTS)))
@examples(10)
@given(numbers=st.lists(st.integers(0, 11), max_size=12), size=st.integers(1, 3), data=st.data())
def test_in_kraft_mode(which: int, numbers: list[int], size: int, data: st.DataObject) -> None:
    request, version = REQUESTS[which]
    client, images = of_kraft(), states(numbers)
    cluster = client.node.side.cluster

    def known(image: Image) -> None:
        cluster.image = image  # type: ignore[misc]  # of a KRaft broker

    def meanwhile() -> Iterator[None]:
        for image in images[1:]:
            for _ in range(data.draw(st.integers(0, 2))):
                yield
            known(image)

    at_once = []
    for image in images:
        known(image)
        at_once.append(client.ask(request, version, iter(())))
    known(images[0])
    with slices_of(size):
        assert client.ask(request, version, meanwhile()) in at_once


def test_in_zookeeper_mode() -> None:
    stage = ZooKeeperStage().had_a_cluster()
    (node,) = stage.running(1)
    cache: ZkMetadataCache = node.side.cache  # type: ignore[attr-defined]
    before = [(name, uuid(n), {0: 1, 1: 1}) for n, name in enumerate(NAMES)]
    cache.update(update(*before, brokers=[live(1), live(2)]), full=False)
    client = Client(node)
    request, version = REQUESTS[0]
    at_once = client.ask(request, version, iter(()))
    after = [(name, topic_id, {0: 2, 1: -2}) for name, topic_id, _ in before]

    def meanwhile() -> Iterator[None]:
        yield from (None, None)
        cache.update(update(*after, brokers=[live(2)]), full=False)

    with slices_of(2):
        assert client.ask(request, version, meanwhile()) == at_once
    assert client.ask(request, version, iter(())) != at_once


TOLD = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(-2, 2)), max_size=3),
        st.booleans(),
        st.booleans(),
    ),
    max_size=8,
)


@examples(100)
@given(TOLD)
def test_what_a_zookeeper_broker_is_told_later_changes_no_moment(told: Any) -> None:
    cache = ZkMetadataCache(full_replaces=True)
    moments: list[tuple[ZkMetadataCache, Any]] = []
    for topics, full, looked_at in told:
        states = [(NAMES[n], uuid(10 * n + i), {0: leader}) for n, i, leader in topics]
        kind = 2 if full else 1
        cache.update(update(*states, brokers=[live(1)], kraft=True, kind=kind), full=full)
        if looked_at:
            moments.append((cache.now(), shown(cache)))
        assert all(shown(moment) == then for moment, then in moments)


def shown(cache: ZkMetadataCache) -> Any:
    ids = [uuid(10 * n + i) for n in range(4) for i in range(4)]
    return [*cache.topics()], [cache.topic_by_id(one) for one in ids], cache.alive("PLAINTEXT")
