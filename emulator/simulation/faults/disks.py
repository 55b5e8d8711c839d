"""Faults of the controllers' disks: slow, failing, full, forgetful, damaged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from emulator.raft import layout
from emulator.simulation.faults.strike import Strike
from emulator.simulation.models.disk import DiskFaults, Operation
from emulator.simulation.models.disk_ledger import sound_batches
from emulator.simulation.models.scheduler import MS
from emulator.simulation.violation import ensure

UNCHECKED: Final = range(12, 16)
"""Bytes of a batch in the log that its checksum does not cover and that may have any larger value:
the leader epoch."""


def disk_slow(strike: Strike) -> None:
    """Every sync takes long, for a while."""
    world, process = strike.world, strike.world.process
    usual = world.scenario.sync_us
    process.sync_us = strike.rng.choice(((20 * MS, 80 * MS), (200 * MS, 900 * MS)))
    strike.add_line(f"syncs take {process.sync_us[0] // MS} to {process.sync_us[1] // MS} ms")

    def mend() -> None:
        process.sync_us = usual
        world.process.sync_us = usual

    strike.after_ms(strike.rng.randint(300, 4_000), mend)


def disk_error(strike: Strike) -> None:
    """EIO of one operation: the process must end, and its next life find all acknowledged.

    Not if it is that of a snapshot, which is tried again.
    """
    world, process = strike.world, strike.world.process
    operation: Operation = strike.rng.choice(("append", "sync", "sync", "replace"))
    world.active.disk.fail_next(operation, after=strike.rng.randint(0, 3))
    strike.add_line(f"the disk will fail: {operation}")
    strike.when(lambda: not process.alive, lambda: None, within_ms=5_000)


def disk_forgets(strike: Strike) -> None:
    """A sync fails, and what it did not write is lost although later syncs succeed.

    The process must end. The next one finds the pages in the cache, or what the medium has in
    their place. The machine goes down when that one has made more durable, or before it begins.
    """
    world, disk = strike.world, strike.world.active.disk
    disk.faults = DiskFaults(strike.rng.getrandbits(32), dropped=0.5)
    disk.fail_next("sync", after=strike.rng.randint(0, 3))
    strike.add_line("a sync will fail, and what it had to write is given up")

    def go_down() -> None:
        disk.faults = None
        if world.active.disk is not disk:
            return
        if world.process.alive:
            world.process.crash()
        else:
            kept = disk.crash(strike.rng)
            strike.add_line(f"the machine goes down; its disk kept {kept}")
            if kept != "all":
                world.aftermath.happened("lost", "disk")

    def failed() -> None:
        if strike.rng.random() < 0.3:
            go_down()
            return
        known, more_ms = world.committed.end_offset, strike.rng.choice((0, 0, 100, 600))
        strike.when(
            lambda: world.committed.end_offset > known, lambda: strike.after_ms(more_ms, go_down)
        )

    strike.when(lambda: not disk.will_fail("sync"), failed, within_ms=5_000)


def disk_rots(strike: Strike) -> None:
    """Bits of the log and of snapshots flip after they were synced, one at a time.

    A process that begins on such a folder must refuse it, and name the file. Then the bit is
    mended, as from an undamaged copy, and the next life begins.
    """
    world = strike.world
    process = world.process
    ending = strike.rng.choice(("crash", "kill", "shutdown"))
    if ending == "shutdown" and process.alive:
        world.active.may_halt = "it was asked to stop"
        process.shutdown()
    elif ending == "kill":
        process.kill()
    else:
        process.crash()

    def rot() -> None:
        disk = world.active.disk
        sound = disk.files
        places = proven(sound)
        for path in strike.rng.sample(sorted(places), min(3, len(places))):
            begin, end = strike.rng.choice(places[path])
            at, bit = strike.rng.randrange(begin, end), strike.rng.randrange(8)
            disk.flip(path, at, bit)
            why = world.refusal(world.active)
            noticed = path in why
            ensure(noticed, "damage-is-refused", f"bit {bit} of byte {at} of {path}: {why or '-'}")
            world.aftermath.happened("refused", "disk")
            strike.add_line(f"refused: {why.partition(';')[0]}")
            disk.flip(path, at, bit)
        assert disk.files == sound

    strike.when(lambda: not world.process.alive, rot, within_ms=70_000)


def proven(files: Mapping[str, bytes]) -> dict[str, list[tuple[int, int]]]:
    """Where a process can distinguish damage from what was never synced: pieces of files, by path.

    All of a snapshot; of the log what is followed by a group written later, or by another segment,
    or ends below ``recovery-point``. A group is written when the one before it is durable.
    """
    places: dict[str, list[tuple[int, int]]] = {}
    segments = sorted(path for path in files if layout.segment_base(path) is not None)
    point = layout.parse_recovery_point(files.get(layout.RECOVERY_POINT, b""))
    mark = 0 if point is None else point.durable
    for path, data in sorted(files.items()):
        snapshot = layout.snapshot_id(path)
        if snapshot is not None and snapshot != layout.BOOTSTRAP_SNAPSHOT_ID:
            places[path] = [(0, len(data))]
        if path in segments:
            batches = list(sound_batches(data))
            last = batches[-1][0] if batches else None
            group = 0 if last is None else last.base_offset - max(0, last.base_sequence)
            at = 0
            known: list[tuple[int, int]] = []
            for batch, size in batches:
                if path != segments[-1] or batch.last_offset < max(group, mark):
                    known += [(at, at + UNCHECKED.start), (at + UNCHECKED.stop, at + size)]
                at += size
            if known:
                places[path] = known
    return places


def disk_full(strike: Strike) -> None:
    """ENOSPC: the process must end at a record, not at a snapshot.

    There is space again before or after its next life begins.
    """
    world, disk = strike.world, strike.world.active.disk
    disk.capacity = disk.used + strike.rng.choice((0, 50, 400, 3_000))
    strike.add_line("the disk fills")

    def mend() -> None:
        world.active.disk.capacity = None
        disk.capacity = None

    strike.after_ms(strike.rng.choice((300, 2_000, 4_000)), mend)


def disk_reorders(strike: Strike) -> None:
    """The machine goes down with any of the pages written that were not synced."""
    world = strike.world
    seed = strike.rng.getrandbits(32)
    world.active.disk.faults = DiskFaults(seed, reordered=1.0)
    world.process.crash()
    world.active.disk.faults = None
