"""A ZooKeeper with a small ``jute.maxbuffer``: requests are made smaller until it takes them."""

from __future__ import annotations

import pytest

from emulator.migration.dual_write.modes import Mode
from emulator.migration.states import State
from emulator.zookeeper import jute
from emulator.zookeeper.ops import Multi, MultiRead, ReadFailed
from tests.unit.migration.stories import restart
from tests.unit.migration.test_write_behind import A, B, config
from tests.unit.migration.world import World, differences, migration_offset
from wire import records as r

TOPIC, BROKER = 2, 4
SMALL = 16_383


def topics(world: World, count: int, partitions: int) -> list[object]:
    records: list[object] = []
    for number in range(count):
        replicas = [(1, 2)] * partitions
        records += world.topic(f"t{number}", number.to_bytes(16), *replicas)
    return records


def sent_bytes(world: World, since: int) -> list[int]:
    return [sum(map(world.zk.op_size, ops)) for ops in world.multis[since:]]


def refused_until_now() -> World:
    """A change was refused for its size, and from now on the server takes it."""
    world = World().dual_write()
    world.model.frame_bytes_max = SMALL
    world.append(config(BROKER, "", "k", "x" * 20_000))
    world.advance(10_000)
    assert world.driver.write_behind.mode is Mode.POISONED
    world.model.frame_bytes_max = jute.FRAME_BYTES_MAX
    return world


@pytest.mark.requirement("W04", "W07")
def test_a_large_change_reaches_it_in_smaller_multis_and_the_size_is_kept() -> None:
    world = World().dual_write()
    world.model.frame_bytes_max = SMALL
    last = world.append(*topics(world, 20, 25))
    world.advance(10_000)
    assert migration_offset(world) == last
    assert differences(world) == {}
    assert world.zk.limit.bytes <= SMALL
    sessions, since = world.zk.generation, len(world.multis)
    world.append(*world.topic("later", b"l" * 16, *[(1, 2)] * 300))
    world.advance(1_000)
    assert differences(world) == {}
    assert world.zk.generation == sessions, "no connection is lost any more"
    assert max(sent_bytes(world, since)) <= SMALL
    restart(world)
    assert world.zk.limit.bytes > SMALL, "a new process begins anew"


def test_one_change_that_is_too_large_for_the_server_is_named_and_blocks() -> None:
    world = World().dual_write()
    world.model.frame_bytes_max = SMALL
    world.append(config(BROKER, "", "k", "x" * 20_000))
    world.advance(10_000)
    (znode,) = world.driver.status(world.now_ms).poisoned
    assert znode.path == "/config/brokers/<default>"
    assert "jute.maxbuffer" in znode.cause
    assert world.driver.write_behind.mode is Mode.POISONED
    world.append(config(BROKER, "", "k", None))
    world.advance(60_000)
    assert world.driver.status(world.now_ms).poisoned == ()
    assert differences(world) == {}


def test_one_change_that_is_too_large_is_left_out_if_so_configured() -> None:
    world = World(write_behind_poison="skip").dual_write()
    world.model.frame_bytes_max = SMALL
    world.append(config(BROKER, "", "k", "x" * 20_000))
    last = world.append(*world.topic("a", A, (1, 2)))
    world.advance(10_000)
    assert migration_offset(world) == last
    assert list(differences(world)) == ["/config/brokers/<default>"]


def test_large_changes_whose_answers_are_lost_are_not_called_too_large() -> None:
    """They were applied: the position that is read back says so each time."""
    world = World().dual_write()
    for value in ("x" * 30_000, "y" * 30_000, "z" * 30_000):
        world.dropping_replies = True
        world.append(config(BROKER, "", "k", value))
        world.cut()
        world.dropping_replies = False
        world.advance(3_000)
    assert world.zk.limit.halved_count == 0
    assert not any("refuse" in line.event for line in world.logs)
    assert differences(world) == {}


def test_a_change_that_was_applied_is_not_called_too_large() -> None:
    """Its size was refused before; this time only the answer is lost."""
    world = refused_until_now()
    submit = world.zk.submit

    def losing(tag: object, request: object, now_ms: int) -> object:
        world.dropping_replies = isinstance(request, Multi)
        return submit(tag, request, now_ms)  # type: ignore[arg-type]

    world.zk.submit = losing  # type: ignore[assignment]
    while not world.dropping_replies:
        world.advance(100)
    world.zk.submit = submit  # type: ignore[method-assign]
    assert differences(world) == {}
    world.logs.clear()
    world.cut()
    world.advance(500)
    assert not any("refuses a znode" in line.event for line in world.logs)
    world.advance(60_000)
    assert world.driver.write_behind.mode is Mode.RUNNING
    assert differences(world) == {}


def test_a_server_that_is_asked_to_take_more_again_is_noticed() -> None:
    world = refused_until_now()
    world.advance(60_000)
    assert world.driver.write_behind.mode is Mode.RUNNING
    assert differences(world) == {}


def test_the_tree_is_read_from_it_too() -> None:
    world = World().dual_write()
    world.append(*topics(world, 150, 1))
    world.advance(2_000)
    world.model.frame_bytes_max = 12_000
    restart(world)
    world.reach(State.DUAL_WRITE, 20_000)
    assert differences(world) == {}


def test_no_answer_to_a_read_of_the_tree_is_much_larger_than_its_limit() -> None:
    """The data of a topic is as long as it has partitions: their number is read first."""
    world = World().dual_write()
    for number in range(8):
        world.append(*world.topic(f"big{number}", number.to_bytes(16), *[(1, 2)] * 2_000))
    world.append(*topics_after(world))
    world.advance(5_000)
    largest: list[int] = []
    submit, take = world.zk.submit, world.zk.take_results
    reads: dict[int, tuple[object, MultiRead]] = {}
    """By the identity of the tag, which is kept: that of one that is gone may be given again."""

    def submitted(tag: object, request: object, now_ms: int) -> object:
        if isinstance(request, MultiRead):
            reads[id(tag)] = tag, request
        return submit(tag, request, now_ms)  # type: ignore[arg-type]

    def taken() -> object:
        outcomes = take()
        for outcome in outcomes:
            found = reads.get(id(outcome.tag))
            if found is not None and len(found[1].reads) > 1:
                largest.append(size_of(outcome.value))  # type: ignore[union-attr]
        return outcomes

    world.zk.submit, world.zk.take_results = submitted, taken  # type: ignore[assignment]
    world.driver.write_behind.reconcile_count = 0
    world.zk.limit.answer_bytes = 100_000
    world.put("/migration", world.data("/migration"))
    world.append(config(TOPIC, "after0", "retention.ms", "1"))
    world.advance(10_000)
    assert world.driver.write_behind.reconcile_count == 1
    assert differences(world) == {}
    assert max(largest) < 1.3 * world.zk.limit.answer_bytes


def topics_after(world: World) -> list[object]:
    return [
        record
        for number in range(100)
        for record in world.topic(f"after{number}", b"a" + number.to_bytes(15), (1, 2))
    ]


def size_of(values: object) -> int:
    assert isinstance(values, list)
    return sum(
        9
        + (
            4
            if isinstance(value, ReadFailed)
            else sum(map(len, value)) + 4 * len(value)
            if isinstance(value, tuple) and not hasattr(value, "stat")
            else len(value.data or b"") + 72
        )
        for value in values
    )


def test_what_is_written_is_the_same_whatever_the_server_takes() -> None:
    trees = []
    for frame_bytes_max in (jute.FRAME_BYTES_MAX, 50_000, 9_000):
        world = World().dual_write()
        world.model.frame_bytes_max = frame_bytes_max
        world.append(*topics(world, 30, 10))
        world.append(*world.topic("b", B, (1, 2)), config(TOPIC, "b", "retention.ms", "5"))
        world.append(r.RemoveTopicRecord(topic_id=(3).to_bytes(16)))
        world.advance(20_000)
        assert differences(world) == {}
        nodes = world.model.tree.nodes
        trees.append({path: node.data for path, node in nodes.items() if path[:7] != "/kraft_"})
    for tree in trees:
        tree.pop("/migration")
    assert trees[0] == trees[1] == trees[2]
