"""What shares a server runs on one worker, also where xdist's own groups are lost."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.kit.scheduling import COMPUTING, NICE, WAITING

ROOT = Path(__file__).resolve().parents[3]
GROUPED = """
import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("{name}")

@pytest.fixture(scope="module")
def server():
    with Path("started").open("a") as file:
        file.write("{name}\\n")

@pytest.mark.parametrize("text", {texts})
def test_it(server, text):
    with Path("ran").open("a") as file:
        file.write("{name}" + os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""
TEXTS = ["]", "@spark", "a", "b", "c", "d"]
ALONE = """
import pytest

@pytest.mark.parametrize("number", range(8))
def test_alone(number): pass
"""


def run(folder, *options):
    (folder / "pytest.ini").write_text("[pytest]\n")
    plugins = ("-p", "xdist", "-p", "tests.kit.scheduling")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "--dist", "loadgroup", *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    return done.stdout


def test_a_group_runs_on_one_worker(tmp_path):
    groups = ("one", "two", "three")
    for name in groups:
        (tmp_path / f"test_{name}.py").write_text(GROUPED.format(name=name, texts=TEXTS))
    (tmp_path / "test_alone.py").write_text(ALONE)
    assert "26 passed" in run(tmp_path, "-n", "2")
    assert Counter((tmp_path / "started").read_text().split()) == dict.fromkeys(groups, 1)
    ran = Counter((tmp_path / "ran").read_text().split())
    assert sorted(ran.values()) == [6, 6, 6], ran
    assert len({worker[-3:] for worker in ran}) == 2, "both workers take part"


def test_what_waits_has_a_worker_of_its_own(tmp_path):
    waiting = sorted(WAITING)[:2]
    for name in ("test_one", "test_two"):
        (tmp_path / f"{name}.py").write_text(GROUPED.format(name=name, texts=TEXTS))
    # Of groups so small a worker gets two at once: nobody else can be faster.
    for name in waiting:
        (tmp_path / f"{name}.py").write_text(GROUPED.format(name=name, texts=TEXTS[:2]))
    (tmp_path / "test_alone.py").write_text(ALONE)
    assert "24 passed" in run(tmp_path, "-n", "3", "--waiting-workers", "1")
    ran = Counter((tmp_path / "ran").read_text().split())
    assert {one[-3:] for one in ran if one[:-3] in waiting} == {"gw2"}
    assert {one[-3:] for one in ran if one[:-3] not in waiting} == {"gw0", "gw1"}
    assert len(ran) == 4


NICENESS = """
import os
from pathlib import Path

import pytest

from emulator.servers.waiting import wait_for

LOWER = {lower}

@pytest.mark.parametrize("number", range(20))
def test_it(number):
    worker, ran = os.environ["PYTEST_XDIST_WORKER"], Path("ran")
    with ran.open("a") as file:
        file.write(f"{{worker}} {{os.nice(0)}} {folder}\\n")
    if worker != "gw2" and "{folder}" == "tests/simulation":
        wait_for("the last worker", lambda: f"gw2 {{LOWER}} {folder}" in ran.read_text())
"""


def test_then_it_takes_what_needs_no_clock_and_gives_way_to_the_others(tmp_path):
    waiting, own = min(WAITING), os.nice(0)
    lower = min(own + NICE, 19)
    (tmp_path / f"{waiting}.py").write_text(NICENESS.format(folder=waiting, lower=lower))
    for folder in ("tests/simulation", "tests/unit"):
        (tmp_path / folder).mkdir(parents=True)
        name = f"test_{Path(folder).name}.py"
        (tmp_path / folder / name).write_text(NICENESS.format(folder=folder, lower=lower))
    assert "60 passed" in run(tmp_path, "-n", "3", "--waiting-workers", "1")
    ran = {tuple(line.split()) for line in (tmp_path / "ran").read_text().splitlines()}
    by_the_last = {(nice, where) for worker, nice, where in ran if worker == "gw2"}
    assert by_the_last == {(str(own), waiting), (str(lower), "tests/simulation")}
    assert {nice for worker, nice, _ in ran if worker != "gw2"} == {str(own)}


@pytest.mark.parametrize("workers", ["1", "3"])
def test_where_nothing_waits_the_worker_ends(tmp_path, workers):
    """A single worker takes all."""
    (tmp_path / "test_alone.py").write_text(ALONE)
    assert "8 passed" in run(tmp_path, "-n", workers, "--waiting-workers", "1")


def test_every_module_that_waits_is_there():
    there = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    assert there >= WAITING
    assert all((ROOT / folder).is_dir() for folder in COMPUTING)
