"""What a handler may know besides the image and the request: its configuration and its caller.

All values are plain and read-only for handlers; the machine fills them in for each call.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from emulator.config.limits import MutationQuotaSettings, TokenSettings
from emulator.controller.heartbeats import Heartbeats
from emulator.controller.index import TipIndex
from emulator.controller.mutation_quota import MutationQuota
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.image import Image
from emulator.net.reply import Ticket
from wire.frame import RequestHeader

EMPTY: Mapping[str, str] = MappingProxyType({})
RESERVED_UUIDS = frozenset(number.to_bytes(16, "big") for number in range(100))
"""Directory ids with a meaning of their own (high half 0, low half below 100)."""


@dataclass(frozen=True, slots=True)
class ControllerEndpoint:
    """One controller endpoint as RegisterControllerRecord carries it."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """The settings of one controller that decide how it answers.

    ``release`` is the Kafka line whose dialect is spoken ("3.4" ... "3.9"); ``metadata_version``
    the level written into an empty log, ``bootstrap_records`` what else begins it (users, as
    ``kafka-storage format --add-scram`` leaves them). ``properties`` are the controller's own
    server.properties, the source of static values of topic configs. Without ``authorizer``
    everybody may do everything, and there are no ACLs to manage. Without ``znodes`` nothing is
    measured for ZooKeeper. Times in milliseconds.
    """

    node_id: int
    cluster_id: str
    release: str = "3.9"
    metadata_version: int = 21
    bootstrap_records: tuple[object, ...] = ()
    migration_enabled: bool = False
    incarnation_id: bytes = bytes(16)
    listeners: tuple[ControllerEndpoint, ...] = ()
    inter_broker_listener_name: str | None = None
    voters: frozenset[int] = frozenset()
    broker_session_timeout_ms: int = 9_000
    broker_heartbeat_interval_ms: int = 2_000
    metadata_max_idle_interval_ms: int = 500
    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    tokens: TokenSettings = TokenSettings()  # noqa: RUF009  # frozen
    mutation_quota: MutationQuotaSettings = MutationQuotaSettings()  # noqa: RUF009  # frozen
    properties: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    authorizer: Authorizer | None = None
    znodes: Znodes | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One request on its way through the controller.

    ``ticket`` comes back with the reply and means nothing here. ``client_address`` is 4 or 16 raw
    bytes, ``principal`` Kafka's ``Type:name``. ``deadline_ms``: after it the caller is answered
    REQUEST_TIMED_OUT; None takes the request's own ``timeout_ms`` if it has one, else no limit.
    ``forwarded``: it came in an Envelope, and principal and address are those found in there;
    ``outer`` is the Envelope, and the ticket is the Envelope's.
    ``token_authenticated``: the principal logged in with a delegation token.
    """

    ticket: Ticket
    header: RequestHeader
    message: object
    principal: str = "User:ANONYMOUS"
    client_address: bytes = b"\x7f\x00\x00\x01"
    listener: str = "CONTROLLER"
    received_ms: int = 0
    deadline_ms: int | None = None
    forwarded: bool = False
    token_authenticated: bool = False
    outer: Call | None = None


class Authorizer(Protocol):
    """Decides on the metadata itself who may do what (KIP-801)."""

    def is_super_user(self, principal: str) -> bool:
        """Whether ACLs do not matter for this principal."""

    def allows(
        self,
        image: Image,
        call: Call,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether the principal of a call may do this, from its address, to that resource."""


class ZnodeKey(NamedTuple):
    """A znode by what it shows: a class of entities, and one of them.

    ``entities`` is ``topics`` (``of`` is the id), ``topic_configs`` (the name), or the name of a
    class of ``migration.zk_tree.entities`` (its key).
    """

    entities: str
    of: object


class ZnodeSize(NamedTuple):
    """Path of a znode, and bytes of a request that writes it."""

    path: str
    bytes: int


class Znodes(Protocol):
    """Knows how metadata is written to ZooKeeper, as far as the controller has to ask."""

    @property
    def bytes_max(self) -> int:
        """What a znode may take of a request, with what goes into one multi with it."""

    @property
    def bytes_new(self) -> int:
        """What one that is made takes at most, beside names and values."""

    def measure(self, image: Image, key: ZnodeKey) -> ZnodeSize:
        """What a znode takes; no bytes when the image does not have it."""


CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of type CLUSTER (Resource.CLUSTER_NAME)."""


@dataclass(frozen=True, slots=True)
class Context:
    """Surroundings of one handler call.

    ``next_offset`` is the offset the first record of the answer will get. ``features_epoch`` and
    ``leader_id`` (-1: unknown) feed ApiVersions and DescribeCluster only. How many partitions the
    caller may create and delete is in ``mutation_quota``.
    """

    config: ControllerConfig
    call: Call
    now_ms: int
    next_offset: int
    heartbeats: Heartbeats
    index: TipIndex
    rng: random.Random
    features_epoch: int = -1
    leader_id: int = -1
    mutation_quota: MutationQuota = field(default_factory=MutationQuota)

    def allowed(
        self, image: Image, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether the caller may do this to that resource; always, without an authorizer."""
        authorizer = self.config.authorizer
        return authorizer is None or authorizer.allows(
            image, self.call, operation, resource_type, name
        )

    @property
    def api_version(self) -> int:
        """Version in which the caller spoke."""
        return self.call.header.api_version

    def random_uuid(self) -> bytes:
        """A version 4 UUID that is none of Kafka's reserved ids and does not start with ``-``.

        Source: Uuid.randomUuid, Kafka 3.9 (a leading dash would look like a command line flag).
        """
        while True:
            value = UUID(int=self.rng.getrandbits(128), version=4).bytes
            if value not in RESERVED_UUIDS and value[0] >> 2 != 62:
                return value
