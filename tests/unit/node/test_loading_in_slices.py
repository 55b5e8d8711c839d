"""A snapshot that a follower gets is replayed in slices: its Raft goes on meanwhile.

So is the index made that a leader needs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import pairwise

import pytest

from emulator.controller.tables.index import TipIndex
from emulator.node.machine import FREED_PER_STEP, Node
from emulator.node.role import NodeRole, Role
from emulator.raft.layout import BOOTSTRAP_CHECKPOINT, RecoveryError
from emulator.seam import RECORDS_PER_SLICE, Effect, Event, Halt, Slices
from tests.unit.controller.test_index import contents
from tests.unit.node.test_copy_grows_in_line import Work, counted
from tests.unit.node.test_end_of_a_term import fetch
from tests.unit.node.test_machine import World
from tests.unit.node.test_quorum import IDS, Quorum
from wire import records as r
from wire.errors import ErrorCode

SLICES = 8


class Held(NodeRole):
    """Replays no slice of its own accord."""

    @property
    def deadline_ms(self) -> int | None:
        return None if self._replay.behind else super().deadline_ms

    def go_on(self) -> None:
        pass


def hold(node: Node) -> None:
    node.role.__class__ = Held


def release(node: Node) -> None:
    node.role.__class__ = NodeRole


class Emptied(Quorum):
    """A leader with a large snapshot, and a follower that lost its folder and is down."""

    def __init__(self) -> None:
        super().__init__(metadata_log_max_record_bytes_between_snapshots="1000")
        self.first = self.leader
        self.emptied, self.third = (each for each in IDS if each != self.first)
        node = self.node(self.first)
        for piece in range(SLICES):
            records = [
                r.ConfigRecord(
                    resource_type=2, resource_name=f"t-{piece}-{number}", name="a", value="b"
                )
                for number in range(RECORDS_PER_SLICE)
            ]
            node.controller.append(records, self.joined.now_ms)
            self.joined.wait(100)
        self.joined.wait(2_000)
        assert node.raft.latest_snapshot is not None
        self.kill(self.emptied)
        files = self.files[self.emptied]
        self.files[self.emptied] = {BOOTSTRAP_CHECKPOINT: files[BOOTSTRAP_CHECKPOINT]}

    def configs(self, node_id: int) -> int:
        return len(self.node(node_id).controller.stable.configs)


def test_what_becomes_stable_after_a_restart_is_let_go_of_in_slices():
    """In one step it took as long as 100,000 partitions had changed: 21 ms."""
    world, batches = World(), 5 * FREED_PER_STEP
    for number in range(batches):
        record = r.ConfigRecord(resource_type=2, resource_name="t", name="a", value=str(number))
        world.node.controller.append([record], world.now_ms)
    world.advance(100)
    again = World(world.files)
    kept = [len(again.node._spent)]
    while again.node.deadline_ms == 0:
        again.perform(again.node.step([], again.now_ms))
        kept.append(len(again.node._spent))
    assert kept[0] > 2 * FREED_PER_STEP, "most of them are there after the first steps"
    assert all(more - less <= FREED_PER_STEP for more, less in pairwise(kept))
    assert kept[-1] == 0


def test_a_follower_fetches_on_while_it_replays_a_snapshot():
    quorum = Emptied()
    quorum.start(quorum.emptied)
    node = quorum.node(quorum.emptied)
    hold(node)
    quorum.joined.until(lambda: node.role._replay.behind)
    # From here on each slice takes 400 ms: all of it longer than any timeout of the quorum.
    epoch, slices, lasts = node.raft.leader_epoch, 0, []
    while node.role._replay.behind:
        node.role._replay.go_on()
        slices += 1
        assert quorum.change(quorum.first, f"user-{slices}") == 0
        quorum.joined.wait(400)
        lasts.append(node.raft.log_end_offset)
    assert slices > SLICES // 2, "a slice for each 500 records of the snapshot"
    assert lasts[0] < lasts[len(lasts) // 2] < lasts[-1], "it fetched meanwhile"
    assert node.raft.leader_epoch == epoch
    quorum.joined.wait(1_000)
    quorum.wait_equal()
    assert quorum.configs(quorum.emptied) == quorum.configs(quorum.first)
    assert f"user-{slices}" in quorum.quotas(quorum.emptied)


def test_one_that_is_elected_while_it_replays_a_snapshot_answers_nobody_before_its_end():
    quorum = Emptied()
    quorum.start(quorum.emptied)
    node = quorum.node(quorum.emptied)
    hold(node)
    leader = quorum.node(quorum.first)
    quorum.joined.until(lambda: node.raft.log_end_offset == leader.raft.log_end_offset > 100)
    quorum.joined.wait(1_000)
    quorum.kill(quorum.third)
    assert quorum.change(quorum.first, "ann") == 0
    quorum.joined.wait(1_000)
    quorum.kill(quorum.first)
    quorum.start(quorum.third)
    # The third has no record of that change, so it is not elected.
    quorum.joined.until(lambda: node.raft.is_leader)
    quorum.joined.wait(1_000)
    assert node.role._replay.behind
    assert (node.role.now, node.active) == (Role.PASSIVE, False)
    assert quorum.change(quorum.emptied, "bob") == ErrorCode.NOT_CONTROLLER
    asker = quorum.joined.ask((f"host-{quorum.emptied}", 9093))
    told = asker.ask(fetch(node.raft.leader_epoch), 17).responses[0].partitions[0]
    assert told.error_code == ErrorCode.BROKER_NOT_AVAILABLE
    assert told.current_leader.leader_id == -1
    assert quorum.configs(quorum.emptied) == 0
    epoch = node.raft.leader_epoch
    release(node)
    quorum.joined.until(lambda: node.active, 1_000)
    assert node.raft.leader_epoch == epoch
    assert quorum.change(quorum.emptied, "bob") == 0
    assert asker.ask(fetch(epoch), 17).responses[0].partitions[0].error_code == 0
    assert quorum.configs(quorum.emptied) == SLICES * RECORDS_PER_SLICE
    assert quorum.quotas(quorum.emptied) == {"ann", "bob"}
    quorum.wait_equal()


def test_a_leader_that_cannot_read_the_rest_tells_the_others_and_ends():
    quorum = Quorum()
    leader = quorum.leader
    quorum.wait_equal()
    node, party = quorum.node(leader), quorum.parties[leader]
    epoch = node.raft.leader_epoch

    def damaged() -> Slices[None]:
        yield
        raise RecoveryError("snapshot", None, "no such level")

    node.role._replay.slices = damaged()
    quorum.joined.wait(10)
    assert party.halt == Halt(1, "snapshot: no such level")
    quorum.kill(leader)
    quorum.joined.wait(500)
    (next_one,) = quorum.active()
    assert quorum.node(next_one).raft.leader_epoch == epoch + 1


def test_a_second_snapshot_takes_the_place_of_one_that_is_being_replayed():
    quorum = Emptied()
    quorum.start(quorum.emptied)
    node = quorum.node(quorum.emptied)
    hold(node)
    quorum.joined.until(lambda: node.role._replay.behind)
    for _ in range(SLICES // 2):
        node.role._replay.go_on()
    address = (f"host-{quorum.first}", 9093)
    quorum.joined.cut.add(address)
    for party in (quorum.parties[quorum.emptied],):
        for conn, owner in list(quorum.joined._owner.items()):
            if owner is party:
                quorum.joined.end(conn, "cut")
    first = node.raft.latest_snapshot
    leader = quorum.node(quorum.first)
    for number in range(30):
        leader.controller.append(
            [r.ConfigRecord(resource_type=2, resource_name=f"n-{number}", name="a", value="b")]
            * 40,
            quorum.joined.now_ms,
        )
        quorum.joined.wait(50)
    quorum.joined.cut.discard(address)
    quorum.joined.until(lambda: node.raft.latest_snapshot != first)
    release(node)
    quorum.joined.wait(2_000)
    quorum.wait_equal()
    assert quorum.configs(quorum.emptied) == quorum.configs(quorum.leader)
    assert quorum.configs(quorum.emptied) == SLICES * RECORDS_PER_SLICE + 30


def grown(partitions: int) -> Quorum:
    """Three nodes that know topics of 500 partitions each, one batch for each topic."""
    quorum = Quorum()
    grow(quorum, partitions)
    quorum.wait_equal()
    return quorum


def topics(partitions: int) -> Iterator[list[object]]:
    """The records of each topic: 500."""
    for number in range(partitions // RECORDS_PER_SLICE):
        topic_id = number.to_bytes(16, "big")
        records: list[object] = [r.TopicRecord(name=f"t-{number}", topic_id=topic_id)]
        records += [
            r.PartitionRecord(
                partition_id=each, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1
            )
            for each in range(RECORDS_PER_SLICE - 1)
        ]
        yield records


def grow(quorum: Quorum, partitions: int) -> None:
    """Make them at the leader, which commits each."""
    node = quorum.node(quorum.leader)
    for records in topics(partitions):
        node.controller.append(records, quorum.joined.now_ms)
        quorum.joined.wait(100)


def indexed(node: Node) -> bool:
    """Whether a leader's index is that of its newest image."""
    journal = node.controller._journal
    return bool(contents(journal.index) == contents(TipIndex(journal.history.tip)))


def longest_of_a_failover(partitions: int) -> int:
    """Lines and calls of C in the longest step of those that are left, and of who resigns."""
    quorum = grown(partitions)
    quorum.kill(quorum.leader)
    with watched(*quorum.parties) as steps:
        second = after_failover(quorum)
    assert indexed(quorum.node(second))
    return max(steps)


def after_failover(quorum: Quorum) -> int:
    """The next leader, and after it the third; returns that one."""
    first = quorum.leader
    assert indexed(quorum.node(first))
    (second,) = {*quorum.parties} - {first}
    quorum.wait_equal()
    quorum.node(first).role.resign([second])
    quorum.joined.until(lambda: quorum.active() == [second])
    return second


@contextlib.contextmanager
def watched(*node_ids: int) -> Iterator[list[int]]:
    """Lines and calls of C in each step of some nodes, also of those that start inside."""
    steps: list[int] = []
    real = Node.step

    def step(node: Node, events: list[Event], now_ms: int) -> list[Effect]:
        if node.raft.config.node_id not in node_ids:
            return real(node, events, now_ms)
        work = Work()
        effects = counted(work, lambda: real(node, events, now_ms))
        steps.append(work.run)
        return effects

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Node, "step", step)
        yield steps


def longest_of_a_catch_up(partitions: int, *, together: bool) -> int:
    """Of a follower that was away while topics of so many partitions were made.

    ``together``: all at once, as what a dead broker led is moved.
    """
    quorum = Quorum()
    leader = quorum.leader
    (away, _) = (each for each in quorum.parties if each != leader)
    quorum.kill(away)
    if together:
        records = [one for each in topics(partitions) for one in each]
        quorum.node(leader).controller.append(records, quorum.joined.now_ms, atomic=False)
    else:
        grow(quorum, partitions)
    with watched(away) as steps:
        quorum.start(away)
        quorum.wait_equal()
    assert len(quorum.node(away).history.tip.topics) == partitions // RECORDS_PER_SLICE
    return max(steps)


@pytest.mark.parametrize("together", [False, True])
def test_who_was_away_fetches_no_more_than_a_step_can_replay(together: bool) -> None:
    """A mebibyte, of 9,000 partitions, took 50 ms; so did a batch of 10,000 changes."""
    longest_of_a_catch_up(500, together=together)  # compiles what it needs
    few, many = (longest_of_a_catch_up(n, together=together) for n in (5_000, 20_000))
    assert many <= 1.2 * few


def longest_of_a_deposition(partitions: int) -> int:
    """Of a leader that gives up with so many partitions that are not committed."""
    quorum = Quorum()
    first = quorum.leader
    quorum.wait_equal()
    (second, third) = (each for each in quorum.parties if each != first)
    for each in (second, third):
        hold(quorum.node(each))
    node = quorum.node(first)
    quorum.joined.cut |= {(f"host-{each}", 9093) for each in (second, third)}
    for records in topics(partitions):
        node.controller.append(records, quorum.joined.now_ms)
    quorum.joined.settle()
    before = node.history.tip
    assert node.history.committed.offset < before.offset
    with watched(first) as steps:
        node.role.resign([second])
        quorum.joined.until(lambda: not node.active)
        quorum.joined.until(lambda: not node.role.behind)
    assert node.history.tip.topics == before.topics
    return max(steps)


def test_who_gives_up_replays_in_slices_what_is_not_committed() -> None:
    """A copy of 100,000 topics took half a second in the step that ended the term."""
    longest_of_a_deposition(500)  # compiles what it needs
    assert longest_of_a_deposition(8_000) <= 1.2 * longest_of_a_deposition(2_000)


def test_who_comes_to_lead_makes_its_index_in_slices():
    """100,000 partitions took a fifth of a second in the step of the election."""
    longest_of_a_failover(500)  # compiles what it needs
    assert longest_of_a_failover(8_000) <= 1.2 * longest_of_a_failover(2_000)


def test_who_no_longer_leads_leaves_its_index_and_makes_another_one():
    quorum = grown(4_000)
    first = quorum.leader
    others = {*quorum.parties} - {first}
    for each in others:
        hold(quorum.node(each))
    quorum.kill(first)
    quorum.joined.until(lambda: any(quorum.node(each).raft.is_leader for each in others))
    (elected,) = (each for each in others if quorum.node(each).raft.is_leader)
    (other,) = others - {elected}
    node = quorum.node(elected)
    assert node.role.behind
    assert not node.active
    node.role.resign([other])
    quorum.joined.until(lambda: quorum.node(other).raft.is_leader)
    assert not node.role.behind, "who follows needs none"
    release(quorum.node(other))
    quorum.joined.until(lambda: quorum.active() == [other])
    topic = [r.TopicRecord(name="new", topic_id=b"n" * 16)]
    quorum.node(other).controller.append(topic, quorum.joined.now_ms)
    quorum.wait_equal()
    release(node)
    quorum.node(other).role.resign([elected])
    quorum.joined.until(lambda: quorum.active() == [elected])
    assert indexed(node)


def test_who_starts_and_follows_makes_no_index_and_so_has_none_to_free():
    quorum = grown(2_000)
    first = quorum.leader
    other = next(each for each in quorum.parties if each != first)
    quorum.kill(other)
    quorum.start(other)
    node = quorum.node(other)
    assert len(node.controller.history.tip.topics) == 4
    assert contents(node.controller._journal.index) == contents(TipIndex())
    topic = [r.TopicRecord(name="new", topic_id=b"n" * 16)]
    quorum.node(first).controller.append(topic, quorum.joined.now_ms)
    quorum.wait_equal()
    quorum.node(first).role.resign([other])
    quorum.joined.until(lambda: quorum.active() == [other])
    assert indexed(node)
