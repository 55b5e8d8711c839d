"""Names of very many children are read in slices: counted, and nothing behind them is lost."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from kazoo.protocol import serialization as kazoo

from emulator.seam import Effect
from emulator.simulation.models.zookeeper import ZooKeeperModel
from emulator.zookeeper import jute
from emulator.zookeeper.client import ZkClient, ZkState
from emulator.zookeeper.jute import NAMES_PER_SLICE
from emulator.zookeeper.ops import (
    Create,
    GetChildren,
    GetData,
    MultiRead,
    NodeData,
    ZkLost,
    ZkResult,
)
from tests.unit.node.test_copy_grows_in_line import Work, counted
from tests.unit.zookeeper.world import World

FOLDER = "/brokers"
LIST = MultiRead((GetData("/"), GetChildren(FOLDER), GetData("/zookeeper")))


class Unordered(ZooKeeperModel):
    """Answers with names in an order of its own, as ZooKeeper does."""

    def _read(self, opcode: int, path: str) -> bytes:
        read = super()._read(opcode, path)
        names = list(self.tree.get(path).children)
        if opcode != jute.OP_GET_CHILDREN or len(names) < 2:
            return read
        Random(1).shuffle(names)
        return read[:4] + b"".join(kazoo.write_string(name) for name in names)


def with_children(count: int) -> World:
    """A client of a ZooKeeper with a znode of so many children."""
    world = World(model=Unordered).start()
    world.ask(Create(FOLDER, b""))
    world.model.tree.get(FOLDER).children.update(f"topic-{number:06}" for number in range(count))
    return world


def longest(count: int) -> int:
    """Lines and calls of C of the longest event or tick while the names are read."""
    world, longest = with_children(count), 0
    handle, tick = world.client.handle, world.client.tick

    def measured(call: object, *given: object) -> list[Effect]:
        nonlocal longest
        work = Work()
        assert callable(call)
        effects = counted(work, lambda: call(*given))
        longest = max(longest, work.run)
        return effects

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ZkClient, "handle", lambda _, *given: measured(handle, *given))
        patch.setattr(ZkClient, "tick", lambda _, *given: measured(tick, *given))
        world.submit("names", LIST)
        world.advance(1)
    [result] = world.client.take_results()
    assert isinstance(result, ZkResult)
    assert isinstance(result.value, list)
    assert {*result.value[1]} == {f"topic-{number:06}" for number in range(count)}
    return longest


def test_the_longest_step_does_not_grow_with_the_names() -> None:
    """100,000 names took 53 ms, and to sort them 30 more."""
    assert longest(60_000) <= 1.2 * longest(15_000)


def test_each_slice_is_in_order() -> None:
    """So all of them are sorted by joining a few parts."""
    world = with_children(3 * NAMES_PER_SLICE)
    world.submit("names", GetChildren(FOLDER))
    world.advance(1)
    [result] = world.client.take_results()
    assert isinstance(result, ZkResult)
    assert isinstance(result.value, tuple)
    falls = [at for at, (one, other) in enumerate(pairwise(result.value), 1) if one > other]
    slices = [at for at in falls if at < 2 * NAMES_PER_SLICE]
    assert slices == [NAMES_PER_SLICE]


def test_what_arrives_behind_a_long_answer_waits_for_it() -> None:
    world = with_children(3 * NAMES_PER_SLICE)
    world.submit("names", LIST)
    world.submit("one", GetData("/zookeeper"))
    world.submit("again", LIST)
    assert world.client.take_results() == []
    assert world.client.deadline_ms == 0
    world.advance(1)
    names, one, again = world.client.take_results()
    assert [each.tag for each in (names, one, again)] == ["names", "one", "again"]
    assert isinstance(names, ZkResult)
    assert isinstance(again, ZkResult)
    assert names.value == again.value
    assert isinstance(one, ZkResult)
    assert isinstance(one.value, NodeData)
    assert world.client.state is ZkState.CONNECTED
    assert world.ask(GetData("/zookeeper")).tag == "ask"


def test_a_connection_that_ends_meanwhile_leaves_it_in_doubt() -> None:
    world = with_children(3 * NAMES_PER_SLICE)
    world.submit("names", LIST)
    world.cut()
    assert world.client.take_results() == [ZkLost("names")]
    world.advance(1_000)
    assert world.client.state is ZkState.CONNECTED
    world.submit("names", LIST)
    world.advance(1)
    [result] = world.client.take_results()
    assert isinstance(result, ZkResult)


def test_nonsense_in_a_later_slice_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Unordered._read

    def spoilt(model: Unordered, opcode: int, path: str) -> bytes:
        read = real(model, opcode, path)
        return read[:-20] if path == FOLDER else read

    monkeypatch.setattr(Unordered, "_read", spoilt)
    world = with_children(3 * NAMES_PER_SLICE)
    world.submit("names", GetChildren(FOLDER))
    assert world.client.take_results() == []
    world.advance(1)
    assert world.client.take_results() == [ZkLost("names")]


def test_a_close_meanwhile_ends_the_session() -> None:
    world = with_children(3 * NAMES_PER_SLICE)
    world.submit("names", LIST)
    world.perform(world.client.close(world.now_ms))
    world.advance(1)
    [outcome] = world.client.take_results()
    assert outcome.tag == "names"
    assert world.client.state is ZkState.CLOSED
