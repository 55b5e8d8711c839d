"""The log says that the migration is under way only if the claim stood when the copy was whole."""

import pytest

from emulator.simulation.scenarios.scenario import Scenario

BEGUN = "to=ZK_MIGRATION"


@pytest.mark.requirement("U01")
def test_a_copy_whose_claim_is_gone_is_begun_anew(simulate):
    """Somebody claims the cluster while the tree is copied: whoever comes next copies again."""
    taken = Scenario(faults=("epoch-bumped@ZK_MIGRATION",), topics=8, changes=3, batch_size=3)
    for seed in range(3):
        report = simulate(seed, taken)
        assert not report.failure, str(report)
        assert sum(BEGUN in line for line in report.lines) == 2, str(report)
        assert len(report.claims) == 2
