"""``rollback``: the command line, and the processes that it finds by the locks of folders."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emulator.commands import status_shown
from emulator.commands.json_forms import FORMS
from emulator.commands.preflight.inputs import read_properties
from emulator.commands.rollback import show
from emulator.commands.rollback.acting import LiveRollback
from emulator.commands.rollback.looking import Given, Looker, url_of_status
from emulator.config.listeners import HostPort
from emulator.io.folder_holder import Ending, FolderHolder, holder
from emulator.migration.tree_diff import Difference
from emulator.operations.preflight.survey import Survey
from emulator.operations.rollback.course import Course, CourseError, Wanted, plan, roll_back, steps
from emulator.operations.rollback.phases import NOT_NOW
from emulator.operations.rollback.situation import ControllerSeen, Situation
from emulator.raft import layout
from emulator.servers.waiting import PATIENCE_S
from tests.kit.json_form import never_shown, problems
from tests.kit.status_document import LAG, broker, document, ends
from tests.unit.commands.running import run
from tests.unit.operations.rollback.model import dual_write, finalised

REFUSED = {"znode": "/x", "cause": "NO_AUTH", "remedy": "grant it", "skipped": False}
HOLDS = """
import fcntl, sys
file = open(sys.argv[1], "a+b")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "needs --zookeeper"),
        (("--zookeeper", "h:1", "--accept-loss"), "need --yes"),
        (("--zookeeper", "h:1", "--clear"), "need --yes"),
        (("--zookeeper", "127.0.0.1:99999"), "is not host:port"),
        (("-c", "no-such.properties"), "no-such.properties"),
        (("--zookeeper", "127.0.0.1:1", "--log-dir", "no-such-folder"), "no such folder"),
    ],
)
def test_asked_wrongly_it_exits_with_2(arguments: tuple[str, ...], why: str) -> None:
    code, out, err = run("rollback", *arguments)
    assert (code, out) == (2, ""), err
    assert why in err
    assert len(err.splitlines()) == 1


def test_a_zookeeper_that_nobody_reaches_exits_with_3() -> None:
    for more in ((), ("--yes",), ("--yes", "--json")):
        code, out, err = run("rollback", "--zookeeper", "127.0.0.1:1", *more)
        assert (code, out) == (3, "")
        assert "Connection refused" in err


def test_the_kernel_says_who_holds_a_folder(tmp_path: Path) -> None:
    assert holder(tmp_path) == FolderHolder(False, None), "no lock file"
    lock = tmp_path / ".lock"
    lock.touch()
    assert holder(tmp_path) == FolderHolder(False, None)
    with lock.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert holder(tmp_path) == FolderHolder(True, os.getpid())
    assert holder(tmp_path) == FolderHolder(False, None)


def test_a_controller_of_kafkas_has_another_kind_of_lock(tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("a+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        assert holder(tmp_path) == FolderHolder(True, os.getpid())


def test_a_process_that_does_not_have_the_file_does_not_hold_the_folder(tmp_path: Path) -> None:
    """The list of locks names files by number: another file system has the same numbers."""
    lock = tmp_path / ".lock"
    lock.touch()
    stat = lock.stat()
    file = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    told = f"1: FLOCK  ADVISORY  WRITE {os.getpid()} {file} 0 EOF\n"
    assert holder(tmp_path, told) == FolderHolder(False, None)
    other_namespace = told.replace(f"WRITE {os.getpid()} ", "WRITE 0 ")
    assert holder(tmp_path, other_namespace) == FolderHolder(True, None)


def test_its_end_is_awaited_and_its_number_alone_is_never_signalled(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout.readline() == "held\n"
        held, pid = holder(tmp_path)
        assert (held, pid) == (True, child.pid)
        ending = Ending([(child.pid, tmp_path)])
        began = time.monotonic()
        assert ending.wait(0.01)[1] == [child.pid]
        ending.terminate()
        last, left = ending.wait(300)
        assert (left, began < last <= time.monotonic()) == ([], True)
        assert holder(tmp_path) == FolderHolder(False, None), "though nobody has reaped it"
        ending.close()
        gone = Ending([(2**22 + 7, tmp_path)])
        gone.terminate()
        assert gone.wait(1)[1] == []


def test_json_is_of_its_form() -> None:
    done = json.loads(show.to_json(roll_back(dual_write(), Wanted()), acted=True))
    refused = json.loads(
        show.to_json(roll_back(dual_write(up=[], seen_folders=False), Wanted()), acted=True)
    )
    for one in (done, refused):
        assert problems(FORMS["rollback"], one) == []
    assert never_shown(FORMS["rollback"], [done, refused]) == set()
    assert (done["controller"], done["without_controller_ms"]) == (0, 210.0)
    assert (refused["refused"], refused["controller"]) == (True, None)


def test_text_says_what_was_done_and_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(width=200)
    show.show(roll_back(dual_write(), Wanted()), console, acted=True)
    text = capsys.readouterr().out
    assert text.startswith("DONE: rolled back, from dual write: broker 0 holds /controller\n")
    assert "done: deleted /controller, marked /kraft_bridge" in text
    assert "without a controller: 210 ms" in text
    assert "  1. operator: restart every broker without" in text
    show.show(plan(dual_write(), Wanted())[1], console, acted=False)
    assert "nothing was changed; --yes does" in capsys.readouterr().out
    show.show(roll_back(finalised(), Wanted()), console, acted=True)
    assert "refused because of RB-R01: nothing was changed" in capsys.readouterr().out


def shown(course: Course, *, acted: bool = False) -> str:
    console = Console(width=200)
    with console.capture() as printed:
        show.show(course, console, acted=acted)
    return printed.get()


def test_the_phase_is_that_of_the_controllers() -> None:
    """During a hold it said dual write: both stores are written."""
    _, course = plan(dual_write(flagless="held"), Wanted())
    assert f"rollback from: finalising: {show.WITHOUT_FLAG}\n" in shown(course)
    assert json.loads(show.to_json(course, acted=False))["phase"] == {
        "name": "finalising",
        "text": show.WITHOUT_FLAG,
    }
    _, course = plan(dual_write(), Wanted())
    assert "rollback from: dual write: " in shown(course)


@pytest.mark.parametrize(
    ("world", "found", "now"),
    [
        ({}, document("hybrid"), True),
        (
            {"kraft": (1,), "alive": (0, 2)},
            document("hybrid", [broker(0), broker(1, "kraft")]),
            False,
        ),
        ({"lag": None}, document("hybrid", migration={"lag": LAG | {"records": None}}), False),
        ({"poisoned": ("/x",)}, document("hybrid", migration={"poisoned": [REFUSED]}), False),
        ({"flagless": "held"}, document("finalising", finalisation=ends("held")), False),
    ],
)
def test_status_and_it_agree_whether_going_back_waits_for_an_operator(
    world: dict[str, Any], found: dict[str, Any], now: bool
) -> None:
    """A status said *roll back possible yes* where this verdict is *NOT NOW*."""
    _, course = plan(dual_write(**world), Wanted())
    assert shown(course).startswith("READY: " if now else f"{NOT_NOW}: ")
    found["migration"] = None if world.get("flagless") else found["migration"]
    console = Console(width=200)
    with console.capture() as printed:
        status_shown.show(json.dumps(found), console)
    (row,) = re.findall(r"^going back +(.*?) *$", printed.get(), re.MULTILINE)
    assert row.startswith(f"{NOT_NOW}: ") is not now
    assert "possible" not in row


def test_a_later_run_begins_with_a_verdict() -> None:
    world = dual_write()
    roll_back(world, Wanted())
    _, course = plan(world, Wanted())
    assert shown(course).startswith("BACK: rolled back: a broker in ZooKeeper mode is the")
    assert course.seen is not None
    course.seen = replace(course.seen, survey=replace(course.seen.survey, nodes={}))
    assert shown(course).startswith("NOTHING TO DO: rolled back: a broker in ZooKeeper mode")


def test_of_a_final_one_the_losses_are_grouped_and_nothing_is_next() -> None:
    """18 findings of three lines each, for two topics; and a next step of four clauses."""
    world = finalised()
    world.differences = [
        Difference(f"/brokers/topics/t{n}", "missing", None, b"") for n in range(9)
    ]
    world.up = []
    text = shown(roll_back(world, Wanted()), acted=True)
    assert text.startswith("NOT POSSIBLE: rollback from: final")
    assert "next: nothing: stay in KRaft mode\n" in text
    assert text.count("RB-R06 blocker") == 1
    assert "means: only the log has this: going back would lose it" in text


def test_nothing_is_offered_where_there_is_nothing_to_do() -> None:
    """Where no migration was begun it said that --yes does the steps of kraft-bridge."""
    _, course = plan(dual_write(), Wanted())
    assert "nothing was changed; --yes does the steps of kraft-bridge\n" in shown(course)
    course.steps = []
    assert shown(course).endswith("nothing was changed\n")


def test_the_plan_names_the_files_that_were_given() -> None:
    _, course = plan(dual_write(), Wanted())
    assert course.seen is not None
    named = [replace(one, file=f"{one.node_id}.p") for one in course.seen.controllers]
    found = steps(replace(course.seen, controllers=named), course.phase)
    (again,) = (one.command for one in found if "format" in one.command)
    assert again == "kraft-bridge format -c 3000.p --new-quorum"


@pytest.mark.parametrize(
    ("meta", "state"),
    [
        (
            "version=1\nnode.id=1\ncluster.id=x\n",
            '{"leaderEpoch":1,"currentVoters":[{"voterId":3000}]}',
        ),
        ("version=1\nnode.id=1\ncluster.id=x\n", '{"leaderEpoch":1,"data_version":1}'),
        ("version=0\nbroker.id=1\ncluster.id=x\n", ""),
    ],
)
def test_a_brokers_copy_of_the_log_is_no_controllers_folder(
    tmp_path: Path, meta: str, state: str
) -> None:
    """Its process would be stopped."""
    inner = tmp_path / layout.FOLDER
    inner.mkdir()
    (tmp_path / layout.META_PROPERTIES).write_text(meta)
    if state:
        (tmp_path / layout.QUORUM_STATE).write_text(state)
    code, _, err = run("rollback", "--zookeeper", "127.0.0.1:1", "--log-dir", tmp_path, "--yes")
    assert code == 2
    assert "not known to be a controller's folder" in err


def live(said: list[str], timeout_s: float = PATIENCE_S) -> LiveRollback:
    """With nothing to connect to."""
    return LiveRollback(Any, "127.0.0.1:1", Any, [], timeout_s, False, said.append)  # type: ignore[arg-type]


def seen(*controllers: ControllerSeen) -> Situation:
    return Situation(Survey({}), controllers)


def test_processes_of_this_machine_are_stopped_last_and_the_others_waited_for(
    tmp_path: Path,
) -> None:
    lock = tmp_path / ".lock"
    said: list[str] = []
    line = [sys.executable, "-c", HOLDS, str(lock)]
    with (
        subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        child.stdout.readline()
        address = HostPort("127.0.0.1", server.getsockname()[1])
        here = ControllerSeen(1, "one", True, pid=child.pid, folder=str(tmp_path))
        there = ControllerSeen(2, "two", True, address)
        with pytest.raises(CourseError, match="controller 2 still runs"):
            live(said, 0.1).stop(seen(here, there))
        assert child.poll() is None, "the cluster keeps its controller as long as it can"
        server.close()
        began = time.monotonic()
        ended = live(said).stop(seen(here, there))
        assert ended is not None
        assert began < ended <= time.monotonic()
        assert child.wait() == -signal.SIGTERM
    assert said[0] == "stop controller 2 now, by SIGTERM: waiting for the end"


def test_a_process_that_ignores_the_signal_is_named(tmp_path: Path) -> None:
    ignores = HOLDS.replace("import fcntl", "import signal, fcntl").replace(
        "print", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint"
    )
    line = [sys.executable, "-c", ignores, str(tmp_path / ".lock")]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        here = ControllerSeen(1, "one", True, pid=child.pid, folder=str(tmp_path))
        try:
            with pytest.raises(CourseError, match=f"pid {child.pid}"):
                live([], 0.2).stop(seen(here))
        finally:
            child.kill()


def test_where_a_controller_listens_its_own_file_says_not_a_brokers(tmp_path: Path) -> None:
    """Brokers may be told a proxy, which accepts connections in any case."""
    own, told = (f"3000@127.0.0.1:{port}" for port in (1, 2))
    for name, text in (
        ("controller", f"process.roles=controller\nnode.id=3000\ncontroller.quorum.voters={own}\n"),
        ("broker", f"broker.id=1\ncontroller.quorum.voters={told}\n"),
    ):
        (tmp_path / name).write_text(text)
    files = [read_properties(tmp_path / name) for name in ("controller", "broker")]
    for order in (files, files[::-1]):
        (found,) = Looker(Given("h:1", order), Any).controllers()  # type: ignore[arg-type]
        assert (found.address, found.runs) == (HostPort("127.0.0.1", 1), False)


def test_a_controller_is_asked_where_its_file_or_its_own_folder_says(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    meta, file = folder / "meta.properties", tmp_path / "server.properties"
    meta.write_text("version=1\nnode.id=3000\n")
    text = f"process.roles=controller\nnode.id=3000\nlog.dirs={folder}\n"
    file.write_text(text)
    at = HostPort("::1", 9093)
    assert url_of_status(read_properties(file), at) is None
    (folder / "status.url").write_text("http://127.0.0.1:40000\n")
    assert url_of_status(read_properties(file), at) == "http://127.0.0.1:40000"
    meta.write_text("version=1\nnode.id=3001\n")
    assert url_of_status(read_properties(file), at) is None, "the folder is another node's"
    file.write_text(text + "kraftbridge.metrics.port=29404\n")
    assert url_of_status(read_properties(file), at) == "http://[::1]:29404"
