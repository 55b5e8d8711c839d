"""Metadata (3): the cluster, its topics and their leaders.

KIP-430 (v8-v10), KIP-516 (v10, v12: topic ids), KIP-590 (the controller is not shown).

INVALID_REQUEST for a topic id or a missing name below v12. UNKNOWN_TOPIC_ID for an unknown id.
An unknown name is UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION if no topic can have it; if
the client and the broker allow it, the controller is asked to create the topic.
TOPIC_AUTHORIZATION_FAILED for a topic that the caller may not DESCRIBE, whether or not it exists,
and for one that would be created and that the caller may not CREATE; a list of all topics leaves
out what may not be described.
Source: KafkaApis.handleTopicMetadataRequest, KRaftMetadataCache.getTopicMetadata,
DefaultAutoTopicCreationManager, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from emulator.broker.cluster import ImageCluster, KnownCluster, KnownPartition, KnownTopic
from emulator.broker.registry import Answer, Asked, serves
from emulator.broker.serving.in_parts import Division, Pieces, runs
from emulator.broker.serving.reading import BrokerReading, reading
from emulator.broker.serving.shared_answers import KEPT_MAX
from emulator.config.broker import BrokerConfig, InternalTopicSettings
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.topics import name_error
from emulator.seam import Kept, Pace, Same, Slices, listed
from wire import messages as m
from wire.errors import ErrorCode
from wire.schema import ZERO_UUID, replace

Named = m.MetadataRequest.MetadataRequestTopic
Topic = m.MetadataResponse.MetadataResponseTopic
OFFSETS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
INTERNAL: Final = frozenset({OFFSETS, TRANSACTIONS})
_WITHOUT_OPERATIONS: Final = {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID}
_ALL_IF_EMPTY: Final = 0
TOPICS_IN_PART: Final = 100
OPERATIONS_PER_SLICE: Final = 50
"""Topics whose operations one slice finds out: eight questions to the authorizer for each."""
_IDS_SINCE: Final = 12
_LISTENER_ERROR_SINCE: Final = 6


def refused(request: m.MetadataRequest, code: ErrorCode, _text: str | None) -> m.MetadataResponse:
    """The response with the error for every topic of the request."""
    return m.MetadataResponse(topics=[_refused(one, code) for one in request.topics or []])


def _refused(one: Named, code: ErrorCode) -> Topic:
    # The answer has no place for a missing name, below v12.
    return Topic(error_code=code, name=one.name or "", topic_id=one.topic_id)


def _pieces(request: m.MetadataRequest, version: int) -> Pieces | None:
    wanted = request.topics
    if wanted is None or len(wanted) <= TOPICS_IN_PART:
        return None
    return _cut(request, wanted, version)


def _cut(request: m.MetadataRequest, wanted: Iterable[Named], version: int) -> Pieces:
    ids, names, pace = set[bytes](), dict[str | None, None](), Pace()
    for one in wanted:
        if pace.over():
            yield None
        if _is_invalid(one, version):
            yield request  # refused as a whole
            return
        ids.add(one.topic_id)
        names[one.name] = None
    ids.discard(ZERO_UUID)
    asked = (Named(name=name) for name in names)
    if ids:
        asked = (Named(topic_id=topic_id, name=None) for topic_id in sorted(ids))
    for run in runs(asked, TOPICS_IN_PART, _name):
        yield replace(request, topics=run)


def _name(topic: Named) -> str | None:
    return topic.name


def _is_invalid(one: Named, version: int) -> bool:
    """Whether a topic is named in a way that the version does not have."""
    return version < _IDS_SINCE and (one.name is None or one.topic_id != ZERO_UUID)


@serves(m.MetadataRequest, refused=refused, division=Division(_pieces, "topics"))
def metadata(
    cluster: KnownCluster, request: m.MetadataRequest, asked: Asked
) -> Slices[Answer | m.MetadataResponse]:
    """Describe the cluster and the topics asked for."""
    version = asked.api_version
    wanted = request.topics
    caller = reading(cluster, request, asked)
    create: list[m.CreateTopicsRequest.CreatableTopic] = []
    if wanted is None or (not wanted and version == _ALL_IF_EMPTY):
        if _is_for_everybody(cluster, request, asked):
            return (yield from _answer_for_everybody(cluster, asked))
        shown = _Shown(cluster, asked.listener, asked.api_version)
        found = yield from shown.all(lambda topic: _may_see(caller, topic.name))
    else:
        if any(_is_invalid(one, version) for one in wanted):
            invalid = partial(_refused, code=ErrorCode.INVALID_REQUEST)
            return m.MetadataResponse(topics=(yield from listed(invalid, wanted)))
        ids = {one.topic_id for one in wanted} - {ZERO_UUID}
        if ids:
            found = yield from _by_id(cluster, sorted(ids), asked, caller)
        else:
            names = dict.fromkeys(one.name for one in wanted if one.name is not None)
            found, create = yield from _by_name(cluster, names, request, asked, caller)
    if request.include_topic_authorized_operations:
        for number, topic in enumerate(found, 1):
            if number % OPERATIONS_PER_SLICE == 0:
                yield
            # Also of one that does not exist: only what may not be seen has none.
            if topic.name is not None and topic.error_code not in _WITHOUT_OPERATIONS:
                topic.topic_authorized_operations = caller.operations_on_topic(topic.name)
    controller_id = cluster.controller_id(asked.rng)
    response = _response(cluster, found, asked.listener, controller_id)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = caller.operations_on_cluster()
    return Answer(response, tuple(create))


def _is_for_everybody(cluster: KnownCluster, request: m.MetadataRequest, asked: Asked) -> bool:
    """Whether every client with the listener and version gets the same answer."""
    return (
        asked.config.authorizer is None
        and not request.include_topic_authorized_operations
        and not request.include_cluster_authorized_operations
        and isinstance(cluster, ImageCluster)
    )


def _answer_for_everybody(cluster: KnownCluster, asked: Asked) -> Slices[Answer]:
    controller_id = cluster.controller_id(asked.rng)
    # Versions differ in what they show of a partition at 0 and from 6 on.
    version = 0 if asked.api_version == 0 else min(asked.api_version, _LISTENER_ERROR_SINCE)
    image, listener = cluster.image, asked.listener
    key = (Same(image), cluster.cluster_id, listener, version, controller_id)
    then = ImageCluster(cluster.cluster_id, image)

    def all_topics() -> Slices[m.MetadataResponse]:
        topics = yield from _Shown(then, listener, version).all(lambda _: True)
        return _response(then, topics, listener, controller_id)

    return Answer((yield from _ALL_TOPICS.made(key, all_topics)), shared=True)


_ALL_TOPICS: Final = Kept[m.MetadataResponse](KEPT_MAX)
"""All topics of an image; these responses must not be changed any more."""


def _may_see(caller: BrokerReading, name: str) -> bool:
    return caller.may(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _by_name(
    cluster: KnownCluster,
    names: Iterable[str],
    request: m.MetadataRequest,
    asked: Asked,
    caller: BrokerReading,
) -> Slices[tuple[list[Topic], list[m.CreateTopicsRequest.CreatableTopic]]]:
    may_create = request.allow_auto_topic_creation and asked.config.auto_create_topics
    may_create_any = may_create and caller.may_on_cluster(Operation.CREATE)
    found: list[Topic] = []
    create: list[m.CreateTopicsRequest.CreatableTopic] = []
    shown = _Shown(cluster, asked.listener, asked.api_version)
    for name in names:
        internal = name in INTERNAL
        if not _may_see(caller, name):
            # The answer does not show whether the topic exists.
            found.append(Topic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name))
            continue
        topic = cluster.topic(name)
        if topic is not None:
            found.append((yield from shown.topic(topic)))
            continue
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if may_create and not (
            may_create_any or caller.may(Operation.CREATE, ResourceType.TOPIC, name)
        ):
            code, internal = ErrorCode.TOPIC_AUTHORIZATION_FAILED, False
        elif name_error(name) is not None:
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif may_create:
            create.append(creatable(asked.config, name))
        found.append(Topic(error_code=code, name=name, is_internal=internal))
    return found, create


def creatable(config: BrokerConfig, name: str) -> m.CreateTopicsRequest.CreatableTopic:
    """The topic that a broker asks for when a client needs one that is not there."""
    kind = m.CreateTopicsRequest
    internal = {OFFSETS: config.offsets_topic, TRANSACTIONS: config.transaction_topic}.get(name)
    if internal is None:
        return kind.CreatableTopic(
            name=name,
            num_partitions=config.num_partitions,
            replication_factor=config.default_replication_factor,
        )
    return kind.CreatableTopic(
        name=name,
        num_partitions=internal.num_partitions,
        replication_factor=internal.replication_factor,
        configs=[
            kind.CreatableTopicConfig(name=key, value=value)
            for key, value in _internal_configs(internal)
        ],
    )


def _internal_configs(internal: InternalTopicSettings) -> Iterable[tuple[str, str]]:
    yield "cleanup.policy", "compact"
    yield "compression.type", "producer" if internal.min_insync_replicas is None else "uncompressed"
    yield "segment.bytes", str(internal.segment_bytes)
    if internal.min_insync_replicas is not None:
        yield "min.insync.replicas", str(internal.min_insync_replicas)
        yield "unclean.leader.election.enable", "false"


def _by_id(
    cluster: KnownCluster, ids: Sequence[bytes], asked: Asked, caller: BrokerReading
) -> Slices[list[Topic]]:
    found = []
    shown = _Shown(cluster, asked.listener, asked.api_version)
    for topic_id in ids:
        topic = cluster.topic_by_id(topic_id)
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            found.append(Topic(error_code=code, name=None, topic_id=topic_id))
        elif not _may_see(caller, topic.name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            found.append(Topic(error_code=code, name=None, topic_id=topic_id))
        else:
            found.append((yield from shown.topic(topic)))
    return found


class _Shown:
    """Topics as one caller is shown them; each broker is looked up once, each set of replicas too.

    Args:
        cluster: what is known.
        listener: the caller's.
        version: of the request.
    """

    def __init__(self, cluster: KnownCluster, listener: str, version: int) -> None:
        self._cluster = cluster
        self._listener = listener
        self._version = version
        self._reached: dict[int, bool] = {}
        self._offline: dict[tuple[int, ...], list[int]] = {}
        self._pace = Pace()

    def all(self, may_see: Callable[[KnownTopic], bool]) -> Slices[list[Topic]]:
        """All topics that may be seen."""
        found = []
        for topic in self._cluster.topics():
            if self._pace.over():
                yield
            if may_see(topic):
                found.append((yield from self.topic(topic)))
        return found

    def topic(self, topic: KnownTopic) -> Slices[Topic]:
        """A topic with all its partitions."""
        shown = Topic(name=topic.name, topic_id=topic.id, is_internal=topic.name in INTERNAL)
        for index, one in topic.partitions.items():
            if self._pace.over():
                yield
            shown.partitions.append(self._partition(index, one))
        return shown

    def _partition(
        self, index: int, one: KnownPartition
    ) -> m.MetadataResponse.MetadataResponsePartition:
        replicas, isr = one.replicas, one.isr
        if self._version == 0:
            # Oldest clients cannot resolve a broker that is not in the list of brokers.
            replicas = [each for each in replicas if self._is_reached(each)]
            isr = [each for each in isr if self._is_reached(each)]
        leader, error = one.leader, ErrorCode.NONE
        if not self._is_reached(leader):
            leader, error = -1, ErrorCode.LEADER_NOT_AVAILABLE
            if self._cluster.registered(one.leader) and self._version >= _LISTENER_ERROR_SINCE:
                error = ErrorCode.LISTENER_NOT_FOUND
        elif len(replicas) < len(one.replicas) or len(isr) < len(one.isr):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
        return m.MetadataResponse.MetadataResponsePartition(
            error_code=error,
            partition_index=index,
            leader_id=leader,
            leader_epoch=one.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=self._offline_of(tuple(one.replicas)),
        )

    def _is_reached(self, broker_id: int) -> bool:
        known = self._reached.get(broker_id)
        if known is None:
            known = self._cluster.node(broker_id, self._listener) is not None
            self._reached[broker_id] = known
        return known

    def _offline_of(self, replicas: tuple[int, ...]) -> list[int]:
        known = self._offline.get(replicas)
        if known is None:
            online = self._cluster.online
            known = [each for each in replicas if not online(each, self._listener)]
            self._offline[replicas] = known
        return known


def _response(
    cluster: KnownCluster, topics: list[Topic], listener: str, controller_id: int
) -> m.MetadataResponse:
    kind = m.MetadataResponse
    return kind(
        brokers=[
            kind.MetadataResponseBroker(
                node_id=node.id, host=node.host, port=node.port, rack=node.rack
            )
            for node in cluster.alive(listener)
        ],
        cluster_id=cluster.cluster_id,
        controller_id=controller_id,
        topics=topics,
    )
