"""Logs that are elsewhere, and what others do between the look, the stop and the release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.migration.tree_diff import Difference
from emulator.operations.preflight.engine import Severity
from emulator.operations.rollback import release
from emulator.operations.rollback.course import Course, Wanted, roll_back
from emulator.operations.rollback.phases import RollbackPhase
from emulator.znodes import cluster, controller, migration
from emulator.zookeeper.ops import Delete, Multi, SetData
from tests.unit.operations.rollback.model import (
    EPOCH,
    LOG_EPOCH,
    OFFSET,
    QUORUM,
    ModelCluster,
    claimed,
    copying,
    dual_write,
    pre_migration,
)
from tests.unit.operations.rollback.test_course import codes, is_back


def held(world: ModelCluster) -> bool:
    return world.holder is not None and world.holder.kraft_epoch >= 0


@pytest.mark.parametrize("up", [[*QUORUM], []])
@pytest.mark.parametrize(
    ("quorum", "elsewhere", "voters", "enough"),
    [
        (QUORUM, QUORUM[1:], 0, False),
        (QUORUM, QUORUM[2:], 0, True),
        (QUORUM[:1], (), 3, False),
        (QUORUM[:2], (), 3, True),
        (QUORUM[:2], (), 4, False),
        (QUORUM[:1], QUORUM[:1], 1, False),
    ],
)
def test_it_is_released_only_if_the_logs_of_a_majority_are_read(
    up: list[int],
    quorum: tuple[int, ...],
    elsewhere: tuple[int, ...],
    voters: int,
    enough: bool,
) -> None:
    up = [one for one in up if one in quorum]
    world = dual_write(quorum=quorum, elsewhere=elsewhere, voters=voters, up=[*up])
    course = roll_back(world, Wanted())
    if enough:
        assert (course.refused, course.failed) == ([], "")
        is_back(world)
        return
    assert (codes(course), world.done, world.up) == ({"R06"}, [], up)
    (told,) = [one for one in course.refused if one.code == "R06"]
    for one in elsewhere:
        assert f"that of controller {one} is not here" in told.fact
        assert f"HOST:FOLDER controller-{one}" in told.remedy
    if len(quorum) < voters:
        assert f"{voters - len(quorum)} more are voters, and not given" in told.fact
        assert f"{voters - len(quorum)} more none is given), whose file names" in told.remedy
    course = roll_back(world, Wanted(accept_loss=True))
    assert (course.refused, course.failed) == ([], "")
    assert any("logs which cannot be read here" in one for one in course.did)
    is_back(world)


def test_logs_that_cannot_be_read_at_the_end_keep_controller_where_it_is() -> None:
    world = dual_write(problem="data-3000: damaged")
    course = roll_back(world, Wanted())
    assert "0 of 1 logs could be read, 1 are needed: data-3000: damaged" in course.failed
    assert held(world)


def _frees(world: ModelCluster) -> None:
    world.tree.write(Delete(controller.PATH), 7, 1)


@pytest.mark.parametrize("hook", ["after_look", "after_stop"])
def test_what_is_missing_is_said_also_if_controller_is_deleted_by_somebody_else(hook: str) -> None:
    world = dual_write(quorum=QUORUM, up=[*QUORUM], unwritten=((121, "Topic"),))
    setattr(world, hook, _frees)
    before = world.mine
    course = roll_back(world, Wanted())
    assert "1 record (1 Topic) are not in ZooKeeper" in course.failed
    assert not any("marked" in one for one in course.did)
    assert world.mine == before


def _deleted_by_hand(**more: Any) -> ModelCluster:
    """As Kafka's guide says it, and a broker was elected before the first look."""
    world = dual_write(**more)
    _frees(world)
    world.elect()
    return world


def test_what_was_lost_when_controller_was_deleted_by_hand_is_said_and_can_be_given_up() -> None:
    late = ((121, "Topic"), (122, "Partition"))
    world = _deleted_by_hand(quorum=QUORUM, up=[], unwritten=late)
    course = roll_back(world, Wanted())
    assert (course.phase, codes(course), world.done) == (RollbackPhase.ROLLED_BACK, {"R06"}, [])
    assert "lacked 2 records (1 Partition, 1 Topic) of the log" in course.refused[0].fact
    course = roll_back(world, Wanted(accept_loss=True))
    lost = "gave up 2 records (1 Partition, 1 Topic), because of --accept-loss"
    assert (course.failed, course.did) == ("", [lost, "marked /kraft_bridge"])
    is_back(world)
    again = roll_back(world, Wanted())
    assert (again.findings, again.did, again.failed) == ([], [], ""), (
        "of a marked one no log is read"
    )


def test_of_two_rollbacks_at_once_one_gives_up_what_was_lost() -> None:
    world = _deleted_by_hand(quorum=QUORUM, up=[], unwritten=((121, "Topic"),))
    first: list[Course] = []
    world.after_look = lambda world: first.append(roll_back(world, Wanted(accept_loss=True)))
    second = roll_back(world, Wanted(accept_loss=True))
    assert first[0].did == [
        "gave up 1 record (1 Topic), because of --accept-loss",
        "marked /kraft_bridge",
    ]
    assert (second.failed, second.did) == ("", [])
    assert "somebody else marked /kraft_bridge meanwhile" in str(world.said)


def test_what_runs_yet_after_controller_was_deleted_by_hand_is_to_be_stopped_first() -> None:
    world = _deleted_by_hand(quorum=QUORUM, up=[3001], unwritten=((121, "Topic"),))
    course = roll_back(world, Wanted())
    assert (codes(course), world.done) == ({"R06"}, [])
    assert "controller 3001 still runs" in course.refused[0].fact
    world.up = []
    assert "lacked 1 record (1 Topic)" in roll_back(world, Wanted()).refused[0].fact


def test_logs_elsewhere_when_controller_was_deleted_by_hand_are_named() -> None:
    for world in (
        _deleted_by_hand(quorum=QUORUM, up=[], elsewhere=QUORUM[1:]),
        _deleted_by_hand(up=[], problem="data-3000: damaged"),
    ):
        course = roll_back(world, Wanted())
        (told,) = [one for one in course.findings if one.code == "R06"]
        assert (told.severity, course.refused) == (Severity.WARNING, [])
        where = "controller 3001 is not here" if world.elsewhere else "data-3000: damaged"
        assert where in told.fact
        is_back(world)


def _ends_its_copy(world: ModelCluster) -> None:
    mark = migration.MigrationZnode(3000, LOG_EPOCH, OFFSET, LOG_EPOCH)
    world.tree.write(SetData(migration.PATH, migration.encode(mark)), 7, 1)


def _ends_its_copy_in_the_log(world: ModelCluster) -> None:
    world.state = MigrationState.MIGRATION


def _claims(world: ModelCluster) -> None:
    claimed(world, OFFSET)


def _stays(world: ModelCluster, course: Course, why: str) -> None:
    assert why in course.failed
    assert "run this command again" in course.failed
    assert held(world)
    assert controller.parse_epoch(world.data(controller.EPOCH_PATH)) == EPOCH


@pytest.mark.parametrize(
    ("world", "why"),
    [
        (pre_migration(after_look=_claims), "has claimed /controller meanwhile"),
        (copying(after_look=_ends_its_copy), "the copy has ended meanwhile"),
    ],
)
def test_what_is_not_as_it_was_judged_stops_it_before_a_controller_is(
    world: ModelCluster, why: str
) -> None:
    course = roll_back(world, Wanted(accept_loss=True))
    _stays(world, course, why)
    assert (world.up, world.done) == ([3000], [])
    again = roll_back(world, Wanted())
    assert (again.phase, again.failed) == (RollbackPhase.DUAL_WRITE, "")


@pytest.mark.parametrize("accept_loss", [False, True])
@pytest.mark.parametrize(
    ("world", "why"),
    [
        (lambda: pre_migration(after_stop=_claims), "has claimed /controller meanwhile"),
        (lambda: copying(after_stop=_ends_its_copy), "the copy has ended meanwhile"),
        (lambda: copying(after_stop=_ends_its_copy_in_the_log), "the copy has ended meanwhile"),
        (lambda: dual_write(final=OFFSET + 5), "the migration was finalised meanwhile"),
    ],
)
def test_what_is_not_as_it_was_judged_is_not_released(
    world: object, why: str, accept_loss: bool
) -> None:
    assert callable(world)
    made = world()
    _stays(made, roll_back(made, Wanted(accept_loss=accept_loss)), why)


@pytest.mark.parametrize("made", [copying, dual_write])
def test_not_everything_is_looked_at_again_while_the_cluster_has_no_controller(made: Any) -> None:
    world, looked = made(), []
    look = world.look

    def noted() -> Any:
        looked.append(held(world) and not world.up)
        return look()

    world.look = noted
    assert roll_back(world, Wanted()).failed == ""
    assert looked == [False, False], "before anything is stopped, and when a broker is elected"


def test_one_that_claims_after_a_rollback_is_not_deposed() -> None:
    world = dual_write()
    roll_back(world, Wanted())
    world.tree.nodes.pop(controller.PATH)
    world.tree.nodes["/"].children.discard("controller")

    def claims(world: ModelCluster) -> None:
        world.put(controller.PATH, controller.encode(4000, 1, 1))

    world.after_look = claims
    course = roll_back(world, Wanted())
    assert (course.phase, held(world)) == (RollbackPhase.RELEASED, True)
    assert "has claimed /controller meanwhile" in course.failed


@pytest.mark.parametrize("accept_loss", [False, True])
def test_a_supervisor_that_starts_a_controller_again_is_noticed_before_the_release(
    accept_loss: bool,
) -> None:
    def restarts(world: ModelCluster) -> None:
        world.up = [3001]

    for made in (copying, dual_write):
        world = made(quorum=QUORUM, after_stop=restarts)
        course = roll_back(world, Wanted(accept_loss=accept_loss))
        assert "controller 3001 was started again" in course.failed
        assert held(world)


def test_a_lag_that_never_ends_is_waited_for_only_once_if_the_loss_is_accepted() -> None:
    changes = ((125, "Topic"), (126, "Partition"))
    world = dual_write(stuck=True, lag=2, poisoned=("/config/topics/a",), unwritten=changes)
    assert codes(roll_back(world, Wanted())) == {"R05"}
    course = roll_back(world, Wanted(accept_loss=True))
    assert course.failed == ""
    assert "gave up 2 records (1 Partition, 1 Topic), because of --accept-loss" in course.did
    is_back(world)


def test_what_another_rollback_did_first_is_not_said_to_be_done() -> None:
    world = dual_write(unwritten=((125, "Topic"),))
    mine = world.commit

    def late(multi: Multi) -> bool:
        assert mine(multi), "the other one's"
        return mine(multi)

    world.commit = late  # type: ignore[method-assign]
    course = roll_back(world, Wanted(accept_loss=True))
    assert (course.failed, course.did) == ("", ["stopped controller 3000"])
    assert (course.controller, course.without_controller_ms) == (0, None)
    assert world.said[-1].startswith("somebody else marked /kraft_bridge")
    is_back(world)


def test_a_release_whose_answer_was_lost_is_said_with_that_doubt() -> None:
    world = dual_write()
    mine = world.commit

    def lost(multi: Multi) -> None:
        assert mine(multi)

    world.commit = lost  # type: ignore[method-assign,assignment]
    course = roll_back(world, Wanted())
    assert course.did[-1].startswith("deleted /controller, marked /kraft_bridge (or somebody else")
    is_back(world)


LATE = [f"{cluster.DELETE_TOPICS}/{name}" for name in ("orders", "was-there-once")]


def late(world: ModelCluster) -> ModelCluster:
    """A broker that did not know the KRaft controller yet was asked to delete topics."""
    for path in LATE:
        world.put(path)
    return world


@pytest.mark.parametrize("up", [[3000], []])
@pytest.mark.parametrize("wanted", [Wanted(), Wanted(accept_loss=True)])
def test_the_broker_that_is_elected_deletes_no_topic_of_the_log(
    up: list[int], wanted: Wanted
) -> None:
    world = late(dual_write(up=[*up]))
    world.differences = [Difference(path, "extra", None, None) for path in LATE]
    course = roll_back(world, wanted)
    assert (course.refused, course.failed) == ([], "")
    assert "dropped the late deletions of the topics orders, was-there-once" in course.did
    is_back(world)
    assert not {*LATE} & world.tree.nodes.keys()
    (told,) = [one for one in course.findings if one.znode == cluster.DELETE_TOPICS]
    assert (told.code, told.severity) == ("R06", Severity.INFO)
    assert "orders, was-there-once" in told.fact


@pytest.mark.parametrize("made", [copying, pre_migration])
def test_before_the_first_comparison_has_ended_pending_deletions_stay(
    made: Callable[[], ModelCluster],
) -> None:
    """Callers of ZooKeeper's controller were promised them."""
    world = late(made())
    course = roll_back(world, Wanted())
    assert (course.refused, course.failed) == ([], "")
    is_back(world)
    assert {*LATE} <= world.tree.nodes.keys()
    assert not [one for one in course.findings if one.znode == cluster.DELETE_TOPICS]


@pytest.mark.parametrize("claims", [0, 1])
def test_after_controller_was_deleted_by_hand_they_go_unless_a_broker_has_claimed(
    claims: int,
) -> None:
    world = late(dual_write(up=[]))
    world.differences = [Difference(path, "extra", None, None) for path in LATE]
    for _ in range(claims):
        _frees(world)
        world.elect()
    _frees(world)
    course = roll_back(world, Wanted())
    if claims:
        assert codes(course) == {"R06"}, "they are in no log"
        course = roll_back(world, Wanted(accept_loss=True))
    assert (course.refused, course.failed) == ([], "")
    is_back(world)
    assert bool({*LATE} & world.tree.nodes.keys()) is bool(claims)


def test_deletions_of_a_broker_that_is_the_controller_again_stay() -> None:
    world = dual_write()
    world.after_stop = lambda world: (_frees(world), world.elect(), late(world))[0]
    course = roll_back(world, Wanted())
    assert (course.refused, course.failed) == ([], "")
    is_back(world)
    assert {*LATE} <= world.tree.nodes.keys()
    assert not any("dropped" in one for one in course.did)


@pytest.mark.parametrize("taken", [False, True])
def test_deletions_that_somebody_else_takes_away_meanwhile_are_read_again(taken: bool) -> None:
    world = late(dual_write())
    read, times = world.deletions, 0

    def deletions() -> list[str]:
        nonlocal times
        times += 1
        found = read()
        if taken and times == 2:
            world.tree.write(Delete(LATE[0]), 7, 1)
        return found

    world.deletions = deletions  # type: ignore[method-assign]
    course = roll_back(world, Wanted())
    assert (course.refused, course.failed) == ([], "")
    is_back(world)
    assert not {*LATE} & world.tree.nodes.keys()
    assert times == 2 + taken


def test_as_many_deletions_as_there_are_go_in_several_multis() -> None:
    world = dual_write()
    for number in range(2 * release.DELETIONS + 1):
        world.put(f"{cluster.DELETE_TOPICS}/{number}")
    course = roll_back(world, Wanted())
    assert course.failed == ""
    assert not world.tree.nodes[cluster.DELETE_TOPICS].children
    assert [one.count("Delete ") for one in world.done[1:]] == [1_000, 1_000, 1, 1]
    assert any("and 1981 more" in one for one in course.did)


def test_deletions_that_may_not_be_dropped_keep_everything_as_it_is() -> None:
    world = late(dual_write())
    forbidden = "not allowed"
    world.forbidden = lambda multi: (  # type: ignore[method-assign]
        forbidden if any(one.path in LATE for one in multi.ops) else ""
    )
    course = roll_back(world, Wanted())
    assert course.failed.startswith(f"{cluster.DELETE_TOPICS}: {forbidden}: nothing was changed")
    assert (world.done, world.up) == ([], [3000])
