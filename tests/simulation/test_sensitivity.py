"""Small sets of seeds that see faults nothing else may notice; `tools/mutants.toml` plants them."""

from emulator.simulation.scenario import Scenario


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


def test_a_restored_folder_takes_nothing_back_from_brokers(simulate):
    """It is at the address that they know, and its log ends before theirs."""
    assert broken(simulate, Scenario(faults=("disk-restored",) * 2, changes=30), 4) == set()


def test_two_processes_of_one_folder_never_write_in_one_epoch(simulate):
    assert broken(simulate, Scenario(faults=("controller-cloned",), changes=30), 12) == set()


def test_a_multi_that_was_refused_never_counts_as_applied(simulate):
    scenario = Scenario(faults=("both-counters",) * 3, changes=60, change_every_ms=10, multi_ops=3)
    assert broken(simulate, scenario, 6) == set()
