"""Log lines of the migration: ZooKeeper, dual write, and brokers in ZooKeeper mode."""

from __future__ import annotations

from typing import Final

from emulator.trace.log_event import LogEvent

_ZOOKEEPER: Final = (
    LogEvent(
        "zookeeper_connected",
        "info",
        "zookeeper connected",
        "A session with ZooKeeper stands, at `server`.",
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
        "The migration driver goes from one state to another (migration-states.md).",
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
        "ZooKeeper refuses it, as `why` says: look at the ACLs below /config/changes and its like.",
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
        "full_request_failed",
        "warning",
        "broker failed a FULL LeaderAndIsr; it is sent again as INCREMENTAL",
        "It was killed while it created a partition; nothing to do unless `stray_replicas_kept` "
        "follows.",
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
