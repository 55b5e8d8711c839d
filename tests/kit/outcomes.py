"""A pytest plugin: of each test its kind, and whether it passed, failed, or could not be set up.

With ``KRAFT_BRIDGE_OUTCOMES=FILE`` a JSON object is left there: test id -> ``kind`` (see
``tests/kit/kinds.py``) and ``outcome``: passed, failed, error (in set-up or tear-down) or skipped.
``tools.mutants`` reads it. For a run in one process.
"""

import json
import os
from pathlib import Path

import pytest

from tests.kit.kinds import kind_of

VARIABLE = "KRAFT_BRIDGE_OUTCOMES"


class Outcomes:
    """Collects what became of each test."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._found: dict[str, dict[str, str]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            kind = kind_of(getattr(item, "fixturenames", ()))
            self._found[item.nodeid] = {"kind": kind, "outcome": "not run"}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        entry = self._found[report.nodeid]
        if report.failed:
            entry["outcome"] = "failed" if report.when == "call" else "error"
        elif report.skipped:
            entry["outcome"] = "skipped"
        elif report.when == "call":
            entry["outcome"] = "passed"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self._file.write_text(json.dumps(self._found))


def pytest_configure(config: pytest.Config) -> None:
    if path := os.environ.get(VARIABLE):
        config.pluginmanager.register(Outcomes(Path(path)))
