"""Dynamic broker configs that the controller validates.

Source: DynamicBrokerConfig, KafkaConfig, BrokerConfigHandler, Kafka 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from emulator.config.java_text import split, trim, whole
from emulator.controller.tables.config_defs import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    SHORT,
    STRING,
    ConfigRefusedError,
    ConfigType,
    Validator,
    any_of,
    between,
    level_or_default,
    valid_list,
)
from emulator.controller.tables.server_configs import ONLY_DYNAMIC, RELEASES, Type, server_configs

_KINDS: Final = {
    Type.BOOLEAN: BOOLEAN,
    Type.STRING: STRING,
    Type.INT: INT,
    Type.SHORT: SHORT,
    Type.LONG: LONG,
    Type.DOUBLE: DOUBLE,
    Type.LIST: LIST,
}
_LEAST: Final = {
    -2: "log.local.retention.bytes log.local.retention.ms",
    0: """
        follower.replication.throttled.rate leader.replication.throttled.rate
        log.cleaner.backoff.ms log.cleaner.delete.retention.ms log.cleaner.io.buffer.size
        log.cleaner.min.compaction.lag.ms log.index.interval.bytes
        log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms
        log.cleaner.threads log.message.timestamp.difference.max.ms log.segment.delete.delay.ms
        max.connection.creation.rate max.connections max.connections.per.ip message.max.bytes
        replica.alter.log.dirs.io.max.bytes.per.second
        """,
    1: """
        background.threads log.cleaner.max.compaction.lag.ms log.flush.interval.messages
        min.insync.replicas num.io.threads num.network.threads num.recovery.threads.per.data.dir
        producer.id.expiration.ms
        remote.fetch.max.wait.ms remote.log.index.file.cache.total.size.bytes
        remote.log.manager.copy.max.bytes.per.second remote.log.manager.fetch.max.bytes.per.second
        """,
    4: "log.index.size.max.bytes",
    14: "log.segment.bytes",
}
"""Smallest value -> configs."""
_OVERRIDE: Final = re.compile(r"([0-9a-zA-Z\-%._:]*):(.*)", re.DOTALL)


def _retention(name: str, value: object) -> None:
    if value == 0:
        raise ConfigRefusedError(f"{name} must be unlimited (-1) or, greater than or equal to 1")


def _overrides(name: str, value: object) -> None:
    """``address:count`` entries."""
    for part in split(str(value), ",") if value else ():
        found = _OVERRIDE.fullmatch(trim(part))
        try:
            INT.parse(found[2] if found else "")
        except ValueError:
            text = f"Invalid value {value} for configuration {name}: not address:count"
            raise ConfigRefusedError(text) from None


_VALID: Final[Mapping[str, Validator]] = MappingProxyType(
    {
        **{name: between(low) for low, names in _LEAST.items() for name in names.split()},
        "compression.gzip.level": level_or_default(1, 9, -1),
        "compression.lz4.level": between(1, 17),
        "compression.type": any_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "compression.zstd.level": between(-131_072, 22),
        "log.cleaner.min.cleanable.ratio": between(0, 1),
        "log.cleanup.policy": valid_list("compact", "delete"),
        "log.message.timestamp.type": any_of("CreateTime", "LogAppendTime"),
        "ssl.client.auth": any_of("required", "requested", "none"),
    }
)
_OF_SERVER: Final[Mapping[str, Validator]] = MappingProxyType(
    {
        "log.cleaner.dedupe.buffer.size": between(2**20 + 1),
        "log.cleaner.threads": between(1),
        "log.retention.ms": _retention,
        "log.roll.jitter.ms": between(0),
        "log.roll.ms": between(1),
        "max.connections.per.ip.overrides": _overrides,
    }
)
"""What KafkaConfig requires beyond its definitions; not of a value for one listener."""
_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.")


@cache
def _kinds() -> Mapping[str, ConfigType]:
    known = server_configs(RELEASES[-1])
    kinds = {one.name: _KINDS.get(one.type, STRING) for one in known.values() if one.dynamic}
    return MappingProxyType(kinds | dict.fromkeys(ONLY_DYNAMIC, LONG))


def validate_broker_configs(values: Mapping[str, str]) -> None:
    """Validate dynamic configs of a broker or of all brokers, each by itself.

    Brokers have validated what they forward; this catches requests sent directly to a controller.
    Of an entity that has a value which they refuse, brokers apply nothing. A name that is not known
    here is accepted: plugins' keys can only be validated by the broker; so can classes, passwords
    and listeners.

    Raises:
        ConfigError: a value that is not of its type, or out of range.
    """
    for name, value in values.items():
        found = _LISTENER.match(name)
        base = name[found.end() :] if found else name
        kind = _kinds().get(base)
        if kind is None:
            continue
        try:
            # The handler of the rates parses their raw texts, and a ZooKeeper-mode broker for which
            # it throws does not start.
            typed = whole(value) if name in ONLY_DYNAMIC else kind.parse(value)
        except ValueError:
            raise ConfigRefusedError(
                f"Invalid value {value} for configuration {name}: {kind.complaint}"
            ) from None
        for valid in (_VALID.get(base), _OF_SERVER.get(name)):
            if valid is not None:
                valid(name, typed)
