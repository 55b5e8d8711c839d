"""Which texts Kafka 3.9 takes for the values of its properties.

Only what is checked before anything else runs: the type, the bounds, the names of a fixed list.
Source: KafkaConfig.configDef of Kafka 3.9.2; ``tests/conformance`` compares these tables with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from emulator.config import java_text

BOOLEANS: Final = frozenset(
    """
alter.config.policy.kraft.compatibility.enable auto.create.topics.enable
auto.include.jmx.reporter auto.leader.rebalance.enable broker.id.generation.enable
controlled.shutdown.enable delete.topic.enable eligible.leader.replicas.enable
group.coordinator.new.enable group.share.enable log.cleaner.enable
log.message.downconversion.enable log.preallocate remote.log.storage.system.enable
ssl.allow.dn.changes ssl.allow.san.changes transaction.partition.verification.enable
unclean.leader.election.enable unstable.api.versions.enable unstable.feature.versions.enable
zookeeper.metadata.migration.enable zookeeper.set.acl zookeeper.ssl.client.enable
zookeeper.ssl.crl.enable zookeeper.ssl.ocsp.enable
""".split()
)
_BY_BOUNDS: Final = {
    "DOUBLE - -": """
log.cleaner.io.buffer.load.factor log.cleaner.io.max.bytes.per.second
sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
""",
    "DOUBLE 0 0.5": """
remote.log.manager.task.retry.jitter
""",
    "DOUBLE 0 1": """
log.cleaner.min.cleanable.ratio
""",
    "INT - -": """
broker.heartbeat.interval.ms broker.id broker.session.timeout.ms compression.gzip.level
controlled.shutdown.max.retries controller.quorum.append.linger.ms
controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
controller.quorum.retry.backoff.ms controller.socket.timeout.ms default.replication.factor
delete.records.purgatory.purge.interval.requests fetch.purgatory.purge.interval.requests
group.initial.rebalance.delay.ms group.max.session.timeout.ms group.min.session.timeout.ms
initial.broker.registration.timeout.ms leader.imbalance.per.broker.percentage
log.retention.hours log.retention.minutes node.id num.replica.alter.log.dirs.threads
num.replica.fetchers offset.metadata.max.bytes offsets.topic.compression.codec
producer.purgatory.purge.interval.requests remote.log.manager.copier.thread.pool.size
remote.log.manager.expiration.thread.pool.size replica.fetch.min.bytes replica.fetch.wait.max.ms
replica.socket.receive.buffer.bytes replica.socket.timeout.ms request.timeout.ms
sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.oauthbearer.clock.skew.seconds
sasl.server.max.receive.size socket.receive.buffer.bytes socket.send.buffer.bytes
zookeeper.connection.timeout.ms zookeeper.session.timeout.ms
""",
    "INT 0 -": """
connection.failed.authentication.delay.ms group.coordinator.append.linger.ms
log.cleaner.io.buffer.size log.cleaner.threads log.flush.offset.checkpoint.interval.ms
log.flush.start.offset.checkpoint.interval.ms log.index.interval.bytes log.roll.jitter.hours
max.connection.creation.rate max.connections max.connections.per.ip
max.incremental.fetch.session.cache.slots message.max.bytes metadata.max.idle.interval.ms
remote.log.metadata.custom.metadata.max.bytes replica.fetch.backoff.ms replica.fetch.max.bytes
replica.fetch.response.max.bytes reserved.broker.max.id
""",
    "INT 1 -": """
alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
background.threads controller.quota.window.num controller.quota.window.size.seconds
group.consumer.heartbeat.interval.ms group.consumer.max.heartbeat.interval.ms
group.consumer.max.session.timeout.ms group.consumer.max.size
group.consumer.min.heartbeat.interval.ms group.consumer.min.session.timeout.ms
group.consumer.session.timeout.ms group.coordinator.threads group.max.size
group.share.heartbeat.interval.ms group.share.max.heartbeat.interval.ms
group.share.max.session.timeout.ms group.share.min.heartbeat.interval.ms
group.share.min.session.timeout.ms group.share.session.timeout.ms
kafka.metrics.polling.interval.secs log.roll.hours max.request.partition.size.limit
metrics.num.samples min.insync.replicas num.io.threads num.network.threads num.partitions
num.recovery.threads.per.data.dir offsets.commit.timeout.ms offsets.load.buffer.size
offsets.retention.minutes offsets.topic.num.partitions offsets.topic.segment.bytes
producer.id.expiration.check.interval.ms producer.id.expiration.ms queued.max.requests
quota.window.num quota.window.size.seconds remote.fetch.max.wait.ms
remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
remote.log.manager.thread.pool.size remote.log.reader.max.pending.tasks
remote.log.reader.threads replication.quota.window.num replication.quota.window.size.seconds
socket.listen.backlog.size socket.request.max.bytes telemetry.max.bytes
transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
transaction.remove.expired.transaction.cleanup.interval.ms
transaction.state.log.load.buffer.size transaction.state.log.min.isr
transaction.state.log.num.partitions transaction.state.log.segment.bytes
transactional.id.expiration.ms zookeeper.max.in.flight.requests
zookeeper.metadata.migration.min.batch.size
""",
    "INT 1024 -": """
fetch.max.bytes password.encoder.iterations
""",
    "INT 12 -": """
metadata.log.segment.bytes metadata.log.segment.min.bytes
""",
    "INT 14 -": """
log.segment.bytes
""",
    "INT 4 -": """
log.index.size.max.bytes
""",
    "INT 8 -": """
password.encoder.key.length
""",
    "INT -131072 22": """
compression.zstd.level
""",
    "INT 1 17": """
compression.lz4.level
""",
    "INT 100 10000": """
group.share.partition.max.record.locks
""",
    "INT 1000 30000": """
group.share.min.record.lock.duration.ms
""",
    "INT 1000 60000": """
group.share.record.lock.duration.ms
""",
    "INT 2 10": """
group.share.delivery.count.limit
""",
    "INT 30000 3600000": """
group.share.max.record.lock.duration.ms
""",
    "LONG - -": """
connections.max.idle.ms connections.max.reauth.ms controlled.shutdown.retry.backoff.ms
log.cleaner.dedupe.buffer.size log.flush.interval.ms log.flush.scheduler.interval.ms
log.retention.bytes log.retention.ms log.roll.jitter.ms log.roll.ms metadata.log.segment.ms
metadata.max.retention.bytes metadata.max.retention.ms queued.max.request.bytes
replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms
sasl.kerberos.min.time.before.relogin sasl.login.retry.backoff.max.ms
sasl.login.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.refresh.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms socket.connection.setup.timeout.max.ms
socket.connection.setup.timeout.ms
""",
    "LONG -2 -": """
log.local.retention.bytes log.local.retention.ms
""",
    "LONG 0 -": """
log.cleaner.backoff.ms log.cleaner.delete.retention.ms log.cleaner.min.compaction.lag.ms
log.initial.task.delay.ms log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms
log.message.timestamp.difference.max.ms log.segment.delete.delay.ms
metadata.log.max.snapshot.interval.ms server.max.startup.time.ms
""",
    "LONG 1 -": """
delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
delegation.token.max.lifetime.ms leader.imbalance.check.interval.seconds
log.cleaner.max.compaction.lag.ms log.dir.failure.timeout.ms log.flush.interval.messages
log.retention.check.interval.ms metadata.log.max.record.bytes.between.snapshots
metrics.sample.window.ms offsets.retention.check.interval.ms
remote.log.index.file.cache.total.size.bytes remote.log.manager.copy.max.bytes.per.second
remote.log.manager.fetch.max.bytes.per.second remote.log.manager.task.interval.ms
remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
unclean.leader.election.interval.ms
""",
    "SHORT - -": """
offsets.commit.required.acks sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds
""",
    "SHORT 1 -": """
offsets.topic.replication.factor transaction.state.log.replication.factor
""",
    "SHORT 1 100": """
group.share.max.groups
""",
    "SHORT 10 1000": """
group.share.max.size
""",
}
"""Type, lowest and highest value ("-": that of the type) -> the keys."""
NUMBERS: Final = MappingProxyType(
    {key: bounds for bounds, keys in _BY_BOUNDS.items() for key in keys.split()}
)
NAMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "compression.type": ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "log.cleanup.policy": ("compact", "delete"),
        "log.message.timestamp.type": ("CreateTime", "LogAppendTime"),
        "group.coordinator.rebalance.protocols": ("consumer", "classic", "share", "unknown"),
        "security.inter.broker.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "ssl.client.auth": ("required", "requested", "none"),
    }
)
"""Keys that take a name, or several, of a list."""
LISTS: Final = frozenset({"log.cleanup.policy", "group.coordinator.rebalance.protocols"})
_RANGES: Final = {
    "SHORT": (-(2**15), 2**15 - 1),
    "INT": (java_text.INT_MIN, java_text.INT_MAX),
    "LONG": (java_text.LONG_MIN, java_text.LONG_MAX),
}


def why_refused(key: str, text: str) -> str:
    """Why Kafka refuses a value, without blanks around it; empty if it takes it.

    >>> why_refused("num.partitions", "3"), why_refused("num.partitions", "0")
    ('', 'Kafka takes numbers from 1')
    >>> why_refused("num.partitions", "3 # as before"), why_refused("my.own", "x")
    ('not a whole number', '')
    """
    if key in BOOLEANS:
        good = java_text.same(text, "true") or java_text.same(text, "false")
        return "" if good else "neither true nor false"
    if key in NUMBERS:
        kind, least, most = NUMBERS[key].split()
        return _number(kind, least, most, text)
    if key in NAMES:
        names = java_text.items(text) if key in LISTS else (text,)
        if set(names) - set(NAMES[key]):
            return f"Kafka takes {', '.join(NAMES[key])}"
    return ""


def _number(kind: str, least: str, most: str, text: str) -> str:
    try:
        value = java_text.whole(text, *_RANGES[kind]) if kind in _RANGES else java_text.double(text)
    except ValueError as error:
        return "no number" if kind not in _RANGES else str(error)
    low = None if least == "-" else float(least)
    high = None if most == "-" else float(most)
    if (low is not None and value < low) or (high is not None and value > high):
        to = f" to {most}" if high is not None else ""
        return f"Kafka takes numbers from {least}{to}"
    return ""
