"""Transactions of the metadata log: ids 23, 24, 25.

KIP-868.
Source: the records of the same names, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import String, field, record


@record(key=23, versions="0")
class BeginTransactionRecord:
    name: String | None = field(None, tag=0)


@record(key=24, versions="0")
class EndTransactionRecord:  # no fields
    pass


@record(key=25, versions="0")
class AbortTransactionRecord:
    reason: String | None = field(None, tag=0)
