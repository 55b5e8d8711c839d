"""What is parsed or encoded on a request's way is so once: counted, not timed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from emulator.controller.api import alter_partition, create_topics
from emulator.controller.machine import Controller
from emulator.controller.queue import batches
from emulator.controller.queue.heartbeats import Heartbeats
from emulator.controller.rules import forwarding
from emulator.controller.tables.config_defs import TopicConfigSources
from emulator.metadata.image import Image
from emulator.metadata.pmap import PMap
from emulator.metadata.replay import replay
from emulator.net import accepted
from emulator.node import tracing
from emulator.seam import RECORDS_PER_SLICE, Accepted, Event, Received, Send, Synced, SyncFile
from tests.kit import requests
from tests.unit.controller.envelopes import enveloped
from tests.unit.controller.world import create
from tests.unit.node.test_no_request_ends_the_node import ENVELOPE, IDENTITY, Peers, header
from tests.unit.node.test_small_requests import shrink
from tests.unit.raft.world import fetch
from wire import codec
from wire import messages as m
from wire.frame import RequestHeader, decode_response, encode_request, framed


@pytest.fixture
def peers() -> Peers:
    return Peers()


def counted(
    peers: Peers, monkeypatch: pytest.MonkeyPatch, key: int, version: int, message: object
) -> Counter[str]:
    """Calls of the wire's functions while a request is answered."""
    data = encode_request(header(key, version), message)
    calls: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def call(*args: Any, **fields: Any) -> Any:
            calls[name] += 1
            return real(*args, **fields)

        monkeypatch.setattr(owner, name, call)

    for owner in (accepted, forwarding, tracing):
        count(owner, "split_request")
    count(codec, "decode")
    count(codec, "encode")
    count(codec, "encoding")
    count(batches, "encode_record")
    count(tracing, "RequestRow")
    peers.conn += 1
    events: list[Any] = [
        Accepted(peers.conn, "CONTROLLER", b"\x7f\0\0\1"),
        Received(peers.conn, framed(data)),
    ]
    peers.perform(peers.node.step(events, peers.now_ms))
    monkeypatch.undo()
    (answer,) = peers.sent.pop(peers.conn)
    assert answer
    return calls


def test_a_heartbeat(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is encoded once for all; the next one of the broker is read, and that is all."""
    request = m.BrokerHeartbeatRequest(broker_id=0, broker_epoch=peers.image.brokers[0].epoch)
    counted(peers, monkeypatch, 63, 1, request)
    assert counted(peers, monkeypatch, 63, 1, request) == {"split_request": 1, "decode": 1}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("caught_up", [True, False])
def test_a_heartbeat_that_changes_nothing_is_answered_as_by_its_handler(
    peers: Peers, monkeypatch: pytest.MonkeyPatch, version: int, caught_up: bool
) -> None:
    """The bytes, the session and the metrics are the same."""
    controller, epoch = peers.node.controller, peers.image.brokers[0].epoch
    beat = m.BrokerHeartbeatRequest(broker_id=0, broker_epoch=epoch)
    beat.current_metadata_offset = epoch if caught_up else epoch - 1
    data = framed(encode_request(header(63, version), beat))
    at_once: list[bool] = []
    real = Controller._beat

    def tried(*given: Any) -> bool:
        at_once.append(real(*given))
        return at_once[-1]

    found = []
    for way in (tried, lambda *_: False):
        monkeypatch.setattr(Controller, "_beat", way)
        peers.conn += 1
        peers.now_ms += 10
        before = controller.surroundings.queue_ms.count, peers.node.counters.answered[63, False]
        events: list[Event] = [Accepted(peers.conn, "CONTROLLER", b"\x7f\0\0\1")]
        peers.perform(peers.node.step([*events, Received(peers.conn, data)], peers.now_ms))
        after = controller.surroundings.queue_ms.count, peers.node.counters.answered[63, False]
        session = controller.heartbeats.session(0)
        assert session is not None
        assert session.last_contact_ms == peers.now_ms
        (sent,) = peers.sent.pop(peers.conn)
        more = [one - other for one, other in zip(after, before, strict=True)]
        found.append((sent.data, session.metadata_offset, more))
    assert found[0] == found[1]
    assert at_once == [True]


def test_a_creation_in_an_envelope(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two headers, two bodies, two answers; the topic is three records, each read back once.

    The answer inside may be long, and is encoded in slices.
    """
    inner = encode_request(header(19, 7), create("two", 2, 1))
    assert counted(peers, monkeypatch, ENVELOPE, 0, enveloped(inner)) == {
        "split_request": 2,
        "decode": 2 + 3,
        "encode": 1 + 3,
        "encoding": 1,
        "encode_record": 3,
    }


def test_api_versions_is_encoded_until_a_feature_changes(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = m.ApiVersionsRequest(client_software_name="me", client_software_version="1")
    encodes = [counted(peers, monkeypatch, 18, 3, request)["encode"] for _ in range(3)]
    assert encodes == [1, 0, 0]
    first = peers.ask(request, 18, 3)
    changed = peers.ask(requests.raise_level(20, how=2), 57, 1)
    assert (changed.error_code, changed.results[0].error_code) == (0, 0)
    later = peers.ask(request, 18, 3)
    assert later.finalized_features[0].max_version_level == 20
    assert later.finalized_features_epoch > first.finalized_features_epoch
    assert peers.ask(m.ApiVersionsRequest(), 18, 0) == peers.ask(m.ApiVersionsRequest(), 18, 0)


def test_observers_that_stand_at_one_offset_are_given_one_encoded_answer(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the two versions in which they ask is encoded once."""
    end, epoch = peers.node.raft.log_end_offset, peers.node.raft.leader_epoch
    conns = range(100, 120)
    events: list[Event] = []
    for conn in conns:
        request = fetch(end, epoch, epoch, cluster_id=IDENTITY.cluster_id)
        request.replica_state.replica_id = conn
        version = 16 if conn == 100 else 17
        head = RequestHeader(1, version, correlation_id=conn, client_id="broker")
        opened = Accepted(conn, "CONTROLLER", b"\x7f\0\0\1")
        events += [opened, Received(conn, framed(encode_request(head, request)))]
    peers.perform(peers.node.step(events, peers.now_ms))
    assert not peers.sent.keys() & set(conns)
    encoded: list[object] = []
    real = codec.encode

    def encode(message: object, version: int) -> bytes:
        encoded.append(message)
        return real(message, version)

    monkeypatch.setattr(codec, "encode", encode)
    data = encode_request(header(19, 7), create("wakes", 1, 1))
    events = [Accepted(99, "CONTROLLER", b"\x7f\0\0\1"), Received(99, framed(data))]
    peers.perform(peers.node.step(events, peers.now_ms))
    assert sum(isinstance(one, m.FetchResponse) for one in encoded) == 2
    for conn in conns:
        (sent,) = peers.sent[conn]
        assert isinstance(sent, Send)
        found, message = decode_response(1, 16 if conn == 100 else 17, sent.data[4:])
        assert found == conn, "each has its own correlation id"
        assert message.responses[0].partitions[0].high_watermark > end


def test_turns_of_a_request(peers: Peers) -> None:
    """A read is one step; a change is two, as it is answered when it is durable. No step asks for
    another one at once.
    """
    beat = m.BrokerHeartbeatRequest(broker_id=0, broker_epoch=peers.image.brokers[0].epoch)
    beat.current_metadata_offset = beat.broker_epoch
    offer = m.ApiVersionsRequest(client_software_name="me", client_software_version="1")
    for key, version, request, steps in (
        (63, 1, beat, 1),
        (18, 3, offer, 1),
        (19, 7, create("three", 2, 1), 2),
    ):
        peers.conn += 1
        data = framed(encode_request(header(key, version), request))
        events: list[Event] = [Accepted(peers.conn, "CONTROLLER", b"\x7f\0\0\1")]
        effects = peers.node.step([*events, Received(peers.conn, data)], peers.now_ms)
        taken = 1
        while not any(isinstance(one, Send) for one in effects):
            assert not due(peers), "nothing is left to do"
            synced = [Synced(one.token) for one in effects if isinstance(one, SyncFile)]
            assert synced, "an answer waits for a sync only"
            effects = peers.node.step([*synced], peers.now_ms)
            taken += 1
        assert not due(peers)
        assert taken == steps


def due(peers: Peers) -> bool:
    deadline_ms = peers.node.deadline_ms
    return deadline_ms is not None and deadline_ms <= peers.now_ms


def test_a_heartbeat_does_not_look_at_all_brokers(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the others have applied counts in a controlled shutdown only."""
    looked: list[int] = []
    real = Heartbeats.lowest_active_offset

    def lowest(self: Heartbeats, image: Image) -> int:
        looked.append(1)
        return real(self, image)

    monkeypatch.setattr(Heartbeats, "lowest_active_offset", lowest)
    epoch = peers.image.brokers[1].epoch
    beat = m.BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=epoch)
    assert not peers.ask(beat, 63, 1).is_fenced
    assert not looked
    beat.want_shut_down = True
    for _ in range(2):
        assert not peers.ask(beat, 63, 1).should_shut_down
    assert looked


def test_maps_made_for_a_large_topic(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of a batch makes one image, however many partitions it has."""
    counts = []
    for name, partitions in (("small", 10), ("large", 1_000)):
        made: list[int] = []
        real = PMap._built.__func__  # type: ignore[attr-defined]

        def built(*parts: Any, real: Any = real, made: list[int] = made) -> Any:
            made.append(1)
            return real(*parts)

        monkeypatch.setattr(PMap, "_built", classmethod(built))
        assert peers.ask(create(name, partitions, 2), 19, 7).topics[0].error_code == 0
        monkeypatch.undo()
        counts.append(len(made))
    assert counts[1] <= counts[0] * -(-1_001 // RECORDS_PER_SLICE)


def test_configs_of_new_topics_are_encoded_once(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of topics without their own, until a config of the controller changes."""
    made: list[int] = []
    real = create_topics._entry

    def entry(config: Any) -> Any:
        made.append(1)
        return real(config)

    monkeypatch.setattr(create_topics, "_entry", entry)
    create_topics._inherited.cache_clear()
    create_topics._IN_FORCE.clear()
    looked: list[int] = []
    inherited = create_topics._inherited
    monkeypatch.setattr(
        create_topics, "_inherited", lambda sources: looked.append(1) or inherited(sources)
    )
    told = [peers.ask(create(f"c{n}", 1, 1), 19, 7).topics[0].configs for n in range(3)]
    assert len(looked) == 1, "the configs of the image are the same as before"
    monkeypatch.setattr(create_topics, "_inherited", inherited)
    assert len(made) == len(told[0]) > 30
    assert told[0] == told[1] == told[2]
    sources = TopicConfigSources.of(peers.image, peers.node.controller.config)
    assert set(create_topics._inherited(sources).encoded) == {7}
    assert len(made) == len(told[0])
    answer = peers.ask(requests.alter_config(4, "log.retention.ms", "1234", ""), 44, 1)
    assert answer.responses[0].error_code == 0
    later = peers.ask(create("d", 1, 1), 19, 7).topics[0].configs
    assert {one.name: one.value for one in later}["retention.ms"] == "1234"
    own = m.CreateTopicsRequest.CreatableTopicConfig(name="retention.ms", value="77")
    mine = peers.ask(create("e", 1, 1, configs=[own]), 19, 7).topics[0].configs
    assert {one.name: (one.value, one.config_source) for one in mine}["retention.ms"] == ("77", 1)


def test_a_change_of_an_isr_is_computed_twice(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the answer, and when the record is replayed."""
    changed: list[int] = []
    # The package has a function of that name in place of the module.
    for owner in (alter_partition, sys.modules[replay.__module__]):
        real = owner.changed_partition

        def change(*parts: Any, real: Any = real) -> Any:
            changed.append(1)
            return real(*parts)

        monkeypatch.setattr(owner, "changed_partition", change)
    shrink(peers, "t")
    assert len(changed) == 2


def test_what_comes_with_a_sync_is_part_of_the_next_group(peers: Peers) -> None:
    """It would wait for one more sync otherwise."""

    def sent(name: str) -> list[Event]:
        peers.conn += 1
        data = framed(encode_request(header(19, 7), create(name, 1, 1)))
        opened = Accepted(peers.conn, "CONTROLLER", b"\x7f\0\0\1")
        return [opened, Received(peers.conn, data)]

    def tokens(effects: list[Any]) -> list[int]:
        return [one.token for one in effects if isinstance(one, SyncFile)]

    (first,) = tokens(peers.node.step(sent("first"), peers.now_ms))
    assert not tokens(peers.node.step(sent("second"), peers.now_ms)), "a sync is under way"
    (second,) = tokens(peers.node.step([Synced(first), *sent("third")], peers.now_ms))
    effects = peers.node.step([Synced(second)], peers.now_ms)
    answered = [one.conn for one in effects if isinstance(one, Send)]
    assert answered == [peers.conn - 1, peers.conn]
    assert not tokens(effects)


@pytest.mark.parametrize("kind", ["topics", "entries"])
def test_maps_made_for_many_removals_and_entries(
    peers: Peers, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A run of records makes one image, however many they are."""
    counts = []
    for some in (10, 200):
        made: list[int] = []
        real = PMap._built.__func__  # type: ignore[attr-defined]

        def built(*parts: Any, real: Any = real, made: list[int] = made) -> Any:
            made.append(1)
            return real(*parts)

        if kind == "topics":
            names = [f"{some}-{n}" for n in range(some)]
            new = requests.create_topics(*names)
            assert not peers.ask(new, 19, 7).topics[0].error_code
            request: Any = requests.delete_topics(*names, timeout_ms=60_000)
            key, version = 20, 6
        else:
            users = (f"User:{some}-{n}" for n in range(some))
            request, key, version = requests.allow(3, "t", *users), 30, 3
        monkeypatch.setattr(PMap, "_built", classmethod(built))
        answer = peers.ask(request, key, version)
        monkeypatch.undo()
        told = answer.responses if kind == "topics" else answer.results
        assert {one.error_code for one in told} == {0}
        counts.append(len(made))
    assert counts[1] <= counts[0] * -(-1_001 // RECORDS_PER_SLICE)
