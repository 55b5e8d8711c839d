"""The fixtures whose names say that a proof is a simulation."""

import pytest

from emulator.simulation import run


@pytest.fixture(scope="session")
def simulate():
    return run.simulate


@pytest.fixture(scope="session")
def simulator():
    """A run whose checkers are looked at afterwards."""
    return run.Run
