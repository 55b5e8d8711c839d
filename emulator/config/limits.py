"""Settings of delegation tokens and of the quota on controller mutations, by Kafka's names.

Source: DelegationTokenManagerConfigs, QuotaConfigs, Kafka 3.9; KIP-48, KIP-599.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from emulator.config.reading import INT_MAX, LONG_MAX, PropertyReader, integer

HOUR_MS: Final = 60 * 60 * 1000
SECRET_KEYS: Final = ("delegation.token.secret.key", "delegation.token.master.key")
"""The name, and the one it had before 2.8 (KIP-681)."""
_NUMBERS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "delegation.token.max.lifetime.ms": (7 * 24 * HOUR_MS, LONG_MAX),
        "delegation.token.expiry.time.ms": (24 * HOUR_MS, LONG_MAX),
        "delegation.token.expiry.check.interval.ms": (HOUR_MS, LONG_MAX),
        "controller.quota.window.num": (11, INT_MAX),
        "controller.quota.window.size.seconds": (1, INT_MAX),
    }
)
"""Property -> its default and its largest value; the smallest is 1."""


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """Delegation tokens: ``secret`` None turns them off. Times in milliseconds."""

    secret: str | None
    max_lifetime_ms: int
    expiry_ms: int
    """How long a token lives unless it is renewed."""
    check_interval_ms: int

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> TokenSettings:
        """Read checked properties."""
        secrets = (properties.get(name) for name in SECRET_KEYS)
        return cls(
            next((secret for secret in secrets if secret), None),
            _number(properties, "delegation.token.max.lifetime.ms"),
            _number(properties, "delegation.token.expiry.time.ms"),
            _number(properties, "delegation.token.expiry.check.interval.ms"),
        )


@dataclass(frozen=True, slots=True)
class MutationQuotaSettings:
    """A client may save up ``windows`` times ``window_seconds`` of its rate."""

    windows: int
    window_seconds: int

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> MutationQuotaSettings:
        """Read checked properties."""
        return cls(
            _number(properties, "controller.quota.window.num"),
            _number(properties, "controller.quota.window.size.seconds"),
        )


def problems(properties: Mapping[str, str]) -> list[str]:
    """What is wrong with these settings, one sentence each.

    >>> problems({"controller.quota.window.num": "0"})
    ['controller.quota.window.num=0: must be between 1 and 2147483647']
    """
    reader = PropertyReader(properties)
    for name, (default, largest) in _NUMBERS.items():
        reader.take(name, integer(1, largest), default)
    return reader.problems


def _number(properties: Mapping[str, str], name: str) -> int:
    text = properties.get(name)
    return _NUMBERS[name][0] if text is None else int(text)
