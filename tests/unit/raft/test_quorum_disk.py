"""What the disks of a quorum do to it: they hang, lose their power, come back empty."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.raft import Raft
from emulator.raft.layout import VOTER_STATE
from emulator.seam import Effect, Log
from tests.unit.raft.trio import Node, Trio
from tests.unit.raft.world import Disk, fetch, topic
from wire import messages as m
from wire.batch import decode_batches

HANGS_MS = 10**9


def trio_with_leader() -> tuple[Trio, Node]:
    trio = Trio(3)
    trio.delay_ms = trio.sync_ms = 2
    trio.start()
    trio.run(5_000)
    return trio, trio.leader


def state(node: Node) -> bytes | None:
    return node.disk.files.get(VOTER_STATE)


def test_a_leader_whose_disk_hangs_is_replaced():
    """The others fetch from it all the time, so they alone would follow it for ever."""
    trio, leader = trio_with_leader()
    epoch = leader.raft.leader_epoch
    trio.sync_ms = HANGS_MS
    offset = trio.append(leader, topic("a"))
    trio.sync_ms = 2
    trio.run(8_000)
    assert trio.leader is not leader
    assert trio.leader.raft.leader_epoch > epoch
    assert trio.leader.raft.high_watermark > offset
    assert not leader.raft.is_leader
    assert leader.raft.leader_epoch < epoch + 5, "it does not stand again and again"


def test_a_leader_with_much_to_write_leads_on():
    """There is always a sync under way, but each of them ends."""
    trio, leader = trio_with_leader()
    trio.sync_ms = 100
    epoch = leader.raft.leader_epoch
    for number in range(1_000):
        trio.append(leader, topic(str(number)))
        trio.run(20)
    assert (trio.leader, leader.raft.leader_epoch) == (leader, epoch)


@pytest.mark.parametrize("sync_ms", [2, 20, 200])
def test_a_new_quorum_survives_a_power_failure_at_any_time(sync_ms):
    """Nothing that was acknowledged can be missing, so nobody has to wait for anybody."""
    whole = Trio(3)
    whole.delay_ms, whole.sync_ms = 2, sync_ms
    whole.start()
    first_ms = 0
    while not any(node.raft and node.raft.leader_epoch for node in whole.up()):
        whole.run(1)
        first_ms += 1
    for after_ms in range(first_ms, first_ms + 60, 5):
        trio = Trio(3)
        trio.delay_ms, trio.sync_ms = 2, sync_ms
        trio.start()
        trio.run(after_ms)
        for each in trio.nodes:
            trio.crash(each)
        trio.start()
        trio.run(3_000)
        assert trio.leaders, after_ms
        assert trio.leader.raft.high_watermark > 0


def hanging_leader() -> Trio:
    """Three voters; the disk of whoever leads first does not end a sync."""
    trio = Trio(3)

    def inspect(node: Node, effects: list[Effect]) -> None:
        del effects
        trio.sync_ms = HANGS_MS if node.raft.is_leader and node.raft.leader_epoch == 1 else 2

    trio.inspect = inspect
    return trio.start()


def test_one_of_three_new_voters_may_be_lost_for_ever_before_anything_is_committed():
    trio = hanging_leader()
    while not trio.leaders:
        trio.run(1)
    trio.crash(trio.leader.id)
    trio.run(10_000)
    assert trio.leader.raft.high_watermark > 0


def test_voters_are_sent_what_is_not_durable_at_the_leader_and_observers_are_not():
    trio, leader = trio_with_leader()
    trio.run(1_000)
    raft, end = leader.raft, leader.raft.log_end_offset
    sent = []
    raft.request(fetch(end, raft.leader_epoch), 17, trio.now, "observer")
    trio.sync_ms = HANGS_MS
    trio.append(leader, topic("a"))
    trio.append(leader, topic("b"))
    trio.sync_ms = 2
    trio.run(100)
    assert {node.raft.log_end_offset for node in trio.up() if node.raft} == {end + 2}
    assert [voter.end_offset for voter in raft.progress.values()] == [end + 2, end + 2]
    assert raft.high_watermark == raft.replica.log.durable_end == end
    trio.send_answer = lambda node, ticket, message: sent.append((ticket, message))
    trio.synced(leader, leader.life)
    (answer,) = [message for ticket, message in sent if ticket == "observer"]
    (found,) = answer.responses[0].partitions
    assert [one.base_offset for one in decode_batches(found.records)] == [end]
    assert raft.high_watermark == end + 1, "the second is in the next group"


@pytest.mark.parametrize("kept", [0, 40, 10_000])
def test_a_leader_that_a_crash_leaves_without_what_it_has_sent_gets_it_back(kept):
    trio, leader = trio_with_leader()
    end, epoch = leader.raft.log_end_offset, leader.raft.leader_epoch
    trio.sync_ms = HANGS_MS
    trio.append(leader, topic("a"))
    trio.sync_ms = 2
    trio.run(100)
    trio.crash(leader.id, kept)
    trio.start(leader.id)
    assert leader.raft.log_end_offset == (end + 1 if kept > 40 else end)
    assert not leader.raft.is_leader
    trio.run(10_000)
    assert trio.leader.raft.leader_epoch > epoch
    for node in trio.nodes.values():
        held = {one.base_offset: one for one in node.batches}
        assert (held[end].epoch, topic("a") in held[end].data) == (epoch, True)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("stop", [Raft.resign, Raft.shutdown])
def test_a_voter_that_syncs_what_the_leader_sent_last_leads_as_soon_as_it_has_it(stop, restarted):
    """The third, which has just restarted, lacks it: nobody votes for that one."""
    trio, leader = trio_with_leader()
    raft, epoch = leader.raft, leader.raft.leader_epoch
    _, third = (node for node in trio.nodes.values() if node is not leader)
    if restarted:
        trio.crash(third.id)
    trio.inspect = lambda node, _: setattr(trio, "sync_ms", 0 if node is leader else 200)
    offset = trio.append(leader, topic("a"))
    trio.run(4)
    if restarted:
        trio.start(third.id)
    assert any(node.raft.dirty for node in trio.up()), "on its way to the disk"
    trio.perform(leader, stop(raft, trio.now))
    trio.run(300)
    (node,) = trio.leaders
    assert node.raft.leader_epoch == epoch + 1
    assert [one.epoch for one in node.batches if one.base_offset == offset] == [epoch]


def test_voters_that_may_have_lost_records_wait_and_say_what_to_do():
    trio = Trio(3)
    for node in trio.nodes.values():
        node.disk = Disk()
    trio.start()
    trio.run(20_000)
    assert not trio.leaders
    assert {node.raft.leader_epoch for node in trio.up() if node.raft} == {0}
    said = [line.event for _, line in trio.log if line.level == "warning"]
    assert len(said) == 3
    assert all("format --new-quorum" in event for event in said)
    assert {state(node) for node in trio.nodes.values()} == {b"0\nunknown\n"}


def test_a_voter_that_never_followed_again_stays_unknown_over_restarts():
    """Records that a crash left on its disk do not make it whole."""
    trio, leader = trio_with_leader()
    victim = next(node for node in trio.nodes.values() if node is not leader)
    for _ in range(5):
        trio.append(leader, topic("x"))
        trio.run(100)
    trio.crash(victim.id)
    trio.empty(victim.id)
    trio.isolate(leader.id)
    trio.start(victim.id)
    trio.run(3_000)
    assert state(victim) == b"0\nunknown\n"
    trio.crash(victim.id)
    trio.start(victim.id)
    assert state(victim) == b"0\nunknown\n"
    trio.heal()
    trio.run(10_000)
    assert state(victim) == b"0\nwhole\n"


def test_a_voter_that_is_behind_does_not_elect_one_that_lacks_what_it_has_lost():
    """It heard of the leader, whose log it still loads; the third voter has less."""
    trio = Trio(3, fetch_bytes_max=500)
    trio.delay_ms = trio.sync_ms = 2
    trio.start()
    trio.run(5_000)
    leader = trio.leader
    victim, third = (node for node in trio.nodes.values() if node is not leader)
    trio.isolate(third.id)
    for _ in range(20):
        trio.append(leader, topic("x"))
        trio.run(50)
    committed = leader.raft.high_watermark
    values = [topic(str(number)) for number in range(300)]
    trio.snapshot(leader, committed, leader.raft.leader_epoch, values)
    trio.crash(victim.id)
    trio.empty(victim.id)
    trio.start(victim.id)
    while not (state(victim) or b"").startswith(b"0\nbehind"):
        trio.run(1)
    trio.crash(leader.id)
    trio.heal()
    trio.run(20_000)
    assert not trio.leaders
    trio.start(leader.id)
    trio.run(10_000)
    for node in trio.up():
        assert node.raft.high_watermark > committed


def test_an_old_copy_of_a_disk_elects_nobody_who_lacks_what_it_lacks():
    """As soon as it has heard of the leader; until then nobody can know."""
    trio = Trio(3)
    trio.delay_ms = trio.sync_ms = 2
    trio.start()
    trio.run(5_000)
    leader = trio.leader
    victim, third = (node for node in trio.nodes.values() if node is not leader)
    copy = victim.disk.crashed(0)
    append(trio, leader, 5)
    trio.isolate(third.id)
    append(trio, leader, 20)
    committed = leader.raft.high_watermark
    trio.crash(victim.id)
    victim.disk = Disk(copy)
    trio.sync_ms = HANGS_MS
    trio.start(victim.id)
    trio.run(1_000)
    assert state(victim) == f"0\nbehind {leader.raft.leader_epoch} {committed}\n".encode()
    trio.crash(leader.id)
    trio.crash(victim.id)
    trio.sync_ms = 2
    trio.start(victim.id)
    trio.heal()
    trio.run(20_000)
    assert not trio.leaders, "voter 3 has more than the copy"
    trio.start(leader.id)
    trio.run(10_000)
    for node in trio.up():
        assert node.raft.high_watermark > committed
    assert state(victim) == b"0\nwhole\n"


def test_a_leader_names_the_voter_that_has_lost_records():
    trio, leader = trio_with_leader()
    victim = next(node for node in trio.nodes.values() if node is not leader)
    copy = victim.disk.crashed(0)
    append(trio, leader, 5)
    for disk in (Disk(copy), Disk()):
        acknowledged = victim.raft.log_end_offset if victim.raft else 0
        trio.crash(victim.id)
        victim.disk = disk
        trio.start(victim.id)
        trio.run(3_000)
        (line,) = [line for node_id, line in trio.log if line.level == "error"]
        assert line.fields["voter"] == victim.id
        assert line.fields["acknowledged"] == acknowledged
        trio.log.clear()
        trio.crash(victim.id)
        trio.start(victim.id)
        trio.run(3_000)
        assert not [line for _, line in trio.log if line.level == "error"], (
            "a restart loses nothing"
        )


def test_what_a_voter_has_lost_counts_no_more_once_it_is_offered_a_snapshot():
    """From that answer on it elects whoever has what was committed then, and no more."""
    trio = Trio(3, (1, 2, 3, 4, 5))
    trio.start()
    trio.run(5_000)
    leader = trio.leader
    append(trio, leader, 3)
    raft, committed = leader.raft, leader.raft.high_watermark
    trio.snapshot(leader, committed, raft.leader_epoch, [topic("all")])
    end = trio.append(leader, topic("x")) + 1
    trio.synced(leader, leader.life)
    victim, *others = raft.progress

    def fetched(voter_id: int, offset: int) -> list[Any]:
        last, voter = min(offset, raft.leader_epoch), m.FetchRequest.ReplicaState(voter_id)
        request = fetch(offset, raft.leader_epoch, last, replica_state=voter)
        raft.request(request, 17, trio.now, "f")
        return [reply.message for reply in raft.take_replies()]

    assert fetched(victim, end) == [], "two of five have it"
    (answer,) = fetched(victim, 0)
    (offered,) = answer.responses[0].partitions
    assert (offered.snapshot_id.end_offset, offered.high_watermark) == (committed, committed)
    fetched(others[0], end)
    assert raft.high_watermark == committed, "still two"
    fetched(others[1], end)
    assert raft.high_watermark == end
    (line,) = [line for line in raft.take_effects() if isinstance(line, Log)]
    assert line.fields["acknowledged"] == end


def append(trio: Trio, leader: Node, count: int) -> None:
    for _ in range(count):
        trio.append(leader, topic("x"))
        trio.run(50)


def test_a_voter_is_whole_on_its_disk_before_it_acknowledges_a_record():
    trio = Trio(3)
    trio.delay_ms = trio.sync_ms = 5
    trio.start()
    for _ in range(3_000):
        trio.run(1)
        for node in trio.up():
            durable = node.raft.replica.log.durable_end
            assert state(node) == (b"0\nwhole\n" if durable else b"0\nnew\n")
