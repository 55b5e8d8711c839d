"""Kafka's own property names, read into one frozen, validated object.

An operator's ``server.properties`` works unmodified. Unknown keys are reported by name and
ignored, wrong values are collected and raised together. Source: KafkaConfig and its
``validateValues`` (Kafka 3.9); keys that start with ``kraftbridge.`` are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, Final, TypeVar

from emulator.config import authorizer as config_security
from emulator.config import ignored as config_ignored
from emulator.config import limits as config_limits
from emulator.config import passwords as config_passwords
from emulator.config import zookeeper as config_zookeeper
from emulator.config.names import KAFKA_CONFIG_NAMES
from wire.releases import RELEASES

T = TypeVar("T")

ZOOKEEPER_PORT: Final = 2181
ANY_ADDRESS: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound
SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class ConfigError(Exception):
    """The configuration cannot be used; ``problems`` holds one sentence for each wrong value.

    ``warnings`` are those that :func:`load` would have returned: a required key that is missing is
    often one that is misspelt.
    """

    def __init__(self, problems: Sequence[str], warnings: Sequence[str] = ()) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host name or address with its port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listener:
    """One entry of ``listeners``: where a named listener binds, and its security protocol."""

    name: str
    host: str
    port: int
    security_protocol: str


@dataclass(frozen=True, slots=True)
class Config:
    """What one controller node needs. Times in milliseconds unless the name says otherwise."""

    node_id: int
    voters: Mapping[int, HostPort]
    listeners: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    controller_listener_names: tuple[str, ...]
    log_dir: str
    zookeeper_servers: tuple[HostPort, ...] = ()
    zookeeper_chroot: str = ""
    migration_enabled: bool = False
    migration_min_batch_size: int = 200
    zookeeper_session_timeout_ms: int = 18_000
    zookeeper_connection_timeout_ms: int = 18_000
    zookeeper_max_in_flight_requests: int = 10
    zookeeper_security: config_zookeeper.ZooKeeperSecurity = config_zookeeper.OPEN
    inter_broker_listener_name: str = "PLAINTEXT"
    metadata_max_idle_interval_ms: int = 500
    broker_heartbeat_interval_ms: int = 2_000
    broker_session_timeout_ms: int = 9_000
    num_partitions: int = 1
    default_replication_factor: int = 1
    snapshot_bytes_between: int = 20 * 1024 * 1024
    snapshot_interval_ms: int = 3_600_000
    segment_bytes: int = 1024 * 1024 * 1024
    socket_request_max_bytes: int = 16 * 1024 * 1024
    """Kafka takes 100 MiB; nobody is authenticated here, and decoded it is many times as much."""
    delete_topic_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    release: str = "3.9"
    write_behind_max_records: int = 10_000
    write_behind_poison: str = "block"
    write_behind_multi_ops: int = 400
    metrics_port: int = -1
    """-1: no HTTP endpoint; 0: any free port."""
    trace_dir: str = ""
    trace_run_id: str = ""
    """Joins the traces of several processes; empty: the time of the start."""
    static: Mapping[str, str] = field(default_factory=dict)
    """Every property as given: the source of static config values in CreateTopics answers."""

    @property
    def controller_listener(self) -> Listener:
        """The listener peers and brokers use: the first of ``controller.listener.names``."""
        return next(x for x in self.listeners if x.name == self.controller_listener_names[0])

    @property
    def advertised_controller_listener(self) -> Listener:
        """What we tell others of :attr:`controller_listener`."""
        return next(x for x in self.advertised if x.name == self.controller_listener_names[0])


@dataclass(slots=True)
class _Reader:
    """Takes typed values out of raw properties and collects what is wrong with them."""

    raw: Mapping[str, str]
    problems: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def take(self, key: str, parse: Callable[[str], T], default: T) -> T:
        """The parsed value of ``key``; ``default`` when absent or wrong (a problem is noted)."""
        self.used.add(key)
        text = self.raw.get(key)
        if text is None:
            return default
        try:
            return parse(text.strip())
        except ValueError as error:
            self.problems.append(f"{key}={text}: {error}")
            return default

    def need(self, key: str, parse: Callable[[str], T], default: T) -> T:
        """Like :meth:`take`, but absence is a problem too, and so is an empty value."""
        if not self.raw.get(key, "").strip():
            self.used.add(key)
            self.problems.append(f"{key} is required")
            return default
        return self.take(key, parse, default)


def _int(low: int, high: int = 2**31 - 1) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError("not a whole number") from None
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return parse


def _bool(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("must be true or false")
    return text.lower() == "true"


def _one_of(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError("must be one of " + ", ".join(names))
        return text

    return parse


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def host_port(text: str) -> HostPort:
    """Parse ``host:port`` (IPv6 in brackets).

    Raises:
        ValueError: no port, or a port outside 0-65535.

    >>> host_port("zk1:2181")
    HostPort(host='zk1', port=2181)
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"{text!r} is not host:port")
    return HostPort(host.strip("[]"), int(port))


def _voters(text: str) -> dict[int, HostPort]:
    voters: dict[int, HostPort] = {}
    for part in _names(text):
        node, at, address = part.partition("@")
        if not at or not node.isdigit():
            raise ValueError(f"{part!r} is not id@host:port")
        if int(node) in voters:
            raise ValueError(f"voter {node} is listed twice")
        voters[int(node)] = host_port(address)
    return voters


def _protocol_map(text: str) -> dict[str, str]:
    result: dict[str, str] = {}
    for part in _names(text):
        name, colon, protocol = part.partition(":")
        if not colon or protocol not in SECURITY_PROTOCOLS:
            raise ValueError(f"{part!r} is not NAME:PROTOCOL with a known protocol")
        result[name] = protocol
    return result


def _zookeeper_connect(text: str) -> tuple[tuple[HostPort, ...], str]:
    """As ZooKeeper's ConnectStringParser: a server without a port is at 2181."""
    hosts, slash, chroot = text.partition("/")
    servers = tuple(
        host_port(part if ":" in part.rpartition("]")[2] else f"{part}:{ZOOKEEPER_PORT}")
        for part in _names(hosts)
    )
    if not servers:
        raise ValueError("no server named")
    return servers, f"/{chroot.strip('/')}" if slash and chroot.strip("/") else ""


def _listeners(text: str, protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    result = []
    for part in _names(text):
        name, sep, address = part.partition("://")
        if not sep:
            raise ValueError(f"{part!r} is not NAME://host:port")
        where = host_port(address)
        result.append(Listener(name, where.host, where.port, protocols.get(name, name)))
    if len({x.name for x in result}) != len(result):
        raise ValueError("a listener name is used twice")
    return tuple(result)


_LONG: Final = 2**63 - 1
_PLAIN: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "migration_enabled": ("zookeeper.metadata.migration.enable", _bool),
    "migration_min_batch_size": ("zookeeper.metadata.migration.min.batch.size", _int(1)),
    "zookeeper_max_in_flight_requests": ("zookeeper.max.in.flight.requests", _int(1)),
    "inter_broker_listener_name": ("inter.broker.listener.name", str),
    "metadata_max_idle_interval_ms": ("metadata.max.idle.interval.ms", _int(0)),
    "broker_heartbeat_interval_ms": ("broker.heartbeat.interval.ms", _int(1)),
    "broker_session_timeout_ms": ("broker.session.timeout.ms", _int(1)),
    "num_partitions": ("num.partitions", _int(1)),
    "default_replication_factor": ("default.replication.factor", _int(1)),
    "snapshot_bytes_between": ("metadata.log.max.record.bytes.between.snapshots", _int(1, _LONG)),
    "snapshot_interval_ms": ("metadata.log.max.snapshot.interval.ms", _int(0, _LONG)),
    "segment_bytes": ("metadata.log.segment.bytes", _int(12)),
    "socket_request_max_bytes": ("socket.request.max.bytes", _int(1)),
    "delete_topic_enable": ("delete.topic.enable", _bool),
    "auto_leader_rebalance_enable": ("auto.leader.rebalance.enable", _bool),
    "leader_imbalance_check_interval_seconds": ("leader.imbalance.check.interval.seconds", _int(1)),
    "release": ("kraftbridge.release", _one_of(*RELEASES)),
    "write_behind_max_records": ("kraftbridge.zk.write.behind.max.records", _int(0)),
    "write_behind_poison": ("kraftbridge.zk.write.behind.poison", _one_of("block", "skip")),
    "write_behind_multi_ops": ("kraftbridge.zk.write.behind.multi.ops", _int(1, 1000)),
    "metrics_port": ("kraftbridge.metrics.port", _int(0, 65_535)),
    "trace_dir": ("kraftbridge.trace.dir", str),
    "trace_run_id": ("kraftbridge.trace.run.id", str),
}
"""Field of :class:`Config` -> its property and how it is read; the default is the field's."""
DEFAULTS: Final[Mapping[str, Any]] = {
    one.name: one.default for one in fields(Config) if one.default is not MISSING
}


def load(raw: Mapping[str, str]) -> tuple[Config, tuple[str, ...]]:
    """Validate properties.

    Args:
        raw: property name -> text, as in ``server.properties`` with ``-X`` overrides applied.

    Returns:
        The configuration and one warning per key that neither Kafka 3.4-3.9 nor we know.

    Raises:
        ConfigError: with every problem found, not only the first.

    Source: KafkaConfig.validateValues, Kafka 3.9; KIP-866 "Additional KRaft Configs" (C08).
    """
    r = _Reader(raw)
    node_id = r.need("node.id", _int(0), -1)
    _check_roles(r)
    protocols = r.take("listener.security.protocol.map", _protocol_map, dict[str, str]())
    names = r.need("controller.listener.names", _names, tuple[str, ...]())
    listeners = r.need(
        "listeners", lambda text: _listeners(text, protocols), tuple[Listener, ...]()
    )
    advertised = r.take("advertised.listeners", lambda text: _listeners(text, protocols), listeners)
    voters = r.need("controller.quorum.voters", _voters, dict[int, HostPort]())
    no_servers: tuple[tuple[HostPort, ...], str] = ((), "")
    servers, chroot = r.take("zookeeper.connect", _zookeeper_connect, no_servers)
    log_dir = (
        r.take("metadata.log.dir", str, "")
        or r.take("log.dirs", str, "")
        or r.take("log.dir", str, "")
    )
    session_ms = r.take("zookeeper.session.timeout.ms", _int(1), 18_000)
    security, wrong = config_zookeeper.read(raw)
    r.problems += wrong
    config = Config(
        node_id=node_id,
        voters=voters,
        listeners=listeners,
        advertised=_advertised(listeners, advertised, voters.get(node_id)),
        controller_listener_names=names,
        log_dir=next(iter(_names(log_dir)), ""),
        zookeeper_servers=servers,
        zookeeper_chroot=chroot,
        zookeeper_session_timeout_ms=session_ms,
        zookeeper_security=security,
        zookeeper_connection_timeout_ms=r.take(
            "zookeeper.connection.timeout.ms", _int(1), session_ms
        ),
        static=dict(raw),
        **{field: r.take(key, parse, DEFAULTS[field]) for field, (key, parse) in _PLAIN.items()},
    )
    r.problems += _cross_checks(config, r.raw)
    if r.problems:
        raise ConfigError(r.problems, _unknown(r))
    return config, (*_unknown(r), *config_ignored.warnings(raw))


def _advertised(
    listeners: Sequence[Listener], given: Sequence[Listener], voter: HostPort | None
) -> tuple[Listener, ...]:
    """What others are told: as given, else as bound; for every address the host they vote at."""
    names = {one.name for one in given}
    told = (*given, *(one for one in listeners if one.name not in names))
    return tuple(
        replace(one, host=voter.host) if voter and one.host in ANY_ADDRESS else one for one in told
    )


def _check_roles(r: _Reader) -> None:
    """Only a dedicated controller is a migration target (KIP-866 "Combined Mode", P03)."""
    roles = r.need("process.roles", _names, tuple[str, ...]())
    if roles and set(roles) != {"controller"}:
        r.problems.append(
            f"process.roles={','.join(roles)}: only process.roles=controller is supported; "
            "a combined broker,controller node cannot take part in a migration"
        )


def _cross_checks(config: Config, raw: Mapping[str, str]) -> list[str]:
    problems = []
    if config.migration_enabled and not config.zookeeper_servers and "zookeeper.connect" not in raw:
        problems.append(
            "zookeeper.connect is required when zookeeper.metadata.migration.enable is true"
        )
    if config.migration_enabled:
        problems += config_zookeeper.owner_missing(config.zookeeper_security)
    if config.voters and config.node_id >= 0 and config.node_id not in config.voters:
        problems.append(f"node.id={config.node_id} is not in controller.quorum.voters")
    if len(config.voters) > 1:
        problems.append(
            "controller.quorum.voters: a quorum of more than one voter is not supported yet"
        )
    bound = {x.name for x in config.listeners}
    problems.extend(
        f"controller.listener.names: {name} is not in listeners"
        for name in config.controller_listener_names
        if config.listeners and name not in bound
    )
    problems.extend(
        f"listener {x.name}: security protocol {x.security_protocol} is not supported yet; "
        "map it to PLAINTEXT in listener.security.protocol.map"
        for x in config.listeners
        if x.security_protocol != "PLAINTEXT"
    )
    if not config.log_dir:
        problems.append("metadata.log.dir or log.dirs is required")
    problems += config_limits.problems(raw)
    problems += config_passwords.problems(raw)
    problems += config_security.problems(
        raw, release=config.release, migration=config.migration_enabled
    )
    return problems


def _unknown(r: _Reader) -> tuple[str, ...]:
    prefixes = ("listener.name.", "sasl.", "ssl.", "log4j.", "zookeeper.ssl.")
    return tuple(
        f"unknown configuration key {key}"
        for key in sorted(r.raw)
        if key not in r.used
        and key not in KAFKA_CONFIG_NAMES | config_security.AUTHORIZER_KEYS | config_zookeeper.KEYS
        and not key.startswith(prefixes)
    )
