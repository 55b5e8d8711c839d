"""The metrics of a broker: one declaration each; a scrape of a broker shows only these.

Those of KIP-590 and KIP-866 are in no Kafka release (docs/divergence.md).
"""

from __future__ import annotations

from typing import Final

from emulator.trace.metric import Metric, MetricKind

_KIP_590: Final = "KIP-590"
_KIP_866: Final = "KIP-866"

BROKER_METADATA_TYPE = Metric(
    "kraft_bridge_broker_metadata_type",
    "Where this broker's metadata comes from: 1 ZooKeeper, 2 KRaft.",
    unit="enum",
    source=_KIP_866,
    bean="kafka.server:type=KafkaServer,name=MetadataType",
)
CLIENT_FORWARDING_COUNT = Metric(
    "kraft_bridge_num_client_forwarding_to_controller_count",
    "Client connections that wait for a request forwarded to the controller.",
    source=_KIP_590,
    bean="kafka.server:type=ForwardingManager,name=NumClientForwardingToControllerCount",
)
CLIENT_FORWARDING_RATE = Metric(
    "kraft_bridge_num_client_forwarding_to_controller_rate",
    "How many connections a second began to wait for a forwarded request, over 30 s.",
    source=_KIP_590,
    bean="kafka.server:type=ForwardingManager,name=NumClientForwardingToControllerRate",
)
MESSAGES_REDIRECTED = Metric(
    "kraft_bridge_num_messages_redirected",
    "Requests that were put into Envelopes.",
    kind=MetricKind.COUNTER,
    source=_KIP_590,
    bean="kafka.server:type=ForwardingManager,name=NumMessagesRedirectedCount",
)
MESSAGES_REDIRECTED_RATE = Metric(
    "kraft_bridge_num_messages_redirected_rate",
    "Requests a second that were put into Envelopes, over 30 s.",
    source=_KIP_590,
    bean="kafka.server:type=ForwardingManager,name=NumMessagesRedirectedRate",
)
FORWARDING_AUTHORIZATION_FAILURES = Metric(
    "kraft_bridge_request_forwarding_to_controller_authorization_fail",
    "Envelopes that the controller refused with CLUSTER_AUTHORIZATION_FAILED: the broker's "
    "principal lacks ClusterAction on the cluster.",
    kind=MetricKind.COUNTER,
    source=_KIP_590,
    bean=(
        "kafka.server:type=ForwardingManager,name=RequestForwardingToControllerAuthorizationFailCount"
    ),
)
FORWARDING_QUEUE_LENGTH = Metric(
    "kraft_bridge_forwarding_queue_length",
    "Requests on the channel to the controller without an answer.",
    source="ForwardingManagerMetrics, Kafka 3.9",
    bean="kafka.server:type=ForwardingManager,name=QueueLength",
)
CLIENT_SOFTWARE = Metric(
    "kraft_bridge_client_software_connections",
    "Open connections by the software that clients name in ApiVersions; unknown: it named none.",
    source="KIP-511",
    labels=("client_software_name", "client_software_version"),
)
BROKER_STATE = Metric(
    "kraft_bridge_broker_state",
    "State of the broker: 1 starting, 2 recovery, 3 running, 6 pending controlled shutdown, "
    "7 shutting down.",
    unit="enum",
    source="BrokerState, Kafka 3.9",
    bean="kafka.server:type=KafkaServer,name=BrokerState",
)
APPLIED_OFFSET = Metric(
    "kraft_bridge_broker_last_applied_record_offset",
    "Offset of the last record of the metadata log that this broker applied.",
    unit="records",
    source="BrokerServerMetrics, Kafka 3.9",
    bean="kafka.server:type=broker-metadata-metrics,name=last-applied-record-offset",
)

BROKER_METRICS: Final[tuple[Metric, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Metric)
)
"""Every metric of a broker, in the order declared."""
