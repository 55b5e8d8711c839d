"""Whatever a client sends: an answer of its version, or its connection is closed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from emulator.broker.serving import forwarding
from tests.kit.edges import EdgeAdmin
from tests.kit.joined import Asker
from tests.laws.wire_values import Maker
from tests.unit.broker.joined_brokers import Stage
from wire import messages as m
from wire.frame import RequestHeader, decode_response, encode_request, framed
from wire.schema import layout, lookup, spec


def test_a_producer_that_wants_no_answer_gets_none() -> None:
    stage = Stage()
    stage.running(1)
    data, part = m.ProduceRequest.TopicProduceData, m.ProduceRequest.PartitionProduceData
    topic = data(name="a", partition_data=[part(index=0, records=b"")])
    for version in (3, 9, 11):
        client = stage.client(1)
        client.send(m.ProduceRequest(acks=0, topic_data=[topic]), version)
        stage.joined.wait(100)
        assert (client.open, client.frames) == (False, []), "an answer would be taken for another's"
        told = stage.client(1).ask(m.ProduceRequest(acks=1, topic_data=[topic]), version)
        assert told.responses[0].partition_responses[0].error_code == 42


def settled(stage: Stage, client: Asker) -> list[bytes]:
    """The answers; a request that waits for the controller gets one in time."""
    stage.joined.until(lambda: bool(client.frames) or not client.open, 40_000)
    frames, client.frames = client.frames, []
    return frames


def sent(stage: Stage, client: Asker, key: int, version: int, message: Any) -> Any | None:
    """The decoded answer to a request; None: the connection was closed."""
    header = RequestHeader(api_key=key, api_version=version, correlation_id=1, client_id="x")
    try:
        data = encode_request(header, message)
    except ValueError:
        return None
    stage.joined.send(client.conn, framed(data))
    stage.joined.settle()
    answers = settled(stage, client)
    if not answers:
        return None
    (frame,) = answers
    _, answer = decode_response(key, version, frame)
    return answer


@pytest.mark.parametrize("seed", range(3))
def test_random_requests_of_every_api_and_version(seed: int) -> None:
    stage = Stage()
    (broker,) = stage.running(1, super_users="User:ANONYMOUS")
    rng = random.Random(seed)
    for key, (low, high) in broker.advertised.items():
        kind = lookup("request", key)
        assert kind is not None
        for version in {low, high, rng.randint(low, high)}:
            if version not in spec(kind).versions:
                continue
            message = Maker(rng).message(layout(kind, version))
            sent(stage, stage.client(1), key, version, message)
    assert stage.parties[1].halt is None
    assert not broker.failures.total, "an unexpected error is a fault of ours"
    assert stage.client(1).ask(m.MetadataRequest(topics=None), 12).cluster_id


def test_keys_of_no_kind_and_no_keys_at_all() -> None:
    """There is no place for an error in an answer without keys, from version 4 on."""
    stage = Stage()
    (broker,) = stage.running(1)
    for version in (1, 2, 3, 4, 5, 6):
        answer = stage.client(1).ask(m.FindCoordinatorRequest(key_type=99), version)
        assert answer.coordinators == []
        assert answer.error_code == (42 if version <= 3 else 0)
    assert not broker.failures.total


def test_a_topic_without_name_and_id_is_refused_in_every_version() -> None:
    stage = Stage()
    (broker,) = stage.running(1)
    wanted = [m.MetadataRequest.MetadataRequestTopic(name=None)]
    for version in (10, 11):
        (topic,) = stage.client(1).ask(m.MetadataRequest(topics=wanted), version).topics
        assert (topic.error_code, topic.name) == (42, "")
    assert not broker.failures.total


def test_requests_of_an_admin_at_the_edges_of_size() -> None:
    stage = Stage()
    (broker,) = stage.running(1)
    rng = random.Random(7)
    admin = EdgeAdmin(rng, (1,))
    for _ in range(60):
        message = admin.request()
        declared = spec(type(message))
        assert declared.key is not None
        version = broker.advertised[declared.key][1]
        sent(stage, stage.client(1), declared.key, version, message)
    stage.joined.wait(5_000)
    for name in ("x" * 32_000, "é" * 16_000, "..", "", "a/b"):
        wanted = [m.MetadataRequest.MetadataRequestTopic(name=name)]
        answer = stage.client(1).ask(m.MetadataRequest(topics=wanted), 12)
        assert answer.topics[0].error_code == 17
    assert not broker.failures.total
    assert stage.parties[1].halt is None


def test_mutated_frames() -> None:
    stage = Stage()
    (broker,) = stage.running(1)
    rng = random.Random(3)
    for _ in range(400):
        key = rng.choice([*broker.advertised])
        kind = lookup("request", key)
        assert kind is not None
        version = rng.choice([*spec(kind).versions])
        header = RequestHeader(api_key=key, api_version=version, correlation_id=1, client_id="x")
        data = bytearray(
            encode_request(header, Maker(rng, small=True).message(layout(kind, version)))
        )
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        client = stage.client(1)
        stage.joined.send(client.conn, framed(bytes(data)))
        stage.joined.settle()
    stage.joined.wait(40_000)
    assert stage.parties[1].halt is None
    assert not broker.failures.total
    assert not broker.forwarding.outstanding
    assert stage.client(1).ask(m.MetadataRequest(topics=None), 12).brokers


def test_a_storm_of_new_topics_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "ASKED_MAX", 250)
    stage = Stage()
    (broker,) = stage.running(1)
    stage.joined.leave(stage.controller)
    kind = m.MetadataRequest.MetadataRequestTopic
    client = stage.client(1)
    for number in range(8):
        names = [kind(name=f"t{number}-{other}") for other in range(100)]
        client.send(m.MetadataRequest(topics=names), 8)
    stage.joined.settle()
    assert len(broker._creation._asked) == 250
    stage.joined.until(lambda: len(client.frames) == 8)
    stage.joined.until(lambda: not broker._creation._asked)
    assert not broker.failures.total
