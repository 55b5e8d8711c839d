"""Properties of a server: types, values on the controller, and the source of each value.

Source: KafkaConfig, DynamicBrokerConfig, ConfigHelper, Kafka 3.7-3.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import Final

from emulator.config.java_text import boolean, items, trim, whole
from emulator.controller.config_defs import (
    BROKER_SOURCE,
    CLUSTER_SOURCE,
    DEFAULT_SOURCE,
    STATIC_SOURCE,
)
from emulator.controller.context import ControllerConfig
from emulator.controller.server_config_table import DEFAULTS, INTERNAL_AGAIN, SINCE, TABLE
from emulator.metadata.configs import BROKER
from emulator.metadata.image import Image

RELEASES: Final = ("3.7", "3.8", "3.9")
"""Releases in which a controller answers DescribeConfigs."""


class Type(IntEnum):
    """DescribeConfigsResponse.ConfigType."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One property. ``default`` None: null. ``dynamic``: it can also be set in the metadata."""

    name: str
    type: Type
    default: str | None
    dynamic: bool


@dataclass(frozen=True, slots=True)
class Synonym:
    """A value of a property, or one that it has if nothing of higher precedence is set."""

    name: str
    value: str
    source: int


_ROLL = ("log.roll.ms", "log.roll.hours")
_JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")
_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(_ROLL, _ROLL),
        **dict.fromkeys(_JITTER, _JITTER),
        **dict.fromkeys(_RETENTION, _RETENTION),
        "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    }
)
_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")
_OF_A_MECHANISM: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
ONLY_DYNAMIC: Final[Mapping[str, Type]] = MappingProxyType(
    {
        "leader.replication.throttled.rate": Type.LONG,
        "follower.replication.throttled.rate": Type.LONG,
        "replica.alter.log.dirs.io.max.bytes.per.second": Type.LONG,
    }
)
"""Never in a file (DynamicConfig.Broker)."""


@cache
def server_configs(release: str) -> Mapping[str, ServerConfig]:
    """Every property that DescribeConfigs of a release shows, by name."""
    at = RELEASES.index(release) if release in RELEASES else 0
    later = [names for since, names in SINCE.items() if RELEASES.index(since) > at]
    over = [names for since, names in INTERNAL_AGAIN.items() if RELEASES.index(since) <= at]
    hidden = frozenset().union(*later, *over)
    defaults = DEFAULTS[RELEASES[at]]
    found = {}
    for line in TABLE.splitlines():
        name, kind, *rest = line.split(" ")
        default = defaults.get(name, rest[0].strip('"') if rest else None)
        if name not in hidden:
            found[name] = ServerConfig(name, Type[kind.rstrip("*")], default, kind.endswith("*"))
    return MappingProxyType(found)


def synonyms_of(name: str) -> tuple[str, ...]:
    """A property and its synonyms, highest precedence first (brokerConfigSynonyms)."""
    if name in _SYNONYMS:
        return _SYNONYMS[name]
    override = _LISTENER.fullmatch(name)
    if override is None:
        return (name,)
    base = override[1]
    return (name, next((one for one in _OF_A_MECHANISM if base.endswith(one)), base))


def type_of(name: str, release: str) -> Type:
    """The type of a property; UNKNOWN if no release defines it."""
    known = server_configs(release)
    for one in (name, *synonyms_of(name)):
        if one in known:
            return known[one].type
        if one in ONLY_DYNAMIC:
            return ONLY_DYNAMIC[one]
    return Type.UNKNOWN


def is_sensitive(kind: Type) -> bool:
    """Whether the value is hidden: passwords, and properties of unknown type."""
    return kind in {Type.PASSWORD, Type.UNKNOWN}


class Layers:
    """The values set on the answering controller, by source."""

    def __init__(self, image: Image, config: ControllerConfig) -> None:
        self.release = config.release
        self.static = {"broker.id": str(config.node_id), **config.properties}
        self.own = image.config(BROKER, str(config.node_id))
        self.cluster = image.config(BROKER, "")
        self._layers = (
            (self.own, BROKER_SOURCE),
            (self.cluster, CLUSTER_SOURCE),
            (self.static, STATIC_SOURCE),
        )

    def names(self) -> list[str]:
        """The name of every property that is known or set."""
        return sorted({*server_configs(self.release), *self.static, *self.cluster, *self.own})

    def synonyms(self, name: str) -> list[Synonym]:
        """Values of a property and of its synonyms, highest precedence first.

        Begins with the property itself: values that only apply to a synonym are not listed before
        it.
        """
        found = [*self._all(synonyms_of(name))]
        while found and found[0].name != name:
            del found[0]
        return found

    def value(self, name: str) -> str | None:
        """The effective value, in the form in which Kafka prints its type.

        A value set at run time hides every synonym in the file (overrideProps).
        """
        for values, source in self._layers:
            if name in values:
                return printed(values[name], type_of(name, self.release))
            if source != STATIC_SOURCE and any(one in values for one in _SYNONYMS.get(name, ())):
                break
        known = server_configs(self.release).get(name)
        return None if known is None else known.default

    def _all(self, names: tuple[str, ...]) -> Iterator[Synonym]:
        for values, source in self._layers:
            yield from (Synonym(one, values[one], source) for one in names if one in values)
        known = server_configs(self.release)
        for one in names:
            default = known[one].default if one in known else None
            if default is not None:
                yield Synonym(one, default, DEFAULT_SOURCE)


def printed(text: str, kind: Type) -> str:
    """The text of a value after it was parsed by its type.

    >>> printed(" a , b", Type.LIST)
    'a,b'
    """
    read: Callable[[str], str] = _PRINTED.get(kind, trim)
    try:
        return read(text)
    except ValueError:
        return text


_PRINTED: Final[Mapping[Type, Callable[[str], str]]] = MappingProxyType(
    {
        Type.UNKNOWN: str,
        Type.BOOLEAN: lambda text: str(boolean(trim(text))).lower(),
        Type.INT: lambda text: str(whole(trim(text))),
        Type.SHORT: lambda text: str(whole(trim(text))),
        Type.LONG: lambda text: str(whole(trim(text))),
        Type.LIST: lambda text: ",".join(items(text)),
    }
)
