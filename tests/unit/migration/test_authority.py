"""Whether a controller may serve, for all that the log, the guards and the write-behind can say."""

from __future__ import annotations

from itertools import product

import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.migration.authority import SILENT, Authority, authority
from emulator.migration.dual_write.modes import Mode

NEEDS_ZOOKEEPER = {MigrationState.PRE_MIGRATION, MigrationState.MIGRATION}
HOLDING = [mode for mode in Mode if mode is not Mode.DEPOSED]


@pytest.mark.parametrize("state", MigrationState)
def test_what_the_guards_said_counts_and_a_lost_claim_more(state: MigrationState) -> None:
    said = {
        passed: {authority(state, passed, mode) for mode in HOLDING}
        for passed in (True, False, None)
    }
    unsaid = Authority.UNPROVEN if state in NEEDS_ZOOKEEPER else Authority.GRANTED
    assert said == {True: {Authority.GRANTED}, False: {Authority.REFUSED}, None: {unsaid}}
    assert {authority(state, passed, Mode.DEPOSED) for passed in said} == {Authority.DEPOSED}


def test_whoever_may_not_serve_is_told_why() -> None:
    found = {
        authority(state, passed, mode)
        for state, passed, mode in product(MigrationState, (True, False, None), Mode)
    }
    assert found == {*Authority} - {Authority.UNFINISHED}, "that is judged without ZooKeeper"
    assert {*SILENT} == {*Authority} - {Authority.GRANTED}
    for one, why in SILENT.items():
        assert "/status" in why, one
