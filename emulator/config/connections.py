"""Limits on accepted connections, by Kafka's names.

Source: SocketServerConfigs, Kafka 3.9; KIP-308, KIP-402.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

from emulator.config.java_text import INT_MAX, LONG_MAX, trim
from emulator.config.reading import PropertyReader, integer


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
