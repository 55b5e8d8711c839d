"""Recovery of one of several voters: what was durable and what was committed outlives a restart."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from emulator.raft import Raft, RecoveryError
from emulator.raft.asking import Ask
from emulator.raft.layout import (
    EPOCHS,
    RECOVERY_POINT,
    SnapshotId,
    parse_recovery_point,
    render_recovery_point,
    segment_base,
    segment_path,
    snapshot_path,
)
from emulator.raft.log import read_back
from emulator.raft.recovery import scan
from emulator.raft.replica import RECOVERY_POINT_MS
from emulator.raft.snapshots import render as render_snapshot
from emulator.seam import AppendFile, DeleteFile, Effect, ReplaceFile, TruncateFile, WriteFile
from emulator.simulation.models.disk import SimulatedDisk
from tests.unit.raft.test_following import Follower, batch
from tests.unit.raft.trio import Trio
from tests.unit.raft.world import SEGMENT, Disk, topic
from wire import messages as m


def asked(one: Follower) -> Ask:
    """What it has asked already, without waiting; else what it asks next."""
    return next(iter(one.asks()), None) or one.fetch()


def grown(count: int = 10, *, every_ms: int = 1_000, **fields: Any) -> Follower:
    """Batches at 0, 1, …, each in an answer of its own, durable; all but the last are committed."""
    one = Follower()
    for offset in range(count):
        one.answer(asked(one), records=batch(offset, 2), high_watermark=offset, **fields)
        one.now += every_ms
        one.sync()
    one.answer(asked(one), records=b"", high_watermark=count)
    return one


def recovered(files: dict[str, bytes]) -> Raft:
    return Raft(Trio().config(1), files, Random(1), 0)


def positions(segment: bytes) -> list[int]:
    found = [0]
    for each in scan(segment, 0).batches:
        found.append(found[-1] + len(each.data))
    return found


def damaged(files: dict[str, bytes], index: int) -> dict[str, bytes]:
    """One page in the middle of a batch is lost."""
    data = bytearray(files[SEGMENT])
    data[positions(files[SEGMENT])[index] + 70] ^= 1
    return {**files, SEGMENT: bytes(data)}


def with_snapshot(end_offset: int, files: dict[str, bytes]) -> dict[str, bytes]:
    data = render_snapshot(SnapshotId(end_offset, 2), [topic("all")], 0, read_back)
    return {**files, snapshot_path(SnapshotId(end_offset, 2)): data}


def point_of(files: dict[str, bytes]) -> Any:
    return parse_recovery_point(files[RECOVERY_POINT])


@pytest.mark.parametrize("index", range(10))
def test_damage_below_a_snapshot_does_not_take_the_records_behind_it(index):
    files = with_snapshot(5, grown().disk.files)
    del files[RECOVERY_POINT]
    if index < 5:
        with pytest.raises(RecoveryError, match="says that all below 5 was durable") as found:
            recovered(damaged(files, index))
        assert found.value.position == positions(files[SEGMENT])[index]
        return
    assert recovered(damaged(files, index)).log_end_offset == index, "what is sound stays"


@pytest.mark.parametrize("kept", [0, 1, 4])
def test_a_log_that_ends_below_a_snapshot_has_lost_records(kept):
    """Its files are sound, so only what the folder says tells it from a cut download."""
    files = with_snapshot(5, grown().disk.files)
    files[SEGMENT] = files[SEGMENT][: positions(files[SEGMENT])[kept]]
    with pytest.raises(RecoveryError, match=f"the log ends at {kept}, records after it are missi"):
        recovered(files)
    del files[RECOVERY_POINT]
    with pytest.raises(RecoveryError, match=f"the log ends at {kept}, records after it are missi"):
        recovered(files)
    del files[SEGMENT]
    with pytest.raises(RecoveryError, match="the log ends at 0, records after it are missing"):
        recovered(files)


def test_the_log_is_read_once_at_a_start(monkeypatch):
    """Every byte of it is checked, which takes seconds for a large one."""
    seen: list[int] = []

    def counted(data: bytes, expected_offset: int) -> Any:
        seen.append(len(data))
        return scan(data, expected_offset)

    files = with_snapshot(5, grown().disk.files)
    monkeypatch.setattr("emulator.raft.recovery.scan", counted)
    recovered(files)
    assert seen == [len(files[SEGMENT])]


def test_the_recovery_point_is_a_few_seconds_old_at_most():
    one = Follower()
    written = 0
    for offset in range(60):
        one.answer(asked(one), records=batch(offset, 2), high_watermark=offset)
        before = one.disk.files.get(RECOVERY_POINT)
        one.now += 500
        one.sync()
        written += one.disk.files.get(RECOVERY_POINT) != before
        point = point_of(one.disk.files)
        assert offset + 1 - RECOVERY_POINT_MS // 500 < point.durable <= offset + 1
        assert point.durable - 1 <= point.committed <= point.durable
    assert written == 60 * 500 // RECOVERY_POINT_MS, "and not with each record"


@pytest.mark.parametrize("index", range(10))
def test_damage_below_the_recovery_point_stops_the_node_by_name(index):
    files = grown().disk.files
    durable = point_of(files).durable
    assert durable == 6
    if index < durable:
        says = f"{RECOVERY_POINT} says that all below 6 was durable"
        with pytest.raises(RecoveryError, match=says) as found:
            recovered(damaged(files, index))
        assert found.value.position == positions(files[SEGMENT])[index]
    else:
        assert recovered(damaged(files, index)).log_end_offset == index


def test_an_orderly_stop_leaves_nothing_to_guess():
    one = grown()
    one.disk.apply(one.raft.shutdown(one.now))
    assert one.disk.files[RECOVERY_POINT] == b"1\n10\n10\n"
    with pytest.raises(RecoveryError, match="says that all below 10 was durable"):
        recovered(damaged(one.disk.files, 9))


def test_what_is_not_on_the_own_disk_is_not_called_committed_there():
    """A leader whose disk is slow waits for it, though a majority without itself has more."""
    trio = Trio(3).start()
    trio.run(8_000)
    leader = trio.leader
    trio.sync_ms = 10**9
    durable = leader.raft.log_end_offset
    offset = trio.append(leader, topic("a"))
    raft = leader.raft
    for other in set(trio.nodes) - {leader.id}:
        raft._member.voter_fetched(other, offset + 1, trio.now, follows=True)
    assert raft.log_end_offset > raft.committed_end == raft.high_watermark == durable
    trio.synced(leader, leader.life)
    assert raft.high_watermark == offset + 1


# ---------------------------------------------------------------- a snapshot replaces the log


def loading(epoch: int = 2) -> tuple[Follower, Any, m.FetchSnapshotResponse]:
    """A log of four that ends in epoch 2, and the last answer of a download up to 10.

    All of it is committed, or, if the snapshot is of epoch 1, the half that is of that epoch.
    """
    one = grown(4) if epoch > 1 else half_committed()
    told = m.FetchResponse.SnapshotId(end_offset=10, epoch=epoch)
    one.answer(one.fetch(), snapshot_id=told)
    ask = one.fetch()
    data = render_snapshot(SnapshotId(10, epoch), [topic("all")], 0, read_back)
    kind = m.FetchSnapshotResponse
    piece = kind.PartitionSnapshot(
        snapshot_id=kind.SnapshotId(end_offset=10, epoch=epoch),
        current_leader=kind.LeaderIdAndEpoch(leader_id=2, leader_epoch=3),
        size=len(data),
        unaligned_records=data,
    )
    return (
        one,
        ask,
        kind(topics=[kind.TopicSnapshot(name="__cluster_metadata", partitions=[piece])]),
    )


def half_committed() -> Follower:
    one = Follower()
    for offset in range(4):
        one.answer(asked(one), records=batch(offset, 1 + offset // 2), high_watermark=1)
        one.sync()
    one.answer(asked(one), records=b"", high_watermark=2)
    return one


def on_the_disk(one: Follower, ask: Ask, answer: object) -> list[Effect]:
    """What the disk gets until the log begins at the snapshot, in this order."""
    effects = one.raft.answered(ask, answer, one.now)
    (write,) = [each for each in effects if isinstance(each, WriteFile)]
    effects[effects.index(write)] = ReplaceFile(write.path, write.data)
    return effects + one.raft.written(write.path, one.now)


@pytest.mark.parametrize("epoch", [2, 3])
def test_a_download_that_was_cut_goes_on_from_every_point(epoch):
    every_cut_of_a_download(epoch)


def test_a_download_over_a_log_of_a_later_epoch_goes_on_too():
    """Its last records were those of a leader that never got a majority for them."""
    every_cut_of_a_download(epoch=1)


def every_cut_of_a_download(epoch: int) -> None:
    one, ask, answer = loading(epoch)
    before = dict(one.disk.files)
    effects = on_the_disk(one, ask, answer)
    ends = []
    for count in range(len(effects) + 1):
        disk = Disk(before)
        disk.apply(effects[:count])
        again = recovered(disk.files)
        ends.append(again.log_end_offset)
        disk.apply(again.start(0))
        assert segment_path(0 if ends[-1] == 4 else 10) in disk.files
        assert point_of(disk.files).replacing is None, "the next start does not begin there again"
        assert recovered(disk.files).log_end_offset == ends[-1]
    assert ends == sorted(ends)
    assert set(ends) == {4, 10}


def test_what_is_left_of_the_log_need_not_be_sound_when_a_snapshot_replaces_it():
    one, ask, answer = loading()
    files = damaged(one.disk.files, 1)
    disk = Disk(files)
    disk.apply(on_the_disk(one, ask, answer)[:2])
    assert point_of(disk.files).replacing == SnapshotId(10, 2)
    assert recovered(disk.files).log_end_offset == 10


def test_a_download_that_never_ended_takes_nothing_away():
    """Its snapshot is not there, an older one is."""
    one, ask, answer = loading()
    disk = Disk(with_snapshot(3, one.disk.files))
    disk.apply(on_the_disk(one, ask, answer)[:1])
    again = recovered(disk.files)
    assert again.log_end_offset == 4
    disk.apply(again.start(0))
    assert point_of(disk.files).replacing is None
    assert disk.files[SEGMENT] == one.disk.files[SEGMENT]


def test_after_a_download_the_new_segment_takes_what_comes():
    one, ask, answer = loading()
    one.disk.apply(one.raft.answered(ask, answer, one.now))
    one.written()
    assert [each for each in one.disk.files if segment_base(each) is not None] == [segment_path(10)]
    one.answer(one.fetch(), records=batch(10, 3), high_watermark=10)
    one.sync()
    assert one.disk.files[segment_path(10)] == batch(10, 3)
    assert recovered(one.disk.files).log_end_offset == 11


# ---------------------------------------------------------------- the end is cut


def diverged(one: Follower, end_offset: int) -> list[Effect]:
    """What follows when the leader has another log from there on."""
    ask = asked(one)
    kind = m.FetchResponse
    leader = kind.LeaderIdAndEpoch(leader_id=2, leader_epoch=3)
    diverging = kind.EpochEndOffset(epoch=2, end_offset=end_offset)
    partition = kind.PartitionData(
        high_watermark=-1, current_leader=leader, diverging_epoch=diverging
    )
    answer = kind(responses=[kind.FetchableTopicResponse(partitions=[partition])])
    return one.raft.answered(ask, answer, one.now)


def test_segments_that_were_deleted_before_a_cut_do_not_come_back():
    """Deleting syncs nothing; power fails when the segment that stays has been cut."""
    one = Follower(segment_bytes=2 * len(batch(0, 2)))
    for offset in range(8):
        records = batch(offset, 2)
        one.answer(asked(one), records=records, high_watermark=1)
        one.sync()
    before = SimulatedDisk(one.disk.files)
    assert len([path for path in before.files if segment_base(path) is not None]) == 4
    effects = diverged(one, 1)
    for count in range(len(effects) + 1):
        for seed in range(8):
            disk = before.clone()
            for effect in effects[:count]:
                match effect:
                    case ReplaceFile():
                        disk.replace(effect)
                    case TruncateFile():
                        disk.truncate(effect)
                    case DeleteFile():
                        disk.delete(effect)
            disk.crash(Random(seed))
            again = recovered(disk.files)
            assert 1 <= again.log_end_offset <= 8


def test_before_the_log_is_cut_the_recovery_point_goes_back():
    one = grown(8)
    one.answer(one.fetch(), records=batch(8, 2) + batch(9, 2), high_watermark=8)
    one.now += RECOVERY_POINT_MS
    one.sync()
    assert point_of(one.disk.files).durable == 10
    before = dict(one.disk.files)
    effects = diverged(one, 8)
    ends = set()
    for count in range(len(effects) + 1):
        disk = Disk(before)
        disk.apply(effects[:count])
        again = recovered(disk.files)
        disk.apply(again.start(0))
        ends.add(again.log_end_offset)
        assert disk.files[EPOCHS] == again.replica.log.epochs_file().data
    assert ends == {8, 10}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"1\n3\n",
        b"1\n3\n5\n",
        b"1\n-3\n0\n",
        b"1\n3\n2\n5\n",
        b"2\n3\n2\n",
        b"1\n3\n2\n5 -1\n",
    ],
)
def test_a_recovery_point_that_cannot_be_read_stops_one_of_several_too(text):
    with pytest.raises(RecoveryError, match="not a recovery point; nothing was changed"):
        recovered({**grown(3).disk.files, RECOVERY_POINT: text})


def test_with_one_voter_the_text_is_what_it_was():
    assert render_recovery_point(7) == b"0\n7\n"
    assert parse_recovery_point(b"0\n7\n") == (7, 0, None)


def test_nothing_is_written_with_each_sync():
    """Two fsyncs for a record would double the cost of a commit."""
    one = grown(3, every_ms=0)
    one.answer(one.fetch(), records=batch(3, 2), high_watermark=3)
    effects = one.raft.synced(one.disk.sync(), one.now)
    assert [each for each in effects if not isinstance(each, AppendFile)] == []
