"""Going back from every phase, cut off after each effect and repeated; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from emulator.migration.tree_diff import Difference
from emulator.operations.preflight.engine import Severity
from emulator.operations.rollback.checks import blocking, epoch_min
from emulator.operations.rollback.course import Actor, Course, Wanted, plan, roll_back
from emulator.operations.rollback.phases import RollbackPhase, phase_of
from emulator.simulation.models.zookeeper_tree import RefusedOp
from emulator.znodes import controller, migration, own
from emulator.zookeeper.ops import Create, Delete, Multi, SetData
from tests.unit.operations.rollback.model import (
    BROKERS,
    EPOCH,
    QUORUM,
    CutOffError,
    ModelCluster,
    copying,
    dual_write,
    finalised,
    pre_migration,
    zookeeper_mode,
)

Made = Callable[..., ModelCluster]
PHASES = {
    RollbackPhase.PRE_MIGRATION: pre_migration,
    RollbackPhase.COPYING: copying,
    RollbackPhase.DUAL_WRITE: dual_write,
}


def codes(course: Course) -> set[str]:
    return {one.code for one in course.refused}


def is_back(world: ModelCluster) -> None:
    """A broker is the controller, nothing runs, nobody may claim, and the topic is there."""
    assert world.up == []
    assert world.holder.kraft_epoch == -1
    assert own.rolled_back(world.mine)
    assert phase_of(world.look()) is RollbackPhase.ROLLED_BACK
    assert "/brokers/topics/orders/partitions/0/state" in world.tree.nodes
    assert controller.parse_epoch(world.data(controller.EPOCH_PATH)) >= EPOCH


@pytest.mark.requirement("B01", "G09")
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("quorum", [(3000,), QUORUM])
def test_from_each_phase_a_broker_is_the_controller_again(
    phase: RollbackPhase, quorum: tuple[int, ...]
) -> None:
    world = PHASES[phase](quorum=quorum)
    course = roll_back(world, Wanted())
    assert (course.phase, course.refused, course.failed) == (phase, [], "")
    is_back(world)
    claimed = phase is not RollbackPhase.PRE_MIGRATION
    assert controller.parse_epoch(world.data(controller.EPOCH_PATH)) == EPOCH + claimed
    if claimed:
        assert course.controller == 0
        assert course.ours_ms == pytest.approx(10)
        assert course.theirs_ms == pytest.approx(200)
        assert course.without_controller_ms == pytest.approx(210)
    else:
        assert course.without_controller_ms is None, "the cluster always had its controller"
    left = [one for one in course.steps if not one.done]
    assert Actor.BROKERS not in {one.actor for one in left}
    assert "restart every broker without" in left[0].what


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("quorum", [(3000,), QUORUM])
@pytest.mark.parametrize("clear", [False, True])
def test_cut_off_after_any_effect_it_is_run_again_and_ends_right(
    phase: RollbackPhase, quorum: tuple[int, ...], clear: bool
) -> None:
    whole = PHASES[phase](quorum=quorum)
    roll_back(whole, Wanted(clear=clear))
    assert len(whole.done) == len(quorum) + 1 + clear
    for effects in range(len(whole.done)):
        world = PHASES[phase](quorum=quorum, effects=effects)
        with pytest.raises(CutOffError):
            roll_back(world, Wanted(clear=clear))
        world.effects = None
        course = roll_back(world, Wanted(clear=clear))
        assert (course.refused, course.failed) == ([], ""), effects
        if clear:
            assert not {migration.PATH, own.PATH} & world.tree.nodes.keys()
        else:
            is_back(world)
        for path in ("/controller", "/controller_epoch"):
            assert world.data(path) == whole.data(path), effects


def test_cut_off_with_each_subset_of_the_controllers_stopped() -> None:
    for still_up in ([3000], [3002], [3000, 3002], []):
        world = dual_write(quorum=QUORUM, up=still_up)
        assert roll_back(world, Wanted()).failed == ""
        is_back(world)


def test_run_again_at_the_end_it_changes_nothing_and_says_so() -> None:
    world = dual_write()
    roll_back(world, Wanted())
    versions = {path: one.version for path, one in world.tree.nodes.items()}
    course = roll_back(world, Wanted())
    assert course.phase is RollbackPhase.ROLLED_BACK
    assert (course.did, course.refused, course.failed, course.controller) == ([], [], "", 0)
    assert {path: one.version for path, one in world.tree.nodes.items()} == versions


def test_a_plan_changes_nothing() -> None:
    for made in (*PHASES.values(), finalised, zookeeper_mode):
        world = made(effects=0)
        plan(world, Wanted())


@pytest.mark.requirement("B04")
def test_the_epoch_is_never_deleted_and_raised_where_states_are_above_it() -> None:
    world = dual_write()
    sent: list[Multi] = []
    commit = world.commit

    def recording(multi: Multi) -> bool:
        sent.append(multi)
        return commit(multi)

    world.commit = recording  # type: ignore[method-assign]
    path = "/brokers/topics/orders/partitions/0/state"
    state = msgspec.json.decode(world.data(path) or b"")
    high = msgspec.json.encode({**state, "controller_epoch": EPOCH + 30})
    world.tree.write(SetData(path, high), 7, 1)
    course = roll_back(world, Wanted(clear=True))
    assert course.failed == ""
    assert controller.parse_epoch(world.data(controller.EPOCH_PATH)) == EPOCH + 31
    deleted = [one.path for multi in sent for one in multi.ops if isinstance(one, Delete)]
    assert sorted(deleted) == ["/controller", "/kraft_bridge", "/migration"]
    (told,) = [one for one in course.findings if one.code == "R08"]
    assert f"raised to {EPOCH + 30}" in told.consequence
    page = " ".join((Path(__file__).parents[4] / "docs/rollback.md").read_text().split())
    assert "`/controller_epoch` is never deleted: the next controller would begin with 1" in page


@pytest.mark.parametrize("path", [own.PATH, controller.PATH, controller.EPOCH_PATH])
def test_what_changes_after_it_was_read_makes_the_release_read_again(path: str) -> None:
    world = dual_write(interferes=3, interferes_at=path)
    assert roll_back(world, Wanted()).failed == ""
    assert len([one for one in world.done if "Delete /controller" in one]) == 3, "and one before"
    is_back(world)
    world = dual_write(interferes=1_000, interferes_at=path)
    assert "all the time" in roll_back(world, Wanted()).failed
    assert world.holder.kraft_epoch >= 0


@pytest.mark.requirement("B05")
def test_changes_in_the_log_that_zookeeper_lacks_keep_controller_where_it_is() -> None:
    """The controllers were killed while the command waited for their orderly end."""
    world = dual_write(unwritten=((125, "Topic"), (126, "Partition")))
    course = roll_back(world, Wanted())
    assert "2 records (1 Partition, 1 Topic) are not in ZooKeeper" in course.failed
    assert world.holder.kraft_epoch >= 0
    world.differences = [Difference("/brokers/topics/late", "missing", None, b"{}")]
    again = roll_back(world, Wanted())
    assert codes(again) == {"R06"}
    assert again.refused[0].znode == "/brokers/topics/late"
    assert roll_back(world, Wanted(accept_loss=True)).failed == ""
    is_back(world)


def test_the_leader_writes_what_is_left_before_it_is_stopped() -> None:
    world = dual_write(lag=7)
    assert roll_back(world, Wanted()).failed == ""
    assert world.said[0] == "waiting until nothing is missing in ZooKeeper"
    unknown = dual_write(lag=None)
    assert codes(roll_back(unknown, Wanted())) == {"R05"}
    assert unknown.up == [3000]


@pytest.mark.parametrize(
    ("world", "code"),
    [
        (dual_write(kraft=(2,), alive=(0, 1)), "R04"),
        (dual_write(kraft=BROKERS, alive=()), "R04"),
        (dual_write(poisoned=("/config/topics/a",)), "R05"),
        (dual_write(up=[], seen_folders=False), "R06"),
        (dual_write(quorum=QUORUM, up=[3000], unknown=(3001,)), "R07"),
        (dual_write(quorum=()), "R07"),
    ],
)
def test_what_stands_in_the_way_is_named_and_nothing_is_done(
    world: ModelCluster, code: str
) -> None:
    course = roll_back(world, Wanted())
    assert code in codes(course)
    assert world.done == []


@pytest.mark.requirement("G03")
def test_brokers_in_kraft_mode_go_back_first_while_the_controllers_run() -> None:
    world = dual_write(kraft=(2,), alive=(0, 1))
    course = roll_back(world, Wanted())
    assert "restart each broker that is in KRaft mode (2)" in course.steps[0].what
    world.kraft, world.alive = (), BROKERS
    world.put("/brokers/ids/2", b"{}", ephemeral=True)
    assert roll_back(world, Wanted()).refused == []
    is_back(world)


@pytest.mark.requirement("G03")
@pytest.mark.parametrize("state", ["held", "waiting"])
def test_a_leader_without_the_flag_is_named_before_any_broker_is_restarted(state: str) -> None:
    """It refuses brokers in ZooKeeper mode: one that is restarted under it serves nobody."""
    world = dual_write(kraft=BROKERS, alive=(), quorum=QUORUM, up=[*QUORUM], flagless=state)
    course = roll_back(world, Wanted())
    (lag,) = (one for one in course.findings if one.code == "R05")
    assert lag.fact == "controller 3000 leads without zookeeper.metadata.migration.enable"
    each = [one.remedy for one in course.findings if "registered in KRaft mode" in one.fact]
    assert len(each) == len(BROKERS)
    assert all(one.startswith("first do what RB-R05 asks for; then restart it") for one in each)
    assert "zookeeper.metadata.migration.enable=true and zookeeper.connect" in course.steps[0].what
    assert "restart each broker" in course.steps[1].what
    assert (world.done, world.up) == ([], [*QUORUM])
    assert course.flagless == "finalising", "as its status says, and not dual write"
    world.kraft, world.alive = (), BROKERS
    assert "R05" in codes(roll_back(world, Wanted())), "all brokers are back, and refused"
    assert (world.done, world.up) == ([], [*QUORUM])
    world.flagless = ""
    for broker in BROKERS:
        world.put(f"/brokers/ids/{broker}", b"{}", ephemeral=True)
    assert roll_back(world, Wanted()).refused == []
    is_back(world)


def test_with_the_controllers_gone_brokers_in_kraft_mode_follow_later() -> None:
    world = dual_write(kraft=(2,), alive=(0, 1), up=[])
    course = roll_back(world, Wanted())
    assert (course.refused, course.failed) == ([], "")
    assert {one.severity.value for one in course.findings if one.code == "R04"} == {"warning"}
    is_back(world)


def test_nobody_is_waited_for_who_cannot_be_elected() -> None:
    world = dual_write(kraft=BROKERS, alive=(), up=[])
    course = roll_back(world, Wanted())
    assert "the first one that is started is elected" in course.failed
    assert phase_of(world.look()) is RollbackPhase.RELEASED
    world.alive = (1,)
    world.put("/brokers/ids/1", b"{}", ephemeral=True)
    world.elect()
    assert roll_back(world, Wanted()).controller == 1
    is_back(world)


@pytest.mark.requirement("B08", "F11")
def test_once_finalised_it_is_refused_and_what_would_be_lost_is_listed() -> None:
    lost = [Difference(f"/brokers/topics/new-{i:02}", "missing", None, b"{}") for i in range(25)]
    world = finalised(up=[], differences=lost)
    course = roll_back(world, Wanted(accept_loss=True))
    assert codes(course) == {"R01"}
    assert "offline" in course.refused[0].consequence
    named = [one for one in course.findings if one.code == "R06"]
    assert [one.znode for one in named[:20]] == [one.path for one in lost[:20]]
    assert "5 more znodes differ, 25 in all" in named[20].fact
    assert course.steps == []
    assert world.done == []


def test_a_version_that_is_too_low_is_told_with_both_numbers() -> None:
    world = dual_write(up=[])
    world.differences = [Difference("/t/state", "version", b"{}", b"{}", 3, 7)]
    (told,) = roll_back(world, Wanted()).refused
    assert (told.code, told.znode) == ("R06", "/t/state")
    assert "its version, 3, is below the partition epoch of the log, 7" in str(told)


def test_passwords_that_cannot_be_compared_are_said_and_keep_nobody_from_going_back() -> None:
    world = dual_write(up=[])
    world.differences = [Difference("/config/brokers/1", "unjudged", b"{}", None)]
    course = roll_back(world, Wanted())
    (told,) = [one for one in course.findings if one.code == "R06"]
    assert (told.severity, course.refused, course.failed) == (Severity.WARNING, [], "")
    assert "password.encoder.secret" in told.fact


def test_a_version_that_is_too_low_is_told_once_a_rollback_of_a_cluster_that_ran_is_done() -> None:
    """While controllers run the trees are not compared, and nobody waits for it when they ended."""
    world = dual_write()
    world.differences = [
        Difference("/t/state", "version", b"{}", b"{}", 3, 7),
        Difference("/t/other", "differs", b"{}", b"{}"),
    ]
    course = roll_back(world, Wanted())
    assert (course.refused, course.failed) == ([], "")
    is_back(world)
    (told,) = [one for one in course.findings if one.code == "R06"]
    assert (told.severity, told.znode) == (Severity.WARNING, "/t/state")
    assert "stop all brokers" in told.remedy


@pytest.mark.parametrize("up", [[3000], []])
def test_a_version_that_is_too_high_is_told_with_the_broker_to_restart_and_keeps_nobody(
    up: list[int],
) -> None:
    path = "/brokers/topics/orders/partitions/0/state"
    world = dual_write(up=up, differences=[Difference(path, "ahead", b"{}", b"{}", 9, 7)])
    course = roll_back(world, Wanted())
    assert (course.refused, course.failed) == ([], "")
    is_back(world)
    (told,) = [one for one in course.findings if one.code == "R06"]
    assert (told.severity, told.znode) == (Severity.WARNING, path)
    assert "its version, 9, is above the partition epoch of the log, 7" in told.fact
    assert told.remedy == "once a broker is the controller, restart broker 0, which leads it"


def test_a_version_that_a_broker_wrote_as_the_controller_is_not_too_high() -> None:
    """Its ISR shrank and grew again since the way back, and the leader knows the version."""
    path = "/brokers/topics/orders/partitions/0/state"
    world = dual_write(up=[], differences=[Difference(path, "ahead", b"{}", b"{}", 9, 7)])
    assert roll_back(world, Wanted()).failed == ""
    state = msgspec.json.decode(world.data(path) or b"")
    later = msgspec.json.encode({**state, "controller_epoch": EPOCH + 1})
    world.tree.write(SetData(path, later), 7, 1)
    course = roll_back(world, Wanted())
    assert course.phase is RollbackPhase.ROLLED_BACK
    assert "R06" not in {one.code for one in course.findings}


def test_of_many_versions_that_are_too_high_their_number_is_told() -> None:
    many = [Difference(f"/t{at}/state", "ahead", b"{}", b"{}", 9, 7) for at in range(25)]
    course = roll_back(dual_write(up=[], differences=many), Wanted())
    told = [one for one in course.findings if one.code == "R06"]
    assert len(told) == 21
    assert told[20].fact == "5 more versions are too high, 25 in all"


def test_before_a_migration_there_is_nothing_to_do() -> None:
    world = zookeeper_mode()
    course = roll_back(world, Wanted(clear=True))
    assert (course.phase, course.refused, world.done) == (RollbackPhase.NOT_BEGUN, [], [])


@pytest.mark.requirement("B06")
def test_cleared_for_a_second_attempt_only_once_back_and_with_nobody_running() -> None:
    world = dual_write()
    roll_back(world, Wanted())
    world.up = [3000]
    assert "not cleared: controller 3000 may run" in roll_back(world, Wanted(clear=True)).failed
    assert own.rolled_back(world.mine)
    world.up, world.quorum = [], ()
    assert "give -c of each" in roll_back(world, Wanted(clear=True)).failed
    assert own.rolled_back(world.mine)
    world.quorum = (3000,)
    del world.said[:]
    course = roll_back(world, Wanted(clear=True))
    assert course.did == ["deleted /migration and /kraft_bridge"]
    said = "data-3000 holds a log: empty it, and format it, before a controller starts"
    assert world.said == [said], "beside new folders it would be elected"
    assert [one.done for one in course.steps if "--clear" in one.command] == [True]
    assert not {migration.PATH, own.PATH} & world.tree.nodes.keys()
    assert phase_of(world.look()) is RollbackPhase.NOT_BEGUN
    assert roll_back(world, Wanted(clear=True)).did == []
    (told,) = [
        one.command for one in plan(dual_write(), Wanted())[1].steps if "--clear" in one.command
    ]
    assert told == "kraft-bridge rollback -c FILE_OF_EACH_CONTROLLER --clear --yes"


@pytest.mark.requirement("B06")
@pytest.mark.parametrize("quorum", [(3000,), (3000, 3001, 3002)])
def test_the_voters_of_a_second_attempt_are_formatted_so_that_one_is_elected(
    quorum: tuple[int, ...],
) -> None:
    """Without the option none of several is; one alone is with it too."""
    world = dual_write()
    world.quorum = quorum
    (told,) = [one.command for one in plan(world, Wanted())[1].steps if "format" in one.command]
    assert told.endswith(" --new-quorum")


def test_controller_deleted_by_hand_the_rest_is_done() -> None:
    world = dual_write(up=[])
    world.tree.write(Delete(controller.PATH), 7, 1)
    assert phase_of(world.look()) is RollbackPhase.DUAL_WRITE
    world.elect()
    course = roll_back(world, Wanted())
    assert (course.phase, course.failed) == (RollbackPhase.ROLLED_BACK, "")
    is_back(world)


def test_of_a_quorum_of_kafkas_the_mark_is_made_new() -> None:
    world = dual_write(up=[])
    world.tree.write(Delete(own.PATH), 7, 1)
    assert roll_back(world, Wanted()).failed == ""
    is_back(world)


def test_unreadable_znodes_are_refused_by_name() -> None:
    for path, code in ((migration.PATH, "R02"), (own.PATH, "R09"), (controller.EPOCH_PATH, "R08")):
        world = dual_write()
        world.tree.write(SetData(path, b"{"), 7, 1)
        assert code in codes(roll_back(world, Wanted())), path
        assert world.done == []
    with pytest.raises(RefusedOp):
        world.tree.write(Create(own.PATH, b""), 7, 1)


def test_losses_alone_can_be_accepted() -> None:
    world = finalised()
    findings = plan(world, Wanted())[1].findings
    assert [one.code for one in blocking(findings, accept_loss=True)] == ["R01"]


def test_without_the_right_to_write_nothing_is_stopped() -> None:
    world = dual_write(readonly=True)
    assert "nothing was changed" in roll_back(world, Wanted()).failed
    assert world.up == [3000]


def test_controllers_of_another_cluster_are_not_stopped() -> None:
    world = dual_write()
    world.put("/cluster/id", b'{"version":"1","id":"another"}')
    assert codes(roll_back(world, Wanted())) == {"R03"}
    assert world.done == []


def test_without_status_the_logs_of_all_show_what_is_missing() -> None:
    silent = dual_write(silent=True)
    course = roll_back(silent, Wanted())
    assert (course.refused, course.failed) == ([], "")
    assert {one.severity.value for one in course.findings if one.code == "R05"} == {"warning"}
    is_back(silent)
    remote = dual_write(silent=True, quorum=QUORUM, up=[3000], seen_folders=False)
    assert codes(roll_back(remote, Wanted())) == {"R05", "R06"}


def test_what_no_broker_can_read_is_no_epoch() -> None:
    world = dual_write()
    path = "/brokers/topics/orders/partitions/0/state"
    for epoch in (2**31, 10**30, -5, "9", None, 2.5):
        state = {"version": 1, "leader": 0, "leader_epoch": 1, "controller_epoch": epoch}
        world.tree.write(SetData(path, msgspec.json.encode(state)), 7, 1)
        assert epoch_min(world.look()) == 2, epoch
