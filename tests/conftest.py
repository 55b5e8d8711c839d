"""What every test shares: the kit, hypothesis profiles, how tests with Java are distributed."""

import gc
from pathlib import Path

import pytest

from bench.rig import ports
from tests.kit.deselected import left_out
from tests.kit.kinds import JVM_FIXTURES
from tests.kit.laws import load_profile

pytest_plugins = ["tests.kit.fixtures", "tests.kit.record", "tests.kit.transcript"]

# Most of what tests make is trees and records without circles: with the default of 700 the search
# for circles takes a twelfth of the time.
gc.set_threshold(50_000)

load_profile()


SHARED = "brokers"
"""The group of what looks at servers that live until the end of the run."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a file of which the run takes nothing; else let others decide."""
    return left_out(collection_path, config.option.markexpr, config.args) or None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Hand out groups of tests without counting those that are done."""
    if config.getoption("dist") != "loadgroup":
        return None
    from tests.kit.scheduling import PendingOnly

    return PendingOnly(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts Java, and keep on one worker what shares servers: a module, or more."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if JVM_FIXTURES.intersection(fixtures):
            item.add_marker(pytest.mark.jvm)
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif item.get_closest_marker("jvm"):
            group = SHARED if "shared_brokers" in fixtures else item.path.stem
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish() -> None:
    """Leave what collection made, 100,000s of objects, out of every later search for circles."""
    gc.collect()
    gc.freeze()


def rank(item: pytest.Item) -> int:
    """What takes longest comes first: the rest fills the time that is left of the other worker."""
    group = item.get_closest_marker("xdist_group")
    return 2 if group is None else int(group.args[0] != SHARED)


class JavaFirst:
    """Sorts by rank, after the shuffle."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=rank)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(JavaFirst())
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        ports.take_share(int(worker["workerid"].removeprefix("gw")), worker["workercount"])
