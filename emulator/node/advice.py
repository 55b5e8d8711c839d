"""What ``/status`` adds to the machines' numbers: why brokers are refused, what going back costs.

Reads the machines and changes nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from emulator.config.zookeeper_mode import KEYS
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.migration.status import Status
from emulator.migration.taking_over.preconditions import Why
from emulator.node.machine import Node, SnapshotFailure

PLAN: Final = "kraft-bridge rollback --config FILES, with the files of all controllers,"
BACK: Final = (
    "kraft-bridge rollback --yes --config FILES, with the files of all controllers: it stops them "
    "and gives /controller back, which is not to be deleted by hand"
)
RESTART: Final = f"restart every broker without {KEYS}"


_STUCK: Final = frozenset({"refused", "deposed"})
"""Phases in which the stores are never compared."""


def iso(time_ms: int | None) -> str | None:
    """ISO 8601 with milliseconds, UTC; None stays None."""
    if time_ms is None:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def snapshot_failure(found: SnapshotFailure | None) -> dict[str, Any] | None:
    """Why the log is not trimmed; None if the newest snapshot was written."""
    if found is None:
        return None
    return {
        "why": found.why,
        "times": found.times,
        "at": iso(found.at_ms),
        "again_at": iso(found.again_ms),
    }


def refusals(node: Node) -> list[dict[str, Any]]:
    """The last refusal of each broker that has not registered afterwards, by its id."""
    found = []
    for cause, times, attempt in node.controller.surroundings.registrations.refusals():
        found.append(
            {
                "broker": cause.broker_id,
                "error": cause.code,
                "text": cause.text,
                "times": times,
                "at": None if attempt is None else iso(attempt.at_ms),
                "peer": "" if attempt is None else attempt.peer,
                "offered": "" if attempt is None else attempt.offered,
                "needed": "" if attempt is None else attempt.needed,
                "remedy": "" if attempt is None else attempt.remedy,
            }
        )
    return found


def epoch_headroom(found: Status, leader_epoch: int) -> int | None:
    """``/controller_epoch`` minus the epoch that partition states hold; None before the claim.

    After a rollback the first controller in ZooKeeper mode has the epoch ``/controller_epoch`` + 1.
    Brokers refuse it for partitions whose state has a higher one. Source: KAFKA-20488.

    Args:
        found: the state of the migration.
        leader_epoch: of the metadata log; partition states are written with it.
    """
    return None if found.zk_epoch < 0 else found.zk_epoch - leader_epoch


def going_back(node: Node, found: Status) -> dict[str, Any]:
    """What a return to ZooKeeper mode costs now: restarts of brokers, changes that are lost."""
    image = node.controller.stable
    return {
        "possible": found.may_roll_back,
        "brokers_in_kraft_mode": _in_kraft_mode(image),
        "changes_not_in_zookeeper": found.lag_changed_records if found.lag_known else None,
        "text": cost(
            image, found, node.raft.leader_epoch, leads=node.raft.leader_id == node.config.node_id
        ),
    }


def cost(image: Image, found: Status, leader_epoch: int, *, leads: bool = True) -> str:
    """The steps back to ZooKeeper mode, and what is lost, in sentences.

    Args:
        image: the newest stable image.
        found: the state of the migration.
        leader_epoch: of the metadata log.
        leads: whether this controller leads; only one that does knows what ZooKeeper lacks.
    """
    if not found.may_roll_back:
        return "Not possible: the migration is finalised."
    if any(one.reason.why is Why.ZOOKEEPER_MODE_TOOK_OVER for one in found.waiting):
        return (
            "Done already: the cluster is in ZooKeeper mode, and /controller is not to be deleted. "
            f"Stop every controller, and {RESTART}. {PLAN} shows what is left to do."
        )
    if found.phase in _STUCK:
        return f"Not known to this controller, as it is {found.phase}. {PLAN} shows the steps."
    if image.migration_state != MigrationState.MIGRATION:
        kept = "ZooKeeper still has everything: no copy is complete."
        return f"{kept} To go back: {BACK}. Then {RESTART}."
    steps = []
    if not leads:
        steps.append("What ZooKeeper lacks is known to the controller that leads: ask it.")
    elif not found.lag_known:
        steps.append("It is not known what ZooKeeper lacks: wait until the stores are compared.")
    elif lost := found.lag_changed_records:
        # Under load some always are, and none is lost: the command waits for them.
        are = "1 change is" if lost == 1 else f"{lost} changes are"
        steps.append(f"{are} not in ZooKeeper yet; no change is lost: rollback waits for them.")
    if found.poisoned:
        steps.append(f"{len(found.poisoned)} znodes that ZooKeeper refuses would keep old content.")
    if kraft := _in_kraft_mode(image):
        brokers = "1 broker is" if kraft == 1 else f"{kraft} brokers are"
        steps.append(
            f"{brokers} in KRaft mode: restart each in ZooKeeper mode, with the migration on."
        )
    steps.append(f"Then {BACK}." if steps else f"Now: {BACK}.")
    if (epoch_headroom(found, leader_epoch) or 0) < 0:
        steps.append(
            f"It raises /controller_epoch to {leader_epoch} at least: else brokers would refuse "
            "the next controller, and partitions stay offline."
        )
    steps.append(f"At the end {RESTART}.")
    return " ".join(steps)


def _in_kraft_mode(image: Image) -> int:
    return sum(not broker.is_migrating_zk_broker for broker in image.brokers.values())
