"""A record that only moves the log forward: id 20.

KIP-835.
Source: NoOpRecord, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import record


@record(key=20, versions="0")
class NoOpRecord:  # no fields
    pass
