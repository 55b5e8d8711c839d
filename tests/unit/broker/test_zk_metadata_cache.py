"""What a ZooKeeper-mode broker knows of the cluster, from UpdateMetadata."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from emulator.broker.cluster import KnownNode
from emulator.broker.zookeeper.cluster import ZooKeeperCluster
from emulator.broker.zookeeper.metadata_cache import (
    DURING_DELETE,
    CachedController,
    ZkMetadataCache,
)
from emulator.config.passwords import PasswordSettings
from emulator.net.control import TYPE_FULL, TYPE_INCREMENTAL
from tests.unit.broker.control import T, Told, U, live, update
from tests.unit.broker.zookeeper_world import PartWorld
from wire.schema import ZERO_UUID


def told(*requests: object, full_replaces: bool = True) -> ZkMetadataCache:
    broker = Told(full_replaces=full_replaces)
    for request in requests:
        assert broker.take(request).error_code == 0
    return broker.cache


def names(cache: ZkMetadataCache) -> list[str]:
    return sorted(topic.name for topic in cache.topics())


def test_topics_are_found_by_name_and_by_id() -> None:
    cache = told(update(("t", T, {1: 2, 0: 1}), ("u", U, {0: 1})))
    topic = cache.topic("t")
    assert [*topic.partitions] == [0, 1]
    assert topic.partitions[1].leader == 2
    assert cache.topic_by_id(T) is topic
    assert cache.topic("v") is None
    assert cache.topic_by_id(b"V" * 16) is None


def test_a_later_request_changes_only_the_partitions_that_it_names() -> None:
    cache = told(update(("t", T, {0: 1, 1: 1}), ("u", U, {0: 1})), update(("t", T, {1: 2})))
    topic = cache.topic("t")
    assert topic is not None
    assert {index: p.leader for index, p in topic.partitions.items()} == {0: 1, 1: 2}
    assert names(cache) == ["t", "u"]


def test_the_live_brokers_are_those_of_the_newest_request_even_without_partitions() -> None:
    cache = told(update(brokers=[live(1), live(2)]), update(brokers=[live(2, "A", "B", rack="r")]))
    assert [*cache.live] == [2]
    assert cache.node(2, "B") == KnownNode(2, "h2", 9002, "r")
    assert cache.node(2, "C") is None
    assert cache.node(1, "A") is None
    assert cache.alive("A") == [KnownNode(2, "h2", 9002, "r")]
    assert cache.alive("C") == []


def test_a_topic_is_gone_when_its_last_partition_is_deleted() -> None:
    before = update(("t", T, {0: 1, 1: 1}))
    cache = told(before, update(("t", ZERO_UUID, {0: DURING_DELETE})))
    assert names(cache) == ["t"]
    cache = told(before, update(("t", ZERO_UUID, {0: DURING_DELETE, 1: DURING_DELETE})))
    assert names(cache) == []
    assert cache.topic_by_id(T) is None


def test_the_deletion_of_what_was_never_known_changes_nothing() -> None:
    assert names(told(update(("t", T, {0: DURING_DELETE})))) == []


def test_a_topic_that_was_created_anew_has_its_new_id_only() -> None:
    cache = told(update(("t", T, {0: 1})), update(("t", U, {0: 1})))
    assert cache.topic_by_id(T) is None
    assert cache.topic_by_id(U) is cache.topic("t")


def test_its_version_is_raised_by_whatever_changes_which_topics_there_are() -> None:
    broker = Told(full_replaces=True)
    found = []
    for request in (
        update(("t", ZERO_UUID, {0: 1})),
        update(("t", T, {0: 1})),
        update(("t", T, {0: 2})),
        update(("t", T, {0: DURING_DELETE})),
    ):
        broker.take(request)
        found.append(broker.cache.topics_version)
    assert [one > before for before, one in itertools.pairwise([0, *found])] == [
        *(True, True),
        *(False, True),
    ]


def test_a_controller_without_ids_leaves_topics_without_ids() -> None:
    cache = told(update(("t", T, {0: 1})), update(("t", ZERO_UUID, {0: 1})))
    assert cache.topic_by_id(T) is None
    assert cache.topic_by_id(ZERO_UUID) is None
    topic = cache.topic("t")
    assert topic.id == ZERO_UUID


@pytest.mark.parametrize(
    ("kraft", "kind", "understood", "left"),
    [
        (True, TYPE_FULL, True, ["u"]),
        (True, TYPE_FULL, False, ["t", "u"]),
        (False, TYPE_FULL, True, ["t", "u"]),
        (True, TYPE_INCREMENTAL, True, ["t", "u"]),
    ],
)
def test_what_a_full_request_leaves_out_is_gone(
    kraft: bool, kind: int, understood: bool, left: list[str]
) -> None:
    first, second = update(("t", T, {0: 1})), update(("u", U, {0: 1}), kraft=kraft, kind=kind)
    assert names(told(first, second, full_replaces=understood)) == left


@pytest.mark.requirement("A02")
def test_the_controller_shown_is_the_one_of_zookeeper_while_one_rules() -> None:
    brokers = [live(0), live(1), live(2)]
    cache = told(update(brokers=brokers, controller=2))
    assert cache.controller == CachedController(2, kraft=False)
    assert {cache.controller_id(Random(seed)) for seed in range(50)} == {2}


@pytest.mark.requirement("A02")
def test_the_controller_of_zookeeper_is_shown_also_where_it_is_not_among_the_live_brokers() -> None:
    """It may serve no listener of the clients, or be shutting down; Kafka looks at its id alone."""
    cache = told(update(brokers=[live(0), live(1)], controller=2))
    assert {cache.controller_id(Random(seed)) for seed in range(50)} == {2}


@pytest.mark.requirement("A02")
def test_after_the_take_over_a_random_live_broker_is_shown() -> None:
    brokers = [live(0), live(1), live(2)]
    cache = told(
        update(brokers=brokers, controller=2),
        update(brokers=brokers, controller=3000, kraft=True),
    )
    assert {cache.controller_id(Random(seed)) for seed in range(50)} == {0, 1, 2}


@pytest.mark.parametrize(
    "requests",
    [
        [],
        [update(controller=-1, brokers=[live(0)])],
        [update(controller=1), update(controller=-1)],
        [update(controller=3000, kraft=True)],
    ],
)
def test_without_a_controller_or_live_brokers_none_is_shown(requests: list[object]) -> None:
    assert told(*requests).controller_id(Random(1)) == -1


def test_the_image_has_a_topic_before_anything_is_read_from_zookeeper() -> None:
    cache = told(update(("t", ZERO_UUID, {0: 1})))
    cluster = ZooKeeperCluster(cache, PartWorld().part, PasswordSettings())
    assert [one.name for one in cluster.image.topics.values()] == ["t"]
