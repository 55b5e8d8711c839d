"""The write-behind alone with a model of ZooKeeper, with the CPU time of its parts."""

from __future__ import annotations

import gc
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any, Final

from emulator.metadata.delta import Delta
from emulator.metadata.history import History
from emulator.metadata.image import Image
from emulator.migration.dual_write.write_behind import WriteBehind
from emulator.migration.position import Counters, Position, Term
from emulator.seam import Close, Closed, Connect, Connected, Effect, Received, Send
from emulator.simulation.models.zookeeper import ZooKeeperModel
from emulator.zookeeper.client import ZkClient
from emulator.zookeeper.ops import Create
from wire import records as r
from wire.digest import DIGEST_CHARS

NOW_MS: Final = 1_000_000
REPLICAS: Final = (0, 1, 2)
PARTS: Final = ("plan", "encode", "answer", "rest")


@dataclass(frozen=True, slots=True)
class WriteBehindCost:
    """What a load cost. ``micros``: CPU time by part."""

    partitions: int
    multis: int
    ops: int
    micros: dict[str, float]

    @property
    def total(self) -> float:
        """CPU time of all parts in microseconds."""
        return sum(self.micros.values())


class WriteBehindAlone:
    """A write-behind in the mode RUNNING on an empty tree."""

    def __init__(self) -> None:
        self.model = ZooKeeperModel(Random(7))
        self.model.tree.write(Create("/controller_epoch", b"1"), 1, 0)
        held = b'{"version":2,"brokerid":3000,"timestamp":"5","kraftControllerEpoch":1}'
        self.model.tree.write(Create("/controller", held), 1, 0)
        self.zk = ZkClient([("zk", 2181)], "", 6_000, 3_000, count(1).__next__, Random(1))
        self.behind = WriteBehind(self.zk, time.perf_counter_ns, lambda _offset: "d" * DIGEST_CHARS)
        self.spent: Counter[str] = Counter()
        self.multis = self.ops = 0
        self._wrap(self.behind.pipeline, "plan", "plan")
        self._wrap(self.zk, "submit", "encode")
        self._sent: deque[Send] = deque()
        self._now_ms = NOW_MS
        self._perform(self.zk.start(self._now_ms))
        self.run()
        term = Term(3000, 1, 1, 0, "i" * 22)
        image = History().stable
        begun = self.behind.begin(term, Counters(None, None), Position(-1, -1), image, self._now_ms)
        self._perform(begun)
        self.run()
        self._perform(self.behind.reconcile(self._now_ms))
        self.run()
        assert self.behind.idle, self.behind.mode

    def _wrap(self, owner: Any, name: str, part: str) -> None:
        inner: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any) -> Any:
            began = time.process_time_ns()
            try:
                return inner(*args)
            finally:
                took = time.process_time_ns() - began
                self.spent[part] += took
                self.spent["rest"] -= took

        setattr(owner, name, timed)

    def _timed(self, part: str, call: Callable[..., Any], *args: Any) -> Any:
        began = time.process_time_ns()
        result = call(*args)
        self.spent[part] += time.process_time_ns() - began
        return result

    def _perform(self, effects: Sequence[Effect]) -> None:
        todo = deque(effects)
        while todo:
            match todo.popleft():
                case Connect(conn=conn):
                    self.model.accepted(conn)
                    todo += self.zk.handle(Connected(conn), self._now_ms)
                case Send() as sent:
                    self._sent.append(sent)
                case _:
                    pass

    def deliver(self) -> bool:
        """Let ZooKeeper answer one packet; returns whether there was one."""
        if not self._sent:
            return False
        sent = self._sent.popleft()
        self.model.received(sent.conn, sent.data, self._now_ms)
        for effect in self.model.run(self._now_ms):
            match effect:
                case Send(conn=conn, data=data):
                    event: Any = Received(conn, data)
                case Close(conn=conn):
                    event = Closed(conn, "closed")
                case _:
                    continue
            self._perform(self._timed("answer", self.zk.handle, event, self._now_ms))
            for outcome in self.zk.take_results():
                self._perform(self._timed("rest", self.behind.outcome, outcome, self._now_ms))
        return True

    def tick(self) -> bool:
        """Continue work that was split; returns whether there was any."""
        due = self.behind.deadline_ms(self._now_ms)
        if due is None or due > self._now_ms:
            return False
        self._perform(self._timed("rest", self.behind.tick, self._now_ms))
        return True

    def run(self) -> None:
        """Until nothing is due, nothing is on its way, and nothing waits for more changes."""
        while self.tick() or self.deliver() or self._wait():
            pass

    def _wait(self) -> bool:
        """Let the time pass until the next multi is due; returns whether one waits."""
        due = None if self.behind.idle else self.behind.deadline_ms(self._now_ms)
        if due is None:
            return False
        self._now_ms = due
        return True

    def feed(self, deltas: Sequence[Delta], at_once: int) -> WriteBehindCost:
        """Write deltas; ZooKeeper answers a packet after each ``at_once`` of them."""
        self.spent.clear()
        partitions = sum(len(delta.touched.partitions) for delta in deltas)
        pipeline = self.behind.pipeline
        multis, ops = sum(pipeline.multis.values()), sum(pipeline.multi_ops.values())
        gc.collect()
        gc.disable()
        try:
            for at in range(0, len(deltas), at_once):
                some = deltas[at : at + at_once]
                self._perform(self._timed("rest", self.behind.metadata, some, self._now_ms))
                while self.tick():
                    pass
                self.deliver()
            self.run()
        finally:
            gc.enable()
        assert self.behind.idle
        return WriteBehindCost(
            partitions,
            sum(pipeline.multis.values()) - multis,
            sum(pipeline.multi_ops.values()) - ops,
            {part: self.spent[part] / 1_000 for part in PARTS},
        )


class CommittedRecords:
    """Records as a controller appends them, and the deltas they become."""

    def __init__(self) -> None:
        self._history = History()
        self._end = 0
        self._topics = count(1)

    @property
    def image(self) -> Image:
        """The image of everything appended."""
        return self._history.tip

    def append(self, records: Sequence[object]) -> list[Delta]:
        """One committed batch."""
        self._history.append(records, self._end, 1)
        self._end += len(records)
        return self._history.advance(self._end)

    def create(self, partitions: int) -> list[Delta]:
        """One new topic."""
        number = next(self._topics)
        topic_id = number.to_bytes(16, "big")
        records: list[object] = [r.TopicRecord(name=f"topic-{number:06d}", topic_id=topic_id)]
        records += [
            r.PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=REPLICAS,
                isr=REPLICAS,
                leader=REPLICAS[0],
                leader_epoch=0,
                partition_epoch=0,
            )
            for index in range(partitions)
        ]
        return self.append(records)

    def shrink(self, rng: Random, partitions: int) -> Iterator[Delta]:
        """ISR changes without end, of random topics."""
        topics = list(self.image.topics)
        while True:
            topic_id, index = rng.choice(topics), rng.randrange(partitions)
            isr = rng.choice([(0, 1), (0, 2), (0, 1, 2)])
            record = r.PartitionChangeRecord(partition_id=index, topic_id=topic_id, isr=isr)
            yield from self.append([record])
