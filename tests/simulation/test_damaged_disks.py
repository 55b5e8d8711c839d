"""Disks that lose what a failed sync gave up, and that damage what was synced."""

from __future__ import annotations

import re
from random import Random

import pytest

from emulator.raft import layout, recovery
from emulator.seam import AppendFile
from emulator.simulation.disk import DiskFaults, SimulatedDisk
from emulator.simulation.faults.disks import proven
from emulator.simulation.run import Run
from emulator.simulation.scenario import Scenario

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


def broken(simulate, scenario, seeds):
    """Names of the promises that a few seeds find broken."""
    return {simulate(seed, scenario).invariant for seed in seeds} - {""}


def test_what_a_failed_sync_gave_up_is_never_acknowledged(simulate):
    assert broken(simulate, FORGETS, range(6)) == set()


def test_no_process_begins_on_a_damaged_log_or_snapshot(simulate):
    assert broken(simulate, ROTS, range(4)) == set()


def test_both_strike_and_their_effects_are_counted(simulate):
    told: list[str] = []
    effects: dict[str, set[str]] = {}
    for seed in range(3):
        for scenario in (FORGETS, ROTS):
            report = simulate(seed, scenario)
            told += report.lines
            for one in report.strikes:
                effects.setdefault(one.fault, set()).update(one.effects)
    assert all("refused" in seen for seen in effects.values())
    assert effects.keys() == {"disk-forgets", "disk-rots"}
    for what in ("disk-rots: refused: .*log at", "disk-rots: refused: .*checkpoint at"):
        assert any(re.search(what, line) for line in told), what
    assert any("halts with 1: the disk failed" in line for line in told)


def test_damage_that_a_start_does_not_notice_is_found(simulate, monkeypatch):
    monkeypatch.setattr(recovery, "batch_crc_holds", lambda *_: True)
    assert "damage-is-refused" in broken(simulate, ROTS, range(2))


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
    places = proven(world.main.disk.files)
    segments = [path for path in places if layout.segment_base(path) is not None]
    assert segments
    assert places.keys() - set(segments), "a snapshot"
    rng = Random(5)
    for path, pieces in places.items():
        for begin, end in rng.sample(pieces, min(5, len(pieces))):
            at = rng.randrange(begin, end)
            world.main.disk.flip(path, at, 0)
            assert world.refusal(world.main).startswith(path)
            world.main.disk.flip(path, at, 0)
    assert world.refusal(world.main) == ""
    files = world.main.disk.files
    last = max(path for path in files if layout.segment_base(path) is not None)
    proven_end = max((end for _, end in places.get(last, ())), default=0)
    assert proven_end < len(files[last])
    files[layout.RECOVERY_POINT] = layout.render_recovery_point(world.ledger.end_offset)
    assert max(end for _, end in proven(files)[last]) == len(files[last])
