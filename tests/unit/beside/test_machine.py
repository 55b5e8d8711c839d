"""Whose CPU it was."""

import os
import subprocess
import sys
import time

from bench.beside.machine import Meter, machine_cpu_s, process_cpu_s, wait_quiet


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


def test_without_patience_nobody_waits():
    assert wait_quiet(0.0) == 0.0
