"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455)."""

from __future__ import annotations

from typing import Any, Final

from bench.conformance.asking import (
    broker_pairs,
    by_name,
    created,
    eventually,
    shown,
    unknown_broker,
)
from bench.conformance.case import Ask, Program, Stage, case, code, same
from wire import messages as m

_ASKS: Final = (m.CreateTopicsRequest, m.AlterPartitionReassignmentsRequest)
_MANAGER: Final = "KIP-455; ReplicationControlManager.alterPartitionReassignments"
Parts = dict[int, tuple[int, ...] | None]


def moved(topics: dict[str, Parts]) -> Any:
    """An AlterPartitionReassignments request; None cancels."""
    kind = m.AlterPartitionReassignmentsRequest
    return kind(
        topics=[
            kind.ReassignableTopic(
                name=name,
                partitions=[
                    kind.ReassignablePartition(partition_index=index, replicas=replicas)
                    for index, replicas in parts.items()
                ],
            )
            for name, parts in topics.items()
        ],
        timeout_ms=20_000,
    )


def results(message: Any) -> dict[tuple[str, int], int]:
    """(topic, partition) -> error, after a look at the error of all."""
    code("AlterPartitionReassignments", message.error_code, 0)
    for one in message.responses:
        indexes = sorted(part.partition_index for part in one.partitions)
        same(f"partitions of {one.name} in the answer: each once", indexes, sorted({*indexes}))
    by_name("topics of the answer", message.responses)
    return {
        (one.name, part.partition_index): part.error_code
        for one in message.responses
        for part in one.partitions
    }


@case(
    "AlterPartitionReassignments moves a partition, and lists nothing when it has",
    sources=_MANAGER,
    asks=_ASKS,
    brokers=2,
)
def move(stage: Stage) -> Program:
    a, b = broker_pairs(stage, 2)
    name, _ = yield from created(stage, assignments=[(a,), (a,)])
    answer = (yield Ask(moved({name: {0: (b,)}}))).message
    same("results", results(answer), {(name, 0): 0})

    def done(topic: Any) -> bool:
        found = {one.partition_index: one for one in topic.partitions}
        return tuple(found[0].replica_nodes) == (b,) and found[0].leader_id == b

    topic = yield from shown(stage, name, done)
    found = {one.partition_index: one for one in topic.partitions}
    same("replicas of the other partition", tuple(found[1].replica_nodes), (a,))
    asked = m.ListPartitionReassignmentsRequest(topics=None, timeout_ms=20_000)
    yield from eventually(
        "ListPartitionReassignments without the topic",
        asked,
        lambda message: name not in {one.name for one in message.topics},
    )


@case(
    "AlterPartitionReassignments adds a replica, and takes one away",
    sources=_MANAGER,
    asks=_ASKS,
    brokers=2,
)
def widen(stage: Stage) -> Program:
    a, b = broker_pairs(stage, 2)
    name, _ = yield from created(stage, assignments=[(a,)])
    for wanted in ((a, b), (b, a), (a,)):
        same("results", results((yield Ask(moved({name: {0: wanted}}))).message), {(name, 0): 0})

        def done(topic: Any, wanted: tuple[int, ...] = wanted) -> bool:
            part = topic.partitions[0]
            whole = set(part.isr_nodes) == set(wanted)
            return whole and tuple(part.replica_nodes) == wanted

        yield from shown(stage, name, done)


@case(
    "AlterPartitionReassignments: what is unknown gets UNKNOWN_TOPIC_OR_PARTITION, each by itself",
    sources=_MANAGER,
    asks=_ASKS,
    brokers=1,
)
def unknown(stage: Stage) -> Program:
    (a,) = broker_pairs(stage, 1)
    name, none = (yield from created(stage, assignments=[(a,)]))[0], stage.name()
    answer = (yield Ask(moved({name: {0: (a,), 5: (a,)}, none: {0: (a,)}}))).message
    same("results", results(answer), {(name, 0): 0, (name, 5): 3, (none, 0): 3})


@case(
    "AlterPartitionReassignments: replicas that cannot be get INVALID_REPLICA_ASSIGNMENT",
    sources=_MANAGER,
    asks=_ASKS,
    brokers=1,
)
def invalid(stage: Stage) -> Program:
    (a,) = broker_pairs(stage, 1)
    none = unknown_broker(stage)
    name, _ = yield from created(stage, assignments=[(a,)])
    for what, wanted in (
        ("an unknown broker", (none,)),
        ("a broker twice", (a, a)),
        ("none", ()),
        ("a negative id", (-5,)),
    ):
        found = results((yield Ask(moved({name: {0: wanted}}))).message)
        code(f"AlterPartitionReassignments to {what}", found.get((name, 0), 0), 39)
    yield from shown(stage, name, lambda topic: tuple(topic.partitions[0].replica_nodes) == (a,))


@case(
    "AlterPartitionReassignments: to cancel where nothing moves gets NO_REASSIGNMENT_IN_PROGRESS",
    sources=_MANAGER,
    asks=_ASKS,
)
def cancel_nothing(stage: Stage) -> Program:
    name, _ = yield from created(stage)
    same("results", results((yield Ask(moved({name: {0: None}}))).message), {(name, 0): 85})


@case(
    "ListPartitionReassignments: an unknown topic and one that does not move are not listed",
    sources="KIP-455",
    asks=(m.ListPartitionReassignmentsRequest,),
)
def list_none(stage: Stage) -> Program:
    kind = m.ListPartitionReassignmentsRequest
    name, _ = yield from created(stage)
    topics = [
        kind.ListPartitionReassignmentsTopics(name=one, partition_indexes=(0, 9))
        for one in (name, stage.name())
    ]
    answer = (yield Ask(kind(topics=topics, timeout_ms=20_000))).message
    code("ListPartitionReassignments", answer.error_code, 0)
    same("reassignments", answer.topics, [])


@case(
    "AlterPartitionReassignments of no topic answers with none",
    sources=_MANAGER,
    asks=(m.AlterPartitionReassignmentsRequest,),
)
def nothing(stage: Stage) -> Program:
    message = (yield Ask(moved({}))).message
    same("results", results(message), {})
