"""A test that fails, or whose time is over, breaks no other: planted tests in runs of their own."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PLUGINS = ("pytest_timeout", "_hypothesis_pytestplugin", "tests.kit.whole")
OPTIONS = ("-p", "no:cacheprovider", "--junit-xml", "found.xml")
LIMITS = """
from tests.kit import whole

whole.STRIKES_AGAIN_S = 1
"""
SHARED = """
import asyncio, contextlib, socket, threading
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

def note(text):
    with Path("noted").open("a") as file:
        print(text, file=file)

def hang():
    threading.Event().wait()

hangs = pytest.mark.timeout(1)

@pytest.fixture(scope="session")
def server():
    made = {"whole": True}
    note("start")
    yield made
    note("end")

@pytest.fixture(scope="module")
def on_it(server):
    return server
"""


def run(folder: Path, tests: str) -> tuple[dict[str, list[str]], list[str], str]:
    """What became of each planted test, what they noted, and what was printed."""
    (folder / "pytest.ini").write_text("[pytest]\ntimeout = 300\nfilterwarnings = error\n")
    (folder / "conftest.py").write_text(LIMITS)
    (folder / "test_planted.py").write_text(SHARED + tests)
    plugins = [text for name in PLUGINS for text in ("-p", name)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *OPTIONS],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    outcomes: dict[str, list[str]] = {}
    for case in ET.parse(folder / "found.xml").iter("testcase"):
        outcomes.setdefault(str(case.get("name")), []).extend(part.tag for part in case)
    noted = folder / "noted"
    return (
        outcomes,
        noted.read_text().split() if noted.exists() else [],
        done.stdout,
    )


def test_what_a_failed_test_shared_is_made_anew(tmp_path: Path) -> None:
    """Also what another fixture has made of it."""
    found, noted, _ = run(
        tmp_path,
        """
def test_1(on_it): pass
def test_2(on_it):
    on_it["whole"] = False
    assert not on_it
def test_3(on_it, server):
    assert on_it["whole"] and on_it is server
@hangs
def test_4(server): hang()
def test_5(on_it): assert on_it["whole"]
""",
    )
    assert found == {
        "test_1": [],
        "test_2": ["failure"],
        "test_3": [],
        "test_4": ["failure"],
        "test_5": [],
    }
    assert noted == ["start", "end", "start", "end", "start", "end"]


def test_a_set_up_that_failed_is_done_again_once(tmp_path: Path) -> None:
    found, noted, printed = run(
        tmp_path,
        """
@pytest.fixture(scope="session")
def late():
    note("late")
    if Path("noted").read_text().split() == ["late"]:
        hang()

@pytest.fixture(scope="session")
def never(late):
    note("never")
    raise OSError("it does not start")

@hangs
def test_1(late): pass
def test_2(late): pass
def test_3(never): pass
def test_4(never): pass
def test_5(never): pass
def test_6(late): pass
""",
    )
    wrong = {f"test_{number}": ["error"] for number in (1, 3, 4, 5)}
    assert found == {"test_2": [], "test_6": [], **wrong}
    assert noted == ["late", "late", "never", "late", "never"]
    assert printed.count("E       OSError: it does not start") == 3


def test_what_cannot_be_ended_is_an_error_of_the_test_that_failed(tmp_path: Path) -> None:
    found, noted, printed = run(
        tmp_path,
        """
@pytest.fixture(scope="session")
def stubborn(server):
    yield
    if Path("noted").read_text().split() == ["start"]:
        raise OSError("it does not end")

def test_1(stubborn, server): raise ValueError
def test_2(stubborn, server): assert server["whole"]
""",
    )
    assert found == {"test_1": ["failure", "error"], "test_2": []}
    assert "it does not end" in printed
    assert noted == ["start", "end", "start", "end"]


def test_sockets_of_a_failed_test_are_not_reported_in_another(tmp_path: Path) -> None:
    found, _, _ = run(
        tmp_path,
        """
class Held:
    def __init__(self):
        self.held, self.me = socket.socket(), self

def test_1():
    held = Held()
    raise ValueError
def test_2(): pass
def test_3():
    import gc
    gc.collect()
""",
    )
    assert found == {"test_1": ["failure"], "test_2": [], "test_3": []}


def test_what_hangs_ends(tmp_path: Path) -> None:
    """In a loop whose callbacks may fail, in a law, in a teardown after a failure, in a set-up.

    What catches the limit has failed as well.
    """
    found, _, _ = run(
        tmp_path,
        """
@hangs
def test_1():
    loop = asyncio.new_event_loop()
    def busy():
        loop.call_soon(busy)
        threading.Event().wait(0.01)
    with contextlib.closing(loop):
        busy()
        loop.run_forever()

@hangs
@given(st.integers())
def test_2(number): hang()

@pytest.fixture
def endless():
    yield
    hang()

@hangs
def test_3(endless): raise ValueError

@hangs
def test_4():
    with pytest.raises(KeyboardInterrupt):
        hang()

@hangs
def test_5(endless): pass
def test_6(): pass

@pytest.fixture
def deaf():
    yield
    with contextlib.suppress(BaseException):
        hang()

@hangs
def test_7(deaf): pass

@pytest.fixture
def slow():
    with contextlib.suppress(BaseException):
        hang()

@hangs
def test_8(slow): pass
@hangs
def test_9(deaf): raise ValueError
def test_10(): pass
""",
    )
    outcomes = {
        (): (6, 10),
        ("failure",): (1, 2, 4),
        ("error",): (5, 7, 8),
        ("failure", "error"): (3, 9),
    }
    expected = {f"test_{n}": [*tags] for tags, numbers in outcomes.items() for n in numbers}
    assert found == expected


def test_a_test_that_has_ignored_a_signal_passes_that_on_to_no_server(tmp_path: Path) -> None:
    found, _, _ = run(
        tmp_path,
        """
import signal, subprocess

def test_1(): signal.signal(signal.SIGTERM, signal.SIG_IGN)
def test_2():
    with subprocess.Popen(["sleep", "60"]) as server:
        server.terminate()
    assert server.returncode == -signal.SIGTERM
def test_3(): raise ValueError
""",
    )
    assert found == {"test_1": [], "test_2": [], "test_3": ["failure"]}
