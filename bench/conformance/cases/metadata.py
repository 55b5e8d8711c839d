"""Metadata, DescribeCluster, DescribeTopicPartitions: what a broker tells of the cluster."""

from __future__ import annotations

from typing import Any, Final

from bench.conformance.asking import ON_TOPIC, created, metadata, several, shared, shown
from bench.conformance.case import Ask, Level, Program, Stage, Where, case, code, holds, only, same
from wire import messages as m

_ASKS: Final = (m.MetadataRequest,)
_SOURCES: Final = "KafkaApis.handleTopicMetadataRequest, KRaftMetadataCache"
ON_CLUSTER: Final = 8_096
"""One bit for each operation: AclEntry.supportedOperations(CLUSTER)."""
NO_OPERATIONS: Final = -2_147_483_648


def everything() -> Any:
    """A Metadata request for all topics."""
    return m.MetadataRequest(topics=None, allow_auto_topic_creation=False)


@case(
    "Metadata lists the brokers, and one of them as the controller",
    sources="KIP-4; MetadataResponse",
    where=Where.BROKER,
    asks=_ASKS,
)
def brokers(stage: Stage) -> Program:
    answer = (yield Ask(metadata(), lowest=4)).message
    same("topics when none is asked for", answer.topics, [])
    ids = [one.node_id for one in answer.brokers]
    same("brokers: each once", len(set(ids)), len(ids))
    holds(
        "the controller",
        answer.controller_id in {*ids, -1},
        "a broker, or -1",
        answer.controller_id,
    )
    for one in answer.brokers:
        holds("a broker's address", one.host and 0 < one.port < 65_536, "host and port", one)
    holds("the cluster's id", answer.cluster_id, "a text", answer.cluster_id)


@case(
    "Metadata and DescribeCluster agree",
    sources="KIP-700",
    where=Where.BROKER,
    asks=(m.MetadataRequest, m.DescribeClusterRequest),
)
def agree(stage: Stage) -> Program:
    one = (yield Ask(metadata(), lowest=4)).message
    for version in stage.versions(m.DescribeClusterRequest):
        other = (yield Ask(m.DescribeClusterRequest(), version)).message
        code("DescribeCluster", other.error_code, 0)
        same("the cluster's id", other.cluster_id, one.cluster_id)
        mine = sorted((each.node_id, each.host, each.port, each.rack) for each in one.brokers)
        theirs = sorted((each.broker_id, each.host, each.port, each.rack) for each in other.brokers)
        same("brokers", theirs, mine)
        ids = {each.broker_id for each in other.brokers}
        holds(
            "the controller",
            other.controller_id in {*ids, -1},
            "a broker, or -1",
            other.controller_id,
        )
        same(
            "authorised operations, not asked for",
            other.cluster_authorized_operations,
            NO_OPERATIONS,
        )


@case(
    "Metadata: null asks for all topics, an empty list for none",
    sources=_SOURCES,
    where=Where.BROKER,
    asks=_ASKS,
)
def all_topics(stage: Stage) -> Program:
    names = set((yield from several(stage, 3)))
    for version in [one for one in stage.versions(m.MetadataRequest) if one >= 4]:
        answer = (yield Ask(everything(), version)).message
        found = [one.name for one in answer.topics]
        holds(
            f"topics of Metadata v{version} by null",
            names <= set(found),
            f"with {sorted(names)}",
            len(found),
        )
        same("topics: each once", len(set(found)), len(found))
        same(
            f"topics of Metadata v{version} by none",
            (yield Ask(metadata(), version)).message.topics,
            [],
        )


@case(
    "Metadata: errors of a topic are its own, and nothing is created",
    sources=_SOURCES,
    where=Where.BROKER,
    asks=_ASKS,
)
def unknown(stage: Stage) -> Program:
    name, none = (yield from shared(stage))[0], stage.name()
    for _ in range(2):
        answer = (yield Ask(metadata(none, name, "a b", ""), lowest=4)).message
        found = {one.name: one.error_code for one in answer.topics}
        same("errors", found, {none: 3, name: 0, "a b": 17, "": 17})
    for one in answer.topics:
        if one.error_code:
            same("partitions of a topic with an error", one.partitions, [])


@case(
    "Metadata by id shows that topic, and UNKNOWN_TOPIC_ID for another id",
    sources="KIP-516",
    where=Where.BROKER,
    asks=_ASKS,
)
def by_id(stage: Stage) -> Program:
    name, topic_id = yield from shared(stage)
    none = stage.rng.randbytes(16)
    kind = m.MetadataRequest
    topics = [kind.MetadataRequestTopic(topic_id=one, name=None) for one in (topic_id, none)]
    asked = kind(topics=topics, allow_auto_topic_creation=False)
    answer = (yield Ask(asked, lowest=12)).message
    found = {one.topic_id: one for one in answer.topics}
    same("ids", set(found), {topic_id, none})
    code("Metadata by id", found[topic_id].error_code, 0)
    same("its name", found[topic_id].name, name)
    same("its partitions", len(found[topic_id].partitions), 2)
    code("Metadata by an unknown id", found[none].error_code, 100)


@case(
    "Metadata tells authorised operations where they are asked for, and nowhere else",
    sources="KIP-430",
    where=Where.BROKER,
    asks=_ASKS,
)
def operations(stage: Stage) -> Program:
    name, _ = yield from shared(stage)
    for version in [one for one in stage.versions(m.MetadataRequest) if one >= 8]:
        for asked_for in (False, True):
            asked = metadata(name)
            asked.include_topic_authorized_operations = asked_for
            topic = only("topics", (yield Ask(asked, version)).message.topics)
            told = topic.topic_authorized_operations != NO_OPERATIONS
            same(f"whether Metadata v{version} tells operations", told, asked_for)
            if asked_for and stage.facts.authorizer is False:
                same(
                    "operations without an authorizer", topic.topic_authorized_operations, ON_TOPIC
                )
    for version in [one for one in stage.versions(m.MetadataRequest) if 8 <= one <= 10]:
        told = (yield Ask(metadata(name), version)).message.cluster_authorized_operations
        same(f"operations on the cluster of Metadata v{version}", told, NO_OPERATIONS)
        asked = metadata(name)
        asked.include_cluster_authorized_operations = True
        told = (yield Ask(asked, version)).message.cluster_authorized_operations
        holds(f"operations of Metadata v{version}, asked for", told > 0, "a bit field", told)
        if stage.facts.authorizer is False:
            same("operations without an authorizer", told, ON_CLUSTER)


@case(
    "DescribeCluster tells authorised operations where they are asked for",
    sources="KIP-430, KIP-700",
    where=Where.BROKER,
    asks=(m.DescribeClusterRequest,),
)
def cluster_operations(stage: Stage) -> Program:
    asked = m.DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = (yield Ask(asked)).message
    code("DescribeCluster", answer.error_code, 0)
    told = answer.cluster_authorized_operations
    holds("authorised operations", told != NO_OPERATIONS, "a bit field", told)
    if stage.facts.authorizer is False:
        same("operations without an authorizer", told, ON_CLUSTER)


@case(
    "DescribeCluster of controllers is no question to a broker",
    sources="KIP-919; KafkaApis.handleDescribeCluster",
    where=Where.BROKER,
    asks=(m.DescribeClusterRequest,),
)
def endpoint_types(stage: Stage) -> Program:
    if stage.versions(m.DescribeClusterRequest)[-1] >= 1:
        for kind, expected in ((2, 114), (7, 115)):
            answer = (yield Ask(m.DescribeClusterRequest(endpoint_type=kind), 1)).message
            code(f"DescribeCluster of endpoint type {kind}", answer.error_code, expected)


@case(
    "DescribeCluster of brokers is no question to a controller",
    sources="KIP-919; ControllerApis.handleDescribeCluster",
    where=Where.CONTROLLER,
    asks=(m.DescribeClusterRequest,),
)
def controller_endpoints(stage: Stage) -> Program:
    if stage.versions(m.DescribeClusterRequest)[-1] >= 1:
        for kind, expected in ((1, 114), (7, 115)):
            answer = (yield Ask(m.DescribeClusterRequest(endpoint_type=kind), 1)).message
            code(f"DescribeCluster of endpoint type {kind}", answer.error_code, expected)
        answer = (yield Ask(m.DescribeClusterRequest(endpoint_type=2), 1)).message
        code("DescribeCluster of controllers", answer.error_code, 0)
        same("the endpoint type", answer.endpoint_type, 2)
        told = answer.cluster_authorized_operations
        same("authorised operations, not asked for", told, NO_OPERATIONS)
        ids = [one.broker_id for one in answer.brokers]
        holds("the active controller", answer.controller_id in ids, "one of those listed", answer)
        if stage.facts.cluster_id:
            same("the cluster's id", answer.cluster_id, stage.facts.cluster_id)


@case(
    "DescribeTopicPartitions goes on from its cursor, and misses and repeats nothing",
    sources="KIP-966",
    where=Where.BROKER,
    asks=(m.DescribeTopicPartitionsRequest,),
)
def pages(stage: Stage) -> Program:
    names = sorted((yield from several(stage, 3, partitions=4)))
    kind = m.DescribeTopicPartitionsRequest
    expected = [(name, index) for name in names for index in range(4)]
    for limit in (1, 3, 5, 100):
        found: list[tuple[str, int]] = []
        cursor = None
        for _ in range(20):
            asked = kind(
                topics=[kind.TopicRequest(name=one) for one in names],
                response_partition_limit=limit,
                cursor=cursor,
            )
            answer = (yield Ask(asked)).message
            page = []
            for topic in answer.topics:
                code("of a topic", topic.error_code, 0)
                page += [(topic.name, one.partition_index) for one in topic.partitions]
            holds("partitions of a page", len(page) <= limit, f"at most {limit}", len(page))
            found += page
            if answer.next_cursor is None:
                break
            place = answer.next_cursor
            cursor = kind.Cursor(topic_name=place.topic_name, partition_index=place.partition_index)
        same(f"partitions, {limit} a page", found, expected)


@case(
    "DescribeTopicPartitions: unknown topics have their error",
    sources="DescribeTopicPartitionsRequestHandler",
    where=Where.BROKER,
    asks=(m.DescribeTopicPartitionsRequest,),
)
def pages_unknown(stage: Stage) -> Program:
    kind = m.DescribeTopicPartitionsRequest
    none = stage.name()
    answer = (yield Ask(kind(topics=[kind.TopicRequest(name=none)]))).message
    topic = only("topics", answer.topics)
    same("the topic", (topic.name, topic.error_code, topic.partitions), (none, 3, []))


@case(
    "DescribeTopicPartitions and Metadata agree on a topic",
    sources="KIP-966",
    where=Where.BROKER,
    asks=(m.DescribeTopicPartitionsRequest, m.MetadataRequest),
    level=Level.MUST,
)
def pages_agree(stage: Stage) -> Program:
    name, _ = yield from created(stage, partitions=3)
    one = yield from shown(stage, name, lambda topic: len(topic.partitions) == 3)
    kind = m.DescribeTopicPartitionsRequest
    other = only("topics", (yield Ask(kind(topics=[kind.TopicRequest(name=name)]))).message.topics)
    same("the topic's id", other.topic_id, one.topic_id)

    def plain(topic: Any) -> list[Any]:
        return sorted(
            (
                each.partition_index,
                each.leader_id,
                each.leader_epoch,
                tuple(each.replica_nodes),
                sorted(each.isr_nodes),
            )
            for each in topic.partitions
        )

    same("partitions", plain(other), plain(one))
