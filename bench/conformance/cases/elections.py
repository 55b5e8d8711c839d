"""ElectLeaders (KIP-183, KIP-460): of topics of the run; of all partitions if that is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bench.conformance.asking import broker_pairs, created, several, shown
from bench.conformance.case import Ask, Program, Stage, case, code, holds, only, same
from bench.conformance.cases.reassignments import moved, results
from wire import messages as m

PREFERRED, UNCLEAN = 0, 1
_ASKS: Final = (m.CreateTopicsRequest, m.ElectLeadersRequest)
_MANAGER: Final = "KIP-183; ReplicationControlManager.electLeaders"


def election(topics: dict[str, Sequence[int]] | None, kind: int = PREFERRED) -> Any:
    """An ElectLeaders request; None: of all partitions."""
    of = m.ElectLeadersRequest
    named = None
    if topics is not None:
        named = [of.TopicPartitions(topic=one, partitions=tuple(p)) for one, p in topics.items()]
    return of(election_type=kind, topic_partitions=named, timeout_ms=20_000)


def elected(message: Any, version: int) -> list[tuple[str, int, int]]:
    """(topic, partition, error) of each result, after a look at the error of all."""
    if version >= 1:
        code("ElectLeaders", message.error_code, 0)
    return [
        (one.topic, part.partition_id, part.error_code)
        for one in message.replica_election_results
        for part in one.partition_result
    ]


def unpreferred(stage: Stage, partitions: int = 1) -> Program:
    """A topic whose first replicas do not lead: (name, old leader, preferred leader)."""
    a, b = broker_pairs(stage, 2)
    name, _ = yield from created(stage, assignments=[(a, b)] * partitions)

    def in_sync(topic: Any) -> bool:
        return all(set(one.isr_nodes) == {a, b} for one in topic.partitions)

    yield from shown(stage, name, in_sync)
    wanted: dict[int, tuple[int, ...] | None] = dict.fromkeys(range(partitions), (b, a))
    for found in results((yield Ask(moved({name: wanted}))).message).values():
        code("AlterPartitionReassignments to another order", found, 0)

    def turned(topic: Any) -> bool:
        return all(tuple(one.replica_nodes) == (b, a) for one in topic.partitions)

    topic = yield from shown(stage, name, turned)
    for one in topic.partitions:
        same("the leader after a new order alone", one.leader_id, a)
    return name, a, b


@case(
    "ElectLeaders makes the preferred leader the leader",
    sources=_MANAGER,
    rows="K01 K15",
    asks=_ASKS,
    brokers=2,
)
def preferred(stage: Stage) -> Program:
    name, _, b = yield from unpreferred(stage, 2)
    before = yield from shown(stage, name)
    epochs = {one.partition_index: one.leader_epoch for one in before.partitions}
    answer = yield Ask(election({name: [0]}))
    same("results", elected(answer.message, answer.version), [(name, 0, 0)])
    topic = yield from shown(
        stage, name, lambda one: {p.partition_index: p.leader_id for p in one.partitions}[0] == b
    )
    after = {one.partition_index: one for one in topic.partitions}
    same("leader epoch of the elected partition", after[0].leader_epoch, epochs[0] + 1)
    holds("the other partition's leader", after[1].leader_id != b, "as before", after[1])
    answer = yield Ask(election({name: [0]}))
    same("results when it leads", elected(answer.message, answer.version), [(name, 0, 84)])


@case(
    "ElectLeaders in version 0 elects preferred leaders",
    sources="KIP-183",
    rows="K09",
    asks=_ASKS,
    brokers=2,
)
def version_0(stage: Stage) -> Program:
    name, _, b = yield from unpreferred(stage)
    if 0 in stage.versions(m.ElectLeadersRequest):
        answer = yield Ask(election({name: [0]}), 0)
        same("results", elected(answer.message, 0), [(name, 0, 0)])
        yield from shown(stage, name, lambda topic: topic.partitions[0].leader_id == b)


@case(
    "ElectLeaders: a partition whose preferred replica leads gets ELECTION_NOT_NEEDED",
    sources=_MANAGER,
    rows="K18",
    asks=_ASKS,
)
def not_needed(stage: Stage) -> Program:
    name, _ = yield from created(stage, partitions=2)
    for kind in (PREFERRED, UNCLEAN):
        answer = yield Ask(election({name: [0, 1]}, kind), lowest=1)
        found = sorted(elected(answer.message, answer.version))
        same(f"results of election type {kind}", found, [(name, 0, 84), (name, 1, 84)])


@case(
    "ElectLeaders: what is unknown gets UNKNOWN_TOPIC_OR_PARTITION, others are elected",
    sources=_MANAGER,
    rows="K06 K14",
    asks=_ASKS,
)
def unknown(stage: Stage) -> Program:
    name, none = (yield from created(stage))[0], stage.name()
    answer = yield Ask(election({none: [0], name: [0, 3_000, -1]}))
    found = {(topic, part): error for topic, part, error in elected(answer.message, answer.version)}
    same("results", found, {(none, 0): 3, (name, 0): 84, (name, 3_000): 3, (name, -1): 3})


@case(
    "ElectLeaders: a partition named twice is no error of the request",
    sources="KIP-183",
    rows="K11",
    asks=_ASKS,
)
def twice(stage: Stage) -> Program:
    name, _ = yield from created(stage)
    answer = yield Ask(election({name: [0, 0]}))
    found = set(elected(answer.message, answer.version))
    same("results", found, {(name, 0, 84)})


@case(
    "ElectLeaders of type UNCLEAN leaves a partition alone that has a leader",
    sources="KIP-460; ReplicationControlManager.electLeader",
    rows="K18",
    asks=_ASKS,
    brokers=2,
)
def unclean_with_a_leader(stage: Stage) -> Program:
    name, _, b = yield from unpreferred(stage)
    answer = yield Ask(election({name: [0]}, UNCLEAN), lowest=1)
    same("results", elected(answer.message, answer.version), [(name, 0, 84)])
    answer = yield Ask(election({name: [0]}), lowest=1)
    same("results of type PREFERRED", elected(answer.message, answer.version), [(name, 0, 0)])
    yield from shown(stage, name, lambda topic: topic.partitions[0].leader_id == b)


@case("ElectLeaders of no partition answers with none", sources=_MANAGER, asks=_ASKS)
def nothing(stage: Stage) -> Program:
    answer = yield Ask(election({}))
    same("results", elected(answer.message, answer.version), [])


@case(
    "ElectLeaders of all partitions elects where it is needed, and lists what was tried",
    sources=_MANAGER,
    rows="K05 K07",
    asks=_ASKS,
    brokers=2,
    disruptive=True,
)
def all_partitions(stage: Stage) -> Program:
    name, _, b = yield from unpreferred(stage, 2)
    answer = yield Ask(election(None))
    found = elected(answer.message, answer.version)
    mine = sorted(one for one in found if one[0] == name)
    same("results of the topic", mine, [(name, 0, 0), (name, 1, 0)])
    not_needed_ = [one for one in found if one[2] == 84]
    same("results that were not needed", not_needed_, [])
    yield from shown(stage, name, lambda one: all(p.leader_id == b for p in one.partitions))
    answer = yield Ask(election(None))
    again = [one for one in elected(answer.message, answer.version) if one[0] == name]
    same("results of the topic when all lead", again, [])


@case("ElectLeaders names each topic once", sources=_MANAGER, asks=_ASKS)
def grouped(stage: Stage) -> Program:
    names = yield from several(stage, 2)
    answer = yield Ask(election({name: [0] for name in names}))
    got = [one.topic for one in answer.message.replica_election_results]
    same("topics of the answer", sorted(got), sorted(names))
    for one in answer.message.replica_election_results:
        only("partitions of a topic", one.partition_result)
