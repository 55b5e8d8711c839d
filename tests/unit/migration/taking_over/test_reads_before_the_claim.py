"""How often the whole tree is read before it is claimed."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from emulator.migration.states import State
from emulator.migration.taking_over import copying
from emulator.migration.taking_over.checking import READ_AGAIN_MS
from emulator.migration.taking_over.preconditions import Why
from emulator.seam import Effect
from emulator.znodes.tree import Tree
from emulator.zookeeper.ops import GetChildren, Multi, MultiRead
from tests.unit.migration.stories import waiting_world
from tests.unit.migration.world import World
from wire import records as r

TOPICS = GetChildren("/brokers/topics")


class Reads:
    """Counts readings of the tree, before and after the claim."""

    def __init__(self, world: World) -> None:
        self.before = self.after = 0
        submit = world.zk.submit

        def counted(tag: object, request: Any, now_ms: int) -> list[Effect]:
            claimed = world.driver.claim_count
            if isinstance(request, MultiRead) and TOPICS in request.reads:
                self.before += not claimed
                self.after += bool(claimed)
            return submit(tag, request, now_ms)

        world.zk.submit = counted  # type: ignore[method-assign]


def trees() -> int:
    """Trees in memory; those in a circle, too, which wait for a collection that may be far off."""
    return sum(type(one) is Tree for one in gc.get_objects())


def whys(world: World) -> dict[str, Why]:
    waiting = world.driver.status(world.now_ms).waiting
    return {one.reason.subject: one.reason.why for one in waiting}


def test_the_tree_is_not_read_again_for_each_broker_that_registers() -> None:
    """Nor by the claim that follows at once: first, after the last one, for copy and comparison."""
    world = waiting_world()
    for broker_id in (3, 4, 5):
        world.put(f"/brokers/ids/{broker_id}", b'{"version":5,"endpoints":[]}')
    reads = Reads(world)
    world.start()
    for broker_id in (1, 2, 3, 4):
        world.register(broker_id)
        world.advance(1_000)
        left = {str(one): Why.BROKER_NOT_REGISTERED for one in range(broker_id + 1, 6)}
        assert whys(world) == left
    assert world.driver.state is State.WAIT_FOR_BROKERS
    assert reads.before == 1
    world.register(5)
    world.reach(State.DUAL_WRITE, 1_000)
    assert (reads.before, reads.after) == (2, 2)


def test_what_else_is_missing_stays_told_and_is_looked_at_again_now_and_then() -> None:
    world = waiting_world()
    world.put("/config/users/odd", b"{")
    reads = Reads(world)
    world.start(1)
    world.advance(1_000)
    odd = {"/config/users/odd": Why.MALFORMED_ZNODE}
    assert whys(world) == {"2": Why.BROKER_NOT_REGISTERED} | odd
    assert reads.before == 1
    world.remove("/config/users/odd")
    world.advance(READ_AGAIN_MS + 10_000)
    assert whys(world) == {"2": Why.BROKER_NOT_REGISTERED}
    assert reads.before == 2
    world.register(2)
    world.reach(State.DUAL_WRITE, 1_000)


@pytest.mark.requirement("P01", "Q05")
def test_a_topic_created_meanwhile_counts_at_once() -> None:
    """A broker of which only its znode was known has replicas now, and one is not even there."""
    world = waiting_world()
    reads = Reads(world)
    world.start(1)
    world.put(
        "/brokers/topics/new",
        b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAZg","partitions":{"0":[2,8]}}',
    )
    world.advance(2_000)
    assert reads.before == 2
    told = {one.reason.subject: one.reason.text for one in world.driver.status(0).waiting}
    assert "broker 2 (known from /brokers/ids, replica assignments" in told["2"]
    assert "broker 8 (known from replica assignments)" in told["8"]
    world.advance(10_000)
    assert reads.before == 2
    again = {one.reason.subject: one.reason.text for one in world.driver.status(0).waiting}
    assert again == told


def test_the_tree_is_read_again_as_soon_as_the_time_is_over() -> None:
    world = waiting_world()
    reads = Reads(world)
    world.start(1)
    while reads.before < 2:
        world.advance(100)
    world.advance(READ_AGAIN_MS - 200)
    assert reads.before == 2
    world.advance(300)
    assert reads.before == 3


def test_where_a_broker_is_known_from_is_told() -> None:
    world = waiting_world()
    world.put("/config/brokers/2", b'{"version":1,"config":{"a":"b"}}')
    world.put("/config/brokers/7", b'{"version":1,"config":{"a":"b"}}')
    world.start()
    world.advance(2_000)
    told = {one.reason.subject: one.reason.text for one in world.driver.status(0).waiting}
    assert "broker 2 (known from /brokers/ids, replica assignments, /config/brokers)" in told["2"]
    assert "broker 7 (known from /config/brokers)" in told["7"]


@pytest.mark.parametrize("when", ["while it is checked", "before the answer to the claim"])
def test_a_claim_is_checked_again_if_the_brokers_have_changed_or_time_has_passed(
    when: str,
) -> None:
    world = waiting_world()
    reads = Reads(world)
    submit, done = world.zk.submit, []

    def disturbed(tag: object, request: Any, now_ms: int) -> list[Effect]:
        checked = isinstance(request, MultiRead) and TOPICS in request.reads and reads.before == 1
        claims = isinstance(request, Multi)
        if not done and (checked if when == "while it is checked" else claims):
            done.append(request)
            if claims:
                world.put("/controller_epoch", b"9")  # the claim comes too late
            else:
                newcomer = r.RegisterBrokerRecord(broker_id=9, broker_epoch=world.journal.end)
                world.journal.append([newcomer], world.now_ms)
        return submit(tag, request, now_ms)

    world.zk.submit = disturbed  # type: ignore[method-assign]
    world.start(1, 2)
    world.advance(10_000)
    assert done
    assert world.driver.state is State.DUAL_WRITE
    assert reads.before == 3


def test_a_broker_that_is_unfenced_meanwhile_makes_no_difference() -> None:
    world = waiting_world()
    reads = Reads(world)
    submit, done = world.zk.submit, []

    def unfenced(tag: object, request: Any, now_ms: int) -> list[Effect]:
        if not done and isinstance(request, MultiRead) and reads.before == 2:
            done.append(request)
            epoch = world.journal.tip.brokers[2].epoch
            change = r.BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=epoch, fenced=-1)
            world.journal.append([change], world.now_ms)
        return submit(tag, request, now_ms)

    world.start(1)
    world.zk.submit = unfenced  # type: ignore[method-assign]
    world.register(2, fenced=True)
    world.advance(1_000)
    assert done
    assert world.driver.state is State.DUAL_WRITE
    assert reads.before == 2


def test_no_tree_is_kept_while_a_broker_is_missing_nor_after_the_claim() -> None:
    """A tree may be hundreds of megabytes, and it is read again every 30 s for hours."""
    gc.collect()
    others = trees()
    world = waiting_world()
    reads = Reads(world)
    world.start(1)
    world.advance(10 * READ_AGAIN_MS)
    while world.driver._task is not None:
        world.advance(10)
    assert reads.before >= 5
    assert trees() == others
    world.register(2)
    world.reach(State.DUAL_WRITE, 10_000)
    assert trees() == others


def test_a_tree_that_is_copied_goes_with_the_leadership(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    others = trees()
    monkeypatch.setattr(copying, "APPEND_AHEAD_RECORDS", -9)
    world = waiting_world()
    world.start(1, 2)
    world.reach(State.ZK_MIGRATION, 1_000)
    assert world.driver.copy_progress == (0, 1)
    assert trees() == others + 1
    world.perform(world.driver.resigned(world.now_ms))
    assert trees() == others


def test_no_broker_runs_any_more() -> None:
    world = waiting_world()
    world.start()
    assert set(whys(world)) == {"1", "2"}
    for broker_id in (1, 2):
        world.remove(f"/brokers/ids/{broker_id}")
    world.advance(5_000)
    assert whys(world)["/brokers/ids"] is Why.NO_BROKERS
    world.put("/brokers/ids/1", b'{"version":5,"endpoints":[]}')
    world.advance(10_000)
    assert "/brokers/ids" not in whys(world)
