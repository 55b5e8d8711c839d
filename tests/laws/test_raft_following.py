"""Laws of a voter that follows: whatever its leader answers, it does not ask in a loop, and with a
leader that answers well it gets the whole log."""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from emulator.raft.asking import Ask
from emulator.raft.layout import TOPIC, TOPIC_ID, SnapshotId
from emulator.raft.log import read_back
from emulator.raft.snapshots import render
from tests.unit.raft.test_following import NOW, Follower, batch, begin
from tests.unit.raft.world import topic
from wire import messages as m

PIECE = 120


def leader_log(leader: int) -> tuple[bytes, list[bytes]]:
    """A snapshot up to 10, whose bytes are each leader's own, and the batches from there on."""
    data = render(SnapshotId(10, 2), [topic("all")], NOW + leader, read_back)
    return data, [batch(10, 2, "ab"), batch(12, 3, "c"), batch(13, 3, "de")]


END = 15
ROUNDS = 1_000
"""Steps within which a follower asks for something."""


class Leader:
    """Answers as a leader should, or with something wrong in it."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.id, self.epoch = 2, 3
        self.questions: deque[Ask] = deque()
        """Not answered yet, oldest first."""

    def answer(self, ask: Ask, how: str) -> None:
        message: Any = ask.message
        if how == "none":
            self.follower.disk.apply(self.follower.raft.unanswered(ask, self.follower.now))
            return
        if isinstance(message, m.FetchRequest):
            answer: Any = self.records(message, how)
        else:
            answer = self.piece(message, how)
        self.follower.disk.apply(self.follower.raft.answered(ask, answer, self.follower.now))

    def records(self, message: m.FetchRequest, how: str) -> m.FetchResponse:
        kind, asked = m.FetchResponse, message.topics[0].partitions[0]
        _, batches = leader_log(self.id)
        found = kind.PartitionData(
            current_leader=kind.LeaderIdAndEpoch(leader_id=self.id, leader_epoch=self.epoch),
            high_watermark=-1 if asked.fetch_offset < 10 else min(END, asked.fetch_offset + 3),
        )
        if asked.fetch_offset < 10:
            found.snapshot_id = kind.SnapshotId(end_offset=10, epoch=2)
        else:
            behind = [
                one
                for at, one in zip((10, 12, 13), batches, strict=True)
                if at >= asked.fetch_offset
            ]
            found.records = b"".join(behind[:2])
        match how:
            case "error":
                found.error_code = 42
            case "later":
                found.error_code = 8
            case "empty":
                found.records, found.snapshot_id = b"", kind.SnapshotId()
            case "cut":
                found.records = found.records[:-7]
            case "damaged":
                found.records = found.records[:-1] + b"\0"
            case "other":
                found.diverging_epoch = kind.EpochEndOffset(epoch=9, end_offset=2**40)
            case "id":
                found.snapshot_id = kind.SnapshotId(end_offset=0, epoch=0)
            case "gone":
                found.snapshot_id = kind.SnapshotId(end_offset=END + 5, epoch=3)
            case _:
                pass
        return kind(responses=[kind.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[found])])

    def piece(self, message: m.FetchSnapshotRequest, how: str) -> m.FetchSnapshotResponse:
        kind, asked = m.FetchSnapshotResponse, message.topics[0].partitions[0]
        data, _ = leader_log(self.id)
        at = asked.position
        found = kind.PartitionSnapshot(
            current_leader=kind.LeaderIdAndEpoch(leader_id=self.id, leader_epoch=self.epoch),
            snapshot_id=kind.SnapshotId(
                end_offset=asked.snapshot_id.end_offset, epoch=asked.snapshot_id.epoch
            ),
            size=len(data),
            position=at,
            unaligned_records=data[at : at + PIECE],
        )
        if asked.snapshot_id.end_offset != 10:
            found.error_code = 98
        match how:
            case "error":
                found.error_code = 99
            case "later":
                found.error_code = 8
            case "empty":
                found.unaligned_records = b""
            case "cut":
                found.unaligned_records = found.unaligned_records[:-7]
            case "damaged":
                found.unaligned_records = b"x" + found.unaligned_records[1:]
            case "other":
                found.size += 1
            case "id":
                found.snapshot_id = kind.SnapshotId(end_offset=11, epoch=2)
            case "gone":
                found.error_code = 98
            case _:
                pass
        return kind(topics=[kind.TopicSnapshot(name=TOPIC, partitions=[found])])


WRONG = ["none", "error", "later", "empty", "cut", "damaged", "other", "id", "gone"]
STEPS = st.lists(st.sampled_from(["well"] * 20 + WRONG + ["epoch", "another"]), max_size=25)


def next_ask(one: Follower, leader: Leader) -> Ask:
    """The next question to the leader; syncs, and whatever else is asked, come to their end.

    A step may ask two: what a snapshot's end makes of a question that has not left yet.
    """
    for _ in range(ROUNDS):
        while one.disk.tokens:
            one.sync()
        one.written()
        for ask in one.raft.take_asks():
            if isinstance(ask.message, m.FetchRequest | m.FetchSnapshotRequest):
                leader.questions.append(ask)
            else:
                one.disk.apply(one.raft.unanswered(ask, one.now))
        if leader.questions:
            return leader.questions.popleft()
        deadline_ms = one.raft.deadline_ms
        assert deadline_ms is not None
        one.now = max(one.now, deadline_ms)
        one.disk.apply(one.raft.tick(one.now))
        if one.raft.leader_id != leader.id:
            # Refused for too long it stands; the leader is elected again.
            leader.epoch = one.raft.leader_epoch
            new_epoch(one, leader, another=False)
    raise AssertionError("it asks for nothing more")


def new_epoch(one: Follower, leader: Leader, *, another: bool) -> None:
    leader.epoch += 1
    leader.id = 5 - leader.id if another else leader.id
    begin(one, leader.epoch, leader.id)


@given(STEPS)
@example(["gone", "none", *["well"] * 3, "epoch", *["well"] * 3, "epoch", "gone", "well"])
def test_a_follower_gets_the_log_in_the_end_and_asks_for_nothing_in_a_loop(steps):
    one = Follower()
    leader = Leader(one)
    asked: dict[tuple[object, ...], int] = {}
    """What was asked -> when."""
    for step in steps:
        if step in {"epoch", "another"}:
            new_epoch(one, leader, another=step == "another")
            continue
        ask = next_ask(one, leader)
        message: Any = ask.message
        partition = message.topics[0].partitions[0]
        mark = one.raft.high_watermark
        question: tuple[object, ...] = (ask.epoch, getattr(partition, "fetch_offset", None), mark)
        if isinstance(message, m.FetchSnapshotRequest):
            question = (ask.epoch, partition.snapshot_id.end_offset, partition.position)
        assert one.now >= asked.get(question, 0) + 20, f"{question} again at once"
        asked[question] = one.now
        leader.answer(ask, step)
        assert one.disk.halt is None
    for _ in range(60):
        leader.answer(next_ask(one, leader), "well")
    while one.disk.tokens:
        one.sync()
    _, batches = leader_log(leader.id)
    assert (one.raft.log_end_offset, one.raft.high_watermark) == (END, END)
    assert b"".join(each.data for each in one.raft.replica.log.batches(10, END)) == b"".join(
        batches
    )
    loaded = one.raft.replica.snapshots.data(SnapshotId(10, 2))
    assert loaded is not None
    content = loaded.read(0, loaded.size)
    assert content in {leader_log(2)[0], leader_log(3)[0]}, "the file of one node"
