"""What every test shares: the kit, hypothesis profiles, one worker for all that starts Java."""

import gc

import pytest

from tests.kit.kinds import JVM_FIXTURES
from tests.kit.laws import load_profile

pytest_plugins = ["tests.kit.fixtures", "tests.kit.record", "tests.kit.transcript"]

# Most of what tests make is trees and records without circles: with the default of 700 the search
# for circles takes a twelfth of the time.
gc.set_threshold(50_000)

load_profile()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts Java, and keep it together on one worker, so that clusters are shared."""
    for item in items:
        if JVM_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.jvm)
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif item.get_closest_marker("jvm"):
            item.add_marker(pytest.mark.xdist_group("jvm"))


class JavaFirst:
    """Puts the Java groups first, after the shuffle: the rest fills the other worker's time."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(JavaFirst())
