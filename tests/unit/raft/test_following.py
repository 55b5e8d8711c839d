"""The log of a follower: what it asks when, what it takes, what it refuses."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from emulator.config.quorum import QuorumTimes
from emulator.raft import Raft, RecoveryError
from emulator.raft.asking import Ask
from emulator.raft.layout import (
    CONTRADICTED,
    EPOCHS,
    QUORUM_STATE,
    RECOVERY_POINT,
    TOPIC,
    TOPIC_ID,
    VOTER_STATE,
    SnapshotId,
    snapshot_path,
)
from emulator.raft.log import read_back
from emulator.raft.member import REFUSED_MS
from emulator.raft.quorum_state import ElectionState, render
from emulator.raft.snapshots import render as render_snapshot
from tests.unit.raft.trio import Node, Trio
from tests.unit.raft.world import SEGMENT, Disk, World, topic
from wire import messages as m
from wire.batch import CONTROL, Batch, encode_batch
from wire.releases import RELEASES, controller_ranges

NOW = 1_000_000
SNAPSHOT_NOT_FOUND = 98


def batch(offset: int, epoch: int, names: str = "a", sequence: int = -1) -> bytes:
    records: Any = [(None, topic(name)) for name in names]
    return encode_batch(Batch(offset, epoch, 0, NOW, records, sequence))


class Follower:
    """Voter 1 of three, that follows voter 2 in epoch 3; the test is voter 2."""

    def __init__(
        self, files: dict[str, bytes] | None = None, epoch: int = 3, **changes: Any
    ) -> None:
        election = render(ElectionState(epoch, 2), {1, 2, 3})
        self.disk = Disk({QUORUM_STATE: election, **(files or {})})
        self.raft = Raft(Trio(**changes).config(1), self.disk.files, Random(1), NOW)
        self.now = NOW
        self.disk.apply(self.raft.start(NOW))

    def asks(self) -> list[Ask]:
        return self.raft.take_asks()

    def fetch(self, leader: int = 2) -> Ask:
        """What it asks next; the time goes on to when it does."""
        found = self.raft.take_asks()
        if not found:
            deadline_ms = self.raft.deadline_ms
            assert deadline_ms is not None
            self.now = max(self.now, deadline_ms)
            self.disk.apply(self.raft.tick(self.now))
            found = self.raft.take_asks()
        (ask,) = found
        assert ask.node_id == leader
        return ask

    def answer(self, ask: Ask, **fields: Any) -> None:
        kind = m.FetchResponse
        leader = kind.LeaderIdAndEpoch(leader_id=2, leader_epoch=3)
        partition = kind.PartitionData(**{"high_watermark": -1, "current_leader": leader, **fields})
        topic = kind.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])
        effects = self.raft.answered(ask, kind(responses=[topic]), self.now)
        self.disk.apply(effects)

    def whole_snapshot(self, ask: Ask, snapshot: SnapshotId) -> bytes:
        """The leader answers with all of a snapshot."""
        data = render_snapshot(snapshot, [topic("all")], NOW, read_back)
        kind = m.FetchSnapshotResponse
        piece = kind.PartitionSnapshot(
            snapshot_id=kind.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
            current_leader=kind.LeaderIdAndEpoch(leader_id=2, leader_epoch=3),
            size=len(data),
            unaligned_records=data,
        )
        answer = kind(topics=[kind.TopicSnapshot(name=TOPIC, partitions=[piece])])
        self.disk.apply(self.raft.answered(ask, answer, self.now))
        self.written()
        return data

    def written(self) -> None:
        """The large files on their way are done."""
        while self.disk.writing:
            self.disk.apply(self.raft.written(self.disk.write(), self.now))

    def sync(self) -> None:
        self.disk.apply(self.raft.synced(self.disk.sync(), self.now))


def asked_at(ask: Ask) -> tuple[int, int, int]:
    """Epoch, epoch of the last record, offset."""
    message: Any = ask.message
    found = message.topics[0].partitions[0]
    return found.current_leader_epoch, found.last_fetched_epoch, found.fetch_offset


def test_the_next_fetch_waits_for_the_disk_as_its_offset_says_what_is_durable():
    one = Follower()
    ask = one.fetch()
    assert asked_at(ask) == (3, 0, 0)
    one.answer(ask, records=batch(0, 1, "ab") + batch(2, 3, "c"), high_watermark=2)
    assert one.raft.log_end_offset == 3
    assert one.asks() == []
    assert one.raft.high_watermark == -1, "nothing is durable"
    one.sync()
    assert asked_at(one.fetch()) == (3, 3, 3)
    assert one.raft.high_watermark == 2
    assert one.disk.files[EPOCHS] == b"0\n2\n1 0\n3 2\n"


def test_a_slow_disk_of_a_follower_is_no_reason_to_stand():
    one = Follower()
    one.answer(one.fetch(), records=batch(0, 1), high_watermark=1)
    for _ in range(3):
        one.now = one.raft.deadline_ms
        one.disk.apply(one.raft.tick(one.now))
    assert (one.raft.leader_epoch, one.raft.leader_id) == (3, 2)
    one.sync()
    one.fetch()
    one.now = one.raft.deadline_ms
    one.disk.apply(one.raft.tick(one.now))
    assert one.raft.leader_epoch == 4, "now it is the leader who is silent"


def test_a_leader_counts_its_own_log_only_as_far_as_it_is_durable():
    one = Trio(3, ids=(1, 2))
    one.start()
    one.run(6_000)
    before = one.leader.raft.high_watermark
    one.sync_ms = 10**9
    offset = one.append(one.leader, topic("a"))
    one.leader.raft._member.voter_fetched(3 - one.leader.id, offset + 1, one.now, follows=True)
    assert one.leader.raft.high_watermark == before


def test_a_vote_outlives_a_crash():
    trio = Trio(3, ids=(1, 2, 3))
    trio.start()
    heard: list[str] = []
    trio.heard = heard.append
    while not any("granted" in line for line in heard):
        trio.run(1)
    voter = int(next(line for line in heard if "granted" in line)[0])
    raft = trio.nodes[voter].raft
    epoch = raft.leader_epoch
    trio.crash(voter)
    again = Raft(trio.config(voter), trio.nodes[voter].disk.files, Random(1), trio.now)
    assert again.leader_epoch == epoch
    election = again.replica.quorum.election
    assert election.voted_id > 0 or election.leader_id > 0


@pytest.mark.parametrize(
    "records",
    [
        batch(1, 3),
        batch(0, 4),
        batch(0, 3)[:-1] + b"x",
        batch(0, 3) + batch(1, 2),
        b"\0" * 70,
    ],
)
def test_an_invalid_answer_is_not_written(records):
    one = Follower()
    one.answer(one.fetch(), records=records, high_watermark=5)
    assert SEGMENT not in one.disk.files or records.startswith(one.disk.files[SEGMENT])
    assert [line.level for line in one.disk.log if "invalid" in line.event] == ["warning"]
    assert one.raft.high_watermark == -1


def test_a_part_of_a_batch_at_the_end_is_dropped():
    one = Follower()
    one.answer(one.fetch(), records=batch(0, 1) + batch(1, 3)[:-5])
    one.sync()
    assert asked_at(one.fetch()) == (3, 1, 1)


def test_what_an_older_epoch_answers_is_dropped():
    one = Follower()
    ask = one.fetch()
    kind = m.BeginQuorumEpochRequest
    partition = kind.PartitionData(leader_id=3, leader_epoch=4)
    request = kind(topics=[kind.TopicData(topic_name="__cluster_metadata", partitions=[partition])])
    ticket: Any = "t"
    one.raft.request(request, 1, one.now, ticket)
    one.disk.apply(one.raft.take_effects())
    one.answer(ask, records=batch(0, 1), high_watermark=1)
    assert one.raft.log_end_offset == 0
    assert (one.raft.leader_epoch, one.raft.leader_id) == (4, 3)


def with_log(*batches: bytes) -> Follower:
    one = Follower()
    one.answer(one.fetch(), records=b"".join(batches))
    one.sync()
    return one


def test_it_truncates_to_where_both_logs_are_one():
    one = with_log(batch(0, 1, "ab"), batch(2, 2, "cd"), batch(4, 2, "e"))
    diverging = m.FetchResponse.EpochEndOffset(epoch=1, end_offset=2)
    one.answer(one.fetch(), diverging_epoch=diverging)
    assert asked_at(one.fetch()) == (3, 1, 2)
    assert one.disk.files[SEGMENT] == batch(0, 1, "ab")
    assert one.disk.files[EPOCHS] == b"0\n1\n1 0\n"


def test_that_all_is_truncated_is_known_before_it_is_done(monkeypatch: pytest.MonkeyPatch):
    one = with_log(batch(0, 1, "ab"))
    one.answer(one.fetch(), records=b"", high_watermark=0)
    assert one.disk.files[VOTER_STATE] == b"0\nwhole\n"
    done: list[Any] = []
    apply = one.disk.apply
    monkeypatch.setattr(one.disk, "apply", lambda effects: (done.extend(effects), apply(effects)))
    diverging = m.FetchResponse.EpochEndOffset(epoch=0, end_offset=0)
    one.answer(one.fetch(), diverging_epoch=diverging)
    assert one.raft.log_end_offset == 0
    assert one.disk.files[VOTER_STATE] == b"0\nnew\n"
    paths = [getattr(effect, "path", "") for effect in done]
    assert paths.index(VOTER_STATE) < paths.index(SEGMENT)


def test_it_does_not_truncate_what_is_committed():
    one = Follower()
    one.answer(one.fetch(), records=batch(0, 1, "ab") + batch(2, 2, "cd"), high_watermark=3)
    one.sync()
    one.answer(one.fetch(), records=b"", high_watermark=4)
    diverging = m.FetchResponse.EpochEndOffset(epoch=1, end_offset=2)
    before = dict(one.disk.files)
    one.answer(one.fetch(), diverging_epoch=diverging)
    assert one.disk.halt.exit_code == 1
    assert one.disk.halt.why.startswith("node 2 leads epoch 3")
    kept = {path for path in before if path != RECOVERY_POINT}
    assert {path: one.disk.files[path] for path in kept} == {path: before[path] for path in kept}
    assert one.disk.files.keys() - before.keys() == {CONTRADICTED}


def lead(one: Follower) -> None:
    while not one.raft.is_leader:
        one.now = max(one.now, one.raft.deadline_ms or 0)
        one.disk.apply(one.raft.tick(one.now))
        for ask in one.raft.take_asks():
            if isinstance(ask.message, m.VoteRequest):
                kind = m.VoteResponse
                granted = kind.PartitionData(
                    leader_id=-1, leader_epoch=ask.epoch, vote_granted=True
                )
                answer = kind(topics=[kind.TopicData(partitions=[granted])])
                one.disk.apply(one.raft.answered(ask, answer, one.now))


def test_what_is_committed_can_be_in_a_snapshot_whoever_leads():
    """Also in the first moments of an epoch, whose high watermark is not known yet."""
    one = Follower()
    one.answer(one.fetch(), records=batch(0, 1, "ab"), high_watermark=2)
    one.sync()
    one.raft.take_asks()
    lead(one)
    assert one.raft.high_watermark == -1
    one.disk.apply(one.raft.snapshot(2, 1, [topic("ab")], NOW))
    one.written()
    assert one.raft.latest_snapshot is not None
    with pytest.raises(ValueError, match="is not committed, 2 is"):
        one.raft.snapshot(3, 4, [], NOW)


def test_a_snapshot_is_not_all_that_is_committed():
    """A voter that lost its log votes for nobody until a leader said how much is committed."""
    one = Follower()
    snapshot = SnapshotId(10, 2)
    told = m.FetchResponse.SnapshotId(end_offset=10, epoch=2)
    assert one.disk.files[VOTER_STATE] == b"0\nunknown\n"
    one.answer(one.fetch(), snapshot_id=told, high_watermark=11)
    assert one.disk.files[VOTER_STATE] == b"0\nbehind 3 11\n", "before the download"
    one.whole_snapshot(one.fetch(), snapshot)
    assert (one.raft.log_end_offset, one.raft.high_watermark) == (10, 10)
    assert one.disk.files[VOTER_STATE] == b"0\nbehind 3 11\n"
    ask = one.fetch()
    assert asked_at(ask) == (3, 2, 10)
    one.answer(ask, records=batch(10, 3))
    one.sync()
    assert one.disk.files[VOTER_STATE] == b"0\nbehind 3 11\n"
    one.answer(one.fetch(), high_watermark=11)
    assert one.disk.files[VOTER_STATE] == b"0\nwhole\n"


@pytest.mark.parametrize("end_offset", [4, 10])
def test_the_leaders_snapshot_comes_while_our_own_is_written(end_offset):
    """The leader's stays, also under the same id; ours is removed, and nothing is cut for it."""
    one = Follower()
    one.answer(one.fetch(), records=batch(0, 1, "ab") + batch(2, 3, "cd"), high_watermark=4)
    one.sync()
    one.answer(one.fetch(), high_watermark=4)
    one.disk.apply(one.raft.snapshot(4, 3, [topic("ours")], NOW))
    assert one.raft.snapshotting
    theirs = SnapshotId(end_offset, 3)
    told = m.FetchResponse.SnapshotId(end_offset=end_offset, epoch=3)
    one.answer(one.fetch(), snapshot_id=told, high_watermark=end_offset)
    data = one.whole_snapshot(one.fetch(), theirs)
    one.written()
    assert not one.raft.snapshotting
    files = {path for path in one.disk.files if path.endswith(".checkpoint")}
    assert files == {snapshot_path(theirs)}
    assert one.disk.files[snapshot_path(theirs)] == data
    again = Follower(one.disk.files)
    assert again.raft.latest_snapshot == theirs == one.raft.latest_snapshot
    assert again.raft.log_end_offset == one.raft.log_end_offset == end_offset


def test_a_torn_end_of_a_follower_is_no_damage():
    """The leader's groups are in the batches; here all of them were one sync."""
    groups = batch(0, 1, "a") + batch(1, 1, "b") + batch(2, 1, "c", 1) + batch(3, 1, "d")
    torn = groups.replace(topic("b"), topic("b")[:-1] + b"!")
    files = {SEGMENT: torn}
    again = Follower(files)
    assert again.raft.log_end_offset == 1
    with pytest.raises(RecoveryError, match="acknowledged records are damaged"):
        World({SEGMENT: torn})
    assert CONTROL == 0x20


def offer(one: Follower, end_offset: int, epoch: int, leader: int = 2) -> None:
    """The leader names a snapshot to be loaded."""
    told = m.FetchResponse.SnapshotId(end_offset=end_offset, epoch=epoch)
    ask = one.fetch(leader)
    current = m.FetchResponse.LeaderIdAndEpoch(leader_id=leader, leader_epoch=ask.epoch)
    one.answer(ask, snapshot_id=told, current_leader=current)


def piece(
    one: Follower, ask: Ask, data: bytes, size: int, *, slow: bool = False, **fields: Any
) -> None:
    """Answer a FetchSnapshot; ``slow``: the disk takes its time with the last one."""
    kind, asked = m.FetchSnapshotResponse, ask.message.topics[0].partitions[0]
    leader = kind.LeaderIdAndEpoch(leader_id=ask.node_id, leader_epoch=ask.epoch)
    given = kind.PartitionSnapshot(
        **{
            "snapshot_id": kind.SnapshotId(
                end_offset=asked.snapshot_id.end_offset, epoch=asked.snapshot_id.epoch
            ),
            "current_leader": leader,
            "position": asked.position,
            "size": size,
            "unaligned_records": data,
            **fields,
        }
    )
    answer = kind(topics=[kind.TopicSnapshot(name=TOPIC, partitions=[given])])
    one.disk.apply(one.raft.answered(ask, answer, one.now))
    if not slow:
        one.written()


def begin(one: Follower, epoch: int, leader_id: int = 2) -> None:
    """A voter leads a new epoch; what was asked before gets no answer."""
    one.asks()
    kind = m.BeginQuorumEpochRequest
    partition = kind.PartitionData(leader_id=leader_id, leader_epoch=epoch)
    request = kind(topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])])
    ticket: Any = "t"
    one.raft.request(request, 1, one.now, ticket)
    one.disk.apply(one.raft.take_effects())


def position(ask: Ask) -> int | None:
    """Where a FetchSnapshot reads; None for a Fetch."""
    message: Any = ask.message
    found = message.topics[0].partitions[0]
    return found.position if isinstance(message, m.FetchSnapshotRequest) else None


SNAPSHOT = render_snapshot(SnapshotId(10, 2), [topic("all")], NOW, read_back)


def half_loaded() -> Follower:
    one = Follower()
    offer(one, 10, 2)
    piece(one, one.fetch(), SNAPSHOT[:50], len(SNAPSHOT))
    return one


def test_a_download_goes_on_when_the_same_leader_offers_the_same_snapshot_again():
    one = half_loaded()
    begin(one, 4)
    ask = one.fetch()
    assert position(ask) is None, "first it says where its log ends"
    one.answer(
        ask,
        snapshot_id=m.FetchResponse.SnapshotId(end_offset=10, epoch=2),
        current_leader=m.FetchResponse.LeaderIdAndEpoch(leader_id=2, leader_epoch=4),
    )
    ask = one.fetch()
    assert position(ask) == 50
    piece(one, ask, SNAPSHOT[50:], len(SNAPSHOT))
    assert (one.raft.log_end_offset, one.raft.latest_snapshot) == (10, SnapshotId(10, 2))


@pytest.mark.parametrize("change", ["leader", "id", "size", "no snapshot between"])
def test_it_begins_anew_when_it_may_be_another_file(change):
    one = half_loaded()
    begin(one, 4, 3 if change == "leader" else 2)
    leader = 3 if change == "leader" else 2
    if change == "no snapshot between":
        current = m.FetchResponse.LeaderIdAndEpoch(leader_id=2, leader_epoch=4)
        one.answer(one.fetch(), current_leader=current)
    end_offset = 11 if change == "id" else 10
    offer(one, end_offset, 2, leader)
    ask = one.fetch(leader)
    assert position(ask) == (50 if change == "size" else 0)
    if change == "size":
        piece(one, ask, SNAPSHOT[50:], len(SNAPSHOT) + 1)
        offer(one, 10, 2)
        assert position(one.fetch()) == 0


@pytest.mark.parametrize("code", [99, 42, 31, -1])
def test_a_download_that_the_leader_refuses_begins_anew(code):
    one = half_loaded()
    before = one.now
    piece(one, one.fetch(), b"", 0, error_code=code)
    assert position(one.fetch()) is None
    assert one.now == before + REFUSED_MS


def test_a_snapshot_that_the_leader_has_no_more_is_asked_for_after_the_retry_time():
    one = half_loaded()
    before = one.now
    piece(one, one.fetch(), b"", 0, error_code=SNAPSHOT_NOT_FOUND)
    ask = one.fetch()
    assert position(ask) is None, "the leader names another one"
    assert one.now == before + QuorumTimes().retry_ms
    one.answer(ask, snapshot_id=m.FetchResponse.SnapshotId(end_offset=10, epoch=2))
    assert position(one.fetch()) == 0, "it begins anew"


@pytest.mark.parametrize("code", [6, 8, 74, 75])
def test_one_that_is_refused_for_a_while_goes_on(code):
    one = half_loaded()
    piece(one, one.fetch(), b"", 0, error_code=code)
    assert position(one.fetch()) == 50


def test_a_snapshot_that_is_here_is_not_loaded_again():
    one = half_loaded()
    piece(one, one.fetch(), SNAPSHOT[50:], len(SNAPSHOT))
    before, at = one.raft.rewritten, one.now
    offer(one, 10, 2)
    assert position(one.fetch()) is None
    assert (one.raft.rewritten, one.now) == (before, at + REFUSED_MS)
    assert "which is here" in str(one.disk.log[-1].fields)


def test_a_snapshot_of_another_epoch_where_ours_ends_is_a_contradiction():
    one = half_loaded()
    piece(one, one.fetch(), SNAPSHOT[50:], len(SNAPSHOT))
    offer(one, 10, 3)
    assert "wants us to load a snapshot up to 10 of epoch 3" in one.disk.halt.why


def test_an_answer_that_names_no_difference_is_not_asked_for_in_a_loop():
    one = with_log(batch(0, 1, "ab"), batch(2, 2, "cd"))
    before = (dict(one.disk.files), one.raft.rewritten)
    for _ in range(5):
        at = one.now
        one.answer(
            one.fetch(), diverging_epoch=m.FetchResponse.EpochEndOffset(epoch=2, end_offset=9)
        )
        ask = one.fetch()
        assert asked_at(ask) == (3, 2, 4)
        assert one.now == at + REFUSED_MS
        one.raft.unanswered(ask, one.now)
        one.now += 20
    assert (dict(one.disk.files), one.raft.rewritten) == before
    assert one.raft.leader_epoch == 3, "a leader that answers is not silent"


def test_a_leader_that_has_nothing_to_tell_and_does_not_wait_is_not_asked_in_a_loop():
    one, begun = with_log(batch(0, 1)), 0
    begun = one.now
    for _ in range(10):
        one.answer(one.fetch())
    assert one.now - begun >= 9 * 20
    at = one.now
    one.answer(one.fetch(), records=batch(1, 3), high_watermark=1)
    one.sync()
    one.fetch()
    assert one.now <= at + 20, "news is followed by the next question at once"


def test_an_answer_that_is_cut_anywhere_brings_its_whole_batches():
    """A leader of Kafka's cuts at the bytes that were asked for, also within a header."""
    whole, cut = batch(0, 1, "ab"), batch(2, 3, "c")
    for kept in range(len(cut)):
        one = Follower()
        one.answer(one.fetch(), records=whole + cut[:kept], high_watermark=2)
        one.sync()
        assert asked_at(one.fetch()) == (3, 1, 2), kept
        assert not [line for line in one.disk.log if "invalid" in line.event], kept


def test_of_an_answer_with_an_invalid_batch_nothing_is_taken():
    """Else a batch that opens an epoch would be in the log, and the epoch in no file."""
    one = with_log(batch(0, 1))
    before = dict(one.disk.files)
    one.answer(one.fetch(), records=batch(1, 2) + batch(2, 3) + batch(9, 3), high_watermark=3)
    assert one.raft.log_end_offset == 1
    assert not one.raft.dirty
    assert one.disk.files == before
    one.answer(one.fetch(), records=batch(1, 2), high_watermark=2)
    assert one.disk.files[EPOCHS] == b"0\n2\n1 0\n2 1\n"


def behind_a_snapshot(trio: Trio) -> tuple[Node, int]:
    """The leader, and a voter that is down and needs the leader's snapshot."""
    trio.start()
    trio.run(6_000)
    leader = trio.leader
    behind = min(each for each in trio.nodes if each != leader.id)
    trio.crash(behind)
    names = [topic(f"topic-{each}") for each in range(100)]
    for name in names:
        trio.append(leader, name)
        trio.run(20)
    raft = leader.raft
    end = raft.high_watermark
    assert end == raft.log_end_offset
    trio.snapshot(leader, end, raft.leader_epoch, names)
    assert raft.log_start_offset == end
    return leader, behind


def test_a_voter_that_loads_a_snapshot_keeps_the_leader_while_the_third_is_down():
    trio = Trio(5, segment_bytes=300, snapshots_retained=1, fetch_bytes_max=60)
    leader, behind = behind_a_snapshot(trio)
    raft = leader.raft
    epoch = raft.leader_epoch
    trio.crash(*(each for each in trio.nodes if each not in {leader.id, behind}))
    trio.delay_ms = 120
    trio.start(behind)
    began = trio.now
    loader = trio.nodes[behind].raft
    while loader.latest_snapshot is None:
        trio.run(100)
        assert raft.is_leader, f"given up after {trio.now - began} ms"
        assert trio.now < began + 60_000
    assert trio.now > began + 2 * raft.config.times.check_quorum_ms
    assert raft.leader_epoch == loader.leader_epoch == epoch
    offset = trio.append(leader, topic("after"))
    trio.run(1_000)
    assert loader.high_watermark > offset


@pytest.mark.parametrize("release", RELEASES)
def test_voters_of_every_release_elect_follow_and_load_a_snapshot(release):
    """In the versions that controllers of that release speak: up to 3.8 without directory ids."""
    trio = Trio(7, segment_bytes=300, snapshots_retained=1)
    ranges = controller_ranges(release)
    trio.versions = {key: ranges[key][1] for key in (1, 52, 53, 54, 59)}
    trio.delay_ms = trio.sync_ms = 3
    leader, behind = behind_a_snapshot(trio)
    raft = leader.raft
    assert raft is not None
    end = trio.append(leader, topic("b")) + 1
    trio.start(behind)
    trio.run(3_000)
    loader = trio.nodes[behind].raft
    assert loader.latest_snapshot == raft.latest_snapshot is not None
    assert loader.high_watermark == end
    trio.perform(leader, raft.shutdown(trio.now))
    trio.run(50)
    trio.crash(leader.id)
    trio.run(3_000)
    assert trio.leader.id != leader.id
    trio.append(trio.leader, topic("c"))
    trio.run(1_000)
    assert {node.raft.high_watermark for node in trio.up() if node.raft} == {end + 2}
