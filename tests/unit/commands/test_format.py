"""``format``: what it writes, what it refuses, and what starts without it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from emulator.io.disk import Disk
from emulator.seam import ReplaceFile
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
        (("-t", "nonsense"), 2, "cluster id"),
        (("-t", CLUSTER, "-r", "2.8"), 2, "release version"),
        (("-t", CLUSTER, "-r", "3.9-IV0", "-X", "kraftbridge.release=3.4"), 2, "newer than"),
        (("-t", CLUSTER, "-X", "node.id=1"), 2, "not in controller.quorum.voters"),
        (("-t", CLUSTER, "-X", "nonsense"), 2, "not key=value"),
    ],
)
def test_format_says_what_is_wrong(
    properties: Path, arguments: tuple[str, ...], code: int, word: str
) -> None:
    found, _, complaint = run("format", "-c", properties, *arguments)
    assert (found, word in complaint) == (code, True), complaint


def test_a_full_disk_is_one_sentence(properties: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: Disk, effect: ReplaceFile) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", effect.path)

    monkeypatch.setattr(Disk, "replace", full)
    code, _, complaint = run("format", "-c", properties, "-t", CLUSTER)
    assert (code, "Traceback" in complaint) == (1, False)
    assert "No space left on device" in complaint
    assert "nothing was formatted in" in complaint


def test_a_broker_in_zookeeper_mode_needs_no_format(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nzookeeper.connect=127.0.0.1:1\nlog.dirs=data\n")
    code, _, complaint = run("format", "-c", file, "-t", CLUSTER)
    assert code == 2
    assert "is not formatted, only started" in complaint
