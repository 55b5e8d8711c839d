"""The plugin that records what was proven, run on small test files of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.laws import at_least
from tools.recorded import Run
from tools.requirements import proofs

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

    def run_file(text, *arguments, **variables):
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
                "HYPOTHESIS_PROFILE": "default",
            }
            | variables,
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
    run = Run(record["tests"], why={}, failed=[])
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
    assert (record["profile"], record["complete"]) == ("default", complete)


def test_a_run_that_failed_is_not_complete(run):
    code, _, record = run(TESTS)
    assert code == 1
    assert record["complete"] is False


SKIPPED = """
import pytest

def test_passed(): pass

def test_skipped(): pytest.skip("later")

def test_expected(): pytest.xfail("later")

@pytest.mark.xfail(strict=False)
def test_not_expected(): pass
"""
FILES = {
    "test_never.py": "import pytest; pytest.skip('later', allow_module_level=True)\n",
    "test_without.py": "import pytest; pytest.importorskip('no_such_module')\n",
}
"""They skip themselves while they are imported."""


@pytest.mark.parametrize("arguments", [(), ("-n", "1", "--dist", "loadgroup")])
def test_what_nobody_allowed_to_be_skipped_fails_the_run(run, tmp_path, arguments):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    code, output, record = run(SKIPPED, *arguments)
    assert code == 1
    assert "skips that nobody allowed" in output
    tests = [f"test_it.py::test_{name}" for name in ("expected", "not_expected", "skipped")]
    assert record["unexpected_skips"] == [*tests, *FILES]
    assert record["complete"] is False
    assert record["counts"]["passed"] == 1


def test_a_run_with_fewer_examples_is_a_part(run):
    code, _, record = run("def test_unit(): pass", HYPOTHESIS_PROFILE="quick")
    assert code == 0
    assert (record["profile"], record["complete"]) == ("quick", False)


def test_a_variable_may_ask_for_more_cases_and_never_for_fewer(monkeypatch):
    assert at_least(30, "CASES") == 30
    for asked, tried in (("40", 40), ("3", 30)):
        monkeypatch.setenv("CASES", asked)
        assert at_least(30, "CASES") == tried


def test_an_unknown_row_is_refused(run):
    code, output, _ = run(TESTS.replace("W01", "W99"))
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "not in requirements.toml" in output
