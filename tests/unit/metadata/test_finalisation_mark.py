"""The mark in the log: what carries it, what voids it, what keeps it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.metadata.history import History
from emulator.metadata.image import Image
from emulator.metadata.migration_state import TAG, FinalisationMark, MarkKind, of_record, record_of
from emulator.metadata.snapshot import from_records, to_records
from wire import records as r
from wire.record_serde import decode_record, encode_record

MARK = FinalisationMark(MarkKind.LEFT, 3000, 5, 7, 1_700_000_000_000, 41)
LEVEL = r.FeatureLevelRecord(name="metadata.version", feature_level=21)
STATE = r.ZkMigrationStateRecord
CHANGE = r.ConfigRecord(resource_type=4, resource_name="", name="k", value="v")
BROKER = r.RegisterBrokerRecord(broker_id=1, broker_epoch=3)
CONTROLLER = r.RegisterControllerRecord(controller_id=3000)


def history(*batches: tuple[int, object]) -> History:
    """Batches of one record, by epoch, onto a log in dual write."""
    found = History()
    for epoch, record in ((1, LEVEL), (1, STATE(zk_migration_state=1)), *batches):
        found.append([record], found.tip.offset + 1, epoch)
    return found


def left(*batches: tuple[int, object]) -> FinalisationMark | None:
    return history((5, record_of(MARK)), *batches).tip.mark


@given(
    st.builds(
        FinalisationMark,
        st.sampled_from(MarkKind),
        *[st.integers(-(2**31), 2**31 - 1)] * 3,
        *[st.integers(-(2**63), 2**63 - 1)] * 2,
    )
)
def test_it_goes_through_the_log_unchanged(mark: FinalisationMark) -> None:
    value = encode_record(record_of(mark), 0)
    record, version = decode_record(value)
    assert (of_record(record), version) == (mark, 0)
    assert value[:3] == bytes([1, 20, 0]), "a NoOpRecord of version 0"


@given(st.binary(max_size=40), st.integers(0, 2**31 - 1))
def test_another_tag_or_another_body_is_no_mark_and_no_fault(body: bytes, tag: int) -> None:
    """Of a later version of ours, or of whoever else puts a tag there."""
    for number in (tag, TAG):
        if number == TAG and len(body) == 30 and body[0] == 1 and body[1] in (1, 2):
            continue
        record = r.NoOpRecord(unknown_tags=((number, body),))  # type: ignore[call-arg]
        read, _ = decode_record(encode_record(record, 0))
        assert of_record(read) is None
        assert history((5, read)).tip.mark is None
        assert history((5, record_of(MARK)), (5, read)).tip.mark == MARK


@pytest.mark.parametrize("change", [BROKER, CONTROLLER, r.NoOpRecord(), LEVEL])
@pytest.mark.parametrize("epoch", [5, 6])
def test_what_zookeeper_does_not_hold_leaves_it_standing(change: object, epoch: int) -> None:
    assert left((epoch, change)) == MARK


@pytest.mark.parametrize("epoch", [5, 6, 9])
def test_a_change_voids_it(epoch: int) -> None:
    assert left((epoch, CHANGE)) is None
    assert left((epoch, CHANGE), (epoch, r.NoOpRecord())) is None


def test_a_leader_without_the_flag_continues_it_for_its_own_epoch() -> None:
    on = MARK.continued(6)
    assert left((6, record_of(on)), (6, CHANGE)) == on
    assert left((6, record_of(on)), (6, CHANGE), (7, BROKER)) == on
    assert left((6, record_of(on)), (6, CHANGE), (7, CHANGE)) is None
    again = on.continued(7)
    assert left((6, record_of(on)), (7, record_of(again)), (7, CHANGE)) == again
    assert left((6, record_of(on)), (7, record_of(again)), (6, CHANGE)) is None


def test_what_is_not_committed_voids_nothing_when_it_is_dropped() -> None:
    found = history((5, record_of(MARK)))
    found.advance(found.tip.offset + 1)
    found.append([CHANGE], found.tip.offset + 1, 5)
    assert found.tip.mark is None
    found.rewind()
    assert found.tip.mark == MARK


def test_a_change_in_an_aborted_transaction_voids_nothing_but_one_before_it_does() -> None:
    begin, abort = r.BeginTransactionRecord(), r.AbortTransactionRecord()
    found = history((5, record_of(MARK)), (6, begin), (6, CHANGE), (6, abort))
    assert found.tip.mark == MARK
    found = history((5, record_of(MARK)))
    found.append([CHANGE, begin], found.tip.offset + 1, 6)
    found.append([abort], found.tip.offset + 1, 6)
    assert found.tip.mark is None


@pytest.mark.parametrize("state", [0, 2])
def test_outside_of_a_migration_there_is_none(state: int) -> None:
    found = History()
    for record in (LEVEL, STATE(zk_migration_state=state), record_of(MARK)):
        found.append([record], found.tip.offset + 1, 1)
    assert found.tip.mark is None


def test_the_final_record_ends_it() -> None:
    assert left((6, STATE(zk_migration_state=3))) is None


def test_our_snapshots_keep_it_and_one_without_it_knows_of_none() -> None:
    image = history((5, record_of(MARK))).tip
    records = [record for record, _ in to_records(image)]
    assert from_records(records, image.offset, image.epoch) == image
    kafkas = [one for one in records if not isinstance(one, r.NoOpRecord)]
    without = from_records(kafkas, image.offset, image.epoch)
    assert without.mark is None
    assert isinstance(image, Image)
