"""UpdateMetadata (6): the controller tells a ZooKeeper-mode broker what its clients may ask for.

KIP-380 (v5), KIP-482 (v6), KIP-516 (v7), KIP-866 (v8). Source: UpdateMetadataRequest,
UpdateMetadataResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from wire.codec import normalised
from wire.schema import (
    ZERO_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Uuid,
    field,
    group,
    message,
    replace,
)

_TOPICS_FROM: Final = 5
_TOPIC: Final = attrgetter("topic_name")
_LISTENERS_FROM: Final = 3
_PLAINTEXT: Final = 0
_PROTOCOLS: Final = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}


@message(key=6, versions="0-8", flexible="6+")
class UpdateMetadataRequest:
    @group
    class UpdateMetadataPartitionState:
        topic_name: String = field("", versions="0-4", ignorable=True)
        partition_index: Int32 = 0
        controller_epoch: Int32 = 0
        leader: Int32 = 0
        leader_epoch: Int32 = 0
        isr: Sequence[Int32] = ()
        zk_version: Int32 = 0
        replicas: Sequence[Int32] = ()
        offline_replicas: Sequence[Int32] = field((), versions="4+", ignorable=True)

    @group
    class UpdateMetadataTopicState:
        topic_name: String = ""
        topic_id: Uuid = field(ZERO_UUID, versions="7+", ignorable=True)
        partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = []

    @group
    class UpdateMetadataBroker:
        id: Int32 = 0
        v0_host: String = field("", versions="0", ignorable=True)
        v0_port: Int32 = field(0, versions="0", ignorable=True)
        endpoints: list[UpdateMetadataRequest.UpdateMetadataEndpoint] = field(
            [], versions="1+", ignorable=True
        )
        rack: String | None = field("", versions="2+", ignorable=True)

    @group
    class UpdateMetadataEndpoint:
        port: Int32 = 0
        host: String = ""
        listener: String = field("", versions="3+", ignorable=True)
        security_protocol: Int16 = 0

    controller_id: Int32 = 0
    is_kraft_controller: Bool = field(False, versions="8+")
    type: Int8 = field(0, versions="8+", tag=0)
    controller_epoch: Int32 = 0
    broker_epoch: Int64 = field(-1, versions="5+", ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field([], versions="0-4")
    topic_states: list[UpdateMetadataTopicState] = field([], versions="5+")
    live_brokers: list[UpdateMetadataBroker] = []


@message(key=6, versions="0-8", flexible="6+")
class UpdateMetadataResponse:
    error_code: Int16 = 0


def _to_topics_and_endpoints(request: UpdateMetadataRequest, version: int) -> UpdateMetadataRequest:
    """Handlers see ``topic_states`` and named endpoints alone.

    Before version 5 each partition names its topic; version 0 has one address for a broker, and
    before version 3 a listener is called as its security protocol. A topic that is named after
    another one is there again, so that the order stays.
    """
    if version < _TOPICS_FROM:
        request.topic_states = [
            UpdateMetadataRequest.UpdateMetadataTopicState(
                topic_name=name,
                partition_states=[replace(state, topic_name="") for state in states],
            )
            for name, states in groupby(request.ungrouped_partition_states, _TOPIC)
        ]
        request.ungrouped_partition_states = []
    if version < _LISTENERS_FROM:
        for broker in request.live_brokers:
            if version == 0:
                plain = UpdateMetadataRequest.UpdateMetadataEndpoint(
                    host=broker.v0_host, port=broker.v0_port
                )
                broker.endpoints, broker.v0_host, broker.v0_port = [plain], "", 0
            for endpoint in broker.endpoints:
                endpoint.listener = _PROTOCOLS.get(endpoint.security_protocol, "")
    return request


def _to_partitions_and_hosts(request: UpdateMetadataRequest, version: int) -> UpdateMetadataRequest:
    if version < _TOPICS_FROM:
        states = [
            replace(state, topic_name=topic.topic_name)
            for topic in request.topic_states
            for state in topic.partition_states
        ]
        request = replace(request, ungrouped_partition_states=states, topic_states=[])
    if version == 0:
        request = replace(request, live_brokers=[_with_host(b) for b in request.live_brokers])
    return request


def _with_host(
    broker: UpdateMetadataRequest.UpdateMetadataBroker,
) -> UpdateMetadataRequest.UpdateMetadataBroker:
    """Version 0 has room for the plaintext address alone."""
    for endpoint in broker.endpoints:
        if endpoint.security_protocol == _PLAINTEXT:
            return replace(broker, v0_host=endpoint.host, v0_port=endpoint.port, endpoints=[])
    return broker


normalised(
    UpdateMetadataRequest,
    after_decode=_to_topics_and_endpoints,
    before_encode=_to_partitions_and_hosts,
)
