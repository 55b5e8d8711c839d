"""CreateTopics, DeleteTopics, CreatePartitions: what is made is shown, what is refused is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bench.conformance.asking import (
    Assignment,
    absent,
    broker_pairs,
    by_name,
    created,
    creation,
    eventually,
    is_zero,
    new,
    reads,
    shown,
    unknown_broker,
)
from bench.conformance.case import Ask, Level, Program, Stage, Where, case, code, holds, only, same
from wire import messages as m

TOPIC_ALREADY_EXISTS: Final = 36

CREATE = (m.CreateTopicsRequest,)
DELETE = (m.CreateTopicsRequest, m.DeleteTopicsRequest)
GROW = (m.CreateTopicsRequest, m.CreatePartitionsRequest)
_CREATION = "ReplicationControlManager.createTopic"


def refused(stage: Stage, topic: Any, *codes: int, what: str = "") -> Program:
    """Demand that a topic is refused, beside one that is made, and that it is not there."""
    good = stage.name()
    answer = yield Ask(creation(topic, new(good)))
    results = by_name("results of CreateTopics", answer.message.topics)
    same("topics of the answer", set(results), {topic.name, good})
    code(f"CreateTopics {what or topic.name!r}", results[topic.name].error_code, *codes)
    code("CreateTopics of the topic beside it", results[good].error_code, 0)
    if topic.name.startswith(stage.prefix):
        yield from absent(stage, topic.name)
    yield from shown(stage, good)


@case(
    "CreateTopics makes the topic that Metadata shows",
    sources="KIP-4, KIP-516, KIP-525",
    asks=CREATE,
)
def create(stage: Stage) -> Program:
    name = stage.name()
    partitions = stage.rng.randint(2, 9)
    replicas = max(1, min(2, len(stage.facts.brokers)))
    config: dict[str, str | None] = {"retention.ms": "86400001"}
    answer = yield Ask(creation(new(name, partitions, replicas, configs=config)), lowest=5)
    result = only("results", answer.message.topics)
    code("CreateTopics", result.error_code, 0)
    same("partitions of the result", result.num_partitions, partitions)
    same("replication factor of the result", result.replication_factor, replicas)
    same("error text of the result", result.error_message, None)
    # TOPIC_AUTHORIZATION_FAILED: who may create it may not describe it.
    code("of the result's configs", result.topic_config_error_code, 0, 29)
    told = {one.name: one for one in result.configs or []}
    same("configs of the result: each once", len(result.configs or []), len(told))
    if told:
        holds("configs of the result", "retention.ms" in told, "the config that was set", [*told])
        same("retention.ms of the result", told["retention.ms"].value, "86400001")
        same("source of retention.ms", told["retention.ms"].config_source, 1)
        secret = [one.name for one in told.values() if one.is_sensitive]
        same("sensitive configs of a topic", secret, [])
        fixed = [one.name for one in told.values() if one.read_only]
        same("read-only configs of a topic", fixed, [])
    topic = yield from shown(stage, name, lambda one: len(one.partitions) == partitions)
    if told:
        yield from _as_described(stage, name, told)
    if topic is None:
        return
    same("whether it is internal", topic.is_internal, False)
    if answer.version >= 7 and not is_zero(topic.topic_id):
        same("the topic's id", topic.topic_id, result.topic_id)
    indexes = sorted(one.partition_index for one in topic.partitions)
    same("partition numbers", indexes, list(range(partitions)))
    for one in topic.partitions:
        same("replicas of a partition: how many", len(one.replica_nodes), replicas)
        same("replicas of a partition: each once", len(set(one.replica_nodes)), replicas)
        live = set(stage.facts.brokers)
        holds("replicas", set(one.replica_nodes) <= live, "live brokers", one.replica_nodes)
        holds("the ISR", set(one.isr_nodes) <= set(one.replica_nodes), "replicas", one.isr_nodes)
        holds("the leader", one.leader_id in one.isr_nodes, "of the ISR", one)
        same("the leader is the first replica", one.leader_id, one.replica_nodes[0])
        same("leader epoch of a new partition", one.leader_epoch, 0)
        same("offline replicas", list(one.offline_replicas), [])


def _as_described(stage: Stage, name: str, told: dict[str, Any]) -> Program:
    """Demand that CreateTopics told each config that DescribeConfigs shows, with its value."""
    if not stage.facts.offers(stage.here, m.DescribeConfigsRequest):
        return
    kind = m.DescribeConfigsRequest
    resource = kind.DescribeConfigsResource(
        resource_type=2, resource_name=name, configuration_keys=None
    )
    message = yield from eventually(
        f"DescribeConfigs of {name}",
        kind(resources=[resource]),
        lambda one: only("results", one.results).error_code == 0,
    )
    values = {one.name: one.value for one in message.results[0].configs}
    got = {key: told[key].value for key in values if key in told}
    same("configs that CreateTopics tells, of those of the topic", got, values)


@case("CreateTopics: each topic has an id of its own", sources="KIP-516", asks=CREATE)
def ids(stage: Stage) -> Program:
    names = [stage.name() for _ in range(5)]
    answer = yield Ask(creation(*map(new, names)), lowest=7)
    results = by_name("results", answer.message.topics)
    same("topics of the answer", set(results), set(names))
    for one in results.values():
        code(f"CreateTopics of {one.name}", one.error_code, 0)
    found = {one.topic_id for one in results.values()}
    same("different ids", len(found), len(names))
    for name in names:
        topic = yield from shown(stage, name)
        if topic is not None and not is_zero(topic.topic_id):
            same(f"the id of {name}", topic.topic_id, results[name].topic_id)


@case("CreateTopics: defaults of partitions and replicas by -1", sources="KIP-464", asks=CREATE)
def defaults(stage: Stage) -> Program:
    name = stage.name()
    answer = yield Ask(creation(new(name, -1, -1)), lowest=5)
    result = only("results", answer.message.topics)
    if result.error_code == 38 and len(stage.facts.brokers) < 3:
        return  # default.replication.factor may be above the number of brokers
    code("CreateTopics by defaults", result.error_code, 0)
    holds("partitions", result.num_partitions >= 1, "1 or more", result.num_partitions)
    holds("replicas", result.replication_factor >= 1, "1 or more", result.replication_factor)
    yield from shown(stage, name, lambda one: len(one.partitions) == result.num_partitions)


@case(
    "CreateTopics places by hand as it is told, in order", sources="KIP-4", asks=CREATE, brokers=2
)
def by_hand(stage: Stage) -> Program:
    a, b = broker_pairs(stage, 2)
    wanted = [(a, b), (b, a), (b, a), (a, b)]
    name, _ = yield from created(stage, assignments=wanted)
    topic = yield from shown(stage, name, lambda one: len(one.partitions) == 4)
    got = {one.partition_index: tuple(one.replica_nodes) for one in topic.partitions}
    same("replicas", got, dict(enumerate(wanted)))
    leaders = {one.partition_index: one.leader_id for one in topic.partitions}
    same("leaders", leaders, {index: ids[0] for index, ids in enumerate(wanted)})


@case(
    "CreateTopics spreads leaders over brokers",
    level=Level.SHOULD,
    sources="StripedReplicaPlacer",
    asks=CREATE,
    brokers=2,
)
def spread(stage: Stage) -> Program:
    count = len(stage.facts.brokers)
    name, _ = yield from created(stage, partitions=4 * count)
    topic = yield from shown(stage, name, lambda one: len(one.partitions) == 4 * count)
    leaders = [one.leader_id for one in topic.partitions]
    idle = [one for one in stage.facts.brokers if one not in leaders]
    same(f"brokers that lead none of {4 * count} partitions", idle, [])


@case(
    "CreateTopics: a name that exists gets TOPIC_ALREADY_EXISTS, and nothing changes",
    sources=_CREATION,
    asks=CREATE,
)
def exists(stage: Stage) -> Program:
    name, topic_id = yield from created(stage, partitions=2)
    for validate in (False, True):
        answer = yield Ask(creation(new(name, 5), validate_only=validate))
        result = only("results", answer.message.topics)
        same("the name", result.name, name)
        code("CreateTopics of a name that exists", result.error_code, 36)
    topic = yield from shown(stage, name)
    if topic is not None:
        same("its partitions", len(topic.partitions), 2)
        same("its id", topic.topic_id, topic_id)


@case(
    "CreateTopics: names that no topic can have get INVALID_TOPIC_EXCEPTION",
    sources="Topic.validate",
    asks=CREATE,
)
def names(stage: Stage) -> Program:
    for name in ("", ".", "..", "a b", "é", "a/b", "a:b", "a*", "x" * 250):
        yield from refused(stage, new(name), 17)


@case(
    "CreateTopics: 249 letters, digits, dots, underscores and dashes are a name",
    sources="Topic.validate",
    asks=CREATE,
)
def long_name(stage: Stage) -> Program:
    name = stage.name("-A.z_")
    name += "x" * (249 - len(name))
    code(
        "CreateTopics",
        only("results", (yield Ask(creation(new(name)))).message.topics).error_code,
        0,
    )
    yield from shown(stage, name)


@case(
    "CreateTopics: names that differ in '.' and '_' alone collide",
    sources="ReplicationControlManager.validateNewTopicNames; KAFKA-6718",
    asks=CREATE,
)
def collision(stage: Stage) -> Program:
    base = stage.name()
    first, second = f"{base}.a", f"{base}_a"
    answer = yield Ask(creation(new(first)))
    code("CreateTopics of the first", only("results", answer.message.topics).error_code, 0)
    yield from refused(stage, new(second), 17)


@case(
    "CreateTopics: a topic twice in a request is refused as a whole, others are made",
    sources="ControllerApis.createTopics",
    asks=CREATE,
    kraft=True,  # KafkaApis.handleCreateTopicsRequest tells it twice
)
def twice(stage: Stage) -> Program:
    name, good = stage.name(), stage.name()
    answer = yield Ask(creation(new(name), new(good), new(name)))
    results = by_name("results", answer.message.topics)
    same("topics of the answer", set(results), {name, good})
    code("CreateTopics of a topic twice", results[name].error_code, 42)
    code("CreateTopics of the other one", results[good].error_code, 0)
    yield from shown(stage, good)
    yield from absent(stage, name)


@case("CreateTopics: partitions below 1 get INVALID_PARTITIONS", sources=_CREATION, asks=CREATE)
def partition_counts(stage: Stage) -> Program:
    for count in (0, -2, -100):
        yield from refused(stage, new(stage.name(), count), 37, what=f"of {count} partitions")


@case(
    "CreateTopics: a replication factor that cannot be gets INVALID_REPLICATION_FACTOR",
    sources=_CREATION,
    asks=CREATE,
)
def replication_factors(stage: Stage) -> Program:
    for factor in (0, -2, 1_000, 32_767):
        what = f"with replication factor {factor}"
        yield from refused(stage, new(stage.name(), 1, factor), 38, what=what)
    if stage.facts.brokers:
        factor = len(stage.facts.brokers) + 1
        yield from refused(stage, new(stage.name(), 1, factor), 38)


@case(
    "CreateTopics: an assignment beside numbers of its own gets INVALID_REQUEST",
    sources=_CREATION,
    asks=CREATE,
    brokers=1,
)
def numbers_and_assignment(stage: Stage) -> Program:
    (a,) = broker_pairs(stage, 1)
    for partitions, factor in ((1, -1), (-1, 1)):
        topic = new(stage.name(), assignments=[(a,)])
        topic.num_partitions, topic.replication_factor = partitions, factor
        yield from refused(stage, topic, 42)


@case(
    "CreateTopics: assignments that cannot be get INVALID_REPLICA_ASSIGNMENT",
    sources=f"{_CREATION}, validateManualPartitionAssignment",
    asks=CREATE,
    brokers=1,
)
def bad_assignments(stage: Stage) -> Program:
    (a,) = broker_pairs(stage, 1)
    none = unknown_broker(stage)
    wrong: list[tuple[str, Any]] = [
        ("to an unknown broker", new(stage.name(), assignments=[(none,)])),
        ("to a broker twice", new(stage.name(), assignments=[(a, a)])),
        ("to no broker", new(stage.name(), assignments=[()])),
        ("to a broker and an unknown one", new(stage.name(), assignments=[(a, none)])),
    ]
    gap = new(stage.name(), assignments=[(a,), (a,)])
    gap.assignments[1].partition_index = 2
    again = new(stage.name(), assignments=[(a,)])
    again.assignments.append(Assignment(partition_index=0, broker_ids=(a,)))
    late = new(stage.name(), assignments=[(a,)])
    late.assignments[0].partition_index = 1
    wrong += [("with a gap", gap), ("of a partition twice", again), ("without partition 0", late)]
    if stage.facts.zookeeper:
        # ZkAdminManager, AdminZkClient.validateTopicCreate: brokers are not looked at; the last
        # entry of a partition counts.
        seen = {"to a broker twice", "with a gap", "without partition 0"}
        wrong = [one for one in wrong if one[0] in seen]
    for what, topic in wrong:
        yield from refused(stage, topic, 39, what=what)


@case(
    "CreateTopics: partitions of different replication factors get INVALID_REPLICA_ASSIGNMENT",
    sources=_CREATION,
    asks=CREATE,
    brokers=2,
)
def uneven_assignments(stage: Stage) -> Program:
    a, b = broker_pairs(stage, 2)
    yield from refused(stage, new(stage.name(), assignments=[(a, b), (a,)]), 39)


@case(
    "CreateTopics: configs that cannot be get INVALID_CONFIG",
    sources="ConfigurationControlManager, LogConfig.validate",
    asks=CREATE,
)
def bad_configs(stage: Stage) -> Program:
    wrong = {
        "retention.ms": "x",
        "cleanup.policy": "shred",
        "segment.bytes": "1",
        "min.insync.replicas": "0",
        "max.message.bytes": "-1",
        "compression.type": "zip",
        "message.timestamp.type": "SomeTime",
        "unclean.leader.election.enable": "perhaps",
        "no.such.config": "1",
    }
    for key, value in wrong.items():
        topic = new(stage.name(), configs={key: value})
        yield from refused(stage, topic, 40, what=f"with {key}={value}")


@case("CreateTopics: validate_only judges and makes nothing", sources="KIP-4", asks=CREATE)
def validate_only(stage: Stage) -> Program:
    good, bad = stage.name(), stage.name()
    answer = yield Ask(creation(new(good, 3), new(bad, 0), validate_only=True), lowest=5)
    results = by_name("results", answer.message.topics)
    code("CreateTopics, validate_only", results[good].error_code, 0)
    same("partitions of the result", results[good].num_partitions, 3)
    code("CreateTopics of 0 partitions, validate_only", results[bad].error_code, 37)
    answer = yield Ask(creation(new(good)))
    code("CreateTopics afterwards", only("results", answer.message.topics).error_code, 0)
    topic = yield from shown(stage, good)
    if topic is not None:
        same("its partitions", len(topic.partitions), 1)


@case(
    "CreateTopics of no topic answers with none", level=Level.SHOULD, sources=_CREATION, asks=CREATE
)
def nothing(stage: Stage) -> Program:
    same("results", (yield Ask(creation())).message.topics, [])


@case(
    "CreateTopics of __cluster_metadata is refused",
    sources="ControllerApis.createTopics",
    asks=CREATE,
    level=Level.SHOULD,
    since="3.9",  # TOPIC_AUTHORIZATION_FAILED before
)
def cluster_metadata(stage: Stage) -> Program:
    answer = yield Ask(creation(new("__cluster_metadata"), validate_only=True))
    result = only("results", answer.message.topics)
    code("CreateTopics of __cluster_metadata", result.error_code, 42)


@case("CreateTopics: 100 topics in one request are all made", sources=_CREATION, asks=CREATE)
def many(stage: Stage) -> Program:
    names = [stage.name() for _ in range(100)]
    answer = yield Ask(creation(*map(new, names)))
    results = by_name("results", answer.message.topics)
    same("topics of the answer", set(results), set(names))
    wrong = {one.name: one.error_code for one in results.values() if one.error_code}
    same("errors", wrong, {})
    for name in stage.rng.sample(names, 3):
        yield from shown(stage, name)


# ------------------------------------------------------------------ DeleteTopics
def deletion(*names: str, ids: tuple[bytes, ...] = ()) -> Any:
    """A DeleteTopics request of version 6."""
    state = m.DeleteTopicsRequest.DeleteTopicState
    topics = [state(name=one) for one in names] + [state(topic_id=one) for one in ids]
    return m.DeleteTopicsRequest(topics=topics, timeout_ms=20_000)


@case(
    "DeleteTopics by name removes the topic, and its name is free again",
    sources="KIP-4, KIP-516",
    asks=DELETE,
)
def delete(stage: Stage) -> Program:
    name, first = yield from created(stage, partitions=2, configs={"retention.ms": "77777"})
    stage.versions(m.DeleteTopicsRequest)
    result = only("results", (yield Ask(deletion(name), lowest=6)).message.responses)
    same("the name", result.name, name)
    code("DeleteTopics", result.error_code, 0)
    if not stage.facts.zookeeper:  # KafkaApis.handleDeleteTopicsRequest tells none then
        same("the id of the result", result.topic_id, first)
    yield from absent(stage, name)
    message = (yield Ask(creation(new(name)), lowest=7)).message
    if stage.facts.zookeeper:  # brokers forget a topic before its znode goes
        message = yield from eventually(
            f"CreateTopics of {name} again",
            creation(new(name)),
            lambda one: only("results", one.topics).error_code != TOPIC_ALREADY_EXISTS,
            lowest=7,
        )
    again = only("results", message.topics)
    code("CreateTopics of the name again", again.error_code, 0)
    holds("the new topic's id", again.topic_id != first, "another one", again.topic_id)
    old = {one.name: one.value for one in again.configs or []}
    if "retention.ms" in old:
        holds(
            "its config", old["retention.ms"] != "77777", "not the old topic's", old["retention.ms"]
        )
    if reads(stage):
        yield from shown(stage, name, lambda one: one.topic_id == again.topic_id)


@case("DeleteTopics by id removes that topic", sources="KIP-516", asks=DELETE)
def delete_by_id(stage: Stage) -> Program:
    name, topic_id = yield from created(stage)
    result = only("results", (yield Ask(deletion(ids=(topic_id,)), lowest=6)).message.responses)
    code("DeleteTopics by id", result.error_code, 0)
    same("the id of the result", result.topic_id, topic_id)
    same("the name of the result", result.name, name)
    yield from absent(stage, name)


@case(
    "DeleteTopics: an unknown name gets UNKNOWN_TOPIC_OR_PARTITION, an unknown id UNKNOWN_TOPIC_ID",
    sources="ControllerApis.deleteTopics",
    asks=DELETE,
)
def delete_unknown(stage: Stage) -> Program:
    name, good = stage.name(), (yield from created(stage))[0]
    none = stage.rng.randbytes(16)
    answer = yield Ask(deletion(name, good, ids=(none,)), lowest=6)
    same("results", len(answer.message.responses), 3)
    codes = {one.name or one.topic_id: one.error_code for one in answer.message.responses}
    code("DeleteTopics of an unknown name", codes.get(name, 0), 3)
    code("DeleteTopics of an unknown id", codes.get(none, 0), 100)
    code("DeleteTopics of the one beside them", codes.get(good, -1), 0)
    yield from absent(stage, good)


@case(
    "DeleteTopics: a name twice, neither name nor id, and both get INVALID_REQUEST",
    sources="ControllerApis.deleteTopics",
    asks=DELETE,
    kraft=True,  # KafkaApis.handleDeleteTopicsRequest deletes it once
)
def delete_twice(stage: Stage) -> Program:
    name, topic_id = yield from created(stage)
    state = m.DeleteTopicsRequest.DeleteTopicState
    for topics in (
        [state(name=name), state(name=name)],
        [state(topic_id=topic_id), state(topic_id=topic_id)],
        [state()],
        [state(name=name, topic_id=topic_id)],
    ):
        asked = m.DeleteTopicsRequest(topics=topics, timeout_ms=20_000)
        answer = (yield Ask(asked, lowest=6)).message
        holds("DeleteTopics", answer.responses, "results", answer.responses)
        for one in answer.responses:
            code(f"DeleteTopics of {topics}", one.error_code, 42)
    yield from shown(stage, name)


# ------------------------------------------------------------------ CreatePartitions
def growth(*topics: Any, validate_only: bool = False) -> Any:
    """A CreatePartitions request."""
    return m.CreatePartitionsRequest(
        topics=list(topics), timeout_ms=20_000, validate_only=validate_only
    )


def grown(name: str, count: int, assignments: Sequence[tuple[int, ...]] | None = None) -> Any:
    """A topic to grow."""
    kind = m.CreatePartitionsRequest
    given = None
    if assignments is not None:
        given = [kind.CreatePartitionsAssignment(broker_ids=one) for one in assignments]
    return kind.CreatePartitionsTopic(name=name, count=count, assignments=given)


@case(
    "CreatePartitions grows a topic, and leaves its partitions as they are",
    sources="KIP-195",
    asks=GROW,
)
def grow(stage: Stage) -> Program:
    name, topic_id = yield from created(stage, partitions=2)
    before = yield from shown(stage, name)
    result = only("results", (yield Ask(growth(grown(name, 6)))).message.results)
    same("the name", result.name, name)
    code("CreatePartitions", result.error_code, 0)
    after = yield from shown(stage, name, lambda one: len(one.partitions) == 6)
    if after is None:
        return
    same("the topic's id", after.topic_id, topic_id)
    old = {one.partition_index: tuple(one.replica_nodes) for one in before.partitions}
    new_ = {one.partition_index: tuple(one.replica_nodes) for one in after.partitions}
    same("partition numbers", sorted(new_), list(range(6)))
    same("replicas of those that were there", {k: new_[k] for k in old}, old)


@case(
    "CreatePartitions: a count that is not larger gets INVALID_PARTITIONS",
    sources="ReplicationControlManager.createPartitions",
    asks=GROW,
)
def not_grown(stage: Stage) -> Program:
    name, _ = yield from created(stage, partitions=3)
    for count in (3, 2, 0, -1):
        result = only("results", (yield Ask(growth(grown(name, count)))).message.results)
        code(f"CreatePartitions from 3 to {count}", result.error_code, 37)
    yield from shown(stage, name, lambda one: len(one.partitions) == 3)


@case(
    "CreatePartitions: an unknown topic alone fails, others grow",
    sources="ReplicationControlManager.createPartitions",
    asks=GROW,
)
def grow_unknown(stage: Stage) -> Program:
    name, none = (yield from created(stage))[0], stage.name()
    results = by_name(
        "results", (yield Ask(growth(grown(none, 2), grown(name, 2)))).message.results
    )
    same("topics of the answer", set(results), {name, none})
    code("CreatePartitions of an unknown topic", results[none].error_code, 3)
    code("CreatePartitions of the one beside it", results[name].error_code, 0)
    yield from shown(stage, name, lambda one: len(one.partitions) == 2)


@case(
    "CreatePartitions: a topic twice gets INVALID_REQUEST",
    sources="ControllerApis.createPartitions",
    asks=GROW,
)
def grow_twice(stage: Stage) -> Program:
    name, _ = yield from created(stage)
    answer = (yield Ask(growth(grown(name, 2), grown(name, 3)))).message
    for one in answer.results:
        code("CreatePartitions of a topic twice", one.error_code, 42)
    holds("results", answer.results, "at least one", answer.results)
    yield from shown(stage, name, lambda one: len(one.partitions) == 1)


@case("CreatePartitions: validate_only judges and grows nothing", sources="KIP-195", asks=GROW)
def grow_validate_only(stage: Stage) -> Program:
    name, _ = yield from created(stage)
    for count, expected in ((4, 0), (1, 37)):
        asked = growth(grown(name, count), validate_only=True)
        result = only("results", (yield Ask(asked)).message.results)
        code(f"CreatePartitions to {count}, validate_only", result.error_code, expected)
    result = only("results", (yield Ask(growth(grown(name, 2)))).message.results)
    code("CreatePartitions afterwards", result.error_code, 0)
    yield from shown(stage, name, lambda one: len(one.partitions) == 2)


@case("CreatePartitions places by hand as it is told", sources="KIP-195", asks=GROW, brokers=2)
def grow_by_hand(stage: Stage) -> Program:
    a, b = broker_pairs(stage, 2)
    name, _ = yield from created(stage, assignments=[(a, b)])
    wanted = [(b, a), (a, b)]
    result = only("results", (yield Ask(growth(grown(name, 3, wanted)))).message.results)
    code("CreatePartitions by hand", result.error_code, 0)
    topic = yield from shown(stage, name, lambda one: len(one.partitions) == 3)
    got = {one.partition_index: tuple(one.replica_nodes) for one in topic.partitions}
    same("replicas", got, {0: (a, b), 1: (b, a), 2: (a, b)})


@case(
    "CreatePartitions: assignments that cannot be get INVALID_REPLICA_ASSIGNMENT",
    sources="ReplicationControlManager.createPartitions",
    asks=GROW,
    brokers=2,
)
def grow_badly(stage: Stage) -> Program:
    a, b = broker_pairs(stage, 2)
    name, _ = yield from created(stage, assignments=[(a,)])
    none = unknown_broker(stage)
    for what, count, wanted in (
        ("one assignment for two partitions", 3, [(a,)]),
        ("two assignments for one partition", 2, [(a,), (b,)]),
        ("another replication factor", 2, [(a, b)]),
        ("an unknown broker", 2, [(none,)]),
        ("a broker twice", 2, [(a, a)]),
        ("no broker", 2, [()]),
    ):
        result = only("results", (yield Ask(growth(grown(name, count, wanted)))).message.results)
        code(f"CreatePartitions with {what}", result.error_code, 39)
    yield from shown(stage, name, lambda one: len(one.partitions) == 1)


@case(
    "a topic that was made through one listener is known to the other one",
    sources="KIP-500",
    asks=CREATE,
    where=Where.CONTROLLER,
    brokers=1,
)
def both_listeners(stage: Stage) -> Program:
    name, _ = yield from created(stage)
    asked = creation(new(name))
    result = only("results", (yield Ask(asked, at=Where.BROKER)).message.topics)
    code("CreateTopics through the broker", result.error_code, 36)
