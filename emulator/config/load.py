"""Kafka's own property names, read into one frozen, validated object.

An operator's ``server.properties`` works unmodified. Unknown keys are reported by name and
ignored, wrong values are collected and raised together. Source: KafkaConfig and its
``validateValues`` (Kafka 3.9); keys that start with ``kraftbridge.`` are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final

from emulator.config import unknown
from emulator.config import unknown as config_ignored
from emulator.config import zookeeper as config_zookeeper
from emulator.config.authorizer import AUTHORIZER_KEYS, AuthorizerSettings
from emulator.config.java_text import LONG_MAX, boolean, trim
from emulator.config.limits import ConnectionSettings, MutationQuotaSettings, TokenSettings
from emulator.config.listeners import (
    METRICS_HOSTS,
    METRICS_PORT,
    SECURITY_PROTOCOLS,
    HostPort,
    Listener,
    advertised_of,
    implied_protocols,
    listeners_of,
    metrics_hosts,
    metrics_port,
    protocol_map,
    voter_elsewhere,
    voters_of,
)
from emulator.config.names import KAFKA_CONFIG_NAMES
from emulator.config.passwords import PasswordSettings
from emulator.config.quorum import QuorumTimes
from emulator.config.reading import PropertyReader, integer, metadata_dir, name_list, one_of
from emulator.config.sasl import (
    CONTROLLER_MECHANISM,
    INTER_BROKER_MECHANISM,
    OPEN_ACCESS,
    PeerAccess,
    SaslSettings,
    access_to,
    refuse_scram_of_voters,
)
from emulator.config.tls import TlsSettings, all_tls
from wire.releases import RELEASES

# How a migration is finalised.
#
# Source: KIP-866 "Finalizing the Migration" and "Misconfigurations"; what Kafka 3.9 does instead is
# in ActivationRecordsGenerator.recordsForNonEmptyLog.

FINALISATION: Final = "kraftbridge.finalization"
HOLD: Final = "kraftbridge.finalise.hold"
KAFKAS: Final = "kafka"
RULES: Final = ("every-voter", KAFKAS)
"""``every-voter``: when no voter has the flag, no broker is in ZooKeeper mode, and the last leader
with the flag has left its mark. ``kafka``: as soon as a controller without the flag leads."""


def contradictions(rule: str, *, hold: bool) -> list[str]:
    """What is wrong with the two together, in a sentence.

    >>> contradictions("every-voter", hold=True)
    []
    """
    if not hold or rule != KAFKAS:
        return []
    return [f"{HOLD}=true: {FINALISATION}={KAFKAS} finalises without waiting for anything"]


# ``controller.quorum.bootstrap.servers`` on a controller: a dynamic quorum, which is refused.
#
# The sample file of the migration guide of Apache Kafka 3.9 names its quorum so, and has no
# ``listener.security.protocol.map``. One sentence names both lines to change.

SERVERS: Final = "controller.quorum.bootstrap.servers"
VOTERS: Final = "controller.quorum.voters"
PROTOCOL_MAP: Final = "listener.security.protocol.map"


def dynamic_only(reader: PropertyReader) -> bool:
    """Whether the quorum is a dynamic one: bootstrap servers are given, and no voters."""
    named = {key: bool(trim(reader.raw.get(key, ""))) for key in (SERVERS, VOTERS)}
    return named[SERVERS] and not named[VOTERS]


def instead(reader: PropertyReader, problems: list[str]) -> list[str]:
    """The problems of a file; of a dynamic quorum one sentence also names the missing map."""
    if not dynamic_only(reader):
        return problems
    return [refusal(reader), *(one for one in problems if PROTOCOL_MAP not in one)]


def refusal(reader: PropertyReader) -> str:
    """The sentence for a controller with a dynamic quorum: which lines to change.

    >>> refusal(PropertyReader({"node.id": "1", SERVERS: "c:9093", PROTOCOL_MAP: "C:PLAINTEXT"}))
    'dynamic quorums are not supported yet: write controller.quorum.voters=1@c:9093 instead of \
controller.quorum.bootstrap.servers=c:9093'
    """
    value = trim(reader.raw[SERVERS])
    servers = name_list(value)
    # The property does not show which server is this controller, nor the ids of the others.
    node_id = trim(reader.raw.get("node.id", "")) if len(servers) == 1 else "ID"
    voters = ",".join(f"{node_id}@{server}" for server in servers)
    each = "" if len(servers) == 1 else " (ID: the node.id of each)"
    found = (
        f"dynamic quorums are not supported yet: write {VOTERS}={voters}{each} instead of "
        f"{SERVERS}={value}"
    )
    names = name_list(reader.raw.get("controller.listener.names", ""))
    if trim(reader.raw.get(PROTOCOL_MAP, "")) or not set(names) - set(SECURITY_PROTOCOLS):
        return found
    mapped = ",".join(f"{name}:PLAINTEXT" for name in names)
    # With a map Kafka looks for the brokers' listener there too, whatever its name.
    between = trim(reader.raw.get("inter.broker.listener.name", "")).upper()
    if between in SECURITY_PROTOCOLS and between not in names:
        mapped += f",{between}:{between}"
    return f"{found}, and add {PROTOCOL_MAP}={mapped}"


class ConfigError(Exception):
    """The configuration cannot be used; ``problems`` holds one sentence for each wrong value.

    ``warnings`` are those that :func:`load` would have returned: a missing required key is often a
    misspelt one.
    """

    def __init__(self, problems: Sequence[str], warnings: Sequence[str] = ()) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of one controller node. Times in milliseconds unless the name says otherwise."""

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
    """Kafka's default is 100 MiB; decoding a frame needs more memory."""
    delete_topic_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    release: str = "3.9"
    write_behind_max_records: int = 10_000
    write_behind_hard_max_records: int = -1
    """-1: twice the first bound."""
    write_behind_max_bytes: int = 64 * 1024 * 1024
    write_behind_max_age_ms: int = 0
    write_behind_poison: str = "block"
    write_behind_multi_ops: int = 400
    finalise_by: str = "every-voter"
    """When a leader without the migration flag finalises: see :mod:`emulator.config.load`."""
    finalise_hold: bool = False
    """Whether it waits for ``kraft-bridge finalise --yes``."""
    metrics_port: int | None = None
    """None: the usual port of 127.0.0.1, or a free one; 0: any free one; -1: no HTTP endpoint."""
    metrics_hosts: tuple[str, ...] = ()
    """Names and addresses by which it may be asked too."""
    faults_enabled: bool = False
    """Whether a script of faults may be set over HTTP."""
    times: QuorumTimes = QuorumTimes()  # noqa: RUF009  # frozen
    trace_dir: str = ""
    trace_run_id: str = ""
    """Id of the run in the traces of several processes; empty: the time of the start."""
    trace_max_bytes: int = 1024 * 1024 * 1024
    connections: ConnectionSettings = ConnectionSettings()  # noqa: RUF009  # frozen
    sasl: SaslSettings = SaslSettings()  # noqa: RUF009  # frozen
    """The logins of others to our listeners."""
    quorum_access: PeerAccess = OPEN_ACCESS
    """Of our connections to the other voters."""
    inter_broker_access: PeerAccess = OPEN_ACCESS
    """Of our connections to brokers in ZooKeeper mode."""
    tls: Mapping[str, TlsSettings] = field(default_factory=dict)
    """Of our listeners, and of those to which we connect, by ``tls_profile``."""
    tokens: TokenSettings = TokenSettings()  # noqa: RUF009  # frozen
    mutation_quota: MutationQuotaSettings = MutationQuotaSettings()  # noqa: RUF009  # frozen
    passwords: PasswordSettings = PasswordSettings()  # noqa: RUF009  # frozen
    authorizer: AuthorizerSettings | None = None
    """None: no ACLs, every caller may do everything."""
    static: Mapping[str, str] = field(default_factory=dict)
    """Every property as given: the source of static config values in CreateTopics answers."""

    @property
    def controller_listener(self) -> Listener:
        """The listener that peers and brokers use: the first of ``controller.listener.names``."""
        return next(x for x in self.listeners if x.name == self.controller_listener_names[0])

    @property
    def advertised_controller_listener(self) -> Listener:
        """The advertised address of :attr:`controller_listener`."""
        return next(x for x in self.advertised if x.name == self.controller_listener_names[0])


_PLAIN: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "migration_enabled": ("zookeeper.metadata.migration.enable", boolean),
    "migration_min_batch_size": ("zookeeper.metadata.migration.min.batch.size", integer(1)),
    "zookeeper_max_in_flight_requests": ("zookeeper.max.in.flight.requests", integer(1)),
    "metadata_max_idle_interval_ms": ("metadata.max.idle.interval.ms", integer(0)),
    "broker_heartbeat_interval_ms": ("broker.heartbeat.interval.ms", integer(1)),
    "broker_session_timeout_ms": ("broker.session.timeout.ms", integer(1)),
    "num_partitions": ("num.partitions", integer(1)),
    "default_replication_factor": ("default.replication.factor", integer(1)),
    "snapshot_bytes_between": (
        "metadata.log.max.record.bytes.between.snapshots",
        integer(1, LONG_MAX),
    ),
    "snapshot_interval_ms": ("metadata.log.max.snapshot.interval.ms", integer(0, LONG_MAX)),
    "segment_bytes": ("metadata.log.segment.bytes", integer(12)),
    "socket_request_max_bytes": ("socket.request.max.bytes", integer(1)),
    "delete_topic_enable": ("delete.topic.enable", boolean),
    "auto_leader_rebalance_enable": ("auto.leader.rebalance.enable", boolean),
    "leader_imbalance_check_interval_seconds": (
        "leader.imbalance.check.interval.seconds",
        integer(1),
    ),
    "release": ("kraftbridge.release", one_of(*RELEASES)),
    "write_behind_max_records": ("kraftbridge.zk.write.behind.max.records", integer(0)),
    "write_behind_hard_max_records": ("kraftbridge.zk.write.behind.hard.max.records", integer(0)),
    "write_behind_max_bytes": ("kraftbridge.zk.write.behind.max.bytes", integer(0, LONG_MAX)),
    "write_behind_max_age_ms": ("kraftbridge.zk.write.behind.max.age.ms", integer(0, LONG_MAX)),
    "write_behind_poison": ("kraftbridge.zk.write.behind.poison", one_of("block", "skip")),
    "write_behind_multi_ops": ("kraftbridge.zk.write.behind.multi.ops", integer(1, 1000)),
    "finalise_by": (FINALISATION, one_of(*RULES)),
    "finalise_hold": (HOLD, boolean),
    "metrics_port": (METRICS_PORT, metrics_port),
    "metrics_hosts": (METRICS_HOSTS, metrics_hosts),
    "faults_enabled": ("kraftbridge.faults.enable", boolean),
    "trace_dir": ("kraftbridge.trace.dir", str),
    "trace_run_id": ("kraftbridge.trace.run.id", str),
    "trace_max_bytes": ("kraftbridge.trace.max.bytes", integer(0, LONG_MAX)),
}
"""Field of :class:`Config` -> its property and its parser; the default is the field's."""
OURS: Final = sorted(
    key
    for key in (*(key for key, _ in _PLAIN.values()), *config_zookeeper.KEYS)
    if key.startswith(unknown.OWN_PREFIX)
)
DEFAULTS: Final[Mapping[str, Any]] = {
    one.name: one.default for one in fields(Config) if one.default is not MISSING
}


def load(raw: Mapping[str, str]) -> tuple[Config, tuple[str, ...]]:
    """Validate properties.

    Args:
        raw: property name -> text, as in ``server.properties`` with ``-X`` overrides applied.

    Returns:
        The configuration and one warning per unknown key; one that would be ours is a problem.

    Raises:
        ConfigError: with every problem found, not only the first.

    Source: KafkaConfig.validateValues, Kafka 3.9; KIP-866 "Additional KRaft Configs" (C08).
    """
    r = PropertyReader(raw)
    node_id = r.need("node.id", integer(0), -1)
    _check_roles(r)
    names = r.need("controller.listener.names", name_list, tuple[str, ...]())
    protocols = r.take("listener.security.protocol.map", protocol_map, dict[str, str]())
    if "listener.security.protocol.map" not in raw:
        protocols = implied_protocols(names, raw.get("listeners", ""))
    listeners = r.need(
        "listeners", lambda text: listeners_of(text, protocols), tuple[Listener, ...]()
    )
    advertised = r.take(
        "advertised.listeners", lambda text: listeners_of(text, protocols), listeners
    )
    voters_key = r.take if dynamic_only(r) else r.need
    voters = voters_key("controller.quorum.voters", voters_of, dict[int, HostPort]())
    no_servers: tuple[tuple[HostPort, ...], str] = ((), "")
    servers, chroot = r.take("zookeeper.connect", config_zookeeper.connect_string, no_servers)
    session_ms = r.take("zookeeper.session.timeout.ms", integer(1), 18_000)
    security, wrong = config_zookeeper.read(raw)
    r.problems += wrong
    plain = {field: r.take(key, parse, DEFAULTS[field]) for field, (key, parse) in _PLAIN.items()}
    peers = _peers(r, protocols, names[:1] if len(voters) > 1 else (), plain)
    plain |= _connections(r, listeners)
    config = Config(
        node_id=node_id,
        voters=voters,
        listeners=listeners,
        advertised=advertised_of(listeners, advertised, voters.get(node_id)),
        controller_listener_names=names,
        log_dir=metadata_dir(lambda key: r.take(key, str, "")),
        zookeeper_servers=servers,
        zookeeper_chroot=chroot,
        zookeeper_session_timeout_ms=session_ms,
        zookeeper_security=security,
        zookeeper_connection_timeout_ms=r.take(
            "zookeeper.connection.timeout.ms", integer(1), session_ms
        ),
        tls=all_tls(r, listeners, peers),
        times=QuorumTimes.read(r),
        tokens=TokenSettings.read(r),
        mutation_quota=MutationQuotaSettings.read(r),
        passwords=PasswordSettings.read(r),
        authorizer=AuthorizerSettings.read(
            r, release=plain["release"], migration=plain["migration_enabled"]
        ),
        static=dict(raw),
        **plain,
    )
    r.problems += instead(r, _cross_checks(config, r.raw))
    warnings, misspelt = _unknown(r)
    r.problems += misspelt
    if r.problems:
        raise ConfigError(r.problems, warnings)
    return config, (*warnings, *_elsewhere(config), *config_ignored.warnings(raw))


def _elsewhere(config: Config) -> Iterator[str]:
    """A warning if the voters name another port of this node than those that it listens on."""
    own = config.voters.get(config.node_id)
    listening = (*config.listeners, *config.advertised)
    names = config.controller_listener_names
    if why := voter_elsewhere(config.node_id, own, listening, names):
        yield f"controller.quorum.voters: {why}: no other node reaches it there"


def _connections(r: PropertyReader, listeners: Sequence[Listener]) -> dict[str, Any]:
    """How many, for how long, and who must log in."""
    settings = ConnectionSettings.read(r)
    return {"connections": settings, "sasl": SaslSettings.read(r, listeners, settings.idle_ms)}


def _peers(
    r: PropertyReader,
    protocols: Mapping[str, str],
    voters_listener: Sequence[str],
    plain: dict[str, Any],
) -> dict[str, str]:
    """Listeners of other nodes to which we connect, with their protocols; adds how to ``plain``."""
    protocol = r.take("security.inter.broker.protocol", str, "PLAINTEXT")
    # In upper case, as brokers register their listeners (ListenerName.normalised, Kafka 3.9).
    name = r.take("inter.broker.listener.name", str, protocol).upper()
    plain["inter_broker_listener_name"] = name
    of_name = {one.upper(): kind for one, kind in protocols.items()}.get(name, name)
    brokers = {name: of_name} if plain["migration_enabled"] else {}
    plain["inter_broker_access"] = access_to(r, name, brokers.get(name, ""), INTER_BROKER_MECHANISM)
    voters = {one: protocols.get(one, one) for one in voters_listener}
    (one, of_voters), *_ = *voters.items(), ("", "")
    plain["quorum_access"] = access = access_to(r, one, of_voters, CONTROLLER_MECHANISM)
    refuse_scram_of_voters(r, access)
    return brokers | voters


def _check_roles(r: PropertyReader) -> None:
    """Only a dedicated controller is a migration target (KIP-866 "Combined Mode", P03)."""
    roles = r.need("process.roles", name_list, tuple[str, ...]())
    if roles and set(roles) != {"controller"}:
        r.problems.append(
            f"process.roles={','.join(roles)}: this is not the configuration of a controller, "
            "which has process.roles=controller; a "
            "broker is run by kraft-bridge broker, and a combined broker,controller node cannot "
            "take part in a migration"
        )


def _cross_checks(config: Config, raw: Mapping[str, str]) -> list[str]:
    problems = []
    if config.migration_enabled and not config.zookeeper_servers and "zookeeper.connect" not in raw:
        problems.append(
            "zookeeper.connect is required when zookeeper.metadata.migration.enable is true"
        )
    if config.migration_enabled:
        problems += config_zookeeper.owner_missing(config.zookeeper_security)
    bound, hard = config.write_behind_max_records, config.write_behind_hard_max_records
    if hard > 0 and not 0 < bound <= hard:
        problems.append(
            f"kraftbridge.zk.write.behind.hard.max.records={hard}: must be 0, or at least "
            f"kraftbridge.zk.write.behind.max.records={bound}, which must not be 0 then"
        )
    if config.voters and config.node_id >= 0 and config.node_id not in config.voters:
        problems.append(f"node.id={config.node_id} is not in controller.quorum.voters")
    listening = {x.name for x in config.listeners}
    problems.extend(
        f"controller.listener.names: {name} is not in listeners"
        for name in config.controller_listener_names
        if config.listeners and name not in listening
    )
    problems.extend(
        f"listener {x.name}: {x.security_protocol} is no security protocol; name one in "
        "listener.security.protocol.map"
        for x in config.listeners
        if x.security_protocol not in SECURITY_PROTOCOLS
    )
    if config.faults_enabled and config.metrics_port == -1:
        problems.append("kraftbridge.faults.enable=true: needs kraftbridge.metrics.port")
    problems += contradictions(config.finalise_by, hold=config.finalise_hold)
    if not config.log_dir:
        problems.append("metadata.log.dir or log.dirs is required")
    return problems


def _unknown(r: PropertyReader) -> tuple[tuple[str, ...], list[str]]:
    """Warnings about keys that Kafka does not know, and problems for unknown ones of ours."""
    prefixes = ("listener.name.", "sasl.", "ssl.", "log4j.", "zookeeper.ssl.")
    known = KAFKA_CONFIG_NAMES | AUTHORIZER_KEYS | config_zookeeper.KEYS
    keys = (key for key in r.raw if key not in r.used | known and not key.startswith(prefixes))
    return unknown.judged(keys, known | {*OURS}, OURS, "controller")
