"""The folder of one of several voters, read from outside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from emulator.commands.folders import committed_image, open_log
from emulator.io.operator_route import TOKEN_FILE
from emulator.io.status_url import STATUS_URL
from emulator.metadata.image import Image
from emulator.raft.format import MetaProperties, render_meta_properties
from emulator.raft.layout import (
    CONTRADICTED,
    META_PROPERTIES,
    RECOVERY_POINT,
    render_recovery_point,
    segment_base,
)
from tests.unit.node.test_quorum import CLUSTER as OF_NODES
from tests.unit.node.test_quorum import IDS, Quorum
from tests.unit.raft.trio import Trio
from tests.unit.raft.world import CLUSTER
from wire.errors import ErrorCode


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    trio = Trio(3).start()
    trio.run(8_000)
    meta = render_meta_properties(MetaProperties(CLUSTER, 1))
    written(tmp_path, {**trio.nodes[1].disk.files, META_PROPERTIES: meta})
    return tmp_path


def test_its_log_is_read_as_that_of_a_voter_among_others(folder: Path) -> None:
    """Also when it must not start: that is when one wants to look into it."""
    _, raft = open_log(folder)
    assert raft.log_end_offset > 0
    assert raft.config.voters.keys() == {1, 2, 3}
    (folder / CONTRADICTED).write_text("node 2 lacks it")
    assert open_log(folder)[1].log_end_offset == raft.log_end_offset


@pytest.mark.parametrize("name", [TOKEN_FILE, STATUS_URL])
def test_what_is_for_the_controllers_user_alone_is_not_read(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others read the log; and it may go at any moment, when the controller ends."""
    own, read = folder / name, Path.read_bytes
    own.write_text("a")

    def refused(path: Path) -> bytes:
        if path == own:
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refused)
    assert open_log(folder)[1].log_end_offset > 0


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


def test_the_end_of_its_log_that_may_be_truncated_is_not_shown_as_committed(tmp_path: Path) -> None:
    quorum = Quorum()
    leader = quorum.leader
    assert quorum.change(leader, "ann") == 0
    quorum.wait_equal()
    quorum.joined.wait(6_000)
    for other in [each for each in IDS if each != leader]:
        quorum.kill(other)
    assert quorum.change(leader, "bob") == ErrorCode.NOT_CONTROLLER
    quorum.kill(leader)
    meta = render_meta_properties(MetaProperties(OF_NODES, leader))
    written(tmp_path, {**quorum.files[leader], META_PROPERTIES: meta})
    _, raft = open_log(tmp_path)
    assert users(committed_image(raft, tmp_path)) == {"ann"}
    # As for ZooKeeper, which has nothing that is not committed.
    assert users(committed_image(raft, tmp_path, raft.log_end_offset)) == {"ann", "bob"}


def users(image: Image) -> set[str]:
    return {part.name for entity in image.client_quotas for part in entity if part.name}


def written(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
