"""Laws of a quorum under loss, delay, repetition, crashes, pauses, slow disks and power failures.

And under one lost disk at a time, or an old copy of one.
"""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.raft import Raft
from emulator.raft.layout import QUORUM_STATE, VOTER_STATE
from emulator.raft.log import LogBatch
from emulator.raft.quorum_state import VoterState, remembered
from emulator.seam import DeleteFile, Effect, TruncateFile
from tests.unit.raft.trio import Node, Trio
from tests.unit.raft.world import Disk, topic

ROUNDS = 40
SLOW_MS = 5_000
"""Longer than a leader is waited for."""
CALM_MS = 10_000
"""So soon after the last fault somebody leads, and has committed a record of its epoch."""


class Judge:
    """Looks at all voters after each step; it knows nothing but what they show."""

    def __init__(self, trio: Trio) -> None:
        self.trio = trio
        self.led: dict[int, int] = {}
        self.committed: dict[int, LogBatch] = {}
        """Batches that some voter said to be committed, by base offset."""
        self.acknowledged: dict[int, bytes] = {}
        """What a leader would have answered its caller: offset -> record."""
        self.waiting: dict[int, dict[int, bytes]] = {}
        """The same, not committed yet, by the epoch in which it was appended."""
        self._checked: dict[tuple[int, int], int] = {}

    def look(self) -> None:
        for node in self.trio.up():
            raft = node.raft
            if raft.is_leader:
                assert self.led.setdefault(raft.leader_epoch, node.id) == node.id
                waiting = self.waiting.get(raft.leader_epoch, {})
                for offset in [each for each in waiting if each < raft.high_watermark]:
                    self.acknowledged[offset] = waiting.pop(offset)
            self._committed(node)

    def _committed(self, node: Node) -> None:
        raft = node.raft
        at = self._checked.get((node.id, node.life), 0)
        for batch in raft.replica.log.batches(at, raft.high_watermark - 1):
            assert batch.last_offset < raft.high_watermark, "a batch is committed whole"
            assert self.committed.setdefault(batch.base_offset, batch) == batch
        self._checked[node.id, node.life] = max(at, raft.high_watermark)

    def agree(self) -> None:
        """All voters are up and have had time: their logs are one, and nothing is missing."""
        ends = {node.raft.log_end_offset for node in self.trio.up() if node.raft}
        assert len(ends) == 1, ends
        logs = [{one.base_offset: one for one in node.batches} for node in self.trio.up()]
        assert len(logs) == len(self.trio.nodes)
        for log in logs:
            start = min(log, default=max(ends))
            for offset, batch in self.committed.items():
                assert offset < start or log[offset] == batch
            for offset, value in self.acknowledged.items():
                assert offset < start or value in log[offset].data
        matching(logs)


def matching(logs: list[dict[int, LogBatch]]) -> None:
    """Log matching: from the same offset and epoch on, everything before is the same."""
    for one in logs:
        for other in logs:
            same = [
                at for at, batch in one.items() if at in other and other[at].epoch == batch.epoch
            ]
            for at in [each for each in one if each in other and each <= max(same, default=-1)]:
                assert one[at] == other[at]


class Chaos:
    """Faults and appends, one after the other, by one source of chance."""

    def __init__(self, seed: int, ids: tuple[int, ...] = (1, 2, 3)) -> None:
        self.random = Random(seed)
        self.emptied = self.restored = self.cuts = 0
        self.copies: dict[int, dict[str, bytes]] = {}
        """An old copy of the disk of a voter."""
        self.lacking: dict[int, set[int]] = {}
        """Of a restored voter the committed batches that its copy may not have."""
        self.known: dict[tuple[int, int], int] = {}
        """What each life of a voter knew to be committed before its last step."""
        changes = {"segment_bytes": self.random.choice([300, 1 << 20]), "snapshots_retained": 1}
        self.trio = Trio(seed, ids, **changes)
        self.trio.inspect = self.cut_short
        self.trio.start()
        self.judge = Judge(self.trio)
        self.trio.loss = self.random.choice([0.0, 0.05, 0.2])
        self.trio.twice = self.random.choice([0.0, 0.2])
        self.trio.delay_ms = self.random.choice([2, 50, 400])
        self.trio.sync_ms = self.random.choice([1, 100])

    def cut_short(self, node: Node, effects: list[Effect]) -> None:
        """A crash between two changes of files: the next start goes on from either side."""
        known = self.known.get((node.id, node.life), 0)
        self.known[node.id, node.life] = node.raft.committed_end
        if not any(isinstance(each, (TruncateFile, DeleteFile)) for each in effects):
            return
        self.cuts += 1
        files = dict(node.disk.files)
        for count in range(1, len(effects)):
            disk = Disk(files)
            disk.apply(effects[:count])
            raft = Raft(self.trio.config(node.id), disk.files, Random(0), self.trio.now)
            assert raft.log_end_offset >= known

    def run(self, rounds: int = ROUNDS) -> None:
        for _ in range(rounds):
            self.step()
            for _ in range(10):
                self.trio.run(self.random.choice([5, 20, 100, 300]))
                self.judge.look()
            matching([{one.base_offset: one for one in node.batches} for node in self.trio.up()])
        self.calm()
        self.judge.agree()

    def calm(self) -> None:
        """No more faults; a leader is elected and what it appends reaches everyone."""
        trio = self.trio
        trio.heal()
        trio.loss = trio.twice = 0.0
        trio.delay_ms = trio.sync_ms = 2
        self.pass_ms(SLOW_MS)
        for each in [node.id for node in trio.nodes.values() if node.raft is None]:
            trio.start(each)
        self.pass_ms(CALM_MS)
        assert trio.leaders, "somebody leads"
        assert trio.leader.raft.high_watermark > 0, "with a majority"
        self.pass_ms(CALM_MS)
        self.append(trio.leader)
        trio.run(3_000)
        self.judge.look()
        assert not self.judge.waiting.get(trio.leader.raft.leader_epoch)

    def pass_ms(self, ms: int) -> None:
        for _ in range(ms // 100):
            self.trio.run(100)
            self.judge.look()

    def step(self) -> None:
        kinds = [
            *(self.crash, self.restart, self.cut, self.heal, self.snapshot, self.empty),
            *(self.power, self.pause, self.slow, self.copy, self.restore),
        ]
        for leader in [each for each in self.trio.leaders if each.paused_ms <= self.trio.now]:
            for _ in range(self.random.randrange(4)):
                self.append(leader)
        self.random.choice(kinds)()

    def append(self, node: Node) -> None:
        value = topic(f"{node.id}-{self.random.getrandbits(60)}")
        offset = self.trio.append(node, value)
        self.judge.waiting.setdefault(node.raft.leader_epoch, {})[offset] = value

    def crash(self) -> None:
        up = [node.id for node in self.trio.up()]
        if up:
            self.trio.crash(self.random.choice(up), self.random.choice([0, 40, 10_000]))

    def power(self) -> None:
        """All are off at once, and on again."""
        up = [node.id for node in self.trio.up()]
        kept = self.random.choice([0, 40, 10_000])
        for each in up:
            self.trio.crash(each, kept)
        if up:
            self.trio.start(*up)

    def pause(self) -> None:
        up = [node.id for node in self.trio.up()]
        if up:
            self.trio.pause(self.random.choice(up), self.random.choice([300, 2_500, SLOW_MS]))

    def slow(self) -> None:
        """All disks are slow from now on, or none."""
        self.trio.sync_ms = self.random.choice([1, 100, SLOW_MS])

    def restart(self) -> None:
        down = [each for each, node in self.trio.nodes.items() if node.raft is None]
        if down:
            self.trio.start(self.random.choice(down))

    def cut(self) -> None:
        pair = self.random.sample(list(self.trio.nodes), 2)
        self.random.choice(
            [lambda: self.trio.isolate(pair[0]), lambda: self.trio.cut.add((*pair,))]
        )()

    def heal(self) -> None:
        self.trio.heal()

    def snapshot(self) -> None:
        node = self.random.choice(list(self.trio.nodes.values()))
        raft = node.raft
        if raft is None or raft.snapshotting:
            return
        latest = raft.latest_snapshot
        ends = [
            one.last_offset + 1 for one in node.batches if one.last_offset < raft.high_watermark
        ]
        ends = [end for end in ends if latest is None or end > latest.end_offset]
        if ends:
            end = self.random.choice(ends)
            epoch = raft.epoch_at(end - 1)
            assert epoch is not None
            self.trio.perform(node, raft.snapshot(end, epoch, [topic(str(end))], 0))

    def empty(self) -> None:
        """The disk of one voter is lost, if all others hold what they ever had."""
        victim = self.random.choice(list(self.trio.nodes.values()))
        if self.may_forget(victim):
            self.emptied += 1
            self.stop(victim)
            self.trio.empty(victim.id)

    def copy(self) -> None:
        """Keep what is durable on the disk of a voter."""
        node = self.random.choice(list(self.trio.nodes.values()))
        if complete(node):
            self.copies[node.id] = node.disk.crashed(0)

    def restore(self) -> None:
        """An old copy of a disk comes back: nobody can know, if not all others have everything."""
        victims = [each for each in self.trio.nodes.values() if each.id in self.copies]
        if not victims:
            return
        victim = self.random.choice(victims)
        others = [each for each in self.trio.nodes.values() if each is not victim]
        have_all = all(
            each.raft is not None
            and each.raft.leader_epoch >= epoch_on_disk(victim)
            and self.holds(each, set(self.judge.committed))
            for each in others
        )
        if have_all and self.may_forget(victim):
            self.stop(victim)
            # What it had sent has arrived, and may have committed what only its disk held besides.
            self.judge.look()
            if not all(self.holds(each, set(self.judge.committed)) for each in others):
                return
            self.restored += 1
            victim.disk = Disk(self.copies[victim.id])
            self.lacking[victim.id] = set(self.judge.committed)

    def may_forget(self, victim: Node) -> bool:
        """Whether all others hold what they had, and no election needs what the victim knows.

        Its vote is lost with its disk. Nobody can know of one for an epoch in which a candidate
        stands, or that an outdated leader has not heard of (docs/divergence.md).
        """
        for node in self.trio.nodes.values():
            if node is victim:
                continue
            if not complete(node) or not self.has_caught_up(node):
                return False
            if node.raft is not None:
                quorum = node.raft.replica.quorum
                outdated = quorum.is_leader and quorum.epoch < epoch_on_disk(victim)
                if outdated or quorum.state is VoterState.CANDIDATE:
                    return False
        return True

    def has_caught_up(self, node: Node) -> bool:
        """Whether a voter has what was committed when an old copy of its disk came back."""
        if node.id in self.lacking and self.holds(node, self.lacking[node.id]):
            del self.lacking[node.id]
        return node.id not in self.lacking

    def holds(self, node: Node, offsets: set[int]) -> bool:
        """Whether these committed batches are durable on a voter that is up, or in a snapshot."""
        if node.raft is None:
            return False
        log = node.raft.replica.log
        found = {one.base_offset: one for one in node.batches if one.last_offset < log.durable_end}
        return all(
            found.get(each) == self.judge.committed[each]
            for each in offsets
            if each >= log.start_offset
        )

    def stop(self, node: Node) -> None:
        """Crash it, and let arrive what it sent."""
        if node.raft is not None:
            self.trio.crash(node.id)
        self.trio.run(self.trio.delay_ms + 1)
        self.judge.look()


def complete(node: Node) -> bool:
    """Whether a voter holds what it acknowledged, as far as its disk says."""
    files = node.disk.files
    logs = [data for path, data in files.items() if path.endswith((".log", ".checkpoint"))]
    return remembered(files.get(VOTER_STATE), empty=not any(logs)).may_be_elected


def epoch_on_disk(node: Node) -> int:
    data = node.disk.files.get(QUORUM_STATE)
    return 0 if data is None else int(json.loads(data)["leaderEpoch"])


@given(st.integers(0, 2**40))
def test_one_leader_in_an_epoch_and_what_is_committed_stays(seed):
    Chaos(seed).run()


@pytest.mark.parametrize("ids", [(1, 2), (1, 2, 3, 4, 5)])
def test_other_sizes_of_a_quorum(ids):
    for seed in range(10):
        Chaos(seed, ids).run(20)
