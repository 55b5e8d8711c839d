"""How tests are handed to the workers: a pytest plugin.

Tests that share servers are a group, which runs on one worker. Groups come first, those that take
longest before the others: the rest fills the time that is left of the other worker.

The groups are handed out as by xdist's ``--dist loadgroup``, but for these:

* The groups travel in a file. xdist appends them to the ids of the tests, which pytest no longer
  lets it do from 9.2 on: nothing fails, but each test is then a group of its own, and every server
  that the tests of a file share is started by each worker (pytest-xdist, issue 1386).
* With ``--waiting-workers N`` the last N workers take modules of :data:`WAITING`: these wait for
  real timeouts and servers that stand still, and need few cores. Then they take those of
  :data:`COMPUTING`, which look at no clock, and run them at a lower priority: what the servers of
  the others leave of the cores. They end when neither is left.
* Groups that are done are forgotten. xdist keeps each one that a worker has finished, and counts
  through all of them whenever a test ends; with thousands of tests, each a group, the process that
  hands them out is busy with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from xdist.scheduler.loadgroup import LoadGroupScheduling
from xdist.workermanage import WorkerController

from tests.kit.kinds import JVM_FIXTURES

SHARED: Final = "brokers"
"""The group of what looks at servers that live until the end of the run."""

SPARK: Final = "spark"
"""The group of what uses the one Spark session."""

WAITING: Final = frozenset(
    {
        "test_kept_session_on_zookeeper",
        "test_one_controller_writes",
        "test_refused_controller",
        "test_secured_zookeeper",
        "test_session_on_zookeeper",
        "test_slow_line_to_zookeeper",
    }
)
"""Modules whose tests wait most of their time."""

COMPUTING: Final = ("tests/simulation/", "tests/laws/")
"""Folders of tests whose time is virtual, so that nothing depends on how fast they are."""

NICE: Final = 5
"""How much lower their priority is: three tenths of a core while both others are busy."""

OPTION: Final = "--waiting-workers"

INPUT: Final = "groups"
"""What a worker is told: where to leave the groups."""


def group_of(item: pytest.Item) -> str | None:
    """The group of a test, None where it has none: its marks' names, as xdist joins them."""
    names = {str(mark.args[0]) for mark in item.iter_markers("xdist_group")}
    return "_".join(sorted(names)) or None


def rank(item: pytest.Item) -> int:
    """What takes longest comes first."""
    group = group_of(item)
    if group is not None:
        return 0 if group in {SHARED, SPARK} else 1
    return 2 if item.get_closest_marker("slow") else 3


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts Java, and group what shares servers: a module, or more."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if JVM_FIXTURES.intersection(fixtures):
            item.add_marker(pytest.mark.jvm)
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group(SPARK))
        elif item.get_closest_marker("jvm"):
            group = SHARED if "shared_brokers" in fixtures else item.path.stem
            item.add_marker(pytest.mark.xdist_group(group))


def _computes(nodeid: str) -> bool:
    return nodeid.startswith(COMPUTING)


class LongestFirst:
    """Sorts by rank, after the shuffle."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=rank)


class Numbered(list[str]):
    """Ids whose places are known: xdist looks for each one in a list of 16,000."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__(ids)
        self._places = {nodeid: place for place, nodeid in enumerate(ids)}

    def index(self, nodeid: str, *_: object) -> int:
        return self._places[nodeid]


class ByGroup(LoadGroupScheduling):  # type: ignore[misc]
    """Keeps a group on one worker, and forgets groups that are done.

    Args:
        config: of the process that hands out.
        log: xdist's.
        file: where the workers leave the groups.
    """

    def __init__(self, config: pytest.Config, log: object, file: Path) -> None:
        super().__init__(config, log)
        self._file = file
        self._groups: Mapping[str, str] = {}
        self._waits: Mapping[str, None] = {}
        self._spare: Mapping[str, None] = {}
        """All that the last workers take, what waits first."""
        # One worker at least takes all: `make test JOBS=1` ends as well.
        self._waiting = _last_workers(config, self.numnodes)

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Keep what a worker has collected."""
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = Numbered(collection)

    def schedule(self) -> None:
        """Every worker has collected: hand out the first groups."""
        if self.collection is None:
            self._groups = json.loads(self._file.read_text())
            ids = next(iter(self.registered_collections.values()))
            waits = (nodeid for nodeid in ids if Path(nodeid.partition("::")[0]).stem in WAITING)
            self._waits = dict.fromkeys(map(self._split_scope, waits))
            computes = filter(_computes, ids)
            self._spare = {**self._waits, **dict.fromkeys(map(self._split_scope, computes))}
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        """The group of a test; one without is a group of its own."""
        return self._groups.get(nodeid, nodeid)

    def _of_its_kind(self, node: WorkerController) -> str | None:
        """The next group for a worker, None if none is left for it."""
        if _number(node.gateway.id) in self._waiting:
            return next((scope for scope in self._spare if scope in self.workqueue), None)
        # Whoever else has nothing left takes what waits as well.
        others = (scope for scope in self.workqueue if scope not in self._waits)
        return next(others, next(iter(self.workqueue), None))

    def _assign_work_unit(self, node: WorkerController) -> None:
        scope = self._of_its_kind(node) if self._waiting else None
        if scope is not None:
            self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if self._waiting and self._of_its_kind(node) is None:
            node.shutdown()
            return
        super()._reschedule(node)

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """A worker has run a test; it gets more when it has little left."""
        super().mark_test_complete(node, item_index, duration)
        work = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(work[scope].values()):
            del work[scope]


class GivesWay:
    """In a worker that takes what waits: lowers its priority once it only computes."""

    def __init__(self) -> None:
        self._lowered = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if _computes(item.nodeid) and not self._lowered:
            os.nice(NICE)
            self._lowered = True


class Distribution:
    """In the process that hands out: tells the workers where to leave the groups."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="groups-")
        self._file = Path(self._folder.name, "groups.json")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        node.workerinput[INPUT] = str(self._file)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: object) -> ByGroup:
        return ByGroup(config, log, self._file)

    def pytest_unconfigure(self) -> None:
        self._folder.cleanup()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that keeps workers for what waits."""
    text = "so many of the workers take tests that wait, then what needs no clock"
    parser.addoption(OPTION, type=int, default=0, metavar="N", help=text)


def _number(worker: str) -> int:
    return int(worker.removeprefix("gw"))


def _last_workers(config: pytest.Config, count: int) -> range:
    """The numbers of the workers for what waits; one at least takes all."""
    return range(max(1, count - int(config.getoption(OPTION))), count)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(LongestFirst())
    worker = getattr(config, "workerinput", None)
    if worker is None:
        if config.getoption("dist", "no") == "loadgroup":
            config.pluginmanager.register(Distribution())
    elif _number(worker["workerid"]) in _last_workers(config, worker["workercount"]):
        config.pluginmanager.register(GivesWay())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """In a worker: leave the groups before xdist says that all is collected."""
    where = getattr(session.config, "workerinput", {}).get(INPUT)
    if where is None:
        return
    groups = {item.nodeid: group for item in session.items if (group := group_of(item))}
    # All workers leave the same; one that is read is whole.
    fresh = Path(f"{where}.{os.getpid()}")
    fresh.write_text(json.dumps(groups))
    fresh.replace(where)
