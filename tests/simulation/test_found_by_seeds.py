"""Faults of the product that seeds have found, each as the shortest run that shows it."""

import pytest

from emulator.migration.authority import Authority
from emulator.simulation.checkers.base import OWN, Checker
from emulator.simulation.faults import RECIPES, controllers, zookeeper
from emulator.simulation.run import Run
from emulator.simulation.scenarios import swarm
from emulator.simulation.scenarios.scenario import Scenario
from emulator.simulation.world import World


def test_a_claim_moves_the_offset_forward_only_though_a_write_in_doubt_was_overtaken(simulate):
    """A multi was applied, its answer lost, then somebody wrote /migration: the reconcile began
    from the offset confirmed before it, and /migration went back."""
    story = Scenario(
        faults=("lost-replies", "foreign-write") * 4, changes=60, change_every_ms=15, multi_ops=3
    )
    for seed in (1, 2, 3, 4, 6, 7):
        report = simulate(seed, story)
        assert not report.failure, str(report)


def test_a_broker_that_lost_its_last_partition_meanwhile_is_told_so(simulate):
    """A new claim sent no FULL LeaderAndIsr to a broker with nothing on it, which then kept the
    replicas of topics deleted in between."""
    story = Scenario(faults=("controller-crash", "lost-replies"), topics=1, changes=16)
    for seed in (20, 21, 22, 23):
        report = simulate(seed, story)
        assert not report.failure, str(report)


class Appends(Checker):
    """Judges that a life appends nothing before ZooKeeper has confirmed its log."""

    name = "appends"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.steps = 0
        self._ends: dict[str, int] = {}

    def stepped(self, process, effects) -> None:
        driver, end = process.node.driver, process.node.raft.log_end_offset
        if driver.authority is Authority.UNPROVEN:
            self.steps += 1
            assert self._ends.setdefault(process.name, end) == end, process.name


@pytest.mark.requirement("W02")
def test_a_new_life_appends_nothing_before_zookeeper_answers(simulator, monkeypatch):
    """Until the first ZooKeeper session stood, a restarted controller appended without bound."""

    def both(strike):
        zookeeper.zookeeper_freeze(strike)
        controllers.controller_crash(strike)

    monkeypatch.setitem(RECIPES, "both", both)
    story = Scenario(faults=("both",), changes=120, change_every_ms=40, bound=15)
    steps = 0
    for seed in range(3):
        run = simulator(seed, story)
        looks = Appends(run.world)
        run.world.onlookers.append(looks)
        run.run()
        steps += looks.steps
    assert steps > 100


class Backwards(Checker):
    """Counts how often the offset that ZooKeeper holds went back."""

    name = "backwards"
    count = 0
    _offset = -1

    def served(self, changed: frozenset[str], client: str) -> None:
        if OWN in changed:
            offset = self.world.numbers(OWN)["offset"]
            self.count += offset < self._offset
            self._offset = offset


def test_the_offset_goes_back_only_to_tell_of_a_hole():
    """Somebody wrote both counters while two multis were in flight: the first was refused, the
    second applied. The offset covers the hole until the reconcile begins, which takes it back."""
    story = Scenario(
        faults=("both-counters@DUAL_WRITE",),
        partitions_max=2,
        changes=30,
        change_every_ms=5,
        multi_ops=12,
        zookeeper_delay_us=(20_000, 60_000),
    )
    backwards = 0
    for seed in range(5):
        run = Run(seed, story)
        counts = Backwards(run.world)
        run.world.onlookers.append(counts)
        run.run()
        assert counts.count <= 1
        backwards += counts.count
    assert backwards


def test_a_copy_ends_though_somebody_deletes_controller_meanwhile(simulate):
    """Once such a run never came to rest."""
    story = Scenario(faults=("controller-deleted@ZK_MIGRATION",), topics=8, changes=3, batch_size=3)
    for seed in range(3):
        report = simulate(seed, story)
        assert not report.failure, str(report)


def test_a_paused_controller_does_not_claim_because_somebody_deleted_controller(simulate):
    """An older KRaft epoch claimed after a newer one, as long as nothing had been copied."""
    story = Scenario(
        faults=("controller-pause@BECOME_CONTROLLER", "controller-deleted@ZK_MIGRATION"),
        topics=8,
        batch_size=1,
        changes=3,
        sync_us=(50_000, 800_000),
        zookeeper_delay_us=(100, 200_000),
    )
    for seed in range(2):
        report = simulate(seed, story)
        assert not report.failure, str(report)
        assert report.taken_over


def test_who_stops_to_be_the_controller_answers_so_though_a_change_may_be_committed(simulate):
    """The changes were in the log, not yet synced, when the claim was lost."""
    story = Scenario(
        faults=("epoch-bumped/0",),
        changes=6,
        change_every_ms=80,
        bound=0,
        multi_ops=60,
        sync_us=(50_000, 800_000),
        faults_within_ms=4_000,
        moves_every_ms=40,
    )
    for seed in range(3):
        report = simulate(seed, story)
        assert not report.failure, str(report)


def test_the_log_keeps_the_batch_that_a_claim_on_its_way_names(simulate):
    """A snapshot was taken and the log trimmed before the claim was answered: after a crash in the
    copy's last step the log of the claim was taken for another one, for good."""
    story = Scenario(
        faults=("disk-slow@BECOME_CONTROLLER+60/0", "disk-reorders@SYNC_KRAFT_TO_ZK/1"),
        brokers=1,
        changes=6,
        change_every_ms=40,
        bound=40,
        zookeeper_delay_us=(100, 200_000),
        sync_us=(50_000, 800_000),
        faults_within_ms=300,
        snapshot_interval_ms=300,
        batch_size=3,
    )
    for seed in (1, 3, 24):
        report = simulate(seed, story)
        assert not report.failure, str(report)


def test_an_operator_mends_what_a_clone_and_a_restored_zookeeper_leave(simulate):
    """Brokers knew the epoch of a clone's claim, which ZooKeeper had forgotten: they refused all
    that the controller sent. What its status advises, to write that epoch, ends it."""
    report = simulate(970_599, swarm.swarm(970_599))
    assert not report.failure, str(report)
    assert any("brokers know controller epoch" in line for line in report.lines)


@pytest.mark.slow
def test_fenced_replicas_count_for_the_bound_at_once(simulate):
    """The room below the bound was reckoned when ZooKeeper or the log had moved. Behind a slow disk
    a session ended in between, its partitions changed, and an ordinary change still went on."""
    story = Scenario(
        faults=(
            "controller-crash-in-step@WAIT_FOR_BROKERS/0",
            "zookeeper-restart@ZK_MIGRATION+60/1",
            "broker-death@WAIT_FOR_CONTROLLER_QUORUM+5/2",
            "network-slow@BECOME_CONTROLLER/3",
            "lost-reply@DUAL_WRITE/4",
            "broker-death@KRAFT_CONTROLLER_TO_BROKER_COMM/5",
        ),
        changes=12,
        change_every_ms=10,
        bound=15,
        multi_ops=3,
        delay_us=(100, 500),
        zookeeper_delay_us=(100, 200_000),
        sync_us=(50_000, 800_000),
        faults_within_ms=300,
        snapshot_interval_ms=700,
    )
    report = simulate(766, story)
    assert not report.failure, str(report)
