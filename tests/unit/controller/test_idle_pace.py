"""NoOps become rare while the log keeps all of them for ZooKeeper's sake."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emulator.controller.machine import INTERVAL_MS_MAX, NO_OPS_AT_PACE, IdlePace
from emulator.metadata.idle import ChangeCount
from emulator.metadata.image import EMPTY, Image

DAY_MS = 86_400_000


class Idle:
    """A log of NoOps from an offset on, and some changes."""

    def __init__(self, end: int = 0, changes: int = 0, unknown: int = 0) -> None:
        self.end, self.changes, self.unknown = end, changes, unknown

    @property
    def tip(self) -> Image:
        return replace(EMPTY, offset=self.end)

    def changes_after(self, _offset: int) -> ChangeCount:
        return ChangeCount(self.changes, self.unknown)


def kept(days: int) -> int:
    """NoOps kept after some days in which nothing is confirmed."""
    log, pace, now_ms = Idle(), IdlePace(500), 0
    while now_ms < days * DAY_MS:
        pace.kept_from(0, log)
        now_ms += pace.interval_ms
        log.end += 1
    return log.end


def test_days_without_zookeeper_keep_few_of_them() -> None:
    assert kept(1) < 33_000
    assert kept(7) < 53_000
    assert kept(30) - kept(29) == DAY_MS // INTERVAL_MS_MAX


def test_once_zookeeper_confirms_the_interval_is_the_configured_one() -> None:
    pace = IdlePace(500)
    pace.kept_from(0, Idle(end=5 * NO_OPS_AT_PACE))
    assert pace.interval_ms == 500 << 5
    pace.kept_from(5 * NO_OPS_AT_PACE - 3, Idle(end=5 * NO_OPS_AT_PACE))
    assert pace.interval_ms == 500


@pytest.mark.parametrize("unknown", [0, 9_000])
def test_changes_and_what_a_snapshot_holds_are_no_no_ops(unknown: int) -> None:
    pace = IdlePace(500)
    pace.kept_from(0, Idle(end=20_000, changes=20_000 - unknown, unknown=unknown))
    assert pace.interval_ms == 500


def test_a_configured_interval_is_never_shortened() -> None:
    for idle_ms in (0, 300_000):
        pace = IdlePace(idle_ms)
        pace.kept_from(0, Idle(end=1_000_000))
        assert pace.interval_ms == idle_ms
    pace.kept_from(None, Idle(end=1_000_000))
    assert pace.interval_ms == 300_000
