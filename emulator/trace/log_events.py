"""One declaration per log line; the logger gives each line its ``event_id`` from here.

Programs look for the id: the text of a line may be improved at any time. Names are Kafka's,
ZooKeeper's and Raft's where they have one. A test holds this table and the source equal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

UNLISTED: Final = "unlisted"
"""The ``event_id`` of a text that no declaration has."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One kind of log line.

    A ``{word}`` in a text stands for one word that differs from line to line.
    """

    event_id: str
    """What programs look for, in lower_snake_case; it stays when the text is improved."""
    levels: str
    """Those that it is written with, from the lowest on, separated by a comma and a blank."""
    text: str
    meaning: str
    """One or two sentences; for a warning or an error also what to do."""
    more_texts: tuple[str, ...] = ()
    """Other texts of the same event."""

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts."""
        return (self.text, *self.more_texts)


# Log lines of the metadata log and its quorum.

_MAY_BE_LOST: Final = (
    "not a candidate: records that this voter acknowledged may be lost. The log is empty, but was "
    "not formatted for a new quorum, or the file voter-state cannot be read. Waiting for a leader. "
    "If the quorum is new, stop this node and run kraft-bridge format --new-quorum "
    "--ignore-formatted"
)

RAFT_LOG_EVENTS: Final = (
    LogEvent(
        "quorum_state_changed",
        "info",
        "election state",
        "The state of this voter, its epoch or its leader has changed.",
    ),
    LogEvent(
        "raft_leader_elected",
        "info",
        "leader of the metadata log",
        "This voter has won the election, and has begun its epoch in the log.",
    ),
    LogEvent(
        "check_quorum_timeout",
        "warning",
        "no majority of the voters has fetched: resigning",
        "The leader has lost the majority: look whether the other voters run and reach it.",
    ),
    LogEvent(
        "disk_not_answering",
        "warning",
        "the disk does not answer: resigning",
        "A sync of the log does not end: look at the disk of this leader.",
    ),
    LogEvent(
        "candidacy_withheld",
        "warning",
        "not a candidate: there is no later epoch",
        "This voter does not stand for election. It waits for another leader; if there is none, "
        "do what the text says, or restore the folder.",
        (
            _MAY_BE_LOST,
            "not a candidate: records that were committed are missing here; waiting for a leader",
        ),
    ),
    LogEvent(
        "voter_lost_records",
        "error",
        "a voter has lost records: its disk was emptied, or an old copy took its place",
        "Voter `voter` has less than it had acknowledged: find out why, before it happens to a "
        "second one.",
    ),
    LogEvent(
        "epoch_jump_refused",
        "warning",
        "an epoch far above the own one is not taken over",
        "A request names an epoch that no election can have reached: look for a voter of another "
        "cluster, or a damaged `quorum-state`.",
    ),
    LogEvent(
        "conflicting_leader",
        "error",
        "another leader is named for this epoch",
        "Two voters claim one epoch: look for a voter that runs twice or on a restored folder.",
    ),
    LogEvent(
        "leader_refuses_requests",
        "warning",
        "the leader refuses our requests",
        "A Fetch is refused with the error in `why`; it is repeated. Compare `node.id`, cluster id "
        "and `controller.quorum.voters` of the two.",
    ),
    LogEvent(
        "leader_response_invalid",
        "warning",
        "the leader sent an invalid answer",
        "What a Fetch brought cannot be used, as `why` says; it is repeated. If that lasts, report "
        "it.",
    ),
    LogEvent(
        "leader_lacks_committed_records",
        "error",
        "the leader lacks what was committed here",
        "This voter stops for good, as committed records would be lost. Follow what it says as it "
        "ends.",
    ),
    LogEvent(
        "log_diverged_truncated",
        "warning",
        "the end of the log was truncated: the leader has another",
        "Records that were never committed are dropped, as usual after a change of leader; nothing "
        "to do.",
    ),
    LogEvent(
        "log_unfinished_end_truncated",
        "warning",
        "unfinished end of the log truncated",
        "What a crash left half written was not acknowledged, and is dropped at the start; nothing "
        "to do unless the node had not crashed.",
    ),
    LogEvent(
        "snapshot_load_started",
        "info",
        "loading a snapshot from the leader",
        "This node is behind the start of the leader's log.",
    ),
    LogEvent(
        "snapshot_load_resumed",
        "info",
        "loading a snapshot from the leader goes on",
        "The same snapshot of the same leader, from `bytes` on.",
    ),
    LogEvent(
        "snapshot_loaded",
        "info",
        "the log begins at a snapshot",
        "The snapshot of the leader has replaced the log of this voter.",
    ),
    LogEvent(
        "snapshot_load_completed_at_start",
        "warning",
        "the snapshot that was loaded replaces the log",
        "This voter ended while a snapshot was replacing its log, which is finished now; nothing "
        "to do.",
    ),
    LogEvent(
        "snapshot_written",
        "info",
        "snapshot written",
        "What is below it leaves the log.",
    ),
    LogEvent(
        "snapshot_failed",
        "warning",
        "snapshot not written: the log is kept, and it is tried again",
        "Make room on the disk, or repair what `why` names: the log grows until then.",
    ),
)


# Log lines of every process: its connections, its pages, its trace, its end.

PROCESS_LOG_EVENTS: Final = (
    LogEvent(
        "controller_starting",
        "info",
        "kraft-bridge controller",
        "The first line of a controller: its version, its `file` and `folders`, the cluster, and "
        "where it listens, finds its voters and ZooKeeper, and shows its `status`.",
    ),
    LogEvent(
        "stopped",
        "info, error",
        "stopped",
        "The process ends. Info: in order. Error: for the cause in `why`, which is to be repaired "
        "first.",
    ),
    LogEvent(
        "connection_refused",
        "debug, warning",
        "refusing a connection",
        "There are too many, as `why` says: look who opens them, or raise the limit that it names. "
        "The next ones in a row have level debug.",
    ),
    LogEvent(
        "invalid_request",
        "warning",
        "closing a connection that sent an invalid request",
        "What came is no request that is offered here, as `why` says: look which client connects "
        "to this port.",
    ),
    LogEvent(
        "slow_reader_closed",
        "warning",
        "closing a connection whose peer does not read",
        "Its answers would fill the memory: look at the client.",
    ),
    LogEvent(
        "authentication_failed",
        "warning",
        "a login failed",
        "A client did not log in, as `why` says: compare its credentials and `mechanism`.",
    ),
    LogEvent(
        "tls_handshake_failed",
        "warning",
        "a TLS handshake failed",
        "A client did not connect, as `why` says: compare its certificates and protocols with the "
        "listener's.",
    ),
    LogEvent(
        "event_loop_error",
        "warning",
        "the event loop reports",
        "A socket failed, such as when no descriptor is left: raise the limit if `why` names one.",
    ),
    LogEvent(
        "metrics_endpoint_started",
        "info",
        "metrics and status",
        "`/metrics` and `/status` are served at `url`, which is the live page of a controller.",
    ),
    LogEvent(
        "metrics_address_unwritten",
        "warning",
        "the address of metrics and status cannot be written to the folder",
        "The pages are served at `url`, which the folder does not name then: `kraft-bridge status "
        "--url` takes it. `why` names the file.",
    ),
    LogEvent(
        "metrics_endpoint_failed",
        "error",
        "metrics and status are not served, the node goes on without them",
        "The port cannot be bound, as `why` says, and is tried again: free it, or change "
        "`kraftbridge.metrics.port`.",
    ),
    LogEvent(
        "metrics_page_failed",
        "error",
        "a page cannot be made",
        "A fault of kraft-bridge in `path`; the node goes on. Report the line.",
    ),
    LogEvent(
        "finalise_hold_released",
        "warning",
        "the hold on finalising is ended",
        "An operator has ordered that the migration be finalised; there is no way back after it.",
    ),
    LogEvent(
        "fault_script_enabled",
        "warning",
        "requests may be made to fail by a script of faults",
        "For tests only: never set `kraftbridge.faults.enable` in production.",
    ),
    LogEvent(
        "scripted_fault",
        "warning",
        "scripted fault",
        "A request was made to fail by the script of faults, as a test asked for.",
    ),
    LogEvent(
        "trace_ended",
        "error",
        "the trace has ended",
        "The trace cannot be written, as `why` says; `remedy` says what to do. The node goes on "
        "without it.",
    ),
    LogEvent(
        "trace_resumed",
        "info",
        "the trace goes on",
        "It is written again; `missing_s` seconds are missing, and `missing_rows` rows since the "
        "start.",
    ),
    LogEvent(
        "trace_incomplete",
        "warning",
        "the trace is not whole",
        "At the end: `missing_s` seconds are missing, as `why` says; analyse the rest with that in "
        "mind.",
    ),
    LogEvent(
        "log_lines_lost",
        "warning",
        "log lines could not be written",
        "Standard error is a full disk or a pipe that nobody reads; `lines` are lost since the "
        "start. Look at what takes the log.",
    ),
    LogEvent(
        "event",
        "trace",
        ">> {name}",
        "`--log-level trace`: what the node takes, such as bytes received. The event of the "
        "source has that name.",
    ),
    LogEvent(
        "effect",
        "trace",
        "<< {name}",
        "`--log-level trace`: what the node does, such as bytes sent.",
    ),
)


# Log lines of the migration: ZooKeeper, dual write, and brokers in ZooKeeper mode.

_ZOOKEEPER: Final = (
    LogEvent(
        "zookeeper_connected",
        "info",
        "zookeeper connected",
        "A session with ZooKeeper is open, at `server`.",
    ),
    LogEvent(
        "zookeeper_connection_lost",
        "debug, warning",
        "zookeeper connection lost",
        "It is connected again by itself. If that lasts, look at `server` and at `why`. Repeats "
        "of one cause have level debug.",
    ),
    LogEvent(
        "zookeeper_session_expired",
        "info",
        "zookeeper session expired",
        "The session before this one is over, and a new one is begun.",
    ),
    LogEvent(
        "zookeeper_session_fenced",
        "info",
        "zookeeper session fenced",
        "The session before this one was closed, so that nothing of it is still served.",
    ),
)

_COPY: Final = (
    LogEvent(
        "migration_state_changed",
        "info",
        "migration driver",
        "The migration driver goes from one state to another (docs/dev/migration-states.md).",
    ),
    LogEvent(
        "migration_waiting",
        "info, error",
        "waiting",
        "The migration does not go on, for the cause in `why` and `text`. Error: it does not pass "
        "by itself; `kraft-bridge status` has the way out.",
    ),
    LogEvent(
        "migration_finalised",
        "info",
        "the migration is finalised",
        "ZooKeeper is not used any more.",
    ),
    LogEvent(
        "zookeeper_read_resumed",
        "info",
        "reading the tree goes on",
        "In a new session, where a lost connection had interrupted it.",
    ),
    LogEvent(
        "notifications_purged",
        "info",
        "notifications purged",
        "Old znodes of notifications to brokers were deleted.",
    ),
    LogEvent(
        "notifications_purge_failed",
        "warning",
        "cannot purge notifications",
        "ZooKeeper refuses it, as `why` says: look at the ACLs below /config/changes and its like, "
        "and below /admin/delete_topics.",
    ),
    LogEvent(
        "topic_deletions_dropped",
        "warning",
        "topic deletions dropped",
        "A broker wrote the deletions of `topics` into ZooKeeper and did not know the KRaft "
        "controller yet. The topics stay; who wants them deleted asks again.",
    ),
    LogEvent(
        "reconcile_stage",
        "info",
        "look at the claim again",
        "`zk reconcile` without a leader has come to its next step.",
        (
            "wait whether somebody writes",
            "read the tree",
            "compare the tree",
            "claim the cluster",
            "write the differences",
        ),
    ),
)

_DUAL_WRITE: Final = (
    LogEvent(
        "zookeeper_writes_in_doubt",
        "warning",
        "zookeeper writes in doubt",
        "A connection was lost with writes under way; what was applied is read back. Nothing to do "
        "unless it is repeated.",
    ),
    LogEvent(
        "zookeeper_position_read",
        "info",
        "position in zookeeper was read back",
        "It is known what was applied: `applied` of `in_doubt` writes.",
    ),
    LogEvent(
        "zookeeper_reconcile_started",
        "warning",
        "the whole tree in zookeeper is compared again",
        "Somebody else has changed a znode of the controller, as `why` says: look who writes to "
        "ZooKeeper. What differs is written anew.",
    ),
    LogEvent(
        "controller_deposed",
        "error",
        "deposed",
        "The claim on ZooKeeper was taken by somebody else, as `why` says: look for a second "
        "controller. `kraft-bridge status` has the way out.",
    ),
    LogEvent(
        "zookeeper_multi_refused",
        "warning",
        "zookeeper refused a multi",
        "A transaction failed at `path` with `error`; it is read and planned again. If that lasts, "
        "look at that znode and its ACL.",
    ),
    LogEvent(
        "znode_poisoned",
        "error",
        "zookeeper refuses a znode permanently",
        "Nothing after it is written to ZooKeeper, unless it is skipped: do what `remedy` says.",
    ),
    LogEvent(
        "zookeeper_lag_below_bound",
        "info",
        "zookeeper lag is below the bound: requests no longer wait",
        "ZooKeeper has caught up.",
    ),
    LogEvent(
        "zookeeper_lag_at_bound",
        "warning",
        "zookeeper lag is at the first bound: requests wait",
        "ZooKeeper is slower than what is asked for: look at its servers and at `status`.",
    ),
    LogEvent(
        "zookeeper_lag_at_hard_bound",
        "error",
        "zookeeper lag is at the second bound: ISR changes and deletions wait too",
        "ZooKeeper is far behind or away: look at its servers and at `status` at once.",
    ),
)

_PROPAGATION: Final = (
    LogEvent(
        "broker_unreachable",
        "warning",
        "a broker cannot be told anything",
        "No connection to the broker at `at`, as `why` says: look whether it runs, and is reached "
        "from the controllers.",
    ),
    LogEvent(
        "broker_slow",
        "warning",
        "a broker is slow to answer",
        "`requests_waiting` wait for it: look at that broker.",
    ),
    LogEvent(
        "broker_connection_lost",
        "debug",
        "connection to a broker lost",
        "It is connected again by itself.",
    ),
    LogEvent(
        "broker_refuses_login",
        "warning",
        "a broker refuses the login",
        "Compare the credentials of this controller with those that the broker knows.",
    ),
    LogEvent(
        "broker_queue_dropped",
        "warning",
        "broker does not answer control requests; its queue is dropped until it answers",
        "Its metadata is old meanwhile: look at that broker, and restart it if need be.",
    ),
    LogEvent(
        "broker_answers_again",
        "info",
        "broker answers control requests again; it gets FULL requests",
        "Its queue had been dropped; it gets everything anew.",
    ),
    LogEvent(
        "control_request_errors",
        "warning",
        "broker answered a control request with errors",
        "`times` partitions have the error, `topic` and `partition` name the first: look at the "
        "log of that broker.",
    ),
    LogEvent(
        "leader_epochs_known",
        "info",
        "broker has these leader epochs already",
        "It answered STALE_CONTROLLER_EPOCH for `times` partitions; `topic` and `partition` name "
        "the first. Usual for brokers before 3.6.2 when they are sent everything. Others know a "
        "higher leader epoch than the controller; with a metadata.version of 3.7 or later that is "
        "`control_request_errors`.",
    ),
    LogEvent(
        "full_request_failed",
        "warning",
        "broker failed a FULL LeaderAndIsr; it is sent again as INCREMENTAL",
        "It has lost its ZooKeeper session, or has a folder without `partition.metadata`: it was "
        "killed while it created one, or a topic was deleted. Kafka's controller would not go "
        "on; see `migration.repairs`.",
    ),
    LogEvent(
        "stray_replicas_kept",
        "warning",
        "broker failed a FULL LeaderAndIsr once more; it may keep replicas of topics that were "
        "deleted while it was away, until it registers again",
        "Restart the broker if it has such folders.",
    ),
    LogEvent(
        "broker_topics_unknown",
        "warning",
        "broker does not say which topics it shows; it may show deleted ones until a restart",
        "Restart the broker if clients see deleted topics at it.",
    ),
)

MIGRATION_LOG_EVENTS: Final = _ZOOKEEPER + _COPY + _DUAL_WRITE + _PROPAGATION
"""In the order declared."""


# Log lines of ``kraft-bridge broker``.

BROKER_LOG_EVENTS: Final = (
    LogEvent(
        "broker_registered",
        "info",
        "registered",
        "The controller has registered this broker, with the epoch `broker_epoch`.",
    ),
    LogEvent(
        "broker_state_changed",
        "info",
        "broker state",
        "Kafka's BrokerState of this broker has changed.",
    ),
    LogEvent(
        "controller_refuses_broker",
        "warning",
        "the controller refuses",
        "A registration or a heartbeat is refused, as `why` says; it is repeated. Do what `hint` "
        "says, if there is one.",
    ),
    LogEvent(
        "controller_not_answering",
        "warning",
        "the controller does not answer",
        "A registration or a heartbeat got no answer, and is repeated: look whether a controller "
        "leads.",
    ),
    LogEvent(
        "controller_not_reached",
        "warning",
        "no controller is reached yet",
        "Compare `controller.quorum.voters` with the addresses of the controllers, and look "
        "whether they run.",
    ),
    LogEvent(
        "metadata_leader_lost",
        "warning",
        "lost the leader of the metadata log",
        "The controller that was followed is gone, and another one is looked for; nothing to do "
        "unless it lasts.",
    ),
    LogEvent(
        "controller_refuses_fetch",
        "warning",
        "a controller refuses Fetch requests",
        "It is repeated. Compare cluster id and properties with those of the controllers; do what "
        "`hint` says, if there is one.",
    ),
    LogEvent(
        "no_common_api_version",
        "warning",
        "no common version of a request with a controller",
        "The releases of broker and controller do not fit: another controller is tried.",
    ),
    LogEvent(
        "controller_response_invalid",
        "warning",
        "a controller sent an invalid response",
        "It cannot be used, as `why` says; another controller is tried. If that lasts, report it.",
    ),
    LogEvent(
        "controlled_shutdown_started",
        "info",
        "stopping: the controller moves what this broker leads",
        "An orderly stop has begun.",
    ),
    LogEvent(
        "controlled_shutdown_refused",
        "warning",
        "controlled shutdown refused",
        "The controller cannot move every leader, as `why` says; it is asked `tries_left` times "
        "more, then this broker ends all the same. Look for partitions without another replica in "
        "sync.",
    ),
    LogEvent(
        "broker_znode_registered",
        "info",
        "registered in zookeeper",
        "This broker has its znode below /brokers/ids.",
    ),
    LogEvent(
        "broker_znode_failed",
        "error",
        "registration in zookeeper failed",
        "This broker is not in /brokers/ids, for the cause in `why`; it is tried again after "
        "`retry_ms`. Look whether another broker has the id.",
    ),
    LogEvent(
        "zookeeper_controller_changed",
        "info",
        "controller in zookeeper",
        "/controller names another controller: `broker_id`, -1 for none.",
    ),
    LogEvent(
        "controller_znode_unreadable",
        "warning",
        "cannot read /controller in zookeeper",
        "Until it can be read this broker knows no controller: look at the znode and its ACL.",
    ),
    LogEvent(
        "controller_epoch_unreadable",
        "warning",
        "controller epoch",
        "/controller_epoch is no number, as `why` says: look who wrote it.",
    ),
    LogEvent(
        "feature_znode_unreadable",
        "warning",
        "cannot read /feature in zookeeper",
        "This broker offers no finalised features: look at the znode and its ACL.",
    ),
    LogEvent(
        "zookeeper_configs_unreadable",
        "warning",
        "configs in zookeeper",
        "A znode of a config, or a notification of a change, cannot be read, and is left out: look "
        "at what `why` names.",
    ),
    LogEvent(
        "znode_left_out",
        "warning",
        "znode left out",
        "A znode has no meaning for this broker, as `why` says: look who wrote it.",
    ),
)


_WRITES: Final = "stopping: remaining changes are written to ZooKeeper, for at most {seconds} s"

CONTROLLER_LOG_EVENTS: Final = (
    LogEvent(
        "controller_active",
        "info",
        "active controller",
        "This node leads the metadata log, and begins to act as the controller.",
    ),
    LogEvent(
        "controller_inactive",
        "info",
        "no longer the active controller",
        "Another voter leads, or none does: this node refuses what only the controller answers.",
    ),
    LogEvent(
        "leadership_resigned",
        "error",
        "gives its leadership up",
        "This node was elected and cannot act as the controller: repair what `why` names. "
        "Another voter may lead meanwhile.",
    ),
    LogEvent(
        "requests_served",
        "info",
        "brokers and callers are served",
        "The active controller answers again, or for the first time.",
    ),
    LogEvent(
        "requests_refused",
        "info, warning",
        "brokers and callers are refused",
        "The active controller answers nobody, as `why` says. At a warning, or if it lasts, "
        "`kraft-bridge status` has the way out.",
    ),
    LogEvent(
        "request_failed",
        "debug, error",
        "a request failed with an internal error",
        "A fault of kraft-bridge: the caller got UNKNOWN_SERVER_ERROR. Report the line; repeats "
        "of the same fault have level debug.",
    ),
    LogEvent(
        "broker_registration_refused",
        "debug, warning",
        "broker refused",
        "A broker cannot register: change what `text` names, at that broker. Debug when very many "
        "causes are known.",
    ),
    LogEvent(
        "duplicate_voter",
        "error",
        "a voter was started twice",
        "Two processes have one node.id, on a folder and its copy: stop one, and format its folder "
        "anew.",
    ),
    LogEvent(
        "voter_refused",
        "error",
        "this voter is refused",
        "Another process with this node.id answers at its address: stop one of the two, and format "
        "its folder anew.",
    ),
    LogEvent(
        "shutdown_started",
        "info",
        "stopping; a second signal stops at once",
        "An orderly stop has begun; `stopped` ends it.",
        (
            "stopping: another voter leads then; a second signal stops at once",
            f"{_WRITES}; a second signal stops at once",
            f"{_WRITES}; another voter leads then; a second signal stops at once",
        ),
    ),
    LogEvent(
        "leader_broken",
        "error",
        "cannot lead on: resigns and ends",
        "The leader cannot go on with the log, and ends so that another voter leads: repair what "
        "`why` names before it is started again.",
    ),
    LogEvent(
        "finalise_mark_written",
        "info",
        "ZooKeeper has everything: the mark is written, which says so",
        "A stopping leader has appended the mark that lets a leader without the migration flag "
        "finalise.",
    ),
    LogEvent(
        "finalise_mark_committed",
        "info",
        "the mark is kept: a leader without the flag may finalise",
        "The mark is committed.",
    ),
    LogEvent(
        "finalise_mark_unknown",
        "warning",
        "it is not known whether the mark is kept, without which no controller without the flag "
        "may finalise: status of the next leader says it",
        "The leader ended before the mark was committed: look at `status` of the next one.",
    ),
    LogEvent(
        "finalise_mark_missing",
        "warning",
        "no mark is left, without which no controller without the flag may finalise",
        "ZooKeeper does not have everything, as `why` says. To finalise, start a controller with "
        "the flag, and stop it when the lag is 0.",
    ),
    LogEvent(
        "finalise_waiting",
        "info",
        "waits to be finalised",
        "A leader without the flag does not finalise yet: `text` says what is missing.",
    ),
    LogEvent(
        "finalise_started",
        "info",
        "finalising: nothing is missing",
        "The record that ends the migration is appended, at `offset`.",
    ),
    LogEvent(
        "already_finalised",
        "error",
        "already finalised",
        "The migration flag has no effect any more: remove it from the properties.",
    ),
)

LOG_EVENTS: Final[tuple[LogEvent, ...]] = (
    CONTROLLER_LOG_EVENTS
    + RAFT_LOG_EVENTS
    + MIGRATION_LOG_EVENTS
    + BROKER_LOG_EVENTS
    + PROCESS_LOG_EVENTS
)
"""Every log line, in the order declared."""

_BLANK: Final = re.compile(r"\\\{\w+\\\}")
_EXACT: Final = {text: one for one in LOG_EVENTS for text in one.texts if "{" not in text}
_PATTERNS: Final = tuple(
    (re.compile(_BLANK.sub(r"\\w+", re.escape(text))), one)
    for one in LOG_EVENTS
    for text in one.texts
    if "{" in text
)


def log_event(text: str) -> LogEvent | None:
    """The declaration that has this text; None if none has.

    >>> log_event("active controller").event_id
    'controller_active'
    >>> log_event("<< Send").event_id
    'effect'
    >>> log_event("<< Send and more")
    """
    found = _EXACT.get(text)
    if found is not None:
        return found
    return next((one for pattern, one in _PATTERNS if pattern.fullmatch(text)), None)


def listed(level: str, text: str) -> bool:
    """Whether a line with this level and text is declared."""
    found = log_event(text)
    return found is not None and level in found.levels.split(", ")
