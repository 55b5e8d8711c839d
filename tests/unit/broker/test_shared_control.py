"""Control requests that brokers of one process are sent alike are decoded and read once."""

from __future__ import annotations

import sys
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.broker.kraft.replicas import HostedReplicas
from emulator.broker.zookeeper.control_requests import BrokerEpochs, ControlRequests
from emulator.broker.zookeeper.metadata_cache import DURING_DELETE, ZkMetadataCache
from emulator.broker.zookeeper.shared_control import REQUESTS_MAX, SharedControl
from emulator.net.control import (
    TYPE_FULL,
    TYPE_INCREMENTAL,
    VERSIONS,
    ControlRequest,
    broker_epoch_at,
)
from emulator.net.greeting import declared
from tests.kit.laws import examples
from tests.unit.broker.control import T, U, lead, live, stop, update
from wire import codec
from wire import messages as m
from wire.errors import DecodeError, ErrorCode
from wire.frame import RequestHeader, decoding_body
from wire.schema import ZERO_UUID, replace, spec

EPOCHS = {0: 70, 1: 80, 2: 90}
KRAFT = {"kraft": True, "epoch": 9}


class Sharing:
    """Brokers 0 to 2 of one process; without ``shared`` each is alone."""

    def __init__(self, shared: SharedControl | None) -> None:
        self.shared = shared
        self.brokers = {
            broker_id: _Broker(broker_id, epoch, shared) for broker_id, epoch in EPOCHS.items()
        }

    def tell(self, request: Any, *ids: int) -> list[int]:
        """What a controller sends to some brokers, or all; the errors of their answers."""
        found = []
        for broker_id in ids or EPOCHS:
            own = replace(request, broker_epoch=EPOCHS[broker_id])
            found.append(self.brokers[broker_id].take(own))
        return found

    def known(self, broker_id: int) -> Any:
        return self.brokers[broker_id].known()


class _Broker:
    def __init__(self, broker_id: int, epoch: int, shared: SharedControl | None) -> None:
        self.cache = ZkMetadataCache(full_replaces=True, shared=shared)
        self.replicas = HostedReplicas(broker_id)
        self._shared = shared
        epochs = BrokerEpochs(lambda: epoch, lambda: epoch)
        self.ends = ControlRequests(
            broker_id, self.cache, self.replicas, epochs, full_replaces=True, shared=shared
        )

    def take(self, request: Any) -> int:
        version = VERSIONS[type(request)]
        header, body = _header(request, version), codec.encode(request, version)
        if self._shared is None:
            own = codec.decode(type(request), version, body)
        else:
            own = self._shared.decode(header, body, trailing=True)
        assert own == codec.decode(type(request), version, body)
        return int(self.ends.take(own, 0).error_code)

    def known(self) -> Any:
        cache = self.cache
        hosted = sorted(
            (one.key, one.topic_id, tuple(one.partition.replicas), one.partition.leader_epoch)
            for one in self.replicas
        )
        topics = sorted(
            (topic.name, topic.id, [*topic.partitions.items()]) for topic in cache.topics()
        )
        ids = {topic_id: cache.topic_by_id(topic_id) for topic_id in (T, U, ZERO_UUID)}
        named = {topic_id: None if one is None else one.name for topic_id, one in ids.items()}
        return topics, named, dict(cache.live), cache.controller, hosted, cache.take_changes()


def _header(request: Any, version: int) -> RequestHeader:
    _, key = declared(type(request))
    return RequestHeader(api_key=key, api_version=version, correlation_id=1, client_id="3000")


def placed(name: str = "t", topic_id: bytes = T, **more: Any) -> Any:
    return lead(name, topic_id, replicas=(0, 1, 2), **{**KRAFT, **more})


@pytest.mark.parametrize("kind", get_args(ControlRequest))
def test_where_a_body_holds_the_broker_epoch(kind: type) -> None:
    request: Any = kind(broker_epoch=0x1122334455667788)
    _, key = declared(kind)
    held = 0
    for version in spec(kind).versions:
        at = broker_epoch_at(key, version)
        body = codec.encode(request, version)
        if at is None:
            assert b"\x11\x22\x33\x44\x55\x66\x77\x88" not in body
        else:
            assert body[at : at + 8] == b"\x11\x22\x33\x44\x55\x66\x77\x88"
            held += 1
    assert held >= 2
    assert broker_epoch_at(3, 0) is None


def test_what_all_are_told_is_decoded_and_read_once() -> None:
    shared = SharedControl()
    sharing = Sharing(shared)
    assert sharing.tell(placed()) == [0, 0, 0]
    assert sharing.tell(update(("t", T, {0: 1}), brokers=[live(0), live(1)], **KRAFT)) == [0, 0, 0]
    assert shared.decoded_total == {4: 1, 6: 1}
    assert shared.made_total == 2
    held = [broker.cache.topic("t") for broker in sharing.brokers.values()]
    assert held[0] is held[1] is held[2] is not None
    assert sharing.tell(update(("t", T, {0: 2}), **KRAFT)) == [0, 0, 0]
    held = [broker.cache.topic("t") for broker in sharing.brokers.values()]
    assert held[0] is held[1] is held[2], "also after a change of it"
    replicas = [broker.replicas.get(("t", 0)) for broker in sharing.brokers.values()]
    assert len({id(one) for one in replicas}) == 3, "each leads and proposes for itself"
    assert len({id(one.partition) for one in replicas if one is not None}) == 1


def test_a_broker_that_is_alone_knows_the_same() -> None:
    told = [
        update(("t", T, {0: 1}), ("u", U, {1: 2}), brokers=[live(0), live(1)], **KRAFT),
        placed(),
        update(("t", T, {1: 1}), **KRAFT),
        stop("t", leader_epoch=1, **KRAFT),
    ]
    alone, sharing = Sharing(None), Sharing(SharedControl())
    for request in told:
        assert alone.tell(request) == sharing.tell(request) == [0, 0, 0]
    for broker_id in EPOCHS:
        assert alone.known(broker_id) == sharing.known(broker_id)


def test_each_broker_checks_the_epoch_that_it_was_told() -> None:
    """The bodies differ in the epoch alone, so the second one is not decoded."""
    sharing = Sharing(SharedControl())
    request = update(("t", T, {0: 1}), **KRAFT)
    assert sharing.tell(request, 0) == [0]
    of_an_earlier_life = replace(request, broker_epoch=EPOCHS[1] - 1)
    assert sharing.brokers[1].take(of_an_earlier_life) == ErrorCode.STALE_BROKER_EPOCH
    assert sharing.brokers[1].cache.topic("t") is None
    assert sharing.shared.decoded_total == {6: 1}


def test_a_broker_under_another_controller_epoch_refuses_what_others_took() -> None:
    sharing = Sharing(SharedControl())
    assert sharing.tell(update(("t", T, {0: 1}), kraft=True, epoch=12), 2) == [0]
    refused = ErrorCode.STALE_CONTROLLER_EPOCH
    assert sharing.tell(update(("t", T, {0: 2}), **KRAFT)) == [0, 0, refused]
    leaders = [b.cache.topic("t").partitions[0].leader for b in sharing.brokers.values()]  # type: ignore[union-attr]
    assert leaders == [2, 2, 1]


def test_brokers_that_were_told_different_things_before_stay_different() -> None:
    sharing = Sharing(SharedControl())
    sharing.tell(update(("t", T, {0: 1}), **KRAFT), 0, 1)
    sharing.tell(update(("t", T, {1: 1}), **KRAFT), 1, 2)
    sharing.tell(update(("t", T, {2: 1}), **KRAFT))
    found = [[*b.cache.topic("t").partitions] for b in sharing.brokers.values()]  # type: ignore[union-attr]
    assert found == [[0, 2], [0, 1, 2], [1, 2]]


def test_equal_topics_with_other_live_brokers_are_another_request() -> None:
    sharing = Sharing(SharedControl())
    sharing.tell(update(brokers=[live(0)], **KRAFT), 0)
    sharing.tell(update(brokers=[live(0), live(1)], **KRAFT), 1)
    assert [*sharing.brokers[0].cache.live] == [0]
    assert [*sharing.brokers[1].cache.live] == [0, 1]


def test_an_answer_with_an_error_is_no_other_brokers() -> None:
    sharing = Sharing(SharedControl())
    kind = m.LeaderAndIsrResponse
    request = lead(replicas=(0, 2), **KRAFT)
    answers: list[m.LeaderAndIsrResponse] = []
    for broker_id, broker in sharing.brokers.items():
        answer = broker.ends.take(replace(request, broker_epoch=EPOCHS[broker_id]), 0)
        assert isinstance(answer, kind)
        answers.append(answer)
    codes = [answer.topics[0].partition_errors[0].error_code for answer in answers]
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]


def test_what_cannot_be_read_is_refused_each_time_and_not_kept() -> None:
    shared = SharedControl()
    body = codec.encode(update(("t", T, {0: 1}), **KRAFT), 8)[:-4]
    for _ in range(2):
        with pytest.raises(DecodeError):
            shared.decode(_header(update(), 8), body, trailing=True)
    assert shared.kept_bytes == 0
    assert not shared.decoded_total


def test_a_listener_with_a_lower_limit_of_entries_does_not_get_anothers_request() -> None:
    shared = SharedControl()
    request = update(("t", T, {0: 1, 1: 1, 2: 1}), **KRAFT)
    header, body = _header(request, 8), codec.encode(request, 8)
    shared.decode(header, body, trailing=True, entries_max=1_000)
    with pytest.raises(DecodeError, match="over 2 entries"):
        shared.decode(header, body, trailing=True, entries_max=2)


def test_a_long_body_is_read_in_slices_by_all_who_get_it() -> None:
    shared = SharedControl()
    topics = [(f"t{n}", n.to_bytes(16, "big"), {0: 1}) for n in range(1, 6_001)]
    requests = [update(*topics, broker_epoch=epoch, **KRAFT) for epoch in EPOCHS.values()]
    header, most = _header(requests[0], 8), sys.maxsize
    bodies = [codec.encode(one, 8) for one in requests]
    readings = {
        number: shared.decoding(header, body, trailing=True, entries_max=most)
        for number, body in enumerate(bodies)
    }
    found, slices = dict[int, Any](), 0
    while len(found) < len(readings):
        for number in readings.keys() - found.keys():
            slices += 1
            try:
                next(readings[number])
            except StopIteration as end:
                found[number] = end.value
    assert [found[number] for number in range(3)] == requests
    assert found[0].topic_states is found[1].topic_states is found[2].topic_states
    assert shared.decoded_total == {6: 1}
    alone = sum(1 for _ in decoding_body(header, bodies[0], entries_max=most))
    assert 3 < alone < slices <= alone + 2 * len(readings)


def test_what_is_kept_is_bounded_and_what_went_is_decoded_anew() -> None:
    shared = SharedControl(bytes_max=2_000)
    sharing = Sharing(shared)
    names = [f"topic-{number:04}" for number in range(3 * REQUESTS_MAX)]
    for name in names:
        sharing.tell(update((name, name.encode().ljust(16), {0: 1}), **KRAFT), 0, 1)
        assert shared.kept_bytes <= 2_000
    large = update(*((name, name.encode().ljust(16), {0: 2}) for name in names), **KRAFT)
    assert sharing.tell(large) == [0, 0, 0]
    assert shared.kept_bytes <= 2_000
    assert sharing.known(0)[0] == sharing.known(2)[0]
    small = SharedControl()
    sharing = Sharing(small)
    for name in names:
        sharing.tell(update((name, name.encode().ljust(16), {0: 1}), **KRAFT), 0)
    assert len(small._kept) == len(small._by_topics) == REQUESTS_MAX


PARTITIONS = st.dictionaries(st.integers(0, 3), st.sampled_from([0, 1, 2, DURING_DELETE]))
TOPIC = st.tuples(st.sampled_from(["t", "u"]), st.sampled_from([T, U, ZERO_UUID]), PARTITIONS)
UPDATE = st.builds(
    lambda topics, epoch, kind: update(*topics, kraft=True, epoch=epoch, kind=kind),
    st.lists(TOPIC, max_size=3),
    st.integers(5, 7),
    st.sampled_from([TYPE_INCREMENTAL, TYPE_FULL]),
)
LEAD = st.builds(
    lambda topic, replicas, epoch, leader_epoch, kind: lead(
        topic[0],
        topic[1],
        [*topic[2]],
        kraft=True,
        epoch=epoch,
        leader_epoch=leader_epoch,
        replicas=replicas,
        kind=kind,
    ),
    TOPIC,
    st.sampled_from([(0, 1), (1, 2), (0, 1, 2)]),
    st.integers(5, 7),
    st.integers(0, 2),
    st.sampled_from([TYPE_INCREMENTAL, TYPE_FULL]),
)
WHO = st.lists(st.sampled_from([0, 1, 2]), min_size=1, unique=True)


@examples(200)
@given(st.lists(st.tuples(st.one_of(UPDATE, LEAD), WHO), max_size=12))
def test_whatever_each_was_told_it_knows_as_much_as_if_it_were_alone(
    told: list[tuple[Any, list[int]]],
) -> None:
    alone, sharing = Sharing(None), Sharing(SharedControl(bytes_max=400))
    for request, ids in told:
        assert alone.tell(request, *ids) == sharing.tell(request, *ids)
    for broker_id in EPOCHS:
        assert alone.known(broker_id) == sharing.known(broker_id)
