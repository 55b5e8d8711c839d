"""What a ZooKeeper-mode broker answers to control requests, and what it then hosts."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.broker.zookeeper.control_requests import BrokerEpochs
from emulator.net.control import TYPE_FULL, TYPE_INCREMENTAL
from tests.unit.broker.control import (
    ME,
    REGISTRATION_EPOCH,
    ZNODE_EPOCH,
    T,
    Told,
    U,
    codes,
    lead,
    live,
    stop,
    update,
)
from wire import messages as m
from wire.codec import decode, encode
from wire.errors import ErrorCode
from wire.schema import ZERO_UUID

E = ErrorCode
MAKERS = {"LeaderAndIsr": lead, "UpdateMetadata": update, "StopReplica": stop}


@pytest.fixture(params=MAKERS, name="maker")
def any_kind(request: pytest.FixtureRequest) -> Any:
    return MAKERS[request.param]


@pytest.mark.parametrize(
    ("kraft", "named", "code"),
    [
        (False, ZNODE_EPOCH - 1, E.STALE_BROKER_EPOCH),
        (False, ZNODE_EPOCH, E.NONE),
        (False, ZNODE_EPOCH + 1, E.NONE),
        (True, REGISTRATION_EPOCH - 1, E.STALE_BROKER_EPOCH),
        (True, ZNODE_EPOCH, E.STALE_BROKER_EPOCH),
        (True, REGISTRATION_EPOCH, E.NONE),
        (False, -1, E.NONE),
        (True, -1, E.NONE),
    ],
)
def test_each_kind_of_controller_is_held_to_its_own_broker_epoch(
    maker: Any, kraft: bool, named: int, code: ErrorCode
) -> None:
    assert Told().take(maker(kraft=kraft, broker_epoch=named)).error_code == code


def test_a_kraft_controller_is_refused_where_the_migration_is_off(maker: Any) -> None:
    told = Told(migrating=False)
    answer = told.take(maker(kraft=True, broker_epoch=REGISTRATION_EPOCH))
    assert answer.error_code == E.UNKNOWN_SERVER_ERROR
    assert told.cache.controller is None
    assert not len(told.replicas)


def test_an_older_controller_is_refused_by_all_three_after_any_of_them(maker: Any) -> None:
    told = Told()
    told.take(maker(epoch=7))
    for older in MAKERS.values():
        assert told.take(older(epoch=6)).error_code == E.STALE_CONTROLLER_EPOCH
        assert told.take(older(epoch=7)).error_code == E.NONE


def test_a_refused_request_raises_no_controller_epoch(maker: Any) -> None:
    told = Told()
    told.take(maker(epoch=9, broker_epoch=ZNODE_EPOCH - 1))
    assert told.take(maker(epoch=5)).error_code == E.NONE


def test_a_refused_leader_and_isr_names_every_partition() -> None:
    answer = Told().take(lead(indexes=(0, 1), broker_epoch=0))
    assert codes(answer) == [E.STALE_BROKER_EPOCH] * 3


# -------------------------------------------------------------------- LeaderAndIsr
def test_every_partition_is_answered_and_hosted() -> None:
    told = Told()
    answer = told.take(lead(indexes=(0, 1)))
    assert codes(answer) == [E.NONE, E.NONE, E.NONE]
    assert [one.key for one in told.replicas] == [("t", 0), ("t", 1)]


def test_partitions_of_other_brokers_are_not_hosted() -> None:
    told = Told()
    assert codes(told.take(lead(replicas=(2, 3)))) == [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert not len(told.replicas)


def test_another_topic_of_the_same_name_is_refused() -> None:
    told = Told()
    told.take(lead(topic_id=T))
    assert codes(told.take(lead(topic_id=U, leader_epoch=9))) == [E.NONE, E.INCONSISTENT_TOPIC_ID]
    hosted = told.replicas.get(("t", 0))
    assert hosted.topic_id == T


def test_a_controller_without_topic_ids_means_the_topic_that_is_hosted() -> None:
    told = Told()
    told.take(lead(topic_id=T))
    assert codes(told.take(lead(topic_id=ZERO_UUID, leader_epoch=2))) == [E.NONE, E.NONE]
    hosted = told.replicas.get(("t", 0))
    assert (hosted.topic_id, hosted.partition.leader_epoch) == (T, 2)


def test_a_topic_id_is_learnt_without_a_new_leader_epoch() -> None:
    told = Told()
    told.take(lead(topic_id=ZERO_UUID))
    assert codes(told.take(lead(topic_id=T))) == [E.NONE, E.NONE]
    hosted = told.replicas.get(("t", 0))
    assert hosted.topic_id == T


@pytest.mark.parametrize(
    ("kraft", "leader_epoch", "code"),
    [
        (False, 4, E.STALE_CONTROLLER_EPOCH),
        (False, 5, E.STALE_CONTROLLER_EPOCH),
        (False, 6, E.NONE),
        (True, 4, E.STALE_CONTROLLER_EPOCH),
        (True, 5, E.NONE),
        (True, 6, E.NONE),
    ],
)
def test_an_equal_leader_epoch_counts_from_a_kraft_controller_only(
    kraft: bool, leader_epoch: int, code: ErrorCode
) -> None:
    told = Told()
    told.take(lead(leader_epoch=5))
    again = lead(leader_epoch=leader_epoch, kraft=kraft, replicas=(ME, 3), partition_epoch=1)
    assert codes(told.take(again)) == [E.NONE, code]
    hosted = told.replicas.get(("t", 0))
    assert hosted.partition.replicas == ((ME, 3) if code == E.NONE else (ME, 2))


@pytest.mark.parametrize(
    ("kraft", "kind", "understood", "left"),
    [
        (True, TYPE_FULL, True, {("u", 0)}),
        (True, TYPE_FULL, False, {("t", 0), ("u", 0)}),
        (False, TYPE_FULL, True, {("t", 0), ("u", 0)}),
        (True, TYPE_INCREMENTAL, True, {("t", 0), ("u", 0)}),
    ],
)
def test_what_a_full_request_leaves_out_is_not_hosted(
    kraft: bool, kind: int, understood: bool, left: set[tuple[str, int]]
) -> None:
    told = Told(full_replaces=understood)
    told.take(lead("t", T))
    told.take(lead("u", U, kraft=kraft, kind=kind))
    assert {one.key for one in told.replicas} == left


def test_a_full_request_replaces_a_topic_of_the_same_name() -> None:
    told = Told()
    told.take(lead("t", T, leader_epoch=9))
    answer = told.take(lead("t", U, kraft=True, kind=TYPE_FULL, leader_epoch=0))
    assert codes(answer) == [E.NONE, E.NONE]
    hosted = told.replicas.get(("t", 0))
    assert hosted.topic_id == U


@pytest.mark.parametrize("version", [0, 1, 4, 5, 7])
def test_the_response_of_every_version_names_each_partition(version: int) -> None:
    answer = Told().take(lead(indexes=(0, 1), replicas=(2, 3)))
    read = decode(m.LeaderAndIsrResponse, version, encode(answer, version))
    assert codes(read) == [E.NONE, *[E.UNKNOWN_TOPIC_OR_PARTITION] * 2]


# -------------------------------------------------------------------- StopReplica
@pytest.mark.parametrize(
    ("leader_epoch", "code"),
    [(4, E.FENCED_LEADER_EPOCH), (5, E.NONE), (6, E.NONE), (-1, E.NONE), (-2, E.NONE)],
)
def test_a_replica_is_stopped_unless_the_leader_epoch_is_lower(
    leader_epoch: int, code: ErrorCode
) -> None:
    told = Told()
    told.take(lead(leader_epoch=5))
    assert codes(told.take(stop(leader_epoch=leader_epoch))) == [E.NONE, code]
    assert (told.replicas.get(("t", 0)) is None) == (code == E.NONE)


def test_a_replica_that_is_not_hosted_is_stopped_already() -> None:
    assert codes(Told().take(stop("never", 3))) == [E.NONE, E.NONE]


# -------------------------------------------------------------------- UpdateMetadata
def test_live_brokers_are_the_active_followers() -> None:
    told = Told()
    told.take(update(brokers=[live(1), live(2)]))
    assert [told.replicas.epoch_of(one) for one in (1, 2, 3)] == [-1, -1, None]


# -------------------------------------------------------------------- both epochs
def test_the_epoch_to_name_is_the_one_that_the_controller_knows() -> None:
    epochs = BrokerEpochs(lambda: 40, lambda: 90)
    assert (epochs.to_name(kraft=False), epochs.to_name(kraft=True)) == (40, 90)
    assert BrokerEpochs(lambda: 40).to_name(kraft=True) == 40


def test_partitions_are_judged_again_only_when_brokers_came_or_went() -> None:
    told = Told()
    both = [live(ME), live(2)]
    told.take(update(brokers=both))
    told.take(lead(indexes=range(3)))
    assert told.replicas.judge(0) == []
    told.take(update(("u", U, {0: 2}), brokers=both))
    assert told.replicas.deadline_ms is None
    told.take(update(brokers=[live(ME)]))
    assert told.replicas.deadline_ms == 0
