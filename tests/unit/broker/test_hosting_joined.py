"""Brokers in KRaft mode with our controller: replicas, leaders, ids, and calls answered here."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.metadata.topics import MIGRATING
from tests.kit.requests import (
    alter_config,
    create_topics,
    describe_config,
    metadata,
    raise_level,
    reassign,
)
from tests.unit.broker.joined_brokers import Stage
from wire import messages as m
from wire.errors import ErrorCode
from wire.releases import RELEASES


def created(stage: Stage, name: str, *replicas: tuple[int, ...]) -> None:
    answer = stage.client(1).ask(create_topics(name, assigned=replicas), 5)
    assert answer.topics[0].error_code == 0, answer
    stage.joined.wait(100)


def partitions(stage: Stage, name: str) -> list[Any]:
    found = stage.controller.machine.history.stable.topic(name)  # type: ignore[attr-defined]
    return [*found.partitions.values()]


def full(stage: Stage, name: str) -> bool:
    return all(set(one.isr) == set(one.replicas) for one in partitions(stage, name))


@pytest.mark.parametrize("release", RELEASES)
def test_a_broker_that_dies_and_returns_is_in_its_isrs_again(release: str):
    levels = {"3.4": 8, "3.5": 11, "3.6": 14, "3.7": 19, "3.8": 20, "3.9": 21}
    stage = Stage(level=levels[release])
    stage.running(1, 2, 3, kraftbridge_release=release)
    created(stage, "t", (1, 2, 3), (2, 3, 1), (3, 1, 2))
    stage.joined.leave(stage.parties[3])
    stage.joined.until(lambda: all(3 not in one.isr for one in partitions(stage, "t")))
    assert all(one.leader in {1, 2} for one in partitions(stage, "t"))
    stage.running(3, kraftbridge_release=release)
    stage.joined.until(lambda: full(stage, "t"), 5_000)


def test_a_reassignment_asked_of_a_broker_completes():
    stage = Stage()
    stage.running(1, 2, 3)
    created(stage, "t", (1, 2))
    answer = stage.client(2).ask(reassign("t", (3, 2), 0, timeout_ms=30_000), 0)
    assert answer.responses[0].partitions[0].error_code == 0
    stage.joined.wait(1_000)
    (moved,) = partitions(stage, "t")
    assert moved.replicas == (3, 2)
    assert set(moved.isr) == {2, 3}
    assert moved.adding_replicas == moved.removing_replicas == ()
    listed = stage.client(1).ask(m.ListPartitionReassignmentsRequest(topics=None), 0)
    assert listed.topics == []


@pytest.mark.requirement("A04")
def test_leaders_move_away_before_a_broker_ends():
    stage = Stage()
    one, *_ = stage.running(1, 2, 3)
    created(stage, "t", (1, 2, 3), (1, 3, 2))
    joined, party = stage.joined, stage.parties[1]
    led_when_halted: list[int] = []
    joined.perform(party, one.shutdown(joined.now_ms))
    joined.settle()
    joined.until(lambda: party.halt is not None, 10_000)
    led_when_halted = [part.leader for part in partitions(stage, "t")]
    assert party.halt.exit_code == 0
    assert 1 not in led_when_halted
    assert all(1 not in part.isr for part in partitions(stage, "t"))


def test_every_producer_of_every_broker_gets_its_own_id():
    stage = Stage()
    stage.running(1, 2)
    request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    early = stage.client(1).ask(request, 4)
    assert early.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    stage.client(2).ask(request, 4)
    stage.joined.wait(100)
    given = [stage.client(one).ask(request, 4) for one in (1, 2, 1, 2)]
    assert [one.error_code for one in given] == [0] * 4
    assert [one.producer_id for one in given] == [0, 1_000, 1, 1_001]


@pytest.mark.requirement("I06")
def test_internal_topics_are_created_when_a_coordinator_is_looked_for():
    stage = Stage()
    stage.running(1, 2, 3)
    client = stage.client(1)
    request = m.FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"])
    first = client.ask(request, 4)
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [one.error_code for one in first.coordinators] == [unavailable] * 2
    stage.joined.wait(1_000)
    offsets = partitions(stage, "__consumer_offsets")
    assert len(offsets) == 50
    assert {len(one.replicas) for one in offsets} == {3}
    for node_id in (1, 2, 3):
        told = stage.client(node_id).ask(request, 4)
        assert [one.node_id for one in told.coordinators] == [
            offsets[ord(one.key) % 50].leader for one in told.coordinators
        ]


@pytest.mark.requirement("I07")
@pytest.mark.parametrize(("name", "count"), [("__consumer_offsets", 4), ("__transaction_state", 7)])
def test_internal_topics_are_created_when_metadata_is_asked_for(name: str, count: int):
    stage = Stage()
    stage.running(
        1,
        2,
        offsets_topic_num_partitions="4",
        offsets_topic_replication_factor="2",
        transaction_state_log_num_partitions="7",
        transaction_state_log_replication_factor="2",
        transaction_state_log_min_isr="1",
    )
    wanted = metadata(name, allow_auto_topic_creation=True)
    (first,) = stage.client(2).ask(wanted, 12).topics
    assert first.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert first.is_internal
    stage.joined.wait(1_000)
    (found,) = stage.client(1).ask(wanted, 12).topics
    assert (found.error_code, found.is_internal, len(found.partitions)) == (0, True, count)
    assert {len(one.replicas) for one in partitions(stage, name)} == {2}


def test_configs_altered_through_one_broker_are_told_by_all():
    stage = Stage()
    stage.running(1, 2)
    created(stage, "t", (1, 2))
    asked = alter_config(2, "retention.ms", "5", "t", "none")
    asked.resources[1:1] = alter_config(4, "background.threads", "3", "2").resources
    answer = stage.client(1).ask(asked, 1)
    assert [(one.resource_name, one.error_code) for one in answer.responses] == [
        ("t", 0),
        ("2", ErrorCode.INVALID_REQUEST),
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    stage.joined.wait(100)
    describe = describe_config(2, "t", "retention.ms")
    for node_id in (1, 2):
        (told,) = stage.client(node_id).ask(describe, 4).results
        assert [(one.name, one.value) for one in told.configs] == [("retention.ms", "5")]


def test_where_replicas_are_is_told_when_the_level_has_directories():
    stage = Stage(level=16)
    stage.running(1, 2)
    stage.client(1).ask(create_topics("t", partitions=2, factor=2), 7)
    stage.joined.wait(1_000)
    assert {one.directories for one in partitions(stage, "t")} == {(MIGRATING, MIGRATING)}
    answer = stage.client(1).ask(raise_level(17), 1)
    assert answer.error_code == 0
    stage.joined.wait(20_000)
    for one in partitions(stage, "t"):
        assert one.directories == tuple(bytes([node_id]) * 16 for node_id in one.replicas)


@pytest.mark.requirement("A04")
def test_a_held_back_follower_leaves_its_isr_and_returns():
    stage = Stage()
    one, *_ = stage.running(1, 2)
    created(stage, "t", (1, 2))
    replicas = one.side.hosting.replicas
    assert replicas.hold_back(("t", 0), 2, stage.joined.now_ms)
    stage.joined.wait(1_000)
    assert partitions(stage, "t")[0].isr == (1,)
    replicas.let_go(("t", 0), 2, stage.joined.now_ms)
    stage.joined.wait(1_000)
    assert partitions(stage, "t")[0].isr == (1, 2)
