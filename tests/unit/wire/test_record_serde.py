"""Records as values of log records, and control records as keys and values."""

import pytest

from tests.laws.wire_values import all_layouts, cases
from wire import records as r
from wire.errors import DecodeError, EncodeError
from wire.record_serde import decode_control, decode_record, encode_control, encode_record
from wire.schema import spec


def test_every_record_at_every_version_comes_back() -> None:
    forms = [form for form in all_layouts() if spec(form.cls).kind == "record"]
    assert {spec(form.cls).key for form in forms} == {*range(28)} - {13, 16}
    for form, record in cases(forms, range(3)):
        value = encode_record(record, form.version)
        assert value[:2] == bytes([1, spec(form.cls).key or 0])
        assert decode_record(value) == (record, form.version)


@pytest.mark.requirement("R06")
@pytest.mark.parametrize(("state", "shown"), [(0, "00"), (1, "01"), (2, "02"), (3, "03")])
def test_the_migration_state_is_one_signed_byte(state: int, shown: str) -> None:
    """Frame 1, type 21, version 0, the state, no tagged fields."""
    value = encode_record(r.ZkMigrationStateRecord(zk_migration_state=state), 0)
    assert value.hex() == "011500" + shown + "00"
    again, _ = decode_record(bytes.fromhex("011500" + "ff" + "00"))
    assert again.zk_migration_state == -1


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "frame version at byte 0: no varint"),
        ("01", "record type at byte 1: no varint"),
        ("0180", "record type at byte 1: no varint"),
        ("01808080808001", "record type at byte 1: no varint"),
        ("001500", "frame version at byte 0: 0 instead of 1"),
        ("010d00", "unknown type 13"),
        ("01ff0100", "unknown type 255"),
        ("011501", "v1 record type at byte 1: unknown type 21"),
        ("0115000000ff", "bytes left over"),
    ],
)
def test_what_is_no_record_is_refused(value: str, why: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_record(bytes.fromhex(value))
    assert why in str(caught.value)


def test_a_record_type_above_127_takes_two_bytes() -> None:
    with pytest.raises(DecodeError, match="unknown type 200"):
        decode_record(bytes.fromhex("01c80100"))


def test_a_leader_change_is_what_kafka_writes() -> None:
    """Leader and only voter 3000, as recorded."""
    voter = r.LeaderChangeMessage.Voter(voter_id=3000)
    change = r.LeaderChangeMessage(leader_id=3000, voters=[voter], granting_voters=[voter])
    key, value = encode_control(change)
    assert key.hex() == "00000002"
    assert value.hex() == "0000" + "00000bb8" + "0200000bb800" + "0200000bb800" + "00"
    assert decode_control(key, value) == change


@pytest.mark.parametrize(
    "record",
    [
        r.SnapshotHeaderRecord(last_contained_log_timestamp=5),
        r.SnapshotFooterRecord(),
        r.KRaftVersionRecord(kraft_version=1),
        r.VotersRecord(voters=[r.VotersRecord.Voter(voter_id=1)]),
    ],
)
def test_control_records_come_back(record: object) -> None:
    assert decode_control(*encode_control(record)) == record


def test_what_is_no_control_record_is_refused() -> None:
    for key, why in ((None, "4 bytes"), (b"", "4 bytes"), (b"\0\0\0\1", "unknown control type 1")):
        with pytest.raises(DecodeError, match=why):
            decode_control(key, b"")
    voter = r.LeaderChangeMessage.Voter(voter_directory_id=b"\1" * 16)
    with pytest.raises(EncodeError, match="voter_directory_id"):
        encode_control(r.LeaderChangeMessage(voters=[voter]))
