"""One cluster for many virtual hours: ``kraft-bridge simulate --kind endurance --hours 24``.

Three controllers migrate four brokers, two of which go on in KRaft mode, so that the cluster is in
mixed mode for the rest; of kind ``endurance-kraft`` all four do, and the controllers go on writing
both stores for them. Clients go on asking for changes, some of which undo others; now and then a
leader's machine goes down, or a connection breaks. All checkers look on. For each hour the sizes of
disks, of ZooKeeper's tree and of the machines' memory are printed. Exit code 1 if an invariant is
broken, if a size has grown from the first half of the hours to the second, by more than what
clients decide has, or if a folder keeps records for longer than snapshots explain.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any, Final

from emulator.metadata.snapshot import from_records, to_records
from emulator.raft import layout
from emulator.simulation.facts import Facts
from emulator.simulation.models.host import Host
from emulator.simulation.run import Run
from emulator.simulation.scenarios.scenario import Scenario
from emulator.simulation.violation import Violated
from emulator.simulation.world import World
from wire.batch import batch_header

# How much memory the objects of a product's machine take, counted object by object.

_NOT_COUNTED: Final = (
    type,
    ModuleType,
    FunctionType,
    BuiltinFunctionType,
    CodeType,
    FrameType,
    GetSetDescriptorType,
    MemberDescriptorType,
)
"""What the program has once, whatever it does. What a closure holds is reached in another way."""
_MODEL: Final = "emulator.simulation"


def product_bytes(root: object, seen: set[int] | None = None) -> int:
    """Bytes of an object and of all that it holds, but for the program and for models.

    Args:
        root: where to begin.
        seen: ids of objects that were counted before and are not counted again; those that are
            counted now are added.

    >>> product_bytes([b""]) == sys.getsizeof([b""]) + sys.getsizeof(b"")
    True
    """
    known = set[int]() if seen is None else seen
    total, todo = 0, [root]
    while todo:
        one = todo.pop()
        if id(one) in known:
            continue
        known.add(id(one))
        if isinstance(one, _NOT_COUNTED) or type(one).__module__.startswith(_MODEL):
            continue
        total += sys.getsizeof(one)
        todo += _held(one)
    return total


def _held(one: Any) -> list[Any]:
    """What an object refers to; the structs of msgspec may be unknown to the garbage collector."""
    fields: tuple[str, ...] = getattr(type(one), "__struct_fields__", ())
    return [getattr(one, name) for name in fields] if fields else gc.get_referents(one)


HOUR_MS: Final = 3_600_000
CHANGE_EVERY_MS: Final = 5_000
OTHERS_EVERY_MS: Final = 30_000
FAULTS: Final = ("voter-crash", "voter-kill", "voter-shutdown", "cut", "session-expiry")
"""One fault for each hour, in turn, at random times."""
TO_KRAFT: Final = (0, 2)
"""Brokers that are restarted in KRaft mode when the copy is done."""
BROKERS: Final = 4
HOURS_MIN: Final = 12
"""A shorter run proves nothing of a duration."""
SLACK_MS: Final = 3_600_000
LOOKS: Final = 4
"""In an hour. The log is a saw-tooth: one look would meet it at a point that restarts move."""
GROWS: Final = 1.3
"""A size may be so many times as large in the second half."""
KEPT_INTERVALS: Final = 3
"""Two snapshots are kept, and the log from the older one on; its segment begins at the one before.
"""
LATE_MS: Final = 60_000
"""A snapshot may be so late: the machine is down, or ZooKeeper has not confirmed the leader yet."""
NOTIFICATIONS: Final = (
    "/config/changes",
    "/isr_change_notification",
    "/log_dir_event_notification",
    "/admin/delete_topics",
)
SHOWN: Final = ("topics", "partitions", "decided_bytes")
"""What clients decide."""
LEAST: Final = (
    "snapshots",
    "snapshot_bytes",
    "files",
    "raft_bytes",
    "metadata_bytes",
    "image_bytes",
    "beyond_bytes",
    "controller_bytes",
    "migration_bytes",
    "node_bytes",
    "broker_bytes",
)
"""Of which a change of leaders holds more for a while, and which are judged by what is there at
each look, as is what is kept for ever. A voter has one image for each batch that it does not know
to be committed: all behind its newest snapshot when it has just been started and there is no
leader, and what a leader appends that reaches no other voter. Snapshots are kept while ZooKeeper
has not confirmed the claim.
"""
ALOOF: Final = ("log_age_s", "snapshots", "files", "notifications", "sessions")
"""Those that do not depend on what clients decide; the others may grow as it does."""


@dataclass(frozen=True, slots=True)
class HourRow:
    """Sizes in one hour: the largest of all looks, and of all controllers or brokers.

    Of those in ``LEAST`` it is the smallest of all looks. ``decided_bytes``: what the committed
    records set, written out by code that the product does not share.

    ``hour`` and ``cpu_s`` are the virtual time since the copy, and the CPU time of this process in
    the hour before, ``records`` their number at its end. ``log_age_s``: how old the oldest record
    is in the log of a folder. Bytes of memory are those of the objects of the product:
    ``image_bytes`` what the stable image takes when it is read back from its own snapshot;
    ``beyond_bytes`` what the metadata of a controller takes besides, at the same instant.
    """

    hour: int
    cpu_s: float
    records: int
    topics: int
    partitions: int
    decided_bytes: int
    log_bytes: int
    log_age_s: int
    snapshots: int
    snapshot_bytes: int
    files: int
    znodes: int
    notifications: int
    sessions: int
    raft_bytes: int
    metadata_bytes: int
    image_bytes: int
    beyond_bytes: int
    controller_bytes: int
    migration_bytes: int
    node_bytes: int
    broker_bytes: int


def endurance(hours: int) -> Scenario:
    """The cluster."""
    return Scenario(
        faults=tuple(f"{FAULTS[at % len(FAULTS)]}/{at}" for at in range(hours)),
        controllers=3,
        brokers=BROKERS,
        # One more: the last look comes before the end.
        changes=hours * HOUR_MS // CHANGE_EVERY_MS + 1,
        change_every_ms=CHANGE_EVERY_MS,
        faults_within_ms=hours * HOUR_MS,
        snapshot_interval_ms=HOUR_MS,
        moves_every_ms=OTHERS_EVERY_MS,
        client_changes_every_ms=OTHERS_EVERY_MS,
        acl_changes_every_ms=OTHERS_EVERY_MS,
        token_changes_every_ms=OTHERS_EVERY_MS,
    )


class Endurance:
    """Runs the cluster and keeps a row for each hour.

    Args:
        seed: of all random choices.
        hours: of virtual time from the end of the copy on.
        report: takes each row.
        to_kraft: ids of the brokers that go on in KRaft mode.
    """

    def __init__(
        self,
        seed: int,
        hours: int,
        report: Callable[[HourRow], None],
        to_kraft: Sequence[int] = TO_KRAFT,
    ) -> None:
        self.rows: list[HourRow] = []
        self._run = Run(seed, endurance(hours))
        self._hours = hours
        self._report = report
        self._to_kraft = to_kraft
        self._looked: list[HourRow] = []
        """In this hour."""
        self._cpu_s = time.process_time()

    def run(self) -> None:
        """Run from the first connection until everything is at rest.

        Raises:
            Violated: an invariant does not hold.
        """
        self._run.world.scheduler.after(0, self._begin)
        self._run.run(self._hours * HOUR_MS + SLACK_MS)

    def _begin(self) -> None:
        """Wait for the end of the copy; then roll some brokers, and look now and then."""
        world = self._run.world
        if not world.traffic.begun:
            world.after_ms(100, self._begin)
            return
        for broker_id in self._to_kraft:
            world.lives.turn(broker_id)
            world.lives.kill(world.brokers[broker_id])
        for look in range(1, LOOKS * self._hours + 1):
            world.after_ms(look * HOUR_MS // LOOKS, lambda look=look: self._look(look))  # type: ignore[misc]  # a default binds the value of this turn

    def _look(self, look: int) -> None:
        cpu_s = time.process_time()
        self._looked.append(_row(self._run.world, look // LOOKS, cpu_s - self._cpu_s))
        if look % LOOKS:
            return
        self.rows.append(_of_hour(self._looked))
        self._looked.clear()
        self._report(self.rows[-1])
        # Nothing to come depends on the lines so far, and nothing here reads them.
        self._run.world.scheduler.lines.clear()
        gc.collect()
        gc.freeze()
        self._cpu_s = time.process_time()


def _of_hour(looks: Sequence[HourRow]) -> HourRow:
    values = {one.name: [getattr(look, one.name) for look in looks] for one in fields(HourRow)}
    return HourRow(**{name: (min if name in LEAST else max)(of) for name, of in values.items()})


def grown(rows: Sequence[HourRow]) -> list[str]:
    """A sentence for each size that is larger than it may be.

    That is in the second half of the hours than it was in the first, without the first hour, in
    which everything begins, and where it follows from what clients decide, than that explains. The
    age of what a log keeps has a bound of its own in every hour.
    """
    found = []
    age_s, age_s_max = max(row.log_age_s for row in rows), _log_age_s_max()
    if age_s > age_s_max:
        found.append(f"log_age_s: {age_s}, which is more than snapshots explain ({age_s_max})")
    later = rows[1:]
    if len(later) < 4:
        return found
    half = len(later) // 2

    def halves(name: str) -> tuple[int, int]:
        sizes = [getattr(row, name) for row in later]
        return max(sizes[:half]), max(sizes[half:])

    decided_before, decided_after = halves("decided_bytes")
    decided = max(1.0, decided_after / max(1, decided_before))
    for one in fields(HourRow)[3:]:
        before, after = halves(one.name)
        may = max(GROWS * before, before + 8) * (1.0 if one.name in ALOOF else decided)
        if one.name not in SHOWN and after > may:
            found.append(f"{one.name}: {before} at most in the first half, then {after}")
    return found


def _log_age_s_max() -> int:
    return (KEPT_INTERVALS * HOUR_MS + LATE_MS) // 1_000


def _row(world: World, hour: int, cpu_s: float) -> HourRow:
    hosts = list(world.controllers.values())
    facts, nodes = world.facts, world.tree.nodes
    parts = [_parts(host) for host in hosts]
    images = [_image_bytes(host) for host in hosts]
    return HourRow(
        hour=hour,
        cpu_s=round(cpu_s, 1),
        records=world.committed.end_offset,
        topics=len(facts.topics),
        partitions=sum(len(one.partitions) for one in facts.topics.values()),
        decided_bytes=_decided_bytes(facts),
        log_bytes=max(_log_bytes(host) for host in hosts),
        log_age_s=max(_log_age_ms(host, world.scheduler.now_ms) for host in hosts) // 1_000,
        snapshots=max(len(_snapshots(host)) for host in hosts),
        snapshot_bytes=max(sum(_snapshots(host)) for host in hosts),
        files=max(len(host.disk.files) for host in hosts),
        znodes=len(nodes),
        notifications=sum(len(nodes[path].children) for path in NOTIFICATIONS),
        sessions=len(list(world.zookeeper.model.session_ids)),
        raft_bytes=max(one[0] for one in parts),
        metadata_bytes=max(one[1] for one in parts),
        image_bytes=max(images),
        beyond_bytes=max(one[1] - image for one, image in zip(parts, images, strict=True)),
        controller_bytes=max(one[2] for one in parts),
        migration_bytes=max(one[3] for one in parts),
        node_bytes=max(map(sum, parts)),
        broker_bytes=max(product_bytes(one.machine) for one in world.brokers.values()),
    )


def _decided_bytes(facts: Facts) -> int:
    """What clients decide, and what follows for partitions."""
    kinds = (facts.topics, facts.configs, facts.client_quotas, facts.scram, facts.acls)
    return len(repr((*kinds, facts.tokens)))


def _parts(host: Host) -> tuple[int, ...]:
    """Bytes of the log, the metadata, the controller, the migration, and of all else of a node."""
    if host.process is None or not host.process.alive:
        return (0, 0, 0, 0, 0)
    node, seen = host.process.node, set[int]()
    machines = (node.raft, node.history, node.controller, node.migration, node)
    return tuple(product_bytes(one, seen) for one in machines)


def _image_bytes(host: Host) -> int:
    """Bytes of the stable image of a node, had it been read from a snapshot just now."""
    if host.process is None or not host.process.alive:
        return 0
    image = host.process.node.history.stable
    records = (record for record, _version in to_records(image))
    return product_bytes(from_records(records, image.offset, image.epoch))


def _segments(host: Host) -> list[bytes]:
    """The log of a folder, oldest first."""
    files = host.disk.files.items()
    return [data for path, data in sorted(files) if layout.segment_base(path) is not None]


def _log_bytes(host: Host) -> int:
    return sum(map(len, _segments(host)))


def _log_age_ms(host: Host, now_ms: int) -> int:
    """How long ago the oldest record in the log of a folder was appended; 0 if there is none."""
    oldest = next(filter(None, _segments(host)), None)
    return 0 if oldest is None else now_ms - batch_header(oldest).base_timestamp


def _snapshots(host: Host) -> list[int]:
    """Sizes of the snapshots of a folder."""
    files = host.disk.files.items()
    return [len(data) for path, data in files if layout.snapshot_id(path) is not None]


def run_hours(hours: int, seed: int, record: Path | None, *, kraft: bool) -> int:
    """Run, print, and judge the sizes; returns the exit code.

    Args:
        hours: virtual ones after the copy.
        seed: of all random choices.
        record: a file for a JSON record of what was run and what came of it.
        kraft: every broker goes on in KRaft mode.
    """

    def show(*cells: object) -> None:
        sys.stdout.write("| " + " | ".join(map(str, cells)) + " |\n")
        sys.stdout.flush()

    show(*(one.name for one in fields(HourRow)))
    show(*("---:" for _ in fields(HourRow)))
    to_kraft = range(BROKERS) if kraft else TO_KRAFT
    found = Endurance(seed, hours, lambda row: show(*astuple(row)), to_kraft)
    try:
        found.run()
        wrong = grown(found.rows)
    except Violated as violated:
        wrong = [str(violated)]
    sys.stdout.write("\n".join(wrong or ["no size has grown"]) + "\n")
    if record is not None:
        proof = {
            "test": f"{hours} simulated hours of seed {seed}{' --kraft' * kraft}",
            "ids": ["F06" if kraft else "F03"],
            "kind": "simulation",
            "outcome": "failed" if wrong else "passed",
        }
        content = {"complete": hours >= HOURS_MIN, "tests": [proof], "wrong": wrong}
        record.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0
