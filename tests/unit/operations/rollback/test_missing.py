"""What a log holds behind the offset of ``/migration``."""

from __future__ import annotations

import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.operations.rollback.missing import FolderEnd, counted, finalised, missing, read
from emulator.raft import layout
from wire import records as r
from wire.batch import CONTROL, Batch, encode_batch
from wire.record_serde import encode_record

NO_OP = r.NoOpRecord()
TOPIC = r.TopicRecord(name="t", topic_id=b"A" * 16)
FENCED = r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=1)


def batch(first: int, *records: object, epoch: int = 2, attributes: int = 0) -> bytes:
    values = [(None, encode_record(one, 0)) for one in records]
    return encode_batch(Batch(first, epoch, attributes, 1, values))


def log(*batches: bytes) -> dict[str, bytes]:
    return {layout.segment_path(0): b"".join(batches)}


def test_the_record_that_finalises_is_found() -> None:
    ends = {}
    for name, state in (
        ("final", MigrationState.POST_MIGRATION),
        ("dual", MigrationState.MIGRATION),
    ):
        record = r.ZkMigrationStateRecord(zk_migration_state=state)
        ends[name] = read(name, log(batch(0, NO_OP), batch(1, record, NO_OP)), 0, 2)
    assert (ends["final"].final, ends["dual"].final) == (1, -1)
    short = FolderEnd("short", 1, 2)
    assert finalised([ends["final"]], 3)
    assert finalised([ends["final"], ends["final"], short], 3)
    assert not finalised([ends["final"], short, short], 3), "no majority holds it"
    assert not finalised([ends["dual"]], 1)
    assert not finalised([], 1)


def test_only_what_has_a_znode_counts_and_only_behind_the_offset() -> None:
    files = log(batch(0, TOPIC, NO_OP, TOPIC, FENCED), batch(4, NO_OP), batch(5, TOPIC, NO_OP))
    found = read("data", files, 1, 2)
    assert found == FolderEnd("data", 7, 2, ((2, "Topic"), (5, "Topic")))
    assert read("data", files, 5, 2).changes == ()
    assert counted(found.changes) == "2 records (2 Topic)"


def test_control_batches_and_a_torn_end_are_no_changes() -> None:
    control = batch(1, TOPIC, attributes=CONTROL)
    files = log(batch(0, NO_OP), control, batch(2, TOPIC)[:-1])
    assert read("data", files, 0, 2) == FolderEnd("data", 2, 2)


@pytest.mark.parametrize("offset", [3, 9])
def test_another_log_is_none_from_which_anything_follows(offset: int) -> None:
    files = log(batch(0, NO_OP, TOPIC, epoch=1), batch(2, TOPIC, TOPIC))
    found = read("data", files, offset, 1)
    assert f"does not hold offset {offset} of epoch 1" in found.problem
    assert found.changes == ()


def test_damage_is_said() -> None:
    good = batch(0, NO_OP) + batch(1, TOPIC)
    assert read("data", log(good[:-3] + b"\xff\xff\xff"), 0, 2).problem
    assert read("data", log(b"\xff" * 200), 0, 2).problem
    assert read("data", {}, 0, 2).problem


def test_beyond_a_majority_nothing_was_acknowledged() -> None:
    changes = ((120, "Topic"), (124, "Topic"))
    ends = [
        FolderEnd("a", 125, 2, changes),
        FolderEnd("b", 122, 2, changes[:1]),
        FolderEnd("c", 90, 2),
    ]
    assert missing(ends, 3) == changes[:1]
    assert missing(ends[:1], 3) == changes, "nobody knows what the others hold"
    assert missing(ends[1:], 3) == changes[:1]
    assert missing([], 3) == ()
    # The last leader's log decides, not a longer one of an earlier term.
    assert missing([FolderEnd("a", 200, 1, ((150, "Topic"),)), *ends], 4) == changes[:1]
