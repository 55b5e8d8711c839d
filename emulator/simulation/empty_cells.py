"""The cells of the table of states and faults in which no effect was counted, and why."""

from __future__ import annotations

from collections.abc import Mapping
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
REASONS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        **NOT_AIMED,
        (
            "WAIT_FOR_CONTROLLER_QUORUM",
            "foreign-write",
        ): "the controller writes nothing to ZooKeeper in this state.",
        (
            "WAIT_FOR_BROKERS",
            "foreign-write",
        ): "the controller writes nothing to ZooKeeper in this state.",
        (
            "WAIT_FOR_CONTROLLER_QUORUM",
            "both-counters",
        ): "the controller writes nothing to ZooKeeper in this state.",
        (
            "WAIT_FOR_BROKERS",
            "both-counters",
        ): "the controller writes nothing to ZooKeeper in this state.",
        (
            "WAIT_FOR_CONTROLLER_QUORUM",
            "foreign-znodes",
        ): "the controller writes nothing to ZooKeeper in this state.",
        (
            "WAIT_FOR_BROKERS",
            "foreign-znodes",
        ): "the controller writes nothing to ZooKeeper in this state.",
        (
            "WAIT_FOR_CONTROLLER_QUORUM",
            "zookeeper-refuses",
        ): "the controller writes nothing to ZooKeeper in this state.",
        (
            "WAIT_FOR_BROKERS",
            "zookeeper-refuses",
        ): "the controller writes nothing to ZooKeeper in this state.",
        (
            "ZK_MIGRATION",
            "foreign-znodes",
        ): "the copy reads ZooKeeper, and reading is not forbidden.",
        (
            "ZK_MIGRATION",
            "zookeeper-refuses",
        ): "the copy reads ZooKeeper, and reading is not forbidden.",
        (
            "",
            "disk-slow",
        ): "it makes syncs late and fails none; where nothing is cut, nothing is lost or repeated.",
    }
)
"""The same, also ("", fault) -> why a fault does nothing there to what is under way."""
OPEN: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "UNINITIALIZED": frozenset(
            {
                "controller-crash",
                "controller-kill",
                "disk-reorders",
                "disk-restored",
                "zookeeper-restart",
                "zookeeper-refuses",
                "session-expiry",
                "foreign-write",
                "foreign-znodes",
                "both-counters",
                "cut",
            }
        ),
        "KRAFT_CONTROLLER_TO_BROKER_COMM": frozenset(
            {
                "controller-crash-in-step",
                "controller-shutdown",
                "controller-cloned",
                "disk-error",
                "disk-full",
                "disk-restored",
                "lost-reply",
                "lost-replies",
                "zookeeper-freeze",
                "zookeeper-restart",
                "zookeeper-refuses",
                "stale-server",
                "session-expiry",
                "foreign-write",
                "foreign-znodes",
                "both-counters",
                "epoch-bumped",
                "controller-deleted",
                "cut",
                "network-slow",
                "delayed-bytes",
                "broker-cut",
                "broker-death",
                "broker-shutdown",
                "broker-leaves",
            }
        ),
        "WAIT_FOR_CONTROLLER_QUORUM": frozenset(
            {
                "controller-shutdown",
                "disk-error",
                "lost-reply",
                "lost-replies",
                "zookeeper-freeze",
                "stale-server",
                "epoch-bumped",
                "controller-deleted",
                "cut",
                "network-slow",
                "broker-death",
                "broker-shutdown",
                "broker-leaves",
            }
        ),
        "ZK_MIGRATION": frozenset(
            {
                "controller-shutdown",
                "disk-restored",
                "foreign-write",
                "both-counters",
                "broker-death",
            }
        ),
        "WAIT_FOR_BROKERS": frozenset({"disk-restored"}),
        "BECOME_CONTROLLER": frozenset(
            {
                "disk-restored",
                "foreign-write",
                "foreign-znodes",
                "both-counters",
                "network-slow",
                "broker-leaves",
            }
        ),
    }
)
"""State -> faults that were aimed at it, did nothing that was counted, and have no reason known.

A fault strikes in the first step of a state, often before anything is under way there.
"""


def reason(state: str, fault: str) -> str:
    """Why a cell of the table of states and faults is empty; "" when none is known."""
    keys = ((state, fault), (state, ""), ("", fault))
    return next((REASONS[key] for key in keys if key in REASONS), "")
