"""Whatever happens on the way to ZooKeeper, the tree ends as the image says."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.migration.dual_write.modes import Mode
from emulator.migration.states import State
from emulator.zookeeper.jute import FRAME_BYTES_MAX
from tests.kit.laws import examples
from tests.unit.migration.world import World, differences, migration_offset
from wire import records as r

STEPS = (
    "topic",
    "topic",
    "delete",
    "config",
    "config",
    "partitions",
    "change",
    "change",
    "noop",
    "hold",
    "release",
    "deaf",
    "hear",
    "cut",
    "cut",
    "down",
    "up",
    "time",
    "time",
    "foreign",
    "tamper",
    "narrow",
)


class Story:
    """Random changes and faults; remembers the topics it has made."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.world = World(write_behind_multi_ops=self.rng.choice([3, 10, 400])).dual_write()
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
            self.world.append(
                r.PartitionRecord(
                    partition_id=count,
                    topic_id=topic_id,
                    replicas=(2, 1),
                    isr=(2, 1),
                    leader=2,
                    leader_epoch=0,
                    partition_epoch=0,
                )
            )

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

    def hold(self) -> None:
        if self.world.held is None:
            self.world.held = []

    def release(self) -> None:
        self.world.release()

    def deaf(self) -> None:
        self.world.dropping_replies = True

    def hear(self) -> None:
        """Replies come again; those in between are lost."""
        self.world.dropping_replies = False

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

    def down(self) -> None:
        self.world.zk_up = False
        self.cut()

    def up(self) -> None:
        self.world.zk_up = True

    def time(self) -> None:
        self.world.advance(self.rng.choice([10, 600, 3_000]))

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

    def end(self) -> None:
        world = self.world
        world.zk_up = True
        world.release()
        world.dropping_replies = False
        world.advance(20_000)
        world.append(r.NoOpRecord())
        world.advance(2_000)


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
    assert world.driver.state is State.DUAL_WRITE
    assert world.driver.write_behind.mode is Mode.RUNNING
    assert differences(world) == {}
    assert migration_offset(world) == world.journal.stable.offset
    assert world.driver.write_behind.lag.records == 0
    assert world.driver.write_behind.lag.changed_records == 0
