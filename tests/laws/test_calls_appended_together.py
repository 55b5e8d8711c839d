"""Calls that are appended together are answered, and leave behind, what they do one by one.

Each story runs on two controllers: one appends each call by itself, the other as many together as
may be. After each step both have answered the same, in the same order, and everything that a later
call may depend on is the same: images, index, sessions, bounds, quotas, and the log but for where
its batches end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.controller import registry
from emulator.controller.context import RATE, Call
from emulator.controller.machine import Controller
from emulator.controller.queue import writes
from emulator.controller.queue.journal import Journal
from emulator.controller.queue.writes import NextBatch, Writes
from emulator.controller.registry import handlers
from emulator.controller.tables.config_defs import UNCLEAN
from emulator.controller.tables.index import TipIndex, collision_key
from emulator.metadata.client_quotas import entity, record_of
from emulator.metadata.history import History
from emulator.metadata.image import Image
from emulator.metadata.topics import Topic
from emulator.node.machine import Node
from emulator.seam import (
    RECORDS_PER_SLICE,
    Accepted,
    Effect,
    Event,
    Received,
    Row,
    Send,
    Synced,
    SyncFile,
)
from emulator.trace.rows import BlockRow, RequestRow
from tests.kit.laws import examples
from tests.unit.controller.test_index import contents
from tests.unit.controller.world import MemoryLog, World, create, header, uuid
from tests.unit.node.test_machine import CALLER, dual_writing
from tests.unit.node.test_machine import World as NodeWorld
from wire import messages as m
from wire import records as r
from wire.frame import encode_request, framed

BROKERS = (0, 1, 2)
NAMES = ("a", "b", "a.b", "a_b", "c", "d", "e", "poison")
BROKER, CLIENT, PACED = "broker", "client", "paced"
"""The mutations of one client are limited."""

Asked = tuple[Any, int | None, str]
"""A message, its version, and the client that sends it."""


class Peer:
    """Whoever asks, as a ticket."""

    def __init__(self, number: int) -> None:
        self.number = number


class PoisonedLog(MemoryLog):
    """Takes no batch with a topic that is named so."""

    def append(self, values: Sequence[bytes], now_ms: int) -> int:
        if any(b"poison" in value for value in values):
            raise ValueError("not this one")
        return super().append(values, now_ms)


class Side(World):
    """One of the two controllers, and what it has answered in a step."""

    def __init__(self, calls_max: int, *, poisoned: bool) -> None:
        super().__init__(activate=False, default_replication_factor=2)
        self.may_fail = poisoned
        self.calls_max = calls_max
        if poisoned:
            self.log = PoisonedLog()
        self.lead()
        self.join(*BROKERS)
        limit = record_of(entity([("client-id", PACED)]), "controller_mutation_rate", 0.1)
        self.controller.append([limit], self.now_ms)
        self.commit()
        self.answers()
        self.controller.take_appended()

    def lead(self) -> None:
        """A process that begins with the log as it is, and leads."""
        self.history = History()
        for base, values in self.log.batches:
            known = {at: record for at, record, _ in self.log.records()}
            records = [known[base + place] for place in range(len(values))]
            self.history.append(records, base, self.log.leader_epoch)
        self.history.advance(self.log.log_end_offset)
        self.log.high_watermark = self.log.log_end_offset
        rng = Random(self.log.leader_epoch)  # ids of deleted topics do not come again
        self.controller = Controller(self.config, self.log, self.history, rng)
        self.controller.next_batch.calls_max = self.calls_max
        self.log.leader_epoch += 1
        self.controller.activate(self.now_ms)
        self.commit()

    def take(self, number: int, asked: Asked) -> None:
        message, version, client_id = asked
        head = header(message, version, client_id=client_id)
        self.controller.request(
            Call(Peer(number), head, message, received_ms=self.now_ms), self.now_ms
        )

    def end(self) -> list[tuple[int, Any]]:
        """The end of a step; who is answered in it, and what."""
        self.controller.flush()
        while self.controller.busy:
            self.controller.go_on(self.now_ms)
        replies = self.controller.take_replies()
        return [(one.ticket.number, one.message) for one in replies]

    def seen(self) -> dict[str, Any]:
        """Everything that a later call may depend on, or somebody reads."""
        controller, gate = self.controller, self.controller.gate
        return {
            "log": self.log.records(),
            "tip": controller.tip,
            "stable": controller.stable,
            "index": controller.active and contents(controller._journal.index),
            "bytes": controller.appended_bytes,
            "sessions": controller.active and controller.heartbeats._sessions,
            "room": (gate._room, gate._byte_room),
            "gate": [one.call.ticket.number for one in gate._waiting],
            "quotas": dict(controller.surroundings._quotas.buckets),
            "appended": [
                (one.ticket and one.ticket.number, one.first_offset, one.last_offset, one.at_ms)
                for one in controller.take_appended()
            ],
            "failures": controller.answers.failures.total,
            "waits": len(controller._purgatory),
        }


class Story:
    """Steps of two controllers, drawn from what the one shows."""

    def __init__(self, seed: int, calls_max: int, *, poisoned: bool = False) -> None:
        self.rng = Random(seed)
        self.sides = Side(1, poisoned=poisoned), Side(calls_max, poisoned=poisoned)
        self.poisoned = poisoned
        self.asked = 0
        self.joined = 0
        self.names = NAMES

    def step(self, name: str) -> None:
        draw: Callable[[], None] = getattr(self, name)
        draw()
        told, same = (side.end() for side in self.sides)
        if name == "resign":  # what waited for a commit is refused before what was to be appended
            told, same = (sorted(answers, key=itemgetter(0)) for answers in (told, same))
        assert told == same
        expected, found = (side.seen() for side in self.sides)
        for what, value in expected.items():
            assert found[what] == value, what

    def each(self, do: Callable[[Side], object]) -> None:
        for side in self.sides:
            do(side)

    # What happens.

    def turn(self) -> None:
        """Calls that come in one step, and what comes between them."""
        image = self.sides[0].tip
        kinds = (
            *(self.alter, self.alter, self.alter, self.create, self.create),
            *(self.delete, self.grow, self.configure, self.limit, self.heartbeat, self.other),
        )
        self.about()
        steady = self.rng.random() < 0.5
        for _ in range(self.rng.choice((2, 5, 12))):
            asked = self.rng.choice(kinds[:-2] if steady else kinds)(image)
            self.asked += 1
            self.each(lambda side, asked=asked: side.take(self.asked, asked))
            if self.rng.random() < 0.05:
                self.each(lambda side: side.controller.flush())
        self.joined += len(self.sides[1].controller.next_batch.calls)

    def about(self) -> None:
        """What the calls of a step are about: all topics, or a few of them."""
        self.names = (
            NAMES if self.rng.random() < 0.5 else (*self.rng.sample(NAMES[:-2], 2), NAMES[-2])
        )

    def commit(self) -> None:
        self.each(World.commit)

    def commit_in_a_turn(self) -> None:
        """The disk has written what came before this step, while calls are taken in it."""
        ends = [side.log.log_end_offset for side in self.sides]
        self.turn()
        for side, end in zip(self.sides, ends, strict=True):
            side.controller.flush()
            side.log.high_watermark = max(side.log.high_watermark, end)
            side.controller.committed(side.now_ms)

    def time(self) -> None:
        passed = self.rng.choice((1, 600, 5_000, 10_000))
        for side in self.sides:
            side.now_ms += passed
            while (due := side.controller.deadline_ms) is not None and due <= side.now_ms:
                side.controller.tick(side.now_ms)

    def hold(self) -> None:
        room = self.rng.choice((0, 1, 3, None))
        hard = None if room is None else room + self.rng.choice((0, 2, 9))
        if not self.poisoned:  # who fails to append has kept others at the gate
            self.each(
                lambda side: side.controller.hold(now_ms=side.now_ms, room=room, hard_room=hard)
            )

    def resign(self) -> None:
        """Another node leads; what was not committed is gone, or it is not.

        It may be so in the middle of a step, and what has joined is not even appended.
        """
        kept = self.rng.random() < 0.5
        if self.rng.random() < 0.7:
            self.turn()
            if kept or self.poisoned:
                self.each(lambda side: side.controller.flush())
        for side in self.sides:
            side.controller.resign(side.now_ms, 7)
            end = side.log.log_end_offset if kept else side.log.high_watermark
            while side.log.log_end_offset > end:
                side.log.batches.pop()
            side.controller.take_appended()
            side.controller._journal.appended_bytes = 0

    def elected(self) -> None:
        for side in self.sides:
            if not side.controller.active:
                self.answered(side)
                side.lead()

    def crash(self) -> None:
        """The process ends after the append, before any answer; the log is what it has written."""
        self.turn()
        for side in self.sides:
            side.controller.flush()
            side.controller.take_replies()
            side.lead()

    def hangs_up(self) -> None:
        gone = {self.rng.randrange(self.asked + 1) for _ in range(3)}
        self.each(
            lambda side: side.controller.left(
                lambda ticket: getattr(ticket, "number", -1) in gone, side.now_ms
            )
        )

    @staticmethod
    def answered(side: Side) -> None:
        side.controller.take_replies()

    # What is asked.

    def alter(self, image: Image) -> Asked:
        topics = self.topics(image)
        if not topics:
            return self.create(image)
        version = self.rng.choice((1, 3, 3))
        request = m.AlterPartitionRequest
        broker = image.brokers.get(self.rng.choice(BROKERS))
        asked = []
        for topic in self.rng.sample(topics, min(len(topics), self.rng.choice((1, 1, 2)))):
            name = topic.name if self.rng.random() < 0.9 else self.rng.choice(NAMES)
            at = self.rng.choice(sorted(topic.partitions))
            partitions = [self.wanted(topic.partitions[at], at, version)]
            if self.rng.random() < 0.1:  # it may be about to be there
                partitions[0].partition_index = len(topic.partitions)
                partitions[0].leader_epoch = partitions[0].partition_epoch = 0
            leader = topic.partitions[at].leader
            broker = image.brokers.get(leader, broker)
            named = {"topic_name": name} if version < 2 else {"topic_id": topic.id}
            asked.append(request.TopicData(partitions=partitions, **named))
        broker_id, epoch = (0, 7) if broker is None else (broker.id, broker.epoch)
        return request(broker_id=broker_id, broker_epoch=epoch, topics=asked), version, BROKER

    def topics(self, image: Image) -> list[Topic]:
        named = [topic for topic in image.topics.values() if topic.name in self.names]
        return named or list(image.topics.values())

    def wanted(self, partition: Any, index: int, version: int) -> Any:
        """Another ISR, of the epoch as it is, or as it is after another change."""
        request = m.AlterPartitionRequest
        others = [one for one in partition.replicas if one != partition.leader]
        least = len(others) if partition.adding_replicas and self.rng.random() < 0.7 else 0
        isr = [partition.leader, *others[: self.rng.randint(least, len(others))]]
        changed = request.PartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch + self.rng.choice((0, 0, 0, 1, -1)),
        )
        if version < 3:
            changed.new_isr = tuple(isr)
        else:
            changed.new_isr_with_epochs = [
                request.BrokerState(broker_id=one, broker_epoch=-1) for one in isr
            ]
        return changed

    def create(self, _image: Image) -> Asked:
        request = m.CreateTopicsRequest
        names = [name for name in self.names if self.poisoned or name != NAMES[-1]]
        topics = []
        for name in self.rng.choices(names, k=self.rng.choice((1, 1, 1, 2, 3))):
            topic = request.CreatableTopic(
                name=name,
                num_partitions=self.rng.choice((1, 1, 2, 5, 0)),
                replication_factor=self.rng.choice((-1, 2, 3, 4)),
            )
            if self.rng.random() < 0.3:
                topic.configs = [request.CreatableTopicConfig(name="retention.ms", value="7")]
            topics.append(topic)
        made = request(
            topics=topics,
            timeout_ms=self.rng.choice((1, 3_000, 60_000)),
            validate_only=self.rng.random() < 0.1,
        )
        return made, self.rng.choice((4, 6)), self.rng.choice((CLIENT, CLIENT, PACED))

    def heartbeat(self, image: Image) -> Asked:
        broker_id = self.rng.choice(BROKERS)
        broker = image.brokers.get(broker_id)
        request = m.BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=-1 if broker is None else broker.epoch,
            current_metadata_offset=self.sides[0].log.log_end_offset,
            want_fence=self.rng.random() < 0.1,
            want_shut_down=self.rng.random() < 0.2,
        )
        return request, None, BROKER

    def delete(self, image: Image) -> Asked:
        request = m.DeleteTopicsRequest
        states = []
        for name in self.rng.sample(self.names, self.rng.choice((1, 1, 2))):
            known = image.topic(name)
            if known is not None and self.rng.random() < 0.5:
                states.append(request.DeleteTopicState(name=None, topic_id=known.id))
            else:
                states.append(request.DeleteTopicState(name=name))
        version = self.rng.choice((5, 6)) if all(one.name for one in states) else 6
        if version < 6:
            names = [one.name for one in states if one.name]
            return request(topic_names=names, timeout_ms=3_000), version, CLIENT
        return request(topics=states, timeout_ms=3_000), version, CLIENT

    def grow(self, image: Image) -> Asked:
        request = m.CreatePartitionsRequest
        topics = []
        for name in self.rng.sample(self.names, self.rng.choice((1, 1, 2))):
            known = image.topic(name)
            count = (0 if known is None else len(known.partitions)) + self.rng.choice((0, 1, 1, 60))
            wanted = request.CreatePartitionsTopic(name=name, count=count, assignments=None)
            topics.append(wanted)
        return request(topics=topics, timeout_ms=3_000), 3, CLIENT

    def configure(self, _image: Image) -> Asked:
        """Configs of topics and subscriptions; of brokers, which new topics inherit."""
        kind, names = self.rng.choice(((2, self.names), (2, self.names), (16, "xy"), (4, ("",))))
        value = str(self.rng.randint(1_000, 1_002))
        key = {2: "retention.ms", 16: "interval.ms", 4: "log.retention.ms"}[kind]
        changed = self.rng.sample([*names], self.rng.choice((1, len(names[:2]))))
        if self.rng.random() < 0.3 and kind != 16:
            replaced = m.AlterConfigsRequest
            resources: list[Any] = [
                replaced.AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=[replaced.AlterableConfig(name=key, value=value)],
                )
                for name in changed
            ]
            return replaced(resources=resources), 2, CLIENT
        request = m.IncrementalAlterConfigsRequest
        resources = [
            request.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    request.AlterableConfig(
                        name=key, value=value, config_operation=self.rng.choice((0, 0, 1))
                    )
                ],
            )
            for name in changed
        ]
        return request(resources=resources), 1, CLIENT

    def limit(self, _image: Image) -> Asked:
        """Limits of clients, among them how much one may create."""
        request = m.AlterClientQuotasRequest
        entries = []
        for client in self.rng.sample((PACED, "x", "y"), self.rng.choice((1, 2))):
            key = self.rng.choice(("producer_byte_rate", "request_percentage"))
            if client == PACED and self.rng.random() < 0.5:
                key = RATE
            ops = [
                request.OpData(
                    key=key, value=self.rng.choice((0.1, 7.0)), remove=self.rng.random() < 0.2
                )
            ]
            entity_of = [request.EntityData(entity_type="client-id", entity_name=client)]
            entries.append(request.EntryData(entity=entity_of, ops=ops))
        return request(entries=entries), 1, CLIENT

    def other(self, image: Image) -> Asked:
        """A call that joins no other."""
        epochs = {broker.id: broker.epoch for broker in image.brokers.values()}
        topics = self.topics(image)
        if not topics or self.rng.random() < 0.3:
            broker_id = self.rng.choice(BROKERS)
            block = m.AllocateProducerIdsRequest(
                broker_id=broker_id, broker_epoch=epochs.get(broker_id, -1)
            )
            return block, 0, BROKER
        request = m.AlterPartitionReassignmentsRequest
        moved = request.ReassignablePartition(
            partition_index=0, replicas=tuple(self.rng.sample(BROKERS, self.rng.choice((1, 2, 3))))
        )
        wanted = request.ReassignableTopic(name=self.rng.choice(topics).name, partitions=[moved])
        return request(topics=[wanted], timeout_ms=3_000), 0, CLIENT


STEPS = (
    *("turn",) * 6,
    *("commit",) * 3,
    *("commit_in_a_turn", "time", "hold", "resign", "elected", "elected", "crash", "hangs_up"),
)
LIMITS = st.sampled_from((2, 3, 200))


def run(seed: int, calls_max: int, steps: Sequence[str], *, poisoned: bool = False) -> Story:
    story = Story(seed, calls_max, poisoned=poisoned)
    for name in ("turn", "commit", *steps, "elected", "commit"):
        story.step(name)
    for side in story.sides:
        assert contents(side.controller._journal.index) == contents(TipIndex(side.tip))
    return story


@examples(60)
@given(st.integers(0, 2**32), LIMITS, st.lists(st.sampled_from(STEPS), min_size=3, max_size=25))
def test_calls_appended_together_are_as_one_by_one(
    seed: int, calls_max: int, steps: list[str]
) -> None:
    run(seed, calls_max, steps)


@examples(20)
@given(st.integers(0, 2**32), LIMITS, st.lists(st.sampled_from(STEPS), min_size=3, max_size=25))
def test_so_are_those_of_which_one_cannot_be_appended(
    seed: int, calls_max: int, steps: list[str]
) -> None:
    run(seed, calls_max, steps, poisoned=True)


# The same of a whole node in dual write: bytes in, bytes out, the disk, the trace, ZooKeeper.

FIRST = CALLER + 1


class Bridge:
    """One of two nodes, and what it has answered, recorded and synced."""

    def __init__(self, calls_max: int, bound: int) -> None:
        self.calls_max = calls_max
        self.more = {
            "kraftbridge_zk_write_behind_max_records": str(bound),
            "kraftbridge_trace_dir": "trace",
        }
        self.told: list[tuple[int, bytes]] = []
        self.rows: list[object] = []
        self.syncs: list[int] = []
        self.late = False
        """Syncs end together with the next step."""
        self.count = 0
        self.begin(dual_writing(**self.more))
        for broker_id in BROKERS:
            known = r.RegisterBrokerRecord(broker_id=broker_id, broker_epoch=5, fenced=False)
            self.node.controller.append([known], self.world.now_ms)
            self.node.controller.heartbeats.register(broker_id, self.world.now_ms)
        self.step([])
        self.world.advance(1_000)

    @property
    def node(self) -> Any:
        return self.world.node

    def begin(self, world: NodeWorld) -> None:
        self.world = world
        self.node.controller.next_batch.calls_max = self.calls_max
        step = self.node.step

        def watched(events: list[Event], now_ms: int) -> list[Effect]:
            others: list[Effect] = []
            for effect in step(events, now_ms):
                match effect:
                    case Send(conn=conn, data=data) if conn >= FIRST:
                        self.told.append((conn, data))
                    case Row(row=RequestRow() | BlockRow() as row):
                        self.rows.append(row)
                    case SyncFile(token=token) if self.late:
                        self.syncs.append(token)
                    case _:
                        self.count += isinstance(effect, SyncFile)
                        others.append(effect)
            return others

        self.node.step = watched

    def step(
        self, frames: Sequence[tuple[int, bytes]], *, late: bool = False, goes_on: bool = False
    ) -> None:
        """A step that takes requests, each on a connection of its own, and the syncs that ended.

        ``late``: what it begins to sync is durable in a later step. ``goes_on``: a sync that was
        begun has not ended yet.
        """
        events: list[Event] = [] if goes_on else [Synced(token) for token in self.syncs]
        self.syncs, self.late = (self.syncs if goes_on else []), late or goes_on
        for conn, data in frames:
            events += [Accepted(conn, "CONTROLLER", bytes(4)), Received(conn, data)]
        self.world.perform(self.node.step(events, self.world.now_ms))
        while self.node.deadline_ms == 0:
            self.world.perform(self.node.step([], self.world.now_ms))

    def crash(self, frames: Sequence[tuple[int, bytes]]) -> None:
        """The process ends when it has written what these ask for, and answered nothing."""
        told, rows = [*self.told], [*self.rows]
        self.step(frames, late=True)
        self.told, self.rows, self.syncs, self.late = told, rows, [], False
        self.begin(NodeWorld(self.world.files, self.world.zookeeper, **self.more))
        self.world.advance(8_000)

    def seen(self) -> dict[str, Any]:
        batches = list(self.node.raft.read(0, self.node.raft.log_end_offset))
        tree = {
            path: (node.data, node.version)
            for path, node in self.world.zookeeper.tree.nodes.items()
        }
        # It names the batch that was written last, which may have held more than one call.
        own, version = tree["/kraft_bridge"]
        tree["/kraft_bridge"] = re.sub(rb'"digest":"[^"]*"', b"", own or b""), version
        return {
            "told": self.told,
            "rows": self.rows,
            "syncs": self.count,
            "tip": self.node.controller.tip,
            "stable": self.node.controller.stable,
            "log": [value for batch in batches for _, value in batch.records],
            "tree": tree,
        }


class BridgedStory(Story):
    """Steps of two nodes; requests are drawn as those of a controller are."""

    def __init__(self, seed: int, calls_max: int) -> None:
        self.rng = Random(seed)
        self.poisoned = False
        self.asked = 0
        self.names = NAMES
        bound = self.rng.choice((4, 15, 10_000))
        self.bridges = Bridge(1, bound), Bridge(calls_max, bound)

    def step(self, name: str) -> None:
        frames = self.frames() if name in {"turn", "late", "meanwhile", "crash"} else ()
        for bridge in self.bridges:
            world = bridge.world
            match name:
                case "turn" | "late" | "meanwhile":
                    bridge.step(frames, late=name == "late", goes_on=name == "meanwhile")
                case "crash":
                    bridge.crash(frames)
                case "away":
                    world.held = [] if world.held is None else world.held
                case "back":
                    bridge.step([])
                    world.release()
                case _:
                    bridge.step([])
                    world.advance(1_000)
        expected, found = (bridge.seen() for bridge in self.bridges)
        for what, value in expected.items():
            assert found[what] == value, what

    def frames(self) -> list[tuple[int, bytes]]:
        """Requests of one step."""
        self.about()
        image = self.bridges[0].node.controller.tip
        frames = []
        for _ in range(self.rng.choice((2, 5, 12))):
            draw = self.rng.choice(
                (
                    *(self.alter, self.alter, self.alter, self.create, self.create, self.create),
                    *(self.delete, self.grow, self.configure, self.limit, self.other),
                )
            )
            message, version, client_id = draw(image)
            self.asked += 1
            head = header(message, version, client_id=client_id)
            frames.append((FIRST + self.asked, framed(encode_request(head, message))))
        return frames


BRIDGED_STEPS = ("turn", "turn", "late", "meanwhile", "time", "away", "back", "crash")


@examples(10)
@given(
    st.integers(0, 2**32),
    LIMITS,
    st.lists(st.sampled_from(BRIDGED_STEPS), max_size=9),
)
def test_so_are_they_on_their_way_to_zookeeper(seed: int, calls_max: int, steps: list[str]) -> None:
    bridged(seed, calls_max, steps)


def bridged(seed: int, calls_max: int, steps: Sequence[str]) -> None:
    story = BridgedStory(seed, calls_max)
    for name in ("turn", *steps, "back", "time", "time"):
        story.step(name)


# Each rule is needed: without it some story differs.


def test_a_batch_that_was_taken_leaves_all_room_to_the_next() -> None:
    batch, fresh = NextBatch(), NextBatch()
    most: Any = SimpleNamespace(values=[b""] * RECORDS_PER_SLICE, size=0)
    for _ in range(2):
        assert batch.holds(most)
        assert not batch.full
        batch.add(most, ["key"])
        assert batch.full
        assert not batch.holds(most)
        assert batch.take() == [most]
    assert vars(batch) == vars(fresh)


def conflicts_ignored(patch: pytest.MonkeyPatch) -> None:
    """A call is decided without what one before it has changed of the same thing."""
    patch.setattr(NextBatch, "conflicts", lambda self, keys: bool(self) and keys is None)


def kinds_mixed(patch: pytest.MonkeyPatch) -> None:
    """A call that does not say what it touches is decided without those that have joined."""
    conflicts = NextBatch.conflicts
    patch.setattr(
        NextBatch, "conflicts", lambda self, keys: keys is not None and conflicts(self, keys)
    )


def heartbeats_mixed(patch: pytest.MonkeyPatch) -> None:
    """So is a heartbeat that fences its broker, or ends its shutdown."""
    patch.setattr(writes, "_is_idle", lambda _result: True)


def collisions_ignored(patch: pytest.MonkeyPatch) -> None:
    """Names that collide are not one thing."""
    patch.setitem(handlers()[19].function.__globals__, "collision_key", lambda name: name)


def answers_hurried(patch: pytest.MonkeyPatch) -> None:
    """An answer is given when the call is appended, not when that is committed."""
    answer = Writes._answer

    def at_once(self: Writes, *of_call: Any) -> None:
        if self.next_batch.calls_max > 1 and len(of_call) > 4:
            self._answers.give(of_call[3])
        else:
            answer(self, *of_call)

    patch.setattr(Writes, "_answer", at_once)


def answers_unordered(patch: pytest.MonkeyPatch) -> None:
    """What appends nothing is answered before those that have joined are appended."""
    patch.setattr(Writes, "_changes_nothing", Writes._answer)


def quota_counted_late(patch: pytest.MonkeyPatch) -> None:
    """The tokens that a call takes are missing when it is appended, not for the next call."""
    joins = Writes._joins

    def joining(self: Writes, handler: Any, asked: Any, result: Any, *more: Any) -> bool:
        bare = writes.Result(result.response, result.records)
        joined = joins(self, handler, asked, bare, *more)
        if joined and (calls := self.next_batch.calls):
            calls[-1] = calls[-1]._replace(result=result)
        elif joined and result.spent is not None:
            self._surroundings.performed(result)
        return joined

    patch.setattr(Writes, "_joins", joining)


def quota_counted_twice(patch: pytest.MonkeyPatch) -> None:
    """They are taken when it is decided, and again when it is appended."""
    answer = Writes._answer

    def twice(self: Writes, handler: Any, asked: Any, result: Any, *more: Any) -> None:
        answer(self, handler, asked, result, *more)
        if self.next_batch.calls_max > 1 and result.spent is not None:
            again = result.spent._replace(tokens=result.spent.tokens - 1)
            self._surroundings.performed(writes.Result(None, spent=again))

    patch.setattr(Writes, "_answer", twice)


def bound_counted_late(patch: pytest.MonkeyPatch) -> None:
    """What has joined counts for the bound only when it is appended."""
    joins, append = Writes._joins, Writes._append

    def joining(self: Writes, *asked: Any) -> bool:
        rooms = dict(self.gate._room)
        joined = joins(self, *asked)
        if self.next_batch.calls:
            self.gate._room = rooms
        return joined

    def appending(self: Writes, calls: Any) -> None:
        self.gate.passed(sum(len(one.values) for one in calls))
        append(self, calls)

    patch.setattr(Writes, "_joins", joining)
    patch.setattr(Writes, "_append", appending)


def all_refused(patch: pytest.MonkeyPatch) -> None:
    """If one of them cannot be appended, none is."""

    def all_or_none(self: Any, parts: Any, now_ms: int) -> list[int]:
        try:
            return together(self, parts, now_ms)
        except ValueError:
            self.refused = [*getattr(self, "refused", ()), *parts]
            raise

    def alone(self: Any, parts: Any, now_ms: int) -> list[int]:
        if parts[0] in getattr(self, "refused", ()):
            raise ValueError("one of them")
        return all_or_none(self, parts, now_ms)

    together = Journal.append_together
    patch.setattr(Journal, "append_together", alone)


def offsets_shared(patch: pytest.MonkeyPatch) -> None:
    """Every call is said to have appended the whole batch."""
    note = Journal._note
    patch.setattr(
        Journal,
        "_note",
        lambda self, asked, _first, _last: note(
            self, asked, self.history._appended[-1].first_offset, self.history.tip.offset
        ),
    )


def of_handler(key: int, name: str, value: object) -> Callable[[pytest.MonkeyPatch], None]:
    """What a handler touches is found with another value of a name of its module."""
    return lambda patch: patch.setitem(handlers()[key].touches.__globals__, name, value)


def names_alone(_image: Image, names: Sequence[str]) -> list[object]:
    """Of a topic as a whole its partitions are left out."""
    return [collision_key(name) for name in names]


def partitions_alone(image: Image, names: Sequence[str]) -> list[object]:
    """Its name is left out, and with it partitions that are not there yet, or no longer."""
    topics = [topic for topic in map(image.topic, names) if topic is not None]
    return [(topic.id, number) for topic in topics for number in topic.partitions]


def touching(key: int, touches: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Calls of an API say that they touch something else, made of what they do touch."""
    handler = handlers()[key]

    def other(*asked: Any) -> Any:
        return touches(handler.touches and handler.touches(*asked))

    return lambda patch: patch.setitem(registry._HANDLERS, key, replace(handler, touches=other))


def forgotten(patch: pytest.MonkeyPatch) -> None:
    """Who leads no more answers nothing to those that have joined."""
    drain = Writes.drain

    def drained(self: Writes, now_ms: int) -> Any:
        self.next_batch.take()
        return drain(self, now_ms)

    patch.setattr(Writes, "drain", drained)


DELETE, GROW, CONFIGURE, LIMIT = 20, 37, 44, 49

PLANTS = (
    *(conflicts_ignored, kinds_mixed, heartbeats_mixed, collisions_ignored, answers_hurried),
    *(answers_unordered, quota_counted_late, quota_counted_twice, bound_counted_late),
    *(all_refused, offsets_shared, forgotten),
    *(touching(key, lambda _keys: ()) for key in (DELETE, GROW, CONFIGURE, LIMIT)),
    of_handler(DELETE, "whole_topics", names_alone),
    *(of_handler(key, "whole_topics", partitions_alone) for key in (DELETE, GROW)),
    touching(CONFIGURE, lambda keys: keys or ()),
    of_handler(LIMIT, "RATE", ""),
)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_rule_that_is_left_out_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stories() -> None:
        rng = Random(4)  # 14 of these 60 stories notice all of them; of other seeds up to 60
        for seed in range(60):
            run(seed, 200, rng.choices(STEPS, k=20), poisoned=plant is all_refused)

    plant(monkeypatch)
    with pytest.raises(AssertionError):
        stories()


# What random stories hardly ever meet.


def isr_of_the_leader(side: Side, *more: int) -> Asked:
    """The leader of the only partition asks for itself and others."""
    request = m.AlterPartitionRequest
    (topic,) = side.tip.topics.values()
    now = topic.partitions[0]
    wanted = request.PartitionData(
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        new_isr_with_epochs=[
            request.BrokerState(broker_id=one, broker_epoch=-1) for one in (now.leader, *more)
        ],
    )
    topics = [request.TopicData(topic_id=topic.id, partitions=[wanted])]
    epoch = side.tip.brokers[now.leader].epoch
    return request(broker_id=now.leader, broker_epoch=epoch, topics=topics), 3, BROKER


def a_directory_is_lost(side: Side) -> list[Asked]:
    """A leader without its directory shrinks its ISR to itself, when others may lead."""
    side.ask(create("a", factor=2))
    (topic,) = side.tip.topics.values()
    side.register(topic.partitions[0].leader, log_dirs=[uuid(7)])
    side.heartbeat(topic.partitions[0].leader)
    request = m.IncrementalAlterConfigsRequest
    allowed = request.AlterConfigsResource(
        resource_type=2,
        resource_name="a",
        configs=[request.AlterableConfig(name=UNCLEAN, value="true")],
    )
    return [(request(resources=[allowed]), 1, CLIENT), isr_of_the_leader(side)]


def a_reassignment_ends(side: Side) -> list[Asked]:
    """A topic grows when its first partition has fewer replicas at last."""
    side.ask(create("a", factor=1))
    (topic,) = side.tip.topics.values()
    leader = topic.partitions[0].leader
    other = (leader + 1) % len(BROKERS)
    request = m.AlterPartitionReassignmentsRequest
    moved = request.ReassignablePartition(partition_index=0, replicas=(other,))
    side.ask(request(topics=[request.ReassignableTopic(name="a", partitions=[moved])]))
    growing = m.CreatePartitionsRequest
    wanted = growing.CreatePartitionsTopic(name="a", count=2, assignments=None)
    return [isr_of_the_leader(side, other), (growing(topics=[wanted]), 3, CLIENT)]


def is_created_deleted_and_asked_for(side: Side) -> list[Asked]:
    """What a call touches is another thing once those before it are appended."""
    request = m.DeleteTopicsRequest
    gone = request(topics=[request.DeleteTopicState(name="a")])
    asked = m.AlterPartitionRequest.TopicData(
        topic_name="a", partitions=[m.AlterPartitionRequest.PartitionData()]
    )
    alter = m.AlterPartitionRequest(broker_id=0, broker_epoch=side.tip.brokers[0].epoch)
    alter.topics = [asked]
    return [(create("a"), 6, CLIENT), (gone, 6, CLIENT), (alter, 1, BROKER)]


def keys_before(patch: pytest.MonkeyPatch) -> None:
    """They are those of before."""

    def first(self: Writes, handler: Any, asked: Any) -> Any:
        touched = handler.touches and handler.touches(self._journal.history.tip, asked.message)
        if self.next_batch.calls and self.next_batch.conflicts(touched):
            self.flush()
        return touched

    patch.setattr(Writes, "_keys", first)


@pytest.mark.parametrize(
    ("calls", "plant"),
    [
        (a_directory_is_lost, of_handler(CONFIGURE, "UNCLEAN", "")),
        (a_reassignment_ends, of_handler(GROW, "whole_topics", names_alone)),
        (is_created_deleted_and_asked_for, keys_before),
    ],
)
def test_so_are_those_that_hardly_ever_meet(
    calls: Callable[[Side], list[Asked]],
    plant: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def story() -> None:
        found = []
        for side in (Side(1, poisoned=False), Side(200, poisoned=False)):
            for number, asked in enumerate(calls(side), 1):
                side.take(number, asked)
            answered = side.end()
            side.commit()
            found.append((answered, side.answers(), side.tip, side.log.records()))
        assert found[0] == found[1]

    story()
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        story()


def test_what_comes_in_while_a_sync_ends_is_part_of_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    event = Node._event

    def appended_behind(self: Node, one: Event, now_ms: int) -> list[Effect]:
        with pytest.MonkeyPatch.context() as inner:
            if isinstance(one, Synced):
                inner.setattr(Controller, "flush", lambda _self: None)
            return event(self, one, now_ms)

    def stories() -> None:
        for seed in (0, 5):
            bridged(seed, 200, ("late", "meanwhile", "turn"))

    stories()
    monkeypatch.setattr(Node, "_event", appended_behind)
    with pytest.raises(AssertionError):
        stories()
