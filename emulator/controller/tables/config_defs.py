"""Topic configs: names, types, defaults, validation, and the source of a value that is not set.

Values are strings, as Kafka stores them.

Source: TopicConfig, LogConfig, ServerTopicConfigSynonyms, Kafka 3.4-3.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from types import MappingProxyType

from emulator.config import zookeeper_mode
from emulator.config.java_text import (
    INT_MAX,
    INT_MIN,
    boolean,
    double,
    items,
    same,
    split,
    trim,
    whole,
)
from emulator.controller.context import ControllerConfig
from emulator.metadata.configs import BROKER, TOPIC
from emulator.metadata.image import Image

# Types and validators of config values, with Kafka's error texts.
#
# Source: ConfigDef, ThrottledReplicaListValidator, Kafka 3.9.


class ConfigRefusedError(ValueError):
    """A config is refused; the client shows the text."""


@dataclass(frozen=True, slots=True)
class ConfigType:
    """A config type: how its text is parsed, and the error text when parsing fails."""

    name: str
    parse: Callable[[str], object]
    complaint: str


def _int(text: str) -> int:
    return whole(trim(text), INT_MIN, INT_MAX)


INT = ConfigType("int", _int, "Not a number of type INT")
SHORT = ConfigType(
    "short", lambda text: whole(trim(text), -(2**15), 2**15 - 1), "Not a number of type SHORT"
)
LONG = ConfigType("long", lambda text: whole(trim(text)), "Not a number of type LONG")
DOUBLE = ConfigType("double", double, "Not a number of type DOUBLE")
BOOLEAN = ConfigType(
    "boolean", lambda text: boolean(trim(text)), "Expected value to be either true or false"
)
STRING = ConfigType("string", trim, "Expected value to be a string")
LIST = ConfigType("list", items, "Expected a comma separated list.")

Validator = Callable[[str, object], None]


def _refuse(name: str, value: object, why: str) -> ConfigRefusedError:
    shown = f"[{', '.join(value)}]" if isinstance(value, tuple) else value
    return ConfigRefusedError(f"Invalid value {shown} for configuration {name}: {why}")


def between(low: float, high: float | None = None) -> Validator:
    """A number within bounds, both inclusive."""

    def check(name: str, value: object) -> None:
        assert isinstance(value, int | float)
        if value < low:  # NaN passes, as in Kafka
            raise _refuse(name, value, f"Value must be at least {low}")
        if high is not None and value > high:
            raise _refuse(name, value, f"Value must be no more than {high}")

    return check


def level_or_default(low: int, high: int, default: int) -> Validator:
    """A compression level within bounds, or the value that means the codec's own default."""

    def check(name: str, value: object) -> None:
        assert isinstance(value, int)
        if value != default and not low <= value <= high:
            why = f"Value must be between {low} and {high} or equal to {default}"
            raise _refuse(name, value, why)

    return check


def any_of(*words: str) -> Validator:
    """One of a fixed set of values."""

    def check(name: str, value: object) -> None:
        if value not in words:
            raise _refuse(name, value, f"String must be one of: {', '.join(words)}")

    return check


def valid_list(*words: str) -> Validator:
    """A list of values from a fixed set."""

    def check(name: str, value: object) -> None:
        assert isinstance(value, tuple)
        for word in value:
            if word not in words:
                raise _refuse(name, word, f"String must be one of: {', '.join(words)}")

    return check


def throttled_replicas(name: str, value: object) -> None:
    """``*`` or entries ``partition:broker``."""
    assert isinstance(value, tuple)
    if trim("".join(value)) == "*":
        return
    if not all(re.fullmatch("([0-9]+:[0-9]+)?", trim(entry)) for entry in value):
        why = (
            "must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )
        raise _refuse(name, value, f"{name} {why}")


def readable_replicas(text: str) -> bool:
    """Whether every broker can read the text of :func:`throttled_replicas`.

    The validator takes more: blanks, empty entries and large numbers, for which the handler of
    topic configs throws.

    Source: TopicConfigHandler.parseThrottledPartitions, Kafka 3.9.
    """
    text = trim(text)
    return text in {"", "*"} or all(map(_readable, split(text, ",")))


def _readable(entry: str) -> bool:
    try:
        partition, broker = split(entry, ":")[:2]
        whole(partition, INT_MIN, INT_MAX)
        whole(broker, INT_MIN, INT_MAX)
    except ValueError:
        return False
    return True


def message_format(release: str) -> Validator:
    """A version that a release of Kafka knows."""

    def check(name: str, value: object) -> None:
        try:
            zookeeper_mode.known(str(value), release)
        except ValueError:
            raise _refuse(name, value, f"Version {value} is not a valid version") from None

    return check


FORMAT = "message.format.version"
UNCLEAN = "unclean.leader.election.enable"
LONG_MAX = str(2**63 - 1)
TOPIC_SOURCE, BROKER_SOURCE, CLUSTER_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE = 1, 2, 3, 4, 5
"""Where an effective value comes from (DescribeConfigsResponse.ConfigSource)."""

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
Synonym = tuple[str, int]


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic config.

    ``synonyms``: broker configs that give its default, highest precedence first, each with the
    factor that converts its unit to the topic config's unit. ``since``: first release that knows
    it. ``loads``: whether a broker can load a text, where Kafka's validator takes more.
    """

    name: str
    kind: ConfigType
    default: str
    valid: Callable[[str, object], None] | None = None
    synonyms: tuple[Synonym, ...] = ()
    since: str = "3.4"
    loads: Callable[[str], bool] | None = None


def _log(*names: str) -> tuple[Synonym, ...]:
    return tuple((f"log.{name}", 1) for name in names)


_ALL = (
    TopicConfig(
        "cleanup.policy", LIST, "delete", valid_list("compact", "delete"), _log("cleanup.policy")
    ),
    TopicConfig(
        "compression.gzip.level",
        INT,
        "-1",
        level_or_default(1, 9, -1),
        (("compression.gzip.level", 1),),
        "3.8",
    ),
    TopicConfig(
        "compression.lz4.level", INT, "9", between(1, 17), (("compression.lz4.level", 1),), "3.8"
    ),
    TopicConfig(
        "compression.type",
        STRING,
        "producer",
        any_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        (("compression.type", 1),),
    ),
    TopicConfig(
        "compression.zstd.level",
        INT,
        "3",
        between(-131_072, 22),
        (("compression.zstd.level", 1),),
        "3.8",
    ),
    TopicConfig(
        "delete.retention.ms", LONG, "86400000", between(0), _log("cleaner.delete.retention.ms")
    ),
    TopicConfig("file.delete.delay.ms", LONG, "60000", between(0), _log("segment.delete.delay.ms")),
    TopicConfig("flush.messages", LONG, LONG_MAX, between(1), _log("flush.interval.messages")),
    TopicConfig(
        "flush.ms",
        LONG,
        LONG_MAX,
        between(0),
        _log("flush.interval.ms", "flush.scheduler.interval.ms"),
    ),
    TopicConfig(
        "follower.replication.throttled.replicas",
        LIST,
        "",
        throttled_replicas,
        loads=readable_replicas,
    ),
    TopicConfig("index.interval.bytes", INT, "4096", between(0), _log("index.interval.bytes")),
    TopicConfig(
        "leader.replication.throttled.replicas",
        LIST,
        "",
        throttled_replicas,
        loads=readable_replicas,
    ),
    TopicConfig(
        "local.retention.bytes",
        LONG,
        "-2",
        between(-2),
        (("log.local.retention.bytes", 1),),
    ),
    TopicConfig("local.retention.ms", LONG, "-2", between(-2), (("log.local.retention.ms", 1),)),
    TopicConfig(
        "max.compaction.lag.ms", LONG, LONG_MAX, between(1), _log("cleaner.max.compaction.lag.ms")
    ),
    TopicConfig("max.message.bytes", INT, "1048588", between(0), (("message.max.bytes", 1),)),
    TopicConfig(
        "message.downconversion.enable",
        BOOLEAN,
        "true",
        None,
        _log("message.downconversion.enable"),
    ),
    TopicConfig(
        FORMAT,
        STRING,
        "3.0-IV1",
        message_format("3.9"),
        _log("message.format.version"),
    ),
    TopicConfig(
        "message.timestamp.after.max.ms",
        LONG,
        LONG_MAX,
        between(0),
        _log("message.timestamp.after.max.ms"),
        "3.6",
    ),
    TopicConfig(
        "message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        between(0),
        _log("message.timestamp.before.max.ms"),
        "3.6",
    ),
    TopicConfig(
        "message.timestamp.difference.max.ms",
        LONG,
        LONG_MAX,
        between(0),
        _log("message.timestamp.difference.max.ms"),
    ),
    TopicConfig(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        any_of("CreateTime", "LogAppendTime"),
        _log("message.timestamp.type"),
    ),
    TopicConfig(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        "0.5",
        between(0, 1),
        _log("cleaner.min.cleanable.ratio"),
    ),
    TopicConfig(
        "min.compaction.lag.ms", LONG, "0", between(0), _log("cleaner.min.compaction.lag.ms")
    ),
    TopicConfig("min.insync.replicas", INT, "1", between(1), (("min.insync.replicas", 1),)),
    TopicConfig("preallocate", BOOLEAN, "false", None, _log("preallocate")),
    TopicConfig("remote.log.copy.disable", BOOLEAN, "false", since="3.9"),
    TopicConfig("remote.log.delete.on.disable", BOOLEAN, "false", since="3.9"),
    TopicConfig("remote.storage.enable", BOOLEAN, "false"),
    TopicConfig("retention.bytes", LONG, "-1", None, _log("retention.bytes")),
    TopicConfig(
        "retention.ms",
        LONG,
        "604800000",
        between(-1),
        (
            ("log.retention.ms", 1),
            ("log.retention.minutes", MINUTE_MS),
            ("log.retention.hours", HOUR_MS),
        ),
    ),
    TopicConfig("segment.bytes", INT, "1073741824", between(14), _log("segment.bytes")),
    TopicConfig("segment.index.bytes", INT, "10485760", between(4), _log("index.size.max.bytes")),
    TopicConfig(
        "segment.jitter.ms",
        LONG,
        "0",
        between(0),
        (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
    ),
    TopicConfig(
        "segment.ms",
        LONG,
        "604800000",
        between(1),
        (("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)),
    ),
    TopicConfig(UNCLEAN, BOOLEAN, "false", None, ((UNCLEAN, 1),)),
)
_RELEASE_ORDER = {"3.4": 4, "3.5": 5, "3.6": 6, "3.7": 7, "3.8": 8, "3.9": 9}


@cache
def topic_configs(release: str) -> Mapping[str, TopicConfig]:
    """Every topic config a release knows, sorted by name."""
    known = {one.name: one for one in _ALL if _order(one.since) <= _order(release)}
    known[FORMAT] = replace(known[FORMAT], valid=message_format(release))
    return MappingProxyType(dict(sorted(known.items())))


@dataclass(frozen=True, slots=True)
class Effective:
    """The value in force for one topic config and where it comes from."""

    name: str
    value: str
    source: int


def effective_topic_configs(
    image: Image, config: ControllerConfig, overrides: Mapping[str, str]
) -> Sequence[Effective]:
    """All topic configs in force for a topic, sorted by name.

    Args:
        image: the image with the dynamic broker configs.
        config: has the node id and server.properties of the answering controller.
        overrides: the configs set on the topic itself.

    Returns:
        The same object for every topic without overrides, until a config of the controller changes.

    Source: KafkaConfigSchema.resolveEffectiveTopicConfigs, Kafka 3.9.
    """
    inherited = inherited_topic_configs(TopicConfigSources.of(image, config))
    if not overrides:
        return inherited
    return [
        Effective(one.name, overrides[one.name], TOPIC_SOURCE) if one.name in overrides else one
        for one in inherited
    ]


@dataclass(frozen=True, slots=True, eq=False)
class TopicConfigSources:
    """The settings of the answering controller, which a topic inherits.

    Instances are equal only for the same objects: they are keys of caches.
    """

    own: Mapping[str, str]
    cluster: Mapping[str, str]
    config: ControllerConfig

    @classmethod
    def of(cls, image: Image, config: ControllerConfig) -> TopicConfigSources:
        """Those of this controller now."""
        own, cluster = image.config(BROKER, str(config.node_id)), image.config(BROKER, "")
        return cls(own, cluster, config)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TopicConfigSources)
            and self.own is other.own
            and self.cluster is other.cluster
            and self.config is other.config
        )

    def __hash__(self) -> int:
        return hash((id(self.own), id(self.cluster), id(self.config)))


@lru_cache(maxsize=8)
def inherited_topic_configs(sources: TopicConfigSources) -> tuple[Effective, ...]:
    """The effective configs of a topic without configs of its own, sorted by name (cached)."""
    return tuple(
        _effective(sources, known, {}) for known in topic_configs(sources.config.release).values()
    )


def effective_topic_config(
    image: Image, config: ControllerConfig, known: TopicConfig, overrides: Mapping[str, str]
) -> Effective:
    """One effective topic config: of the topic, this broker, all brokers, a file, or default."""
    return _effective(TopicConfigSources.of(image, config), known, overrides)


def _effective(
    sources: TopicConfigSources, known: TopicConfig, overrides: Mapping[str, str]
) -> Effective:
    if known.name in overrides:
        return Effective(known.name, overrides[known.name], TOPIC_SOURCE)
    layers = (
        (sources.own, BROKER_SOURCE),
        (sources.cluster, CLUSTER_SOURCE),
        (sources.config.properties, STATIC_SOURCE),
    )
    for values, source in layers:
        for synonym, factor in known.synonyms:
            if synonym in values:
                value = values[synonym]
                return Effective(
                    known.name, str(whole(trim(value)) * factor) if factor != 1 else value, source
                )
    return Effective(known.name, known.default, DEFAULT_SOURCE)


def unclean_election_allowed(image: Image, config: ControllerConfig, topic: str) -> bool:
    """Whether a replica outside the ISR may lead a partition of the topic."""
    known = topic_configs(config.release)[UNCLEAN]
    value = effective_topic_config(image, config, known, image.config(TOPIC, topic)).value
    return same(trim(value), "true")


def validate_topic_configs(config: ControllerConfig, values: Mapping[str, str]) -> None:
    """Validate the complete set of configs that a topic would have.

    Raises:
        ConfigError: an unknown name, a bad value, or values that contradict each other.

    Source: LogConfig.validate, Kafka 3.9.
    """
    if not values:
        return  # the defaults are valid
    known = topic_configs(config.release)
    for name in values:
        if name not in known:
            raise ConfigRefusedError(f"Unknown topic config name: {name}")
    parsed = {name: parse(known[name], value) for name, value in values.items()}

    def of(name: str) -> object:
        return parsed[name] if name in parsed else known[name].kind.parse(known[name].default)

    least, most = of("min.compaction.lag.ms"), of("max.compaction.lag.ms")
    assert isinstance(least, int)
    assert isinstance(most, int)
    if least > most:
        raise ConfigRefusedError(
            "conflict topic config setting min.compaction.lag.ms "
            f"({least}) > max.compaction.lag.ms ({most})"
        )
    tiered = same(trim(config.properties.get("remote.log.storage.system.enable", "")), "true")
    if parsed.get("remote.storage.enable") is True and not tiered:
        raise ConfigRefusedError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def parse(known: TopicConfig, value: str) -> object:
    """The typed value of one topic config.

    Raises:
        ConfigError: the value has the wrong type or is out of range.
    """
    try:
        typed = known.kind.parse(value)
    except ValueError:
        raise ConfigRefusedError(
            f"Invalid value {value} for configuration {known.name}: {known.kind.complaint}"
        ) from None
    if known.valid is not None:
        known.valid(known.name, typed)
    if known.loads is not None and not known.loads(value):
        raise ConfigRefusedError(
            f"Invalid value {value} for configuration {known.name}: brokers cannot read it"
        )
    return typed


def _order(release: str) -> int:
    return _RELEASE_ORDER[release]
