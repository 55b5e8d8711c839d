"""What an operator is told when a claim is refused is followed to the letter, and works."""

from __future__ import annotations

from copy import deepcopy

import msgspec
import pytest

from emulator.migration.states import State
from emulator.migration.taking_over.preconditions import Why
from emulator.seam import Effect
from emulator.zookeeper.ops import Multi, MultiRead
from tests.unit.migration.stories import ready_world, restart, waiting
from tests.unit.migration.world import World, checks, differences
from wire import records as r
from wire.errors import ErrorCode


def dual_write() -> World:
    world = ready_world()
    world.reach(State.DUAL_WRITE, 1_000)
    return world


def text(world: World) -> str:
    (found,) = world.driver.status(world.now_ms).waiting
    return found.reason.text


def restarted(world: World) -> World:
    restart(world)
    world.advance(5_000)
    return world


def goes_on(world: World) -> None:
    world.advance(60_000)
    assert world.driver.state is State.DUAL_WRITE, waiting(world)
    assert differences(world) == {}


def test_an_epoch_that_was_deleted_is_created_again() -> None:
    world = dual_write()
    world.remove("/controller_epoch")
    assert waiting(restarted(world)) == {(Why.NO_CONTROLLER_EPOCH, "/controller_epoch")}
    assert text(world).endswith("Create it again with the epoch of our last claim, 2")
    world.put("/controller_epoch", b"2")
    goes_on(world)
    assert world.data("/controller_epoch") == b"3"


@pytest.mark.parametrize("epoch", [b"", b"two", b"2147483647", b"9999999999"])
def test_an_epoch_that_no_claim_can_raise_is_refused(epoch: bytes) -> None:
    """Brokers and requests have 32 bits for it: a larger one could not be told to anybody."""
    world = dual_write()
    world.put("/controller_epoch", epoch)
    assert waiting(restarted(world)) == {(Why.MIGRATION_ZNODE, "/controller_epoch")}
    assert "Write the last epoch that the brokers know" in text(world)
    assert world.data("/controller_epoch") == epoch
    world.put("/controller_epoch", b"2")
    goes_on(world)


@pytest.mark.parametrize("trimmed", [False, True])
def test_zookeeper_was_restored_from_an_older_state(trimmed: bool) -> None:
    world = dual_write()
    older = deepcopy(world.model.tree.nodes)
    restarted(world)
    for index in range(3):
        world.append(*world.topic(f"later-{index}", bytes([100 + index]) * 16, (1, 2)))
    world.advance(1_000)
    if trimmed:
        world.journal.log_start_offset = world.journal.end - 2
    world.cut()
    world.model.tree.nodes.clear()
    world.model.tree.nodes.update(older)
    restarted(world)
    if trimmed:
        assert waiting(world) == {(Why.OTHER_LOG, "/migration")}
        assert "our log holds the newest metadata" in text(world)
        assert "delete /kraft_bridge, and ZooKeeper is made equal" in text(world)
        world.remove("/kraft_bridge")
    goes_on(world)
    assert "/brokers/topics/later-2" in world.paths


def test_our_own_znode_in_the_format_of_a_later_release() -> None:
    world = dual_write()
    ours = world.data("/kraft_bridge")
    world.put("/kraft_bridge", msgspec.json.encode({"format": 2, "claims": []}))
    assert waiting(restarted(world)) == {(Why.MIGRATION_ZNODE, "/kraft_bridge")}
    assert "format 2 is of a later release: start the controller with that one" in text(world)
    world.put("/kraft_bridge", ours)  # what the later release went on from
    goes_on(world)


def test_our_own_znode_was_deleted_before_the_claim_was_read_back() -> None:
    world = dual_write()
    submit, claims = world.zk.submit, []

    def submitted(tag: object, request: object, now_ms: int) -> list[Effect]:
        if isinstance(request, Multi) and not checks(request.ops):
            claims.append(request)
        elif isinstance(request, MultiRead) and claims:
            world.remove("/kraft_bridge")
        return submit(tag, request, now_ms)

    world.zk.submit = submitted  # type: ignore[method-assign, assignment]
    world.journal.epoch += 1
    world.journal.append([r.NoOpRecord()], world.now_ms)
    world.perform(world.driver.became_leader(world.journal.epoch, world.now_ms))
    world.settle()
    del world.zk.submit
    world.advance(10_000)
    assert len(claims) == 1
    assert waiting(world) == {(Why.CONTROLLER_HELD, "/controller")}
    assert "/kraft_bridge, which says which process made this claim, does not exist" in text(world)
    assert "restart this controller" in text(world)
    restarted(world)
    goes_on(world)


@pytest.mark.parametrize("starts", [1, 4])
def test_zookeeper_was_restored_and_brokers_know_the_claims_made_since(starts: int) -> None:
    """They refuse requests of an older epoch than they know."""
    world = dual_write()
    older = deepcopy(world.model.tree.nodes)
    for _ in range(starts):
        restarted(world)
    known = int(world.data("/controller_epoch") or b"")
    world.cut()
    world.model.tree.nodes.clear()
    world.model.tree.nodes.update(older)
    restarted(world)
    goes_on(world)
    assert int(world.data("/controller_epoch") or b"") == known + 1


def test_the_terms_since_do_not_lead_beyond_the_last_epoch() -> None:
    world = dual_write()
    mine = msgspec.json.decode(world.data("/kraft_bridge"))
    world.put("/kraft_bridge", msgspec.json.encode({**mine, "zk_epoch": 2**31 - 2}))
    world.put("/controller_epoch", str(2**31 - 2).encode())
    world.journal.epoch += 5
    restarted(world)
    assert world.data("/controller_epoch") == str(2**31 - 1).encode()


def test_a_term_that_nobody_can_have_written_does_not_use_the_epochs_up() -> None:
    world = dual_write()
    mine = msgspec.json.decode(world.data("/kraft_bridge"))
    world.put("/kraft_bridge", msgspec.json.encode({**mine, "kraft_epoch": -(2**31)}))
    restarted(world)
    goes_on(world)
    assert int(world.data("/controller_epoch") or b"") < 10


def test_brokers_know_an_epoch_that_zookeeper_has_forgotten_with_our_znode() -> None:
    """What the broker is told is refused, and ``/status`` names it until it is told otherwise."""
    world = dual_write()
    world.broker_errors[1] = ErrorCode.STALE_CONTROLLER_EPOCH
    world.append(*world.topic("told", bytes([100]) * 16, (1, 2)))
    world.advance(1_000)
    (found,) = world.driver.channels.outdated.waiting
    assert (found.reason.why, found.reason.subject) == (Why.STALE_CONTROLLER_EPOCH, "1")
    assert "knows a controller epoch above ours (2)" in found.reason.text
    assert found.reason.fatal
    world.cut()
    world.put("/controller_epoch", b"40")
    restarted(world)
    goes_on(world)
    assert world.data("/controller_epoch") == b"41"
    world.broker_errors.clear()
    world.append(*world.topic("again", bytes([101]) * 16, (1, 2)))
    world.advance(1_000)
    assert world.driver.channels.outdated.waiting == ()


def test_a_broker_that_leaves_is_outdated_no_more() -> None:
    world = dual_write()
    world.broker_errors[1] = ErrorCode.STALE_CONTROLLER_EPOCH
    world.append(*world.topic("told", bytes([100]) * 16, (1, 2)))
    world.advance(1_000)
    assert world.driver.channels.outdated.waiting != ()
    world.perform(world.driver.channels.close())
    assert world.driver.channels.outdated.waiting == ()


@pytest.mark.parametrize("elected", [False, True])
def test_zookeeper_was_restored_from_before_the_migration(elected: bool) -> None:
    """It knows nothing of a migration, and brokers may have elected a controller there."""
    world = ready_world()
    before = deepcopy(world.model.tree.nodes)
    world.advance(1_000)
    world.append(*world.topic("later", bytes([100]) * 16, (1, 2)))
    world.advance(1_000)
    world.cut()
    world.model.tree.nodes.clear()
    world.model.tree.nodes.update(before)
    for path in ("/migration", "/kraft_bridge", "/controller"):
        if path in world.model.tree.nodes:
            world.remove(path)
    if elected:
        world.put("/controller", b'{"version":1,"brokerid":1,"timestamp":"1"}')
    assert waiting(restarted(world)) == {(Why.ZOOKEEPER_MODE_TOOK_OVER, "/controller")}
    assert "/brokers/topics/later" not in world.paths
    said, _, rest = text(world).partition(" by a persistent znode with ")
    assert "replace /controller" in said
    znode, _, _ = rest.partition(", and start")
    world.cut()
    world.put("/controller_epoch", b"40")
    world.put("/controller", znode.encode())
    restarted(world)
    goes_on(world)
    assert "/brokers/topics/later" in world.paths
    assert world.data("/controller_epoch") == b"41"
