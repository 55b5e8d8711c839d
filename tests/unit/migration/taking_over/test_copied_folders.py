"""Folders that are not the one that went on: backups of any age, clones; and those that are.

Nothing is written to ZooKeeper by one that is refused, however often it is started.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.migration.dual_write.modes import Mode
from emulator.migration.states import State
from emulator.migration.taking_over.preconditions import Why
from emulator.seam import Effect, Log
from emulator.zookeeper.ops import Multi
from tests.unit.migration.journal import Journal
from tests.unit.migration.stories import (
    TOPIC_A,
    B,
    put_topic,
    ready_world,
    restart,
    waiting,
    waiting_world,
)
from tests.unit.migration.world import World, checks, differences
from wire import records as r

C = b"C" * 16
REFUSED = [{(Why.CONTROLLER_HELD, "/controller")}, {(Why.OTHER_LOG, "/migration")}]


def started(folder: Journal, beside: World) -> World:
    """A process on another folder, over the same ZooKeeper."""
    world = World(beside=beside, journal=folder)
    world.journal.epoch += 1
    if folder.history.begin is not None:
        # As every controller does when it becomes active.
        folder.append([r.AbortTransactionRecord(reason="restarted")], world.now_ms)
    folder.append([r.NoOpRecord()], world.now_ms)
    return world.start()


def versions(world: World) -> dict[str, int]:
    return {path: node.version for path, node in world.model.tree.nodes.items()}


def text(world: World) -> str:
    (found,) = world.driver.status(world.now_ms).waiting
    return found.reason.text


def cloned(**settings: object) -> tuple[World, Journal]:
    """A cluster in dual write, and a copy of its folder taken then."""
    world = ready_world(**settings)
    world.reach(State.DUAL_WRITE, 1_000)
    return world, world.journal.backup()


def before_the_migration(world: World) -> Journal:
    return world.journal.backup()


def in_the_middle_of_the_copy(world: World) -> Journal:
    append, copies = world.journal.append, []

    def copying(records: list[object], now_ms: int, *, atomic: bool = True) -> int:
        if isinstance(records[0], r.TopicRecord) and not copies:
            del world.journal.append
            copies.append(world.journal.backup())
            world.journal.append = append  # type: ignore[method-assign]
        return append(records, now_ms, atomic=atomic)

    world.journal.append = copying  # type: ignore[method-assign]
    world.register(2)
    world.advance(1_000)
    return copies[0]


def in_dual_write(world: World) -> Journal:
    world.register(2)
    world.reach(State.DUAL_WRITE, 1_000)
    return world.journal.backup()


AGES = [before_the_migration, in_the_middle_of_the_copy, in_dual_write]


@pytest.mark.parametrize("taken", AGES)
@pytest.mark.parametrize("starts_since", [0, 1, 4])
def test_a_backup_of_any_age_is_refused_at_every_start(
    taken: Callable[[World], Journal], starts_since: int
) -> None:
    world = waiting_world(migration_min_batch_size=1)
    world.start(1)
    backup = taken(world)
    world.register(2)
    world.advance(1_000)
    for _ in range(starts_since):
        world = restart(world)
        world.reach(State.DUAL_WRITE, 1_000)
    world.append(*world.topic("acknowledged", B, (1, 2)))
    world.advance(1_000)
    world.cut()
    before = versions(world)
    old = started(backup, world)
    for start in range(starts_since + 4):
        if start:
            restart(old)
        # Its log grows past what ZooKeeper stands at, in whatever epoch it is.
        for _ in range(60):
            old.append(r.NoOpRecord())
            old.advance(100)
        for broker in (1, 2):
            old.register(broker)
        old.advance(5_000)
        assert waiting(old) in REFUSED, start
        assert "start the controller with the folder that was used last" in text(old)
        assert versions(old) == before
    assert waiting(old) == REFUSED[1], "the epochs have long passed the other's"
    assert "/brokers/topics/acknowledged" in old.paths


@pytest.mark.requirement("U02")
def test_the_folder_that_went_on_is_claimed_from_after_the_others_were_refused() -> None:
    world, backup = cloned()
    world.append(*world.topic("later", B, (1, 2)))
    world.advance(1_000)
    world.cut()
    old = started(backup, world)
    old.advance(5_000)
    assert waiting(old) in REFUSED
    old.cut()
    went_on = started(world.journal, old)
    went_on.advance(1_000)
    assert went_on.driver.state is State.DUAL_WRITE, "as if moved to another machine"
    assert differences(went_on) == {}


def holding_its_claim(world: World, kraft_epoch: int) -> list[int]:
    """From the claim on nothing of ``world`` reaches ZooKeeper; returns how often it claimed."""
    submit, claims = world.zk.submit, []

    def submitted(tag: object, request: object, now_ms: int) -> list[Effect]:
        if isinstance(request, Multi) and not checks(request.ops):
            claims.append(kraft_epoch)
            world.held = [] if world.held is None else world.held
        return submit(tag, request, now_ms)

    world.zk.submit = submitted  # type: ignore[method-assign, assignment]
    return claims


@pytest.mark.requirement("E09", "W05")
@pytest.mark.parametrize("lost", [False, True])
def test_of_two_clones_started_at_once_one_writes(lost: bool) -> None:
    """Same id, same next epoch: both have sent their claim; one is applied."""
    world, folder = cloned()
    world.cut()
    second = World(beside=world, journal=folder)
    second.journal.epoch += 1
    second.journal.append([r.NoOpRecord()], second.now_ms)
    claims = holding_its_claim(second, second.journal.epoch)
    second.start()
    assert claims == [2]
    first = started(world.journal, world)
    first.reach(State.DUAL_WRITE, 1_000)
    if lost:
        late, second.held = second.held, None
        second.cut()
        for conn, data in late or []:
            second.model.received(conn, data, second.now_ms)
            second.model.run(second.now_ms)
    second.release()
    before = versions(first)
    for name, topic_id, one in (("first", B, first), ("second", C, second)):
        one.append(*one.topic(name, topic_id, (1, 2)))
    second.reach(State.BECOME_CONTROLLER, 60_000)
    assert waiting(second) == REFUSED[0]
    assert "another process with our id" in text(second)
    assert second.driver.write_behind.mode is Mode.STOPPED
    assert second.driver.claim_count == 0
    first.reach(State.DUAL_WRITE, 70_000)
    assert "/brokers/topics/second" not in first.paths
    assert versions(first)["/controller_epoch"] == before["/controller_epoch"]
    assert differences(first) == {}


@pytest.mark.requirement("E09", "W05")
def test_a_clone_started_later_is_refused_while_the_first_lives_and_after() -> None:
    original, folder = cloned()
    original.cut()
    first = started(original.journal, original)
    first.advance(1_000)
    second = started(folder, first)
    second.advance(2_000)
    assert waiting(second) == REFUSED[0]
    first.advance(2_000)
    first.append(*first.topic("first", B, (1, 2)))
    restart(second)
    second.advance(2_000)
    assert waiting(second) == REFUSED[1], "its epoch has passed the first one's"
    first.append(*first.topic("later", C, (1, 2)))
    first.reach(State.DUAL_WRITE, 70_000)
    assert differences(first) == {}


def test_a_clone_takes_over_while_nothing_is_in_zookeeper_that_it_does_not_know() -> None:
    """Nobody can know what the first one has in its log only; it is deposed, and then refused."""
    first, folder = cloned()
    first.held = []
    first.append(*first.topic("first-only", B, (1, 2)))
    second = started(folder, first)
    restart(second)
    second.reach(State.DUAL_WRITE, 2_000)
    first.release()
    first.reach(State.INACTIVE, 5_000)
    assert "restart" in first.driver.status(first.now_ms).deposed_because
    for _ in range(3):
        restart(first)
        first.advance(5_000)
        assert waiting(first) in REFUSED
    assert differences(second) == {}


# ------------------------------------------------------------------ what is the same folder
@pytest.mark.requirement("U02", "W07")
@pytest.mark.parametrize("how", ["in flight", "applied", "claim in flight", "claim applied"])
def test_a_process_killed_at_any_point_is_followed_by_the_next(how: str) -> None:
    world, _ = cloned(write_behind_multi_ops=3)
    if how.startswith("claim"):
        restart(world)
        world.advance(1_000)
        claims = holding_its_claim(world, 0)
        world.journal.epoch += 1
        world.journal.append([r.NoOpRecord()], world.now_ms)
        world.perform(world.driver.became_leader(world.journal.epoch, world.now_ms))
        world.settle()
        assert claims
    else:
        world.held = []
        world.append(*world.topic("cut", B, *((1, 2) for _ in range(20))))
        world.advance(10)
        assert world.driver.write_behind.pipeline.in_flight == 2
    if how.endswith("applied"):
        held, world.held = world.held, None
        world.dropping_replies = True
        for conn, data in held or []:
            world.model.received(conn, data, world.now_ms)
            world.model.run(world.now_ms)
    world.held, world.zk_up = None, False
    epoch = world.version("/controller_epoch")
    restart(world)
    world.zk_up = True
    world.reach(State.DUAL_WRITE, 5_000)
    assert world.version("/controller_epoch") == epoch + 1
    assert differences(world) == {}


@pytest.mark.parametrize("level", [8, 14, 21])
def test_restarted_again_and_again_it_claims_each_time(level: int) -> None:
    world = waiting_world(metadata_version=level)
    world.start()
    for broker in (1, 2):
        world.register(broker)
    world.advance(1_000)
    for index in range(5):
        world.append(*world.topic(f"t{index}", bytes([100 + index]) * 16, (1, 2)))
        restart(world)
        world.advance(700 * index)
    world.reach(State.DUAL_WRITE, 2_000)
    assert differences(world) == {}


def test_a_recognised_claim_is_asked_too_what_it_would_delete() -> None:
    world, _ = cloned()
    claims = holding_its_claim(world, 0)
    world.journal.epoch += 1
    world.journal.append([r.NoOpRecord()], world.now_ms)
    world.perform(world.driver.became_leader(world.journal.epoch, world.now_ms))
    world.settle()
    assert claims
    del world.zk.submit
    world.dropping_replies = True
    world.release()
    said = msgspec.json.decode(world.data("/migration"))
    world.put("/migration", msgspec.json.encode({**said, "kraft_metadata_offset": 100_000}))
    world.cut()
    world.advance(5_000)
    assert waiting(world) == REFUSED[1]
    world.put("/migration", msgspec.json.encode(said))
    world.reach(State.DUAL_WRITE, 60_000)
    assert world.data("/controller_epoch") == b"3", "claimed once in this term"


# ------------------------------------------------------------------ older and other writers
def without_identity(world: World) -> None:
    """Our own znode as an earlier release left it."""
    znode = msgspec.json.decode(world.data("/kraft_bridge"))
    del znode["incarnation"], znode["digest"]
    world.put("/kraft_bridge", msgspec.json.encode(znode))


def test_the_znode_of_an_earlier_release_is_gone_on_from() -> None:
    world, _ = cloned()
    without_identity(world)
    restart(world)
    world.reach(State.DUAL_WRITE, 1_000)
    znode = msgspec.json.decode(world.data("/kraft_bridge"))
    assert znode["incarnation"] == world.settings.incarnation
    assert znode["digest"] == world.journal.digest_at(znode["offset"])


def test_a_log_that_kafka_began_and_kept_no_znode_of_ours_is_gone_on_from() -> None:
    world, _ = cloned()
    world.remove("/kraft_bridge")
    restart(world)
    world.reach(State.DUAL_WRITE, 1_000)
    assert differences(world) == {}


def test_without_a_digest_offset_and_epoch_are_compared() -> None:
    world, backup = cloned()
    restart(world)
    world.append(*world.topic("acknowledged", B, (1, 2)))
    world.advance(1_000)
    without_identity(world)
    world.cut()
    before = versions(world)
    old = started(backup, world)
    for _ in range(3):
        old.advance(10_000)
        assert waiting(old) in REFUSED
        restart(old)
    assert versions(old) == before


@pytest.mark.parametrize("recorded", [True, False])
def test_a_log_trimmed_above_what_zookeeper_stands_at(recorded: bool) -> None:
    """This release keeps what it has to compare; an earlier one, or Kafka, did not."""
    world, _ = cloned()
    if not recorded:
        without_identity(world)
    world.held = []
    world.append(*world.topic("t", B, (1, 2)))
    world.held = None
    world.journal.log_start_offset = world.journal.end
    restart(world)
    world.advance(5_000)
    if recorded:
        assert waiting(world) == REFUSED[1]
        assert "keeps the batch at that offset" in text(world)
    else:
        assert world.driver.state is State.DUAL_WRITE
        assert differences(world) == {}


def test_a_trimmed_log_of_older_epochs_is_another_log() -> None:
    world, backup = cloned()
    for _ in range(5):
        restart(world)
        world.advance(1_000)
    without_identity(world)
    world.cut()
    for _ in range(300):
        backup.append([r.NoOpRecord()], world.now_ms)
    backup.log_start_offset = backup.end - 1
    backup.epoch += 10
    old = started(backup, world)
    old.advance(5_000)
    assert waiting(old) == REFUSED[1]
    assert "older epoch" in text(old)


def test_our_own_znode_is_compared_when_migration_was_set_back_by_hand() -> None:
    world, backup = cloned()
    mark = world.data("/migration")
    restart(world)
    world.append(*world.topic("acknowledged", B, (1, 2)))
    world.advance(1_000)
    world.cut()
    world.put("/migration", mark)
    old = started(backup, world)
    for _ in range(3):
        restart(old)
        old.advance(5_000)
    assert waiting(old) == {(Why.OTHER_LOG, "/kraft_bridge")}


def test_a_znode_of_ours_that_holds_rubbish_is_named_with_the_way_out() -> None:
    world, _ = cloned()
    world.put("/kraft_bridge", b"rubbish")
    restart(world)
    world.advance(5_000)
    assert waiting(world) == {(Why.MIGRATION_ZNODE, "/kraft_bridge")}
    assert "delete it" in text(world)
    world.remove("/kraft_bridge")
    world.reach(State.DUAL_WRITE, 60_000)


def test_rolled_back_and_migrated_anew() -> None:
    """Both znodes deleted, or only /migration: what an old log left is not compared with a new."""
    for paths in (("/migration",), ("/migration", "/kraft_bridge")):
        world, _ = cloned()
        world.append(*world.topic("t", B, (1, 2)))
        world.advance(1_000)
        world.cut()
        for path in (*paths, "/controller"):
            world.remove(path)
        world.put("/controller_epoch", b"9")
        world.put("/controller", b'{"version":2,"brokerid":1,"kraftControllerEpoch":-1}')
        anew = World(beside=world, journal=Journal())
        anew.bootstrap()
        anew.start()
        for broker in (1, 2):
            anew.register(broker)
        anew.advance(2_000)
        assert anew.driver.state is State.DUAL_WRITE, waiting(anew)
        assert anew.journal.stable.migration_state is MigrationState.MIGRATION
        assert differences(anew) == {}


def ruled_by_zookeeper(world: World, *deleted: str) -> None:
    """Rolled back: a broker is the controller and has made a topic since."""
    world.cut()
    for path in (*deleted, "/controller"):
        world.remove(path)
    world.put("/controller_epoch", b"9")
    world.put("/controller", b'{"version":2,"brokerid":1,"kraftControllerEpoch":-1}')
    put_topic(world, "since", TOPIC_A.replace(b"QUFB", b"Q0ND"))


def cut_off_from(state: State, world: World) -> None:
    """From a state on nothing of ``world`` reaches ZooKeeper until it is released."""
    logged = world.logged

    def looked_at(line: Log) -> None:
        logged(line)
        if line.fields.get("to") == state.value:
            world.logged, world.held = logged, []  # type: ignore[method-assign]

    world.logged = looked_at  # type: ignore[method-assign]


@pytest.mark.parametrize("deleted", [("/migration",), ("/migration", "/kraft_bridge")])
@pytest.mark.parametrize("starts", [1, 4])
def test_the_old_folder_is_refused_while_the_second_migration_copies(
    starts: int, deleted: tuple[str, ...]
) -> None:
    """Nothing of the new log is in ZooKeeper yet; the old one says MIGRATION, in a later epoch."""
    world, _ = cloned()
    for _ in range(starts):
        restart(world)
        world.advance(1_000)
    ruled_by_zookeeper(world, *deleted)
    anew = World(beside=world, journal=Journal())
    anew.bootstrap()
    anew.start()
    anew.register(1)
    cut_off_from(State.ZK_MIGRATION, anew)
    anew.register(2)
    anew.reach(State.ZK_MIGRATION, 2_000)
    kept = anew.driver.write_behind.keep_from(anew.journal.stable)
    assert kept == 0, "what the claim names must be there for the next one"
    before = versions(anew)
    old = started(world.journal, anew)
    for _ in range(3):
        old.advance(5_000)
        assert waiting(old) == {(Why.OTHER_LOG, "/kraft_bridge")}
        restart(old)
    assert versions(old) == before
    anew.release()
    anew.reach(State.DUAL_WRITE, 10_000)
    assert "/brokers/topics/since" in anew.paths
    assert differences(anew) == {}


def test_a_backup_is_refused_after_a_claim_of_which_nothing_is_written_yet() -> None:
    """/migration was deleted by mistake, and the next process died before it wrote anything."""
    world, backup = cloned()
    restart(world)
    world.append(*world.topic("acknowledged", B, (1, 2)))
    world.advance(1_000)
    world.cut()
    world.remove("/migration")
    cut_off_from(State.SYNC_KRAFT_TO_ZK, world)
    restart(world)
    said = msgspec.json.decode(world.data("/migration"))
    assert said["kraft_metadata_offset"] == -1
    world.held = None
    world.cut()
    old = started(backup, world)
    for _ in range(4):
        restart(old)
        old.advance(5_000)
    assert waiting(old) == {(Why.OTHER_LOG, "/kraft_bridge")}
    assert "/brokers/topics/acknowledged" in old.paths
    went_on = started(world.journal, old)
    went_on.advance(1_000)
    assert went_on.driver.state is State.DUAL_WRITE, waiting(went_on)
    assert differences(went_on) == {}


@pytest.mark.requirement("B07")
@pytest.mark.parametrize("made_again", [True, False])
def test_a_rollback_that_came_to_our_last_epoch_again_is_recognised(made_again: bool) -> None:
    """A rollback deletes the epoch's znode too, and no broker may be elected when we start."""
    world, _ = cloned()
    epoch = world.data("/controller_epoch")
    world.cut()
    world.remove("/controller")
    if made_again:
        world.remove("/controller_epoch")
        world.put("/controller_epoch", epoch)
    put_topic(world, "since", TOPIC_A.replace(b"QUFB", b"Q0ND"))
    restart(world)
    world.advance(5_000)
    assert ("/brokers/topics/since" in world.paths) == made_again
    refused = [why for why, _ in waiting(world)]
    assert refused == ([Why.ZOOKEEPER_MODE_TOOK_OVER] if made_again else [])


@pytest.mark.requirement("E09")
@pytest.mark.parametrize("later", [True, False])
def test_an_older_epoch_does_not_claim_because_somebody_deleted_controller(later: bool) -> None:
    """The next life had claimed, and copied nothing yet, when a paused one went on."""
    world = waiting_world()
    world.start(1)
    backup = world.journal.backup()
    restart(world)
    cut_off_from(State.ZK_MIGRATION, world)
    world.register(1)
    world.register(2)
    world.reach(State.ZK_MIGRATION, 1_000)
    world.remove("/controller")
    before = versions(world)
    old = World(beside=world, journal=backup)
    old.journal.epoch += 2 * later
    old.start()
    for broker in (1, 2):
        old.register(broker)
    old.advance(5_000)
    if later:
        assert old.driver.state is State.DUAL_WRITE
    else:
        assert waiting(old) == {(Why.CONTROLLER_HELD, "/kraft_bridge")}
        assert "/controller was deleted since" in text(old)
        assert versions(old) == before
