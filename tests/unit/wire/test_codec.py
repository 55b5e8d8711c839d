"""What a peer may send wrong, and what a caller may: each with the place where it stands."""

import time
import tracemalloc
from collections.abc import Generator
from pathlib import Path

import pytest

from wire import messages as m
from wire import records as r
from wire.codec import decode, decoding, encode, raw_decode
from wire.codegen.source import SLICE
from wire.errors import DeclarationError, DecodeError, EncodeError, TooManyEntriesError
from wire.schema import layout, spec

HEARTBEAT = bytes.fromhex("00000000 0029 01 01 00 00".replace(" ", ""))
FAR = "ffffffff07"  # 2**31 - 1 as a varint

# class, version, bytes in hex, path, offset, words of the reason
HOSTILE = [
    (m.BrokerHeartbeatResponse, 0, "", "throttle_time_ms", 0, "needs 4 bytes, 0 are left"),
    (m.BrokerHeartbeatResponse, 0, HEARTBEAT[:-1].hex(), "", 9, "tag count"),
    (m.BrokerHeartbeatResponse, 0, HEARTBEAT.hex() + "00", "", 10, "1 bytes left over"),
    # null where none may be: compact, classic, array, classic array
    (m.SaslAuthenticateResponse, 2, "0000 00 00 00", "auth_bytes", 3, "null where none may be"),
    (m.SaslHandshakeRequest, 1, "ffff", "mechanism", 0, "null where none may be"),
    (m.DescribeQuorumRequest, 0, "00 00", "topics", 0, "null where none may be"),
    (m.SaslHandshakeResponse, 1, "0000 ffffffff", "mechanisms", 2, "null where none may be"),
    # negative lengths
    (m.SaslHandshakeRequest, 1, "8000", "mechanism", 0, "length -32768 is negative"),
    (m.SaslHandshakeResponse, 1, "0000 fffffffe", "mechanisms", 2, "count -2 is negative"),
    (
        m.AlterConfigsResponse,
        0,
        "00000000 00000001 0000 fffe",
        "responses[0].error_message",
        10,
        "-2",
    ),
    # varints: too long, too large
    (m.DescribeQuorumRequest, 0, "ffffffffff7f", "topics", 0, "more than 5 bytes"),
    (m.DescribeQuorumRequest, 0, "8080808080", "topics", 0, "more than 5 bytes"),
    (m.DescribeQuorumRequest, 0, "818080808000 00", "topics", 0, "more than 5 bytes"),
    (m.DescribeQuorumRequest, 0, "ffffffff0f", "topics", 0, "is above 2147483647"),
    (m.DescribeQuorumRequest, 0, "80", "topics", 1, "array count needs 1 bytes"),
    # huge counts: structs, integers, uuids, strings, tags
    (m.DescribeQuorumRequest, 0, FAR, "topics", 0, "is above the bytes left"),
    (m.SaslHandshakeResponse, 1, "0000 7fffffff", "mechanisms", 2, "is above the bytes left"),
    (r.PartitionChangeRecord, 1, "00000000" + "00" * 16 + "01 00 05" + FAR, "isr", 23, "above"),
    (m.BrokerHeartbeatRequest, 1, "00" * 22 + "01 00 05" + FAR, "offline_log_dirs", 25, "above"),
    (m.BrokerHeartbeatRequest, 1, "00" * 22 + FAR, "", 27, "tag number needs 1 bytes"),
    (
        m.BrokerHeartbeatRequest,
        1,
        "00" * 22 + "01 63" + FAR,
        "<tag 99>",
        29,
        "above the bytes left",
    ),
    (m.UnregisterBrokerRequest, 0, "00000001 01 ffffffff0f 00", "", 5, "4294967295 is above"),
    # lengths past the end, of strings and of bytes
    (m.SaslHandshakeRequest, 1, "0005 6162", "mechanism", 2, "string needs 5 bytes, 2 are left"),
    (m.SaslAuthenticateRequest, 2, "05 6162", "auth_bytes", 1, "bytes needs 4 bytes, 2 are left"),
    # text
    (m.SaslHandshakeRequest, 1, "0003 61c328", "mechanism", 3, "not UTF-8"),
    (m.SaslHandshakeRequest, 1, "0003 eda080", "mechanism", 2, "not UTF-8"),
    (
        r.RemoveUserScramCredentialRecord,
        0,
        "818002" + "61" * 32768 + "00 00",
        "name",
        0,
        "above 32767",
    ),
    # a tagged field that says another size than its value has
    (
        m.ApiVersionsResponse,
        3,
        "0000 01 00000000 01 03 02 0100",
        "zk_migration_ready",
        10,
        "tag of 2",
    ),
    (
        m.ApiVersionsResponse,
        3,
        "0000 01 00000000 02 03 02 01 07 00",
        "zk_migration_ready",
        10,
        "tag of 2 bytes holds a value of 1",
    ),
    # inside a struct of an array
    (
        m.DescribeQuorumRequest,
        0,
        "03 02 61 01 00 02 62 02 00000000",
        "topics[1].partitions[0]",
        12,
        "tag count",
    ),
]


@pytest.mark.parametrize("row", HOSTILE, ids=lambda row: f"{row[0].__name__} {row[5]}")
def test_nonsense_is_named_and_placed(row: tuple[type, int, str, str, int, str]) -> None:
    cls, version, text, path, offset, why = row
    with pytest.raises(DecodeError) as caught:
        decode(cls, version, bytes.fromhex(text.replace(" ", "")))
    error = caught.value
    assert (error.message, error.version, error.path, error.offset) == (
        cls.__name__,
        version,
        path,
        offset,
    )
    assert why in error.why
    assert str(error).startswith(f"{cls.__name__} v{version}")


def test_huge_counts_cost_neither_time_nor_memory() -> None:
    """A few bytes that claim two thousand million elements."""
    hostile = [row for row in HOSTILE if "above" in str(row[5]) and len(str(row[2])) < 100]
    assert len(hostile) >= 6
    tracemalloc.start()
    began = time.process_time()
    for cls, version, text, *_ in hostile:
        with pytest.raises(DecodeError):
            decode(cls, version, bytes.fromhex(text.replace(" ", "")))
    spent_s = time.process_time() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert spent_s < 1
    assert peak < 10_000_000


def test_many_empty_structs_cost_no_more_than_their_bytes() -> None:
    """The smallest element is one byte, so the count is bounded by what was sent."""
    body = (b"\xff\xff\x3f" + b"\x01\x01\x00") * 20_000
    began = time.process_time()
    with pytest.raises(DecodeError):
        decode(m.DescribeQuorumRequest, 0, body)
    assert time.process_time() - began < 2


def test_naming_the_place_in_a_long_message_takes_bounded_time() -> None:
    """Right to the last byte but one: the report gives up and says how far it looked."""
    topic = m.DescribeQuorumRequest.TopicData(topic_name="t")
    data = encode(m.DescribeQuorumRequest(topics=[topic] * 200_000), 0)
    began = time.process_time()
    with pytest.raises(DecodeError, match="2000 values were looked at") as caught:
        decode(m.DescribeQuorumRequest, 0, data[:-1])
    assert time.process_time() - began < 2
    assert caught.value.path.startswith("topics[")


# object, version, path, words of the reason
UNFIT = [
    (m.BrokerHeartbeatRequest(broker_id=2**31), 0, "broker_id", "2147483648"),
    (r.TopicRecord(name=None), 0, "name", "null where none may be"),  # type: ignore[arg-type]
    (r.TopicRecord(name="x" * 32768), 0, "name", "32767 are allowed"),
    (r.TopicRecord(name="\ud800"), 0, "name", "UTF-8"),
    (r.TopicRecord(topic_id=b"short"), 0, "topic_id", "uuid of 5 bytes"),
    (r.PartitionRecord(directories=(b"short",)), 1, "directories[0]", "uuid of 5 bytes"),
    (r.PartitionRecord(isr=(1, "2")), 0, "isr[1]", "'2'"),  # type: ignore[arg-type]
    (r.PartitionRecord(isr=None), 0, "isr", "null where none may be"),  # type: ignore[arg-type]
    (r.PartitionRecord(isr=3), 0, "isr", "int instead of a sequence"),  # type: ignore[arg-type]
    (r.PartitionRecord(directories=(bytes(16),)), 0, "directories", "no field in this version"),
    (m.SaslHandshakeResponse(mechanisms=("a", None)), 0, "mechanisms[1]", "null"),  # type: ignore[arg-type]
    (m.SaslAuthenticateRequest(auth_bytes="x"), 0, "auth_bytes", "str instead of bytes"),  # type: ignore[arg-type]
    (
        m.DescribeQuorumRequest(topics=[m.DescribeQuorumRequest.TopicData(topic_name=4)]),  # type: ignore[arg-type]
        0,
        "topics[0].topic_name",
        "int instead of str",
    ),
    (m.DescribeQuorumRequest(topics=["x"]), 0, "topics[0]", "str instead of TopicData"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("message", "version", "path", "why"), UNFIT)
def test_what_cannot_be_written_is_named(
    message: object, version: int, path: str, why: str
) -> None:
    with pytest.raises(EncodeError) as caught:
        encode(message, version)
    assert caught.value.path == path
    assert why in caught.value.why
    assert str(caught.value).startswith(f"{type(message).__name__} v{version} {path}")


def test_a_tag_may_not_stand_twice() -> None:
    message = m.ApiVersionsResponse(zk_migration_ready=True)
    message.unknown_tags = ((3, b"\1"),)  # type: ignore[attr-defined]
    with pytest.raises(EncodeError, match="unknown_tags"):
        encode(message, 3)


def test_versions_that_no_release_has_are_refused() -> None:
    with pytest.raises(DeclarationError, match="FetchRequest has no version 18"):
        encode(m.FetchRequest(), 18)
    with pytest.raises(DeclarationError, match="not a declared message"):
        layout(m.FetchRequest.FetchTopic, 0)


def test_a_truncated_primitive_array_is_no_shorter_array() -> None:
    whole = encode(r.PartitionRecord(isr=(1, 2, 3)), 0)
    assert decode(r.PartitionRecord, 0, whole).isr == (1, 2, 3)
    with pytest.raises(DecodeError):
        decode(r.PartitionRecord, 0, whole[:-8])


@pytest.mark.requirement("R04")
def test_the_readiness_tag_is_there_only_when_set() -> None:
    """Tag 3 of ApiVersions, a boolean; absent it means no."""
    ready = encode(m.ApiVersionsResponse(zk_migration_ready=True), 3)
    assert ready.hex() == "0000" + "01" + "00000000" + "01" + "03" + "01" + "01"
    assert encode(m.ApiVersionsResponse(), 3).hex() == "0000" + "01" + "00000000" + "00"
    assert decode(m.ApiVersionsResponse, 3, ready).zk_migration_ready
    plain = m.ApiVersionsResponse()
    assert encode(m.ApiVersionsResponse(zk_migration_ready=True), 2) == encode(plain, 2)


@pytest.mark.requirement("R01", "R02")
@pytest.mark.parametrize(
    ("request_cls", "version"),
    [(m.LeaderAndIsrRequest, 7), (m.UpdateMetadataRequest, 8), (m.StopReplicaRequest, 4)],
)
def test_the_kraft_flag_is_a_boolean_beside_one_controller_id(
    request_cls: type, version: int
) -> None:
    """The flag follows the controller id, in the newest version alone; there is no second id."""
    before, after = (
        encode(request_cls(controller_id=3000, is_kraft_controller=flag), version)
        for flag in (False, True)
    )
    assert before[:5] == (3000).to_bytes(4, "big") + b"\0"
    assert after[:5] == (3000).to_bytes(4, "big") + b"\1"
    assert before[5:] == after[5:]
    for each in spec(request_cls).versions:
        named = {f.name for f in layout(request_cls, each).fields}
        assert {name for name in named if "controller_id" in name} == {"controller_id"}
    page = (Path(__file__).parents[3] / "docs/dev/kips.md").read_text()
    assert "a field KRaftControllerId beside the controller's id | in no release: a flag" in page
    with pytest.raises(EncodeError, match="is_kraft_controller"):
        encode(request_cls(is_kraft_controller=True), version - 1)


@pytest.mark.parametrize("version", range(18))
def test_fetch_has_one_shape_for_handlers(version: int) -> None:
    state = m.FetchRequest.ReplicaState(replica_id=3)
    request = m.FetchRequest(replica_state=state, max_wait_ms=500)
    data = encode(request, version)
    assert decode(m.FetchRequest, version, data) == request
    assert request.replica_state is state
    plain = raw_decode(m.FetchRequest, version, data)
    assert plain.replica_id == (3 if version < 15 else -1)
    assert encode(m.FetchRequest(replica_id=3), 14) == encode(
        m.FetchRequest(replica_state=state), 14
    )


@pytest.mark.parametrize("version", range(4))
def test_alter_partition_has_one_shape_for_handlers(version: int) -> None:
    """Brokers without epochs send ids alone: the epoch is then -1."""
    request = m.AlterPartitionRequest
    epoch = 7 if version == 3 else -1
    isr = [request.BrokerState(broker_id=i, broker_epoch=epoch) for i in (1, 2)]
    partition = request.PartitionData(partition_index=4, new_isr_with_epochs=isr)
    sent = request(broker_id=1, topics=[request.TopicData(partitions=[partition])])
    data = encode(sent, version)
    assert decode(request, version, data) == sent
    assert partition.new_isr_with_epochs == isr


def test_update_features_has_one_shape_for_handlers() -> None:
    def request(upgrade_type: int) -> m.UpdateFeaturesRequest:
        update = m.UpdateFeaturesRequest.FeatureUpdateKey(feature="f", upgrade_type=upgrade_type)
        return m.UpdateFeaturesRequest(feature_updates=[update])

    for version, before, after in ((0, 1, 1), (0, 2, 2), (0, 3, 2), (1, 3, 3)):
        again = decode(m.UpdateFeaturesRequest, version, encode(request(before), version))
        assert again == request(after)


def test_many_unknown_tagged_fields_are_read_in_one_pass() -> None:
    """Each was added to a new tuple: 100,000 of them took 16 s."""
    many = tuple((tag, b"") for tag in range(300_000))
    message = m.MetadataRequest(topics=None, unknown_tags=many)
    assert decode(m.MetadataRequest, 12, encode(message, 12)).unknown_tags == many  # type: ignore[attr-defined]


def test_entries_of_all_arrays_are_bounded_together() -> None:
    topic, part = m.ListOffsetsRequest.ListOffsetsTopic, m.ListOffsetsRequest.ListOffsetsPartition
    two = [
        topic(name=name, partitions=[part(partition_index=n) for n in range(4)]) for name in "ab"
    ]
    data = encode(m.ListOffsetsRequest(topics=two), 8)
    assert decode(m.ListOffsetsRequest, 8, data, 10) == decode(m.ListOffsetsRequest, 8, data)
    with pytest.raises(DecodeError, match=r"ListOffsetsRequest .*: over 9 entries in one message"):
        decode(m.ListOffsetsRequest, 8, data, 9)
    names = encode(m.FindCoordinatorRequest(coordinator_keys=["", "", ""]), 4)
    assert decode(m.FindCoordinatorRequest, 4, names, 3).coordinator_keys == ("", "", "")
    with pytest.raises(DecodeError, match="over 2 entries"):
        decode(m.FindCoordinatorRequest, 4, names, 2)
    tagged = encode(m.MetadataRequest(topics=None, unknown_tags=((1, b""), (2, b""))), 12)
    with pytest.raises(DecodeError, match="over 1 entries"):
        decode(m.MetadataRequest, 12, tagged, 1)


def test_numbers_are_no_entries() -> None:
    data = encode(m.SaslHandshakeResponse(mechanisms=("a",)), 1)
    assert decode(m.SaslHandshakeResponse, 1, data, 1).mechanisms == ("a",)
    topic = m.DescribeLogDirsRequest.DescribableLogDirTopic(topic="a", partitions=range(1_000))
    data = encode(m.DescribeLogDirsRequest(topics=[topic]), 4)
    assert len(decode(m.DescribeLogDirsRequest, 4, data, 1).topics[0].partitions) == 1_000


def test_ids_are_counted_as_texts_are() -> None:
    count = 3 * SLICE
    folders = tuple(number.to_bytes(16, "big") for number in range(count))
    request = m.BrokerRegistrationRequest(broker_id=1, log_dirs=folders)
    data = encode(request, 4)
    made: list[object] = []

    def reading() -> Generator[None, None, None]:
        made.append((yield from decoding(type(request), 4, data, count)))

    assert len([*reading()]) == 2, "three slices"
    assert made == [request] == [decode(type(request), 4, data, count)]
    for read in (decode, lambda *given: next(decoding(*given))):
        with pytest.raises(TooManyEntriesError):
            read(type(request), 4, data, count - 1)
