"""Whatever a ZooKeeper-mode broker does with control requests, in the end it knows the cluster."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from emulator.migration.propagation import merging
from tests.kit.laws import examples
from tests.unit.migration.test_broker_behind import HalfDeaf, change, same_view
from wire import records as r

SLOW, NAMES = 2, ("n0", "n1", "n2")
T = b"T" * 16

steps = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.integers(0, 4), st.sampled_from([1, 2])),
        st.tuples(st.sampled_from(["create", "delete", "create again"]), st.sampled_from(NAMES)),
        st.tuples(st.sampled_from(["fall silent", "answer", "fence", "unfence", "register"])),
        st.tuples(st.just("wait"), st.sampled_from([10, 200, 31_000])),
    ),
    max_size=40,
)


class Story:
    """A cluster of two brokers; the second may be slow."""

    def __init__(self) -> None:
        self.world = HalfDeaf()
        self.world.dual_write(1, SLOW)
        self.world.append(*self.world.topic("t", T, *((1, 2),) * 5))
        self.topics: dict[str, bytes] = {}
        self.fenced = False
        self._made = 0

    def take(self, step: tuple[object, ...]) -> None:
        world = self.world
        match step:
            case "change", int(partition), int(leader):
                world.append(change(partition, leader))
            case "create", str(name) if name not in self.topics:
                world.append(*self._topic(name))
            case "delete", str(name) if name in self.topics:
                world.append(r.RemoveTopicRecord(topic_id=self.topics.pop(name)))
            case "create again", str(name) if name in self.topics:
                gone = r.RemoveTopicRecord(topic_id=self.topics[name])
                world.append(gone, *self._topic(name))
            case ("fall silent",):
                world.silent.add(SLOW)
            case ("answer",):
                world.speak(SLOW)
            case ("fence",) if not self.fenced:
                world.unfence(SLOW, fenced=1)
                self.fenced = True
            case ("unfence",) if self.fenced:
                world.unfence(SLOW)
                self.fenced = False
            case ("register",):
                world.register(SLOW)
                self.fenced = False
            case "wait", int(ms):
                world.advance(ms)

    def _topic(self, name: str) -> list[object]:
        self._made += 1
        self.topics[name] = bytes([self._made]) * 16
        return self.world.topic(name, self.topics[name], (1, 2))


@examples(60)
@given(steps, st.sampled_from([1, 4, 8, 40, 1_000_000]), st.sampled_from([0, 5_000, 100_000]))
def test_a_slow_broker_knows_everything_in_the_end(
    told: list[tuple[object, ...]], entries_max: int, pause_us: int
) -> None:
    with patch.object(merging, "ENTRIES_MAX", entries_max):
        story = Story()
        story.world.driver.propagation_gate.pause_us = pause_us
        for step in told:
            story.take(step)
        if story.fenced:
            story.take(("unfence",))
        story.world.speak(SLOW)
        story.world.advance(40_000)
        assert same_view(story.world)
        assert story.world.driver.channels.queued == 0
        assert not story.world.driver.channels.cut(SLOW)
        assert not story.world.driver.propagator.busy
