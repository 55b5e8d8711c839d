"""Dynamic broker configs that the controller validates.

Source: DynamicBrokerConfig, KafkaConfig, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from emulator.controller.config_types import (
    BOOLEAN,
    DOUBLE,
    INT,
    LONG,
    STRING,
    ConfigRefusedError,
    ConfigType,
)

BROKER_LISTS: Mapping[str, str] = MappingProxyType(
    {
        "advertised.listeners": "",
        "listeners": "",
        "log.cleanup.policy": "delete",
        "metric.reporters": "",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.principal.to.local.rules": "DEFAULT",
        "ssl.cipher.suites": "",
        "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    }
)

BROKER_KINDS: Mapping[str, ConfigType] = MappingProxyType(
    {
        "background.threads": INT,
        "compression.type": STRING,
        "connection.creation.rate": INT,
        "follower.replication.throttled.rate": LONG,
        "leader.replication.throttled.rate": LONG,
        "log.cleaner.backoff.ms": LONG,
        "log.cleaner.dedupe.buffer.size": LONG,
        "log.cleaner.delete.retention.ms": LONG,
        "log.cleaner.io.buffer.load.factor": DOUBLE,
        "log.cleaner.io.buffer.size": INT,
        "log.cleaner.io.max.bytes.per.second": DOUBLE,
        "log.cleaner.max.compaction.lag.ms": LONG,
        "log.cleaner.min.cleanable.ratio": DOUBLE,
        "log.cleaner.min.compaction.lag.ms": LONG,
        "log.cleaner.threads": INT,
        "log.flush.interval.messages": LONG,
        "log.flush.interval.ms": LONG,
        "log.index.interval.bytes": INT,
        "log.index.size.max.bytes": INT,
        "log.local.retention.bytes": LONG,
        "log.local.retention.ms": LONG,
        "log.message.downconversion.enable": BOOLEAN,
        "log.message.timestamp.after.max.ms": LONG,
        "log.message.timestamp.before.max.ms": LONG,
        "log.message.timestamp.difference.max.ms": LONG,
        "log.preallocate": BOOLEAN,
        "log.retention.bytes": LONG,
        "log.retention.ms": LONG,
        "log.roll.jitter.ms": LONG,
        "log.roll.ms": LONG,
        "log.segment.bytes": INT,
        "log.segment.delete.delay.ms": LONG,
        "max.connection.creation.rate": INT,
        "max.connections": INT,
        "max.connections.per.ip": INT,
        "message.max.bytes": INT,
        "min.insync.replicas": INT,
        "num.io.threads": INT,
        "num.network.threads": INT,
        "num.recovery.threads.per.data.dir": INT,
        "num.replica.fetchers": INT,
        "producer.id.expiration.ms": INT,
        "replica.alter.log.dirs.io.max.bytes.per.second": LONG,
        "transaction.partition.verification.enable": BOOLEAN,
        "unclean.leader.election.enable": BOOLEAN,
    }
)
"""Types of the dynamic broker configs that have one. A name missing here is accepted without a
check: listener prefixes, plugins' keys and passwords can only be validated by the broker.
"""


def validate_broker_configs(values: Mapping[str, str]) -> None:
    """Validate the dynamic configs of a broker or of all brokers.

    Brokers have validated what they forward; this catches requests sent directly to a controller.

    Raises:
        ConfigError: a value that is not of its type.
    """
    for name, value in values.items():
        kind = BROKER_KINDS.get(name)
        if kind is None:
            continue
        try:
            kind.parse(value)
        except ValueError:
            raise ConfigRefusedError(
                f"Invalid value {value} for configuration {name}: {kind.complaint}"
            ) from None
