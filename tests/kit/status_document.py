"""``/status`` documents for tests of what reads them: as a controller that leads would show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emulator.migration.phases import TABLE, Ahead, text_of


def phase(older: str, *, kraft: int = 0, brokers: int = 1, waits: bool = False) -> dict[str, Any]:
    """The member ``phase`` that belongs to a word of ``migration.phase``.

    Args:
        older: that word; one that no row has is shown as what a later release might.
        kraft: brokers in KRaft mode.
        brokers: all.
        waits: whether there are reasons to wait.
    """
    rows = [one for one in TABLE if one.older == older]
    meets = [one for one in rows if one.ahead is Ahead.MEET]
    row = (meets if waits and meets else rows or [TABLE[2]])[0]
    state = "WAIT_FOR_BROKERS" if older == "pre-migration" else "DUAL_WRITE"
    return {
        "name": row.phase.value,
        "text": text_of(row.phase, kraft, brokers),
        "ahead": row.ahead.value if rows else older,
        "driver_state": None if older in {"finalising", "finalised"} else state,
        "kraft_brokers": kraft,
        "brokers": brokers,
    }


def voter(node_id: int, **more: Any) -> dict[str, Any]:
    """A row of ``quorum.voters``."""
    row = {
        "id": node_id,
        "endpoint": f"host-{node_id}:9093",
        "end_offset": 8,
        "lag": 0,
        "last_fetch": "10:00:01",
        "last_caught_up": "10:00:02",
        "release": "3.9",
        "metadata_versions": "1-21",
        "answers": True,
        "migration_flag": True,
        "ready": True,
        "why_not": "",
    }
    return row | more


def quorum(*voters: dict[str, Any], leader: int | None = 3000, **more: Any) -> dict[str, Any]:
    """The member ``quorum``; without voters of one controller, 3000."""
    return {
        "leader_id": leader,
        "leader_epoch": 2,
        "leaderless_ms": 60_000 if leader is None else None,
        "voter_state": "whole",
        "as_of": "10:00:03",
        "not_told_because": "",
        "voters": list(voters) or [voter(3000)],
    } | more


def broker(broker_id: int, kind: str = "zookeeper", **more: Any) -> dict[str, Any]:
    """A row of ``brokers``."""
    return {
        "id": broker_id,
        "kind": kind,
        "fenced": False,
        "in_controlled_shutdown": False,
        "endpoints": [f"INTERNAL://h:{broker_id}"],
    } | more


def reason(why: str, subject: str = "/x", *, fatal: bool = False) -> dict[str, Any]:
    """A reason to wait."""
    text = f"text of {why}"
    return {"why": why, "subject": subject, "text": text, "fatal": fatal, "since": "10:00:00"}


LAG = {
    "records": 7,
    "records_without_no_ops": 2,
    "ms": 5,
    "counted_records": 3,
    "bound_records": 10,
    "hard_bound_records": 0,
}


def document(
    older: str = "pre-migration",
    brokers: Sequence[dict[str, Any]] = (),
    waiting: Sequence[dict[str, Any]] = (),
    *,
    migration: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A whole document.

    Args:
        older: the word of ``migration.phase``.
        brokers: that are registered; none given: one in the mode of that phase.
        waiting: the reasons to wait.
        migration: members of ``migration`` beside.
        more: members of the document beside.
    """
    kind = "kraft" if older in {"dual write", "finalising", "finalised"} else "zookeeper"
    brokers = list(brokers) or [broker(1, kind)]
    kraft = sum(one["kind"] == "kraft" for one in brokers)
    found = {
        "phase": older,
        "driver_state": "WAIT_FOR_BROKERS",
        "records_copied": 0,
        "lag": LAG,
        "compared_at": "10:00:00",
        "blocked": False,
        "may_roll_back": True,
        "poisoned": [],
        "left_out": [],
        "waiting": list(waiting),
        "zookeeper": {"state": "CONNECTED", "server": "z:2181", "connect": "z:2181/kafka"},
    }
    return {
        "schema": "status/4",
        "node_id": 3000,
        "cluster_id": "abc",
        "log_dir": "/var/lib/kraft-bridge",
        "active": True,
        "leader_epoch": 2,
        "leader_id": 3000,
        "metadata_version": {"level": 21, "name": "3.9-IV0"},
        "topics": 3,
        "partitions": 9,
        "quorum": quorum(),
        "brokers": brokers,
        "refusals": [],
        "finalisation": None,
        "migration": found | (migration or {}),
        "phase": phase(older, kraft=kraft, brokers=len(brokers), waits=bool(waiting)),
    } | more


def refusal(broker_id: int = 2) -> dict[str, Any]:
    """A registration that was refused."""
    return {
        "broker": broker_id,
        "error": "UNSUPPORTED_VERSION",
        "text": "Unable to register",
        "times": 4,
        "at": "2026-01-01T00:00:01.000+00:00",
        "peer": "10.0.0.2 as User:kafka",
        "offered": "metadata.version 1 to 8",
        "needed": "metadata.version 21 (3.9-IV0)",
        "remedy": "Restart it with inter.broker.protocol.version=3.9-IV0.",
    }


def ends(state: str, *whys: str, subjects: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """The member ``finalisation``."""
    subjects = [*subjects, *["1"] * len(whys)]
    missing = [
        {"why": why, "subject": subject, "text": f"text of {why}", "since": None}
        for why, subject in zip(whys, subjects, strict=False)
    ]
    return {
        "state": state,
        "rule": "every-voter",
        "hold": False,
        "missing": missing,
        "waits_for": "",
        "mark": None,
        "no_mark_because": "",
    } | more
