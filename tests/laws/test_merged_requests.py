"""A broker that gets merged requests ends in the state of one that got each of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.metadata.delta import Touched
from emulator.metadata.topics import Partition
from emulator.migration.propagation import merging
from emulator.migration.propagation.channels import RECONNECT_MS, Channels
from emulator.migration.propagation.merging import MERGED_MAX
from emulator.migration.propagation.propagator import Propagator
from emulator.net.control import Question
from emulator.seam import Closed, Connect, Connected, Effect, Received, Send
from tests.kit.laws import examples
from tests.laws.kafkas_broker import Broker
from tests.unit.metadata.build import partition
from tests.unit.migration.journal import Journal
from wire import messages as m
from wire import records as r
from wire.frame import FrameReader, decode_request, encode_response, framed

SLOW, BROKERS, LEAVER = 2, (1, 2, 3, 4), 4
NAMES = ("a", "b")
NOBODY = -1

replicas = st.permutations(BROKERS).flatmap(
    lambda ids: st.integers(1, 3).map(lambda size: tuple(ids[:size]))
)
names = st.sampled_from(NAMES)
of_one = st.integers(0, 5)
step = st.one_of(
    st.tuples(st.just("create"), names, st.lists(replicas, min_size=1, max_size=3)),
    st.tuples(st.just("again"), names, st.lists(replicas, min_size=1, max_size=3)),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("grow"), names, replicas),
    st.tuples(st.just("lead"), of_one, st.sampled_from((SLOW, SLOW, 1, 3, LEAVER, NOBODY))),
    st.tuples(st.just("shrink"), of_one),
    st.tuples(st.just("move"), of_one, replicas),
    st.tuples(st.just("unregister")),
    st.tuples(st.just("return"), of_one),
    st.tuples(st.sampled_from(("full", "claim")), st.booleans()),
    st.tuples(st.just("take"), st.integers(1, 4)),
    st.tuples(st.just("lose"), st.booleans()),
)
histories = st.lists(st.tuples(step, st.booleans()), max_size=40)
"""Steps, and whether each is told at once or together with the next."""

few = st.sampled_from(("a",))
hosts = st.sampled_from(((SLOW, 1), (1, SLOW), (LEAVER, SLOW), (SLOW, LEAVER, 1), (1, 3)))
backlogs = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(("create", "again")), few, st.lists(hosts, min_size=1, max_size=1)
        ),
        st.tuples(st.just("delete"), few),
        st.tuples(
            st.just("lead"), st.just(0), st.sampled_from((SLOW, SLOW, 1, LEAVER, NOBODY, NOBODY))
        ),
        st.tuples(st.just("move"), st.just(0), hosts),
        st.tuples(st.just("unregister")),
        st.tuples(st.just("return"), st.just(0)),
    ),
    min_size=3,
    max_size=12,
)
"""Changes of one partition, of which the broker takes none before the last is made."""


class Story:
    """A cluster, its controller, and one broker in ZooKeeper mode that takes requests now and then.

    ``each`` gets every request when it is made, ``behind`` what the channel sends.
    """

    def __init__(self, *, keeps: bool = False) -> None:
        self.now_ms = 0
        self.journal = Journal()
        self.channels = Channels(3000, count(1).__next__)
        self.propagator = Propagator(self.channels, 3000, "PLAINTEXT")
        self.zk_epoch = 5
        self.made = count(1)
        self.conns: list[int] = []
        self.connected = 0
        self.unanswered: list[tuple[int, Any]] = []
        self.put = self.taken = 0
        self._put, self.channels.put = self.channels.put, self._spy  # type: ignore[method-assign]
        records = [record for one in BROKERS for record in self._broker(one)]
        self._commit(records)
        self._advance()
        epoch = self.journal.stable.brokers[SLOW].epoch
        self.each, self.behind = Broker(SLOW, epoch, keeps), Broker(SLOW, epoch, keeps)
        self._perform(self.propagator.full(self.journal.stable, self.zk_epoch, first=True))
        self._build()

    def _spy(self, broker_id: int, request: Any, now_ms: int) -> list[Effect]:
        if not isinstance(request, Question):
            self.put += 1
            self.each.take(request)
        return self._put(broker_id, request, now_ms)

    def _broker(self, broker_id: int) -> list[object]:
        listener = r.RegisterBrokerRecord.BrokerEndpoint(
            name="PLAINTEXT", host=f"b{broker_id}", port=9092, security_protocol=0
        )
        level = r.RegisterBrokerRecord.BrokerFeature(
            name="metadata.version", min_supported_version=1, max_supported_version=21
        )
        return [
            r.RegisterBrokerRecord(
                broker_id=broker_id,
                is_migrating_zk_broker=broker_id == SLOW,
                incarnation_id=bytes([broker_id]) * 16,
                broker_epoch=broker_id,
                end_points=[listener],
                features=[level],
                rack=None,
                fenced=False,
            )
        ]

    # ------------------------------------------------------------------ the cluster
    def partitions(self) -> list[tuple[bytes, int, Partition]]:
        topics = self.journal.tip.topics.values()
        return [(one.id, at, p) for one in topics for at, p in sorted(one.partitions.items())]

    def _commit(self, records: Sequence[object]) -> None:
        if records:
            self.journal.append(records, self.now_ms)

    def tell(self) -> None:
        """Everything that was committed and not told yet, as one change."""
        before, touched = self.journal.stable, self._advance()
        after = self.journal.stable
        self._perform(self.propagator.delta(before, after, touched, self.zk_epoch))
        self._build()

    def _advance(self) -> Touched:
        self.journal.high_watermark = self.journal.end
        touched = Touched()
        for delta in self.journal.history.advance(self.journal.high_watermark):
            touched.merge(delta.touched)
        return touched

    def _build(self) -> None:
        while self.propagator.busy:
            self._perform(self.propagator.step(self.now_ms))

    def take(self, one: tuple[Any, ...]) -> None:
        image = self.journal.tip
        match one:
            case "create", str(name), list(parts) if image.topic(name) is None:
                self._commit(self._topic(name, parts))
            case "again", str(name), list(parts) if (topic := image.topic(name)) is not None:
                gone = r.RemoveTopicRecord(topic_id=topic.id)
                self._commit([gone, *self._topic(name, parts)])
            case "delete", str(name) if (topic := image.topic(name)) is not None:
                self._commit([r.RemoveTopicRecord(topic_id=topic.id)])
            case "grow", str(name), tuple(ids) if (topic := image.topic(name)) is not None:
                new = self._partition(topic.id, len(topic.partitions), ids)
                self._commit([new] if new is not None else [])
            case "lead" | "shrink" | "move" as what, int(at), *rest if self.partitions():
                topic_id, index, p = self.partitions()[at % len(self.partitions())]
                self._change(what, topic_id, index, p, rest)
            case "return", int(at) if LEAVER not in image.brokers:
                self._commit(self._broker(LEAVER))
                self.take(("move", at, (LEAVER, SLOW)))
            case ("unregister",) if LEAVER in image.brokers:
                self._commit(self._unregister())
            case "full" | "claim" as what, bool(missed):
                if missed:
                    self._advance()
                else:
                    self.tell()
                self.zk_epoch += what == "claim"
                self._perform(self.propagator.full(self.journal.stable, self.zk_epoch))
                self._build()
            case "take", int(times):
                for _ in range(times):
                    self.answer()
            case "lose", bool(heard):
                self._lose(heard=heard)

    def _topic(self, name: str, parts: list[tuple[int, ...]]) -> list[object]:
        topic_id = next(self.made).to_bytes(16, "big")
        found = [self._partition(topic_id, at, ids) for at, ids in enumerate(parts)]
        kept = [one for one in found if one is not None]
        for at, one in enumerate(kept):
            one.partition_id = at
        return [r.TopicRecord(name=name, topic_id=topic_id), *kept] if kept else []

    def _partition(
        self, topic_id: bytes, index: int, ids: tuple[int, ...]
    ) -> r.PartitionRecord | None:
        alive = tuple(one for one in ids if one in self.journal.tip.brokers)
        if not alive:
            return None
        return partition(topic_id, index, replicas=alive)

    def _change(
        self, what: str, topic_id: bytes, index: int, p: Partition, rest: list[Any]
    ) -> None:
        change = r.PartitionChangeRecord(topic_id=topic_id, partition_id=index)
        alive = self.journal.tip.brokers
        match what, rest:
            case "lead", [int(leader)] if leader == NOBODY or leader in alive:
                if leader != NOBODY and leader not in p.replicas:
                    return
                change.leader = leader
                if leader not in (NOBODY, *p.isr):
                    change.isr = (*p.isr, leader)
            case "shrink", [] if p.leader >= 0:
                change.isr = (p.leader,) if len(p.isr) > 1 else p.replicas
            case "move", [tuple(ids)] if all(one in alive for one in ids):
                change.replicas, change.isr, change.leader = ids, ids, ids[0]
            case _:
                return
        self._commit([change])

    def _unregister(self) -> list[object]:
        """As the controller does: who leaves leads nothing from then on."""
        changes = [
            r.PartitionChangeRecord(topic_id=topic_id, partition_id=index, leader=NOBODY)
            for topic_id, index, p in self.partitions()
            if p.leader == LEAVER
        ]
        epoch = self.journal.tip.brokers[LEAVER].epoch
        return [*changes, r.UnregisterBrokerRecord(broker_id=LEAVER, broker_epoch=epoch)]

    # ------------------------------------------------------------------ the broker
    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Connect(conn=conn):
                    self.conns.append(conn)
                case Send(conn=conn, data=data):
                    for frame in FrameReader().feed(data):
                        header, message = decode_request(frame)
                        self.unanswered.append((header.correlation_id, message))

    def connect(self) -> None:
        if self.connected != self.conns[-1]:
            self.connected = self.conns[-1]
            self._perform(self.channels.handle(Connected(self.conns[-1]), self.now_ms))

    def answer(self) -> None:
        if not self.unanswered:
            self.connect()
        if not self.unanswered:
            return
        correlation_id, request = self.unanswered.pop(0)
        self.taken += 1
        code = self.behind.take(request)
        answers: dict[type, tuple[int, int, Any]] = {
            m.LeaderAndIsrRequest: (4, 7, m.LeaderAndIsrResponse(error_code=code)),
            m.StopReplicaRequest: (5, 4, m.StopReplicaResponse(error_code=code)),
            m.UpdateMetadataRequest: (6, 8, m.UpdateMetadataResponse(error_code=code)),
        }
        key, version, answer = answers[type(request)]
        reply = framed(encode_response(key, version, correlation_id, answer))
        self._perform(self.channels.handle(Received(self.conns[-1], reply), self.now_ms))
        self._build()

    def _lose(self, *, heard: bool) -> None:
        """The connection ends; the broker may have acted on the request under way."""
        if not self.unanswered:
            return
        (_, request) = self.unanswered.pop()
        if heard:
            self.behind.take(request)
        self._perform(self.channels.handle(Closed(self.conns[-1], "reset"), self.now_ms))
        self.now_ms += RECONNECT_MS
        self._perform(self.channels.tick(self.now_ms))
        self.connect()

    def assert_same(self) -> None:
        assert self.behind.state == self.each.state
        # One that did not hear that another led last deletes, too: what is gone already.
        assert self.behind.remote_deleted >= self.each.remote_deleted

    def end(self) -> None:
        self.tell()
        while self.channels.queued:
            self.answer()


@examples(200)
@given(histories, st.booleans(), st.sampled_from((1, MERGED_MAX)))
def test_merged_requests_do_what_all_of_them_do(
    history: list[tuple[tuple[Any, ...], bool]], keeps: bool, merged_max: int
) -> None:
    story = Story(keeps=keeps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "MERGED_MAX", merged_max)
        for one, told in history:
            story.take(one)
            if told:
                story.tell()
        story.end()
    story.assert_same()
    if not keeps:
        assert story.behind.differences(story.journal.stable) == []


@examples(200)
@given(backlogs, st.sampled_from((NOBODY, 1, SLOW)))
def test_whatever_becomes_of_one_partition(backlog: list[tuple[Any, ...]], leader: int) -> None:
    story = Story()
    for one in (("create", "a", [(1, SLOW, LEAVER)]), ("lead", 0, leader)):
        story.take(one)
        story.tell()
    story.take(("take", 20))
    for one in (("shrink", 0), ("shrink", 0), *backlog):
        story.take(one)
        story.tell()
    story.end()
    story.assert_same()
    assert story.behind.differences(story.journal.stable) == []


@pytest.mark.parametrize("topics", [1, 50])
def test_what_waits_is_few_requests(topics: int) -> None:
    story = Story()
    for number in range(topics):
        story.take(("create", f"t{number}", [(1, SLOW), (SLOW, 3)]))
    for number in range(500):
        story.take(("lead", number, (1, SLOW, 3, NOBODY)[number % 4]))
        story.take(("move", number, (1, SLOW) if number % 2 else (3, 1)))
        story.tell()
    put, taken = story.put, story.taken
    story.end()
    assert put > 500
    assert story.taken - taken < 15
    story.assert_same()
