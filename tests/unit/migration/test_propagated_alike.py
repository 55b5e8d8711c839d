"""What several brokers are told alike is built and encoded once, whatever the rest are told."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.pmap import PMap
from emulator.metadata.topics import Partition, Topic
from emulator.migration.propagation import propagator as propagation
from emulator.migration.propagation.channels import Channels
from emulator.migration.propagation.propagator import Propagator
from emulator.net.control import TYPE_FULL, TYPE_INCREMENTAL, TYPE_UNKNOWN, VERSIONS
from emulator.net.greeting import declared
from emulator.seam import Connect, Connected, Received, Send
from tests.kit.laws import examples
from tests.unit.broker.control import T, U, lead, live, stop, update
from tests.unit.migration.test_propagation import CONTROLLER, Told, recorded_image
from tests.unit.node.test_copy_grows_in_line import Work, counted
from wire import messages as m
from wire.constant import Constant
from wire.frame import (
    FrameReader,
    RequestHeader,
    decode_request,
    encode_request,
    encode_response,
    framed,
)
from wire.schema import replace

ID = b"n" * 16
BROKERS = (0, 1, 2)


def header(request: Any, correlation_id: int = 7) -> RequestHeader:
    _, key = declared(type(request))
    version = VERSIONS[type(request)]
    return RequestHeader(
        api_key=key, api_version=version, correlation_id=correlation_id, client_id="3000"
    )


def with_topic(image: Image, *replicas: tuple[int, ...]) -> tuple[Image, Touched]:
    """The image with a topic whose partitions have these replicas."""
    partitions = {
        index: Partition(replicas=one, isr=one, leader=one[0], leader_epoch=0, partition_epoch=0)
        for index, one in enumerate(replicas)
    }
    topic = Topic("new", ID, PMap(partitions))
    touched = Touched()
    touched.topics[ID] = "new"
    touched.partitions |= {(ID, index) for index in partitions}
    topics, ids = image.topics.set(ID, topic), image.topic_ids.set("new", ID)
    return replace(image, topics=topics, topic_ids=ids), touched


def leaders_told(*replicas: tuple[int, ...]) -> dict[int, Any]:
    """Broker id -> the LeaderAndIsr that it gets of a new topic."""
    image, zk_epoch = recorded_image()
    after, touched = with_topic(image, *replicas)
    told = Told()
    told.run(told.propagator.full(image, zk_epoch))
    sent = told.run(told.propagator.delta(image, after, touched, zk_epoch))
    return {to: q for to, q in sent if isinstance(q, m.LeaderAndIsrRequest)}


def named(request: Any) -> list[tuple[str, int]]:
    return [
        (t.topic_name, p.partition_index) for t in request.topic_states for p in t.partition_states
    ]


def test_brokers_that_host_every_partition_are_told_the_same_objects() -> None:
    sent = leaders_told((0, 1, 2), (1, 2, 0))
    assert {*sent} == {*BROKERS}
    assert len({id(request.topic_states) for request in sent.values()}) == 1
    assert len({request.broker_epoch for request in sent.values()}) == 3
    for request in sent.values():
        assert named(request) == [("new", 0), ("new", 1)]
        assert [one.broker_id for one in request.live_leaders] == [0, 1]


def test_a_broker_that_hosts_some_is_told_those() -> None:
    sent = leaders_told((0, 1), (0, 2), (0, 1))
    assert {broker_id: named(request) for broker_id, request in sent.items()} == {
        0: [("new", 0), ("new", 1), ("new", 2)],
        1: [("new", 0), ("new", 2)],
        2: [("new", 1)],
    }
    for request in sent.values():
        assert [one.broker_id for one in request.live_leaders] == [0]
    sent = leaders_told((0, 1), (2,))
    assert {broker_id: named(request) for broker_id, request in sent.items()} == {
        0: [("new", 0)],
        1: [("new", 0)],
        2: [("new", 1)],
    }


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Arrays that were encoded for all requests that have them, by the class of their structs."""
    counted: Counter[str] = Counter()
    real = Constant.__init__

    class Counted(dict[int, bytes]):
        def __init__(self, constant: Constant[Any]) -> None:
            self.constant = constant

        def __setitem__(self, version: int, data: bytes) -> None:
            counted[type(self.constant[0]).__name__] += 1
            super().__setitem__(version, data)

    def made(self: Constant[Any], elements: Iterable[Any]) -> None:
        real(self, elements)
        self.encoded = Counted(self)

    monkeypatch.setattr(Constant, "__init__", made)
    return counted


def play(propagator: Propagator, channels: Channels, effects: list[Any]) -> list[Any]:
    """Brokers answer all that they get; the requests."""
    taken: list[Any] = []
    readers: defaultdict[int, FrameReader] = defaultdict(FrameReader)
    waiting = [*effects]
    while waiting or propagator.busy:
        if not waiting:
            waiting += propagator.step(0)
            continue
        match waiting.pop(0):
            case Connect(conn):
                waiting += channels.handle(Connected(conn), 0)
            case Send(conn, data):
                for frame in readers[conn].feed(data):
                    told, request = decode_request(frame)
                    taken.append(request)
                    waiting += channels.handle(Received(conn, _answer(told)), 0)
    return taken


@pytest.mark.parametrize("partitions", [1, 600])
def test_what_three_brokers_are_told_is_encoded_once(
    encoded: Counter[str], partitions: int
) -> None:
    """Be it short or long; and an UpdateMetadata of another type has the same topics."""
    image, zk_epoch = recorded_image()
    after, touched = with_topic(image, *((0, 1, 2),) * partitions)
    channels = Channels(CONTROLLER, count(1).__next__)
    propagator = Propagator(channels, CONTROLLER, "INTERNAL")
    play(propagator, channels, propagator.full(image, zk_epoch))
    encoded.clear()
    taken = play(propagator, channels, propagator.delta(image, after, touched, zk_epoch))
    assert len(taken) == 6
    assert encoded == {
        "LeaderAndIsrTopicState": 1,
        "LeaderAndIsrLiveLeader": 1,
        "UpdateMetadataTopicState": 1,
    }, "the brokers are the same as in the requests before"
    epochs = [q.broker_epoch for q in taken if isinstance(q, m.UpdateMetadataRequest)]
    assert sorted(epochs) == sorted(one.epoch for one in after.brokers.values())
    encoded.clear()
    taken = play(propagator, channels, propagator.full(after, zk_epoch, first=True))
    types = [q.type for q in taken if isinstance(q, m.UpdateMetadataRequest)]
    assert sorted(types) == [TYPE_UNKNOWN] * 3 + [TYPE_FULL] * 3
    assert (encoded["UpdateMetadataTopicState"], encoded["UpdateMetadataBroker"]) == (1, 0)


def longest_of(partitions: int) -> tuple[int, int]:
    """Lines and calls of C in the longest step of a FULL sending; slices of the longest answer."""
    image, zk_epoch = recorded_image()
    after, _ = with_topic(image, *((0, 1, 2),) * partitions)
    channels = Channels(CONTROLLER, count(1).__next__)
    propagator = Propagator(channels, CONTROLLER, "INTERNAL")
    kind = m.LeaderAndIsrResponse
    errors = [kind.LeaderAndIsrPartitionError(partition_index=n) for n in range(partitions)]
    told = kind(topics=[kind.LeaderAndIsrTopicError(topic_id=ID, partition_errors=errors)])
    waiting = propagator.full(after, zk_epoch)
    readers: defaultdict[int, FrameReader] = defaultdict(FrameReader)
    longest = slices = 0
    while waiting or propagator.busy or channels.queued:
        work = Work()
        if not waiting and propagator.busy:
            waiting += counted(work, lambda: propagator.step(0))
        elif not waiting:
            assert channels.deadline_ms == 0
            waiting += channels.tick(0)
            slices += 1
        else:
            match waiting.pop(0):
                case Connect(conn):
                    event = Connected(conn)
                    waiting += counted(work, lambda event=event: channels.handle(event, 0))
                case Send(conn, data):
                    for frame in readers[conn].feed(data):
                        header, _ = decode_request(frame)
                        waiting += channels.handle(Received(conn, _answer(header, told)), 0)
        longest = max(longest, work.run)
    return longest, slices


def test_a_full_sending_is_made_and_its_answers_are_read_in_slices() -> None:
    """Of 100,000 partitions each request took 45 ms to encode, for each broker, in one step."""
    longest_of(600)  # compiles what is needed
    (few, _), (many, slices) = longest_of(3_000), longest_of(9_000)
    assert many <= 1.05 * few
    assert slices >= 8


def fallen(image: Image, partitions: int) -> tuple[Image, Image, Touched]:
    """A topic of which broker 0 led each partition; and the same without broker 0."""
    before, touched = with_topic(image, *((0, 1, 2),) * partitions)
    topic = before.topics[ID]
    moved = {
        index: replace(one, leader=1, isr=(1, 2), leader_epoch=1)
        for index, one in topic.partitions.items()
    }
    topics = before.topics.set(ID, replace(topic, partitions=PMap(moved)))
    return before, replace(before, topics=topics), touched


def longest_of_a_delta(partitions: int) -> int:
    """Lines and calls of C in the longest step until brokers know other leaders."""
    image, zk_epoch = recorded_image()
    before, after, touched = fallen(image, partitions)
    channels = Channels(CONTROLLER, count(1).__next__)
    propagator = Propagator(channels, CONTROLLER, "INTERNAL")
    play(propagator, channels, propagator.full(before, zk_epoch))
    work = Work()
    counted(work, lambda: propagator.delta(before, after, touched, zk_epoch))
    longest = work.run
    while propagator.busy:
        work = Work()
        counted(work, lambda: propagator.step(0))
        longest = max(longest, work.run)
    return longest


def test_the_leaders_of_a_dead_broker_are_gone_through_in_slices() -> None:
    """Of 100,000 partitions that was one step of 108 ms."""
    longest_of_a_delta(600)  # compiles what is needed
    assert longest_of_a_delta(9_000) <= 1.1 * longest_of_a_delta(3_000)


def told_of_three(slices: int, monkeypatch: pytest.MonkeyPatch) -> dict[int, list[Any]]:
    """Many changes, a broker that joins, one more change: what each epoch of a broker gets."""
    monkeypatch.setattr(propagation, "LOOKED_PER_SLICE", slices)
    image, zk_epoch = recorded_image()
    before, after, touched = fallen(image, 600)
    channels = Channels(CONTROLLER, count(1).__next__)
    propagator = Propagator(channels, CONTROLLER, "INTERNAL")
    effects = propagator.full(before, zk_epoch)
    taken = play(propagator, channels, effects)
    effects = propagator.delta(before, after, touched, zk_epoch)
    joined = replace(after.brokers[2], epoch=after.brokers[2].epoch + 1)
    again = Touched()
    again.brokers.add(2)
    third = replace(after, brokers=after.brokers.set(2, joined))
    effects += propagator.delta(after, third, again, zk_epoch)
    topic = third.topics[ID]
    one = replace(topic.partitions[7], isr=(1,), partition_epoch=2)
    changed = Touched()
    changed.topics[ID] = topic.name
    changed.partitions.add((ID, 7))
    whole = replace(topic, partitions=topic.partitions.set(7, one))
    last = replace(third, topics=third.topics.set(ID, whole))
    effects += propagator.delta(third, last, changed, zk_epoch)
    by_epoch: dict[int, list[Any]] = {}
    for request in [*taken, *play(propagator, channels, effects)]:
        by_epoch.setdefault(request.broker_epoch, []).append(request)
    return by_epoch


def test_what_comes_after_many_changes_is_told_after_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once = told_of_three(1_000_000, monkeypatch)
    assert len(at_once) == 4
    assert all(len(requests) >= 4 for requests in at_once.values())
    for slices in (1, 100, 599):
        assert told_of_three(slices, monkeypatch) == at_once


def _answer(told: RequestHeader, leaders: Any = None) -> bytes:
    kind = {4: m.LeaderAndIsrResponse, 5: m.StopReplicaResponse, 6: m.UpdateMetadataResponse}
    response = leaders if told.api_key == 4 and leaders else kind[told.api_key]()
    return framed(encode_response(told.api_key, told.api_version, told.correlation_id, response))


REQUESTS = [
    update(("t", T, {0: 1}), kraft=True, kind=TYPE_FULL),
    update(("t", T, {0: 1}), kraft=True, brokers=[live(1)]),
    update(kraft=True),
    lead("t", T, kraft=True),
    lead("u", U, kraft=True, replicas=(1, 2)),
    lead("t", T, kraft=True, epoch=6),
    stop("t", kraft=True),
]


@examples(100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(REQUESTS),
            st.integers(-1, 2**40),
            st.integers(1, 3),
            st.sampled_from((TYPE_UNKNOWN, TYPE_INCREMENTAL, TYPE_FULL)),
            st.integers(0, 2**31 - 1),
        )
    )
)
def test_whatever_is_sent_has_the_bytes_of_its_own(
    told: list[tuple[Any, int, int, int, int]],
) -> None:
    """A broker that fails a FULL LeaderAndIsr gets it again with another type."""
    shared = {id(one): Constant(one.topic_states) for one in REQUESTS}
    for request, broker_epoch, epoch, kind, correlation_id in told:
        typed = {} if isinstance(request, m.StopReplicaRequest) else {"type": kind}
        own = replace(request, broker_epoch=broker_epoch, controller_epoch=epoch, **typed)
        about = header(own, correlation_id)
        same = replace(own, topic_states=shared[id(request)])
        assert encode_request(about, same) == encode_request(about, own)
