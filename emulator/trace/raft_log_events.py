"""Log lines of the metadata log and its quorum."""

from __future__ import annotations

from typing import Final

from emulator.trace.log_event import LogEvent

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
        "What a crash left half written, and nobody was told of, is dropped at the start; nothing "
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
