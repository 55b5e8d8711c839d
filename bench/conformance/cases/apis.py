"""Every API and version that ``wire`` knows: a valid request is answered in that version.

The answer decodes to its last byte, names what was asked, and has the error that the state asks
for. Then the same request, with unknown tagged fields in every struct, is answered alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from bench.conformance import asking
from bench.conformance.case import (
    Again,
    Answer,
    Ask,
    Case,
    Level,
    NotOffered,
    Pause,
    Program,
    Stage,
    Where,
    add,
    code,
    holds,
    only,
    same,
)
from bench.conformance.connection import canonical
from bench.conformance.echo import bare, partitions
from bench.conformance.facts import greeting
from wire import messages as m
from wire.releases import forwardable
from wire.schema import Layout, layout, spec

INVALID_REQUEST: Final = 42
Check: TypeAlias = Callable[[Any, int], None]
Made: TypeAlias = tuple[Any, Check]
"""A request, and what looks at its answer in a version."""
Maker: TypeAlias = Callable[[Stage, int], Program]
"""Returns a :data:`Made` for a version."""


@dataclass(frozen=True, slots=True)
class Api:
    """How an API is asked.

    ``stored``: it is of records, groups and transactions. ``bare``: its refusal has values too, and
    no check of an answer looks at them.
    """

    maker: Maker
    where: tuple[Where, ...] = (Where.BROKER, Where.CONTROLLER)
    stored: bool = False
    bare: bool = False
    disruptive: bool = False
    lowest: int = 0


_APIS: dict[type, Api] = {}


def api(request: type, **how: Any) -> Callable[[Maker], Maker]:
    """Say how a request is made."""

    def enter(maker: Maker) -> Maker:
        _APIS[request] = Api(maker, **how)
        return maker

    return enter


BROKER: Final = (Where.BROKER,)
CONTROLLER: Final = (Where.CONTROLLER,)


def plain(
    request: type, values: Callable[[Stage], Mapping[str, Any]], check: Check, **how: Any
) -> None:
    """An API whose request needs nothing on the server; its fields may differ by stage."""

    def maker(stage: Stage, version: int) -> Program:
        yield from ()
        del version
        return request(**values(stage)), check

    api(request, **how)(maker)


def top(*codes: int) -> Check:
    """The error of the whole answer."""

    def check(message: Any, version: int) -> None:
        del version
        code("its error", message.error_code, *codes)

    return check


def fits_nothing(message: Any, version: int) -> None:
    """No demand but that it decodes."""


# ------------------------------------------------------------------ what both listeners have
@api(m.ApiVersionsRequest)
def _api_versions(stage: Stage, version: int) -> Program:
    yield from ()

    def check(message: Any, version: int) -> None:
        code("its error", message.error_code, 0)
        keys = {one.api_key for one in message.api_keys}
        known = set(stage.facts.ranges[stage.here])
        same("the listed APIs", keys - forwardable("3.9"), known - forwardable("3.9"))

    return greeting(), check


@api(m.CreateTopicsRequest)
def _create_topics(stage: Stage, version: int) -> Program:
    yield from ()
    name = stage.name()
    partitions = stage.rng.randint(1, 5)
    placed = version >= 4 or not stage.facts.brokers
    made = asking.new(name, partitions if placed else 1)

    def check(message: Any, version: int) -> None:
        result = only("results", message.topics)
        same("the topic's name", result.name, name)
        code("its error", result.error_code, 0)
        if version >= 5:
            same("partitions of the result", result.num_partitions, made.num_partitions)
            same("replication factor of the result", result.replication_factor, 1)
            same("error of its configs", result.topic_config_error_code, 0)
        if version >= 7:
            holds("the topic's id", any(result.topic_id), "an id", result.topic_id)

    return asking.creation(made), check


@api(m.DeleteTopicsRequest)
def _delete_topics(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.created(stage)

    def check(message: Any, version: int) -> None:
        result = only("results", message.responses)
        same("the topic's name", result.name, name)
        code("its error", result.error_code, 0)

    kind = m.DeleteTopicsRequest
    if version >= 6:
        return kind(topics=[kind.DeleteTopicState(name=name)], timeout_ms=20_000), check
    return kind(topic_names=[name], timeout_ms=20_000), check


@api(m.CreatePartitionsRequest)
def _create_partitions(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.created(stage)
    kind = m.CreatePartitionsRequest
    topic = kind.CreatePartitionsTopic(name=name, count=3, assignments=None)

    def check(message: Any, version: int) -> None:
        result = only("results", message.results)
        same("the topic's name", result.name, name)
        code("its error", result.error_code, 0)

    return kind(topics=[topic], timeout_ms=20_000), check


@api(m.DescribeConfigsRequest)
def _describe_configs(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.shared(stage)
    kind = m.DescribeConfigsRequest
    resource = kind.DescribeConfigsResource(
        resource_type=2, resource_name=name, configuration_keys=None
    )

    def check(message: Any, version: int) -> None:
        result = only("results", message.results)
        same("the resource", (result.resource_type, result.resource_name), (2, name))
        code("its error", result.error_code, 0)
        names = {one.name for one in result.configs}
        holds("its configs", {"retention.ms", "cleanup.policy"} <= names, "those of a topic", names)
        for one in result.configs:
            same(f"whether {one.name} is sensitive", one.is_sensitive, False)

    return kind(resources=[resource], include_synonyms=version >= 1), check


def _resource_answered(kind: int, name: str, *codes: int) -> Check:
    def check(message: Any, version: int) -> None:
        result = only("results", message.responses)
        same("the resource", (result.resource_type, result.resource_name), (kind, name))
        code("its error", result.error_code, *codes)

    return check


@api(m.AlterConfigsRequest)
def _alter_configs(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.shared(stage)
    kind = m.AlterConfigsRequest
    value = str(stage.rng.randint(100_000, 900_000))
    resource = kind.AlterConfigsResource(
        resource_type=2,
        resource_name=name,
        configs=[kind.AlterableConfig(name="retention.ms", value=value)],
    )
    return kind(resources=[resource]), _resource_answered(2, name, 0)


@api(m.IncrementalAlterConfigsRequest)
def _incremental_alter_configs(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.shared(stage)
    kind = m.IncrementalAlterConfigsRequest
    value = str(stage.rng.randint(100_000, 900_000))
    resource = kind.AlterConfigsResource(
        resource_type=2,
        resource_name=name,
        configs=[kind.AlterableConfig(name="segment.ms", config_operation=0, value=value)],
    )
    return kind(resources=[resource]), _resource_answered(2, name, 0)


@api(m.ElectLeadersRequest)
def _elect_leaders(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.shared(stage)
    kind = m.ElectLeadersRequest
    asked = kind(
        topic_partitions=[kind.TopicPartitions(topic=name, partitions=(0,))], timeout_ms=20_000
    )

    def check(message: Any, version: int) -> None:
        if version >= 1:
            code("its error", message.error_code, 0)
        result = only("results", message.replica_election_results)
        same("the topic's name", result.topic, name)
        code("of the partition", only("partitions", result.partition_result).error_code, 84)

    return asked, check


@api(m.AlterPartitionReassignmentsRequest)
def _alter_reassignments(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.shared(stage)
    kind = m.AlterPartitionReassignmentsRequest
    part = kind.ReassignablePartition(partition_index=0, replicas=None)
    asked = kind(topics=[kind.ReassignableTopic(name=name, partitions=[part])], timeout_ms=20_000)

    def check(message: Any, version: int) -> None:
        code("its error", message.error_code, 0)
        result = only("results", message.responses)
        same("the topic's name", result.name, name)
        code("of the partition", only("partitions", result.partitions).error_code, 85)

    return asked, check


@api(m.ListPartitionReassignmentsRequest)
def _list_reassignments(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.shared(stage)
    kind = m.ListPartitionReassignmentsRequest
    topic = kind.ListPartitionReassignmentsTopics(name=name, partition_indexes=(0, 1))

    def check(message: Any, version: int) -> None:
        code("its error", message.error_code, 0)
        same("reassignments", message.topics, [])

    return kind(topics=[topic], timeout_ms=20_000), check


@api(m.AlterClientQuotasRequest)
def _alter_quotas(stage: Stage, version: int) -> Program:
    yield from ()
    name = stage.name()
    kind = m.AlterClientQuotasRequest
    entity = [kind.EntityData(entity_type="user", entity_name=name)]
    ops = [kind.OpData(key="consumer_byte_rate", value=float(stage.rng.randint(1_000, 1 << 40)))]

    def check(message: Any, version: int) -> None:
        result = only("results", message.entries)
        code("its error", result.error_code, 0)
        got = [(one.entity_type, one.entity_name) for one in result.entity]
        same("the entity", got, [("user", name)])

    return kind(entries=[kind.EntryData(entity=entity, ops=ops)]), check


@api(m.AlterUserScramCredentialsRequest)
def _alter_scram(stage: Stage, version: int) -> Program:
    yield from ()
    name = stage.name()
    kind = m.AlterUserScramCredentialsRequest
    upsertion = kind.ScramCredentialUpsertion(
        name=name,
        mechanism=1,
        iterations=4_096,
        salt=stage.rng.randbytes(16),
        salted_password=stage.rng.randbytes(32),
    )

    def check(message: Any, version: int) -> None:
        result = only("results", message.results)
        same("the user", result.user, name)
        code("its error", result.error_code, 0)

    return kind(upsertions=[upsertion]), check


def _secured(stage: Stage, message_code: int) -> None:
    """54 alone where no authorizer is, 0 alone where one is."""
    if stage.facts.authorizer is not None:
        code("its error", message_code, 0 if stage.facts.authorizer else 54)


@api(m.DescribeAclsRequest)
def _describe_acls(stage: Stage, version: int) -> Program:
    yield from ()
    asked = m.DescribeAclsRequest(
        resource_type_filter=2,
        resource_name_filter=stage.name(),
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )

    def check(message: Any, version: int) -> None:
        _secured(stage, message.error_code)
        same("entries", message.resources, [])

    return asked, check


@api(m.CreateAclsRequest)
def _create_acls(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.CreateAclsRequest
    creation = kind.AclCreation(
        resource_type=2,
        resource_name=stage.name(),
        resource_pattern_type=3,
        principal=f"User:{stage.name()}",
        host="*",
        operation=3,
        permission_type=3,
    )

    def check(message: Any, version: int) -> None:
        _secured(stage, only("results", message.results).error_code)

    return kind(creations=[creation]), check


@api(m.DeleteAclsRequest)
def _delete_acls(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.DeleteAclsRequest
    one = kind.DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter=stage.name(),
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )

    def check(message: Any, version: int) -> None:
        result = only("results", message.filter_results)
        _secured(stage, result.error_code)
        same("entries", result.matching_acls, [])

    return kind(filters=[one]), check


plain(m.SaslHandshakeRequest, lambda _: {"mechanism": "PLAIN"}, top(34), where=BROKER)
plain(m.SaslAuthenticateRequest, lambda _: {"auth_bytes": b"x"}, top(34), where=BROKER, bare=True)
_NO_TOKENS: Final = (61, 64)
_TOKEN_CODES: Final = (0, 61, 62, 63, 64)
plain(
    m.CreateDelegationTokenRequest,
    lambda _: {
        "owner_principal_type": "",
        "owner_principal_name": "",
        "renewers": [],
        "max_lifetime_ms": 1,
    },
    top(*_NO_TOKENS, 0),
    where=BROKER,
    disruptive=True,
)
plain(
    m.RenewDelegationTokenRequest,
    lambda s: {"hmac": s.rng.randbytes(64)},
    top(61, 62, 64),
    where=BROKER,
)
plain(
    m.ExpireDelegationTokenRequest,
    lambda s: {"hmac": s.rng.randbytes(64)},
    top(61, 62, 64),
    where=BROKER,
)
plain(m.DescribeDelegationTokenRequest, lambda _: {"owners": None}, top(0, 61, 64), where=BROKER)


# ------------------------------------------------------------------ metadata, of a broker
@api(m.MetadataRequest, where=BROKER)
def _metadata(stage: Stage, version: int) -> Program:
    name, topic_id = yield from asking.shared(stage)

    def check(message: Any, version: int) -> None:
        topic = only("topics", message.topics)
        code("of the topic", topic.error_code, 0)
        same("the topic's name", topic.name, name)
        same("partitions", sorted(one.partition_index for one in topic.partitions), [0, 1])
        ids = tuple(sorted(one.node_id for one in message.brokers))
        same("brokers", ids, stage.facts.brokers)
        if version >= 2:
            same("the cluster's id", message.cluster_id, stage.facts.cluster_id)
        if version >= 10 and any(topic_id):
            same("the topic's id", topic.topic_id, topic_id)

    return asking.metadata(name) if version >= 4 else m.MetadataRequest(
        topics=asking.metadata(name).topics
    ), check


@api(m.DescribeClusterRequest, where=BROKER)
def _describe_cluster(stage: Stage, version: int) -> Program:
    yield from ()

    def check(message: Any, version: int) -> None:
        code("its error", message.error_code, 0)
        same("the cluster's id", message.cluster_id, stage.facts.cluster_id)
        ids = tuple(sorted(one.broker_id for one in message.brokers))
        same("brokers", ids, stage.facts.brokers)

    return m.DescribeClusterRequest(), check


@api(m.DescribeTopicPartitionsRequest, where=BROKER)
def _describe_topic_partitions(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.shared(stage)
    kind = m.DescribeTopicPartitionsRequest

    def check(message: Any, version: int) -> None:
        topic = only("topics", message.topics)
        code("of the topic", topic.error_code, 0)
        same("the topic's name", topic.name, name)
        same("whether it is internal", topic.is_internal, False)
        found = [(one.partition_index, one.error_code) for one in topic.partitions]
        same("partitions and their errors", found, [(0, 0), (1, 0)])
        same("the cursor", message.next_cursor, None)
        if stage.facts.authorizer is False:
            same(
                "operations without an authorizer",
                topic.topic_authorized_operations,
                asking.ON_TOPIC,
            )

    return kind(topics=[kind.TopicRequest(name=name)]), check


@api(m.DescribeClientQuotasRequest, where=BROKER)
def _describe_quotas(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.DescribeClientQuotasRequest
    component = kind.ComponentData(entity_type="user", match_type=0, match=stage.name())

    def check(message: Any, version: int) -> None:
        code("its error", message.error_code, 0)
        same("entries", message.entries, [])

    return kind(components=[component], strict=True), check


@api(m.DescribeUserScramCredentialsRequest, where=BROKER)
def _describe_scram(stage: Stage, version: int) -> Program:
    yield from ()
    name = stage.name()
    kind = m.DescribeUserScramCredentialsRequest

    def check(message: Any, version: int) -> None:
        code("its error", message.error_code, 0)
        result = only("results", message.results)
        same("the user", result.user, name)
        code("of the user", result.error_code, 91)

    return kind(users=[kind.UserName(name=name)]), check


@api(m.DescribeQuorumRequest)
def _describe_quorum(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.DescribeQuorumRequest
    part = kind.PartitionData(partition_index=0)
    asked = kind(topics=[kind.TopicData(topic_name="__cluster_metadata", partitions=[part])])

    def check(message: Any, version: int) -> None:
        code("its error", message.error_code, 0)
        partition = only("partitions", only("topics", message.topics).partitions)
        code("of the partition", partition.error_code, 0)
        holds("the leader", partition.leader_id >= 0, "an id", partition.leader_id)
        holds("the voters", partition.current_voters, "not empty", partition.current_voters)

    return asked, check


@api(m.UpdateFeaturesRequest)
def _update_features(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.UpdateFeaturesRequest
    update = kind.FeatureUpdateKey(feature="no.such.feature", max_version_level=1)

    def check(message: Any, version: int) -> None:
        # One feature alone: as the error of all, or as its own.
        results = [one.error_code for one in message.results]
        # KafkaController.updateFeatures says INVALID_REQUEST of a feature that is not supported.
        expected = {42, 95} if stage.facts.zookeeper else {95}
        found = expected & {message.error_code, *results}
        holds("its error", found, "INVALID_UPDATE_VERSION", message)

    return kind(feature_updates=[update], timeout_ms=20_000), check


plain(
    m.UnregisterBrokerRequest,
    lambda s: {"broker_id": asking.unknown_broker(s)},
    top(102),
    disruptive=True,
)
plain(m.ListClientMetricsResourcesRequest, lambda _: {}, top(0), where=BROKER)


@api(m.ListTransactionsRequest, where=BROKER, stored=True)
def _list_transactions(stage: Stage, version: int) -> Program:
    yield from ()
    return m.ListTransactionsRequest(), top(0, 14)


# ------------------------------------------------------------------ records, of a broker
def _partitions_of(
    list_of: Callable[[Any], Any], partitions: str, error: str, *codes: int
) -> Check:
    def check(message: Any, version: int) -> None:
        topic = only("topics", list_of(message))
        part = only("partitions", getattr(topic, partitions))
        code("of the partition", getattr(part, error), *codes)

    return check


@api(m.ProduceRequest, where=BROKER, stored=True, bare=True)
def _produce(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.ProduceRequest
    part = kind.PartitionProduceData(index=0, records=b"")
    topic = kind.TopicProduceData(name=stage.name(), partition_data=[part])
    check = _partitions_of(lambda one: one.responses, "partition_responses", "error_code", 3)
    return kind(acks=1, timeout_ms=10_000, topic_data=[topic]), check


@api(m.FetchRequest, where=BROKER, stored=True, bare=True)
def _fetch(stage: Stage, version: int) -> Program:
    name, topic_id = yield from asking.shared(stage)
    kind = m.FetchRequest
    part = kind.FetchPartition(partition=7_777, fetch_offset=0, partition_max_bytes=1_000)
    topic = kind.FetchTopic(topic=name, topic_id=topic_id, partitions=[part])
    asked = kind(max_wait_ms=0, min_bytes=0, max_bytes=1_000, topics=[topic])
    check = _partitions_of(lambda one: one.responses, "partitions", "error_code", 3)
    return asked, check


@api(m.ListOffsetsRequest, where=BROKER, stored=True, bare=True)
def _list_offsets(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.ListOffsetsRequest
    part = kind.ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = kind.ListOffsetsTopic(name=stage.name(), partitions=[part])
    check = _partitions_of(lambda one: one.topics, "partitions", "error_code", 3)
    return kind(replica_id=-1, topics=[topic]), check


@api(m.DeleteRecordsRequest, where=BROKER, stored=True, bare=True)
def _delete_records(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.DeleteRecordsRequest
    part = kind.DeleteRecordsPartition(partition_index=0, offset=0)
    topic = kind.DeleteRecordsTopic(name=stage.name(), partitions=[part])
    check = _partitions_of(lambda one: one.topics, "partitions", "error_code", 3)
    return kind(topics=[topic], timeout_ms=10_000), check


@api(m.OffsetForLeaderEpochRequest, where=BROKER, stored=True, bare=True)
def _leader_epoch(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.OffsetForLeaderEpochRequest
    part = kind.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = kind.OffsetForLeaderTopic(topic=stage.name(), partitions=[part])
    check = _partitions_of(lambda one: one.topics, "partitions", "error_code", 3)
    return kind(replica_id=-1, topics=[topic]), check


@api(m.DescribeProducersRequest, where=BROKER, stored=True)
def _describe_producers(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.DescribeProducersRequest
    topic = kind.TopicRequest(name=stage.name(), partition_indexes=(0,))
    check = _partitions_of(lambda one: one.topics, "partitions", "error_code", 3)
    return kind(topics=[topic]), check


@api(m.InitProducerIdRequest, where=BROKER)
def _init_producer_id(stage: Stage, version: int) -> Program:
    asked = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    first = yield from asking.eventually(
        "InitProducerId, once a block of ids is there", asked, lambda one: one.error_code != 14
    )
    code("InitProducerId", first.error_code, 0)

    def check(message: Any, version: int) -> None:
        code("its error", message.error_code, 0)
        holds("the producer id", message.producer_id >= 0, "0 or more", message.producer_id)
        same("the producer epoch", message.producer_epoch, 0)

    return asked, check


_OFFLINE: Final = 56
"""KAFKA_STORAGE_ERROR."""


def _folders(message: Any, version: int) -> None:
    code("its error", message.error_code, 0)
    holds("the folders", message.results, "at least one", message.results)
    for one in message.results:
        code("of a folder", one.error_code, 0, _OFFLINE)


plain(m.DescribeLogDirsRequest, lambda _: {"topics": []}, _folders, where=BROKER)


@api(m.AlterReplicaLogDirsRequest, where=BROKER, stored=True)
def _alter_log_dirs(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.AlterReplicaLogDirsRequest
    topic = kind.AlterReplicaLogDirTopic(name=stage.name(), partitions=(0,))
    asked = kind(dirs=[kind.AlterReplicaLogDir(path="/no/such/folder", topics=[topic])])
    return asked, _partitions_of(lambda one: one.results, "partitions", "error_code", 57, 3)


# ------------------------------------------------------------------ groups and transactions
_COORDINATION: Final = (14, 15, 16)
"""What a broker answers that is not the coordinator: it stores no topic of offsets, perhaps."""


_NOT_COORDINATOR: Final = 16
_NAMES: Final = 16
"""So many names are drawn, until one is coordinated where it is to be."""
_MOMENT_S: Final = 0.05
"""Between them: a topic of offsets that was just made is empty, and yet read first."""


def coordinated(
    stage: Stage, asked: Callable[[str], Any], *, here: bool = True, loading: bool = False
) -> Program:
    """A name that this broker coordinates, or does not; any, if none of those drawn is so.

    Without a topic of offsets, or of transactions, a broker coordinates none.

    Args:
        stage: of the case.
        asked: a request about a name, which changes nothing.
        here: whether it is to be this broker.
        loading: whether NONE says that a coordinator still loads what it has.
    """
    name = stage.name()
    request = type(asked(name))
    none = f"{request.__name__}: none is coordinated here: {here}"
    if none in stage.shared or stage.facts.offers(stage.here, request) is None:
        return name
    looks = itertools.count()
    for _ in range(_NAMES):
        found = (yield Ask(asked(name))).message.error_code
        while loading and not found and not (yield Again(next(looks))):
            found = (yield Ask(asked(name))).message.error_code
        if (found != _NOT_COORDINATOR) is here:
            return name
        yield Pause(_MOMENT_S)
        name = stage.name()
    stage.shared[none] = True
    return name


def group(stage: Stage, *, here: bool = True) -> Program:
    """The id of a group that this broker coordinates, or does not."""

    def asked(name: str) -> Any:
        return m.HeartbeatRequest(group_id=name, generation_id=1, member_id="m")

    return (yield from coordinated(stage, asked, here=here, loading=True))


@api(m.FindCoordinatorRequest, where=BROKER, bare=True, disruptive=True)
def _find_coordinator(stage: Stage, version: int) -> Program:
    name = stage.name()
    oldest = max(4, stage.versions(m.MetadataRequest)[0])
    told = (yield Ask(asking.metadata(), oldest)).message.brokers
    live = {(one.node_id, one.host, one.port) for one in told}

    def check(message: Any, version: int) -> None:
        one = message
        if version >= 4:
            one = only("coordinators", message.coordinators)
            same("the key", one.key, name)
        code("its error", one.error_code, 0, *_COORDINATION)
        if not one.error_code:
            found = (one.node_id, one.host, one.port)
            holds("the coordinator", found in live, f"of {sorted(live)}", found)

    if version < 4:
        return m.FindCoordinatorRequest(key=name), check
    return m.FindCoordinatorRequest(coordinator_keys=(name,)), check


@api(m.HeartbeatRequest, where=BROKER, stored=True)
def _heartbeat(stage: Stage, version: int) -> Program:
    name = yield from group(stage)
    asked = m.HeartbeatRequest(group_id=name, generation_id=1, member_id="m")
    return asked, top(*_COORDINATION, 25)


@api(m.SyncGroupRequest, where=BROKER, stored=True, bare=True)
def _sync_group(stage: Stage, version: int) -> Program:
    asked = m.SyncGroupRequest(
        group_id=(yield from group(stage)),
        generation_id=1,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
    )
    return asked, top(*_COORDINATION, 25)


@api(m.JoinGroupRequest, where=BROKER, stored=True, bare=True)
def _join_group(stage: Stage, version: int) -> Program:
    kind = m.JoinGroupRequest
    asked = kind(
        group_id=(yield from group(stage)),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="none",
        protocol_type="consumer",
        protocols=[kind.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return asked, top(*_COORDINATION, 25)


@api(m.LeaveGroupRequest, where=BROKER, stored=True)
def _leave_group(stage: Stage, version: int) -> Program:
    kind = m.LeaveGroupRequest
    name = yield from group(stage)
    if version >= 3:
        one = kind.MemberIdentity(member_id="m")
        return kind(group_id=name, members=[one]), top(0, *_COORDINATION, 25)
    # Where it is not coordinated the old versions have a layout of their own: KAFKA-15755.
    elsewhere = kind(group_id=(yield from group(stage, here=False)), member_id="m")
    found = (yield Ask(elsewhere, version)).message.error_code
    if found != INVALID_REQUEST:
        code("LeaveGroup of a group that is coordinated elsewhere", found, *_COORDINATION, 25)
    return kind(group_id=name, member_id="m"), top(*_COORDINATION, 25)


@api(m.DescribeGroupsRequest, where=BROKER, stored=True, bare=True)
def _describe_groups(stage: Stage, version: int) -> Program:
    yield from ()
    name = stage.name()

    def check(message: Any, version: int) -> None:
        group = only("groups", message.groups)
        same("the group's id", group.group_id, name)
        code("of the group", group.error_code, 0, *_COORDINATION, 69)

    return m.DescribeGroupsRequest(groups=(name,)), check


plain(m.ListGroupsRequest, lambda _: {}, top(0, *_COORDINATION), where=BROKER, stored=True)


@api(m.DeleteGroupsRequest, where=BROKER, stored=True)
def _delete_groups(stage: Stage, version: int) -> Program:
    yield from ()
    name = stage.name()

    def check(message: Any, version: int) -> None:
        group = only("results", message.results)
        same("the group's id", group.group_id, name)
        code("of the group", group.error_code, *_COORDINATION, 69)

    return m.DeleteGroupsRequest(groups_names=(name,)), check


@api(m.OffsetCommitRequest, where=BROKER, stored=True)
def _offset_commit(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.shared(stage)
    kind = m.OffsetCommitRequest
    part = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = kind.OffsetCommitRequestTopic(name=name, partitions=[part])
    check = _partitions_of(
        lambda one: one.topics, "partitions", "error_code", 0, *_COORDINATION, 22, 25, 35, 69
    )
    asked = kind(group_id=stage.name(), topics=[topic], member_id="m")
    if version >= 1:
        asked.generation_id_or_member_epoch = 5
    return asked, check


@api(m.OffsetFetchRequest, where=BROKER, stored=True, bare=True)
def _offset_fetch(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.shared(stage)
    kind, group = m.OffsetFetchRequest, stage.name()
    if version >= 8:
        topic = kind.OffsetFetchRequestTopics(name=name, partition_indexes=(0,))
        asked = kind(groups=[kind.OffsetFetchRequestGroup(group_id=group, topics=[topic])])

        def check(message: Any, version: int) -> None:
            one = only("groups", message.groups)
            same("the group's id", one.group_id, group)
            code("of the group", one.error_code, 0, *_COORDINATION, 69)

        return asked, check
    old = kind.OffsetFetchRequestTopic(name=name, partition_indexes=(0,))

    def whole(message: Any, version: int) -> None:
        if version >= 2:
            code("its error", message.error_code, 0, *_COORDINATION, 69)

    return kind(group_id=group, topics=[old]), whole


@api(m.OffsetDeleteRequest, where=BROKER, stored=True)
def _offset_delete(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.shared(stage)
    kind = m.OffsetDeleteRequest
    part = kind.OffsetDeleteRequestPartition(partition_index=0)
    topic = kind.OffsetDeleteRequestTopic(name=name, partitions=[part])
    return kind(group_id=stage.name(), topics=[topic]), top(0, *_COORDINATION, 69)


def _in_a_transaction(stage: Stage) -> dict[str, Any]:
    return {"transactional_id": stage.name(), "producer_id": 1, "producer_epoch": 0}


_NO_TRANSACTION: Final = (*_COORDINATION, 48, 49, 3)


def _abortion(name: str) -> Any:
    return m.EndTxnRequest(transactional_id=name, producer_id=1, producer_epoch=0, committed=False)


@api(m.AddOffsetsToTxnRequest, where=BROKER, stored=True)
def _add_offsets(stage: Stage, version: int) -> Program:
    name = yield from coordinated(stage, _abortion)
    asked = m.AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=1, producer_epoch=0, group_id=stage.name()
    )
    return asked, top(*_NO_TRANSACTION)


@api(m.EndTxnRequest, where=BROKER, stored=True)
def _end_txn(stage: Stage, version: int) -> Program:
    return _abortion((yield from coordinated(stage, _abortion))), top(*_NO_TRANSACTION)


@api(m.AddPartitionsToTxnRequest, where=BROKER, stored=True)
def _add_partitions(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.shared(stage)
    kind = m.AddPartitionsToTxnRequest
    topic = kind.AddPartitionsToTxnTopic(name=name, partitions=(0,))
    if version < 4:
        check = _partitions_of(
            lambda one: one.results_by_topic_v3_and_below,
            "results_by_partition",
            "partition_error_code",
            *_NO_TRANSACTION,
        )
        return kind(
            v3_and_below_transactional_id=stage.name(),
            v3_and_below_producer_id=1,
            v3_and_below_topics=[topic],
        ), check
    one = kind.AddPartitionsToTxnTransaction(**_in_a_transaction(stage), topics=[topic])
    return kind(transactions=[one]), top(0, *_NO_TRANSACTION)


@api(m.TxnOffsetCommitRequest, where=BROKER, stored=True)
def _txn_offset_commit(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.shared(stage)
    kind = m.TxnOffsetCommitRequest
    part = kind.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = kind.TxnOffsetCommitRequestTopic(name=name, partitions=[part])
    check = _partitions_of(
        lambda one: one.topics, "partitions", "error_code", 0, *_NO_TRANSACTION, 22, 25
    )
    asked = kind(**_in_a_transaction(stage), group_id=stage.name(), topics=[topic])
    if version >= 3:
        asked.generation_id, asked.member_id = 3, "m"
    return asked, check


@api(m.WriteTxnMarkersRequest, where=BROKER, stored=True)
def _write_markers(stage: Stage, version: int) -> Program:
    yield from ()
    return m.WriteTxnMarkersRequest(markers=[]), fits_nothing


@api(m.DescribeTransactionsRequest, where=BROKER, stored=True, bare=True)
def _describe_transactions(stage: Stage, version: int) -> Program:
    yield from ()
    name = stage.name()

    def check(message: Any, version: int) -> None:
        one = only("transactions", message.transaction_states)
        same("the transactional id", one.transactional_id, name)
        code("of it", one.error_code, *_COORDINATION, 105)

    return m.DescribeTransactionsRequest(transactional_ids=(name,)), check


def _add(
    request: type,
    part: str,
    title: str,
    program: Callable[[Stage], Program],
    *,
    since: str = "",
    level: Level = Level.MUST,
) -> None:
    how, name = _APIS[request], spec(request).name
    add(
        Case(
            id=f"apis.{name.removesuffix('Request')}.{part}",
            group="apis",
            title=title,
            level=level,
            sources=f"{name}.json",
            rows=(),
            where=Where.EACH if len(how.where) > 1 else how.where[0],
            asks=(request,),
            brokers=1 if how.where == BROKER else 0,
            kraft=False,
            since=since,
            disruptive=how.disruptive,
            slow=False,
            program=program,
        )
    )


# ------------------------------------------------------------------ refusals, in each version
def _refusal(of: type, results: tuple[str, ...], *codes: int) -> Callable[[Maker], Maker]:
    """Enter a case that asks a request for what it refuses, in each version that is offered.

    ``results``: the path to the entries with the error. Their text, where there is one, is no
    demand: it may be null.
    """

    def enter(maker: Maker) -> Maker:
        def program(stage: Stage) -> Program:
            for version in stage.versions(of):
                asked = yield from maker(stage, version)
                found = [(yield Ask(asked, version)).message]
                for name in results:
                    found = [each for one in found for each in getattr(one, name)]
                holds(f"results of v{version}", found, "at least one", found)
                for one in found:
                    code(f"the error in v{version}", one.error_code, *codes)

        name = spec(of).name.removesuffix("Request")
        _add(of, "refused", f"{name}: each version refuses with the same code", program)
        return maker

    return enter


@_refusal(m.CreateTopicsRequest, ("topics",), 36)
def _existing(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.shared(stage)
    return asking.creation(asking.new(name), validate_only=version >= 1)


@_refusal(m.DeleteTopicsRequest, ("responses",), 3)
def _absent(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.DeleteTopicsRequest
    if version >= 6:
        return kind(topics=[kind.DeleteTopicState(name=stage.name())], timeout_ms=10_000)
    return kind(topic_names=[stage.name()], timeout_ms=10_000)


@_refusal(m.CreatePartitionsRequest, ("results",), 37)
def _as_many(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.shared(stage)
    kind = m.CreatePartitionsRequest
    topic = kind.CreatePartitionsTopic(name=name, count=1, assignments=None)
    return kind(topics=[topic], timeout_ms=10_000)


@_refusal(m.DescribeConfigsRequest, ("results",), 3)
def _no_configs(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.DescribeConfigsRequest
    one = kind.DescribeConfigsResource(
        resource_type=2, resource_name=stage.name(), configuration_keys=None
    )
    return kind(resources=[one])


@_refusal(m.AlterConfigsRequest, ("responses",), 3)
def _no_topic_to_alter(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.AlterConfigsRequest
    return kind(resources=[kind.AlterConfigsResource(resource_type=2, resource_name=stage.name())])


@_refusal(m.IncrementalAlterConfigsRequest, ("responses",), 40)
def _no_such_value(stage: Stage, version: int) -> Program:
    name, _ = yield from asking.shared(stage)
    kind = m.IncrementalAlterConfigsRequest
    wrong = kind.AlterableConfig(name="retention.ms", config_operation=0, value="x")
    one = kind.AlterConfigsResource(resource_type=2, resource_name=name, configs=[wrong])
    return kind(resources=[one])


@_refusal(m.ElectLeadersRequest, ("replica_election_results", "partition_result"), 3)
def _no_partition(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.ElectLeadersRequest
    one = kind.TopicPartitions(topic=stage.name(), partitions=(0,))
    return kind(topic_partitions=[one], timeout_ms=10_000)


@_refusal(m.AlterClientQuotasRequest, ("entries",), 42)
def _no_quota(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.AlterClientQuotasRequest
    entity = [kind.EntityData(entity_type="user", entity_name=stage.name())]
    ops = [kind.OpData(key="beans", value=1.0)]
    return kind(entries=[kind.EntryData(entity=entity, ops=ops)])


@_refusal(m.DescribeTopicPartitionsRequest, ("topics",), 3)
def _no_pages(stage: Stage, version: int) -> Program:
    yield from ()
    kind = m.DescribeTopicPartitionsRequest
    return kind(topics=[kind.TopicRequest(name=stage.name())])


def _unknown_topic(stage: Stage) -> Program:
    for version in [one for one in stage.versions(m.MetadataRequest) if one >= 4]:
        name = stage.name()
        topic = only("topics", (yield Ask(asking.metadata(name), version)).message.topics)
        same(f"the topic of v{version}", (topic.name, topic.error_code), (name, 3))


_add(
    m.MetadataRequest,
    "refused",
    "Metadata: each version refuses with the same code",
    _unknown_topic,
)


# ------------------------------------------------------------------ the cases
def _program(request: type, version: int, *, tags: bool) -> Callable[[Stage], Program]:
    how = _APIS[request]

    def program(stage: Stage) -> Program:
        if version not in stage.versions(request):
            raise NotOffered(f"version {version} is not offered")
        asked, check = yield from how.maker(stage, version)
        if tags:
            asked = tagged(asked, layout(request, version), stage)
        answer: Answer = yield Ask(asked, version)
        _echoed(asked, answer.message)
        if how.stored and _refused(answer.message):
            raise NotOffered("a valid request is refused with INVALID_REQUEST")
        _throttle(answer.message)
        check(answer.message, version)
        number = int.from_bytes(answer.frame[:4], "big", signed=True)
        if not _newer_tags(answer.message):
            canonical(spec(request).key or 0, version, number, answer.frame, answer.message)

    return program


def _echoed(asked: Any, message: Any) -> None:
    """Demand that an answer has the partitions of the request, each once, if it has any."""
    wanted, found = [*partitions(asked)], [*partitions(message)]
    if wanted and found:
        same("partitions of the answer: how many", len(found), len(wanted))


def _throttle(message: Any) -> None:
    throttle = getattr(message, "throttle_time_ms", 0)
    holds("throttle_time_ms", 0 <= throttle < 60_000, "0, or a moment", throttle)


def _refused(message: Any) -> bool:
    """Whether every error of an answer is INVALID_REQUEST, and there is one."""
    codes = set(_codes(msgspec.to_builtins(message)))
    return INVALID_REQUEST in codes and codes <= {0, INVALID_REQUEST}


def _codes(value: Any) -> Any:
    if isinstance(value, dict):
        for key, one in value.items():
            if key.endswith("error_code"):
                yield one
            else:
                yield from _codes(one)
    elif isinstance(value, list):
        for one in value:
            yield from _codes(one)


def _newer_tags(message: Any) -> bool:
    """Whether a struct has tagged fields of a release after 3.9."""
    found = msgspec.to_builtins(message)
    return any(_tags(found))


def _tags(value: Any) -> Any:
    if isinstance(value, dict):
        yield bool(value.get("unknown_tags"))
        for one in value.values():
            yield from _tags(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tags(one)


def tagged(message: Any, form: Layout, stage: Stage) -> Any:
    """The message with unknown tagged fields in each of its structs."""
    number = 1_000 + stage.rng.randrange(1_000)
    message.unknown_tags = ((number, stage.rng.randbytes(5)), (number + 9, b""))
    for entry in (*form.fields, *form.tagged):
        if entry.group is None:
            continue
        value = getattr(message, entry.name)
        for one in value if entry.array and value else [value] if value is not None else []:
            if not isinstance(one, list | tuple):
                tagged(one, entry.group, stage)
    return message


_ANSWERED_FROM: Final[dict[type, int]] = {m.ProduceRequest: 3}
"""Kafka 4 lists Produce 0 to 2, for old librdkafka, and closes the connection on them.

Source: ApiKeys.PRODUCE_API_VERSIONS_RESPONSE_MIN_VERSION, KAFKA-18659.
"""


def _enter(request: type, how: Api) -> None:
    what = spec(request)
    name = what.name.removesuffix("Request")
    for version in what.versions:
        title = f"{name} v{version} is answered as that version"
        # Of a release that is not known it is no demand.
        since = "3.4" if version < _ANSWERED_FROM.get(request, 0) else ""
        _add(request, str(version), title, _program(request, version, tags=False), since=since)
    if what.flexible(what.max_version):
        title = f"{name}: unknown tagged fields in each struct are skipped"
        _add(request, "tags", title, _newest_tagged(request))
    if how.bare:
        title = f"{name}: what is refused has no values but those of the request"
        _add(request, "bare", title, _bare(request), level=Level.HABIT)


def _bare(request: type) -> Callable[[Stage], Program]:
    def program(stage: Stage) -> Program:
        refused = 0
        for version in stage.versions(request):
            if version >= _ANSWERED_FROM.get(request, 0):
                asked, _ = yield from _APIS[request].maker(stage, version)
                refused += bare(asked, (yield Ask(asked, version)).message)
        if not refused:
            raise NotOffered("nothing is refused")

    return program


def _newest_tagged(request: type) -> Callable[[Stage], Program]:
    def program(stage: Stage) -> Program:
        newest = stage.versions(request)[-1]
        if not spec(request).flexible(newest):
            raise NotOffered("no version with tagged fields is offered")
        yield from _program(request, newest, tags=True)(stage)

    return program


for _request, _how in sorted(_APIS.items(), key=lambda item: spec(item[0]).key or 0):
    _enter(_request, _how)
