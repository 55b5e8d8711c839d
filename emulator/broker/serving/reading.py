"""The caller of a broker as the APIs see it that controllers and brokers answer alike.

Descriptions of configs and of ACLs are the same functions on both; access to a resource is decided
by the same authorizer, on the ACLs of the image.

Source: KafkaApis, AuthHelper, Kafka 3.9.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked
from emulator.config.broker import BrokerConfig
from emulator.controller.api.describe_cluster import ON_CLUSTER
from emulator.controller.context import CLUSTER_NAME, Authorizer, Call, ControllerConfig
from emulator.controller.rules.authorizer import ANYBODY, StandardAuthorizer, host_address
from emulator.controller.tables.acl_index import AclFilter, AclIndex
from emulator.metadata.acls import WILDCARD, Operation, PatternType, Permission, ResourceType
from emulator.metadata.image import Image
from emulator.seam import Kept, Pace, Same, Slices, Ticket

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
SOME_NAME: Final = "hardcode"
"""Kafka asks about this name first, for super users and for resources without ACLs."""
CALLERS_KEPT: Final = 1_000
"""Callers of whom it is kept whether they may do something to any resource."""


def allows_any(
    authorizer: Authorizer, image: Image, call: Call, operation: Operation, kind: ResourceType
) -> Slices[bool]:
    """Whether an ALLOW is left that no DENY covers (KIP-679), in slices; kept for each caller.

    Source: Authorizer.authorizeByResourceType, Kafka 3.9.

    Args:
        authorizer: its answer for a single resource.
        image: holds the ACLs.
        call: the caller.
        operation: must be named by an entry, or be among ALL.
        kind: the type of the resources.
    """
    if authorizer.allows(image, call, operation, kind, SOME_NAME):
        return True
    same = Same(image.acls)
    kept = _KEPT.find(same) or _KEPT.keep(same, Kept(CALLERS_KEPT))
    principals = frozenset({call.principal, ANYBODY})
    hosts = frozenset({host_address(call.client_address), WILDCARD})
    caller = (principals, hosts, operation, kind)
    return (yield from kept.made(caller, lambda: _is_any_left(image, *caller)))


def _is_any_left(
    image: Image,
    principals: frozenset[str],
    hosts: frozenset[str],
    operation: Operation,
    kind: ResourceType,
) -> Slices[bool]:
    index, pace, every = AclIndex(image), Pace(), int(PatternType.ANY)
    allowed: set[tuple[int, str]] = set()
    denied: set[tuple[int, str]] = set()
    for principal, host, named in product(principals, hosts, (operation, Operation.ALL)):
        wanted = AclFilter(kind, None, every, principal, host, named, Permission.ANY)
        for _, acl in (yield from index.find(wanted)):
            if pace.over():
                yield
            chosen = denied if acl.permission == Permission.DENY else allowed
            chosen.add((int(acl.resource.pattern_type), acl.resource.name))
    everything, prefixed = (int(PatternType.LITERAL), WILDCARD), int(PatternType.PREFIXED)
    if everything in denied:
        return False
    if everything in allowed or not denied:
        return bool(allowed)
    lengths = {len(name) for pattern, name in denied if pattern == prefixed and name}
    for pattern, name in allowed:
        if pace.over(1 + len(lengths)):
            yield
        literal = pattern == PatternType.LITERAL and (pattern, name) in denied
        if not literal and all((prefixed, name[:length]) not in denied for length in lengths):
            return True
    return False


_KEPT: Final = Kept[Kept[bool]]()
"""For callers, until an ACL changes."""


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
        """One bit per operation that the caller may do on the cluster; 0 without DESCRIBE."""
        if not self.may_on_cluster(Operation.DESCRIBE):
            return 0
        return sum(1 << one for one in ON_CLUSTER if self.may_on_cluster(one))

    def operations_on_topic(self, name: str) -> int:
        """One bit per operation that the caller may do on a topic (KIP-430)."""
        authorizer = self.config.authorizer
        if authorizer is None:
            return EVERYTHING_ON_TOPIC  # a request may ask for thousands of topics
        topic = ResourceType.TOPIC
        allowed = authorizer.allowed(self.image, self.call, ON_TOPIC, topic, name)
        return sum(1 << one for one in allowed)

    def may_to_any(self, operation: Operation, resource_type: ResourceType) -> Slices[bool]:
        """Whether there is at least one resource of the type that the caller may do this to."""
        authorizer = self.config.authorizer
        if authorizer is None:
            return True
        return (yield from allows_any(authorizer, self.image, self.call, operation, resource_type))

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
