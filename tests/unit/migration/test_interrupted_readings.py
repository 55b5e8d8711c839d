"""Reading the tree goes on after a lost connection, as long as what was read is known to hold."""

from __future__ import annotations

import pytest

from emulator.migration.dual_write.modes import Mode
from emulator.migration.states import State
from emulator.migration.taking_over.checking import READING_MS_MAX
from emulator.migration.taking_over.preconditions import Why
from tests.unit.migration.breaking import Breaking, behind_breaks
from tests.unit.migration.stories import TOPIC_A, put_topic, waiting
from tests.unit.migration.test_write_behind import config
from tests.unit.migration.world import World, differences, migration_offset
from wire.text import uuid_text

TOPIC = 2
SMALL_ANSWERS = 3_000
"""Bytes: a tree of some hundred znodes takes dozens of requests."""


def running() -> tuple[World, Breaking]:
    world = World()
    model = behind_breaks(world)
    world.dual_write()
    for number in range(60):
        world.append(*world.topic(f"t{number}", number.to_bytes(16), (1, 2), (2, 1)))
    world.advance(2_000)
    world.zk.limit.answer_bytes = SMALL_ANSWERS
    return world, model


def compare(world: World) -> None:
    """Make the controller compare the whole tree: somebody writes ``/migration``."""
    world.put("/migration", world.data("/migration"))
    world.append(config(TOPIC, "t0", "retention.ms", "1"))


@pytest.mark.requirement("W04")
def test_a_comparison_ends_though_no_connection_lasts_as_long_as_it() -> None:
    world, model = running()
    compare(world)
    world.advance(5_000)
    once = model.asked
    assert once >= 20
    model.every, before = 5, model.asked
    compare(world)
    world.append(*world.topic("during", b"d" * 16, (1, 2)))
    world.advance(60_000)
    assert model.broken >= 4
    assert world.driver.write_behind.mode is Mode.RUNNING
    assert differences(world) == {}
    assert model.asked - before < 2 * once, "what was answered is not asked for again"
    assert world.driver.write_behind.reconcile_count == 3


def test_what_was_read_counts_no_more_when_somebody_has_written() -> None:
    """A znode that was read already is gone, and the counters show that another client wrote."""
    world, model = running()
    gone = []

    def write() -> None:
        if model.broken == 4:
            path = "/brokers/topics/t1/partitions/0/state"
            world.remove(path)
            world.put("/migration", world.data("/migration"))
            gone.append(path)

    model.on_break = write
    model.every = 6
    compare(world)
    world.advance(60_000)
    assert gone
    assert world.driver.write_behind.mode is Mode.RUNNING
    assert differences(world) == {}


def test_a_controller_that_was_deposed_meanwhile_writes_nothing() -> None:
    world, model = running()

    def claim() -> None:
        if model.broken == 3:
            world.put("/controller_epoch", b"9")

    model.on_break, model.every = claim, 6
    compare(world)
    world.advance(1)
    at = migration_offset(world)
    world.advance(60_000)
    assert world.driver.write_behind.mode is Mode.DEPOSED
    assert migration_offset(world) == at
    assert model.broken == 3


def first_copy(**settings: object) -> tuple[World, Breaking]:
    world = World(**settings)
    model = behind_breaks(world)
    world.cluster(1, 2)
    for number in range(40):
        put_topic(world, f"a{number}", topic_data(number))
    world.bootstrap()
    world.zk.limit.answer_bytes = SMALL_ANSWERS
    return world, model


def topic_data(number: int) -> bytes:
    topic_id = uuid_text((number + 1).to_bytes(16)).encode()
    return TOPIC_A.replace(b"QUFBQUFBQUFBQUFBQUFBQQ", topic_id)


@pytest.mark.requirement("W04")
def test_check_and_copy_end_though_no_connection_lasts_as_long_as_them() -> None:
    world, model = first_copy()
    model.every = 5
    world.start(1, 2)
    world.advance(60_000)
    assert model.broken >= 6
    assert world.driver.state is State.DUAL_WRITE
    assert world.driver.claim_count == 1
    assert len(world.journal.stable.topics) == 40
    assert differences(world) == {}


def test_a_broker_that_starts_while_the_copy_is_interrupted_is_waited_for() -> None:
    world, model = first_copy()
    world.start(1)

    def start() -> None:
        if world.driver.state is State.ZK_MIGRATION and "/brokers/ids/3" not in world.paths:
            world.put("/brokers/ids/3", b'{"version":5,"endpoints":[]}')

    model.on_break, model.every = start, 7
    world.register(2)
    world.reach(State.ZK_MIGRATION, 30_000)
    assert waiting(world) == {(Why.BROKER_NOT_REGISTERED, "3")}
    world.register(3)
    world.reach(State.DUAL_WRITE, 30_000)


def test_before_the_claim_a_reading_is_given_up_after_a_time_and_that_is_said() -> None:
    """Nothing keeps the tree as it is before the claim, so what was read becomes doubtful."""
    world, model = first_copy()
    model.every = 1
    world.start(1, 2)
    world.advance(READING_MS_MAX - 10_000)
    assert waiting(world) == set()
    world.advance(20_000)
    (one,) = world.driver.status(world.now_ms).waiting
    assert (one.reason.why, one.reason.subject) == (Why.UNREADABLE, "/")
    assert "begins anew" in one.reason.text
    assert "in more than 300 s" in one.reason.text
    model.every = 0
    world.reach(State.DUAL_WRITE, 20_000)
    assert waiting(world) == set()


def test_what_was_read_before_zookeeper_went_away_for_long_counts_no_more() -> None:
    """Meanwhile a broker in ZooKeeper mode has made a topic, and deleted another."""
    world, model = first_copy()
    model.on_break, model.every = lambda: setattr(world, "zk_up", False), 10
    world.start(1)
    assert not world.zk_up
    world.advance(READING_MS_MAX)
    for partition in (0, 1):
        world.remove(f"/brokers/topics/a7/partitions/{partition}/state")
        world.remove(f"/brokers/topics/a7/partitions/{partition}")
    world.put("/brokers/topics/a0", b"rubbish")
    world.zk_up, model.every = True, 0
    world.advance(10_000)
    assert (Why.MALFORMED_ZNODE, "/brokers/topics/a0") in waiting(world)
