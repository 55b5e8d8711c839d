"""Frames cut anywhere, headers of every version."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.wire_values import made
from wire import frame, messages
from wire.codec import encode
from wire.errors import DecodeError, EncodeError
from wire.frame import FrameReader, RequestHeader, framed
from wire.messages.headers import ResponseHeader
from wire.schema import declared_messages, layout


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(0, 200), max_size=8))
def test_frames_come_out_whole_however_they_are_cut(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(framed(payload) for payload in payloads)
    ends = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    reader = FrameReader(max_bytes=40)
    out = [f for a, b in itertools.pairwise(ends) for f in reader.feed(stream[a:b])]
    assert out == payloads
    assert reader.pending_bytes == 0


@pytest.mark.parametrize("length", ["ffffffff", "80000000", "00000029", "7fffffff"])
def test_a_bad_length_is_refused_at_once(length: str) -> None:
    with pytest.raises(DecodeError, match="40 are allowed"):
        FrameReader(max_bytes=40).feed(bytes.fromhex(length))


def test_a_frame_of_the_largest_size_passes() -> None:
    assert FrameReader(max_bytes=40).feed(framed(bytes(40))) == [bytes(40)]


def test_every_request_and_response_travels_with_its_header() -> None:
    for cls, what in declared_messages().items():
        if what.kind not in {"request", "response"}:
            continue
        assert what.key is not None
        for version in what.versions:
            message = cls()
            if what.kind == "request":
                client_id = None if version % 2 else "émile"
                header = RequestHeader(
                    api_key=what.key, api_version=version, correlation_id=-7, client_id=client_id
                )
                if (what.key, version) == (7, 0):
                    header.client_id = ""  # header version 0 has none
                data = frame.encode_request(header, message)
                assert frame.decode_request(data) == (header, message)
                assert frame.split_request(data) == (header, encode(message, version))
            else:
                data = frame.encode_response(what.key, version, 99, message)
                assert frame.decode_response(what.key, version, data) == (99, message)


# key, version, header of the request, header of the response
HEADERS = [(7, 0, 0, 0), (7, 2, 1, 0), (7, 3, 2, 1), (18, 2, 1, 0), (18, 3, 2, 0), (18, 4, 2, 0)]
HEADERS += [(1, 11, 1, 0), (1, 12, 2, 1), (17, 1, 1, 0), (58, 0, 2, 1)]


@pytest.mark.parametrize(("key", "version", "request_header", "response_header"), HEADERS)
def test_header_versions(key: int, version: int, request_header: int, response_header: int) -> None:
    assert frame.request_header_version(key, version) == request_header
    assert frame.response_header_version(key, version) == response_header


def test_the_header_of_a_too_new_api_versions_can_be_read() -> None:
    """A client opens with a version we do not know; it must be answered in version 0."""
    header, body = frame.split_request(bytes.fromhex("0012 0009 00000005 0001 78 00 0a0b"))
    assert (header.api_version, header.correlation_id, header.client_id) == (9, 5, "x")
    assert body == b"\x0a\x0b"
    with pytest.raises(DecodeError, match="unknown version"):
        frame.decode_request(bytes.fromhex("0012 0009 00000005 0001 78 00"))


def test_an_api_versions_answer_in_version_0_is_understood() -> None:
    """A server that does not know version 4 answers in version 0, with error 35."""
    answer = messages.ApiVersionsResponse(
        error_code=35, api_keys=[messages.ApiVersionsResponse.ApiVersion(api_key=18, max_version=3)]
    )
    data = frame.encode_response(18, 0, 1, answer)
    assert frame.decode_response(18, 4, data) == (1, answer)
    with pytest.raises(DecodeError):
        frame.decode_response(18, 4, data[:-1])
    with pytest.raises(DecodeError):
        frame.decode_response(17, 1, bytes(5))


@pytest.mark.parametrize("key", [-1, 4000])
def test_an_unknown_key_is_refused(key: int) -> None:
    with pytest.raises(DecodeError, match="unknown API key"):
        frame.split_request(key.to_bytes(2, "big", signed=True) + bytes(8))
    with pytest.raises(DecodeError, match="unknown API key"):
        frame.decode_response(key, 0, bytes(8))


def test_every_cut_header_is_refused() -> None:
    header = RequestHeader(api_key=1, api_version=17, correlation_id=1, client_id="client")
    header.unknown_tags = ((5, b"abc"), (300, bytes(200)))  # type: ignore[attr-defined]
    message = made(layout(messages.FetchRequest, 17), 3)
    data = frame.encode_request(header, message)
    assert frame.split_request(data)[0] == header
    for cut in range(len(data)):
        with pytest.raises(DecodeError):
            frame.decode_request(data[:cut])


def test_unknown_tags_of_a_response_header_are_stepped_over() -> None:
    answer = messages.AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=1000)
    data = bytes.fromhex("00000007 01 05 02 aabb") + encode(answer, 0)
    assert frame.decode_response(67, 0, data) == (7, answer)
    header, _ = frame.split_response(67, 0, data)
    assert header.unknown_tags == ((5, b"\xaa\xbb"),)  # type: ignore[attr-defined]


def test_a_header_with_many_tagged_fields_is_refused() -> None:
    header = encode(RequestHeader(api_key=3, api_version=12, correlation_id=1, client_id="x"), 2)
    many = header[:-1] + frame.HEADER_TAGS_MAX.to_bytes(1, "big") + b"\x05\x00" * 100
    found, rest = frame.split_request(many + b"body")
    assert (found.client_id, rest) == ("x", b"body")
    with pytest.raises(DecodeError, match="101 tagged fields, 100 are allowed"):
        frame.split_request(header[:-1] + b"\x65" + b"\x05\x00" * 101)


KEYS = sorted(
    what.key
    for what in declared_messages().values()
    if what.kind == "request" and what.key is not None
)


@given(
    key=st.sampled_from(KEYS),
    version=st.integers(0, 20),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    client_id=st.none() | st.text(max_size=20).map(str.encode) | st.binary(max_size=6),
    rest=st.binary(max_size=12) | st.binary(max_size=12).map(lambda more: b"\0" + more),
)
def test_a_plain_header_is_read_as_the_codec_reads_it(
    key: int, version: int, correlation_id: int, client_id: bytes | None, rest: bytes
) -> None:
    """Also where the client id is no UTF-8, or what follows is no section of tagged fields."""
    size = -1 if client_id is None else len(client_id)
    numbers = struct.pack(">hhih", key, version, correlation_id, size)
    whole = numbers + (client_id or b"") + rest
    for data in (whole, whole[: len(whole) // 2]):
        assert header_of(data, plain=True) == header_of(data, plain=False)


def header_of(data: bytes, *, plain: bool) -> tuple[RequestHeader, bytes] | str:
    with pytest.MonkeyPatch.context() as patch:
        if not plain:
            patch.setattr(frame, "_plain_request", lambda _: None)
        try:
            return frame.split_request(data)
        except DecodeError as error:
            return str(error)


@given(
    key=st.sampled_from(KEYS),
    version=st.integers(0, 20),
    correlation_id=st.integers(-(2**31), 2**31 - 1) | st.sampled_from([-(2**31) - 1, 2**31]),
    client_id=st.none() | st.text(max_size=20) | st.sampled_from(["\ud800", "x" * 40_000]),
    tags=st.sampled_from([(), ((5, b"abc"),)]),
)
def test_a_plain_header_is_written_as_the_codec_writes_it(
    key: int,
    version: int,
    correlation_id: int,
    client_id: str | None,
    tags: tuple[tuple[int, bytes], ...],
) -> None:
    """Also where it cannot be: a number or a client id too large, a text that is no UTF-8."""
    header = RequestHeader(
        api_key=key, api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    header.unknown_tags = tags  # type: ignore[attr-defined]
    assert head_of(header, plain=True) == head_of(header, plain=False)


def head_of(header: RequestHeader, *, plain: bool) -> bytes | str:
    with pytest.MonkeyPatch.context() as patch:
        if not plain:
            patch.setattr(frame, "_plain_head", lambda *_: None)
        try:
            return frame.encode_head(header)
        except EncodeError as error:
            return str(error)


RESPONSES = sorted((key, version) for key, version, _, _ in HEADERS)


@given(
    what=st.sampled_from(RESPONSES),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    rest=st.binary(max_size=12) | st.binary(max_size=12).map(lambda more: b"\0" + more),
    cut=st.integers(0, 20),
)
def test_a_plain_response_is_split_as_the_codec_splits_it(
    what: tuple[int, int], correlation_id: int, rest: bytes, cut: int
) -> None:
    data = (correlation_id.to_bytes(4, "big", signed=True) + rest)[:cut]
    assert split_of(what, data, plain=True) == split_of(what, data, plain=False)


def split_of(
    what: tuple[int, int], data: bytes, *, plain: bool
) -> tuple[ResponseHeader, bytes] | str:
    with pytest.MonkeyPatch.context() as patch:
        if not plain:
            patch.setattr(frame, "_plain_response", lambda *_: None)
        try:
            return frame.split_response(*what, data)
        except DecodeError as error:
            return str(error)
