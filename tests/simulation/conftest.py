"""The fixtures whose names say that a proof is a simulation.

Their names alone would prove nothing: a test that cites a requirement by one of them must have run
a cluster, as ``tests/kit/simulated.py`` says.
"""

from collections.abc import Callable, Iterator

import pytest

from emulator.simulation import run
from emulator.simulation.run import Report, Run
from emulator.simulation.world import World
from tests.kit.simulated import is_cluster


@pytest.fixture
def begun(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[World]]:
    """The worlds that this test has begun, by whatever way."""
    worlds: list[World] = []
    begin = World.begin

    def noting(world: World) -> None:
        worlds.append(world)
        begin(world)

    monkeypatch.setattr(World, "begin", noting)
    yield worlds
    if request.node.get_closest_marker("requirement"):
        assert any(map(is_cluster, worlds)), "it cites a requirement and ran no cluster"


@pytest.fixture
def simulate(begun: list[World]) -> Callable[..., Report]:
    """Runs a cluster of a seed to its rest."""
    return run.simulate


@pytest.fixture
def simulator(begun: list[World]) -> type[Run]:
    """A run whose checkers are looked at afterwards."""
    return run.Run


@pytest.fixture
def simulated_world(begun: list[World]) -> type[World]:
    """A cluster that the test itself steps."""
    return World
