"""Whatever happens on the way to ZooKeeper, the tree ends as the image says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.zookeeper.jute import FRAME_BYTES_MAX
from tests.kit.laws import examples
from tests.laws.interruptions import FAULTS, Interrupted
from tests.unit.metadata.build import partition
from tests.unit.migration.world import differences, migration_offset
from wire import records as r

STEPS = (
    *("topic", "topic", "delete", "config", "config", "partitions", "change", "change", "noop"),
    *FAULTS,
    *("cut", "time", "foreign", "tamper", "narrow"),
)


class Story(Interrupted):
    """Random changes and faults; remembers the topics it has made."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.topics: dict[bytes, tuple[str, int]] = {}
        self.made = 0

    def step(self, name: str) -> None:
        getattr(self, name)()

    def topic(self) -> None:
        self.made += 1
        topic_id = self.made.to_bytes(16)
        name = f"t{self.rng.randrange(4)}"
        if any(name == known for known, _ in self.topics.values()):
            return
        count = self.rng.choice([1, 2, 30])
        self.topics[topic_id] = (name, count)
        self.world.append(*self.world.topic(name, topic_id, *([(1, 2)] * count)))

    def delete(self) -> None:
        if self.topics:
            topic_id = self.rng.choice(list(self.topics))
            del self.topics[topic_id]
            self.world.append(r.RemoveTopicRecord(topic_id=topic_id))

    def config(self) -> None:
        names = [name for name, _ in self.topics.values()]
        kind, name = (2, self.rng.choice(names)) if names and self.rng.random() < 0.7 else (4, "1")
        value = self.rng.choice([None, "1", "2"])
        self.world.append(
            r.ConfigRecord(resource_type=kind, resource_name=name, name="retention.ms", value=value)
        )

    def partitions(self) -> None:
        if self.topics:
            topic_id = self.rng.choice(list(self.topics))
            name, count = self.topics[topic_id]
            self.topics[topic_id] = (name, count + 1)
            self.world.append(partition(topic_id, count, replicas=(2, 1)))

    def change(self) -> None:
        if self.topics:
            topic_id = self.rng.choice(list(self.topics))
            index = self.rng.randrange(self.topics[topic_id][1])
            leader = self.rng.choice([1, 2])
            self.world.append(
                r.PartitionChangeRecord(
                    partition_id=index, topic_id=topic_id, isr=(leader,), leader=leader
                )
            )

    def noop(self) -> None:
        self.world.append(r.NoOpRecord())

    def cut(self) -> None:
        """Cut, sometimes with bytes still on their way that arrive much later."""
        if not self.world.zk.connected:
            return
        late, self.world.held = self.world.held, None
        self.world.cut()
        if late and self.rng.random() < 0.5:
            self.world.advance(4_000)
        for conn, data in late or []:
            self.world.model.received(conn, data, self.world.now_ms)
            self.world.model.run(self.world.now_ms)

    def foreign(self) -> None:
        self.world.put("/migration", self.world.data("/migration"))

    def tamper(self) -> None:
        """Somebody deletes or rewrites a znode; the next write there, or a reconcile, meets it."""
        names = [p for p in self.world.paths if p.startswith("/config/topics/")]
        if names and self.rng.random() < 0.5:
            path = self.rng.choice(sorted(names))
            self.world.remove(path)
            self.world.put("/migration", self.world.data("/migration"))

    def narrow(self) -> None:
        """ZooKeeper is restarted with another ``jute.maxbuffer``; each change alone fits."""
        self.cut()
        self.world.model.frame_bytes_max = self.rng.choice([4_000, 20_000, FRAME_BYTES_MAX])


@pytest.mark.requirement("W07", "Z02", "G10")
@examples(100)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(STEPS), min_size=5, max_size=40))
def test_every_story_ends_with_equal_stores(seed: int, steps: list[str]) -> None:
    story = Story(seed)
    world = story.world
    for name in steps:
        story.step(name)
        if world.held is None:
            assert migration_offset(world) <= world.journal.stable.offset
    story.end()
    assert differences(world) == {}
    assert world.driver.write_behind.lag.changed_records == 0
