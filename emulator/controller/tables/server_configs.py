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
from emulator.controller.context import ControllerConfig
from emulator.controller.tables.config_defs import (
    BROKER_SOURCE,
    CLUSTER_SOURCE,
    DEFAULT_SOURCE,
    STATIC_SOURCE,
)
from emulator.metadata.configs import BROKER
from emulator.metadata.image import Image

# Every property of a Kafka server: its type, its default, and whether it can change at run time.
#
# One line each: name, type with a ``*`` if it is dynamic, default; no default is null, ``""`` is
# the empty string. Internal properties, which DescribeConfigs does not show, are left out.
#
# Source: printed by KafkaConfig.configDef and DynamicBrokerConfig.AllDynamicConfigs of 3.9.2;
# differences in 3.7.2 and 3.8.1 are below the table.

TABLE: Final = """\
advertised.listeners STRING*
alter.config.policy.class.name CLASS
alter.config.policy.kraft.compatibility.enable BOOLEAN false
alter.log.dirs.replication.quota.window.num INT 11
alter.log.dirs.replication.quota.window.size.seconds INT 1
authorizer.class.name STRING ""
auto.create.topics.enable BOOLEAN true
auto.include.jmx.reporter BOOLEAN true
auto.leader.rebalance.enable BOOLEAN true
background.threads INT* 10
broker.heartbeat.interval.ms INT 2000
broker.id INT -1
broker.id.generation.enable BOOLEAN true
broker.rack STRING
broker.session.timeout.ms INT 9000
client.quota.callback.class CLASS
compression.gzip.level INT* -1
compression.lz4.level INT* 9
compression.type STRING* producer
compression.zstd.level INT* 3
connection.failed.authentication.delay.ms INT 100
connections.max.idle.ms LONG 600000
connections.max.reauth.ms LONG 0
control.plane.listener.name STRING
controlled.shutdown.enable BOOLEAN true
controlled.shutdown.max.retries INT 3
controlled.shutdown.retry.backoff.ms LONG 5000
controller.listener.names STRING
controller.quorum.append.linger.ms INT 25
controller.quorum.bootstrap.servers LIST ""
controller.quorum.election.backoff.max.ms INT 1000
controller.quorum.election.timeout.ms INT 1000
controller.quorum.fetch.timeout.ms INT 2000
controller.quorum.request.timeout.ms INT 2000
controller.quorum.retry.backoff.ms INT 20
controller.quorum.voters LIST ""
controller.quota.window.num INT 11
controller.quota.window.size.seconds INT 1
controller.socket.timeout.ms INT 30000
create.topic.policy.class.name CLASS
default.replication.factor INT 1
delegation.token.expiry.check.interval.ms LONG 3600000
delegation.token.expiry.time.ms LONG 86400000
delegation.token.master.key PASSWORD
delegation.token.max.lifetime.ms LONG 604800000
delegation.token.secret.key PASSWORD
delete.records.purgatory.purge.interval.requests INT 1
delete.topic.enable BOOLEAN true
early.start.listeners STRING
eligible.leader.replicas.enable BOOLEAN false
fetch.max.bytes INT 57671680
fetch.purgatory.purge.interval.requests INT 1000
group.consumer.assignors LIST org.apache.kafka.coordinator.group.assignor.UniformAssignor,\
org.apache.kafka.coordinator.group.assignor.RangeAssignor
group.consumer.heartbeat.interval.ms INT 5000
group.consumer.max.heartbeat.interval.ms INT 15000
group.consumer.max.session.timeout.ms INT 60000
group.consumer.max.size INT 2147483647
group.consumer.migration.policy STRING disabled
group.consumer.min.heartbeat.interval.ms INT 5000
group.consumer.min.session.timeout.ms INT 45000
group.consumer.session.timeout.ms INT 45000
group.coordinator.append.linger.ms INT 10
group.coordinator.rebalance.protocols LIST classic
group.coordinator.threads INT 1
group.initial.rebalance.delay.ms INT 3000
group.max.session.timeout.ms INT 1800000
group.max.size INT 2147483647
group.min.session.timeout.ms INT 6000
group.share.delivery.count.limit INT 5
group.share.heartbeat.interval.ms INT 5000
group.share.max.groups SHORT 10
group.share.max.heartbeat.interval.ms INT 15000
group.share.max.record.lock.duration.ms INT 60000
group.share.max.session.timeout.ms INT 60000
group.share.max.size SHORT 200
group.share.min.heartbeat.interval.ms INT 5000
group.share.min.record.lock.duration.ms INT 15000
group.share.min.session.timeout.ms INT 45000
group.share.partition.max.record.locks INT 200
group.share.record.lock.duration.ms INT 30000
group.share.session.timeout.ms INT 45000
initial.broker.registration.timeout.ms INT 60000
inter.broker.listener.name STRING
inter.broker.protocol.version STRING 3.9-IV0
kafka.metrics.polling.interval.secs INT 10
kafka.metrics.reporters LIST ""
leader.imbalance.check.interval.seconds LONG 300
leader.imbalance.per.broker.percentage INT 10
listener.security.protocol.map STRING* SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,\
SASL_PLAINTEXT:SASL_PLAINTEXT
listeners STRING* PLAINTEXT://:9092
log.cleaner.backoff.ms LONG* 15000
log.cleaner.dedupe.buffer.size LONG* 134217728
log.cleaner.delete.retention.ms LONG* 86400000
log.cleaner.enable BOOLEAN true
log.cleaner.io.buffer.load.factor DOUBLE* 0.9
log.cleaner.io.buffer.size INT* 524288
log.cleaner.io.max.bytes.per.second DOUBLE* 1.7976931348623157E308
log.cleaner.max.compaction.lag.ms LONG* 9223372036854775807
log.cleaner.min.cleanable.ratio DOUBLE* 0.5
log.cleaner.min.compaction.lag.ms LONG* 0
log.cleaner.threads INT* 1
log.cleanup.policy LIST* delete
log.dir STRING /\
tmp/kafka-logs
log.dir.failure.timeout.ms LONG 30000
log.dirs STRING
log.flush.interval.messages LONG* 9223372036854775807
log.flush.interval.ms LONG*
log.flush.offset.checkpoint.interval.ms INT 60000
log.flush.scheduler.interval.ms LONG 9223372036854775807
log.flush.start.offset.checkpoint.interval.ms INT 60000
log.index.interval.bytes INT* 4096
log.index.size.max.bytes INT* 10485760
log.local.retention.bytes LONG* -2
log.local.retention.ms LONG* -2
log.message.downconversion.enable BOOLEAN* true
log.message.format.version STRING 3.0-IV1
log.message.timestamp.after.max.ms LONG* 9223372036854775807
log.message.timestamp.before.max.ms LONG* 9223372036854775807
log.message.timestamp.difference.max.ms LONG* 9223372036854775807
log.message.timestamp.type STRING* CreateTime
log.preallocate BOOLEAN* false
log.retention.bytes LONG* -1
log.retention.check.interval.ms LONG 300000
log.retention.hours INT 168
log.retention.minutes INT
log.retention.ms LONG*
log.roll.hours INT 168
log.roll.jitter.hours INT 0
log.roll.jitter.ms LONG*
log.roll.ms LONG*
log.segment.bytes INT* 1073741824
log.segment.delete.delay.ms LONG* 60000
max.connection.creation.rate INT* 2147483647
max.connections INT* 2147483647
max.connections.per.ip INT* 2147483647
max.connections.per.ip.overrides STRING* ""
max.incremental.fetch.session.cache.slots INT 1000
max.request.partition.size.limit INT 2000
message.max.bytes INT* 1048588
metadata.log.dir STRING
metadata.log.max.record.bytes.between.snapshots LONG 20971520
metadata.log.max.snapshot.interval.ms LONG 3600000
metadata.log.segment.bytes INT 1073741824
metadata.log.segment.ms LONG 604800000
metadata.max.idle.interval.ms INT 500
metadata.max.retention.bytes LONG 104857600
metadata.max.retention.ms LONG 604800000
metric.reporters LIST* ""
metrics.num.samples INT 2
metrics.recording.level STRING INFO
metrics.sample.window.ms LONG 30000
min.insync.replicas INT* 1
node.id INT -1
num.io.threads INT* 8
num.network.threads INT* 3
num.partitions INT 1
num.recovery.threads.per.data.dir INT* 1
num.replica.alter.log.dirs.threads INT
num.replica.fetchers INT* 1
offset.metadata.max.bytes INT 4096
offsets.commit.required.acks SHORT -1
offsets.commit.timeout.ms INT 5000
offsets.load.buffer.size INT 5242880
offsets.retention.check.interval.ms LONG 600000
offsets.retention.minutes INT 10080
offsets.topic.compression.codec INT 0
offsets.topic.num.partitions INT 50
offsets.topic.replication.factor SHORT 3
offsets.topic.segment.bytes INT 104857600
password.encoder.cipher.algorithm STRING AES/CBC/PKCS5Padding
password.encoder.iterations INT 4096
password.encoder.key.length INT 128
password.encoder.keyfactory.algorithm STRING
password.encoder.old.secret PASSWORD
password.encoder.secret PASSWORD
principal.builder.class CLASS* \
org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
process.roles LIST ""
producer.id.expiration.ms INT* 86400000
producer.purgatory.purge.interval.requests INT 1000
queued.max.request.bytes LONG -1
queued.max.requests INT 500
quota.window.num INT 11
quota.window.size.seconds INT 1
remote.fetch.max.wait.ms INT* 500
remote.log.index.file.cache.total.size.bytes LONG* 1073741824
remote.log.manager.copier.thread.pool.size INT -1
remote.log.manager.copy.max.bytes.per.second LONG* 9223372036854775807
remote.log.manager.copy.quota.window.num INT 11
remote.log.manager.copy.quota.window.size.seconds INT 1
remote.log.manager.expiration.thread.pool.size INT -1
remote.log.manager.fetch.max.bytes.per.second LONG* 9223372036854775807
remote.log.manager.fetch.quota.window.num INT 11
remote.log.manager.fetch.quota.window.size.seconds INT 1
remote.log.manager.task.interval.ms LONG 30000
remote.log.manager.thread.pool.size INT 10
remote.log.metadata.custom.metadata.max.bytes INT 128
remote.log.metadata.manager.class.name STRING \
org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path STRING
remote.log.metadata.manager.impl.prefix STRING rlmm.config.
remote.log.metadata.manager.listener.name STRING
remote.log.reader.max.pending.tasks INT 100
remote.log.reader.threads INT 10
remote.log.storage.manager.class.name STRING
remote.log.storage.manager.class.path STRING
remote.log.storage.manager.impl.prefix STRING rsm.config.
remote.log.storage.system.enable BOOLEAN false
replica.fetch.backoff.ms INT 1000
replica.fetch.max.bytes INT 1048576
replica.fetch.min.bytes INT 1
replica.fetch.response.max.bytes INT 10485760
replica.fetch.wait.max.ms INT 500
replica.high.watermark.checkpoint.interval.ms LONG 5000
replica.lag.time.max.ms LONG 30000
replica.selector.class STRING
replica.socket.receive.buffer.bytes INT 65536
replica.socket.timeout.ms INT 30000
replication.quota.window.num INT 11
replication.quota.window.size.seconds INT 1
request.timeout.ms INT 30000
reserved.broker.max.id INT 1000
sasl.client.callback.handler.class CLASS
sasl.enabled.mechanisms LIST* GSSAPI
sasl.jaas.config PASSWORD*
sasl.kerberos.kinit.cmd STRING* /usr/bin/kinit
sasl.kerberos.min.time.before.relogin LONG* 60000
sasl.kerberos.principal.to.local.rules LIST* DEFAULT
sasl.kerberos.service.name STRING*
sasl.kerberos.ticket.renew.jitter DOUBLE* 0.05
sasl.kerberos.ticket.renew.window.factor DOUBLE* 0.8
sasl.login.callback.handler.class CLASS
sasl.login.class CLASS
sasl.login.connect.timeout.ms INT
sasl.login.read.timeout.ms INT
sasl.login.refresh.buffer.seconds SHORT* 300
sasl.login.refresh.min.period.seconds SHORT* 60
sasl.login.refresh.window.factor DOUBLE* 0.8
sasl.login.refresh.window.jitter DOUBLE* 0.05
sasl.login.retry.backoff.max.ms LONG 10000
sasl.login.retry.backoff.ms LONG 100
sasl.mechanism.controller.protocol STRING GSSAPI
sasl.mechanism.inter.broker.protocol STRING* GSSAPI
sasl.oauthbearer.clock.skew.seconds INT 30
sasl.oauthbearer.expected.audience LIST
sasl.oauthbearer.expected.issuer STRING
sasl.oauthbearer.jwks.endpoint.refresh.ms LONG 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG 100
sasl.oauthbearer.jwks.endpoint.url STRING
sasl.oauthbearer.scope.claim.name STRING scope
sasl.oauthbearer.sub.claim.name STRING sub
sasl.oauthbearer.token.endpoint.url STRING
sasl.server.callback.handler.class CLASS
sasl.server.max.receive.size INT 524288
security.inter.broker.protocol STRING PLAINTEXT
security.providers STRING
socket.connection.setup.timeout.max.ms LONG 30000
socket.connection.setup.timeout.ms LONG 10000
socket.listen.backlog.size INT 50
socket.receive.buffer.bytes INT 102400
socket.request.max.bytes INT 104857600
socket.send.buffer.bytes INT 102400
ssl.allow.dn.changes BOOLEAN false
ssl.allow.san.changes BOOLEAN false
ssl.cipher.suites LIST* ""
ssl.client.auth STRING* none
ssl.enabled.protocols LIST* TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm STRING* https
ssl.engine.factory.class CLASS*
ssl.key.password PASSWORD*
ssl.keymanager.algorithm STRING* SunX509
ssl.keystore.certificate.chain PASSWORD*
ssl.keystore.key PASSWORD*
ssl.keystore.location STRING*
ssl.keystore.password PASSWORD*
ssl.keystore.type STRING* JKS
ssl.principal.mapping.rules STRING DEFAULT
ssl.protocol STRING* TLSv1.3
ssl.provider STRING*
ssl.secure.random.implementation STRING*
ssl.trustmanager.algorithm STRING* PKIX
ssl.truststore.certificates PASSWORD*
ssl.truststore.location STRING*
ssl.truststore.password PASSWORD*
ssl.truststore.type STRING* JKS
telemetry.max.bytes INT 1048576
transaction.abort.timed.out.transaction.cleanup.interval.ms INT 10000
transaction.max.timeout.ms INT 900000
transaction.partition.verification.enable BOOLEAN* true
transaction.remove.expired.transaction.cleanup.interval.ms INT 3600000
transaction.state.log.load.buffer.size INT 5242880
transaction.state.log.min.isr INT 2
transaction.state.log.num.partitions INT 50
transaction.state.log.replication.factor SHORT 3
transaction.state.log.segment.bytes INT 104857600
transactional.id.expiration.ms INT 604800000
unclean.leader.election.enable BOOLEAN* false
zookeeper.clientCnxnSocket STRING
zookeeper.connect STRING
zookeeper.connection.timeout.ms INT
zookeeper.max.in.flight.requests INT 10
zookeeper.metadata.migration.enable BOOLEAN false
zookeeper.session.timeout.ms INT 18000
zookeeper.set.acl BOOLEAN false
zookeeper.ssl.cipher.suites LIST
zookeeper.ssl.client.enable BOOLEAN false
zookeeper.ssl.crl.enable BOOLEAN false
zookeeper.ssl.enabled.protocols LIST
zookeeper.ssl.endpoint.identification.algorithm STRING HTTPS
zookeeper.ssl.keystore.location STRING
zookeeper.ssl.keystore.password PASSWORD
zookeeper.ssl.keystore.type STRING
zookeeper.ssl.ocsp.enable BOOLEAN false
zookeeper.ssl.protocol STRING TLSv1.2
zookeeper.ssl.truststore.location STRING
zookeeper.ssl.truststore.password PASSWORD
zookeeper.ssl.truststore.type STRING
"""

SINCE: Final = {
    "3.8": frozenset(
        """
compression.gzip.level compression.lz4.level compression.zstd.level
group.consumer.migration.policy group.coordinator.append.linger.ms log.dir.failure.timeout.ms
max.request.partition.size.limit remote.fetch.max.wait.ms
remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
remote.log.manager.copy.quota.window.size.seconds remote.log.manager.fetch.max.bytes.per.second
remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
""".split()
    ),
    "3.9": frozenset(
        """
alter.config.policy.kraft.compatibility.enable controller.quorum.bootstrap.servers
group.share.delivery.count.limit group.share.heartbeat.interval.ms group.share.max.groups
group.share.max.heartbeat.interval.ms group.share.max.record.lock.duration.ms
group.share.max.session.timeout.ms group.share.max.size group.share.min.heartbeat.interval.ms
group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
group.share.partition.max.record.locks group.share.record.lock.duration.ms
group.share.session.timeout.ms remote.log.manager.copier.thread.pool.size
remote.log.manager.expiration.thread.pool.size
""".split()
    ),
}
"""First release that shows them, where that is not 3.7."""
INTERNAL_AGAIN: Final = {"3.9": frozenset({"group.consumer.migration.policy"})}
"""First release that no longer shows them."""
DEFAULTS: Final = {
    "3.7": {"inter.broker.protocol.version": "3.7-IV4"},
    "3.8": {"inter.broker.protocol.version": "3.8-IV0"},
    "3.9": {},
}
"""Defaults of older releases that differ from 3.9."""


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
