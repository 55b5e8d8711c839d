"""The quota on creating and deleting partitions: a token bucket per client. KIP-599.

``controller_mutation_rate`` fills a bucket, in partitions per second, up to a fixed number of
seconds; each partition takes one token. A strict caller is refused while the bucket is below zero,
an older caller is served and told how long to wait. One request may take a bucket below zero.
Buckets are soft state: a new leader starts with full ones.

Source: ControllerMutationQuotaManager, ClientQuotaManager.DefaultQuotaCallback, TokenBucket,
Kafka 3.9.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from emulator.config.limits import MutationQuotaSettings
from emulator.controller.result import ApiError, Spent
from emulator.metadata.client_quotas import CLIENT_ID, NONE, USER, ClientQuotas, EntityPart
from wire.errors import ErrorCode

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
