"""Whose CPU it was."""

import os
import subprocess
import sys
import time

import pytest

from emulator.servers import machine
from emulator.servers.machine import (
    Meter,
    Shared,
    Sharing,
    Usage,
    cores,
    machine_cpu_s,
    process_cpu_s,
    tree_cpu_s,
    wait_quiet,
)


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_what_we_burn_is_ours_and_not_that_of_others():
    meter = Meter({})
    burn(0.3)
    usage = meter.usage()
    assert 0.25 <= usage.cpu_s["client"] <= 0.5
    assert usage.others_cores <= os.cpu_count() - usage.cpu_s["client"] / usage.wall_s + 0.1


def test_a_child_that_nobody_named_is_ours_too():
    """In rows of `scale` two of three controllers are not shown by name."""
    program = "import time\nwhile time.process_time() < 0.4: pass\nprint(flush=True)\ninput()"
    meter = Meter({})
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        usage = meter.usage()
        child.stdin.write(b"\n")
    assert set(usage.cpu_s) == {"client"}
    assert usage.ours_cores * usage.wall_s >= 0.39


def test_of_all_that_the_machine_did_what_is_not_ours_is_others(monkeypatch):
    """Whatever else runs here: 5 s of the machine, of which 4 s are below this process."""
    for name, readings in (("machine_cpu_s", [100.0, 105.0]), ("tree_cpu_s", [10.0, 14.0])):
        left = iter(readings)
        monkeypatch.setattr(machine, name, lambda left=left: next(left))
    monkeypatch.setattr(machine.time, "monotonic", iter([0.0, 0.0, 10.0, 10.0]).__next__)
    usage = Meter({}).usage()
    assert (usage.ours_cores, usage.others_cores) == pytest.approx((0.4, 0.1))


def test_of_the_cores_it_is_said_which_share_was_used():
    of_two = Usage(10.0, {"client": 4.0, "controller": 3.0}, 0.7, 0.3)
    assert of_two.busy == pytest.approx(1.0 / cores())


def test_a_child_is_metered_by_name():
    program = (
        "import time\nprint(flush=True)\ninput()\nend = time.process_time() + 0.3\n"
        "while time.process_time() < end: pass\nprint(flush=True)\ninput()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        meter = Meter({"child": child.pid})
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()
        assert 0.25 <= meter.usage().cpu_s["child"] <= 0.5
        child.stdin.write(b"\n")


def test_time_used_only_grows():
    before = process_cpu_s(os.getpid()), machine_cpu_s()
    burn(0.05)
    assert process_cpu_s(os.getpid()) > before[0]
    assert machine_cpu_s() > before[1]


def test_a_process_may_have_any_name():
    """The kernel cuts names off after 15 bytes, also in the middle of a letter."""
    program = """
import time
open('/proc/self/comm', 'wb').write(b'gr\\xc3) \\xff')
while time.process_time() < 0.1: pass
print(flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        assert tree_cpu_s() >= process_cpu_s(child.pid) > 0
        child.stdin.write(b"\n")


def test_cores_that_are_shown_by_other_numbers_than_those_that_may_be_used(monkeypatch):
    """As lxcfs shows them in a container: its own, from 0 on."""
    whole = machine_cpu_s()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {100_000, 100_001})
    assert machine_cpu_s() >= whole


def test_without_patience_nobody_waits():
    assert wait_quiet(0.0) == 0.0


def test_what_we_and_our_children_use_is_ours_also_of_those_that_ended():
    shared = Shared()
    code = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass\n"
    subprocess.run([sys.executable, "-c", code], check=True)
    code += "print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        running.stdout.readline()
        began = shared._began
        found = shared.read()
        elapsed_s = time.monotonic() - began
        running.communicate(b"\n")
    assert found.ours * elapsed_s >= 0.9
    assert 1 <= found.cores <= os.cpu_count()


@pytest.mark.parametrize(
    ("ours", "others", "busy"),
    [(1.5, 0.1, False), (0.7, 0.6, True), (1.85, 0.0, True), (0.2, 0.0, False)],
)
def test_a_machine_is_busy_that_others_use_or_that_is_full(ours, others, busy):
    sharing = Sharing(2, ours, others)
    assert sharing.busy is busy
    assert str(sharing) == f"other programs used {others:.1f} of 2 cores, ours {ours:.1f}"
