"""Requests to brokers are built in pieces of at most 250 partitions, and name all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.metadata.image import EMPTY
from emulator.metadata.topics import Partition, Topic
from emulator.migration.propagation.requests import (
    LeadersForAll,
    PartitionAt,
    Peer,
    Sender,
    leader_and_isr,
    leaders_for_all,
    update_metadata_topics,
)
from emulator.net.control import TYPE_FULL, TYPE_INCREMENTAL

IMAGE = replace(EMPTY, offset=9, epoch=3)
SENDER, PEER = Sender(3000, 42, "L"), Peer(1, 36, "broker", 9092)
TOPIC = Topic("t", b"T" * 16)
HOSTED = Partition((1, 2), (1, 2), 1, 7, 8)
ELSEWHERE = Partition((2, 3), (2, 3), 2, 7, 8)


def partitions(count: int, partition: Partition = HOSTED) -> list[PartitionAt]:
    return [PartitionAt(TOPIC, number, partition) for number in range(count)]


def named(states: Any) -> list[int]:
    return [one.partition_index for topic in states for one in topic.partition_states]


def update(count: int) -> Iterator[Any]:
    return update_metadata_topics(IMAGE, partitions(count))


def leaders(count: int) -> Iterator[Any]:
    return leader_and_isr(SENDER, PEER, IMAGE, partitions(count), TYPE_FULL)


def shared(count: int) -> Iterator[Any]:
    return leaders_for_all(SENDER, IMAGE, partitions(count))


@pytest.mark.parametrize(
    ("build", "states"),
    [
        (update, lambda built: built),
        (leaders, lambda built: built.topic_states),
        (shared, lambda built: built.leaders.topics),
    ],
)
@pytest.mark.parametrize(
    ("count", "pauses"), [(0, 0), (1, 0), (249, 0), (250, 1), (499, 1), (500, 2), (501, 2)]
)
def test_a_pause_after_each_250_partitions_and_all_of_them_in_the_end(
    build: Callable[[int], Iterator[Any]],
    states: Callable[[Any], Any],
    count: int,
    pauses: int,
) -> None:
    *before, built = build(count)
    assert before == [None] * pauses
    assert named(states(built)) == [*range(count)]


@pytest.mark.parametrize("request_type", [TYPE_FULL, TYPE_INCREMENTAL])
def test_a_broker_without_any_of_the_partitions_is_told_only_what_is_everything(
    request_type: int,
) -> None:
    """FULL removes what it does not name, so it counts although it names nothing."""
    none = [*leader_and_isr(SENDER, PEER, IMAGE, partitions(260, ELSEWHERE), request_type)]
    assert none[0] is None
    assert [named(one.topic_states) for one in none[1:] if one is not None] == (
        [[]] if request_type == TYPE_FULL else []
    )
    mixed = [*partitions(3, ELSEWHERE), *[PartitionAt(TOPIC, 7, HOSTED)]]
    (request,) = leader_and_isr(SENDER, PEER, IMAGE, mixed, request_type)
    assert named(request.topic_states) == [7]
    assert (request.type, request.broker_epoch, request.controller_epoch) == (request_type, 36, 42)


def test_what_is_shared_is_for_the_brokers_that_host_each_of_the_partitions() -> None:
    mixed = [*partitions(2), PartitionAt(TOPIC, 2, ELSEWHERE)]
    (alike,) = leaders_for_all(SENDER, IMAGE, partitions(3))
    (found,) = leaders_for_all(SENDER, IMAGE, mixed)
    assert isinstance(alike, LeadersForAll)
    assert isinstance(found, LeadersForAll)
    assert (alike.hosts, found.hosts) == ({1, 2}, {2})
    alone = iter([*mixed, PartitionAt(TOPIC, 3, Partition((4,), (4,), 4, 7, 8)), *partitions(9)])
    (nobody,) = leaders_for_all(SENDER, IMAGE, alone)
    assert isinstance(nobody, LeadersForAll)
    assert (nobody.hosts, len([*alone])) == (frozenset(), 9), "the rest is not looked at"
