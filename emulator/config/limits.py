"""Settings of delegation tokens and of the quota on controller mutations, by Kafka's names.

Source: DelegationTokenManagerConfigs, QuotaConfigs, Kafka 3.9; KIP-48, KIP-599.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from emulator.config.java_text import LONG_MAX
from emulator.config.reading import PropertyReader, integer

HOUR_MS: Final = 60 * 60 * 1000
SECRET_KEYS: Final = ("delegation.token.secret.key", "delegation.token.master.key")
"""The current name, and the name before 2.8 (KIP-681)."""


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """Delegation tokens: ``secret`` None turns them off. Times in milliseconds."""

    secret: str | None = field(default=None, repr=False)
    max_lifetime_ms: int = 7 * 24 * HOUR_MS
    expiry_ms: int = 24 * HOUR_MS
    """How long a token lives unless it is renewed."""
    check_interval_ms: int = HOUR_MS

    @classmethod
    def read(cls, reader: PropertyReader) -> TokenSettings:
        """Read ``delegation.token.*``; problems are collected in the reader.

        >>> TokenSettings.read(PropertyReader({"delegation.token.expiry.time.ms": "5"})).expiry_ms
        5
        """
        plain, positive = cls(), integer(1, LONG_MAX)
        secrets = [reader.take(name, str, "") for name in SECRET_KEYS]
        return cls(
            next(filter(None, secrets), None),
            reader.take("delegation.token.max.lifetime.ms", positive, plain.max_lifetime_ms),
            reader.take("delegation.token.expiry.time.ms", positive, plain.expiry_ms),
            reader.take(
                "delegation.token.expiry.check.interval.ms", positive, plain.check_interval_ms
            ),
        )


@dataclass(frozen=True, slots=True)
class MutationQuotaSettings:
    """A client's tokens are limited to ``windows`` times ``window_seconds`` of its rate."""

    windows: int = 11
    window_seconds: int = 1

    @classmethod
    def read(cls, reader: PropertyReader) -> MutationQuotaSettings:
        """Read ``controller.quota.*``; problems are collected in the reader."""
        plain, positive = cls(), integer(1)
        return cls(
            reader.take("controller.quota.window.num", positive, plain.windows),
            reader.take("controller.quota.window.size.seconds", positive, plain.window_seconds),
        )
