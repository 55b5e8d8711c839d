"""Clusters of the swarm: anything may be on or off, and nothing promised may break."""

import json
import re
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from emulator.cli import app
from emulator.simulation.faults import RECIPES
from emulator.simulation.faults.taken import TAKEN
from emulator.simulation.models.disk import SimulatedDisk
from emulator.simulation.scenarios.scenario import Scenario
from emulator.simulation.scenarios.shrink import as_test, shrink
from emulator.simulation.scenarios.swarm import swarm
from tests.kit.shares import rest_slow

FIRST = 100
SEEDS = range(FIRST, FIRST + 60, 12)
LONG = (123, 133, 140, 156)
"""Seeds that take as long as several others each."""


@pytest.mark.requirement("G06", "W07", "Z02", "Z03")
@pytest.mark.parametrize("first", rest_slow(SEEDS, 1))
def test_no_promise_breaks(simulate, first):
    for seed in range(first, first + 12):
        if seed not in LONG:
            report = simulate(seed, kind="swarm")
            assert not report.failure, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG)
def test_no_promise_breaks_in_a_long_run(simulate, seed):
    report = simulate(seed, kind="swarm")
    assert not report.failure, str(report)


def test_the_swarm_draws_every_fault_and_every_class_of_requests():
    drawn = [swarm(seed) for seed in range(600)]
    names = {re.split("[@/]", fault)[0] for scenario in drawn for fault in scenario.faults}
    assert names == {*RECIPES, *TAKEN}
    paces = [name for name in Scenario.__dataclass_fields__ if name.endswith("_every_ms")]
    for name in paces[1:]:
        assert {bool(getattr(scenario, name)) for scenario in drawn} == {True, False}, name
    small = [scenario for scenario in drawn if scenario.zookeeper_frame_bytes]
    assert 0.1 < len(small) / len(drawn) < 0.4
    assert {scenario.multi_ops for scenario in small} >= {3, 400}


def test_a_fault_does_the_same_whatever_other_faults_there_are(simulate):
    """Leaving one out changes no other, as far as they do not act on each other."""

    def story(*faults):
        report = simulate(3, Scenario(faults=faults, changes=4))
        return [line for line in report.lines if " disk-slow" in line and "syncs" in line]

    assert story("disk-slow/b") == story("session-expiry/a", "disk-slow/b")


def test_a_failing_run_is_made_small_and_printed_as_a_test(simulate, monkeypatch):
    monkeypatch.setattr(SimulatedDisk, "synced", lambda *_: None)
    failed = next(
        report
        for seed in range(40)
        if (report := simulate(seed)).failure and len(report.scenario.faults) > 2
    )
    small = shrink(failed, 60)
    assert small.invariant == failed.invariant
    assert len(small.scenario.faults) < len(failed.scenario.faults)
    assert failed.invariant in as_test(small)


@pytest.mark.parametrize("fault", ["disk-restored", "controller-cloned", "both-counters"])
def test_another_log_and_another_hand_are_noticed(simulate, fault):
    held = [simulate(seed, Scenario(faults=(f"{fault}/0",), changes=30)) for seed in range(4)]
    assert any("fault" in line and fault in line for report in held for line in report.lines)
    assert not [str(report) for report in held if report.failure]


def test_the_verb_runs_seeds_in_two_processes_and_keeps_a_record(tmp_path):
    record = tmp_path / "sim.json"
    arguments = ["simulate", "--kind", "quick", "--seed", "3", "--count", "6", "--jobs", "2"]
    done = CliRunner().invoke(app, [*arguments, "--record", str(record)])
    assert done.exit_code == 0, done.output
    found = json.loads(record.read_text())
    assert (found["seeds"], found["failures"], found["first_seed"]) == (6, [], 3)
    assert re.search(r"6 seeds of kind quick from 3 in .* seeds/min, 0 failed", done.output)


def test_the_verb_names_the_seed_that_failed(monkeypatch):
    monkeypatch.setattr(SimulatedDisk, "synced", lambda *_: None)
    done = CliRunner().invoke(app, ["simulate", "--kind", "quick", "--seed", "0", "--count", "20"])
    assert done.exit_code == 1
    assert "again: kraft-bridge simulate --kind quick --seed" in done.output


def test_the_verb_refuses_a_kind_it_does_not_know():
    done = CliRunner().invoke(app, ["simulate", "--kind", "odd"])
    assert done.exit_code == 2
    assert "--kind is one of" in done.output


@pytest.mark.parametrize("record", ["/proc/nowhere/sim.json", "/proc"])
def test_the_verb_refuses_a_record_that_it_could_not_write_in_the_end(record):
    done = CliRunner().invoke(
        app, ["simulate", "--kind", "quick", "--seed", "1", "--record", record]
    )
    assert done.exit_code == 2
    assert f"--record: {record} cannot be written" in done.output


@pytest.mark.parametrize("fault", ["cut@DUALWRITE", "cut@DUAL_WRITE+", "Cut", "cut//2"])
def test_a_fault_that_is_mistyped_is_refused(simulate, fault):
    with pytest.raises(ValueError, match=r"state|a fault is"):
        simulate(1, Scenario(faults=(fault,)))


def test_an_interrupted_run_says_how_many_seeds_it_ran(tmp_path):
    record = tmp_path / "record.json"
    start = "import signal; signal.signal(2, signal.default_int_handler)\n"
    start += "from emulator.cli import main; main()"
    verb = ["simulate", "--kind", "quick", "--seed", "0", "--hours", "1", "--story"]
    with subprocess.Popen(
        [sys.executable, "-u", "-c", start, *verb, "--record", str(record)],
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout.readline()  # the first line of the first seed
        running.send_signal(signal.SIGINT)
        last = running.stdout.read().splitlines()[-1]
    assert running.returncode == 130
    assert re.fullmatch(r"\d+ seeds? of kind quick .* 0 failed, interrupted", last)
    assert not record.exists()


def test_topics_are_made_as_large_as_the_scenario_says(simulate):
    def largest(partitions_max):
        report = simulate(1, Scenario(topics=0, changes=12, partitions_max=partitions_max))
        assert not report.failure, str(report)
        return max(partitions for _, partitions in report.topics)

    assert largest(40) > 12
    assert largest(1) < 8
