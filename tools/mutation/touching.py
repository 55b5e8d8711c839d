"""A pytest plugin: which test runs which line, and how long each test takes.

With ``KRAFT_BRIDGE_TOUCHING=FOLDER`` a line of JSON is appended to ``FOLDER/tests.jsonl`` for each
test: its id, its seconds, its outcome. Where coverage measures, what the test runs is put down
under its id; so is what its child processes run, which read the id from ``KRAFT_BRIDGE_TEST``.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

VARIABLE = "KRAFT_BRIDGE_TOUCHING"
TEST = "KRAFT_BRIDGE_TEST"


class Touching:
    """Says to coverage which test runs, and notes its time."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "tests.jsonl"
        self._seconds = 0.0
        self._outcome = "passed"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._seconds, self._outcome = 0.0, "passed"
        os.environ[TEST] = item.nodeid
        measuring = coverage.Coverage.current()
        if measuring is not None:
            measuring.switch_context(item.nodeid)
        done = yield
        if measuring is not None:
            measuring.switch_context("")
        line = {"test": item.nodeid, "seconds": self._seconds, "outcome": self._outcome}
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds += report.duration
        if report.outcome != "passed":
            self._outcome = report.outcome


def pytest_configure(config: pytest.Config) -> None:
    if folder := os.environ.get(VARIABLE):
        config.pluginmanager.register(Touching(Path(folder)))
