"""Finalised features: id 12.

KIP-778.
Source: FeatureLevelRecord, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int16, String, record


@record(key=12, versions="0")
class FeatureLevelRecord:
    name: String = ""
    feature_level: Int16 = 0
