"""Clusters whose controller cuts nearly every request into slices, as it cuts those of thousands.

The requests of a simulated load are small: with slices of the usual size none is ever under way
while something else happens. Here one or two records fill a slice.
"""

import sys

import pytest

from emulator.controller.machine import Controller
from emulator.controller.registry import handlers
from tests.kit.shares import rest_slow

SIZES = ("RECORDS_PER_SLICE", "ENTRIES_PER_SLICE", "PARTITIONS_PER_STEP", "CALLS_PER_STEP")
SEEDS = range(400, 448, 8)


@pytest.fixture
def slices_of(monkeypatch):
    """Sets how many records or entries a slice takes, in every module that uses it."""
    handlers()

    def set_to(size):
        for name, module in sorted(sys.modules.items()):
            for constant in SIZES if name.startswith("emulator.") else ():
                if hasattr(module, constant):
                    monkeypatch.setattr(module, constant, size)

    return set_to


@pytest.mark.requirement("G06", "W07")
@pytest.mark.parametrize("first", rest_slow(SEEDS, 1))
def test_no_promise_breaks_between_slices(simulate, slices_of, monkeypatch, first):
    slices_of(1 + first // 8 % 2)
    taken = []
    go_on = Controller.go_on
    monkeypatch.setattr(Controller, "go_on", lambda *given: (taken.append(1), go_on(*given))[1])
    for seed in range(first, first + 8):
        report = simulate(seed, kind="swarm")
        assert not report.failure, str(report)
    assert len(taken) > 100, "slices were taken one by one"
