"""Settings of delegation tokens and of the quota on controller mutations, by Kafka's names.

Source: DelegationTokenManagerConfigs, QuotaConfigs, Kafka 3.9; KIP-48, KIP-599.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from emulator.config.java_text import INT_MAX, LONG_MAX, trim
from emulator.config.reading import PropertyReader, integer

# Limits on accepted connections, by Kafka's names.
#
# Source: SocketServerConfigs, Kafka 3.9; KIP-308, KIP-402.


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Limits on the number of connections and on their idle time."""

    idle_ms: int = 600_000
    """Milliseconds; negative: no limit."""
    most: int = INT_MAX
    most_per_address: int = INT_MAX
    most_of: Mapping[bytes, int] = field(default_factory=dict)
    """Overrides of ``most_per_address``, by address: 4 or 16 raw bytes."""

    @classmethod
    def read(cls, reader: PropertyReader) -> ConnectionSettings:
        """Read the properties; problems are collected in the reader.

        >>> ConnectionSettings.read(PropertyReader({"max.connections": "5"})).most
        5
        """
        plain, count = cls(), integer(0)
        per_address = reader.take("max.connections.per.ip", count, plain.most_per_address)
        overrides = reader.take("max.connections.per.ip.overrides", _overrides, dict[bytes, int]())
        if per_address == 0 and not overrides:
            reader.problems.append(
                "max.connections.per.ip=0 refuses every connection, as "
                "max.connections.per.ip.overrides is empty"
            )
        return cls(
            reader.take("connections.max.idle.ms", integer(-LONG_MAX - 1, LONG_MAX), plain.idle_ms),
            reader.take("max.connections", count, plain.most),
            per_address,
            overrides,
        )


def _overrides(text: str) -> dict[bytes, int]:
    """Parse ``address:count`` entries; unlike in Kafka, host names are not looked up.

    >>> [(len(address), count) for address, count in _overrides("127.0.0.1:20, ::1:3").items()]
    [(4, 20), (16, 3)]
    """
    found = {}
    for part in filter(None, (trim(one) for one in text.split(","))):
        address, _, count = part.rpartition(":")
        try:
            found[ip_address(address.strip("[]")).packed] = integer(0)(trim(count))
        except ValueError:
            raise ValueError(f"{part!r} is not address:count; names are not looked up") from None
    return found


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
