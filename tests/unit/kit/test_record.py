"""The plugin that records what was proven, run on small test files of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.requirements import Run, proofs

ROOT = Path(__file__).resolve().parents[3]
CONFTEST = """
import pytest

@pytest.fixture
def zookeeper(): pass

@pytest.fixture
def fault_proxy(): pass

@pytest.fixture
def mine(zookeeper): pass
"""
TESTS = """
import pytest

row = pytest.mark.requirement

@row("W01", "G06")
def test_unit(): pass

@row("W02")
def test_zookeeper(fault_proxy, mine): pass

@row("W03")
def test_proxy(fault_proxy): pass

@row("W03")
def test_also(): pass

@row("W04", "G06")
def test_failed(): assert 0

@row("W05")
def test_skipped(): pytest.skip("later")

@row("W06")
def test_expected(): pytest.xfail("later")
"""
PLUGINS = ("-p", "xdist", "-p", "tests.kit.record")
PROVEN = {"W01": ["unit"], "W02": ["ZooKeeper"], "W03": ["proxy", "unit"]}


@pytest.fixture
def run(tmp_path):
    """Runs a test file under the plugin; returns exit code, output and the record."""

    def run_file(text, *arguments):
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "test_it.py").write_text(text)
        (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    requirement(id): rows\n")
        record = tmp_path / "record.json"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *PLUGINS, *arguments],
            cwd=tmp_path,
            env=os.environ
            | {
                "PYTHONPATH": str(ROOT),
                "KRAFT_BRIDGE_RECORD": str(record),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        found = json.loads(record.read_text()) if record.exists() else None
        return done.returncode, done.stdout + done.stderr, found

    return run_file


@pytest.mark.parametrize("arguments", [(), ("-n", "1", "--dist", "loadgroup")])
def test_rows_are_proven_by_tests_that_passed_and_by_their_kind(run, arguments):
    code, _, record = run(TESTS, *arguments)
    assert code == 1
    assert record["counts"] == {"failed": 1, "passed": 4, "skipped": 1, "xfailed": 1}
    # G06 is cited by a test that failed, too: it is not proven.
    run = Run(record["tests"], why={}, failed=())
    assert {row: sorted(kinds) for row, kinds in proofs([run]).items()} == PROVEN


@pytest.mark.parametrize(
    ("arguments", "complete"),
    [
        ((), True),
        (("-k", "unit or zookeeper"), False),
        (("-m", "not slow"), False),
        (("--deselect", "test_it.py::test_also"), False),
        (("test_it.py::test_unit",), False),
    ],
    ids=["all", "keyword", "marker", "deselected", "named"],
)
def test_a_run_of_a_part_says_so(run, arguments, complete):
    passing = TESTS.partition('@row("W04"')[0]
    code, _, record = run(passing, *arguments)
    assert code == 0
    assert record["complete"] is complete


def test_a_run_that_failed_is_not_complete(run):
    code, _, record = run(TESTS)
    assert code == 1
    assert record["complete"] is False


def test_a_skip_that_is_not_listed_fails_the_run(run):
    code, output, record = run(TESTS, "-k", "unit or skipped")
    assert code == 1
    assert "skips that nobody allowed" in output
    assert record["unexpected_skips"] == ["test_it.py::test_skipped"]


def test_an_unknown_row_is_refused(run):
    code, output, _ = run(TESTS.replace("W01", "W99"))
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "not in docs/requirements.md" in output
