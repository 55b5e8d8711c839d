"""One declaration per metric; a scrape shows only these.

A metric has our own name (``kraft_bridge_*``, base units in the suffix) and, where Kafka has a bean
for it, the name the JMX exporter gives that bean
(``kafka_controller_kafkacontroller_zkwritebehindlag``), so dashboards made for Kafka keep working.
Metrics marked ``active_only`` are shown by the active controller alone: KIP-866 says so, Kafka 3.9
shows them on every controller (docs/divergence.md).

The three numbers of ``ZkWriteBlockingKRaftMillis`` exist in no Kafka release; only the older draft
of KIP-866 names such a metric. Kafka's own value would always be 0, because it never blocks a
write.
"""

from __future__ import annotations

from typing import Final

from emulator.trace.metric import Metric, MetricKind
from emulator.trace.raft_metrics import RAFT_METRICS


def _bean(name: str) -> str:
    return f"kafka.controller:type=KafkaController,name={name}"


def _records(name: str, text: str) -> Metric:
    return Metric(name, text, unit="records", active_only=True)


_KIP_866: Final = "KIP-866"
_QUORUM: Final = "QuorumControllerMetrics, Kafka 3.9"
_METADATA: Final = "ControllerMetadataMetrics, Kafka 3.9"

ACTIVE_CONTROLLER_COUNT = Metric(
    "kraft_bridge_active_controller_count",
    "1 on the active controller, 0 on every other.",
    source=_QUORUM,
    bean=_bean("ActiveControllerCount"),
)
EVENT_QUEUE_TIME_MS = Metric(
    "kraft_bridge_event_queue_time_ms",
    "Time that a request which may append records waits for those before it, on the controller.",
    unit="ms",
    kind=MetricKind.DISTRIBUTION,
    source=_QUORUM,
    bean="kafka.controller:type=ControllerEventManager,name=EventQueueTimeMs",
)
ZK_MIGRATION_STATE = Metric(
    "kraft_bridge_zk_migration_state",
    "State of the migration in the metadata log: 0 NONE, 1 MIGRATION, 2 PRE_MIGRATION, "
    "3 POST_MIGRATION (the numbers of Kafka 3.5 and later).",
    unit="enum",
    source=_KIP_866,
    active_only=True,
    bean=_bean("ZkMigrationState"),
)
PHASE = Metric(
    "kraft_bridge_phase",
    "1 for the phase of the migration, as `kraft-bridge status` calls it.",
    labels=("phase",),
)
FEATURES = Metric(
    "kraft_bridge_features",
    "1 for each finalised feature, with its level; metadata.version is always among them.",
    source="KIP-866; in no Kafka release",
    bean=_bean("Features"),
    labels=("feature", "level"),
)
METADATA_TYPE = Metric(
    "kraft_bridge_metadata_type",
    "Where metadata is kept: 1 ZooKeeper, 2 KRaft, 3 both.",
    unit="enum",
    source="KIP-866; in no Kafka release",
    active_only=True,
    bean=_bean("MetadataType"),
)
MIGRATING_ZK_BROKER_COUNT = Metric(
    "kraft_bridge_migrating_zk_broker_count",
    "ZooKeeper-mode brokers registered for migration, fenced or not.",
    source=_KIP_866,
    active_only=True,
    bean=_bean("MigratingZkBrokerCount"),
)
ACTIVE_BROKER_COUNT = Metric(
    "kraft_bridge_active_broker_count",
    "Registered brokers that are not fenced.",
    source=_METADATA,
    active_only=True,
    bean=_bean("ActiveBrokerCount"),
)
FENCED_BROKER_COUNT = Metric(
    "kraft_bridge_fenced_broker_count",
    "Registered brokers that are fenced.",
    source=_METADATA,
    active_only=True,
    bean=_bean("FencedBrokerCount"),
)
GLOBAL_TOPIC_COUNT = Metric(
    "kraft_bridge_topic_count",
    "Topics in the committed image.",
    source=_METADATA,
    active_only=True,
    bean=_bean("GlobalTopicCount"),
)
GLOBAL_PARTITION_COUNT = Metric(
    "kraft_bridge_partition_count",
    "Partitions in the committed image.",
    source=_METADATA,
    active_only=True,
    bean=_bean("GlobalPartitionCount"),
)
REFUSED_BROKERS = Metric(
    "kraft_bridge_refused_brokers",
    "1 for each broker that was refused and has not registered afterwards.",
    active_only=True,
    labels=("broker", "error"),
)
REASONS_TO_WAIT = Metric(
    "kraft_bridge_reasons_to_wait",
    "How many reasons to wait /status shows.",
    labels=("why",),
)
OFFLINE_PARTITION_COUNT = Metric(
    "kraft_bridge_offline_partition_count",
    "Partitions without a leader.",
    source=_METADATA,
    active_only=True,
    bean=_bean("OfflinePartitionsCount"),
)
PREFERRED_REPLICA_IMBALANCE_COUNT = Metric(
    "kraft_bridge_preferred_replica_imbalance_count",
    "Partitions whose leader is not their preferred replica.",
    source=_METADATA,
    active_only=True,
    bean=_bean("PreferredReplicaImbalanceCount"),
)
ZK_WRITE_BEHIND_LAG = Metric(
    "kraft_bridge_zk_write_behind_lag_records",
    "Records committed in the log and not yet confirmed in /migration.",
    unit="records",
    source=_KIP_866,
    active_only=True,
    bean=_bean("ZkWriteBehindLag"),
    draft_beans=(_bean("ZooKeeperWriteBehindLag"),),
)
ZK_WRITE_BEHIND_LAG_WITHOUT_NO_OPS = _records(
    "kraft_bridge_zk_write_behind_lag_without_no_ops_records",
    "The lag without NoOpRecords, which change nothing in ZooKeeper: 0 means the stores "
    "agree, except for znodes that were skipped or left out. It is 0 too until the stores were "
    "compared in this term, which /status shows as null.",
)
ZK_WRITE_BEHIND_LAG_MS = Metric(
    "kraft_bridge_zk_write_behind_lag_ms",
    "Age of the oldest committed record, NoOpRecords left out, not yet confirmed in /migration; "
    "0 when there is none.",
    unit="ms",
    active_only=True,
)
ZK_PENDING_RECORDS = Metric(
    "kraft_bridge_zk_pending_records",
    "Records handed to the write-behind and not yet confirmed.",
    unit="records",
    source="KIP-866, Dual Metadata Writes",
    active_only=True,
)
ZK_WRITE_BEHIND_COUNTED = _records(
    "kraft_bridge_zk_write_behind_counted_records",
    "Records appended and not confirmed in /migration, without NoOps: counted for the bounds.",
)
ZK_WRITE_BEHIND_BOUND = _records(
    "kraft_bridge_zk_write_behind_bound_records",
    "The first bound of the counted records; 0: no bound, as in Kafka.",
)
ZK_WRITE_BEHIND_HARD_BOUND = _records(
    "kraft_bridge_zk_write_behind_hard_bound_records",
    "The second bound, where ISR changes and deletions wait too; 0: no bound.",
)
ZK_WRITE_BEHIND_BYTES = Metric(
    "kraft_bridge_zk_write_behind_counted_bytes",
    "Bytes of the records counted for the bounds, from the start of the term; 0 without a bound of "
    "bytes.",
    unit="bytes",
    active_only=True,
)
ZK_WRITE_SNAPSHOT_TIME_MS = Metric(
    "kraft_bridge_zk_write_snapshot_time_ms",
    "Time to reconcile the whole image into ZooKeeper, per reconcile.",
    unit="ms",
    kind=MetricKind.DISTRIBUTION,
    source=_KIP_866,
    active_only=True,
    bean=_bean("ZkWriteSnapshotTimeMs"),
)
ZK_WRITE_DELTA_TIME_MS = Metric(
    "kraft_bridge_zk_write_delta_time_ms",
    "Time to write a delta into ZooKeeper: one value per delta that wrote anything.",
    unit="ms",
    kind=MetricKind.DISTRIBUTION,
    source=_KIP_866,
    active_only=True,
    bean=_bean("ZkWriteDeltaTimeMs"),
)
ZK_WRITE_BLOCKING_KRAFT_MS = Metric(
    "kraft_bridge_zk_write_blocking_kraft_ms",
    "ZkWriteBlockingKRaftMillis per operation: from ready to append until appended or given up "
    "because ZooKeeper writes lag. Not in Apache Kafka.",
    unit="ms",
    kind=MetricKind.DISTRIBUTION,
    source="KIP-866, older draft",
    active_only=True,
)
ZK_WRITE_BLOCKING_KRAFT_TOTAL_MS = Metric(
    "kraft_bridge_zk_write_blocking_kraft_operations_ms",
    "Sum of the same over all operations: 100 that wait 1 s count 100 s.",
    unit="ms",
    kind=MetricKind.COUNTER,
    source="KIP-866, older draft",
    active_only=True,
)
ZK_WRITE_BLOCKING_KRAFT_UNION_MS = Metric(
    "kraft_bridge_zk_write_blocking_kraft_union_ms",
    "Time in which at least one operation waited: 100 that wait during the same 1 s count 1 s.",
    unit="ms",
    kind=MetricKind.COUNTER,
    source="KIP-866, older draft",
    active_only=True,
    draft_beans=(_bean("ZookeeperBlockingKRafMillis"),),
)
ZK_BLOCKED_OPERATIONS = Metric(
    "kraft_bridge_zk_blocked_operations",
    "Operations that wait for ZooKeeper now.",
    active_only=True,
)
ZK_MULTIS = Metric(
    "kraft_bridge_zk_multis",
    "Multis, by outcome: ok, refused, lost.",
    kind=MetricKind.COUNTER,
    labels=("result",),
)
ZK_MULTI_OPS = Metric(
    "kraft_bridge_zk_multi_ops",
    "Znode operations in acknowledged multis, by kind of work.",
    kind=MetricKind.COUNTER,
    labels=("operation",),
)
ZK_MULTI_BYTES = Metric(
    "kraft_bridge_zk_multi_bytes",
    "Bytes of acknowledged multis.",
    unit="bytes",
    kind=MetricKind.COUNTER,
)
ZK_MULTI_LATENCY_MS = Metric(
    "kraft_bridge_zk_multi_latency_ms",
    "Time from passing a multi to the session to its answer.",
    unit="ms",
    kind=MetricKind.DISTRIBUTION,
)
ZK_MULTIS_IN_FLIGHT = Metric("kraft_bridge_zk_multis_in_flight", "Multis sent and not answered.")
ZK_COALESCING_RATIO = Metric(
    "kraft_bridge_zk_coalescing_ratio",
    "Committed records per multi since the claim; above 1, several records share a multi.",
    active_only=True,
)
ZK_POISONED_ZNODES = Metric(
    "kraft_bridge_zk_poisoned_znodes",
    "Znodes that ZooKeeper refuses to write; /status names them.",
    active_only=True,
)
ZK_SESSIONS = Metric(
    "kraft_bridge_zk_sessions", "ZooKeeper sessions established.", kind=MetricKind.COUNTER
)
ZK_REQUEST_LIMIT_BYTES = Metric(
    "kraft_bridge_zk_request_limit_bytes",
    "How long a request to ZooKeeper is made at most, unless it holds one change only: halved when "
    "ZooKeeper closes connections at longer ones.",
    unit="bytes",
)
ZK_CLAIMS = Metric(
    "kraft_bridge_zk_claims",
    "Number of times this process raised /controller_epoch.",
    kind=MetricKind.COUNTER,
)
LAST_APPLIED_RECORD_OFFSET = Metric(
    "kraft_bridge_last_applied_record_offset",
    "Last offset replayed into the committed image.",
    unit="records",
    source=_QUORUM,
    bean=_bean("LastAppliedRecordOffset"),
)
LAST_COMMITTED_RECORD_OFFSET = Metric(
    "kraft_bridge_last_committed_record_offset",
    "Last offset below the high watermark.",
    unit="records",
    source=_QUORUM,
    bean=_bean("LastCommittedRecordOffset"),
)
LAST_ZK_ACKED_RECORD_OFFSET = Metric(
    "kraft_bridge_zk_acked_record_offset",
    "Offset confirmed in /migration.",
    unit="records",
    active_only=True,
)
LOG_SYNC_MS = Metric(
    "kraft_bridge_log_sync_ms",
    "fdatasync of the metadata log, per group commit.",
    unit="ms",
    kind=MetricKind.DISTRIBUTION,
)
NEW_ACTIVE_CONTROLLERS_COUNT = Metric(
    "kraft_bridge_new_active_controllers_count",
    "Leader elections that this process has seen.",
    source=_QUORUM,
    bean=_bean("NewActiveControllersCount"),
)
TIMED_OUT_BROKER_HEARTBEAT_COUNT = Metric(
    "kraft_bridge_timed_out_broker_heartbeat_count",
    "Heartbeats of brokers answered REQUEST_TIMED_OUT.",
    source=_QUORUM,
    active_only=True,
    bean=_bean("TimedOutBrokerHeartbeatCount"),
)
REQUESTS = Metric(
    "kraft_bridge_requests",
    "Requests answered; an Envelope counts as the API inside it.",
    kind=MetricKind.COUNTER,
    labels=("api", "forwarded"),
)
REQUEST_ERRORS = Metric(
    "kraft_bridge_request_errors",
    "Requests answered with an error, by Kafka's name of the error.",
    kind=MetricKind.COUNTER,
    labels=("api", "error"),
)
REQUEST_FAILURES = Metric(
    "kraft_bridge_request_failures",
    "Requests answered UNKNOWN_SERVER_ERROR because their handler raised, or because their answer "
    "did not fit its version; each is a bug, and the log has one line of each kind.",
    kind=MetricKind.COUNTER,
    labels=("api", "error", "place"),
)
REQUEST_LATENCY_MS = Metric(
    "kraft_bridge_request_latency_ms",
    "Time from receiving the whole request to passing on its response, without long polls.",
    unit="ms",
    kind=MetricKind.DISTRIBUTION,
    labels=("api",),
)
REQUESTS_WAITING = Metric("kraft_bridge_requests_waiting", "Requests received and not answered.")
CONNECTIONS = Metric(
    "kraft_bridge_connections", "Open connections of peers, by listener.", labels=("listener",)
)
CONNECTIONS_ACCEPTED = Metric(
    "kraft_bridge_connections_accepted",
    "Connections accepted, by listener.",
    kind=MetricKind.COUNTER,
    labels=("listener",),
)
CONNECTIONS_REFUSED = Metric(
    "kraft_bridge_connections_refused",
    "Connections that this node closed: an invalid request (not decodable, too long, not "
    "advertised), over a limit, idle.",
    kind=MetricKind.COUNTER,
    labels=("why",),
)
BROKER_REQUESTS = Metric(
    "kraft_bridge_broker_requests",
    "Requests sent to ZooKeeper-mode brokers (LeaderAndIsr, UpdateMetadata, StopReplica, "
    "Metadata), by outcome: answered, error, lost (sent again).",
    kind=MetricKind.COUNTER,
    labels=("api", "outcome"),
)
BROKER_REQUESTS_WAITING = Metric(
    "kraft_bridge_broker_requests_waiting",
    "Requests to a ZooKeeper-mode broker that it has not answered, sent or not; of those that are "
    "merged before they are sent, each counts.",
    labels=("broker",),
)
BROKERS_NOT_ANSWERING = Metric(
    "kraft_bridge_brokers_not_answering",
    "ZooKeeper-mode brokers whose queue of requests was dropped because they do not answer.",
)
LOOP_STALLS = Metric(
    "kraft_bridge_loop_stalls",
    "How often the event loop was late by more than 50 ms.",
    kind=MetricKind.COUNTER,
)
LONGEST_STEP_MS = Metric(
    "kraft_bridge_longest_step_ms",
    "Longest step of the machines so far; the aim is under 5 ms. any: by the clock; cpu: by the "
    "time of its thread, without what other programs take meanwhile.",
    unit="ms",
    labels=("step",),
)

# Metrics of the trace itself.

TRACE_ROWS = Metric(
    "kraft_bridge_trace_rows",
    "Rows recorded in the trace since the start, by table; none without a trace.",
    kind=MetricKind.COUNTER,
    labels=("table",),
)
TRACE_MISSING_S = Metric(
    "kraft_bridge_trace_missing_seconds",
    "Seconds up to now that are missing in the trace because it could not be written; 0 while it "
    "is. None without a trace.",
    unit="s",
)
TRACE_MISSING_ROWS = Metric(
    "kraft_bridge_trace_missing_rows",
    "Rows since the start that are missing in the trace because it could not be written. None "
    "without a trace.",
    kind=MetricKind.COUNTER,
)
TRACE_DELETED_BYTES = Metric(
    "kraft_bridge_trace_deleted_bytes",
    "Bytes of older files of the trace that were deleted since the start, as all may take "
    "`kraftbridge.trace.max.bytes`. None without a trace.",
    kind=MetricKind.COUNTER,
    unit="bytes",
)

METRICS: Final[tuple[Metric, ...]] = (
    tuple(value for value in list(globals().values()) if isinstance(value, Metric)) + RAFT_METRICS
)
"""Every metric, in the order declared."""


def metric(name: str) -> Metric:
    """Find a metric by its own name.

    Raises:
        KeyError: there is none.
    """
    return _BY_NAME[name]


_BY_NAME: Final = {declared.name: declared for declared in METRICS}
