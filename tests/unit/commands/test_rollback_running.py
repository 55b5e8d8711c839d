"""Whether a controller runs: what locks and addresses show, and what they do not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from emulator.commands.preflight.inputs import PreflightError, read_properties
from emulator.commands.rollback import acting, looking
from emulator.commands.rollback.acting import LiveRollback
from emulator.commands.rollback.looking import Given, Looker
from emulator.config.listeners import HostPort
from emulator.io import folder_holder
from emulator.io.folder_holder import Ending, FolderHolder, holder
from emulator.operations.preflight.engine import Severity
from emulator.operations.preflight.survey import Survey
from emulator.operations.rollback.checks import checks
from emulator.operations.rollback.course import CourseError
from emulator.operations.rollback.phases import RollbackPhase
from emulator.operations.rollback.situation import ControllerSeen, Reached, Situation, runs
from emulator.raft import layout
from emulator.servers.waiting import PATIENCE_S
from tests.unit.io.test_signals import SERVED

HOLDS = """
import fcntl, sys
file = open(sys.argv[1], "a+b")
fcntl.{how}(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
NOWHERE = HostPort("no-such-host.invalid", 9093)
REFUSES = HostPort("127.0.0.1", 1)


@contextmanager
def another_process(folder: Path, how: str = "flock") -> Iterator[subprocess.Popen[str]]:
    """It holds the lock of a folder."""
    line = [sys.executable, "-c", HOLDS.format(how=how), str(folder / ".lock")]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "held\n"
        try:
            yield child
        finally:
            child.kill()


@contextmanager
def drains(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """It holds the folder as a controller does, and has an orderly stop."""
    (folder / layout.META_PROPERTIES).write_text("version=1\n")
    line = [sys.executable, "-c", SERVED, str(folder)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "runs\n"
        try:
            yield child
        finally:
            child.kill()


def test_an_orderly_stop_that_has_begun_is_not_cut_off(tmp_path: Path) -> None:
    said: list[str] = []
    with drains(tmp_path) as child:
        assert child.stdout is not None
        here = ControllerSeen(1, "one", True, pid=child.pid, folder=str(tmp_path))
        assert not folder_holder.ends(child.pid, tmp_path)
        child.terminate()
        assert child.stdout.readline() == "stopping\n"
        assert folder_holder.ends(child.pid, tmp_path)
        live(said).stop(seen(here))
        assert child.wait() == 0
    assert said == [f"the processes {child.pid} are being stopped already: waiting for their end"]


def test_of_two_rollbacks_at_once_one_signals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_holder, "SHOWS_S", 0.0)
    with drains(tmp_path) as child:
        assert child.stdout is not None
        one, other = (Ending([(child.pid, tmp_path)]) for _ in range(2))
        assert (one.stopping, one.left_to_others) == ([], [])
        assert (other.stopping, other.left_to_others) == ([], [child.pid])
        one.terminate()
        assert child.stdout.readline() == "stopping\n"
        other.terminate()
        one.close()
        assert other.wait(300)[1] == []
        assert child.wait() == 0
        other.close()


def test_of_two_rollbacks_the_second_stops_it_if_the_first_died_before_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_holder, "SHOWS_S", 0.05)
    taken_over: list[list[int]] = []
    with drains(tmp_path) as child:
        one, other = (Ending([(child.pid, tmp_path)]) for _ in range(2))
        other.terminate()
        one.close()
        assert other.wait(10, taken_over.append)[1] == []
        assert child.wait() == 0
        assert (taken_over, other.left_to_others) == ([[child.pid]], [])
        other.close()


def test_what_another_rollback_does_not_stop_in_time_is_said_to_be_its_turn(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / layout.META_PROPERTIES).write_text("version=1\n")
    with another_process(tmp_path) as child:
        here = ControllerSeen(1, "one", True, pid=child.pid, folder=str(tmp_path))
        first = Ending([(child.pid, tmp_path)])
        with pytest.raises(CourseError, match=rf"pid {child.pid}.* another rollback .* its turn"):
            live(said, 0.05).stop(seen(here))
        assert child.poll() is None
        first.close()
    assert said == [f"another rollback stops the processes {child.pid}: waiting for their end"]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("held", [False, True, None])
@pytest.mark.parametrize("answer", Reached)
def test_it_is_over_only_if_nothing_says_otherwise(
    held: bool | None, answer: Reached, own: bool
) -> None:
    found = runs(held, answer, own=own)
    assert (found is True) == (held is True or answer is Reached.YES)
    # What is not known decides nothing, nor does the free lock of what may be a copy.
    silent = answer in {Reached.NONE, Reached.NO_ADDRESS}
    assert (found is None) == (silent and (held is None or (held is False and not own)))


@pytest.mark.parametrize("how", ["flock", "lockf"])
def test_where_the_kernels_list_is_not_whole_the_lock_itself_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    with another_process(tmp_path, how) as child:
        assert holder(tmp_path) == FolderHolder(True, child.pid)
        with monkeypatch.context() as patch:
            patch.setattr(folder_holder, "LOCKS", tmp_path / "hidden")
            assert holder(tmp_path) == FolderHolder(True, None)
        with monkeypatch.context() as patch:
            patch.setattr(folder_holder, "FIRST_NAMESPACE", "pid:[1]")
            assert holder(tmp_path, "") == FolderHolder(True, None), "of another container"
        assert holder(tmp_path, "") == FolderHolder(False, None), "the list is whole"
    monkeypatch.setattr(folder_holder, "LOCKS", tmp_path / "hidden")
    assert holder(tmp_path) == FolderHolder(False, None)


def test_a_lock_of_a_file_of_the_same_number_on_another_disk_is_none_of_it(tmp_path: Path) -> None:
    """Its process may be one that cannot be looked at, here one of another namespace."""
    (tmp_path / ".lock").touch()
    stat = (tmp_path / ".lock").stat()
    line = f"1: FLOCK  ADVISORY  WRITE 0 %02x:%02x:{stat.st_ino} 0 EOF"
    here = os.major(stat.st_dev), os.minor(stat.st_dev)
    assert holder(tmp_path, line % here) == FolderHolder(True, None)
    assert holder(tmp_path, line % (here[0], here[1] + 1)) == FolderHolder(False, None)


def test_of_an_overlay_the_list_has_the_device_of_the_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".lock").touch()
    mounts = tmp_path / "mountinfo"
    mounts.write_text("1 0 0:77 / / rw - overlay overlay rw\n")
    monkeypatch.setattr(folder_holder, "MOUNTS", mounts)
    line = f"1: FLOCK  ADVISORY  WRITE 0 00:4d:{(tmp_path / '.lock').stat().st_ino} 0 EOF"
    assert holder(tmp_path, line) == FolderHolder(True, None)


def test_on_a_network_nobody_seen_is_nobody_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_holder, "LOCAL", frozenset({"of this machine"}))
    (tmp_path / ".lock").touch()
    assert holder(tmp_path) == FolderHolder(None, None)
    with another_process(tmp_path) as child:
        assert holder(tmp_path) == FolderHolder(True, child.pid)
        assert holder(tmp_path, "") == FolderHolder(True, None), "of another machine"


def test_the_file_system_is_that_of_the_innermost_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a b").mkdir()
    lock = tmp_path / "a b" / ".lock"
    lock.touch()
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr(folder_holder, "MOUNTS", mounts)
    top = "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
    place = str(tmp_path / "a b").replace(" ", r"\040")
    inner = f"2 1 0:9 / {place} rw x:1 - nfs4 s:/ rw\n"
    for text, held in ((top, False), (top + inner, None), ("wrong\n", None)):
        mounts.write_text(text)
        assert holder(tmp_path / "a b").held is held


def test_a_process_that_got_the_number_of_a_controller_is_not_signalled(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with another_process(tmp_path / "other") as stranger:
        ending = Ending([(stranger.pid, tmp_path)])
        ending.terminate()
        assert ending.wait(0.1)[1] == []
        assert stranger.poll() is None
        ending.close()
        with another_process(tmp_path):
            again = Ending([(stranger.pid, tmp_path)])
            again.terminate()
            assert (again.others, stranger.poll()) == ([tmp_path], None)
            here = ControllerSeen(1, "one", True, pid=stranger.pid, folder=str(tmp_path))
            with pytest.raises(CourseError, match="started again"):
                live([]).stop(seen(here))
            assert stranger.poll() is None


def live(said: list[str], timeout_s: float = PATIENCE_S, *, stopped: bool = False) -> LiveRollback:
    """With nothing to connect to."""
    nothing: Any = None
    return LiveRollback(nothing, "h:1", nothing, [], timeout_s, False, said.append, stopped=stopped)


def seen(*controllers: ControllerSeen) -> Situation:
    return Situation(Survey({}), controllers)


def a_controller(path: Path, address: HostPort, name: str = "data") -> tuple[Path, Path]:
    """Properties and folder of controller 3000."""
    folder, file = path / name, path / f"{name}.properties"
    (folder / layout.FOLDER).mkdir(parents=True)
    (folder / layout.META_PROPERTIES).write_text("version=1\nnode.id=3000\ncluster.id=x\n")
    file.write_text(
        "process.roles=controller\nnode.id=3000\n"
        f"controller.quorum.voters=3000@{address}\nlog.dirs={folder}\n"
    )
    return file, folder


def looks(files: list[Path], folders: list[Path] | None = None) -> Looker:
    nothing: Any = None
    return Looker(Given("h:1", [read_properties(one) for one in files], folders or []), nothing)


def looked(files: list[Path], folders: list[Path] | None = None) -> ControllerSeen:
    (found,) = looks(files, folders).controllers()
    return found


def addrinfo(*found: str) -> list[tuple[object, ...]]:
    """What the resolver answers for a name."""
    return [
        (socket.AF_INET6, 2, 17, "", (one, 0, 0, 0))
        if ":" in one
        else (socket.AF_INET, 2, 17, "", (one, 0))
        for one in found
    ]


def test_its_own_folder_shows_that_it_has_ended_whatever_became_of_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was seen to hold it runs on this machine, wherever its address is."""
    file, folder = a_controller(tmp_path, NOWHERE)
    looker = looks([file])
    with another_process(folder) as child:
        (found,) = looker.controllers()
        assert (found.runs, found.pid, found.folder) == (True, child.pid, str(folder))
        assert looking.alive(found)[0] is True
        with pytest.raises(CourseError, match="started again, perhaps by a supervisor"):
            live([]).over(seen(found))
    live([]).over(seen(found))
    (found,) = looker.controllers()
    assert (found.runs, found.folder) == (False, str(folder))
    monkeypatch.setattr(folder_holder, "LOCAL", frozenset({"of this machine"}))
    found = looked([file])
    assert (found.runs, NOWHERE.host in found.why) == (None, True)
    with pytest.raises(CourseError, match=r"not known whether it has ended.*--stopped"):
        live([]).over(seen(found))
    live([], stopped=True).over(seen(found))


DROPS = addrinfo("192.0.2.1")
"""Of no machine (RFC 5737)."""


@pytest.mark.parametrize(
    ("found", "nonlocal_bind", "here"),
    [
        (addrinfo("127.0.0.1"), "1", True),
        (addrinfo("127.0.1.1", "::1"), "0", True),
        (addrinfo("127.0.0.1", "192.0.2.1"), "0", False),
        (addrinfo("192.0.2.1"), "0", False),
        (addrinfo("192.0.2.1"), "1", False),
        (addrinfo("0.0.0.0"), "0", False),
        (addrinfo("fe80::1%9"), "0", False),
        ([], "0", False),
    ],
)
def test_an_address_is_here_only_if_all_that_its_name_resolves_to_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: object, nonlocal_bind: str, here: bool
) -> None:
    (tmp_path / "bind").write_text(f"{nonlocal_bind}\n")
    files = dict.fromkeys((socket.AF_INET, socket.AF_INET6), tmp_path / "bind")
    monkeypatch.setattr(looking, "_NONLOCAL", files)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert looking.is_here(HostPort("a-name", 9093)) is here


@pytest.mark.parametrize(("here", "runs_there"), [(True, False), (False, None)])
def test_a_copy_at_the_same_path_says_nothing_about_a_controller_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: bool, runs_there: bool | None
) -> None:
    """Its machine is cut off: nobody holds the copy, and nobody answers."""
    file, folder = a_controller(tmp_path, HostPort("c1.example", 9093))
    monkeypatch.setattr(looking, "ask", lambda _: (Reached.NONE, "no answer within 1 s"))
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: addrinfo("127.0.0.1") if here else DROPS
    )
    found = looked([file])
    assert (found.runs, found.folder) == (runs_there, str(folder))
    if runs_there is None:
        assert f"{folder} may be a copy, as c1.example:9093 is not of this machine" in found.why
        (told,) = [
            one for one in checks(seen(found), RollbackPhase.DUAL_WRITE) if one.code == "R07"
        ]
        assert (told.severity, "--stopped" in told.remedy) == (Severity.BLOCKER, True)
        with pytest.raises(CourseError, match=r"not known whether it has ended.*--stopped"):
            live([]).over(seen(found))


def test_what_still_accepts_connections_is_not_over_though_nobody_holds_its_folder(
    tmp_path: Path,
) -> None:
    """``--stopped`` is believed only where nothing says otherwise."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = HostPort("127.0.0.1", server.getsockname()[1])
        here = ControllerSeen(3000, "one", False, address, folder=str(tmp_path))
        with pytest.raises(CourseError, match=rf"again.*{address} accepts connections"):
            live([], stopped=True).over(seen(here))


def test_a_copied_folder_says_nothing_about_the_controller(tmp_path: Path) -> None:
    file, folder = a_controller(tmp_path, NOWHERE)
    there = file.read_text().replace(str(folder), "/somewhere/else")
    file.write_text(there)
    assert looked([file], [folder]).runs is None, "it may run on a machine that is not reached"
    file.write_text(there.replace(str(NOWHERE), str(REFUSES)))
    assert looked([file], [folder]).runs is False
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = HostPort("127.0.0.1", server.getsockname()[1])
        file.write_text(there.replace(str(NOWHERE), str(address)))
        found = looked([file], [folder])
        assert (found.runs, found.folder, found.copied) == (True, "", str(folder))


def test_of_one_controller_there_is_one_file_and_one_folder(tmp_path: Path) -> None:
    one, folder = a_controller(tmp_path, REFUSES)
    other, copied = a_controller(tmp_path, REFUSES, "copied")
    assert looked([one, one], [folder, folder / layout.FOLDER]).runs is False
    with pytest.raises(PreflightError, match="both of controller 3000: give one"):
        looked([one, other])
    with pytest.raises(PreflightError, match="which has its newest log is not known"):
        looked([one], [copied])


def test_files_and_folders_of_different_quorums_are_refused(tmp_path: Path) -> None:
    """A majority of all together may be one of neither: 2 of 1, 2, 3 are none of 1, 4, 5."""
    one, folder = a_controller(tmp_path, REFUSES)
    broker = tmp_path / "broker.properties"
    broker.write_text(f"broker.id=1\ncontroller.quorum.voters=3000@{REFUSES}\n")
    assert looked([one, broker]).runs is False
    broker.write_text(f"broker.id=1\ncontroller.quorum.voters=3000@{REFUSES},3001@h:1,3002@h:1\n")
    told = rf"\[3000\] in {one}, \[3000, 3001, 3002\] in {broker}.*of one quorum"
    with pytest.raises(PreflightError, match=told):
        looked([one, broker])
    state = {"leaderEpoch": 1, "currentVoters": [{"voterId": 3000}, {"voterId": 3001}]}
    (folder / layout.QUORUM_STATE).write_text(json.dumps({**state, "data_version": 0}))
    with pytest.raises(PreflightError, match=rf"\[3000\] in {one}, \[3000, 3001\] in {folder}"):
        looked([one])


def test_an_address_that_is_gone_while_its_end_is_awaited_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    there = ControllerSeen(2, "two", True, NOWHERE)
    with pytest.raises(CourseError, match=r"no-such-host.*run this command again with --stopped"):
        live(said, 0.1).stop(seen(there))
    assert any("cannot be asked any more" in one for one in said)
    monkeypatch.setattr(acting, "SILENT_S", 0.05)
    began = time.monotonic()
    ended = live(said, stopped=True).stop(seen(there))
    assert ended is not None
    assert began < ended < began + PATIENCE_S
