"""The caller of a broker as the APIs see it that controllers and brokers answer alike.

Descriptions of configs and of ACLs are the same functions on both; access to a resource is decided
by the same authorizer, on the ACLs of the image.

Source: KafkaApis, AuthHelper, Kafka 3.9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from emulator.broker.any_resource import allows_any
from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked
from emulator.config.broker import BrokerConfig
from emulator.controller.api.describe_cluster import ON_CLUSTER
from emulator.controller.authorizer import StandardAuthorizer
from emulator.controller.context import CLUSTER_NAME, Call, ControllerConfig
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.image import Image
from emulator.net.reply import Ticket

ON_TOPIC: Final = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
"""The operations of a topic (AclEntry.supportedOperations)."""
EVERYTHING_ON_TOPIC: Final = sum(1 << one for one in ON_TOPIC)


@dataclass(frozen=True, slots=True)
class BrokerReading:
    """One request to a broker; a ``ReadContext`` of the controller's APIs."""

    config: ControllerConfig
    call: Call
    image: Image

    @property
    def api_version(self) -> int:
        """API version of the request."""
        return self.call.header.api_version

    def allowed(
        self, image: Image, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether the caller may do this operation on that resource; True without authorizer."""
        authorizer = self.config.authorizer
        return authorizer is None or authorizer.allows(
            image, self.call, operation, resource_type, name
        )

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the caller may do this operation on that resource now."""
        return self.allowed(self.image, operation, resource_type, name)

    def operations_on_cluster(self) -> int:
        """One bit per operation that the caller may do on the cluster; 0 for who may not see it."""
        if not self.may_on_cluster(Operation.DESCRIBE):
            return 0
        return sum(1 << one for one in ON_CLUSTER if self.may_on_cluster(one))

    def operations_on_topic(self, name: str) -> int:
        """One bit per operation that the caller may do on a topic (KIP-430)."""
        if self.config.authorizer is None:
            return EVERYTHING_ON_TOPIC  # a request may ask for thousands of topics
        return sum(1 << one for one in ON_TOPIC if self.may(one, ResourceType.TOPIC, name))

    def may_to_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there is at least one resource of the type that the caller may do this to."""
        authorizer = self.config.authorizer
        return authorizer is None or allows_any(
            authorizer, self.image, self.call, operation, resource_type
        )

    def may_on_cluster(self, operation: Operation) -> bool:
        """Whether the caller may do this operation on the cluster now."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def reading(cluster: KnownCluster, request: object, asked: Asked) -> BrokerReading:
    """The request of one caller, and the metadata as it is now."""
    call = Call(
        ticket=Ticket(-1, -1, asked.header, 0),
        header=asked.header,
        message=request,
        principal=asked.principal,
        client_address=asked.address,
        listener=asked.listener,
        received_ms=asked.now_ms,
    )
    return BrokerReading(_as_node(asked.config, cluster.cluster_id), call, cluster.image)


def _as_node(config: BrokerConfig, cluster_id: str) -> ControllerConfig:
    """A broker as the node that answers."""
    acls = config.authorizer
    return ControllerConfig(
        node_id=config.node_id,
        cluster_id=cluster_id,
        release=config.release,
        properties={"node.id": str(config.node_id), **config.static},
        authorizer=None
        if acls is None
        else StandardAuthorizer(acls.super_users, acls.allow_everyone_if_no_acl_found),
    )
