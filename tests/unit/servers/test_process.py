"""Children are started apart, watched by their lines, and gone at the end."""

import json
import os
import signal
import subprocess
import sys

import pytest

from emulator.servers import ports
from emulator.servers.ports import free_ports, is_open
from emulator.servers.process import PortTakenError, ProcessError, ServerProcess
from emulator.servers.waiting import wait_for

WAIT = "import signal; print('up', flush=True); signal.pause()"


def gone(pid):
    """Whether a process has ended; an orphan that nobody has reaped yet has."""
    command = ["ps", "-o", "stat=", "-p", str(pid)]
    state = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return not state or state.startswith("Z")


@pytest.fixture
def process(tmp_path):
    child = ServerProcess("child", tmp_path)
    yield child
    child.kill()


def test_waits_for_a_line_and_stops(process):
    process.launch([sys.executable, "-c", WAIT])
    assert process.wait_line("up") == "up"
    assert process.alive
    assert process.stop() == -signal.SIGTERM
    assert gone(process.pid)


def test_lines_are_those_of_the_last_start(process):
    for word in ("first", "second"):
        process.launch([sys.executable, "-c", f"print({word!r})"])
        process.wait_line(word)
        process.stop()
    assert process.lines() == ["second"]


def test_an_early_end_shows_the_last_lines(process):
    process.launch([sys.executable, "-c", "print('bad config'); raise SystemExit(3)"])
    with pytest.raises(ProcessError, match=r"child ended with 3 .*log line 'up'.*\n.*bad config"):
        process.wait_line("up")


def test_a_taken_port_is_told_apart(process):
    process.launch([sys.executable, "-c", "raise SystemExit('BindException: in use')"])
    with pytest.raises(
        PortTakenError, match=r"^another program took a port of child: run it again$"
    ):
        process.wait_line("up")


def test_time_runs_out(process):
    process.launch([sys.executable, "-c", WAIT])
    with pytest.raises(ProcessError, match="no log line 'never' within"):
        process.wait_line("never", 0.1)


def test_a_paused_process_can_be_stopped(process):
    process.launch([sys.executable, "-c", WAIT])
    process.wait_line("up")
    process.pause()
    assert process.stop() == -signal.SIGTERM


def test_pause_holds_and_resume_lets_go_on(process):
    process.launch([sys.executable, "-c", WAIT])
    process.wait_line("up")
    with process.paused():
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
    _, status = os.waitpid(process.pid, os.WCONTINUED)
    assert os.WIFCONTINUED(status)


def test_one_that_does_not_stop_is_let_go_on(process, monkeypatch):
    """A thread may be in the kernel for longer than it is waited for, and stop after that."""
    process.launch([sys.executable, "-c", WAIT])
    process.wait_line("up")

    def times_out(*_):
        os.waitpid(process.pid, os.WUNTRACED)
        raise ProcessError("no every thread to stop within 10 s")

    with monkeypatch.context() as impatient:
        impatient.setattr(process, "wait_until", times_out)
        with pytest.raises(ProcessError, match="to stop within"), process.paused():
            pass
    _, status = os.waitpid(process.pid, os.WCONTINUED | os.WNOHANG)
    assert os.WIFCONTINUED(status)


def test_starting_twice_is_refused(process):
    process.launch([sys.executable, "-c", WAIT])
    with pytest.raises(ProcessError, match="running already"):
        process.launch([sys.executable, "-c", WAIT])


PARENT = """
import os, signal, sys
from pathlib import Path
from emulator.servers.waiting import wait_for
from emulator.servers.process import ServerProcess, interrupt_on_terminate
interrupt_on_terminate()
child = ServerProcess("child", Path({folder!r}))
child.launch([sys.executable, "-c", {program!r}])
child.wait_line("up")
print(child.pid, flush=True)
{end}
"""


@pytest.mark.parametrize(
    "end",
    [
        "raise RuntimeError",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "os.kill(os.getpid(), signal.SIGKILL)",
    ],
)
def test_no_child_survives_its_parent(tmp_path, end):
    program = PARENT.format(folder=str(tmp_path), program=WAIT, end=end)
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    pid = int(ended.stdout)
    assert wait_for("end of the child", lambda: gone(pid))


def test_a_child_that_was_reaped_is_not_killed_again(tmp_path):
    program = PARENT.format(folder=str(tmp_path), program=WAIT, end="child.stop()")
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert gone(int(ended.stdout))


def test_nothing_is_reported_as_left_open_at_the_end(tmp_path):
    program = PARENT.format(folder=str(tmp_path), program=WAIT, end="child.stop()")
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stderr == ""


STARTING = """
import os, signal, subprocess, sys
from pathlib import Path
from emulator.servers import process
signal.signal(signal.{name}, signal.SIG_DFL)  # also where the tests run under nohup
process.interrupt_on_terminate(signal.SIGINT)
popen = subprocess.Popen

def interrupted(*args, **more):
    child = popen(*args, **more)
    if args[0] == ["sleep", "600"]:
        print(child.pid, flush=True)
        os.kill(os.getpid(), signal.{name})
    return child

process.subprocess.Popen = interrupted
try:
    process.ServerProcess("child", Path({folder!r})).launch(["sleep", "600"])
except KeyboardInterrupt:
    print(len(process.running()), flush=True)
    process.end_undisturbed()
    os.kill(os.getpid(), signal.SIGINT)
    process.kill_all()
    os.kill(os.getpid(), signal.SIGTERM)
    sys.exit(130)
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupt_while_a_child_is_started_loses_none_and_a_second_cuts_nothing(tmp_path, name):
    program = STARTING.format(folder=str(tmp_path), name=name)
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "")
    pid, known = map(int, ended.stdout.split())
    assert known == 1
    assert wait_for("end of the child", lambda: gone(pid))


def test_a_signal_that_was_ignored_stays_so(tmp_path):
    program = (
        "import os, signal, sys; from emulator.servers.process import interrupt_on_terminate;"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN); interrupt_on_terminate();"
        "os.kill(os.getpid(), signal.SIGHUP)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_port_that_another_process_was_given_is_not_given_again(monkeypatch):
    program = (
        "from emulator.servers.ports import free_ports; print(free_ports(2), flush=True); input()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        theirs = json.loads(other.stdout.readline())
        monkeypatch.setattr(ports, "_share", slice(None))
        monkeypatch.setattr(ports, "_RANGE", theirs)
        with pytest.raises(OSError, match="1 free ports"):
            free_ports(1)
        other.communicate(b"\n")
    assert sorted(free_ports(2)) == sorted(theirs)


def test_ports_are_distinct_and_free():
    given = [*free_ports(20), *free_ports(20)]
    assert len(set(given)) == 40
    assert not any(map(is_open, given))


def test_processes_that_share_the_ports_never_choose_the_same(monkeypatch):
    monkeypatch.setattr(ports, "_share", slice(None))
    chosen = []
    for number in range(3):
        ports.take_share(number, 3)
        chosen.append(free_ports(30))
    assert [{port % 3 for port in mine} for mine in chosen] == [{2}, {0}, {1}]
