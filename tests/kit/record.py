"""A pytest plugin: what ran, what it proves, what was skipped.

With ``KRAFT_BRIDGE_RECORD=FILE`` a JSON document is left there when the run ends: counts, whether
every test was run, the profile of hypothesis, and for each test that cites requirements their ids,
its outcome and its kind. ``tools.recorded`` keeps it with the commit, ``make requirements`` reads
it. A skip or an expected failure that is not listed in ``allowed_skips.txt`` fails the run.
"""

import json
import os
import re
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.record import VARIABLE
from emulator.servers.process import running
from tests.kit.kinds import kind_of
from tests.kit.laws import FACTORS, PROFILE

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "tests" / "requirements.toml"
ALLOWED_SKIPS = Path(__file__).with_name("allowed_skips.txt")
_PROPERTY = "requirements"


def known_ids() -> frozenset[str]:
    """Every id that the file lists."""
    sections = tomllib.loads(REQUIREMENTS.read_text())["rows"].values()
    return frozenset(row for rows in sections for row in rows)


def allowed_skips() -> frozenset[str]:
    """Ids of tests that need not pass; each with its reason behind a ``#``."""
    lines = ALLOWED_SKIPS.read_text().splitlines()
    return frozenset(name for line in lines if (name := line.partition("#")[0].strip()))


def plain(nodeid: str) -> str:
    """A test id without the group that xdist appends."""
    return re.sub(r"@\w+$", "", nodeid)


def complete(config: pytest.Config) -> bool:
    """Whether nothing asks for a part of the tests, or of the examples of a law, only."""
    option = config.option
    chosen = (
        *(getattr(option, name, None) for name in ("keyword", "markexpr", "lf", "failedfirst")),
        *(
            getattr(option, name, None)
            for name in ("deselect", "ignore", "ignore_glob", "stepwise", "hypothesis_profile")
        ),
    )
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    return FACTORS[PROFILE] >= 1 and not named and not any(chosen)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Attach the ids to each test; they travel in its reports, also from other processes."""
    known = known_ids()
    for item in items:
        cited = [str(row) for mark in item.iter_markers("requirement") for row in mark.args]
        if unknown := [row for row in cited if row not in known]:
            raise pytest.UsageError(f"{item.nodeid} cites {unknown}: not in {REQUIREMENTS.name}")
        if cited:
            kind = kind_of(getattr(item, "fixturenames", ()))
            item.user_properties.append((_PROPERTY, {"ids": cited, "kind": kind}))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """To a failure add the last lines of every server that runs: there the reason often is."""
    report = yield
    if report.failed:
        for process in running():
            report.sections.append((f"{process.name} (pid {process.pid})", process.tail()))
    return report


class Record:
    """Collects reports in the process that runs or distributes the tests."""

    def __init__(self, *, complete: bool = False) -> None:
        self.complete = complete
        self.begun = time.time()
        self.outcomes: dict[str, str] = {}
        self.cited: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = plain(report.nodeid)
        for key, value in report.user_properties:
            if key == _PROPERTY:
                self.cited[name] = dict(value)  # type: ignore[call-overload]
        if report.failed:
            self.outcomes[name] = "failed"
        elif hasattr(report, "wasxfail"):  # also if it passed, and need not have
            self.outcomes.setdefault(name, "xfailed")
        elif report.skipped:
            self.outcomes.setdefault(name, "skipped")
        elif report.when == "call":
            self.outcomes.setdefault(name, "passed")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that skips itself while it is imported; its tests are never heard of."""
        if report.skipped:
            self.outcomes[report.nodeid] = "skipped"

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.config.option.collectonly:
            for item in session.items:
                for key, value in item.user_properties:
                    if key == _PROPERTY:
                        self.cited[plain(item.nodeid)] = dict(value)  # type: ignore[call-overload]

    def unexpected_skips(self) -> list[str]:
        """Tests, and files, that were skipped or expected to fail and are not on the list."""
        allowed = allowed_skips()
        skipped = (name for name, how in self.outcomes.items() if how in {"skipped", "xfailed"})
        return sorted(name for name in skipped if name not in allowed)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and self.unexpected_skips():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if path := os.environ.get(VARIABLE):
            tests = [
                {"test": name, **cited, "outcome": self.outcomes.get(name, "not run")}
                for name, cited in sorted(self.cited.items())
            ]
            document = {
                "begun": self.begun,
                "seconds": round(time.time() - self.begun, 1),
                "exit": int(session.exitstatus),
                "complete": self.complete and session.exitstatus == pytest.ExitCode.OK,
                "profile": PROFILE,
                "counts": dict(sorted(Counter(self.outcomes.values()).items())),
                "unexpected_skips": self.unexpected_skips(),
                "tests": tests,
            }
            file = ROOT / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(document, indent=1) + "\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if skips := self.unexpected_skips():
            terminalreporter.section("skips that nobody allowed", red=True)
            for name in skips:
                terminalreporter.line(name)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Record(complete=complete(config)))
