"""Bytes after a request's body are ignored, as Kafka's servers do: librdkafka sends some."""

from __future__ import annotations

import pytest

from emulator.net.accepted import Connections
from emulator.seam import Accepted, Close
from wire import messages as m
from wire.errors import TrailingBytesError
from wire.frame import RequestHeader, decode_body, encode_request, framed, split_request

HEADER = RequestHeader(api_key=3, api_version=12, correlation_id=1, client_id="rdkafka")
ALL_TOPICS = bytes.fromhex("00 00 00 00 01 00 00")
"""The body that librdkafka 2.16 sends for all topics: the four bytes it reserves for the number of
topics, then two flags and no tags. The first byte alone says that all are meant."""


def test_a_request_with_bytes_after_it_is_served() -> None:
    connections = Connections({3: (0, 12)}, 1_000, lambda: 0)
    connections.accepted(Accepted(1, "PLAINTEXT", b"\x7f\0\0\1"), 0)
    whole = encode_request(HEADER, m.MetadataRequest())
    _, body = split_request(whole)
    frame = whole[: len(whole) - len(body)] + ALL_TOPICS
    (request,), effects = connections.received(1, framed(frame), 0)
    assert not effects
    assert isinstance(request.message, m.MetadataRequest)
    assert request.message.topics is None
    assert request.frame == frame, "what is forwarded is what came"


def test_a_request_cut_short_still_closes_its_connection() -> None:
    connections = Connections({3: (0, 12)}, 1_000, lambda: 0)
    connections.accepted(Accepted(1, "PLAINTEXT", b"\x7f\0\0\1"), 0)
    whole = encode_request(HEADER, m.MetadataRequest())
    requests, effects = connections.received(1, framed(whole[:-1]), 0)
    assert not requests
    assert isinstance(effects[-1], Close)


def test_elsewhere_bytes_left_over_are_an_error() -> None:
    with pytest.raises(TrailingBytesError, match="3 bytes left over"):
        decode_body(HEADER, ALL_TOPICS)
