"""The input of a handler besides the image and the request: the configuration and the caller.

All values are read-only for handlers; the machine fills them in for each call.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol

import msgspec

from emulator.config.limits import MutationQuotaSettings, TokenSettings
from emulator.controller.heartbeats import Heartbeats
from emulator.controller.index import TipIndex
from emulator.controller.moving import MovingTopics
from emulator.controller.mutation_quota import UNLIMITED, MutationQuota
from emulator.controller.token_index import TokenIndex
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.image import Image
from emulator.metadata.znodes import ZnodeKey, ZnodeSize
from emulator.seam import Ticket
from wire.frame import RequestHeader

EMPTY: Mapping[str, str] = MappingProxyType({})
_UUID_RANDOM: Final = (1 << 128) - 1 & ~(0xF000 << 64 | 0xC000 << 48)
_UUID_VERSION: Final = 4 << 76 | 0x8000 << 48
RESERVED_UUIDS = frozenset(number.to_bytes(16, "big") for number in range(100))
"""Reserved directory ids (high half 0, low half below 100)."""


@dataclass(frozen=True, slots=True)
class ControllerEndpoint:
    """One controller endpoint as RegisterControllerRecord carries it."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """The settings of one controller that affect its responses.

    ``release`` is the Kafka release whose API versions are spoken ("3.4" ... "3.9").
    ``metadata_version`` is the level written into an empty log, ``bootstrap_records`` the records
    written after it (such as the users of ``kafka-storage format --add-scram``). ``properties`` are
    the controller's own server.properties, the source of static values of topic configs. If
    ``authorizer`` is None, every caller may do everything and ACLs cannot be managed. If ``znodes``
    is None, the sizes of znodes are not checked. Times in milliseconds.
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
    finalises_at_once: bool = False
    """Whether a leader without ``migration_enabled`` ends a migration as Kafka does: alone."""


class Call(msgspec.Struct, frozen=True, gc=False):
    """One request on its way through the controller.

    ``ticket`` is returned with the reply and is not interpreted here. ``client_address`` is 4 or 16
    raw bytes, ``principal`` Kafka's ``Type:name``. ``deadline_ms``: after it the caller is answered
    REQUEST_TIMED_OUT; None takes the request's own ``timeout_ms`` if it has one, else no limit.
    ``forwarded``: it came in an Envelope, and principal and address are those in the Envelope;
    ``outer`` is the call of the Envelope, whose ticket is used. ``token_authenticated``: the
    principal logged in with a delegation token.
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
    """Authorizes callers with the ACLs in the metadata (KIP-801)."""

    def is_super_user(self, principal: str) -> bool:
        """Whether this principal is a super user, for whom no ACL is checked."""

    def allows(
        self,
        image: Image,
        call: Call,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether the caller may do this operation on that resource, from its address."""

    def allowed(
        self,
        image: Image,
        call: Call,
        operations: Sequence[Operation],
        resource_type: ResourceType,
        name: str,
    ) -> list[Operation]:
        """Those of these operations that the caller may do on that resource."""


class Znodes(Protocol):
    """Sizes of znodes, as the controller needs them for validation."""

    @property
    def bytes_max(self) -> int:
        """Maximum bytes of a request for one znode, including the other operations of its multi."""

    @property
    def bytes_new(self) -> int:
        """Maximum bytes of a request that creates a znode, without names and values."""

    def measure(self, image: Image, key: ZnodeKey) -> ZnodeSize:
        """The size of a znode; 0 bytes when the image does not have it."""


CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of type CLUSTER (Resource.CLUSTER_NAME)."""


class ReadContext(Protocol):
    """What an API that only reads needs besides the image: who answers, and what the caller may do.

    A controller's :class:`Context` is one; a broker has its own, so that both answer alike.
    """

    @property
    def config(self) -> ControllerConfig:
        """The node that answers: its id, release, properties and authorizer."""

    @property
    def call(self) -> Call:
        """The request."""

    def allowed(
        self, image: Image, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether the caller may do this operation on that resource."""


class Context(msgspec.Struct, frozen=True, gc=False):
    """The context of one handler call.

    ``next_offset`` is the offset that the first record of the result will get. ``features_epoch``
    and ``leader_id`` (-1: unknown) are used by ApiVersions and DescribeCluster only.
    ``mutation_quota`` limits how many partitions the caller may create and delete.
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
    mutation_quota: MutationQuota = UNLIMITED
    tokens: TokenIndex | None = None
    """Tokens by HMAC, of any image; None: to be made."""
    moving: MovingTopics = msgspec.field(default_factory=MovingTopics)
    """Topics whose partitions are being moved, of any image."""

    def allowed(
        self, image: Image, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether the caller may do this operation on that resource; True without authorizer."""
        authorizer = self.config.authorizer
        return authorizer is None or authorizer.allows(
            image, self.call, operation, resource_type, name
        )

    @property
    def api_version(self) -> int:
        """API version of the request."""
        return self.call.header.api_version

    def random_uuid(self) -> bytes:
        """A version 4 UUID that is none of Kafka's reserved ids and does not start with ``-``.

        Source: Uuid.randomUuid, Kafka 3.9 (a leading dash would look like a command line flag).
        """
        while True:
            # The fields of RFC 4122: version 4 in 4 bits, the variant in 2.
            bits = self.rng.getrandbits(128) & _UUID_RANDOM | _UUID_VERSION
            value = bits.to_bytes(16, "big")
            if value not in RESERVED_UUIDS and value[0] >> 2 != 62:
                return value
