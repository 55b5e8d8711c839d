"""The plugin, in a pytest of its own: what a user's tests get from it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PLUGIN = "emulator.testing.plugin"
JUDGE = "bench.conformance.plugin"
ROOT = Path(__file__).resolve().parents[3]


def run(folder: Path, text: str) -> tuple[int, str]:
    """Run a file of tests with the plugin; returns pytest's exit code and what it printed."""
    (folder / "test_users.py").write_text(text)
    options = ["addopts = --strict-markers", "asyncio_default_fixture_loop_scope = function"]
    (folder / "pytest.ini").write_text("\n".join(["[pytest]", *options, ""]))
    command = [sys.executable, "-W", "error", "-m", "pytest", "-p", PLUGIN, "-rA", "test_users.py"]
    ran = subprocess.run(
        command,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_the_fixtures_serve_tests_with_and_without_asyncio(tmp_path: Path) -> None:
    code, said = run(
        tmp_path,
        """
import asyncio
import pytest
from wire import messages as m

def test_synchronous(kraft_cluster):
    assert kraft_cluster.request(m.DescribeClusterRequest(endpoint_type=2)).error_code == 0

@pytest.mark.asyncio
async def test_coroutine(kraft_cluster):
    host, _, port = kraft_cluster.controllers.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.close()
    await writer.wait_closed()

@pytest.mark.kraft_cluster(release="3.4", fsync=False)
def test_settings(kraft_cluster):
    assert kraft_cluster.status()["release"] == "3.4"
    assert kraft_cluster.status()["fsync"] is False

def test_two(kraft_clusters):
    one, other = kraft_clusters(), kraft_clusters(release="3.6")
    assert one.controllers != other.controllers

@pytest.mark.kraft_cluster(colour="blue")
def test_mistyped(kraft_cluster):
    pass
""",
    )
    assert code == 1, said
    assert "4 passed, 1 error" in said
    assert "unexpected keyword argument 'colour'" in said


def test_an_argument_of_the_marker_without_a_name_is_refused(tmp_path: Path) -> None:
    """It was ignored: the test ran on a cluster without brokers."""
    code, said = run(
        tmp_path,
        """
import pytest

@pytest.mark.kraft_cluster(3)
def test_positional(kraft_cluster):
    pass
""",
    )
    assert code == 1
    assert "kraft_cluster takes arguments by name, such as brokers=3, not 3" in said


def test_a_test_whose_fault_never_fired_fails(tmp_path: Path) -> None:
    code, said = run(
        tmp_path,
        """
import pytest
from emulator.testing import Cluster, Fault
from wire import messages as m

LOST = Fault(api="DescribeCluster", error="NOT_CONTROLLER")

@pytest.mark.kraft_cluster(faults=[LOST])
def test_fired(kraft_cluster):
    assert kraft_cluster.request(m.DescribeClusterRequest(endpoint_type=2)).error_code == 41

@pytest.mark.kraft_cluster(faults=[LOST])
def test_missed(kraft_cluster):
    pass

@pytest.mark.asyncio
async def test_missed_in_a_coroutine(kraft_clusters):
    kraft_clusters().add_faults(LOST)

@pytest.mark.kraft_cluster(faults=[LOST])
def test_failed(kraft_cluster):
    assert 1 == 2

@pytest.mark.kraft_cluster(faults=[LOST])
def test_skipped(kraft_cluster):
    pytest.skip("not today")

def test_missed_without_a_fixture():
    with Cluster(faults=[LOST]):
        pass
""",
    )
    assert code == 1
    assert "4 failed, 1 passed, 1 skipped" in said
    assert said.count("FaultMissedError: faults that never fired: DescribeCluster") >= 3
    assert "ERROR" not in said


def test_it_is_an_entry_point_and_costs_a_run_without_clusters_no_import(tmp_path: Path) -> None:
    code, said = run(
        tmp_path,
        """
import sys
import tomllib

def test_nothing():
    loaded = [name for name in sys.modules if name.startswith(("emulator", "wire"))]
    assert sorted(loaded) == ["emulator", "emulator.testing", "emulator.testing.plugin"]
""",
    )
    assert code == 0, said


def test_its_entry_point_has_the_name_that_an_option_loads_it_by() -> None:
    """So pytest loads it once, by either."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {one: one for one in (PLUGIN, JUDGE)}


def test_an_older_pytest_runs_other_tests_and_refuses_the_fixtures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pytest, "version_tuple", (7, 4, 4))
    spec = importlib.util.find_spec(PLUGIN)
    plugin = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plugin)
    assert not hasattr(plugin, "pytest_runtest_call")
