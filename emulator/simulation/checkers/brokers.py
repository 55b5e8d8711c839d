"""The control requests that brokers receive, and the state they have at the end."""

from __future__ import annotations

import json
from typing import Any, Final

from emulator.net.control import TYPE_FULL, ControlRequest
from emulator.simulation.checkers.base import Checker
from emulator.simulation.facts import Facts, PartitionFacts
from emulator.simulation.models.broker import SimulatedBroker
from emulator.simulation.violation import Violated, ensure
from emulator.simulation.world import World
from wire import messages as m
from wire.text import uuid_text

COMPARED: Final = ("leader", "leader_epoch", "isr", "partition_epoch", "replicas")
DELAY_MS_MAX = 100
"""How long a request is on its way to a broker, if the network is not slow."""


class SentOnlyToRegistered(Checker):
    """Invariant 7: control requests go to registered, migrating brokers; a FULL one lists all."""

    name = "told-only-registered"

    def control_request_received(self, broker: SimulatedBroker, request: ControlRequest) -> None:
        """Judge a request as it arrives."""
        if not self.world.active.leads_alone:
            return
        points = self.world.committed.points
        known = next(
            (
                one
                for point in reversed(points)
                if (one := point.facts.brokers.get(broker.id)) is not None
                and one.epoch == request.broker_epoch
            ),
            None,
        )
        migrating = known is not None and known.is_migrating_zk_broker
        ensure(migrating, self.name, f"{broker.name} with epoch {request.broker_epoch}")
        ensure(request.is_kraft_controller, self.name, "not marked as from KRaft")
        if isinstance(request, m.StopReplicaRequest) or request.type != TYPE_FULL:
            return
        listed = {
            (topic.topic_id, p.partition_index)
            for topic in request.topic_states
            for p in topic.partition_states
        }
        for point in reversed(points):
            all_there = {
                (topic.id, index)
                for topic in point.facts.topics.values()
                for index, p in topic.partitions.items()
                if isinstance(request, m.UpdateMetadataRequest) or broker.id in p.replicas
            }
            whose = None if isinstance(request, m.UpdateMetadataRequest) else broker.id
            if self._only_unwritten_missing(whose, all_there, listed, point.facts):
                return
        raise Violated("full-lists-all", f"{type(request).__name__} to {broker.name}: {listed}")

    def _only_unwritten_missing(
        self,
        broker_id: int | None,
        all_there: set[tuple[bytes, int]],
        listed: set[tuple[bytes, int]],
        facts: Facts,
    ) -> bool:
        """Whether all that is not listed are replicas that ZooKeeper refuses to hold.

        No request ever listed those to the broker: nothing is deleted because they are missing.

        Args:
            broker_id: whose replicas are to be listed; None: all partitions.
            all_there: topic id and number of what would be listed otherwise.
            listed: what is listed.
            facts: which ``all_there`` is of.
        """
        missing = all_there - listed
        return listed <= all_there and not any(
            self._held(topic_id, facts.topics[topic_id].name, index, broker_id)
            for topic_id, index in missing
        )

    def _held(self, topic_id: bytes, name: str, index: int, broker_id: int | None) -> bool:
        """Whether ZooKeeper has held a replica for longer than a request may be on its way.

        Its topic's config, which a broker reads when it gets the replica, must be there too.
        """
        node = self.world.tree.nodes.get(f"/brokers/topics/{name}")
        state = {} if node is None else json.loads(node.data or b"{}")
        if node is None or state.get("topic_id") != uuid_text(topic_id):
            return False
        if f"/config/topics/{name}" not in self.world.tree.nodes:
            return False
        scenario = self.world.scenario
        delay_ms = DELAY_MS_MAX + scenario.brokers * scenario.pause_us // 1_000
        replicas = state["partitions"].get(str(index), [])
        there = bool(replicas) if broker_id is None else broker_id in replicas
        return there and node.mtime_ms < self.world.scheduler.now_ms - delay_ms


class SentOnlyCommitted(Checker):
    """Brokers are sent only what is committed, and nothing of an older controller again."""

    name = "told-committed"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._epochs: dict[str, int] = {}

    def control_request_received(self, broker: SimulatedBroker, request: ControlRequest) -> None:
        """Hold each partition's epochs against the log."""
        if isinstance(request, m.StopReplicaRequest) or not self.world.active.leads_alone:
            return
        facts = self.world.facts
        for topic in request.topic_states:
            for p in topic.partition_states:
                known = facts.partition(topic.topic_id, p.partition_index)
                if known is None or p.leader < -1:
                    continue
                right = p.leader_epoch <= known.leader_epoch
                text = f"{broker.name} is told leader epoch {p.leader_epoch} of {topic.topic_name}-"
                ensure(right, self.name, f"{text}{p.partition_index}, {known} is committed")


class BrokersAgree(Checker):
    """At the end every broker believes what the log says, and every partition is led if it can."""

    name = "brokers-agree"

    def unrest(self) -> str:
        """Compare every broker's view."""
        facts = self.world.facts
        for broker in self.world.brokers.values():
            if broker.id in self.world.departed:
                continue
            if not broker.alive:
                return f"{broker.name} is not there"
            if found := _differences(broker, facts):
                return f"{broker.name}: {found}"
        fenced = [one.id for one in facts.brokers.values() if one.fenced]
        waiting = [one for one in fenced if one not in self.world.departed]
        return f"fenced in the log: {waiting}" if waiting else _leaderless(facts)


def _leaderless(facts: Facts) -> str:
    """A partition whose leader is gone although another in-sync replica is there; or empty."""
    there = {one.id for one in facts.brokers.values() if not one.fenced}
    for topic in facts.topics.values():
        for index, p in topic.partitions.items():
            if p.leader not in there and there.intersection(p.isr):
                return f"{topic.name}-{index} is led by {p.leader}, in sync are {p.isr}"
            if p.leader >= 0 and p.leader not in there:
                return f"{topic.name}-{index} is led by {p.leader}, which is not there"
    return ""


def _differences(broker: SimulatedBroker, facts: Facts) -> str:
    """How a broker's answers to clients, and its replicas, differ from the log; or empty."""
    count = 0
    for topic in broker.known.topics:
        known = facts.topics.get(topic.id)
        if known is None or known.name != topic.name:
            return f"believes in topic {topic.name} ({topic.id.hex()})"
        for index, p in topic.partitions.items():
            count += 1
            if found := _difference(p, known.partitions.get(index)):
                return f"partition {topic.name}-{index}: {found}"
    wanted = sum(len(topic.partitions) for topic in facts.topics.values())
    if count != wanted:
        return f"knows {count} of {wanted} partitions"
    for hosted in broker.replicas:
        want = facts.partition(hosted.topic_id, hosted.key[1])
        if found := _difference(hosted.partition, want):
            return f"replica {hosted.key}: {found}"
    placed = sum(
        broker.id in p.replicas
        for topic in facts.topics.values()
        for p in topic.partitions.values()
    )
    if len(broker.replicas) != placed:
        return f"hosts {len(broker.replicas)} replicas of {placed}"
    if broker.known.live != frozenset(facts.brokers):
        return f"believes {sorted(broker.known.live)} live, is {sorted(facts.brokers)}"
    return ""


def _difference(p: Any, want: PartitionFacts | None) -> str:
    """Between a partition as a broker knows it, and as it is; or empty."""
    if want is None:
        return "is not there"
    have = tuple(getattr(p, name) for name in COMPARED)
    is_so = tuple(getattr(want, name) for name in COMPARED)
    return "" if have == is_so else f"believes {have}, is {is_so}"
