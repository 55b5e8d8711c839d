"""The fixture whose name says that a proof is a simulation."""

import pytest

from emulator.simulation import run


@pytest.fixture(scope="session")
def simulate():
    return run.simulate
