"""A write-behind before a claim and after it: what it counts, and the log that is kept."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emulator.metadata.image import EMPTY
from emulator.metadata.migration_state import MigrationState
from emulator.migration.dual_write.modes import Mode
from tests.unit.migration.world import World


def test_before_a_claim_nothing_was_compared_and_nothing_is_due() -> None:
    behind = World().driver.write_behind
    assert (behind.reconcile_count, behind.doubt_count) == (0, 0)
    assert (behind.idle, behind.verified) == (False, False)
    assert behind.deadline_ms(5) is None
    claimed = World().dual_write().driver.write_behind
    assert (claimed.reconcile_count, claimed.doubt_count, claimed.idle) == (1, 0, True)


@pytest.mark.parametrize("state", list(MigrationState))
def test_before_a_claim_all_of_it_is_kept_if_something_was_copied(state: MigrationState) -> None:
    behind = World().driver.write_behind
    assert behind.mode is Mode.STOPPED
    kept = behind.keep_from(replace(EMPTY, migration_state=state))
    assert kept == (0 if state is MigrationState.MIGRATION else None)


@pytest.mark.parametrize(("confirmed", "kept"), [(-1, 0), (0, 0), (1, 1), (77, 77)])
def test_since_a_claim_it_is_kept_from_what_zookeeper_has(confirmed: int, kept: int) -> None:
    behind = World().dual_write().driver.write_behind
    behind.lag.confirmed = confirmed
    assert behind.keep_from(EMPTY) == kept
