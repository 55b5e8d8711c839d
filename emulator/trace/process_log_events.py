"""Log lines of every process: its connections, its pages, its trace, its end."""

from __future__ import annotations

from typing import Final

from emulator.trace.log_event import LogEvent

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
        "`/metrics` and `/status` are served at `url`.",
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
