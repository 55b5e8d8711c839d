"""Disks that lose what a failed sync gave up, and that damage what was synced."""

from __future__ import annotations

from random import Random

import pytest

from emulator.raft import layout, recovery
from emulator.seam import AppendFile
from emulator.simulation.committed import CommittedLog
from emulator.simulation.faults.disks import proven
from emulator.simulation.models.disk import DiskFaults, SimulatedDisk
from emulator.simulation.models.disk_ledger import DiskLedger
from emulator.simulation.run import Run
from emulator.simulation.scenarios.scenario import Scenario
from emulator.simulation.violation import Violated
from tests.kit.shares import rest_slow
from wire import records as r
from wire.batch import Batch, encode_batch
from wire.record_serde import encode_record

FORGETS = Scenario(
    faults=("disk-forgets@DUAL_WRITE+20", "disk-forgets"),
    changes=40,
    change_every_ms=5,
    moves_every_ms=5,
    partitions_max=40,
    sync_us=(20_000, 80_000),
)
"""Groups of several sectors: in a small one the next group writes what was lost once more."""
ROTS = Scenario(
    faults=("disk-rots@DUAL_WRITE+20", "disk-rots", "disk-rots/2", "disk-rots/3"),
    changes=30,
    change_every_ms=20,
    snapshot_interval_ms=300,
)


@pytest.mark.parametrize("seed", rest_slow((2, 5, 0, 1), 1))
def test_what_a_failed_sync_gave_up_is_never_acknowledged(simulate, seed):
    report = simulate(seed, FORGETS)
    assert not report.failure, str(report)
    assert any("refused" in one.effects for one in report.strikes)
    assert any("halts with 1: the disk failed" in line for line in report.lines)


@pytest.mark.parametrize("seed", rest_slow(range(4), 1))
def test_no_process_begins_on_a_damaged_log_or_snapshot(simulate, seed):
    report = simulate(seed, ROTS)
    assert not report.failure, str(report)
    assert any("refused" in one.effects for one in report.strikes)
    assert any("disk-rots: refused: " in line for line in report.lines)


def test_damage_that_a_start_does_not_notice_is_found(simulate, monkeypatch):
    monkeypatch.setattr(recovery, "batch_crc_holds", lambda *_: True)
    found = {simulate(seed, ROTS).invariant for seed in range(8)}
    assert "damage-is-refused" in found


def written(*sizes: int) -> SimulatedDisk:
    disk = SimulatedDisk({})
    for number, size in enumerate(sizes):
        disk.append(AppendFile("a", bytes([number + 1]) * size))
        disk.synced("a", disk.size("a"))
    return disk


def test_a_cache_may_drop_what_a_failed_sync_gave_up_and_nothing_else():
    kept = set()
    for seed in range(40):
        disk = written(700)
        before = disk.files["a"]
        disk.faults = DiskFaults(seed, dropped=1.0)
        disk.append(AppendFile("a", b"x" * 2_000))
        disk.fail_next("sync")
        assert disk.will_fail("sync")
        with pytest.raises(OSError, match="error"):
            disk.synced("a", disk.size("a"))
        assert not disk.will_fail("sync")
        read = disk.files["a"]
        assert len(read) == 2_700
        assert read[:700] == before
        assert set(read[700:]) <= {0, ord("x")}
        kept.add(read.count(b"x"))
        disk.synced("a", disk.size("a"))
        disk.crash(Random(1))
        left = disk.files["a"]
        assert all(byte in {0, before} for byte, before in zip(left, read, strict=False))
    assert len(kept) > 3


def test_a_bit_that_flips_twice_is_as_it_was():
    disk = written(100, 100)
    before = disk.files["a"]
    disk.flip("a", 150, 3)
    disk.crash(Random(1))
    assert [at for at in range(200) if disk.files["a"][at] != before[at]] == [150]
    disk.flip("a", 150, 3)
    assert disk.files["a"] == before


def test_every_byte_that_is_said_to_be_proven_is_noticed():
    """And the last group of a folder that was not left in order is not said to be."""
    run = Run(3, Scenario(changes=6, topics=1, snapshot_interval_ms=300))
    run.run()
    world = run.world
    world.process.kill()
    places = proven(world.active.disk.files)
    segments = [path for path in places if layout.segment_base(path) is not None]
    assert segments
    assert places.keys() - set(segments), "a snapshot"
    rng = Random(5)
    for path, pieces in places.items():
        for begin, end in rng.sample(pieces, min(5, len(pieces))):
            at = rng.randrange(begin, end)
            world.active.disk.flip(path, at, 0)
            assert world.refusal(world.active).startswith(path)
            world.active.disk.flip(path, at, 0)
    assert world.refusal(world.active) == ""
    files = world.active.disk.files
    last = max(path for path in files if layout.segment_base(path) is not None)
    proven_end = max((end for _, end in places.get(last, ())), default=0)
    assert proven_end < len(files[last])
    files[layout.RECOVERY_POINT] = layout.render_recovery_point(world.committed.end_offset)
    assert max(end for _, end in proven(files)[last]) == len(files[last])


def named(number: int) -> bytes:
    """A record like no other."""
    return encode_record(r.FeatureLevelRecord(name=f"feature{number}", feature_level=1), 0)


def test_a_batch_whose_offset_the_disk_has_lost_is_not_held_against_the_log():
    """A sector that ends behind the offset of a batch: its checksum does not cover the offset."""
    path = layout.segment_path(0)
    first, second, third = (
        encode_batch(Batch(base, 1, 0, 0, [(None, named(base))])) for base in range(3)
    )
    ledger = DiskLedger(CommittedLog())
    ledger.begins({})
    ledger.appended(path, first + second)
    ledger.synced(path, len(first + second))
    ledger.begins({path: first + second + bytes(8) + third[8:]})
    with pytest.raises(Violated, match="hold the log up to 1, 2 records were committed"):
        ledger.begins({path: first + bytes(8) + second[8:]})
    with pytest.raises(Violated, match="offset 1 holds another record"):
        ledger.begins({path: first + second[:8] + third[8:]})
