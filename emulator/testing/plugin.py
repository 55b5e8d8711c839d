"""The plugin of pytest: fixtures with a cluster each, for tests with and without asyncio.

pytest finds it by its entry point once kraft-bridge is installed. It is loaded in every run of
pytest in that environment, so it imports the rest only when a test asks for a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from emulator.testing.cluster import Cluster

MARKER = "kraft_cluster"


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest of the marker, for ``--markers`` and ``--strict-markers``."""
    config.addinivalue_line(
        "markers", f"{MARKER}(**settings): arguments of Cluster for the fixture kraft_cluster"
    )


@pytest.fixture
def kraft_clusters() -> Iterator[Callable[..., Cluster]]:
    """Start clusters: ``kraft_clusters(release="3.4")``; they stop when the test ends."""
    from emulator.testing.cluster import Cluster  # noqa: PLC0415 - see the module's docstring

    with ExitStack() as stack:

        def start(**settings: Any) -> Cluster:
            return stack.enter_context(Cluster(**settings))

        yield start


@pytest.fixture
def kraft_cluster(
    request: pytest.FixtureRequest, kraft_clusters: Callable[..., Cluster]
) -> Cluster:
    """A cluster with the settings of ``@pytest.mark.kraft_cluster(...)``.

    It works in coroutines too: its nodes do not run on the loop of the test.
    """
    marker = request.node.get_closest_marker(MARKER)
    return kraft_clusters(**(marker.kwargs if marker else {}))
