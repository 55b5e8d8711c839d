"""Pairs of requests and answers, from bytes that pass."""

from __future__ import annotations

import json

import pytest

from emulator.net import recording
from emulator.net.recording import PairedConnection, RecordedPair
from wire import messages as m
from wire import records as r
from wire.batch import Batch, encode_batch
from wire.check import Checked, check_lines
from wire.frame import RequestHeader, encode_request, encode_response, framed
from wire.record_serde import encode_record


def request(number: int, message: object = None, key: int = 18, version: int = 3) -> bytes:
    header = RequestHeader(key, version, number, "me")
    return framed(encode_request(header, message or m.ApiVersionsRequest("a", "1")))


def response(number: int, message: object = None, key: int = 18, version: int = 3) -> bytes:
    return framed(encode_response(key, version, number, message or m.ApiVersionsResponse()))


@pytest.fixture
def connection() -> PairedConnection:
    return PairedConnection(">127.0.0.1:9092", 7)


def numbers(pairs: list[RecordedPair]) -> list[int]:
    return [pair.correlation_id for pair in pairs]


@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_pairs_are_found_wherever_the_bytes_are_split(
    connection: PairedConnection, size: int
) -> None:
    sent = request(1) + request(2)
    got = response(1) + response(2)
    for start in range(0, len(sent), size):
        assert connection.asked(sent[start : start + size], 10.0) == []
    pairs = []
    for start in range(0, len(got), size):
        pairs += connection.answered(got[start : start + size], 10.25)
    assert numbers(pairs) == [1, 2]
    assert connection.ended() == []
    line = json.loads(pairs[0].line(5))
    assert {**line, "request": "", "response": ""} == {
        "n": 5,
        "t_req": 10.0,
        "t_resp": 10.25,
        "chan": ">127.0.0.1:9092",
        "conn": 7,
        "api_key": 18,
        "api": "ApiVersions",
        "api_version": 3,
        "corr": 1,
        "client_id": "me",
        "request": "",
        "response": "",
    }
    checked = Checked()
    check_lines([pair.line(1) for pair in pairs], checked)
    assert (checked.frames, checked.identical) == (4, 4)


def test_what_has_no_answer_is_recorded_without_one_at_the_end(
    connection: PairedConnection,
) -> None:
    connection.asked(request(1) + request(2), 10.0)
    connection.answered(response(1), 11.0)
    (left,) = connection.ended()
    assert left.correlation_id == 2
    assert json.loads(left.line(1))["response"] is None
    assert connection.ended() == []
    assert connection.stopped == "closed"


def test_why_it_stopped_is_kept_when_the_connection_ends(connection: PairedConnection) -> None:
    connection.asked(framed(b"short"), 10.0)
    why = connection.stopped
    connection.ended()
    assert connection.stopped == why != "closed"


@pytest.mark.parametrize("acks", [0, 1])
def test_a_produce_request_may_have_no_answer(connection: PairedConnection, acks: int) -> None:
    header = RequestHeader(0, 9, 1, "me")
    # Bytes after a request are ignored by servers.
    produce = framed(encode_request(header, m.ProduceRequest(acks=acks)) + b"abc")
    assert numbers(connection.asked(produce + request(2), 10.0)) == ([] if acks else [1])
    if acks:
        connection.answered(response(1, m.ProduceResponse(), key=0, version=9), 11.0)
    assert numbers(connection.answered(response(2), 11.0)) == [2]


def test_an_api_that_nobody_here_knows_is_recorded(connection: PairedConnection) -> None:
    connection.asked(framed(bytes.fromhex("03e7 0001 00000009 0002 6d65 aabb")), 10.0)
    (pair,) = connection.answered(framed(bytes.fromhex("00000009 ff")), 11.0)
    line = json.loads(pair.line(1))
    assert (line["api"], line["api_version"], line["client_id"]) == ("Api999", 1, "me")


@pytest.mark.parametrize("size", ["ffff", "7fff", ""])
def test_a_header_without_a_client_id_is_recorded(connection: PairedConnection, size: str) -> None:
    connection.asked(framed(bytes.fromhex("0007 0000 00000009" + size)), 10.0)
    (pair,) = connection.answered(framed(bytes.fromhex("00000009")), 11.0)
    assert pair.client_id is None


def test_credentials_are_counted_and_not_recorded(connection: PairedConnection) -> None:
    message = m.SaslAuthenticateRequest(auth_bytes=b"\0ann\0secret")
    connection.asked(request(1, message, key=36, version=2) + request(2), 10.0)
    got = response(1, m.SaslAuthenticateResponse(), key=36, version=2) + response(2)
    assert numbers(connection.answered(got, 11.0)) == [2]
    assert connection.withheld == 1
    connection.asked(request(3, message, key=36, version=2), 10.0)
    assert connection.ended() == []


TOKEN = "s3cr3t-7f1e"
CONFIGS = m.IncrementalAlterConfigsRequest
PASSWORD = CONFIGS(
    resources=[
        CONFIGS.AlterConfigsResource(
            4, "1", [CONFIGS.AlterableConfig("listener.name.a.ssl.key.password", 0, TOKEN)]
        )
    ]
)
PLAIN = CONFIGS(
    resources=[
        CONFIGS.AlterConfigsResource(2, "t", [CONFIGS.AlterableConfig("retention.ms", 0, "1")])
    ]
)
SCRAM = m.AlterUserScramCredentialsRequest
SALTED = SCRAM(upsertions=[SCRAM.ScramCredentialUpsertion("u", 1, 4_096, b"x", TOKEN.encode())])


def inside(message: object, key: int, version: int, times: int = 1) -> bytes:
    """The request in an Envelope, or in several."""
    frame = request(9, message, key, version)
    for _ in range(times):
        frame = request(1, m.EnvelopeRequest(frame[4:], b"", b""), key=58, version=0)
    return frame


@pytest.mark.parametrize(
    ("sent", "key", "withheld"),
    [
        (request(1, PASSWORD, 44, 1), 44, True),
        (request(1, PLAIN, 44, 1), 44, False),
        (request(1, SALTED, 51, 0), 51, True),
        (inside(PASSWORD, 44, 1), 58, True),
        (inside(SALTED, 51, 0), 58, True),
        (inside(SALTED, 51, 0, times=3), 58, True),
        (inside(PLAIN, 44, 1), 58, False),
        (inside(PLAIN, 44, 1, times=11), 58, True),
        (request(1, m.RenewDelegationTokenRequest(TOKEN.encode(), 1), 39, 2), 39, True),
        (framed(bytes.fromhex("002c 0001 00000001 0001 61 00 ff") + TOKEN.encode()), 44, True),
        (framed(bytes.fromhex("003a 0000 00000001 0001 61 00 ff") + TOKEN.encode()), 58, True),
    ],
)
def test_requests_with_secrets_are_counted_and_not_recorded(
    connection: PairedConnection, sent: bytes, key: int, withheld: bool
) -> None:
    assert connection.asked(sent, 10.0) == []
    answer = framed((1).to_bytes(4, "big") + TOKEN.encode())
    found = connection.answered(answer, 11.0)
    assert ([one.api_key for one in found], connection.withheld) == ([key][withheld:], withheld)
    connection.asked(sent, 10.0)
    left = connection.ended()
    assert (len(left), connection.withheld) == (not withheld, 2 * withheld)


@pytest.mark.parametrize("version", [12, 17])
@pytest.mark.parametrize(
    ("records", "withheld"),
    [
        ([r.ConfigRecord(4, "1", "ssl.key.password", TOKEN)], True),
        ([r.ConfigRecord(4, "1", "ssl.key.password", None)], False),
        ([r.NoOpRecord(), r.UserScramCredentialRecord("u", 1, b"s", b"k", b"k", 4_096)], True),
        ([r.NoOpRecord(), r.TopicRecord("t", bytes(16))], False),
        (b"no batch", True),
    ],
)
def test_an_answer_with_secrets_of_the_metadata_log_is_not_recorded(
    connection: PairedConnection, version: int, records: list[object] | bytes, withheld: bool
) -> None:
    response_type = m.FetchResponse
    topic = response_type.FetchableTopicResponse(
        "__cluster_metadata" if version < 13 else "",
        bytes(15) + b"\1" if version >= 13 else bytes(16),
        [response_type.PartitionData(records=held(records))],
    )
    connection.asked(request(1, m.FetchRequest(), 1, version), 10.0)
    found = connection.answered(response(1, response_type(responses=[topic]), 1, version), 11.0)
    assert (len(found), connection.withheld) == (not withheld, withheld)


def held(records: list[object] | bytes) -> bytes:
    if isinstance(records, bytes):
        return records
    return encode_batch(Batch(0, 1, 0, 1_000, [(None, encode_record(one, 0)) for one in records]))


def test_nothing_is_recorded_after_a_handshake_without_headers(
    connection: PairedConnection,
) -> None:
    connection.asked(request(1, m.SaslHandshakeRequest("PLAIN"), key=17, version=0), 10.0)
    shaken = response(1, m.SaslHandshakeResponse(), key=17, version=0)
    assert numbers(connection.answered(shaken, 11.0)) == [1]
    assert "tokens without a header" in connection.stopped
    assert connection.asked(framed(b"\0ann\0secret"), 12.0) == []
    assert connection.answered(framed(b""), 12.0) == []
    assert connection.ended() == []


def test_a_token_sent_before_the_handshake_is_answered_is_not_recorded(
    connection: PairedConnection,
) -> None:
    shaking = request(1, m.SaslHandshakeRequest("PLAIN"), key=17, version=0)
    connection.asked(shaking + framed(b"\0ann\0secret"), 10.0)
    connection.asked(framed(b"\0ann\0secret"), 10.0)
    assert numbers(connection.ended()) == [1]


@pytest.mark.parametrize(
    ("asked", "answered", "why"),
    [
        (b"\x16\x03\x01\x02\x00\x01", b"", "no request of Kafka: Frame"),
        (framed(b"short"), b"", "shorter than a header"),
        (request(1), framed(b"\0\0"), "shorter than a header"),
        (request(1), response(2), "nobody asked 2"),
        (b"", response(1), "nobody asked 1"),
        (request(1), b"\xff\xff\xff\xff", "no answer of Kafka: Frame"),
    ],
)
def test_what_is_not_kafkas_ends_the_recording_of_its_connection(
    connection: PairedConnection, asked: bytes, answered: bytes, why: str
) -> None:
    connection.asked(asked, 10.0)
    assert connection.answered(answered, 11.0) == []
    assert why in connection.stopped
    assert connection.asked(request(5), 12.0) == []
    assert 5 not in numbers(connection.ended())


def test_a_server_that_never_answers_costs_bounded_memory(
    connection: PairedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "OUTSTANDING_BYTES_MAX", 1_000)
    while not connection.stopped:
        connection.asked(request(1), 10.0)
    assert len(connection.ended()) < 100
