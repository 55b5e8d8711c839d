"""The cells of the table of states and faults in which no effect was counted, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

NOT_AIMED: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("INACTIVE", ""): "the driver leaves it in the step in which it enters it; "
        "one that stays there was stopped for good and writes nothing.",
        ("UNINITIALIZED", "broker-cut"): "no broker has connected yet.",
        ("UNINITIALIZED", "broker-death"): "no broker has begun yet.",
        ("UNINITIALIZED", "broker-shutdown"): "no broker has begun yet.",
        ("UNINITIALIZED", "broker-leaves"): "no broker has begun yet.",
    }
)
"""(state, fault) or (state, "") -> why no fault can be aimed there."""

_SILENT: Final = "the controller writes nothing to ZooKeeper in this state."
_HANDS_OVER: Final = (
    "the driver is in it for a few steps, less than a millisecond, until all requests are in the "
    "queues of the brokers: what is lost or refused then is missed in the next state."
)
_ONE_SYNC: Final = (
    "the driver waits here for one sync at most; ZooKeeper is asked for nothing, and brokers are "
    "told nothing."
)

_ENDS_LATER: Final = (
    "a stop in order lets the copy and the comparison end first: the process ends in dual write."
)


def _cells(state: str, faults: Iterable[str], why: str) -> dict[tuple[str, str], str]:
    return {(state, fault): why for fault in faults}


_WRITES: Final = ("foreign-write", "both-counters", "foreign-znodes", "zookeeper-refuses")
_AT_ZOOKEEPER: Final = (
    "lost-reply",
    "lost-replies",
    "zookeeper-freeze",
    "zookeeper-restart",
    "stale-server",
    "session-expiry",
    "epoch-bumped",
    "controller-deleted",
    "cut",
    "delayed-bytes",
)
_AT_BROKERS: Final = (
    "network-slow",
    "broker-cut",
    "broker-death",
    "broker-shutdown",
    "broker-leaves",
)
_AT_DISK: Final = ("disk-error", "disk-forgets", "disk-full", "disk-reorders")
_AT_PROCESS: Final = ("controller-crash-in-step", "controller-kill", "controller-cloned")
REASONS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        **NOT_AIMED,
        **_cells("UNINITIALIZED", _WRITES, _SILENT),
        **_cells("WAIT_FOR_CONTROLLER_QUORUM", _WRITES, _SILENT),
        **_cells("WAIT_FOR_CONTROLLER_QUORUM", (*_AT_ZOOKEEPER, *_AT_BROKERS), _ONE_SYNC),
        **_cells("WAIT_FOR_BROKERS", _WRITES, _SILENT),
        **_cells(
            "ZK_MIGRATION",
            ("foreign-znodes", "zookeeper-refuses"),
            "the copy reads ZooKeeper, and reading is not forbidden.",
        ),
        **_cells(
            "ZK_MIGRATION",
            ("foreign-write", "both-counters"),
            "the copy writes nothing to ZooKeeper, and both counters are read again at its end.",
        ),
        **_cells(
            "ZK_MIGRATION",
            ("controller-deleted",),
            "the copy notices it at its end and the driver leaves the state; the restart is later.",
        ),
        **_cells(
            "KRAFT_CONTROLLER_TO_BROKER_COMM",
            (*_WRITES, *_AT_ZOOKEEPER, *_AT_BROKERS, *_AT_DISK, *_AT_PROCESS),
            _HANDS_OVER,
        ),
        **_cells(
            "KRAFT_CONTROLLER_TO_BROKER_COMM",
            ("controller-shutdown",),
            "what is written already is in ZooKeeper when this state begins: a stop loses nothing.",
        ),
        **_cells("ZK_MIGRATION", ("controller-shutdown",), _ENDS_LATER),
        **_cells("SYNC_KRAFT_TO_ZK", ("controller-shutdown",), _ENDS_LATER),
        **_cells("WAIT_FOR_CONTROLLER_QUORUM", ("controller-shutdown",), _ONE_SYNC),
        **_cells(
            "WAIT_FOR_CONTROLLER_QUORUM",
            ("disk-error",),
            "the driver waits for one sync at most: another operation fails in a later state.",
        ),
        **_cells(
            "BECOME_CONTROLLER",
            ("foreign-write", "foreign-znodes", "both-counters", "controller-deleted"),
            "only what is written between the reading and the claim, one round trip, is noticed.",
        ),
        **_cells(
            "UNINITIALIZED",
            ("controller-deleted",),
            "the controller has written nothing that could be refused; the restart is later.",
        ),
        (
            "",
            "rollback",
        ): "there is nothing to go back from before ZooKeeper has been written: later.",
        (
            "",
            "disk-slow",
        ): "it makes syncs late and fails none; where nothing is cut, nothing is lost or repeated.",
        (
            "",
            "disk-restored",
        ): "the backup is put in place only when ZooKeeper has more than it holds: later.",
    }
)
"""The same, also ("", fault) -> why a fault does nothing there to what is under way."""
OPEN: Final[Mapping[str, frozenset[str]]] = MappingProxyType({})
"""State -> faults that were aimed at it, did nothing that was counted, and have no reason known."""


def reason(state: str, fault: str) -> str:
    """Why a cell of the table of states and faults is empty; "" when none is known."""
    keys = ((state, fault), (state, ""), ("", fault))
    return next((REASONS[key] for key in keys if key in REASONS), "")


REASONS_OF_THREE: Final[Mapping[tuple[str, str], str]] = MappingProxyType({})
"""The same with three controllers in a migration, where a term of the leader may end."""


def reason_of_three(state: str, fault: str) -> str:
    """Why a cell of the table of three controllers is empty; "" when none is known."""
    keys = ((state, fault), (state, ""), ("", fault))
    return next((REASONS_OF_THREE[key] for key in keys if key in REASONS_OF_THREE), "")
