"""``format``: what it writes, what it refuses, and what starts without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.commands.running import CLUSTER, run


@pytest.mark.requirement("V10")
def test_format_then_the_log_of_a_fresh_folder(properties: Path, tmp_path: Path) -> None:
    code, out, _ = run("format", "-c", properties, "-t", CLUSTER, "-r", "3.7-IV4")
    assert (code, "metadata.version 3.7-IV4" in out) == (0, True)
    again, _, complaint = run("format", "-c", properties, "-t", CLUSTER)
    assert (again, "already formatted" in complaint) == (1, True)
    assert "empty it first" in complaint
    ignored, out, _ = run("format", "-c", properties, "-t", CLUSTER, "-g")
    assert (ignored, "already formatted" in out) == (0, True)
    code, out, _ = run("log", "dump", "--log-dir", tmp_path / "data")
    assert (code, out) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("-t", "nonsense"), 1, "cluster id"),
        (("-t", CLUSTER, "-r", "2.8"), 1, "release version"),
        (("-t", CLUSTER, "-r", "3.9-IV0", "-X", "kraftbridge.release=3.4"), 1, "newer than"),
        (("-t", CLUSTER, "-X", "node.id=1"), 2, "not in controller.quorum.voters"),
        (("-t", CLUSTER, "-X", "nonsense"), 2, "not key=value"),
    ],
)
def test_format_says_what_is_wrong(
    properties: Path, arguments: tuple[str, ...], code: int, word: str
) -> None:
    found, _, complaint = run("format", "-c", properties, *arguments)
    assert (found, word in complaint) == (code, True), complaint
