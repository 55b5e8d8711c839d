"""The plugin of pytest: fixtures with a cluster each, for tests with and without asyncio.

pytest finds it by its entry point once kraft-bridge is installed. It is loaded in every run of
pytest in that environment, so it imports the rest only when a test asks for a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from emulator.testing.cluster import Cluster

MARKER = "kraft_cluster"
PYTEST_MIN = (8, 0)
"""An older one runs its tests as if this plugin were not there, except those with its fixtures."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker with pytest, for ``--markers`` and ``--strict-markers``."""
    config.addinivalue_line(
        "markers", f"{MARKER}(**settings): arguments of Cluster for the fixture kraft_cluster"
    )


_RUNNING: pytest.StashKey[list[Cluster]] = pytest.StashKey()


def _pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test that passes, though a fault of its clusters never fired, fails."""
    try:
        result = yield
    except BaseException:
        # The test has failed already: the end of its clusters must not hide its error.
        with suppress(AssertionError):
            _check_faults(item)
        raise
    _check_faults(item)
    return result


if pytest.version_tuple >= PYTEST_MIN:
    pytest_runtest_call = pytest.hookimpl(wrapper=True)(_pytest_runtest_call)


def _check_faults(item: pytest.Item) -> None:
    for cluster in item.stash.get(_RUNNING, []):
        cluster.check_faults()


@pytest.fixture
def kraft_clusters(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """Start clusters: ``kraft_clusters(release="3.4")``; they stop when the test ends."""
    if pytest.version_tuple < PYTEST_MIN:
        pytest.fail("the fixtures of kraft-bridge need pytest 8.0 or newer")
    from emulator.testing.cluster import Cluster  # noqa: PLC0415 - see the module's docstring

    running: list[Cluster] = []
    request.node.stash[_RUNNING] = running
    with ExitStack() as stack:

        def start(**settings: Any) -> Cluster:
            running.append(stack.enter_context(Cluster(**settings)))
            return running[-1]

        yield start


@pytest.fixture
def kraft_cluster(
    request: pytest.FixtureRequest, kraft_clusters: Callable[..., Cluster]
) -> Cluster:
    """A cluster with the settings of ``@pytest.mark.kraft_cluster(...)``.

    It works in coroutines too: its nodes do not run on the loop of the test.
    """
    marker = request.node.get_closest_marker(MARKER)
    if marker is not None and marker.args:
        pytest.fail(f"{MARKER} takes arguments by name, such as brokers=3, not {marker.args[0]!r}")
    return kraft_clusters(**(marker.kwargs if marker else {}))
