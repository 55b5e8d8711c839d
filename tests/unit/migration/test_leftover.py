"""Topics that brokers of 3.4 to 3.6.0 go on showing: they are asked, and told of the deletion."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec
import pytest

from emulator.broker.zookeeper.metadata_cache import ZkMetadataCache
from emulator.metadata.brokers import Broker
from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import FEATURE_NAME
from emulator.metadata.pmap import PMap
from emulator.metadata.topics import Topic
from emulator.migration.propagation.channels import QUESTION_TRIES, Channels
from emulator.migration.propagation.propagator import Propagator
from emulator.net.control import TYPE_FULL
from emulator.seam import Connect, Connected, Effect, Log, Received, Send
from tests.unit.migration.test_propagation import CONTROLLER, recorded_image
from wire import messages as m
from wire.frame import FrameReader, decode_request, encode_response, framed

BROKER = 0
OLD_LEVEL, FIXED_LEVEL = 8, 15
METADATA = 3
Topics = m.MetadataResponse.MetadataResponseTopic
Partitions = m.MetadataResponse.MetadataResponsePartition


class OldBroker:
    """A broker that merges FULL requests into what it knows, and the propagator that tells it."""

    def __init__(self) -> None:
        self.channels = Channels(CONTROLLER, count(1).__next__)
        self.propagator = Propagator(self.channels, CONTROLLER, "INTERNAL")
        self.cache = ZkMetadataCache(full_replaces=False)
        self.asked = 0
        self.silent = False
        """Whether questions wait for an answer until `answer`."""
        self._waiting: list[tuple[int, int, m.MetadataResponse]] = []

    def run(self, effects: list[Effect]) -> None:
        """Deliver everything, until nobody has anything to say."""
        while effects or self.propagator.busy:
            if not effects:
                effects = self.propagator.step(0)
                continue
            effect, *effects = effects
            effects += self._perform(effect)

    def answer(self) -> None:
        """Answer the questions that wait."""
        waiting, self._waiting = self._waiting, []
        for conn, correlation_id, shown in waiting:
            reply = encode_response(METADATA, 12, correlation_id, shown)
            self.run(self.channels.handle(Received(conn, framed(reply)), 0))

    def _perform(self, effect: Effect) -> list[Effect]:
        match effect:
            case Connect(conn=conn):
                return self.channels.handle(Connected(conn), 0)
            case Send(conn=conn, data=data):
                return [one for f in FrameReader().feed(data) for one in self._hear(conn, f)]
            case _:
                return []

    def _hear(self, conn: int, frame: bytes) -> list[Effect]:
        header, request = decode_request(frame)
        answer: Any
        match request:
            case m.MetadataRequest():
                self.asked += 1
                assert request.topics is None
                assert not request.allow_auto_topic_creation
                answer = self._shown()
                if self.silent:
                    self._waiting.append((conn, header.correlation_id, answer))
                    return []
            case m.UpdateMetadataRequest():
                self.cache.update(request, full=request.type == TYPE_FULL)
                answer = m.UpdateMetadataResponse()
            case _:
                answer = m.LeaderAndIsrResponse()
        reply = encode_response(header.api_key, header.api_version, header.correlation_id, answer)
        return self.channels.handle(Received(conn, framed(reply)), 0)

    def _shown(self) -> m.MetadataResponse:
        return m.MetadataResponse(topics=[*self._topics()])

    def _topics(self) -> Iterator[Topics]:
        for topic in self.cache.topics():
            yield Topics(
                name=topic.name,
                topic_id=topic.id,
                partitions=[
                    Partitions(
                        partition_index=index,
                        leader_id=one.leader,
                        leader_epoch=one.leader_epoch,
                        replica_nodes=one.replicas,
                        isr_nodes=one.isr,
                    )
                    for index, one in topic.partitions.items()
                ],
            )

    def differences(self, image: Image) -> set[tuple[str, bytes, int]]:
        """What the broker shows and the image lacks, and the other way round."""
        shown = {(t.name, t.id, index) for t in self.cache.topics() for index in t.partitions}
        wanted = {(t.name, t.id, index) for t in image.topics.values() for index in t.partitions}
        return shown ^ wanted


def at_level(level: int | None) -> tuple[Image, int]:
    """An image with one broker in ZooKeeper mode, which registered with a level."""
    image, zk_epoch = recorded_image()
    features = PMap(() if level is None else ((FEATURE_NAME, (level, level)),))
    only: Broker = msgspec.structs.replace(image.brokers[BROKER], features=features)
    return msgspec.structs.replace(image, brokers=PMap({BROKER: only}.items())), zk_epoch


def without(image: Image, topic: Topic) -> Image:
    return msgspec.structs.replace(
        image,
        topics=image.topics.delete(topic.id),
        topic_ids=image.topic_ids.delete(topic.name),
    )


def made(topic: Topic) -> Touched:
    """What the records of a new topic touch."""
    partitions = {(topic.id, index) for index in topic.partitions}
    return Touched(topics={topic.id: topic.name}, partitions=partitions)


def test_a_topic_deleted_before_the_claim_goes_from_a_broker_that_keeps_what_is_left_out() -> None:
    image, zk_epoch = at_level(OLD_LEVEL)
    gone = max(image.topics.values(), key=lambda topic: len(topic.partitions))
    broker = OldBroker()
    broker.run(broker.propagator.full(image, zk_epoch))
    assert not broker.differences(image)
    after = without(image, gone)
    broker.run(broker.propagator.full(after, zk_epoch + 1))
    assert not broker.differences(after)


def test_a_topic_deleted_while_a_broker_was_fenced_goes_from_it() -> None:
    image, zk_epoch = at_level(OLD_LEVEL)
    gone = max(image.topics.values(), key=lambda topic: len(topic.partitions))
    broker = OldBroker()
    broker.run(broker.propagator.full(image, zk_epoch))
    fenced = msgspec.structs.replace(image.brokers[BROKER], fenced=True)
    away = msgspec.structs.replace(image, brokers=image.brokers.set(BROKER, fenced))
    touched = Touched(brokers={BROKER})
    broker.run(broker.propagator.delta(image, away, touched, zk_epoch))
    lacking = without(away, gone)
    deleted = Touched(topics={gone.id: gone.name}, deleted_topics={gone.id})
    broker.run(broker.propagator.delta(away, lacking, deleted, zk_epoch))
    after = msgspec.structs.replace(lacking, brokers=image.brokers)
    broker.run(broker.propagator.delta(lacking, after, touched, zk_epoch))
    assert not broker.differences(after)


def test_partitions_of_an_earlier_topic_of_the_name_go_and_the_new_one_keeps_its_id() -> None:
    image, zk_epoch = at_level(OLD_LEVEL)
    old = max(image.topics.values(), key=lambda topic: len(topic.partitions))
    new = Topic(old.name, b"y" * 16, PMap({0: old.partitions[0]}.items()))
    broker = OldBroker()
    broker.run(broker.propagator.full(image, zk_epoch))
    after = msgspec.structs.replace(
        image,
        topics=image.topics.delete(old.id).set(new.id, new),
        topic_ids=image.topic_ids.set(new.name, new.id),
    )
    broker.run(broker.propagator.full(after, zk_epoch + 1))
    assert not broker.differences(after)


def test_a_topic_made_while_the_broker_thinks_about_its_answer_stays() -> None:
    """The answer is older than what the broker is told meanwhile."""
    image, zk_epoch = at_level(OLD_LEVEL)
    topic = max(image.topics.values(), key=lambda topic: len(topic.partitions))
    before = without(image, topic)
    broker = OldBroker()
    broker.run(broker.propagator.full(image, zk_epoch))
    broker.silent = True
    broker.run(broker.propagator.full(before, zk_epoch + 1))
    broker.run(broker.propagator.delta(before, image, made(topic), zk_epoch + 1))
    broker.answer()
    assert not broker.differences(image)


@pytest.mark.parametrize("level", [FIXED_LEVEL, None])
def test_a_broker_that_drops_what_is_left_out_is_not_asked(level: int | None) -> None:
    image, zk_epoch = at_level(level)
    broker = OldBroker()
    broker.run(broker.propagator.full(image, zk_epoch))
    assert broker.asked == 0
    old, _ = at_level(FIXED_LEVEL - 1)
    broker.run(broker.propagator.full(old, zk_epoch))
    assert broker.asked == 1


class Nonsense(OldBroker):
    """Answers the question with bytes that are no Metadata, and everything else as it should."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.said: list[Log] = []

    def _perform(self, effect: Effect) -> list[Effect]:
        if isinstance(effect, Log):
            self.said.append(effect)
        return super()._perform(effect)

    def _hear(self, conn: int, frame: bytes) -> list[Effect]:
        header, request = decode_request(frame)
        if not isinstance(request, m.MetadataRequest):
            return super()._hear(conn, frame)
        self.asked += 1
        reply = header.correlation_id.to_bytes(4) + b"\0" + b"\xff" * 40
        return self.channels.handle(Received(conn, framed(reply)), self.now_ms)

    def wait(self, seconds: int) -> None:
        for _ in range(seconds * 10):
            self.now_ms += 100
            self.run(self.channels.tick(self.now_ms))


def test_a_broker_whose_answer_cannot_be_read_is_asked_three_times_and_told_the_rest() -> None:
    image, zk_epoch = at_level(OLD_LEVEL)
    topic = max(image.topics.values(), key=lambda topic: len(topic.partitions))
    before = without(image, topic)
    broker = Nonsense()
    broker.run(broker.propagator.full(before, zk_epoch))
    broker.run(broker.propagator.delta(before, image, made(topic), zk_epoch))
    broker.wait(5)
    assert broker.asked == QUESTION_TRIES
    assert not broker.differences(image)
    assert not broker.channels.queued
    [warning] = [line for line in broker.said if line.level == "warning"]
    assert warning.fields == {"broker": BROKER, "tries": QUESTION_TRIES}

    # The next time that it is told everything it is asked again.
    broker.run(broker.propagator.full(image, zk_epoch + 1))
    broker.wait(5)
    assert broker.asked == 2 * QUESTION_TRIES


def test_an_answer_after_the_leadership_is_lost_is_passed_over() -> None:
    image, zk_epoch = at_level(OLD_LEVEL)
    broker = OldBroker()
    broker.silent = True
    broker.run(broker.propagator.full(image, zk_epoch))
    broker.propagator.clear()
    broker.answer()
    assert not broker.propagator.busy
