"""The folder of one of several voters, read from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.commands.folders import open_log
from emulator.raft.format import MetaProperties, render_meta_properties
from emulator.raft.layout import (
    CONTRADICTED,
    META_PROPERTIES,
    RECOVERY_POINT,
    render_recovery_point,
    segment_base,
)
from tests.unit.raft.trio import Trio
from tests.unit.raft.world import CLUSTER


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    trio = Trio(3).start()
    trio.run(8_000)
    meta = render_meta_properties(MetaProperties(CLUSTER, 1))
    for name, data in {**trio.nodes[1].disk.files, META_PROPERTIES: meta}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return tmp_path


def test_its_log_is_read_as_that_of_a_voter_among_others(folder: Path) -> None:
    """Also when it must not start: that is when one wants to look into it."""
    _, raft = open_log(folder)
    assert raft.log_end_offset > 0
    assert raft.config.voters.keys() == {1, 2, 3}
    (folder / CONTRADICTED).write_text("node 2 lacks it")
    assert open_log(folder)[1].log_end_offset == raft.log_end_offset


def test_the_voter_may_be_running(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It renews the recovery point when it has made more durable than was read of its log."""
    end, read = open_log(folder)[1].log_end_offset, Path.read_bytes

    def and_then_it_grows(path: Path) -> bytes:
        data = read(path)
        if segment_base(path.relative_to(folder).as_posix()) is not None:
            (folder / RECOVERY_POINT).write_bytes(render_recovery_point(end + 5, end + 5))
        return data

    monkeypatch.setattr(Path, "read_bytes", and_then_it_grows)
    assert open_log(folder)[1].log_end_offset == end
