"""Nodes that write otherwise are processes of the bench, with the command line of the product."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench import counterfactual
from bench.runs.targets import TARGETS, Setting
from emulator.config.load import Config
from emulator.io import process
from emulator.node.machine import Node
from emulator.servers.bridge import Bridge


def command(kind: str) -> str:
    """What Python runs for the controller of a row's target."""
    setting = Setting(Path("x"), "zk:1", "c", "run", Path("trace"), None)
    [target] = [one for one in TARGETS.values() if one.node == kind]
    controller = target.controller(setting)
    assert isinstance(controller, Bridge)
    return controller.command


@pytest.mark.parametrize("kind", counterfactual.NODES)
def test_the_bench_runs_them_by_the_same_command_line(
    properties: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []

    def run_controller(_: Config, *, node: object = Node, **__: object) -> int:
        started.append(node)
        return 3

    monkeypatch.setattr(process, "run_controller", run_controller)
    monkeypatch.setattr(sys, "argv", ["-c", "controller", "-c", str(properties)])
    with pytest.raises(SystemExit) as ended:
        exec(command(kind), {})
    assert (ended.value.code, started) == (3, [counterfactual.NODES[kind]])


def test_other_verbs_are_those_of_the_command_line(properties: Path) -> None:
    line = [
        sys.executable,
        "-c",
        command("write-off"),
        "format",
        "-c",
        str(properties),
        "-t",
        "bad id",
    ]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "bad id" in done.stderr
