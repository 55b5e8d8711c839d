"""A seed is a story: the same in every process, and told by one command."""

import os
import subprocess
import sys

from typer.testing import CliRunner

from emulator.cli import app


def test_a_seed_tells_one_story_whatever_the_hash_seed(simulate):
    digest = simulate(3).digest
    for hash_seed in ("0", "1", "77"):
        told = subprocess.run(
            [sys.executable, "-m", "emulator.cli", "simulate", "--kind", "quick", "--seed", "3"],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert digest in told


def test_two_seeds_tell_two_stories(simulate):
    assert simulate(3).digest != simulate(4).digest


def test_a_failure_names_what_broke_and_how_to_repeat_it(simulate, monkeypatch):
    monkeypatch.setattr("emulator.simulation.models.disk.SimulatedDisk.synced", lambda *_: None)
    broken = next(report for report in map(simulate, range(20)) if report.failure)
    command = f"kraft-bridge simulate --kind quick --seed {broken.seed} --story"
    assert command in str(broken)
    done = CliRunner().invoke(app, command.split()[1:])
    assert done.exit_code == 1
    assert "\n".join((*broken.lines, "")) in done.output
    assert broken.failure in done.output
