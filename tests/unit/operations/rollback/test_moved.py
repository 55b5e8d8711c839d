"""Whether a log shows another state of the migration than when it was looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.commands.preflight.inputs import read_folder
from emulator.commands.rollback import looking
from emulator.metadata.migration_state import MigrationState
from emulator.operations.preflight.survey import Survey
from emulator.operations.rollback.missing import state_moved
from emulator.operations.rollback.situation import Situation
from emulator.raft import layout
from tests.unit.operations.rollback.test_missing import NO_OP, TOPIC, batch
from wire import records as r

COPIED = r.ZkMigrationStateRecord(zk_migration_state=MigrationState.MIGRATION)
BEGUN = r.ZkMigrationStateRecord(zk_migration_state=MigrationState.PRE_MIGRATION)
LOG = batch(0, BEGUN, NO_OP) + batch(2, TOPIC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / layout.FOLDER).mkdir()
    (tmp_path / layout.segment_path(0)).write_bytes(LOG)
    return tmp_path


def _situation(*folders: Path) -> Situation:
    return Situation(Survey({}, folders=tuple(read_folder(one) for one in folders)))


def _append(folder: Path, data: bytes) -> None:
    with (folder / layout.segment_path(0)).open("ab") as file:
        file.write(data)


@pytest.mark.parametrize(
    "data",
    [b"", batch(3, TOPIC, NO_OP) + batch(5, NO_OP, epoch=3), batch(3, COPIED)[:-1]],
    ids=["nothing", "records of the copy", "a torn end"],
)
def test_a_copy_that_goes_on_has_not_moved(folder: Path, data: bytes) -> None:
    seen = _situation(folder)
    _append(folder, data)
    assert not looking.state_moved(seen)


def _copied(folder: Path) -> None:
    _append(folder, batch(3, TOPIC) + batch(4, NO_OP, COPIED))


def _damaged(folder: Path) -> None:
    _append(folder, batch(3, TOPIC)[:-1] + b"\xff" + batch(4, NO_OP))


def _truncated(folder: Path) -> None:
    (folder / layout.segment_path(0)).write_bytes(batch(0, BEGUN, NO_OP))


def _written_anew(folder: Path) -> None:
    (folder / layout.segment_path(0)).write_bytes(
        batch(0, BEGUN, NO_OP) + batch(2, TOPIC, NO_OP, epoch=3)
    )


def _trimmed(folder: Path) -> None:
    (folder / layout.segment_path(0)).unlink()
    (folder / layout.segment_path(9)).write_bytes(batch(9, NO_OP))


def _gone(folder: Path) -> None:
    (folder / layout.segment_path(0)).unlink()
    (folder / layout.FOLDER).rmdir()


@pytest.mark.parametrize("change", [_copied, _damaged, _truncated, _written_anew, _trimmed, _gone])
def test_what_may_have_moved_counts_as_moved(folder: Path, change: Callable[[Path], None]) -> None:
    seen = _situation(folder)
    change(folder)
    assert looking.state_moved(seen)


def test_each_folder_counts(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / layout.FOLDER).mkdir(parents=True)
    (other / layout.segment_path(0)).write_bytes(b"")
    seen = _situation(folder, other)
    assert not looking.state_moved(seen)
    (other / layout.segment_path(0)).write_bytes(batch(0, COPIED))
    assert looking.state_moved(seen)


def test_only_what_is_behind_the_committed_end_is_decoded(folder: Path) -> None:
    [seen] = _situation(folder).survey.folders
    start = len(batch(0, BEGUN, NO_OP))
    spoiled = bytearray(LOG)
    spoiled[start - 1] ^= 1  # its checksum does not hold any more
    assert not state_moved({layout.segment_path(0): bytes(spoiled)}, seen)
