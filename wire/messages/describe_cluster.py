"""DescribeCluster (60): show brokers, or controllers, and the active controller.

KIP-700, KIP-919 (v1). Source: DescribeClusterRequest, DescribeClusterResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bool, Int8, Int16, Int32, String, field, group, message


@message(key=60, versions="0-1", flexible="0+")
class DescribeClusterRequest:
    include_cluster_authorized_operations: Bool = False
    endpoint_type: Int8 = field(1, versions="1+")


@message(key=60, versions="0-1", flexible="0+")
class DescribeClusterResponse:
    @group
    class DescribeClusterBroker:
        broker_id: Int32 = 0
        host: String = ""
        port: Int32 = 0
        rack: String | None = None

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Int8 = field(1, versions="1+")
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = []
    cluster_authorized_operations: Int32 = -2_147_483_648
