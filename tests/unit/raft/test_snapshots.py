"""Snapshots: written in slices, found again, and what the log forgets for them."""

from __future__ import annotations

from random import Random

import pytest

from emulator.raft import AppendRefusedError, SnapshotId
from emulator.raft.layout import segment_path, snapshot_path
from emulator.raft.snapshots import Packed, recover_snapshots
from emulator.seam import DeleteFile, ReplaceFile, WriteFile
from tests.unit.raft.world import EPOCHS, NOW, SEGMENT, World, no_op, topic
from wire import records as r
from wire.batch import decode_batches
from wire.record_serde import decode_control, encode_record


def test_a_snapshot_has_header_records_and_footer_with_offsets_of_its_own():
    world = World(snapshot_slice_records=3).start()
    last = world.append(*[no_op()] * 10)
    values = [topic(f"t{index}") for index in range(7)]
    world.snapshot(last + 10, values)
    file = world.disk.files["__cluster_metadata-0/00000000000000000011-0000000001.checkpoint"]
    header, *batches, footer = decode_batches(file)
    assert [header.base_offset, *(b.base_offset for b in batches), footer.base_offset] == [
        0, 1, 4, 7, 8,
    ]  # fmt: skip
    assert {b.leader_epoch for b in decode_batches(file)} == {1}
    assert decode_control(*header.records[0]) == r.SnapshotHeaderRecord(
        last_contained_log_timestamp=NOW
    )
    assert decode_control(*footer.records[0]) == r.SnapshotFooterRecord()
    assert header.is_control
    assert footer.is_control
    assert [value for b in batches for _, value in b.records] == values


def test_a_snapshot_takes_a_fifth_of_its_bytes_in_memory_at_most():
    """Two of them were a third of what a controller held after a restart."""
    rng, world = Random(1), World().start()
    partitions = [
        encode_record(
            r.PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=[0, 1, 2],
                isr=[1, 2],
                leader=rng.randrange(3),
                directories=[bytes(16)] * 3,
            ),
            1,
        )
        for topic_id in (rng.randbytes(16) for _ in range(20))
        for number in range(100)
    ]
    end = world.append(no_op()) + 1
    world.snapshot(end, partitions)
    name = SnapshotId(end, 1)
    file = world.disk.files[snapshot_path(name)]
    for snapshots in (world.raft.replica.snapshots, recover_snapshots(world.disk.files)):
        found = snapshots.data(name)
        assert found is not None
        assert found.read(0, found.size) == file
        assert 5 * sum(map(len, found._pieces)) <= len(file)


def test_any_part_of_it_is_read_as_it_was():
    rng = Random(2)
    for _ in range(20):
        data, packed = b"", Packed()
        for _ in range(rng.randrange(1, 9)):
            more = rng.randbytes(rng.choice((0, 1, 7, 50)))
            packed.add(more)
            data += more
        assert packed.size == len(data)
        for at in range(len(data) + 1):
            for count in (0, 1, 8, len(data)):
                assert packed.read(at, count) == data[at : at + count]


def test_a_snapshot_is_written_a_slice_per_step():
    world = World(snapshot_slice_records=2).start()
    world.append(no_op())
    read = []
    values = (read.append(index) or no_op() for index in range(5))
    assert world.raft.snapshot(2, 1, values, NOW) == []
    assert (len(read), world.raft.deadline_ms, world.raft.snapshotting) == (2, 0, True)
    assert world.raft.tick(NOW) == []
    assert len(read) == 4
    world.disk.apply(world.raft.tick(NOW))
    assert (len(read), world.raft.deadline_ms, world.raft.snapshotting) == (5, None, True)
    assert world.raft.latest_snapshot is None
    world.written()
    assert not world.raft.snapshotting
    assert world.raft.latest_snapshot == SnapshotId(2, 1)


def test_nothing_is_trimmed_before_the_file_is_durable():
    world = World().start()
    for name in "ab":
        world.append(no_op())
        world.snapshot(world.raft.log_end_offset, [topic(name)])
    world.append(no_op())
    before = world.raft.log_start_offset, snapshots_of(world), segments_of(world)
    end_offset = world.raft.log_end_offset
    effects = world.raft.snapshot(end_offset, 1, [topic("c")], NOW)
    assert effects == [WriteFile(snapshot_path(SnapshotId(end_offset, 1)), effects[0].data)]
    world.disk.apply(effects)
    for _ in range(3):
        world.tick(10_000)
    assert (world.raft.log_start_offset, snapshots_of(world), segments_of(world)) == before
    with pytest.raises(ValueError, match="another snapshot is being written"):
        world.raft.snapshot(end_offset, 1, [], NOW)
    world.written()
    assert world.raft.latest_snapshot == SnapshotId(end_offset, 1)
    assert world.raft.log_start_offset > before[0]
    assert len(snapshots_of(world)) == 2


def test_records_go_on_while_a_snapshot_is_written():
    world = World().start()
    world.append(no_op())
    world.disk.apply(world.raft.snapshot(2, 1, [topic("a")], NOW))
    world.raft.append([topic("b")], NOW)
    world.flush()
    world.sync()
    assert world.raft.high_watermark == 3
    world.written()
    again = world.restarted().start()
    assert (again.raft.latest_snapshot, again.raft.log_end_offset) == (SnapshotId(2, 1), 4)


def test_large_records_are_cut_into_batches_of_a_megabyte():
    world = World(snapshot_slice_records=500).start()
    world.append(no_op())
    values = [topic("t" * 30_000 + str(index)) for index in range(100)]
    world.snapshot(2, values)
    file = world.disk.files[snapshot_path(SnapshotId(2, 1))]
    sizes = [sum(len(v) for _, v in b.records) for b in decode_batches(file)]
    assert max(sizes) <= 1024 * 1024
    assert list(world.restarted().raft.snapshot_records) == values


def test_the_newest_snapshot_and_what_follows_are_found_again():
    world = World().start()
    world.append(topic("a"))
    world.snapshot(2, [topic("a")])
    world.append(topic("b"))
    again = world.restarted()
    assert again.raft.latest_snapshot == SnapshotId(2, 1)
    assert list(again.raft.snapshot_records) == [topic("a")]
    (batch,) = again.raft.read(2, 9)
    assert batch.records == [(None, topic("b"))]
    assert list(World().start().raft.snapshot_records) == []


def test_an_empty_image_makes_a_snapshot_too():
    world = World().start()
    world.snapshot(1, [])
    assert list(world.restarted().raft.snapshot_records) == []
    assert world.restarted().raft.latest_snapshot == SnapshotId(1, 1)


@pytest.mark.parametrize(
    ("end_offset", "epoch", "why"),
    [
        (9, 2, "is not committed, 8 is"),
        (2, 1, "is not above"),
        (5, 1, "does not end where a batch"),
        (6, 1, "of epoch 2"),
        (0, 0, "is not above"),
    ],
)
def test_an_id_that_does_not_fit_the_log_is_refused(end_offset, epoch, why):
    world = World().start()
    world.append(no_op())
    world.snapshot(2, [no_op()])
    world = world.restarted().start()
    world.append(no_op(), no_op(), no_op())
    world.append(no_op(), no_op())
    with pytest.raises(ValueError, match=why):
        world.raft.snapshot(end_offset, epoch, [], NOW)
    assert not world.raft.snapshotting


def test_one_snapshot_at_a_time():
    world = World(snapshot_slice_records=1).start()
    world.append(no_op())
    world.raft.snapshot(1, 1, [no_op()] * 3, NOW)
    with pytest.raises(ValueError, match="is being written"):
        world.raft.snapshot(2, 1, [], NOW)


def test_a_record_that_cannot_be_read_back_makes_no_snapshot():
    world = World().start()
    with pytest.raises(AppendRefusedError):
        world.raft.snapshot(1, 1, [b"\x01\x14\x00"], NOW)


def snapshots_of(world: World) -> list[str]:
    return sorted(path for path in world.disk.files if path.endswith(".checkpoint"))


def segments_of(world: World) -> list[str]:
    return sorted(path for path in world.disk.files if path.endswith(".log"))


def test_the_log_is_kept_from_the_older_of_two_snapshots_on():
    world = World().start()
    world.append(no_op())
    world.snapshot(2, [topic("a")])
    world.append(no_op())
    assert segments_of(world) == [SEGMENT, segment_path(2)], "a new segment after each snapshot"
    assert world.raft.log_start_offset == 0
    world.snapshot(3, [topic("b")])
    world.append(no_op())
    assert segments_of(world) == [segment_path(2), segment_path(3)]
    assert snapshots_of(world) == [snapshot_path(SnapshotId(2, 1)), snapshot_path(SnapshotId(3, 1))]
    assert world.raft.log_start_offset == 2
    assert world.disk.files[EPOCHS] == b"0\n1\n1 2\n"
    world.snapshot(4, [topic("c")])
    assert snapshots_of(world) == [snapshot_path(SnapshotId(3, 1)), snapshot_path(SnapshotId(4, 1))]
    again = world.restarted().start()
    assert (again.raft.log_start_offset, again.raft.log_end_offset) == (3, 5)
    assert again.raft.leader_epoch == 2


def test_a_stop_between_a_snapshot_and_the_next_group_keeps_the_log_no_longer():
    """The segment that was to begin then begins in the next life, and once."""
    world = World().start()
    world.append(no_op())
    world.snapshot(2, [topic("a")])
    assert segments_of(world) == [SEGMENT]
    again = world.restarted().start()
    assert segments_of(again) == [SEGMENT, segment_path(2)]
    again.append(no_op())
    third = again.restarted().start()
    assert segments_of(third) == [SEGMENT, segment_path(2)]
    third.snapshot(5, [topic("b")])
    assert segments_of(third) == [segment_path(2)]


def test_with_one_snapshot_retained_the_log_begins_at_it():
    world = World(snapshots_retained=1).start()
    world.append(no_op())
    world.snapshot(2, [topic("a")])
    world.append(no_op())
    world.append(no_op())
    world.snapshot(3, [topic("b")])
    assert world.raft.log_start_offset == 3
    assert [b.base_offset for b in world.raft.read(0, 9)] == [3]
    assert segments_of(world) == [segment_path(2)], "it holds offset 3 too"
    again = world.restarted(snapshots_retained=1)
    assert again.raft.log_start_offset == 3
    assert [b.base_offset for b in again.raft.read(0, 9)] == [3]


def test_a_crash_between_the_deletions_loses_nothing():
    world = World().start()
    for name in "ab":
        world.append(no_op())
        world.snapshot(world.raft.log_end_offset, [topic(name)])
    world.append(no_op())
    (write,) = world.raft.snapshot(world.raft.log_end_offset, 1, [topic("c")], NOW)
    effects = [ReplaceFile(write.path, write.data), *world.raft.written(write.path, NOW)]
    assert sum(isinstance(one, DeleteFile) for one in effects) > 1
    for count in range(len(effects) + 1):
        cut = World(world.disk.files)
        cut.disk.apply(effects[:count])
        again = cut.restarted().start()
        assert again.raft.log_end_offset == 5
        oldest = min([4, *(int(p.split("/")[1][:20]) for p in snapshots_of(again))])
        assert again.raft.log_start_offset <= oldest


def test_halves_of_snapshots_are_removed_at_start():
    world = World().start()
    part = snapshot_path(SnapshotId(1, 1)) + ".part"
    gone = snapshot_path(SnapshotId(1, 1)) + ".deleted"
    again = World({**world.disk.files, part: b"x", gone: b"y"}).start()
    assert part not in again.disk.files
    assert gone not in again.disk.files
    assert again.raft.latest_snapshot is None


def test_what_zookeeper_stands_at_stays_in_the_log():
    """Snapshots may cover it, and a restart must find it again; the limit may rise later."""
    world = World(snapshots_retained=2).start()
    world.raft.replica.keep(2)
    for name in "abcd":
        world.append(no_op())
        world.snapshot(world.raft.log_end_offset, [topic(name)])
    assert world.raft.log_start_offset <= 2
    again = world.restarted(snapshots_retained=2)
    assert again.raft.log_start_offset <= 2
    assert again.raft.digest_at(2) == world.raft.digest_at(2) != ""
    world.disk.apply(world.raft.replica.keep(4))
    assert world.raft.log_start_offset == 4
    assert len(snapshots_of(world)) == 2
    assert world.raft.digest_at(2) == ""
    world.append(no_op())
    world.snapshot(world.raft.log_end_offset, [topic("e")])
    assert world.raft.log_start_offset == 4
    assert len(snapshots_of(world)) == 3
    assert world.raft.replica.keep(None) == []
    assert len(snapshots_of(world)) == 3, "who leads no more may lead again"
    world.append(no_op())
    world.snapshot(world.raft.log_end_offset, [topic("f")])
    assert world.raft.log_start_offset == 6
    assert len(snapshots_of(world)) == 2


def test_two_logs_with_equal_offsets_and_epochs_differ_in_their_digests():
    one, other = World().start(), World().start()
    assert one.raft.digest_at(0) == other.raft.digest_at(0), "the same batch at the same time"
    one.append(topic("a"))
    other.append(topic("b"))
    assert one.raft.epoch_at(1) == other.raft.epoch_at(1)
    assert one.raft.digest_at(1) != other.raft.digest_at(1)
    assert one.raft.digest_at(2) == ""
