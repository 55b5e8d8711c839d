"""What a node's scrape says: the migration's values, and by the active controller alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from prometheus_client.parser import text_string_to_metric_families

from emulator.node import introspection
from emulator.trace import metrics
from emulator.trace.exposition import exposition
from tests.unit.controller.world import create
from tests.unit.metadata.build import partition
from tests.unit.node.test_machine import World, dual_writing
from tests.unit.node.test_no_request_ends_the_node import Peers, sent_anyhow
from tests.unit.node.test_tracing import plain, ticket
from wire import messages as m
from wire import records as r

MIGRATION = {
    metrics.ZK_MIGRATION_STATE,
    metrics.MIGRATING_ZK_BROKER_COUNT,
    metrics.ZK_WRITE_BEHIND_LAG,
    metrics.ZK_PENDING_RECORDS,
    metrics.ZK_WRITE_BLOCKING_KRAFT_MS,
    metrics.ZK_WRITE_BLOCKING_KRAFT_TOTAL_MS,
    metrics.ZK_WRITE_BLOCKING_KRAFT_UNION_MS,
}


def names(world: World, *, active: bool) -> set[str]:
    text = exposition(introspection.metrics(world.node, world.now_ms), active=active)
    return {family.name for family in text_string_to_metric_families(text)}


def broker(world: World, broker_id: int, *, migrating: bool) -> None:
    world.node.controller.append(
        [r.RegisterBrokerRecord(broker_id=broker_id, is_migrating_zk_broker=migrating)],
        world.now_ms,
    )
    world.advance(1_000)


@pytest.mark.requirement("M04", "M05")
def test_only_the_active_controller_tells_about_the_migration() -> None:
    world = World()
    assert introspection.metrics(world.node, world.now_ms).keys() >= MIGRATION
    shown = {metric.name.removesuffix("_total") for metric in MIGRATION}
    assert shown <= names(world, active=True)
    assert not shown & names(world, active=False)


def test_requests_to_brokers_are_among_them() -> None:
    world = World()
    found = introspection.metrics(world.node, world.now_ms)
    assert found[metrics.BROKER_REQUESTS] == found[metrics.BROKER_REQUESTS_WAITING] == {}
    assert found[metrics.BROKERS_NOT_ANSWERING] == 0


def test_the_longest_step_is_by_the_clock_and_by_the_time_of_its_thread() -> None:
    world = World()
    thread_ns = count(step=3_000_000)
    world.node._cpu = lambda: next(thread_ns)
    world.advance(100)
    found = introspection.metrics(world.node, world.now_ms)
    assert found[metrics.LONGEST_STEP_MS] == {("any",): 0.0, ("cpu",): 3.0}


@pytest.mark.requirement("M04")
def test_the_state_is_the_one_in_the_log() -> None:
    world = World()
    world.advance(100)
    found = introspection.metrics(world.node, world.now_ms)
    assert found[metrics.ZK_MIGRATION_STATE] == 2
    assert found[metrics.METADATA_TYPE] == 1
    world = World(zookeeper_metadata_migration_enable="false")
    world.advance(100)
    found = introspection.metrics(world.node, world.now_ms)
    assert found[metrics.ZK_MIGRATION_STATE] == 0
    assert found[metrics.METADATA_TYPE] == 2


@pytest.mark.requirement("M05")
def test_brokers_in_zookeeper_mode_are_counted_until_they_come_back_in_kraft_mode() -> None:
    world = World()
    counts = []
    for broker_id, migrating in ((1, True), (2, True), (3, False), (2, False)):
        broker(world, broker_id, migrating=migrating)
        found = introspection.metrics(world.node, world.now_ms)
        counts.append(found[metrics.MIGRATING_ZK_BROKER_COUNT])
    assert counts == [1, 2, 2, 1]


def test_without_a_migration_there_is_no_lag() -> None:
    world = World(zookeeper_metadata_migration_enable="false")
    found = introspection.metrics(world.node, world.now_ms)
    assert not {metrics.ZK_WRITE_BEHIND_LAG, metrics.ZK_PENDING_RECORDS} & found.keys()


def test_requests_and_connections_are_counted_where_they_belong() -> None:
    peers = Peers(topics=False)
    sent_anyhow(peers, 19, 7, create("t"))  # by itself and in an Envelope
    sent_anyhow(peers, 1, 0, m.FetchRequest())
    found = introspection.metrics(peers.node, peers.now_ms)
    requests = found[metrics.REQUESTS]
    assert (requests["CreateTopics", "no"], requests["CreateTopics", "yes"]) == (1, 1)
    assert requests["Fetch", "no"] == 1
    latency = found[metrics.REQUEST_LATENCY_MS]
    assert latency["CreateTopics",].count == 2
    assert ("Fetch",) not in latency, "a long poll"
    assert found[metrics.CONNECTIONS_ACCEPTED] == {("CONTROLLER",): peers.conn}
    assert found[metrics.CONNECTIONS] == {("CONTROLLER",): 0}
    assert found[metrics.NEW_ACTIVE_CONTROLLERS_COUNT] == 1


def test_a_heartbeat_that_was_answered_too_late_is_counted() -> None:
    world = World()
    for code in (7, 0, 41):
        late = plain(ticket(63, 1), m.BrokerHeartbeatResponse(error_code=code))
        world.node.counters.note_answer(late, code, 2_000)
    found = introspection.metrics(world.node, world.now_ms)
    assert found[metrics.TIMED_OUT_BROKER_HEARTBEAT_COUNT] == 1


def test_partitions_without_a_leader_and_with_another_than_the_preferred_one_are_counted() -> None:
    """By the names that dashboards for Kafka's controller expect."""
    world = World(zookeeper_metadata_migration_enable="false")
    world.advance(100)
    topic = bytes(15) + b"t"
    rows = [(0, [1, 2], 1), (1, [1, 2], 2), (2, [2, 1], 1), (3, [1], -1)]
    world.node.controller.append(
        [
            r.TopicRecord(name="t", topic_id=topic),
            *(
                partition(topic, index, replicas=replicas, leader=leader)
                for index, replicas, leader in rows
            ),
        ],
        world.now_ms,
    )
    world.advance(100)
    text = exposition(introspection.metrics(world.node, world.now_ms), active=True)
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    prefix = "kafka_controller_kafkacontroller"
    assert found[f"{prefix}_offlinepartitionscount"] == 1
    # A partition without a leader is not led by its preferred replica either, as in Kafka.
    assert found[f"{prefix}_preferredreplicaimbalancecount"] == 3


@pytest.mark.parametrize(("make", "word"), [(World, "waiting"), (dual_writing, "dual write")])
def test_the_phase_is_the_word_that_status_shows(make: Callable[[], World], word: str) -> None:
    world = make()
    shown = introspection.status(world.node, world.now_ms)["phase"]["name"]
    assert introspection.metrics(world.node, world.now_ms)[metrics.PHASE] == {(word,): 1}
    assert shown == word
