"""The properties of a broker, read into one frozen, validated object.

An unmodified ``server.properties`` of a Kafka broker works. Unknown keys are reported by name and
ignored, as Kafka does; security that is not supported here is refused by name, because a broker
without it would be open. Source: KafkaConfig and its ``validateValues``, Kafka 3.9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from posixpath import normpath
from typing import Any, Final

from emulator.config import unknown, zookeeper_mode
from emulator.config.authorizer import AUTHORIZER_KEYS, CLASS, STANDARD, AuthorizerSettings
from emulator.config.java_text import boolean, trim
from emulator.config.limits import ConnectionSettings, TokenSettings
from emulator.config.listeners import (
    METRICS_HOSTS,
    METRICS_PORT,
    SECURITY_PROTOCOLS,
    HostPort,
    Listener,
    host_port,
    listeners_of,
    metrics_hosts,
    metrics_port,
    voters_of,
)
from emulator.config.listeners import protocol_map as parse_protocol_map
from emulator.config.load import ConfigError
from emulator.config.names import KAFKA_CONFIG_NAMES
from emulator.config.reading import PropertyReader, integer, name_list, one_of
from emulator.config.sasl import (
    CONTROLLER_MECHANISM,
    INTER_BROKER_MECHANISM,
    OPEN_ACCESS,
    PeerAccess,
    SaslSettings,
    access_to,
)
from emulator.config.tls import TlsSettings, all_tls
from emulator.config.zookeeper_mode import ZooKeeperMode
from wire.releases import RELEASES

PLAINTEXT: Final = "PLAINTEXT"
META_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - refused, not bound
_SHORT: Final = integer(-1, 32_767)
_IGNORED_PREFIXES: Final = ("listener.name.", "sasl.", "ssl.", "log4j.", "zookeeper.ssl.")
_KAFKAS_PRINCIPALS: Final = (
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
)


@dataclass(frozen=True, slots=True)
class InternalTopicSettings:
    """Partitions, replicas and size of segments of an internal topic that is created here."""

    num_partitions: int = 50
    replication_factor: int = 3
    segment_bytes: int = 100 * 1024 * 1024
    min_insync_replicas: int | None = None


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The settings of one broker. Times in milliseconds."""

    node_id: int
    listeners: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    """Without the listeners of controllers."""
    controller_listener_names: tuple[str, ...]
    bootstrap: tuple[HostPort, ...]
    """Where to look for the leader of the quorum: the voters, or the bootstrap servers."""
    voters: Mapping[int, HostPort]
    log_dirs: tuple[str, ...]
    metadata_log_dir: str
    inter_broker_listener_name: str = PLAINTEXT
    rack: str | None = None
    release: str = "3.9"
    heartbeat_interval_ms: int = 2_000
    session_timeout_ms: int = 9_000
    registration_timeout_ms: int = 60_000
    request_timeout_ms: int = 30_000
    quorum_request_timeout_ms: int = 2_000
    replica_lag_ms: int = 30_000
    controlled_shutdown: bool = True
    auto_create_topics: bool = True
    num_partitions: int = 1
    default_replication_factor: int = 1
    offsets_topic: InternalTopicSettings = InternalTopicSettings()  # frozen
    transaction_topic: InternalTopicSettings = InternalTopicSettings()  # frozen
    socket_request_max_bytes: int = 100 * 1024 * 1024
    """Kafka's default: a FULL request of a controller has about 55 bytes a partition."""
    metrics_port: int = -1
    """-1: no HTTP endpoint; 0: any free port."""
    metrics_hosts: tuple[str, ...] = ()
    """Names and addresses by which it may be asked too."""
    strict_versions: bool = False
    faults_enabled: bool = False
    connections: ConnectionSettings = ConnectionSettings()  # noqa: RUF009  # frozen
    sasl: SaslSettings = SaslSettings()  # noqa: RUF009  # frozen
    """The logins of others to our listeners."""
    controller_access: PeerAccess = OPEN_ACCESS
    """Of our connections to KRaft controllers."""
    inter_broker_access: PeerAccess = OPEN_ACCESS
    """Of our connections to a broker that is the ZooKeeper controller."""
    tls: Mapping[str, TlsSettings] = field(default_factory=dict)
    """Of our listeners, and of those to which we connect, by ``tls_profile``."""
    tokens: TokenSettings = TokenSettings()  # noqa: RUF009  # frozen
    zookeeper: ZooKeeperMode | None = None
    """None: KRaft mode."""
    authorizer: AuthorizerSettings | None = None
    """None: no ACLs, every caller may do everything."""
    static: Mapping[str, str] = field(default_factory=dict)
    """Every property as given."""


_PLAIN: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "release": ("kraftbridge.release", one_of(*RELEASES)),
    "heartbeat_interval_ms": ("broker.heartbeat.interval.ms", integer(1)),
    "session_timeout_ms": ("broker.session.timeout.ms", integer(1)),
    "registration_timeout_ms": ("initial.broker.registration.timeout.ms", integer(1)),
    "request_timeout_ms": ("request.timeout.ms", integer(1)),
    "quorum_request_timeout_ms": ("controller.quorum.request.timeout.ms", integer(1)),
    "replica_lag_ms": ("replica.lag.time.max.ms", integer(1)),
    "controlled_shutdown": ("controlled.shutdown.enable", boolean),
    "auto_create_topics": ("auto.create.topics.enable", boolean),
    "num_partitions": ("num.partitions", integer(1)),
    "default_replication_factor": ("default.replication.factor", integer(1)),
    "socket_request_max_bytes": ("socket.request.max.bytes", integer(1)),
    "metrics_port": (METRICS_PORT, metrics_port),
    "metrics_hosts": (METRICS_HOSTS, metrics_hosts),
    "strict_versions": ("kraftbridge.kip590.strict.versions", boolean),
    "faults_enabled": ("kraftbridge.faults.enable", boolean),
}
"""Field of :class:`BrokerConfig` -> its property and its parser; the default is the field's."""
OURS: Final = sorted(key for key, _ in _PLAIN.values() if key.startswith(unknown.OWN_PREFIX))
_DEFAULTS: Final[Mapping[str, Any]] = {
    one.name: one.default for one in fields(BrokerConfig) if one.default is not MISSING
}


def load_broker(raw: Mapping[str, str], host_name: str) -> tuple[BrokerConfig, tuple[str, ...]]:
    """Validate the properties of a broker; without ``process.roles`` it is in ZooKeeper mode.

    Args:
        raw: property name -> text, as in ``server.properties`` with ``-X`` overrides applied.
        host_name: this machine's name; advertised for a listener without host.

    Returns:
        The configuration and one warning per unknown key or setting without effect.

    Raises:
        ConfigError: with every problem found, not only the first.
    """
    r = PropertyReader(raw)
    in_kraft = _in_kraft(r)
    node_id = _node_id(r)
    voters = r.take("controller.quorum.voters", voters_of, dict[int, HostPort]())
    servers = r.take("controller.quorum.bootstrap.servers", _servers, tuple[HostPort, ...]())
    take_names = r.need if in_kraft else r.take
    names = take_names("controller.listener.names", name_list, tuple[str, ...]())
    protocols = r.take("listener.security.protocol.map", parse_protocol_map, dict[str, str]())
    usual: tuple[Listener, ...] = (Listener(PLAINTEXT, "", 9092, PLAINTEXT),)
    listeners = r.take("listeners", lambda text: listeners_of(text, protocols), usual)
    given = r.take("advertised.listeners", lambda text: listeners_of(text, protocols), listeners)
    log_dirs = name_list(r.take("log.dirs", str, "") or r.take("log.dir", str, ""))
    plain = {name: r.take(key, parse, _DEFAULTS[name]) for name, (key, parse) in _PLAIN.items()}
    connections, inter_broker = ConnectionSettings.read(r), _inter_broker(r)
    # Only in ZooKeeper mode a broker is the controller of others; logs are not replicated here.
    peers = {one: protocols.get(one, one) for one in ((inter_broker,) if not in_kraft else ())}
    controllers = {one: protocols.get(one, one) for one in names[:1]}
    config = BrokerConfig(
        node_id=node_id,
        listeners=listeners,
        advertised=tuple(replace(x, host=x.host or host_name) for x in given),
        controller_listener_names=names,
        bootstrap=tuple(voters.values()) or servers,
        voters=voters,
        log_dirs=log_dirs,
        metadata_log_dir=r.take("metadata.log.dir", str, "") or next(iter(log_dirs), ""),
        inter_broker_listener_name=inter_broker,
        rack=r.take("broker.rack", str, "") or None,
        offsets_topic=_internal_topic(r, "offsets.topic"),
        transaction_topic=_internal_topic(r, "transaction.state.log"),
        connections=connections,
        sasl=SaslSettings.read(r, listeners, connections.idle_ms),
        controller_access=_access(r, controllers, CONTROLLER_MECHANISM),
        inter_broker_access=_access(r, peers, INTER_BROKER_MECHANISM),
        tls=all_tls(r, listeners, controllers | peers),
        tokens=TokenSettings.read(r),
        zookeeper=None if in_kraft else zookeeper_mode.read(r, plain["release"]),
        authorizer=_authorizer(r, in_kraft=in_kraft),
        static=dict(raw),
        **plain,
    )
    r.problems += [*_quorum_problems(config), *_listener_problems(config)]
    r.problems += _security_problems(r, in_kraft=in_kraft)
    if not config.log_dirs:
        r.problems.append("log.dirs is required")
    times = Counter(map(normpath, config.log_dirs))
    r.problems += [f"log.dirs: {name} is listed twice" for name in times if times[name] > 1]
    if config.faults_enabled and config.metrics_port < 0:
        r.problems.append("kraftbridge.faults.enable=true: needs kraftbridge.metrics.port")
    warnings, misspelt = _unknown(r)
    r.problems += misspelt
    if r.problems:
        raise ConfigError(r.problems, warnings)
    return config, warnings


def _in_kraft(r: PropertyReader) -> bool:
    """Whether the broker is in KRaft mode: it has ``process.roles``."""
    roles = r.take("process.roles", name_list, tuple[str, ...]())
    if not roles:
        if not trim(r.raw.get(zookeeper_mode.CONNECT, "")):
            r.problems.append(
                f"process.roles=broker (KRaft mode) or {zookeeper_mode.CONNECT} (ZooKeeper mode) "
                "is required"
            )
            return True
        return False
    if set(roles) != {"broker"}:
        r.problems.append(
            f"process.roles={','.join(roles)}: this verb runs process.roles=broker; a controller "
            "is run by kraft-bridge controller, and a combined node is not supported"
        )
    return True


def _node_id(r: PropertyReader) -> int:
    """``node.id``, or its older name ``broker.id``; equal if both are given."""
    given = {key: r.take(key, integer(0), -1) for key in ("node.id", "broker.id") if key in r.raw}
    if not given:
        r.problems.append("node.id is required; ids are not generated")
        return -1
    if len(set(given.values())) > 1:
        r.problems.append(f"node.id={r.raw['node.id']}: broker.id={r.raw['broker.id']} differs")
    return next(iter(given.values()))


def _servers(text: str) -> tuple[HostPort, ...]:
    return tuple(host_port(part) for part in name_list(text))


def _inter_broker(r: PropertyReader) -> str:
    protocol = r.take("security.inter.broker.protocol", str, PLAINTEXT)
    name = r.take("inter.broker.listener.name", str, "")
    if name and "security.inter.broker.protocol" in r.raw:
        r.problems.append(
            "inter.broker.listener.name and security.inter.broker.protocol: only one may be set"
        )
    return name or protocol


def _access(r: PropertyReader, listener: Mapping[str, str], mechanism_key: str) -> PeerAccess:
    """To one listener of other nodes, or to none."""
    (name, protocol), *_ = *listener.items(), ("", "")
    return access_to(r, name, protocol, mechanism_key)


def _internal_topic(r: PropertyReader, prefix: str) -> InternalTopicSettings:
    plain, positive = InternalTopicSettings(), integer(1)
    lowest: int | None = None
    if prefix == "transaction.state.log":
        lowest = r.take(f"{prefix}.min.isr", positive, 2)
    return InternalTopicSettings(
        r.take(f"{prefix}.num.partitions", positive, plain.num_partitions),
        r.take(f"{prefix}.replication.factor", _SHORT, plain.replication_factor),
        r.take(f"{prefix}.segment.bytes", positive, plain.segment_bytes),
        lowest,
    )


def _authorizer(r: PropertyReader, *, in_kraft: bool) -> AuthorizerSettings | None:
    name = trim(r.raw.get(CLASS, ""))
    if name and not in_kraft:
        r.used.add(CLASS)
        r.problems.append(f"{CLASS}={name}: not supported in ZooKeeper mode")
        return None
    if name and name != STANDARD:
        r.used.add(CLASS)
        r.problems.append(f"{CLASS}={name}: in KRaft mode only {STANDARD} is supported")
        return None
    return AuthorizerSettings.read(r, release="3.9", migration=False)


def _quorum_problems(config: BrokerConfig) -> list[str]:
    if config.zookeeper is not None:
        return zookeeper_mode.problems(
            config.zookeeper,
            config.release,
            config.controller_listener_names,
            config.bootstrap,
            config.log_dirs,
        )
    problems = []
    if not config.bootstrap:
        problems.append(
            "controller.quorum.voters or controller.quorum.bootstrap.servers is required"
        )
    if config.node_id in config.voters:
        problems.append(
            f"node.id={config.node_id}: a node with process.roles=broker must not be in "
            "controller.quorum.voters"
        )
    return problems


def _listener_problems(config: BrokerConfig) -> list[str]:
    controllers, known = config.controller_listener_names, {x.name for x in config.listeners}
    problems = [
        f"listeners: {name} is in controller.listener.names, and this node is no controller"
        for name in dict.fromkeys(x.name for x in (*config.listeners, *config.advertised))
        if name in controllers
    ]
    problems += [
        f"advertised.listeners: {x.name} is not in listeners"
        for x in config.advertised
        if x.name not in known
    ]
    problems += [
        f"advertised.listeners: {x.name}://{x.host}:{x.port} names no address that clients reach"
        for x in config.advertised
        if x.host == META_ADDRESS
    ]
    inter = config.inter_broker_listener_name
    if inter not in {x.name for x in config.advertised}:
        problems.append(f"inter.broker.listener.name: {inter} is not in advertised.listeners")
    problems += [
        f"listener {x.name}: {x.security_protocol} is no security protocol; name one in "
        "listener.security.protocol.map"
        for x in config.listeners
        if x.security_protocol not in SECURITY_PROTOCOLS
    ]
    return problems


def _security_problems(r: PropertyReader, *, in_kraft: bool) -> list[str]:
    problems = []
    builder = r.take("principal.builder.class", str, "")
    if builder not in {"", _KAFKAS_PRINCIPALS}:
        problems.append(f"principal.builder.class={builder}: Java classes are not run")
    control_plane = r.take("control.plane.listener.name", str, "")
    if control_plane and in_kraft:
        problems.append(f"control.plane.listener.name={control_plane}: not supported in KRaft mode")
    return problems


def _unknown(r: PropertyReader) -> tuple[tuple[str, ...], list[str]]:
    """Warnings about keys that Kafka does not know, and problems for unknown ones of ours."""
    known = KAFKA_CONFIG_NAMES | AUTHORIZER_KEYS
    keys = (
        key for key in r.raw if key not in r.used | known and not key.startswith(_IGNORED_PREFIXES)
    )
    return unknown.judged(keys, known | {*OURS}, OURS, "broker")
