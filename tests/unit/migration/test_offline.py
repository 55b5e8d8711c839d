"""ZooKeeper made equal to the folder of a stopped controller, as its next leader would."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulator.metadata.configs import TOPIC
from emulator.migration import offline as module
from emulator.migration.dual_write.comparison import Comparison
from emulator.migration.offline import (
    NEXT,
    WATCH_MS,
    OfflineEvent,
    OfflineReconcile,
    OfflineStage,
    unwanted,
)
from emulator.migration.states import State
from emulator.seam import Closed
from emulator.znodes import controller, own
from emulator.zookeeper.ops import Delete
from tests.kit.tables import Watched, check_pairs
from tests.unit.migration.dual_write.test_comparison import FOREIGN, kinds, tamper, world_of
from tests.unit.migration.offline_stage import KilledError, Offline
from tests.unit.migration.stories import restart
from tests.unit.migration.test_write_behind import config
from tests.unit.migration.world import World, differences, migration_offset
from wire import records as r

C = b"C" * 16


def stopped(world: World) -> World:
    """Its process ends."""
    world.cut()
    return world


def offline(world: World, *, dry_run: bool = False) -> Offline:
    return Offline(world, dry_run=dry_run).run()


def tree(world: World) -> dict[str, tuple[bytes | None, int]]:
    return {path: (node.data, node.version) for path, node in world.model.tree.nodes.items()}


def test_a_dry_run_names_what_differs_and_changes_no_znode() -> None:
    world = stopped(world_of())
    tamper(world)
    before = tree(world)
    found = offline(world, dry_run=True).machine
    assert (found.why, kinds(found.comparison)) == ("", FOREIGN)
    assert not found.claimed
    assert tree(world) == before


def test_what_differs_is_written_and_nothing_else_and_the_claim_is_a_leaders() -> None:
    world = stopped(world_of())
    tamper(world)
    before = tree(world)
    found = offline(world).machine
    assert (found.why, kinds(found.comparison)) == ("", FOREIGN)
    assert differences(world) == {}
    touched = {path for path, node in tree(world).items() if before.get(path) != node}
    chain = {"/controller", "/controller_epoch", "/kraft_bridge", "/migration"}
    notified = {path for path in touched if path.startswith("/config/changes/")}
    # A user's znode stays, and says that nothing is left.
    assert touched - notified - chain == set(FOREIGN) - {"/brokers/topics/ghost"}
    assert migration_offset(world) == world.journal.stable.offset
    holder = controller.parse(world.data("/controller"))
    assert (holder.broker_id, holder.kraft_epoch) == (3000, world.journal.epoch)
    assert int(world.data("/controller_epoch") or 0) == int(before["/controller_epoch"][0] or 0) + 1
    before = tree(world)
    assert offline(world).machine.comparison.equal
    assert {path for path, node in tree(world).items() if before[path] != node} == chain


def test_the_next_leader_goes_on_after_it() -> None:
    world = stopped(world_of())
    tamper(world)
    offline(world)
    after = restart(world)
    after.advance(2_000)
    assert after.driver.state is State.DUAL_WRITE, after.logs[-3:]
    after.append(config(TOPIC, "a", "retention.ms", "11"))
    after.advance(2_000)
    assert differences(after) == {}


def test_the_next_leader_goes_on_after_one_that_was_killed_at_any_request() -> None:
    """Also if its last request has arrived."""
    requests = Offline(_tampered()).run().requests
    for last in range(1, requests + 1):
        world = _tampered()
        one = Offline(world)

        def dies(request: int, last: int = last) -> None:
            if request == last:
                raise KilledError

        one.before = dies
        with pytest.raises(KilledError):
            one.run()
        if last % 2:
            again = offline(world).machine
            assert again.why == ""
            assert differences(world) == {}
        after = restart(world)
        after.advance(3_000)
        assert after.driver.state is State.DUAL_WRITE, (last, after.logs[-3:])
        assert differences(after) == {}


def _tampered() -> World:
    world = stopped(world_of())
    tamper(world)
    return world


@pytest.mark.requirement("Z03")
@pytest.mark.parametrize("recover", ["offline", "by the next leader"])
@pytest.mark.parametrize("cut", range(0, 26, 2))
def test_create_cut_after_any_operation_delete_recover_leaves_equal_trees(
    cut: int, recover: str
) -> None:
    """A multi holds one operation here, and the rest of them never arrive."""
    world = World(write_behind_multi_ops=1).dual_write()
    seen = 0
    submit = world.zk.submit

    def cut_off(tag, request, now_ms):  # type: ignore[no-untyped-def]
        nonlocal seen
        seen += hasattr(request, "ops")
        return submit(tag, request, now_ms) if seen <= cut else []

    world.zk.submit = cut_off  # type: ignore[method-assign]
    world.append(*world.topic("c", C, (1, 2), (2, 1), (1,)), config(TOPIC, "c", "k", "v"))
    world.append(config(4, "1", "k", "v"))
    world.journal.append([r.RemoveTopicRecord(topic_id=C)], world.now_ms)
    world.journal.high_watermark = world.journal.end
    world.journal.history.advance(world.journal.end)
    stopped(world)
    if recover == "offline":
        assert offline(world).machine.why == ""
    else:
        world = restart(world)
        world.advance(3_000)
    assert differences(world) == {}
    assert "/brokers/topics/c" not in world.paths
    assert migration_offset(world) == world.journal.stable.offset


def _nobody(world: World) -> None:
    world.remove("/controller")


def _other_log(world: World) -> None:
    """The folder is an old copy: ZooKeeper has more."""
    old = world.journal.backup()
    world.append(*world.topic("later", C, (1,)))
    world.advance(2_000)
    world.journal = old


def _newer_claim(world: World) -> None:
    world.put("/controller", controller.encode(3001, world.journal.epoch + 1, 0))


def _clone(world: World) -> None:
    """Another process with this id has claimed in the next epoch."""
    world.put("/controller", controller.encode(3000, world.journal.epoch + 1, 0))


def _zookeeper_mode(world: World) -> None:
    world.put(
        "/controller", b'{"version":2,"brokerid":1,"timestamp":"5","kraftControllerEpoch":-1}'
    )
    world.put("/controller_epoch", b"50")


def _other_cluster(world: World) -> None:
    world.put("/cluster/id", b'{"version":"1","id":"AAAAAAAAAAAAAAAAAAAAAA"}')


def _no_epoch(world: World) -> None:
    world.model.tree.write(Delete("/controller_epoch"), 1, world.now_ms)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_nobody, "/controller does not exist: somebody has deleted it, as a rollback does"),
        (_other_log, "our log ends before it. ZooKeeper follows another log"),
        (_newer_claim, "held by KRaft controller 3001 in epoch 2"),
        (_clone, "another process with our id has claimed the cluster"),
        (_zookeeper_mode, "the cluster was rolled back: /controller is held by broker 1"),
        (_other_cluster, "ZooKeeper belongs to cluster AAAAAAAAAAAAAAAAAAAAAA"),
        (_no_epoch, "/controller_epoch does not exist"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_what_a_leader_would_refuse_is_refused_by_name(
    spoil: Callable[[World], None], why: str, dry_run: bool
) -> None:
    world = world_of()
    spoil(world)
    stopped(world)
    tamper(world)
    before = tree(world)
    found = offline(world, dry_run=dry_run).machine
    assert why in found.why
    assert tree(world) == before


def test_it_is_refused_while_a_controller_writes() -> None:
    """Its folder may be a clone: neither its lock nor its address shows that."""
    world = stopped(world_of())
    one = Offline(world)
    before = world.data("/kraft_bridge")

    def works(stage: OfflineStage) -> None:
        if stage is OfflineStage.WATCH:
            world.put("/migration", world.data("/migration"))

    one.meanwhile = works
    one.run()
    assert "a controller is at work" in one.machine.why
    assert not one.machine.claimed
    assert world.data("/kraft_bridge") == before


def test_who_claims_meanwhile_is_not_fenced_again() -> None:
    world = stopped(world_of())
    one = Offline(world)

    def claims(stage: OfflineStage) -> None:
        if stage is OfflineStage.CLAIM:
            restart(world).advance(1_000)

    one.meanwhile = claims
    one.run()
    assert "held by KRaft controller 3000" in one.machine.why
    world.reach(State.DUAL_WRITE, 2_000)


def test_a_leader_that_is_at_work_all_the_same_is_fenced_and_says_so() -> None:
    """One that cannot write anything for three seconds is not seen."""
    world = world_of()
    found = offline(world).machine
    assert found.why == ""
    world.append(config(TOPIC, "a", "retention.ms", "12"))
    world.advance(2_000)
    assert "has claimed the cluster" in world.driver.status(world.now_ms).deposed_because
    assert own.parse(world.data("/kraft_bridge")).incarnation.startswith("offline")


def test_zookeeper_that_is_away_is_said_in_time() -> None:
    world = stopped(world_of())
    world.zk_up = False
    found = Offline(world, timeout_ms=4_000).run().machine
    assert "no session with ZooKeeper" in found.why
    assert not found.reachable


def test_a_reading_goes_on_after_a_connection_was_lost() -> None:
    world = _tampered()
    one = Offline(world, dry_run=True)
    lost: list[int] = []

    def cut(stage: OfflineStage) -> None:
        if stage is OfflineStage.READ and not lost:
            lost.append(one.conn)
            world.model.disconnected(one.conn)
            one.take([Closed(one.conn, "cut")])

    one.meanwhile = cut
    found = one.run().machine
    assert (len(lost), found.why, kinds(found.comparison)) == (1, "", FOREIGN)


def test_a_time_that_is_over_names_what_it_was_too_short_for() -> None:
    world = stopped(world_of())
    began_ms = world.now_ms
    found = Offline(world, timeout_ms=WATCH_MS - 1).run().machine
    assert found.why == (
        "the time is over: it did not come to an end of this: wait whether somebody writes"
    )
    assert (found.reachable, found.claimed) == (True, False)
    assert world.now_ms == began_ms + WATCH_MS - 1


def test_a_znode_that_zookeeper_refuses_is_named_and_the_rest_stays() -> None:
    world = stopped(world_of())
    tamper(world)
    world.model.tree.read_only.add("/config/topics/a")
    found = offline(world).machine
    assert "/config/topics/a" in found.why
    assert found.claimed


def test_the_states_of_a_log_that_is_not_to_be_written() -> None:
    from emulator.metadata.migration_state import MigrationState

    assert [state for state in MigrationState if not unwanted(state)] == [MigrationState.MIGRATION]


def _locked(world: World) -> None:
    world.model.tree.locked.add("/config/brokers")


def _read_only(world: World) -> None:
    world.model.tree.read_only.add("/config/topics/a")


def _ends(
    spoil: Callable[[World], None] = lambda _world: None,
    at: OfflineStage | None = None,
    *,
    dry_run: bool = False,
    end: OfflineEvent | None = None,
) -> OfflineReconcile:
    """One that ends; ``spoil`` comes when the stage begins, or with None before the first one.

    ``end``: it is interrupted there, or its time is over.
    """
    one = Offline(world := _tampered(), dry_run=dry_run)
    machine = one.machine

    def begins(stage: OfflineStage | None) -> None:
        if stage is not at:
            return
        spoil(world)
        if end is not None:
            assert machine.stage is (stage or OfflineStage.LOOK)
            late = end is OfflineEvent.TIMED_OUT
            machine.step([], 10**9) if late else machine.shutdown(world.now_ms)

    one.meanwhile = begins
    begins(None)
    one.run()
    return machine


def test_every_row_of_the_table_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Watched(monkeypatch, module)
    for dry_run in (False, True):
        assert _ends(dry_run=dry_run).why == ""
    for at in (None, OfflineStage.LOOK_AGAIN, OfflineStage.CLAIM):
        assert "held by KRaft controller 3001" in _ends(_newer_claim, at).why
    assert "NO_AUTH" in _ends(_locked, OfflineStage.READ, dry_run=True).why
    assert "NO_AUTH" in _ends(_read_only, OfflineStage.WRITE).why
    short = Offline(stopped(world_of()), timeout_ms=WATCH_MS - 1).run().machine
    assert short.why.endswith(OfflineStage.WATCH.value)
    # A large tree is compared in more than one step.
    monkeypatch.setattr(Comparison, "step", lambda _comparison: None)
    for stage in set(OfflineStage) - {OfflineStage.ENDED}:
        at = None if stage is OfflineStage.LOOK else stage
        dry_run = stage in {OfflineStage.READ, OfflineStage.COMPARE}
        for end in (OfflineEvent.TIMED_OUT, OfflineEvent.INTERRUPTED):
            assert _ends(at=at, dry_run=dry_run, end=end).stage is OfflineStage.ENDED
    again = _ends(end=OfflineEvent.INTERRUPTED)
    again.shutdown(0)
    assert again.stage is OfflineStage.ENDED
    assert not table.unreached


def test_every_pair_that_is_not_in_the_table_is_refused() -> None:
    machine = Offline(stopped(world_of())).machine

    def after(stage: OfflineStage, event: OfflineEvent) -> OfflineStage:
        machine.stage = stage
        machine._enter(event, 0)
        return machine.stage

    check_pairs(NEXT, OfflineStage, OfflineEvent, after)
