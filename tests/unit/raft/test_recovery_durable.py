"""Recovery: what had been durable is told from what a crash may have left in any state."""

from __future__ import annotations

import pytest

from emulator.raft import RecoveryError
from emulator.raft.layout import RECOVERY_POINT, SnapshotId, snapshot_path
from emulator.raft.recovery import scan
from emulator.seam import AppendFile, DeleteFile, ReplaceFile, TruncateFile
from tests.unit.raft.world import NOW, SEGMENT, World, no_op, topic
from wire.batch import NO_SEQUENCE, batch_header

PAGE = 4096


def grouped(*sizes: int) -> World:
    """Groups of so many batches of some 20 kB each behind the LeaderChange, all durable."""
    world = World().start()
    for size in sizes:
        for _ in range(size):
            world.raft.append([topic(f"{world.raft.log_end_offset}".zfill(20_000))], NOW)
        world.settle()
    return world


def positions(world: World) -> list[int]:
    found = [0]
    for batch in scan(world.disk.files[SEGMENT], 0).batches:
        found.append(found[-1] + len(batch.data))
    return found


def without(world: World, begin: int, end: int) -> dict[str, bytes]:
    """The folder with zeros where those bytes of the segment were."""
    data = world.disk.files[SEGMENT]
    return {**world.disk.files, SEGMENT: data[:begin] + bytes(end - begin) + data[end:]}


def stopped(world: World) -> World:
    """After an orderly stop."""
    world.disk.apply(world.raft.shutdown(NOW))
    world.settle()
    return world


def test_a_batch_says_where_its_group_begins():
    world = grouped(3, 1)
    data = world.disk.files[SEGMENT]
    found = [batch_header(data, at).base_sequence for at in positions(world)[:-1]]
    assert found == [NO_SEQUENCE, NO_SEQUENCE, 1, 2, NO_SEQUENCE]


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lost_page_of_the_last_group_is_cut_off_with_what_follows(lost):
    world = grouped(1, 4)
    at = positions(world)
    page = (at[2 + lost] // PAGE + 1) * PAGE
    again = World(without(world, page, page + PAGE))
    assert again.raft.log_end_offset == 2 + lost, "sound batches before the damage are kept"
    again.start()
    (line,) = [line for line in again.disk.log if line.level == "warning"]
    assert line.event == "unfinished end of the log truncated"
    assert line.fields["position"] == at[2 + lost]
    assert line.fields["bytes"] == at[-1] - at[2 + lost]
    assert line.fields["first_offset"] == 2 + lost
    assert line.fields["last_offset_seen"] == 5
    assert again.restarted().raft.log_end_offset == 3 + lost


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (1, 1),
        (2, 2),
        pytest.param(2, 3, id="and the first batch of the next group"),
        pytest.param(1, 4, id="and all of the next group but its last batch"),
    ],
)
def test_damage_of_a_group_that_was_durable_when_a_later_one_was_written_stops_the_node(
    first, last
):
    world = grouped(2, 3)
    at = positions(world)
    with pytest.raises(RecoveryError, match="written when what is damaged was durable") as caught:
        World(without(world, at[first] + 100, at[last] + 200))
    assert caught.value.position == at[first]
    assert "Restore an undamaged copy of this folder. Or" in str(caught.value)


def test_after_an_orderly_stop_all_is_known_to_be_durable():
    world = stopped(grouped(1, 3))
    assert world.disk.files[RECOVERY_POINT] == b"0\n5\n"
    at = positions(world)
    says = f"{RECOVERY_POINT} says that all below 5 was durable"
    for begin in at[:-1]:
        with pytest.raises(RecoveryError, match=says) as caught:
            World(without(world, begin + 70, begin + 71))
        assert caught.value.position == begin
    short = {**world.disk.files, SEGMENT: world.disk.files[SEGMENT][: at[-2]]}
    with pytest.raises(RecoveryError, match="the log ends at 4, records after it are missing"):
        World(short)


def test_what_is_appended_behind_a_recovery_point_may_still_be_torn():
    world = stopped(grouped(1)).restarted().start()
    world.append(no_op())
    again = World({**world.disk.files, SEGMENT: world.disk.files[SEGMENT][:-1]}).start()
    assert [batch.base_offset for batch in again.raft.read(0, 9)] == [0, 1, 2, 3]


def test_an_orderly_stop_waits_for_the_last_sync_before_it_calls_the_log_durable():
    world = grouped(1)
    world.raft.append([no_op()], NOW)
    effects = world.raft.shutdown(NOW)
    assert [type(effect) for effect in effects[:1]] == [AppendFile]
    assert RECOVERY_POINT not in [getattr(effect, "path", "") for effect in effects]
    world.disk.apply(effects)
    world.sync()
    assert world.disk.files[RECOVERY_POINT] == b"0\n3\n"


@pytest.mark.parametrize("text", [b"", b"0\n-1\n", b"1\n3\n", b"0\n3", b"0\n\0\n"])
def test_a_recovery_point_that_cannot_be_read_stops_the_node(text):
    world = grouped(1)
    with pytest.raises(RecoveryError, match="recovery-point: not a recovery point; remove it"):
        World({**world.disk.files, RECOVERY_POINT: text})


def test_damage_below_a_snapshot_stops_the_node():
    world = grouped(3)
    world.snapshot(3, [no_op()])
    begin = positions(world)[2]
    path = snapshot_path(SnapshotId(3, 1))
    with pytest.raises(RecoveryError, match=f"{path} says that all below 3 was durable"):
        World(without(world, begin + 70, begin + 71))


def test_what_was_recovered_is_written_anew_before_anything_is_appended():
    world = grouped(2)
    effects = world.restarted().raft.start(NOW)
    kinds = [type(effect) for effect in effects if getattr(effect, "path", "") == SEGMENT]
    assert kinds[:2] == [ReplaceFile, AppendFile]
    assert ReplaceFile(SEGMENT, world.disk.files[SEGMENT]) in effects


def test_nothing_is_written_anew_after_an_orderly_stop():
    world = stopped(grouped(2))
    effects = world.restarted().raft.start(NOW)
    assert ReplaceFile(SEGMENT, world.disk.files[SEGMENT]) not in effects


def test_bytes_behind_what_is_known_to_be_durable_are_only_cut_off():
    world = stopped(grouped(2))
    size = len(world.disk.files[SEGMENT])
    files = {**world.disk.files, SEGMENT: world.disk.files[SEGMENT] + b"junk"}
    effects = World(files).raft.start(NOW)
    assert TruncateFile(SEGMENT, size) in effects


FOLDER = "__cluster_metadata-0"
SNAPSHOT = f"{FOLDER}/00000000000000000003-0000000001"


@pytest.mark.parametrize(
    "path",
    [
        f"{SEGMENT}.part",
        f"{SNAPSHOT}.checkpoint.part",
        f"{SNAPSHOT}.checkpoint.deleted",
        f"{SNAPSHOT}-6823405234.checkpoint.part",
        f"{SEGMENT}.deleted",
        f"{FOLDER}/quorum-state.part",
        f"{FOLDER}/leader-epoch-checkpoint.part",
        f"{FOLDER}/partition.metadata.part",
        f"{FOLDER}/recovery-point.part",
        "meta.properties.part",
        "bootstrap.checkpoint.part",
    ],
)
def test_halves_of_our_own_files_are_removed_at_the_start(path):
    assert DeleteFile(path) in World({path: b"half"}).raft.start(NOW)


@pytest.mark.parametrize(
    "path", ["notes.part", f"{FOLDER}/download.part", f"{FOLDER}/old.deleted", f"{FOLDER}/x.log"]
)
def test_files_of_others_are_left_alone(path):
    world = World({path: b"theirs"}).start()
    assert world.disk.files[path] == b"theirs"
