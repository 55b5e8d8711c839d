"""ACLs added and removed while things break: both stores end the same."""

import pytest

from emulator.simulation.scenarios.scenario import Scenario
from tests.kit.shares import rest_slow


@pytest.mark.requirement("G04", "W11")
@pytest.mark.parametrize("level", rest_slow(["3.9-IV0", "3.4-IV0"], 1))
def test_acls_end_the_same_in_both_stores(simulate, level):
    """At random, through crashes and lost replies, where no authorizer of ZooKeeper ever ran."""
    added = removed = 0
    for seed in range(4):
        faults = ("controller-crash", "lost-reply", "controller-crash-in-step", "cut")[:seed]
        report = simulate(
            seed,
            Scenario(
                changes=36,
                acl_changes_every_ms=20,
                metadata_version=level,
                faults=faults,
                multi_ops=(3, 400)[seed % 2],
            ),
        )
        assert not report.failure, str(report)
        added += report.acl_changes[0]
        removed += report.acl_changes[1]
    assert added > 100
    assert removed > 50
