"""One controller: a restart without the flag finalises, if the one with it has left its mark."""

from __future__ import annotations

import pytest

from emulator.metadata.errors import ActivationRefusedError
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MarkKind, MigrationState
from emulator.migration.states import State
from emulator.node import introspection
from emulator.node.readiness import not_ready_because
from emulator.seam import Connect, Effect, Halt
from emulator.trace import metrics as metric
from emulator.trace.exposition import exposition
from emulator.znodes import migration
from tests.unit.node.test_machine import World, dual_writing
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode
from wire.frame import decode_response
from wire.record_serde import decode_record

OFF = {"zookeeper.metadata.migration.enable": "false"}


class Dialling(World):
    """Notes whom the node dials."""

    dialled: tuple[str, ...] = ()

    def perform(self, effects: list[Effect]) -> None:
        self.dialled += tuple(one.host for one in effects if isinstance(one, Connect))
        super().perform(effects)


def stopped(world: World) -> World:
    """Stop in order, with ZooKeeper there."""
    world.perform(world.node.shutdown(world.now_ms))
    world.advance(1_000)
    assert world.halt == Halt(0, "everything committed is in ZooKeeper")
    return world


def without_flag(before: World, **more: str) -> Dialling:
    world = Dialling(before.files, **OFF, **more)
    world.advance(300)
    return world


def state(world: World) -> MigrationState:
    return world.node.controller.stable.migration_state


def image(world: World) -> Image:
    return world.node.controller.stable


def gauge(world: World) -> tuple[int, int]:
    """The state of the migration and the metadata type, as the gauges show them."""
    found = introspection.metrics(world.node, world.now_ms)
    text = exposition(found, active=True)
    assert not [one.value for one in State if one.value in text]
    return found[metric.ZK_MIGRATION_STATE], found[metric.METADATA_TYPE]


def finals(world: World) -> int:
    """How often the final record stands in the log."""
    raft = world.node.raft
    return sum(
        decode_record(value)[0] == r.ZkMigrationStateRecord(zk_migration_state=3)
        for batch in raft.read(0, raft.log_end_offset - 1)
        if not batch.is_control
        for _, value in batch.records
    )


@pytest.mark.requirement("F07", "F09")
def test_a_restart_without_the_flag_finalises_and_asks_zookeeper_nothing() -> None:
    before = stopped(dual_writing())
    world = without_flag(before)
    assert state(world) is MigrationState.POST_MIGRATION
    assert world.node.active
    assert world.dialled == ()
    assert finals(world) == 1


@pytest.mark.requirement("M02", "S05", "U09")
def test_final_is_final_with_and_without_the_flag() -> None:
    world = without_flag(stopped(dual_writing()))
    for flag in ("false", "true", "true", "false"):
        world.stop()
        flagged = {"zookeeper.metadata.migration.enable": flag}
        world = Dialling(world.files, **flagged)
        world.advance(3_000)
        assert state(world) is MigrationState.POST_MIGRATION
        assert gauge(world) == (3, 2)
        assert world.node.active
        assert not_ready_because(world.node, world.now_ms) == ""
        assert world.dialled == ()
        told = [line for line in world.logs if line.event == "already finalised"]
        assert [line.level for line in told] == ["error"] * (flag == "true")
        assert finals(world) == 1


def test_the_mark_names_the_claim_and_zookeeper_has_its_offset() -> None:
    world = stopped(dual_writing())
    mark = image(world).mark
    assert mark.kind is MarkKind.LEFT
    assert mark.node_id == 3000
    assert mark.leader_epoch == world.node.raft.leader_epoch
    nodes = world.zookeeper.tree.nodes
    assert nodes["/controller_epoch"].data == str(mark.zk_epoch).encode()
    progress = migration.parse(nodes["/migration"].data)
    assert progress.kraft_metadata_offset == image(world).offset
    assert mark.confirmed_offset < image(world).offset


def test_without_a_mark_it_is_refused_with_the_steps() -> None:
    """A controller that was killed has left none."""
    world = dual_writing()
    with pytest.raises(ActivationRefusedError, match=r"has left no mark.*stop it with SIGTERM"):
        without_flag(world)


def test_a_change_after_the_mark_voids_it() -> None:
    """It may not be in ZooKeeper."""
    before = stopped(dual_writing())
    again = World(before.files, before.zookeeper)
    again.advance(2_000)
    assert image(again).mark is not None
    change = r.ConfigRecord(resource_type=4, resource_name="", name="k", value="v")
    again.node.controller.append([change], again.now_ms)
    again.advance(1_000)
    assert image(again).mark is None
    with pytest.raises(ActivationRefusedError, match="has left no mark"):
        without_flag(again)


@pytest.mark.requirement("F12")
def test_a_broker_in_zookeeper_mode_keeps_it_open() -> None:
    before = stopped(dual_writing())
    again = World(before.files, before.zookeeper)
    again.advance(2_000)
    broker = r.RegisterBrokerRecord(broker_id=7, broker_epoch=5, is_migrating_zk_broker=True)
    again.node.controller.append([broker], again.now_ms)
    again.advance(1_000)
    again.perform(again.node.shutdown(again.now_ms))
    again.advance(1_000)
    with pytest.raises(ActivationRefusedError, match="broker 7 is registered in ZooKeeper mode"):
        without_flag(again)


def test_kafkas_rule_finalises_at_once_whatever_is_missing() -> None:
    world = without_flag(dual_writing(), **{"kraftbridge.finalization": "kafka"})
    assert state(world) is MigrationState.POST_MIGRATION
    assert finals(world) == 1


def test_a_hold_serves_and_keeps_it_open_until_it_is_released() -> None:
    before = stopped(dual_writing())
    world = without_flag(before, **{"kraftbridge.finalise.hold": "true"})
    world.advance(10_000)
    assert state(world) is MigrationState.MIGRATION
    assert world.node.active
    change = r.ConfigRecord(resource_type=4, resource_name="", name="k", value="v")
    world.node.controller.append([change], world.now_ms)
    world.advance(1_000)
    mark = image(world).mark
    assert mark.kind is MarkKind.CONTINUED
    world.node.release_hold()
    world.advance(10)
    assert state(world) is MigrationState.POST_MIGRATION
    assert finals(world) == 1


def test_a_held_one_goes_on_after_a_restart_and_a_snapshot() -> None:
    before = stopped(dual_writing())
    hold = {"kraftbridge.finalise.hold": "true", "metadata.log.max.snapshot.interval.ms": "1000"}
    world = without_flag(before, **hold)
    change = r.ConfigRecord(resource_type=4, resource_name="", name="k", value="v")
    world.node.controller.append([change], world.now_ms)
    world.advance(5_000)
    assert world.node.raft.latest_snapshot is not None
    again = without_flag(world)
    assert state(again) is MigrationState.POST_MIGRATION


def test_from_a_hold_the_way_back_to_dual_write_is_open() -> None:
    """What was changed meanwhile is written to ZooKeeper by the next controller with the flag."""
    before = stopped(dual_writing())
    held = without_flag(before, **{"kraftbridge.finalise.hold": "true"})
    change = r.ConfigRecord(resource_type=4, resource_name="", name="k", value="v")
    held.node.controller.append([change], held.now_ms)
    held.advance(1_000)
    assert "/config/brokers/<default>" not in before.zookeeper.tree.nodes
    again = World(held.files, before.zookeeper)
    again.advance(3_000)
    assert "/config/brokers/<default>" in before.zookeeper.tree.nodes
    stopped(again)
    assert image(again).mark is not None


@pytest.mark.requirement("F10")
@pytest.mark.parametrize("flag", ["true", "false"])
def test_a_broker_in_zookeeper_mode_is_refused_for_good(flag: str) -> None:
    world = without_flag(stopped(dual_writing()))
    world.stop()
    world = Dialling(world.files, **{"zookeeper.metadata.migration.enable": flag})
    world.advance(300)
    kind = m.BrokerRegistrationRequest
    request = kind(
        broker_id=1,
        cluster_id=world.node.cluster_id,
        incarnation_id=b"i" * 16,
        listeners=[kind.Listener(name="PLAINTEXT", host="broker", port=9092)],
        features=[
            kind.Feature(
                name="metadata.version", min_supported_version=21, max_supported_version=21
            )
        ],
        is_migrating_zk_broker=True,
        log_dirs=[b"d" * 16],
    )
    world.call(request, 62, 4)
    (answer,) = world.answers
    found = decode_response(62, 4, answer[4:])[1]
    assert found.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.requirement("S01", "S03")
def test_a_gauge_shows_the_states_of_the_log_and_nothing_internal() -> None:
    """Pre-migration from its first election on: no broker has registered."""
    never, before, migrating = World(**OFF), World(), dual_writing()
    for world in (never, before):
        world.advance(300)
    shown = [gauge(each) for each in (never, before, migrating)]
    shown.append(gauge(without_flag(stopped(migrating))))
    assert shown == [(0, 2), (2, 1), (1, 3), (3, 2)]
