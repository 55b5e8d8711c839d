"""Fetch: what an observer is answered, and when."""

from __future__ import annotations

import pytest

from emulator.raft import replica
from emulator.raft.config import WOKEN_PER_STEP_MAX
from emulator.raft.layout import TOPIC, TOPIC_ID
from tests.unit.raft.world import NOW, World, fetch, no_op, topic
from wire import messages as m
from wire.batch import decode_batches
from wire.frame import encode_response

DISCOVERY = bytes.fromhex(
    "00000000" "00" "00000000" "0000" "00000000" "02" "00000000000000000000000000000001" "02"
    "00000000" "004a" "ffffffffffffffff" "ffffffffffffffff" "0000000000000000" "01" "ffffffff"
    "01" "01" "01" "09" "00000bb8" "00000001" "00" "00" "01" "00" "15" "02" "00000bb8"
    "0a" "3132372e302e302e31" "000059d8" "00" "00"
)  # fmt: skip
"""What a 3.9.2 controller answered to a broker's first Fetch, as recorded."""


def offsets(records: bytes) -> list[int]:
    return [batch.base_offset for batch in decode_batches(records)]


def test_an_observer_that_knows_no_epoch_is_told_the_leader_as_kafka_tells_it():
    world = World().start()
    world.raft.request(fetch(0, 0, 0), 17, NOW, "ticket")
    (reply,) = world.raft.take_replies()
    assert reply.ticket == "ticket"
    assert encode_response(1, 17, 0, reply.message) == DISCOVERY


@pytest.mark.parametrize("version", range(13, 18))
def test_every_version_in_use_gets_records_and_the_leader(version):
    world = World().start()
    world.raft.request(fetch(0, 1, 0), version, NOW, "t")
    (response,) = world.replies()
    assert encode_response(1, version, 7, response)
    (found,) = response.responses
    assert found.topic_id == TOPIC_ID
    partition = found.partitions[0]
    assert (partition.error_code, partition.high_watermark) == (0, 1)
    assert (partition.last_stable_offset, partition.log_start_offset) == (-1, 0)
    leader = partition.current_leader
    assert (leader.leader_id, leader.leader_epoch) == (3000, 1)
    assert offsets(partition.records) == [0]
    assert partition.aborted_transactions == []
    assert [e.port for e in response.node_endpoints] == ([23000] if version == 17 else [])


def test_version_12_names_the_topic_and_earlier_ones_are_refused():
    world = World().start()
    world.raft.request(fetch(0, 1, 0), 12, NOW, "t")
    world.raft.request(fetch(0, 1, -1), 11, NOW, "t")
    new, old = world.replies()
    assert (new.responses[0].topic, new.responses[0].topic_id) == (TOPIC, bytes(16))
    assert offsets(new.responses[0].partitions[0].records) == [0]
    assert old.responses[0].partitions[0].error_code == 42
    assert encode_response(1, 11, 0, old)


@pytest.mark.parametrize(
    ("changes", "top", "partition"),
    [
        ({"cluster_id": "another"}, 104, None),
        ({"topic_id": bytes(16)}, 42, None),
        ({"partition": 1}, 42, None),
        ({"topics": []}, 42, None),
        ({"max_wait_ms": -1}, 0, 42),
        ({"offset": -1}, 0, 42),
        ({"last_fetched_epoch": -1}, 0, 42),
        ({"last_fetched_epoch": 3}, 0, 42),
        ({"epoch": 1}, 0, 74),
        ({"epoch": 3}, 0, 75),
        ({"cluster_id": None}, 0, 0),
        ({}, 0, 0),
    ],
)
def test_checks_in_order_of_precedence(changes, top, partition):
    world = World().start().restarted().start()
    epoch, offset = changes.pop("epoch", 2), changes.pop("offset", 0)
    world.raft.request(fetch(offset, epoch, **{"last": 1, **changes}), 17, NOW, "t")
    (response,) = world.replies()
    assert response.error_code == top
    if partition is None:
        assert response.responses == []
        return
    (found,) = response.responses[0].partitions
    assert found.error_code == partition
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (3000, 2)
    assert found.records is not None
    if partition:
        assert (found.high_watermark, found.records) == (-1, b"")


def test_a_fetch_at_the_end_waits_for_the_next_durable_record():
    world = World().start()
    world.fetch(1)
    assert world.replies() == []
    world.raft.append([topic("a")], world.now)
    world.flush()
    assert world.replies() == [], "appended, but a crash could still take it"
    world.sync()
    partition = world.partition()
    assert offsets(partition.records) == [1]
    assert partition.high_watermark == 2
    assert world.raft.deadline_ms is None


def test_a_fetch_that_finds_nothing_is_answered_when_its_time_is_up():
    world = World().start()
    world.fetch(1, max_wait_ms=200)
    assert world.raft.deadline_ms == NOW + 200
    world.tick(199)
    assert world.replies() == []
    world.tick(1)
    partition = world.partition()
    assert (partition.error_code, partition.records, partition.high_watermark) == (0, b"", 1)
    assert partition.current_leader.leader_id == 3000


def test_no_fetch_waits_longer_than_half_a_second_and_none_that_will_not():
    world = World().start()
    world.fetch(1, max_wait_ms=60_000)
    assert world.raft.deadline_ms == NOW + 500
    world.fetch(1, max_wait_ms=0)
    assert world.partition().records == b""


def test_many_waiting_fetches_are_answered_in_order():
    world = World().start()
    for ticket in range(5):
        world.raft.request(fetch(1, 1), 17, NOW + ticket, ticket)
    world.tick(502)
    assert [reply.ticket for reply in world.raft.take_replies()] == [0, 1, 2]
    world.append(no_op())
    assert [reply.ticket for reply in world.raft.take_replies()] == [3, 4]


def test_a_fleet_is_woken_some_per_step_and_loses_nobody():
    world = World().start()
    for ticket in range(250):
        world.raft.request(fetch(1, 1), 17, NOW, ticket)
    world.raft.append([no_op()], NOW)
    world.flush()
    world.sync()
    steps = [[reply.ticket for reply in world.raft.take_replies()]]
    while world.raft.deadline_ms is not None:
        assert world.raft.deadline_ms == 0
        world.tick()
        steps.append([reply.ticket for reply in world.raft.take_replies()])
    assert [len(step) for step in steps] == [100, 100, 50]
    assert [ticket for step in steps for ticket in step] == list(range(250))


def test_before_the_first_sync_of_a_start_nothing_is_served_and_no_high_watermark_told():
    world = World().start()
    world.append(topic("a"))
    world = world.restarted()
    world.disk.apply(world.raft.start(world.now))
    world.fetch(0, last=0)
    assert world.replies() == [], "what was read at start may not have been synced ever"
    world.sync()
    partition = world.partition()
    assert offsets(partition.records) == [0, 1, 2]
    assert partition.high_watermark == 3


def test_batches_are_whole_within_the_limit_and_at_least_one():
    world = World().start()
    for name in "abc":
        world.append(topic(name * 100))
    size = len(next(iter(encoded(world, 1))))
    world.fetch(1, max_bytes=2 * size)
    assert offsets(world.partition().records) == [1, 2]
    world.fetch(1, max_bytes=2 * size - 1)
    assert offsets(world.partition().records) == [1]
    world.fetch(1, max_bytes=0)
    assert offsets(world.partition().records) == [1]


def test_an_answer_is_bounded_whatever_is_asked():
    world = World(fetch_bytes_max=300).start()
    for name in "abcd":
        world.append(topic(name * 50))
    world.fetch(1)
    records = world.partition().records
    assert 0 < len(records) <= 300


def test_many_observers_share_what_their_answers_have_together(monkeypatch):
    monkeypatch.setattr(replica, "OBSERVERS_BYTES_MAX", 3_000)
    monkeypatch.setattr(replica, "OBSERVER_BYTES_MIN", 200)
    world = World().start()
    for name in "abcdefgh":
        world.append(topic(name * 50))
    longest = []
    for observers in (1, 10, 100):
        for each in range(observers):
            state = m.FetchRequest.ReplicaState(replica_id=each)
            world.fetch(1, replica_state=state, max_wait_ms=0)
        longest.append(len(world.replies()[-1].responses[0].partitions[0].records))
    assert longest[0] > 1_000
    assert 200 < longest[1] <= 300
    assert 0 < longest[2] <= 200, "at least one batch"


def test_equal_answers_are_built_once_and_few_are_kept():
    world = World().start()
    for _ in range(20):
        world.append(no_op())
    world.fetch(1)
    world.fetch(1)
    first, second = (r.responses[0].partitions[0].records for r in world.replies())
    assert first is second
    for offset in range(21):
        world.fetch(offset, last=min(offset, 1))
        assert offsets(world.partition().records)[0] == offset
    assert len(world.raft.replica.log._reads) <= 8
    world.append(no_op())
    world.fetch(20)
    assert offsets(world.partition().records) == [20, 21]


def test_woken_observers_that_stand_at_one_offset_are_given_one_answer():
    world = World().start()
    world.append(no_op())
    for version in (16, 17, 17):
        world.raft.request(fetch(2, 1), version, NOW, f"{version}")
    world.append(topic("a"))
    old, first, second = world.replies()
    assert first is second
    assert first is not old, "its version has no endpoints"
    assert offsets(first.responses[0].partitions[0].records) == [2]
    for offset in (2, 3):
        world.fetch(offset)
    world.append(topic("b"))
    behind, told = world.replies()
    assert offsets(behind.responses[0].partitions[0].records) == [2]
    assert offsets(told.responses[0].partitions[0].records) == [3]


def test_all_observers_of_a_large_cluster_are_given_one_answer() -> None:
    """It is encoded once: also where they are woken in several steps, or ask after the others."""
    world = World().start()
    world.append(no_op())
    for _ in range(3 * WOKEN_PER_STEP_MAX):
        world.fetch(2)
    assert not world.replies()
    world.append(topic("a"))
    answers = world.replies()
    while len(answers) < 3 * WOKEN_PER_STEP_MAX:
        world.tick()
        answers += world.replies()
    world.tick(1_000)
    world.fetch(2)
    answers += world.replies()
    assert len({id(each) for each in answers}) == 1
    world.append(topic("b"))
    world.tick(1_000)
    world.fetch(2)
    (later,) = world.replies()
    assert offsets(later.responses[0].partitions[0].records) == [2, 3]
    assert later.responses[0].partitions[0].high_watermark == 4


def encoded(world: World, offset: int) -> list[bytes]:
    return [b.data for b in world.raft.replica.log.batches(offset, offset)]


def test_a_follower_ahead_of_the_log_is_told_where_to_cut():
    world = World().start()
    world.append(no_op())
    world.fetch(9)
    partition = world.partition()
    assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (1, 2)
    assert partition.records == b""
    assert partition.snapshot_id == m.FetchResponse.SnapshotId()


def three_epochs() -> World:
    """Epoch 1: offsets 0-2, epoch 2: 3-4, epoch 3: 5."""
    world = World().start()
    world.append(no_op(), no_op())
    world = world.restarted().start()
    world.append(no_op())
    return world.restarted().start()


@pytest.mark.parametrize(
    ("offset", "last", "diverging"),
    [
        (3, 1, None),
        (2, 1, None),
        (4, 1, (1, 3)),
        (5, 2, None),
        (6, 2, (2, 5)),
        (6, 3, None),
        (7, 3, (3, 6)),
        (1, 0, (0, 0)),
    ],
)
def test_divergence_is_the_largest_own_epoch_and_its_end(offset, last, diverging):
    world = three_epochs()
    world.fetch(offset, last=last, max_wait_ms=0)
    found = world.partition().diverging_epoch
    assert (found.epoch, found.end_offset) == (diverging or (-1, -1))


def test_an_epoch_this_log_never_had_is_not_answered_by_minus_one():
    """(-1, -1) means "not diverging": a real follower then fetched 4,000 times a second."""
    world = World().start()
    for _ in range(3):
        # A node that died before its first record used an epoch up: the log has 1 and 5 only.
        opening = [
            e for e in world.restarted().raft.start(NOW) if "quorum" in getattr(e, "path", "")
        ]
        world.disk.apply(opening)
    world = world.restarted().start()
    assert world.raft.leader_epoch == 5
    world.fetch(3, last=3)
    found = world.partition().diverging_epoch
    assert (found.epoch, found.end_offset) == (1, 1)


def test_the_endpoint_is_that_of_the_configured_voter():
    world = World(voters={3000: ("controller.example", 9093)}).start()
    world.fetch(0, last=0)
    (response,) = world.replies()
    (endpoint,) = response.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (3000, "controller.example", 9093)
