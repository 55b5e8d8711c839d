"""Arrays that are encoded once: the bytes are those of a plain list, in every version."""

from __future__ import annotations

import pytest

from emulator.seam import whole
from wire import codec
from wire import messages as m
from wire.codec import decode, encode
from wire.constant import Constant
from wire.errors import EncodeError
from wire.frame import RequestHeader, encode_request, framed, framed_request

Entry = m.CreateTopicsResponse.CreatableTopicConfigs
Topic = m.CreateTopicsResponse.CreatableTopicResult
ENTRIES = [
    Entry(name=f"k{n}", value=None if n % 3 else "v", config_source=n % 7) for n in range(200)
]


def response(configs: list[Entry]) -> m.CreateTopicsResponse:
    topics = [Topic(name=name, error_message=None, configs=configs) for name in ("a", "b")]
    return m.CreateTopicsResponse(topics=topics)


@pytest.mark.parametrize("version", range(2, 8))
@pytest.mark.parametrize("count", [0, 1, 200])
def test_the_bytes_are_those_of_a_list(version: int, count: int) -> None:
    constant = Constant(ENTRIES[:count])
    plain = encode(response(ENTRIES[:count]), version)
    assert [encode(response(constant), version) for _ in range(2)] == [plain, plain]
    assert set(constant.encoded) == ({version} if version >= 5 else set())
    assert decode(m.CreateTopicsResponse, version, plain) == decode(
        m.CreateTopicsResponse, version, encode(response(constant), version)
    )


@pytest.mark.parametrize("sliced", [False, True])
def test_what_many_requests_share_is_sent_without_a_copy(*, sliced: bool) -> None:
    kind = m.UpdateMetadataRequest
    topics = [kind.UpdateMetadataTopicState(topic_name=f"{n}" * 9_000) for n in range(9)]
    shared, header = Constant(topics), RequestHeader(6, 8, 1, "controller")
    if sliced:
        whole(codec.encoding(kind(topic_states=shared), 8))
    sent = [framed_request(header, kind(topic_states=shared, broker_epoch=n)) for n in (1, 2)]
    assert [one[1] is shared.encoded[8] for one in sent] == [True, True]
    expected = encode_request(header, kind(topic_states=topics, broker_epoch=2))
    assert b"".join(sent[1]) == framed(expected)
    short = framed_request(header, kind(topic_states=Constant(topics[:1])))
    assert len(short) == 1


def test_it_is_encoded_once_for_each_version() -> None:
    """What is changed afterwards is not seen: that is why nothing may be."""
    constant = Constant([Entry(name="before")])
    first = {version: encode(response(constant), version) for version in (5, 7)}
    constant[0].name = "after"
    assert {version: encode(response(constant), version) for version in (5, 7)} == first
    assert b"after" in encode(response(constant), 6)


def test_what_cannot_be_encoded_is_not_remembered() -> None:
    constant = Constant([Entry(name="x" * 40_000)])
    for _ in range(2):
        with pytest.raises(EncodeError):
            encode(response(constant), 7)
    assert not constant.encoded


def test_it_equals_a_list() -> None:
    assert Constant(ENTRIES) == ENTRIES
    assert response(Constant(ENTRIES)) == response(ENTRIES)
