"""One declaration per log line; the logger gives each line its ``event_id`` from here.

Programs look for the id: the text of a line may be improved at any time. Names are Kafka's,
ZooKeeper's and Raft's where they have one. A test holds this table and the source equal.
"""

from __future__ import annotations

import re
from typing import Final

from emulator.trace.broker_log_events import BROKER_LOG_EVENTS
from emulator.trace.log_event import LogEvent
from emulator.trace.migration_log_events import MIGRATION_LOG_EVENTS
from emulator.trace.process_log_events import PROCESS_LOG_EVENTS
from emulator.trace.raft_log_events import RAFT_LOG_EVENTS

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
        "The active controller answers nobody, as `why` says. Info passes by itself; at a warning "
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
