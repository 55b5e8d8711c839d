"""Whole clusters by the hundred: every invariant after every event, and equality at the end."""

import pytest

from tests.kit.shares import rest_slow

QUICK = range(0, 200, 25)
LONG = range(0, 30, 5)


@pytest.mark.requirement("G06", "W07", "Z02", "Z03")
@pytest.mark.parametrize("first", rest_slow(QUICK, 2))
def test_crashes_and_lost_replies_break_no_promise(simulate, first):
    for seed in range(first, first + 25):
        report = simulate(seed)
        assert not report.failure, str(report)
        faults = report.scenario.faults
        assert any(name.startswith("controller-crash") for name in faults)
        assert any(name.startswith("lost-repl") for name in faults)


@pytest.mark.slow
@pytest.mark.parametrize("first", LONG)
def test_every_fault_in_one_run_breaks_no_promise(simulate, first):
    for seed in range(first, first + 5):
        report = simulate(seed, kind="long")
        assert not report.failure, str(report)


def test_the_seeds_do_what_they_are_for(simulate):
    reports = [simulate(seed) for seed in range(8)]
    assert all(report.acknowledged >= 3 for report in reports)
    assert all(report.committed > 20 for report in reports)
    assert sum(len(report.claims) > 1 for report in reports) >= 4
    told = "\n".join(line for report in reports for line in report.lines)
    assert "writes in doubt" in told
    assert "position in zookeeper was read back in_doubt=1 applied=1" in told
