"""Recovery: a torn end is cut off and told, damage before the end stops the node."""

from __future__ import annotations

import struct

import pytest

from emulator.raft import RecoveryError
from emulator.raft.layout import SnapshotId, segment_path, snapshot_path
from emulator.raft.recovery import scan
from emulator.seam import ReplaceFile
from tests import data
from tests.unit.raft.world import NOW, SEGMENT, World, no_op, topic
from wire.batch import Batch, encode_batch


def grown() -> World:
    """Offsets 0 (LeaderChange) to 4, each in a batch of its own."""
    world = World().start()
    for name in "abcd":
        world.append(topic(name))
    return world


def positions(segment: bytes) -> list[int]:
    found = [0]
    for batch in scan(segment, 0).batches:
        found.append(found[-1] + len(batch.data))
    return found


def test_a_log_is_found_again_as_it_was():
    world = grown()
    again = world.restarted()
    assert list(again.raft.read(0, 9)) == list(world.raft.read(0, 9))
    assert again.raft.log_end_offset == 5
    assert again.raft.leader_epoch == 1, "until it starts"


def test_a_torn_end_is_cut_off_and_told():
    world = grown()
    begin = positions(world.disk.files[SEGMENT])[-2]
    torn = {**world.disk.files, SEGMENT: world.disk.files[SEGMENT][:-3]}
    again = World(torn)
    assert again.raft.log_end_offset == 4
    effects = again.raft.start(NOW)
    assert ReplaceFile(SEGMENT, world.disk.files[SEGMENT][:begin]) in effects
    again.disk.apply(effects)
    (line,) = [line for line in again.disk.log if line.level == "warning"]
    assert line.event == "unfinished end of the log truncated"
    assert line.fields["path"] == SEGMENT
    assert line.fields["position"] == begin
    assert line.fields["first_offset"] == 4
    assert "the record at offset 4 should begin here" in str(line.fields["why"])
    again.settle()
    assert [b.base_offset for b in again.raft.read(0, 9)] == [0, 1, 2, 3, 4]
    assert again.restarted().raft.log_end_offset == 5


@pytest.mark.parametrize("junk", [b"\0" * 4096, b"\xff" * 100, b"\x02" * 300])
def test_an_end_that_is_no_batch_is_cut_off(junk):
    world = grown()
    again = World({**world.disk.files, SEGMENT: world.disk.files[SEGMENT] + junk}).start()
    assert again.disk.files[SEGMENT].startswith(world.disk.files[SEGMENT])
    assert again.restarted().raft.log_end_offset == 6


@pytest.mark.parametrize("index", [0, 1, 2, 3])
@pytest.mark.parametrize("at", [3, 9, 16, 18, 40, 70])
def test_one_flipped_bit_before_the_end_stops_the_node(index, at):
    world = grown()
    segment = bytearray(world.disk.files[SEGMENT])
    begin, after = positions(bytes(segment))[index : index + 2]
    segment[begin + at] ^= 0x40
    with pytest.raises(RecoveryError) as caught:
        World({**world.disk.files, SEGMENT: bytes(segment)})
    assert caught.value.path == SEGMENT
    assert caught.value.position == begin
    assert f"{SEGMENT} at byte {begin}" in str(caught.value)
    assert f"the record at offset {index} should begin here" in caught.value.why
    assert f"a valid batch with offset {index + 1} follows at byte {after}" in caught.value.why


def test_damage_in_an_earlier_segment_stops_the_node_even_at_its_end():
    world = World(segment_bytes=200).start()
    for name in "abcd":
        world.append(topic(name))
    paths = sorted(path for path in world.disk.files if path.endswith(".log"))
    assert len(paths) > 2
    files = {**world.disk.files, paths[0]: world.disk.files[paths[0]][:-1]}
    with pytest.raises(RecoveryError, match="and later segments follow") as caught:
        World(files)
    assert caught.value.path == paths[0]


def test_a_missing_segment_stops_the_node():
    world = World(segment_bytes=200).start()
    for name in "abcd":
        world.append(topic(name))
    paths = sorted(path for path in world.disk.files if path.endswith(".log"))
    files = dict(world.disk.files)
    del files[paths[1]]
    with pytest.raises(RecoveryError, match=r"begins at \d+, the segment before ends at \d+"):
        World(files)
    del files[paths[0]]
    with pytest.raises(RecoveryError, match="no snapshot holds what is below"):
        World(files)


def test_a_log_that_ends_below_its_snapshot_stops_the_node():
    world = grown()
    world.snapshot(5, [no_op()])
    files = {**world.disk.files, SEGMENT: world.disk.files[SEGMENT][:91]}
    with pytest.raises(RecoveryError, match="the log ends at 1, records after it are missing"):
        World(files)


def test_a_damaged_snapshot_stops_the_node():
    world = grown()
    world.snapshot(5, [no_op()])
    path = snapshot_path(SnapshotId(5, 1))
    footer = positions(world.disk.files[path])[-2]
    with pytest.raises(RecoveryError, match="no snapshot footer, the file was never finished"):
        World({**world.disk.files, path: world.disk.files[path][:footer]})
    broken = world.disk.files[path][:100] + b"!" + world.disk.files[path][101:]
    with pytest.raises(RecoveryError, match="the checksum is wrong"):
        World({**world.disk.files, path: broken})


def test_an_empty_last_segment_is_used():
    """A crash between the creation of a segment and its first bytes."""
    world = grown()
    again = World({**world.disk.files, segment_path(5): b""}).start()
    assert again.disk.files[SEGMENT] == world.disk.files[SEGMENT]
    assert len(again.disk.files[segment_path(5)]) == 91
    assert again.restarted().raft.log_end_offset == 6


@pytest.mark.parametrize(
    ("batches", "why"),
    [
        ([(0, 1), (2, 1)], "base offset 2, expected 1"),
        ([(0, 2), (1, 1)], "leader epoch 1 after epoch 2"),
    ],
)
def test_offsets_without_gap_and_epochs_that_never_fall(batches, why):
    written = [
        encode_batch(Batch(base, epoch, 0, NOW, [(None, no_op())])) for base, epoch in batches
    ]
    found = scan(b"".join(written), 0)
    assert found.why == why
    assert found.size == len(written[0])


def test_a_count_that_does_not_fit_the_offsets_is_damage():
    sound = encode_batch(Batch(0, 1, 0, NOW, [(None, no_op())]))
    import google_crc32c

    checked = bytearray(sound[21:])
    struct.pack_into(">i", checked, 2, 6)
    head = sound[:17] + struct.pack(">I", google_crc32c.value(bytes(checked)))
    assert scan(head + bytes(checked), 0).why == "1 records for 7 offsets"


def test_a_log_written_by_kafka_is_recovered():
    """The first answer with records in the recording: the log of a 3.9.2 controller so far."""
    from base64 import b64decode

    from wire.frame import decode_response

    records = b""
    for line in data.lines("3.9.2-full/wire.jsonl"):
        if line["api"] == "Fetch" and line["chan"] == "b0>ctl" and line["response"]:
            _, response = decode_response(1, line["api_version"], b64decode(line["response"]))
            records = response.responses[0].partitions[0].records
            if records:
                break
    assert len(records) > 2000
    world = World({SEGMENT: records}).start()
    assert world.raft.epoch_start_offset == scan(records, 0).batches[-1].last_offset + 1
    assert world.raft.leader_epoch == 2
    assert world.disk.files[SEGMENT].startswith(records)
