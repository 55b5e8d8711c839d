"""Small sets of seeds that see faults nothing else may notice; `tools/mutants.toml` plants them."""

from dataclasses import replace

import pytest

from emulator.simulation.checkers.lag import LagBounded
from emulator.simulation.scenarios.scenario import Scenario

pytestmark = pytest.mark.slow


def broken(simulate, scenario, seeds):
    """What the seeds found broken, each once."""
    reports = [simulate(seed, scenario) for seed in range(seeds)]
    return {report.failure for report in reports} - {""}


def test_what_is_appended_and_not_committed_counts_for_the_bound(simulate):
    """A slow disk, a frozen ZooKeeper, many callers: most of what is ahead is not committed."""
    scenario = Scenario(
        faults=("zookeeper-freeze", "disk-slow", "zookeeper-freeze"),
        changes=80,
        change_every_ms=10,
        bound=10,
        brokers=5,
        partitions_max=12,
    )
    assert broken(simulate, scenario, 6) == set()


def test_a_restored_folder_never_writes_to_zookeeper(simulate):
    assert broken(simulate, Scenario(faults=("disk-restored",), changes=30), 6) == set()


def test_an_old_controller_writes_nothing_after_a_rollback(simulate):
    """And says why, whether its last life ended in order or not."""
    for state in ("SYNC_KRAFT_TO_ZK", "DUAL_WRITE+200"):
        reports = [simulate(n, Scenario(faults=(f"rollback@{state}",))) for n in range(4)]
        assert {one.failure for one in reports} == {""}
        assert all("the cluster was rolled back" in one.refusal for one in reports)


def test_a_restored_folder_takes_nothing_back_from_brokers(simulate):
    """It is at the address that they know, and its log ends before theirs."""
    assert broken(simulate, Scenario(faults=("disk-restored",) * 2, changes=30), 4) == set()


def test_two_processes_of_one_folder_never_write_in_one_epoch(simulate):
    """The clone begins where both may come to claim in one epoch."""
    for state in ("BECOME_CONTROLLER", "ZK_MIGRATION"):
        scenario = Scenario(faults=(f"controller-cloned@{state}",), changes=30)
        assert broken(simulate, scenario, 6) == set()


def test_a_multi_that_was_refused_never_counts_as_applied(simulate):
    scenario = Scenario(faults=("both-counters",) * 3, changes=60, change_every_ms=10, multi_ops=3)
    assert broken(simulate, scenario, 6) == set()


HELD_BACK = Scenario(
    faults=(
        "delayed-bytes@DUAL_WRITE",
        "delayed-bytes@SYNC_KRAFT_TO_ZK",
        "delayed-bytes/2",
        "delayed-bytes/3",
    ),
    changes=20,
    change_every_ms=20,
    multi_ops=3,
    topics=2,
    zookeeper_delay_us=(20_000, 60_000),
)


def test_nothing_of_a_session_is_served_once_a_later_one_has_read(simulate):
    """The connection on which the old session is closed breaks, before it stands or after."""
    assert broken(simulate, HELD_BACK, 2) == set()
    near = replace(HELD_BACK, zookeeper_delay_us=(5_000, 20_000))
    assert not simulate(6, near).failure
    assert not simulate(9, near).failure


def test_a_copy_ends_only_when_its_claim_was_read_again(simulate):
    far = Scenario(changes=0, batch_size=3, zookeeper_delay_us=(5_000, 20_000))
    assert broken(simulate, far, 4) == set()


def test_the_state_of_a_partition_names_the_epoch_of_its_claim(simulate):
    """Where a comparison of the trees writes states: ZooKeeper is behind when the process ends."""
    behind = Scenario(
        faults=("zookeeper-freeze", "controller-crash"), changes=30, change_every_ms=15, topics=3
    )
    assert broken(simulate, behind, 2) == set()
    hidden = Scenario(
        faults=("session-expiry", "zookeeper-restart", "both-counters"),
        changes=30,
        change_every_ms=15,
        topics=3,
        moves_every_ms=20,
        multi_ops=3,
    )
    assert broken(simulate, hidden, 1) == set()


def test_pages_that_were_not_synced_may_be_lost_out_of_order(simulate):
    """A later batch of an unsynced group is there, an earlier one is not."""
    slow = Scenario(
        faults=("disk-reorders@DUAL_WRITE+300",),
        changes=60,
        change_every_ms=5,
        moves_every_ms=5,
        sync_us=(200_000, 800_000),
    )
    for seed in (25, 27, 32):
        report = simulate(seed, slow)
        assert not report.failure, str(report)


def test_deletions_do_not_wait_at_the_bound_of_what_they_take_away(simulator):
    frozen = Scenario(
        faults=("zookeeper-freeze",) * 3, changes=150, change_every_ms=20, bound=15, topics=9
    )
    urgent = 0
    for seed in range(3):
        run = simulator(seed, frozen)
        run.run()
        urgent += run.checker(LagBounded).urgent
    assert urgent
