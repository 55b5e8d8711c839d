"""Settings of topics, brokers and other resources: id 4; a null value deletes.

KIP-631.
Source: ConfigRecord, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int8, String, record


@record(key=4, versions="0")
class ConfigRecord:
    resource_type: Int8 = 0
    resource_name: String = ""
    name: String = ""
    value: String | None = ""
