"""AlterPartition: what a leader may change, and each refusal (KIP-497, KIP-704, KIP-841, KIP-903).

Partitions are of drawn brokers: the judge speaks as their leader.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

from bench.conformance.asking import creation, new, reads
from bench.conformance.case import Ask, Pause, Program, Stage, Where, case, code, holds, only, same
from bench.conformance.cases.brokers import Drawn, gone, heartbeat, unfenced
from bench.conformance.cases.elections import PREFERRED, UNCLEAN, elected, election
from bench.conformance.cases.reassignments import moved, results
from wire import messages as m

_ASKS: Final = (
    m.AlterPartitionRequest,
    m.BrokerRegistrationRequest,
    m.UnregisterBrokerRequest,
    m.CreateTopicsRequest,
    m.DeleteTopicsRequest,
)
_MANAGER: Final = "ReplicationControlManager.alterPartition, validateAlterPartitionData"
_LOOKS: Final = 200
Isr = list[tuple[int, int]]
"""Broker ids with epochs."""


def alteration(one: Drawn, topic_id: bytes, index: int, isr: Isr, **changes: Any) -> Any:
    """An AlterPartition request of version 3."""
    kind = m.AlterPartitionRequest
    values = {
        "partition_index": index,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "new_isr_with_epochs": [
            kind.BrokerState(broker_id=id_, broker_epoch=epoch) for id_, epoch in isr
        ],
        **changes,
    }
    topic = kind.TopicData(topic_id=topic_id, partitions=[kind.PartitionData(**values)])
    return kind(broker_id=one.id, broker_epoch=one.epoch, topics=[topic])


def asked(request: Any) -> Program:
    """Ask; returns the result of the one partition."""
    answer = (yield Ask(request, lowest=3)).message
    code("AlterPartition", answer.error_code, 0)
    return only("partitions", only("topics", answer.topics).partitions)


def led(stage: Stage) -> Program:
    """Two drawn brokers and a topic whose only partition the first one leads."""
    a = yield from unfenced(stage)
    b = yield from unfenced(stage)
    name = stage.name()
    answer = yield Ask(creation(new(name, assignments=[(a.id, b.id)])), lowest=7)
    result = only("results", answer.message.topics)
    code("CreateTopics on drawn brokers", result.error_code, 0)
    return a, b, name, result.topic_id


def ended(name: str, *brokers: Drawn) -> Program:
    """Delete the topic, then unregister."""
    kind = m.DeleteTopicsRequest
    asked_ = kind(topics=[kind.DeleteTopicState(name=name)], timeout_ms=20_000)
    code(
        "DeleteTopics",
        only("results", (yield Ask(asked_, lowest=6)).message.responses).error_code,
        0,
    )
    yield from gone(*brokers)


@case(
    "AlterPartition shrinks the ISR and expands it, and each change has the next epoch",
    sources=_MANAGER,
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def change(stage: Stage) -> Program:
    a, b, name, topic_id = yield from led(stage)
    result = yield from asked(alteration(a, topic_id, 0, [(a.id, a.epoch)]))
    code("AlterPartition that shrinks", result.error_code, 0)
    same("leader and ISR", (result.leader_id, tuple(result.isr)), (a.id, (a.id,)))
    same("the partition epoch", result.partition_epoch, 1)
    same("the leader epoch", result.leader_epoch, 0)
    same("the leader's recovery state", result.leader_recovery_state, 0)
    both = [(a.id, a.epoch), (b.id, b.epoch)]
    result = yield from asked(alteration(a, topic_id, 0, both, partition_epoch=1))
    code("AlterPartition that expands", result.error_code, 0)
    same("the ISR", set(result.isr), {a.id, b.id})
    same("the partition epoch", result.partition_epoch, 2)
    yield from ended(name, a, b)


@case(
    "AlterPartition: each refusal has its code, and changes nothing",
    sources=_MANAGER,
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def refusals(stage: Stage) -> Program:
    a, b, name, topic_id = yield from led(stage)
    mine, its = (a.id, a.epoch), (b.id, b.epoch)
    none = stage.rng.randbytes(16)
    wrong: list[tuple[str, Any, int]] = [
        ("an unknown topic id", alteration(a, none, 0, [mine]), 100),
        ("an unknown partition", alteration(a, topic_id, 9, [mine]), 3),
        ("a higher leader epoch", alteration(a, topic_id, 0, [mine], leader_epoch=5), 41),
        ("a lower leader epoch", alteration(a, topic_id, 0, [mine], leader_epoch=-1), 74),
        ("a higher partition epoch", alteration(a, topic_id, 0, [mine], partition_epoch=5), 41),
        ("a lower partition epoch", alteration(a, topic_id, 0, [mine], partition_epoch=-1), 95),
        ("a broker that does not lead", alteration(b, topic_id, 0, [its]), 42),
        ("an ISR without the leader", alteration(a, topic_id, 0, [its]), 42),
        ("an ISR with no replica", alteration(a, topic_id, 0, [mine, (1, -1)]), 42),
        ("an ISR with one twice", alteration(a, topic_id, 0, [mine, mine]), 42),
        ("an old epoch of a member", alteration(a, topic_id, 0, [mine, (b.id, b.epoch - 1)]), 107),
    ]
    for what, request, expected in wrong:
        answer = (yield Ask(request, lowest=3)).message
        code(f"AlterPartition with {what}: of all", answer.error_code, 0)
        result = only("partitions", only("topics", answer.topics).partitions)
        code(f"AlterPartition with {what}", result.error_code, expected)
    result = yield from asked(alteration(a, topic_id, 0, [mine]))
    same(
        "afterwards: error and partition epoch", (result.error_code, result.partition_epoch), (0, 1)
    )
    yield from ended(name, a, b)


@case(
    "AlterPartition of an old broker epoch gets STALE_BROKER_EPOCH as a whole",
    sources="ClusterControlManager.checkBrokerEpoch",
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def stale(stage: Stage) -> Program:
    a, b, name, topic_id = yield from led(stage)
    for epoch in (a.epoch - 1, a.epoch + 1):
        request = alteration(a, topic_id, 0, [(a.id, a.epoch)])
        request.broker_epoch = epoch
        answer = (yield Ask(request, lowest=3)).message
        code(f"AlterPartition of epoch {epoch}, not {a.epoch}", answer.error_code, 77)
        same("topics", answer.topics, [])
    yield from ended(name, a, b)


@case(
    "a fenced broker is in no ISR, and leads nothing",
    sources="KIP-631, KIP-841; ReplicationControlManager.handleBrokerFenced",
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def fenced(stage: Stage) -> Program:
    a, b, name, topic_id = yield from led(stage)
    answer = (yield Ask(heartbeat(a, want_fence=True))).message
    same("is_fenced", answer.is_fenced, True)
    mine = (b.id, b.epoch)
    # The other one leads now, in the next epoch: the fenced one may not come back.
    both = alteration(b, topic_id, 0, [mine, (a.id, a.epoch)], leader_epoch=1, partition_epoch=1)
    result = yield from asked(both)
    code("AlterPartition with a fenced broker", result.error_code, 107)
    alone = alteration(b, topic_id, 0, [mine], leader_epoch=1, partition_epoch=1)
    result = yield from asked(alone)
    code("AlterPartition by the new leader", result.error_code, 0)
    same("leader and ISR", (result.leader_id, tuple(result.isr)), (b.id, (b.id,)))
    yield from ended(name, a, b)


@case(
    "a broker that shuts down hands over what it leads before it may end",
    sources="KIP-631, KIP-841; ReplicationControlManager.handleBrokerInControlledShutdown",
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def controlled_shutdown(stage: Stage) -> Program:
    a, b, name, topic_id = yield from led(stage)
    answer = (yield Ask(heartbeat(a, want_shut_down=True))).message
    code("BrokerHeartbeat", answer.error_code, 0)
    same("should_shut_down, at first", answer.should_shut_down, False)
    for _ in range(_LOOKS):
        # Those that are not drawn tell every two seconds how far they have read.
        yield Ask(heartbeat(b))
        answer = (yield Ask(heartbeat(a, want_shut_down=True))).message
        if answer.should_shut_down:
            break
        yield Pause(0.1)
    same("should_shut_down, when the others have read it", answer.should_shut_down, True)
    request = alteration(b, topic_id, 0, [(b.id, b.epoch)], leader_epoch=1, partition_epoch=1)
    result = yield from asked(request)
    holds("the new leader", result.error_code == 0 and result.leader_id == b.id, b.id, result)
    yield from ended(name, a, b)


@case(
    "a reassignment is listed while it goes on, and cancelling it brings back what was",
    sources="KIP-455; ReplicationControlManager.cancelPartitionReassignment",
    where=Where.CONTROLLER,
    asks=(*_ASKS, m.AlterPartitionReassignmentsRequest),
    disruptive=True,
)
def reassignment(stage: Stage) -> Program:
    a, b, name, _ = yield from led(stage)
    c = yield from unfenced(stage)
    same("results", results((yield Ask(moved({name: {0: (c.id, b.id)}}))).message), {(name, 0): 0})
    kind = m.ListPartitionReassignmentsRequest
    named = [kind.ListPartitionReassignmentsTopics(name=name, partition_indexes=(0,))]
    asked_ = [kind(topics=topics, timeout_ms=20_000) for topics in (None, named)]
    listeners = [Where.CONTROLLER, Where.BROKER] if reads(stage) else [Where.CONTROLLER]
    for one, at in itertools.product(asked_, listeners):
        answer = (yield Ask(one, at=at)).message
        mine = [each for each in answer.topics if each.name == name]
        part = only("partitions", only("topics that move", mine).partitions)
        same("the partition that moves", part.partition_index, 0)
        same("adding replicas", tuple(part.adding_replicas), (c.id,))
        same("removing replicas", tuple(part.removing_replicas), (a.id,))
        same("replicas: the target, then the removed", tuple(part.replicas), (c.id, b.id, a.id))
    same(
        "results of the end", results((yield Ask(moved({name: {0: None}}))).message), {(name, 0): 0}
    )
    answer = (yield Ask(kind(topics=named, timeout_ms=20_000))).message
    same("reassignments when it is cancelled", answer.topics, [])
    same("results again", results((yield Ask(moved({name: {0: None}}))).message), {(name, 0): 85})
    yield from ended(name, a, b, c)


@case(
    "ElectLeaders: who is out of the ISR is elected only where that is asked for",
    sources="KIP-183, KIP-460; ReplicationControlManager.electLeader",
    rows="K18",
    where=Where.CONTROLLER,
    asks=(*_ASKS, m.ElectLeadersRequest),
    disruptive=True,
)
def unclean(stage: Stage) -> Program:
    a, b, name, topic_id = yield from led(stage)
    result = yield from asked(alteration(a, topic_id, 0, [(a.id, a.epoch)]))
    code("AlterPartition that shrinks", result.error_code, 0)
    same("is_fenced", (yield Ask(heartbeat(a, want_fence=True))).message.is_fenced, True)
    answer = yield Ask(election({name: [0]}), lowest=1)
    same("preferred, fenced", elected(answer.message, answer.version), [(name, 0, 80)])
    answer = yield Ask(election({name: [0]}, UNCLEAN), lowest=1)
    same("unclean", elected(answer.message, answer.version), [(name, 0, 0)])
    answer = yield Ask(election({name: [0]}, UNCLEAN), lowest=1)
    same("unclean again", elected(answer.message, answer.version), [(name, 0, 84)])
    answer = yield Ask(election({name: [0]}), lowest=1)
    same("preferred, out of the ISR", elected(answer.message, answer.version), [(name, 0, 80)])
    yield from ended(name, a, b)


@case(
    "ElectLeaders: without a live replica nobody is elected",
    sources="KIP-460; ReplicationControlManager.electLeader",
    rows="K18",
    where=Where.CONTROLLER,
    asks=(*_ASKS, m.ElectLeadersRequest),
    disruptive=True,
)
def nobody_eligible(stage: Stage) -> Program:
    a, b, name, _ = yield from led(stage)
    for one in (a, b):
        same("is_fenced", (yield Ask(heartbeat(one, want_fence=True))).message.is_fenced, True)
    for kind, expected in ((PREFERRED, 80), (UNCLEAN, 83)):
        answer = yield Ask(election({name: [0]}, kind), lowest=1)
        same(
            f"election type {kind}", elected(answer.message, answer.version), [(name, 0, expected)]
        )
    yield from ended(name, a, b)


@case(
    "CreateTopics puts nothing on fenced brokers by hand",
    sources="ReplicationControlManager.createTopic",
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def on_fenced_brokers(stage: Stage) -> Program:
    a = yield from unfenced(stage)
    same("is_fenced", (yield Ask(heartbeat(a, want_fence=True))).message.is_fenced, True)
    answer = yield Ask(creation(new(stage.name(), assignments=[(a.id,)])))
    code("CreateTopics", only("results", answer.message.topics).error_code, 39)
    yield from gone(a)
