"""Laws of a quorum under loss, delay, repetition, crashes and one lost disk at a time."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.raft import Raft
from emulator.raft.layout import JOINING
from emulator.raft.log import LogBatch
from emulator.seam import DeleteFile, Effect, TruncateFile
from tests.unit.raft.trio import Node, Trio
from tests.unit.raft.world import Disk, topic

ROUNDS = 40


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
            assert raft is not None
            if raft.is_leader:
                assert self.led.setdefault(raft.leader_epoch, node.id) == node.id
                waiting = self.waiting.get(raft.leader_epoch, {})
                for offset in [each for each in waiting if each < raft.high_watermark]:
                    self.acknowledged[offset] = waiting.pop(offset)
            self._committed(node)

    def _committed(self, node: Node) -> None:
        raft = node.raft
        assert raft is not None
        at = self._checked.get((node.id, node.life), 0)
        for batch in raft._replica.log.batches(at, raft.high_watermark - 1):
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
        self.emptied = self.cuts = 0
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
        assert node.raft is not None
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
        for each in [node.id for node in trio.nodes.values() if node.raft is None]:
            trio.start(each)
        for _ in range(200):
            trio.run(100)
            self.judge.look()
        if not any(node.batches for node in trio.nodes.values()):
            # The first leader crashed before its first record was on a disk: nobody can know that.
            assert not self.judge.committed
            return
        self.append(trio.leader)
        trio.run(3_000)
        self.judge.look()
        assert not self.judge.waiting.get(trio.leader.raft.leader_epoch)

    def step(self) -> None:
        kinds = [self.crash, self.restart, self.cut, self.heal, self.snapshot, self.empty]
        for leader in self.trio.leaders:
            for _ in range(self.random.randrange(4)):
                self.append(leader)
        self.random.choice(kinds)()

    def append(self, node: Node) -> None:
        value = topic(f"{node.id}-{self.random.getrandbits(60)}")
        offset = self.trio.append(node, value)
        assert node.raft is not None
        self.judge.waiting.setdefault(node.raft.leader_epoch, {})[offset] = value

    def crash(self) -> None:
        up = [node.id for node in self.trio.up()]
        if up:
            self.trio.crash(self.random.choice(up), self.random.choice([0, 40, 10_000]))

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
        nodes = list(self.trio.nodes.values())
        victim = self.random.choice(nodes)
        whole = all(self.complete(node) for node in nodes if node is not victim)
        if self.judge.acknowledged and whole:
            self.emptied += 1
            if victim.raft is not None:
                self.trio.crash(victim.id)
            self.trio.empty(victim.id)

    @staticmethod
    def complete(node: Node) -> bool:
        files = node.disk.files
        return bool(files) and b"joining=true" not in files.get(JOINING, b"")


@given(st.integers(0, 2**40))
def test_one_leader_in_an_epoch_and_what_is_committed_stays(seed):
    Chaos(seed).run()


@pytest.mark.parametrize("ids", [(1, 2), (1, 2, 3, 4, 5)])
def test_other_sizes_of_a_quorum(ids):
    for seed in range(3):
        Chaos(seed, ids).run(20)
