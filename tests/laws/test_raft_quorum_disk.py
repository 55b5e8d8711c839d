"""Laws of the files of one of several voters: crashes between any two changes, and damage.

The disk loses what was not synced, and may bring back what was deleted since its folder was synced
last, in the order of a journal: where one file stays deleted, all deleted before it do.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from emulator.raft import Raft, RecoveryError
from emulator.raft.layout import RECOVERY_POINT, SnapshotId, parse_recovery_point, segment_base
from emulator.raft.log import LogBatch
from emulator.raft.recovery import scan
from emulator.seam import (
    AppendFile,
    DeleteFile,
    Effect,
    ReplaceFile,
    SyncFile,
    TruncateFile,
    WriteFile,
)
from tests.kit.laws import examples
from tests.unit.raft.trio import Node, Trio
from tests.unit.raft.world import topic

Files = dict[str, bytes]
SAME_MAX = 2
"""How many steps of the same kinds of effects, in the same order, one story looks at."""


FILE_EFFECTS = AppendFile | ReplaceFile | WriteFile | TruncateFile | DeleteFile | SyncFile


@dataclass
class Cut:
    """A folder while effects are performed; ``folders`` says what a crash now may leave."""

    files: Files
    durable: dict[str, int] = field(default_factory=dict)
    """Bytes of a file that a sync covers; all of it, if it is not listed."""
    gone: list[tuple[str, bytes]] = field(default_factory=list)
    """What was deleted since the folder was synced, oldest first."""
    written: list[tuple[str, bytes]] = field(default_factory=list)
    """Large files on their way: each may be whole at any time."""

    def perform(self, effect: Effect) -> bool:
        """Whether it changes the folder."""
        match effect:
            case AppendFile(path, data):
                self.durable.setdefault(path, len(self.files.get(path, b"")))
                self.files[path] = self.files.get(path, b"") + data
            case ReplaceFile(path, data):
                self.files[path] = data
                self.durable.pop(path, None)
                self.gone.clear()
            case WriteFile(path, data):
                self.written.append((path, data))
            case TruncateFile(path, size):
                self.files[path] = self.files[path][:size]
                self.durable.pop(path, None)
            case DeleteFile(path) if path in self.files:
                self.gone.append((path, self.files.pop(path)))
            case _:
                return False
        return True

    def folders(self) -> Iterator[Files]:
        for part in (0.0, 0.5, 1.0):
            files = {}
            for path, data in self.files.items():
                known = self.durable.get(path, len(data))
                files[path] = data[: known + int(part * (len(data) - known))]
            for back in range(len(self.gone) + 1):
                # Those deleted last come back first; a name may be in use again.
                left = {**dict(self.gone[len(self.gone) - back :]), **files}
                yield left
                if self.written:
                    yield {**dict(self.written), **left}


def shape(effects: list[Effect]) -> tuple[str, ...]:
    """Kinds of effects and of files, without offsets."""
    found = []
    for each in effects:
        if isinstance(each, FILE_EFFECTS):
            name = "".join(letter for letter in each.path if not letter.isdigit())
            found.append(f"{type(each).__name__} {name}")
    return tuple(found)


@dataclass(frozen=True)
class Held:
    """What a voter had before a step, on its disk."""

    batches: dict[int, LogBatch]
    committed_end: int
    epoch: int


def held(raft: Raft) -> Held:
    log = raft.replica.log
    batches = log.batches(log.start_offset, log.durable_end - 1)
    found = {one.base_offset: one for one in batches if one.last_offset < log.durable_end}
    return Held(found, min(raft.committed_end, log.durable_end), raft.leader_epoch)


class Crashing:
    """A quorum in trouble. Before effects are performed, every crash between them is tried."""

    def __init__(self, seed: int, ids: tuple[int, ...] = (1, 2, 3)) -> None:
        self.random = Random(seed)
        self.seen: Counter[tuple[str, ...]] = Counter()
        changes = {"segment_bytes": self.random.choice([300, 1 << 20]), "snapshots_retained": 1}
        self.trio = Trio(seed, ids, **changes)
        self.trio.delay_ms = self.random.choice([2, 50])
        self.trio.sync_ms = self.random.choice([1, 100])
        self.before: dict[tuple[int, int], Held] = {}
        self.trio.inspect = self.inspect
        self.trio.start()

    def inspect(self, node: Node, effects: list[Effect]) -> None:
        life, raft = (node.id, node.life), node.raft
        assert raft is not None
        files = {path: node.disk.crashed(0).get(path, b"") for path in node.disk.files}
        known = self.before.get(life)
        if known is None:
            known = held(self.reading(node, files))
        kinds = shape(effects)
        self.seen[kinds] += 1
        if kinds and self.seen[kinds] <= SAME_MAX:
            self.crash_between(node, files, effects, self.kept(known, raft), again=True)
        self.before[life] = held(raft)

    def reading(self, node: Node, files: Files) -> Raft:
        return Raft(self.trio.config(node.id), files, Random(0), self.trio.now)

    @staticmethod
    def kept(known: Held, raft: Raft) -> Held:
        """What of it the step keeps too, by what the machine shows; and what is committed."""
        log = raft.replica.log
        now = {one.base_offset: one for one in log.batches(log.start_offset, log.end_offset - 1)}
        installing = raft.replica.installing
        if installing is not None:
            # What is here behind it is of an older epoch. A later record is committed below it, so
            # no leader has that, or can get it: nobody counts on it.
            end_offset, epoch = installing.end_offset, installing.epoch
            now = {at: one for at, one in now.items() if at < end_offset or one.epoch >= epoch}
        same = {
            at: one
            for at, one in known.batches.items()
            if now.get(at) == one or one.last_offset < known.committed_end
        }
        return Held(same, known.committed_end, known.epoch)

    def crash_between(
        self, node: Node, files: Files, effects: list[Effect], kept: Held, *, again: bool
    ) -> None:
        cut = Cut(dict(files), written=[(one.path, one.data) for one in node.disk.writing])
        for path in (each.path for each in effects if isinstance(each, AppendFile)):
            cut.durable.setdefault(path, len(files.get(path, b"")))
        for effect in effects:
            if not cut.perform(effect):
                continue
            for left in cut.folders():
                raft = self.reading(node, left)
                self.check(raft, kept)
                if again:
                    begin = raft.start(self.trio.now)
                    whole = Held(kept.batches, kept.committed_end, raft.leader_epoch)
                    self.crash_between(node, left, begin, kept, again=False)
                    assert raft.leader_epoch >= whole.epoch

    @staticmethod
    def check(raft: Raft, kept: Held) -> None:
        log, latest = raft.replica.log, raft.latest_snapshot
        covered = 0 if latest is None else latest.end_offset
        assert raft.log_end_offset >= kept.committed_end
        assert raft.leader_epoch >= kept.epoch
        found = {one.base_offset: one for one in log.batches(log.start_offset, log.end_offset - 1)}
        for at, one in kept.batches.items():
            assert found.get(at) == one or one.last_offset < min(covered, log.start_offset)

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            for leader in self.trio.leaders:
                for _ in range(self.random.randrange(4)):
                    value = topic(f"{leader.id}-{self.random.getrandbits(60)}")
                    self.trio.append(leader, value)
            self.random.choice([self.crash, self.restart, self.cut, self.heal, self.snapshot])()
            for _ in range(4):
                self.trio.run(self.random.choice([20, 300, 2_000]))

    def crash(self) -> None:
        up = [node.id for node in self.trio.up()]
        if len(up) > 1:
            self.trio.crash(self.random.choice(up), self.random.choice([0, 40, 10_000]))

    def restart(self) -> None:
        down = [each for each, node in self.trio.nodes.items() if node.raft is None]
        if down:
            self.trio.start(self.random.choice(down))

    def cut(self) -> None:
        """Most often a leader, whose records the others do not get then."""
        leaders = [node.id for node in self.trio.leaders]
        self.trio.isolate(self.random.choice(leaders or list(self.trio.nodes)))

    def heal(self) -> None:
        self.trio.heal()

    def snapshot(self) -> None:
        node = self.random.choice(list(self.trio.nodes.values()))
        raft = node.raft
        if raft is None or raft.snapshotting:
            return
        latest = raft.latest_snapshot
        least = 0 if latest is None else latest.end_offset
        ends = [
            one.last_offset + 1 for one in node.batches if one.last_offset < raft.high_watermark
        ]
        if ends and max(ends) > least:
            epoch = raft.epoch_at(max(ends) - 1)
            assert epoch is not None
            self.trio.perform(node, raft.snapshot(max(ends), epoch, [topic("all")], 0))


@examples(40)
@given(st.integers(0, 2**40))
def test_a_crash_between_any_two_changes_of_files_leaves_what_was_kept(seed):
    Crashing(seed).run(12)


def test_these_stories_cut_delete_and_replace():
    """What the law has to look at is in the stories of the first seeds."""
    log = "__cluster_metadata-/"
    point, segment = f"ReplaceFile {log}recovery-point", f"{log}.log"
    wanted = [
        {f"TruncateFile {segment}", f"DeleteFile {segment}", point},
        {f"WriteFile {log}-.checkpoint", point},
        {f"DeleteFile {segment}", f"ReplaceFile {segment}", point},
        {f"DeleteFile {segment}", f"DeleteFile {log}-.checkpoint"},
        {f"WriteFile {log}-.checkpoint"},
        {f"AppendFile {segment}", f"SyncFile {segment}", point},
    ]
    for seed in range(40):
        story = Crashing(seed)
        story.run(12)
        wanted = [each for each in wanted if not any(each <= set(kinds) for kinds in story.seen)]
        if not wanted:
            return
    raise AssertionError(f"no step had {wanted}")


# ---------------------------------------------------------------- damage


@functools.cache
def quorum(seed: int, segment_bytes: int) -> Trio:
    """Three voters with a snapshot in the middle of the log, some seconds later."""
    trio = Trio(seed, segment_bytes=segment_bytes).start()
    trio.run(8_000)
    for number in range(12):
        trio.append(trio.leader, topic(f"a{number}"))
        trio.run(200)
    for node in trio.nodes.values():
        raft = node.raft
        end_offset = raft.high_watermark // 2
        epoch = raft.epoch_at(end_offset - 1)
        assert epoch is not None
        trio.perform(node, raft.snapshot(end_offset, epoch, [topic("all")], 0))
    for number in range(12):
        trio.append(trio.leader, topic(f"b{number}"))
        trio.run(600)
    return trio


@given(st.integers(0, 3), st.sampled_from([400, 1 << 20]), st.data())
def test_damage_of_what_was_durable_a_few_seconds_ago_is_refused(seed, segment_bytes, draw):
    trio = quorum(seed, segment_bytes)
    node = trio.nodes[draw.draw(st.sampled_from(sorted(trio.nodes)))]
    files = node.disk.crashed(0)
    point = parse_recovery_point(files[RECOVERY_POINT])
    assert node.raft.log_end_offset - point.durable <= 9
    path = draw.draw(
        st.sampled_from(sorted(each for each in files if segment_base(each) is not None))
    )
    batches = scan(files[path], segment_base(path) or 0).batches
    assume(batches)
    index = draw.draw(st.integers(0, len(batches) - 1))
    at = sum(len(one.data) for one in batches[:index])
    # Not the epoch, which Kafka's checksum does not cover, nor what tells where the group begins.
    byte = draw.draw(st.sampled_from([0, 8, 16, 17, 23, 61]))
    data = bytearray(files[path])
    data[at + byte] ^= draw.draw(st.integers(1, 255))
    spoilt = {**files, path: bytes(data)}
    snapshot = node.raft.latest_snapshot
    proven = max(point.durable, snapshot.end_offset)
    config: Any = trio.config(node.id)
    last = path == max(each for each in files if segment_base(each) is not None)
    if batches[index].base_offset < proven or not last:
        with pytest.raises(RecoveryError, match="nothing was changed"):
            Raft(config, spoilt, Random(1), trio.now)
    else:
        again = Raft(config, spoilt, Random(1), trio.now)
        assert again.log_end_offset == batches[index].base_offset >= proven
    del spoilt[RECOVERY_POINT]
    if batches[index].base_offset < snapshot.end_offset:
        with pytest.raises(RecoveryError, match="nothing was changed"):
            Raft(config, spoilt, Random(1), trio.now)


def test_a_marked_replacement_is_taken_only_with_its_snapshot():
    trio = quorum(1, 1 << 20)
    node = trio.nodes[1]
    files = node.disk.crashed(0)
    end = node.raft.log_end_offset
    marked = f"1\n{end}\n{end}\n{end + 50} 9\n".encode()
    again = Raft(trio.config(1), {**files, RECOVERY_POINT: marked}, Random(1), trio.now)
    assert again.log_end_offset == end
    assert again.latest_snapshot != SnapshotId(end + 50, 9)
