"""The input of a handler besides the image and the request: the configuration and the caller.

All values are read-only for handlers; the machine fills them in for each call.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import msgspec

from emulator.config.limits import MutationQuotaSettings, TokenSettings
from emulator.controller.queue.heartbeats import Heartbeats
from emulator.controller.result import ApiError, Spent
from emulator.controller.tables.index import TipIndex
from emulator.controller.tables.token_index import TokenIndex
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.client_quotas import CLIENT_ID, NONE, USER, ClientQuotas, EntityPart
from emulator.metadata.image import Image
from emulator.metadata.pmap import PMap
from emulator.metadata.topics import Topic
from emulator.metadata.znodes import ZnodeKey, ZnodeSize
from emulator.seam import RECORDS_PER_SLICE, Pace, Slices, Ticket, listed
from wire.errors import ErrorCode
from wire.frame import RequestHeader

# The quota on creating and deleting partitions: a token bucket per client. KIP-599.
#
# ``controller_mutation_rate`` fills a bucket, in partitions per second, up to a fixed number of
# seconds; each partition takes one token. A strict caller is refused while the bucket is below
# zero, an older caller is served and told how long to wait. One request may take a bucket below
# zero. Buckets are soft state: a new leader starts with full ones.
#
# Source: ControllerMutationQuotaManager, ClientQuotaManager.DefaultQuotaCallback, TokenBucket,
# Kafka 3.9.

RATE: Final = "controller_mutation_rate"
FORGET_AFTER_MS: Final = 60 * 60 * 1000
"""A bucket not used for this time is full again (InactiveSensorExpirationTimeSeconds)."""
EXCEEDED: Final = ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
"""No text, as in Kafka, where it would only repeat the error code."""


class Sharers(NamedTuple):
    """Who shares a bucket: one user's one client; all of a user's; all clients of one id.

    The empty string stands for all.
    """

    user: str
    client: str


NOBODY: Final = Sharers("", "")


@dataclass(slots=True)
class MutationQuota:
    """The quota of one request; keeps the tokens it took until the request is performed.

    ``rate`` None: no limit. ``throttle_ms`` is the throttle time for the response.
    """

    sharers: Sharers = NOBODY
    rate: float | None = None
    burst: float = 0.0
    now_ms: int = 0
    tokens: float = 0.0
    throttle_ms: int = 0

    def take(self, partitions: int, *, strict: bool) -> ApiError | None:
        """Take tokens.

        Args:
            partitions: to be created or deleted.
            strict: whether the caller knows THROTTLING_QUOTA_EXCEEDED.

        Returns:
            THROTTLING_QUOTA_EXCEEDED if the bucket was already below zero, and nothing is taken;
            else None.
        """
        if self.rate is None:
            return None
        if strict and self.tokens < 0:
            self.throttle_ms = self._overdrawn_ms()
            return EXCEEDED
        self.tokens = min(self.burst, self.tokens - partitions)
        if not strict and self.tokens < 0:
            self.throttle_ms = self._overdrawn_ms()
        return None

    @property
    def spent(self) -> Spent | None:
        """The tokens in the bucket afterwards; None without a limit."""
        if self.rate is None:
            return None
        return Spent(*self.sharers, self.tokens, self.now_ms)

    def _overdrawn_ms(self) -> int:
        assert self.rate is not None, "without a rate there is no bucket"
        return math.floor(min(-self.tokens / self.rate * 1000 + 0.5, 2**31 - 1))


UNLIMITED: Final = MutationQuota()
"""Of all callers without a limit: taking tokens from it changes nothing."""


@dataclass(slots=True)
class MutationQuotas:
    """All buckets of one controller."""

    settings: MutationQuotaSettings
    _buckets: dict[Sharers, Spent] = field(default_factory=dict)
    _pruned_ms: int = 0

    def of(
        self, quotas: ClientQuotas, principal: str, client_id: str | None, now_ms: int
    ) -> MutationQuota:
        """The quota of a caller now; nothing changes before ``performed``.

        Args:
            quotas: the limits in force.
            principal: Kafka's ``Type:name``; limits are by name.
            client_id: from the header of the request that the client itself sent.
            now_ms: the clock.
        """
        if not quotas:
            return UNLIMITED
        sharers = shared_by(quotas, principal.partition(":")[2], client_id or "")
        rate = rate_of(quotas, sharers)
        if rate is None or math.isinf(rate):
            return MutationQuota(sharers)
        burst = self.settings.windows * self.settings.window_seconds * rate
        bucket = self._buckets.get(sharers)
        tokens = burst
        if bucket is not None and now_ms - bucket.at_ms < FORGET_AFTER_MS:
            tokens = min(burst, bucket.tokens + rate * (now_ms - bucket.at_ms) / 1000)
        return MutationQuota(sharers, rate, burst, now_ms, tokens)

    def performed(self, spent: Spent) -> None:
        """Store the tokens that a request left in its bucket."""
        self._buckets[Sharers(spent.user, spent.client)] = spent
        if spent.at_ms - self._pruned_ms >= FORGET_AFTER_MS:
            self._pruned_ms = spent.at_ms
            old = spent.at_ms - FORGET_AFTER_MS
            self._buckets = {who: one for who, one in self._buckets.items() if one.at_ms > old}

    @property
    def buckets(self) -> Mapping[Sharers, Spent]:
        """Every bucket in use."""
        return MappingProxyType(self._buckets)


def shared_by(quotas: ClientQuotas, user: str, client: str) -> Sharers:
    """Who shares the bucket of a user's client: the most specific limit decides.

    Source: DefaultQuotaCallback.quotaMetricTags, Kafka 3.9.
    """
    named, by_default = (_user(user), _user(None))
    for who in (named, by_default):
        for entity, shared in (
            ((_client(client), who), Sharers(user, client)),
            ((_client(None), who), Sharers(user, client)),
            ((who,), Sharers(user, "")),
        ):
            if RATE in (quotas.get(entity) or NONE):
                return shared
    return Sharers("", client)


def rate_of(quotas: ClientQuotas, sharers: Sharers) -> float | None:
    """The limit of those who share a bucket, in partitions per second; None for none.

    Source: DefaultQuotaCallback.quotaLimit, Kafka 3.9.
    """
    user, client = sharers
    entities: tuple[tuple[EntityPart, ...], ...] = ()
    if user and client:
        entities = tuple(
            (one, who)
            for who in (_user(user), _user(None))
            for one in (_client(client), _client(None))
        )
    elif user:
        entities = ((_user(user),), (_user(None),))
    elif client:
        entities = ((_client(client),), (_client(None),))
    limits = (quotas.get(entity) or NONE for entity in entities)
    return next((one[RATE] for one in limits if RATE in one), None)


def _user(name: str | None) -> EntityPart:
    return EntityPart.of(USER, name)


def _client(name: str | None) -> EntityPart:
    return EntityPart.of(CLIENT_ID, name)


class MovingTopics:
    """Topics with partitions whose replicas are being moved, in any image.

    The index over the newest image (``index.py``) has them too, but what is listed is what is
    committed. Two versions of the topics share most of their parts, so what has come and gone is
    found without a look at each topic.
    """

    def __init__(self) -> None:
        self._ids: set[bytes] = set()
        self._seen: PMap[bytes, Topic] = PMap()

    def find(self, topics: PMap[bytes, Topic]) -> Slices[list[Topic]]:
        """Those of an image, by id; the first look at an image that is far off takes slices."""
        while self._seen is not topics:
            seen = self._seen
            gone, come = seen.apart(topics)
            moving: list[bytes] = []
            pace = Pace(RECORDS_PER_SLICE)
            for topic_id, topic in come.items():
                if pace.over(1 + len(topic.partitions)):
                    yield
                partitions = topic.partitions.values()
                if any(one.adding_replicas or one.removing_replicas for one in partitions):
                    moving.append(topic_id)
            if self._seen is seen:  # else somebody else's look has ended meanwhile
                self._seen = topics
                self._ids = self._ids.difference(gone).union(moving)
        return (yield from listed(topics.__getitem__, sorted(self._ids), RECORDS_PER_SLICE))


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
