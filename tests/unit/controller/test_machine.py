"""The controller as a machine: activation, deferred answers, deadlines, timers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from emulator.controller.machine import Controller
from emulator.controller.queue import batches
from emulator.metadata.errors import ActivationRefusedError, ReplayError
from emulator.metadata.migration_state import MigrationState
from tests.unit.controller.world import (
    World,
    broker,
    config,
    create,
    level,
    partition,
    registration,
    topic,
    uuid,
)
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

BEGIN, END = r.BeginTransactionRecord(name="Bootstrap records"), r.EndTransactionRecord()


def state(value: int) -> r.ZkMigrationStateRecord:
    return r.ZkMigrationStateRecord(zk_migration_state=value)


BOOTSTRAP: list[tuple[int, bool, list[object]]] = [
    (3, False, []),
    (4, False, [level(4)]),
    (7, False, [level(7)]),
    (8, False, [level(8), state(0)]),
    (8, True, [level(8), state(2)]),
    (12, True, [level(12), state(2)]),
    (13, True, [BEGIN, level(13), state(2), END]),
    (14, False, [BEGIN, level(14), state(0), END]),
]


@pytest.mark.parametrize(("mv", "migration", "expected"), BOOTSTRAP)
@pytest.mark.requirement("V10", "C03", "S02", "S03", "V06", "J03")
def test_an_empty_log_begins_with_its_bootstrap_records(
    mv: int, migration: bool, expected: list[object]
) -> None:
    """KIP-866 "Migration Overview" and KIP-778: one batch, atomic at every metadata.version."""
    world = World(metadata_version=mv, migration_enabled=migration)
    assert [record for _, record, _ in world.log.records()] == expected
    assert len(world.log.batches) == (1 if expected else 0)
    wanted = MigrationState.PRE_MIGRATION if migration else MigrationState.NONE
    assert world.tip.migration_state is wanted
    assert world.tip.metadata_version.level == (mv if mv > 3 else 1)


def test_a_controller_registers_itself_from_3_7_iv0_on() -> None:
    """KIP-919; the record stands behind the bootstrap transaction, as recorded."""
    world = World(metadata_version=15, migration_enabled=True)
    *_, (_, record, version) = world.log.records()
    assert isinstance(record, r.RegisterControllerRecord)
    assert version == 0
    assert (record.controller_id, record.zk_migration_ready) == (3000, True)
    assert [(one.name, one.host, one.port) for one in record.end_points] == [
        ("CONTROLLER", "127.0.0.1", 23000)
    ]
    assert world.controller.activate(world.now_ms)
    kinds = [type(record).__name__ for _, record, _ in world.log.records()]
    assert kinds.count("RegisterControllerRecord") == 2
    assert kinds.count("FeatureLevelRecord") == 1


REFUSED = [
    ({"metadata_version": 7, "migration_enabled": True}, "below 8"),
    ({"metadata_version": 20, "release": "3.7"}, "above what a 3.7 controller supports"),
]


@pytest.mark.parametrize(("fields", "why"), REFUSED)
@pytest.mark.requirement("V01")
def test_an_empty_log_may_be_refused(fields: dict[str, Any], why: str) -> None:
    world = World(activate=False, **fields)
    with pytest.raises(ActivationRefusedError, match=why):
        world.controller.activate(world.now_ms)
    assert world.log.records() == []
    assert not world.controller.active


RESTARTS = [
    (0, True, "created in KRaft mode"),
    (2, False, "is not true"),
    (1, False, "cannot be finalised, which could not be undone"),
    (0, False, None),
    (2, True, None),
    (1, True, None),
    (3, True, None),
    (3, False, None),
]


@pytest.mark.parametrize(("value", "enabled", "why"), RESTARTS)
def test_a_log_with_metadata_decides_together_with_the_setting(
    value: int, enabled: bool, why: str | None
) -> None:
    """A migration is never finalised because somebody forgot the setting."""
    world = World(activate=False, migration_enabled=enabled)
    world.history.append([level(21), state(value)], 1, 1)
    world.log.append([b"", b""], 0)
    before = world.log.log_end_offset
    if why is not None:
        with pytest.raises(ActivationRefusedError, match=why):
            world.controller.activate(world.now_ms)
        assert world.log.log_end_offset == before
    else:
        note = world.controller.activate(world.now_ms)
        assert ("ignored" in note) == (value == 3 and enabled)
        assert world.tip.migration_state == value


def test_an_open_transaction_is_aborted_first() -> None:
    world = World(migration_enabled=True, metadata_version=14)
    world.controller.append([r.BeginTransactionRecord(name="ZK Migration")], world.now_ms)
    world.controller.append([topic("half", 1)], world.now_ms)
    successor = Controller(world.config, world.log, world.history, random.Random(3))
    offset = world.log.log_end_offset
    successor.activate(world.now_ms)
    assert world.records_since(offset) == [
        (r.AbortTransactionRecord(reason="Controller failover"), 0)
    ]
    assert successor.tip.topic("half") is None


def test_a_bootstrap_cut_off_by_a_crash_is_begun_again() -> None:
    world = World(activate=False)
    world.history.append([r.BeginTransactionRecord(name="Bootstrap records"), level(14)], 1, 1)
    world.log.append([b"", b""], 0)
    world.controller.activate(world.now_ms)
    world.log.batches.pop(0)
    kinds = [type(record).__name__ for _, record, _ in world.log.records()]
    assert kinds[:3] == ["AbortTransactionRecord", "BeginTransactionRecord", "FeatureLevelRecord"]
    assert world.tip.metadata_version.level == 21


# Deferred answers.


def test_an_answer_waits_for_its_last_record_to_be_committed() -> None:
    world = World().join(0)
    assert world.send(create("t", 3)) == []
    world.log.high_watermark = world.log.log_end_offset - 1
    world.controller.committed(world.now_ms)
    assert world.answers() == []
    world.commit()
    (answer,) = world.answers()
    assert answer.topics[0].error_code == 0


def test_an_answer_without_records_waits_for_what_it_may_tell_of() -> None:
    """That a topic exists is known from a record that may still be lost."""
    world = World().join(0)
    assert world.send(create("t")) == []
    assert world.send(create("t")) == []
    world.commit()
    first, second = world.answers()
    assert [one.topics[0].error_code for one in (first, second)] == [0, 36]
    (third,) = world.send(create("t"))
    assert third.topics[0].error_code == 36


@pytest.mark.requirement("P11", "O02")
def test_registration_and_heartbeat_are_answered_inside_the_copy_s_transaction() -> None:
    """KIP-868: nothing else is stable before the End; brokers must not time out meanwhile."""
    world = World(migration_enabled=True)
    world.controller.append([r.BeginTransactionRecord(name="ZK Migration")], world.now_ms)
    zk = {"is_migrating_zk_broker": True, "metadata_version": (21, 21)}
    assert world.register(1, **zk).error_code == 0
    assert world.heartbeat(1).is_fenced is False
    assert 1 not in world.controller.stable.brokers
    deltas = world.commit()
    assert deltas == []
    world.controller.append([state(1), END], world.now_ms)
    (delta,) = world.commit()
    assert delta.after.brokers[1].fenced is False
    assert world.send(create("t")) == []


def test_other_answers_wait_for_the_end_of_a_transaction() -> None:
    world = World().join(0)
    world.controller.append([r.BeginTransactionRecord()], world.now_ms)
    assert world.send(create("t")) == []
    world.commit()
    assert world.answers() == []
    world.controller.append([END], world.now_ms)
    world.commit()
    assert len(world.answers()) == 1


# Deadlines.


def test_a_request_times_out_by_its_own_limit() -> None:
    world = World().join(0)
    world.send(create("t", timeout_ms=1_000))
    assert world.later(999) == []
    (answer,) = world.later(1)
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    world.commit()
    assert world.answers() == []
    assert world.tip.topic("t") is not None


def test_the_caller_s_deadline_goes_before_the_request_s() -> None:
    world = World().join(0)
    world.send(create("t", timeout_ms=60_000), deadline_ms=world.now_ms + 10)
    (answer,) = world.later(10)
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


# Timers.


def test_an_idle_log_gets_a_noop_every_500_ms_from_3_3_iv1_on() -> None:
    world = World(metadata_version=5)
    offset = world.log.log_end_offset
    assert world.controller.deadline_ms == world.now_ms + 500
    world.later(499)
    assert world.log.log_end_offset == offset
    world.later(1)
    assert [type(one).__name__ for at, one, _ in world.log.records() if at >= offset] == [
        "NoOpRecord"
    ]
    world.later(1_000)
    assert world.log.log_end_offset == offset + 2
    old = World(metadata_version=4)
    assert old.controller.deadline_ms is None


def test_an_interval_of_0_lets_an_idle_log_be() -> None:
    world = World(metadata_max_idle_interval_ms=0)
    offset = world.log.log_end_offset
    assert world.controller.deadline_ms is None
    world.controller.tick(world.now_ms + 1_000)
    assert world.log.log_end_offset == offset


@pytest.mark.parametrize("migration", [False, True])
@pytest.mark.requirement("N05")
def test_silent_brokers_are_fenced_one_by_one_oldest_first(migration: bool) -> None:
    """Also before the copy, where Kafka's controllers let a dead broker look ready."""
    world = World(migration_enabled=migration)
    zk = {"is_migrating_zk_broker": True, "metadata_version": (21, 21)} if migration else {}
    world.join(0, **zk)
    world.later(100)
    world.join(1, 2, **zk)
    world.later(8_000)
    world.heartbeat(2)
    fenced = lambda: [one.id for one in world.tip.brokers.values() if one.fenced]  # noqa: E731
    world.now_ms += 899
    world.controller.tick(world.now_ms)
    assert fenced() == []
    world.now_ms += 101
    world.controller.tick(world.now_ms)
    assert fenced() == [0]
    due = world.controller.deadline_ms
    assert due is not None
    assert due <= world.now_ms
    world.controller.tick(world.now_ms)
    assert fenced() == [0, 1]
    world.later(7_998)
    assert fenced() == [0, 1]
    world.later(2)
    assert fenced() == [0, 1, 2]


@pytest.mark.requirement("N05")
def test_the_session_counts_from_the_last_heartbeat_also_while_the_log_stands_still() -> None:
    """While ZooKeeper is away NoOps become rare; each heartbeat then names the same offset."""
    world = World(metadata_max_idle_interval_ms=0).join(0, 1)
    end = world.log.log_end_offset
    for _ in range(9):
        world.later(2_000)
        world.heartbeat(0)
        world.heartbeat(1)
    fenced = lambda: [one.id for one in world.tip.brokers.values() if one.fenced]  # noqa: E731
    world.later(4_000)
    world.heartbeat(1)
    world.later(4_999)
    assert (fenced(), world.log.log_end_offset) == ([], end)
    world.later(1)
    assert fenced() == [0]


@pytest.mark.parametrize("level", [8, 21])
def test_a_broker_fenced_before_the_copy_leads_nothing_after_it(level: int) -> None:
    """It died while others were waited for, or in the copy; ZooKeeper still names it as leader."""
    world = World(migration_enabled=True, metadata_version=level)
    zk = {"is_migrating_zk_broker": True, "metadata_version": (level, level)}
    world.join(0, 1, 2, **zk)
    world.later(8_000)
    world.heartbeat(0)
    world.later(1_000)
    world.heartbeat(2, want_fence=True)
    assert [one.fenced for one in world.tip.brokers.values()] == [False, True, True]
    copied = [
        topic("t", 1),
        partition(1, 0, replicas=(1, 0), directories=()),
        partition(1, 1, replicas=(1,), directories=()),
        partition(1, 2, replicas=(1, 0), isr=(0,), directories=()),
        partition(1, 3, replicas=(2, 0), directories=()),
    ]
    if level >= 13:
        world.controller.append([r.BeginTransactionRecord(name="ZK Migration")], world.now_ms)
    world.controller.append(copied, world.now_ms)
    world.later(0)
    assert world.tip.topics[uuid(1)].partitions[0].leader == 1, "not before the copy is complete"
    world.controller.append([state(1), END] if level >= 13 else [state(1)], world.now_ms)
    world.later(0)
    found = world.tip.topics[uuid(1)].partitions
    assert [(one.leader, one.isr, one.leader_epoch) for one in found.values()] == [
        (0, (0,), 6),
        (-1, (1,), 6),
        (0, (0,), 6),
        (2, (2, 0), 5),
    ], "broker 2 is fenced and alive: it will soon lead"
    assert world.controller.deadline_ms is not None
    assert world.controller.deadline_ms > world.now_ms


def test_a_new_leader_gives_every_broker_a_whole_session() -> None:
    world = World().join(0)
    world.now_ms += 8_999
    successor = Controller(world.config, world.log, world.history, random.Random(3))
    successor.activate(world.now_ms)
    world.log.commit()
    successor.committed(world.now_ms)
    session = successor.heartbeats.session(0)
    assert (session.last_contact_ms, session.metadata_offset) == (world.now_ms, -1)
    successor.tick(world.now_ms + 8_999)
    assert not successor.tip.brokers[0].fenced
    successor.tick(world.now_ms + 9_000)
    assert successor.tip.brokers[0].fenced


# Leadership lost.


def test_resigning_refuses_everybody_and_forgets_what_is_not_committed() -> None:
    world = World().join(0)
    world.send(create("t"))
    world.controller.hold(room=0, now_ms=world.now_ms)
    world.send(create("u"))
    world.controller.resign(world.now_ms, leader_id=3001)
    for answer in world.answers():
        assert answer.topics[0].error_code == ErrorCode.NOT_CONTROLLER
        assert "node 3001" in answer.topics[0].error_message
    assert world.tip.topic("t") is None
    assert world.controller.deadline_ms is None
    (refused,) = world.send(create("v"))
    assert refused.topics[0].error_code == ErrorCode.NOT_CONTROLLER


def test_a_standby_says_that_nobody_leads() -> None:
    world = World(activate=False)
    (refused,) = world.send(registration(1))
    assert refused.error_code == ErrorCode.NOT_CONTROLLER
    (topics,) = world.send(create("v"))
    assert topics.topics[0].error_message == "No controller appears to be active."


# Appending for others.


def test_records_that_need_more_than_one_batch() -> None:
    world = World()
    many = [topic(f"t{number}", number) for number in range(20_001)]
    with pytest.raises(ValueError, match="do not fit one batch"):
        world.controller.append(many, world.now_ms)
    first = world.log.log_end_offset
    last = world.controller.append(many, world.now_ms, atomic=False)
    cut = [len(values) for base, values in world.log.batches if base >= first]
    assert cut == [1_000] * 20 + [1]
    assert last == world.log.log_end_offset - 1 == world.tip.offset
    (told,) = [one for one in world.controller.take_appended() if one.first_offset == first]
    assert (told.ticket, told.last_offset) == (None, last)


def test_batches_stay_below_8_mib() -> None:
    world = World()
    wide = [
        r.ConfigRecord(resource_type=4, resource_name="", name=f"k{one}", value="x" * 32_000)
        for one in range(300)
    ]
    first = world.log.log_end_offset
    world.controller.append(wide, world.now_ms, atomic=False)
    sizes = [sum(map(len, values)) for base, values in world.log.batches if base >= first]
    assert len(sizes) == 2
    assert 8_300_000 < sizes[0] < 8 * 1024 * 1024


@pytest.mark.parametrize("how", ["timer", "shutdown", "unregister", "register"])
def test_a_broker_may_leave_more_partitions_than_one_batch_holds(how: str) -> None:
    world = World().join(0, 1)
    for number in range(2):
        world.ask(create(f"t{number}", 6_000, 2))
    first = world.log.log_end_offset
    if how == "timer":
        world.later(8_000)
        world.heartbeat(1)
        world.later(1_000)
    elif how == "shutdown":
        world.heartbeat(0, want_shut_down=True)
    elif how == "unregister":
        world.ask(m.UnregisterBrokerRequest(broker_id=0))
    else:
        world.now_ms += 8_000
        world.heartbeat(1)
        world.now_ms += 1_000
        assert world.register(0, incarnation_id=uuid(9)).error_code == 0
    sizes = [len(values) for base, values in world.log.batches if base >= first and len(values) > 1]
    assert sum(sizes) in {12_000, 12_001}
    assert max(sizes) == 1_000
    left = [one for found in world.tip.topics.values() for one in found.partitions.values()]
    assert {(one.leader, one.isr) for one in left} == {(1, (1,))}


def test_an_operation_too_large_for_one_batch_is_against_policy() -> None:
    world = World().join(0)
    answer = world.ask(create("t", 10_000))
    assert answer.topics[0].error_code == ErrorCode.POLICY_VIOLATION
    assert world.tip.topic("t") is None
    assert world.ask(create("t", 9_999)).topics[0].error_code == 0


def test_a_record_that_does_not_fit_leaves_log_and_image_alone() -> None:
    world = World()
    offset, tip = world.log.log_end_offset, world.tip
    with pytest.raises(ReplayError):
        world.controller.append([topic("t", 1), partition(2)], world.now_ms)
    assert world.log.log_end_offset == offset
    assert world.tip is tip


def test_a_record_its_level_does_not_write_is_a_mistake_of_ours() -> None:
    world = World(metadata_version=8)
    with pytest.raises(ValueError, match=r"not written at metadata\.version 8"):
        world.controller.append([r.BeginTransactionRecord()], world.now_ms)


def test_what_a_call_appended_is_told_with_its_ticket() -> None:
    world = World().join(0)
    world.controller.take_appended()
    first = world.log.log_end_offset
    world.send(create("t", 3), ticket="mine")
    (told,) = world.controller.take_appended()
    assert (told.ticket, told.api_key) == ("mine", 19)
    assert (told.first_offset, told.last_offset) == (first, first + 3)


ZK = {"is_migrating_zk_broker": True, "metadata_version": (21, 21)}


@pytest.mark.parametrize("how", ["abort", "failover"])
def test_what_brokers_were_told_outlives_an_aborted_transaction(how: str) -> None:
    """A registration answered inside would else be lost, and the broker never registers again."""
    world = World(migration_enabled=True).join(0, 1, 2, **ZK)
    world.controller.append([r.BeginTransactionRecord()], world.now_ms)
    world.controller.append([topic("half", 1), partition(1, replicas=(0, 1))], world.now_ms)
    world.join(3, **ZK)
    epoch = world.tip.brokers[3].epoch
    assert world.heartbeat(0, want_fence=True).is_fenced
    assert world.ask(m.UnregisterBrokerRequest(broker_id=1)).error_code == 0
    if how == "abort":
        last = world.controller.append([r.AbortTransactionRecord(reason="x")], world.now_ms)
        assert last == world.log.log_end_offset - 1
    else:
        world.controller = Controller(world.config, world.log, world.history, random.Random(3))
        world.controller.activate(world.now_ms)
    (_, *deltas) = world.commit()
    assert deltas
    assert world.tip.topic("half") is None
    assert {one.id: one.fenced for one in world.tip.brokers.values()} == {
        0: True,
        2: False,
        3: True,
    }
    assert world.tip.brokers[3].epoch == epoch
    assert world.heartbeat(3).is_fenced is False
    assert world.controller.heartbeats.session(1) is None


def test_brokers_that_share_a_partition_are_fenced_again_one_after_the_other() -> None:
    world = World().join(0, 1, 2)
    world.ask(create("t", 3, 3))
    world.controller.append([r.BeginTransactionRecord()], world.now_ms)
    for broker_id in (0, 1):
        world.heartbeat(broker_id, want_fence=True)
    inside = [one.isr for one in world.tip.topics.values() for one in one.partitions.values()]
    world.controller.append([r.AbortTransactionRecord(reason="x")], world.now_ms)
    after = [one.isr for one in world.tip.topics.values() for one in one.partitions.values()]
    assert inside == after == [(2,)] * 3


def test_topic_ids_are_new_and_not_reserved() -> None:
    world = World().join(0)
    ids = {world.ask(create(f"t{one}")).topics[0].topic_id for one in range(50)}
    assert len(ids) == 50
    assert all(one[6] >> 4 == 4 and one[0] >> 2 != 62 for one in ids)


def test_helpers_agree_with_the_machine() -> None:
    """The world's config is what its controller got."""
    assert World().config == config()
    assert uuid(1) != uuid(2)
    assert broker(1).broker_epoch == 101
    assert isinstance(m.DescribeClusterRequest().endpoint_type, int)


def test_a_broker_with_more_partitions_than_a_batch_holds_is_fenced_again_after_an_abort(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World().join(0, 1, 2)
    world.ask(create("t", 5, 3))
    world.controller.append([r.BeginTransactionRecord()], world.now_ms)
    world.heartbeat(0, want_fence=True)
    monkeypatch.setattr(batches, "PART_RECORDS_MAX", 4)
    world.controller.append([r.AbortTransactionRecord(reason="x")], world.now_ms)
    assert world.tip.brokers[0].fenced
    (made,) = world.tip.topics.values()
    assert {frozenset(one.isr) for one in made.partitions.values()} == {frozenset({1, 2})}
