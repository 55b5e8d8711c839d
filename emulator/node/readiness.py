"""Whether a controller is fit for what its quorum needs, and why not: ``/readyz`` and ``/status``.

The leader is ready when it answers brokers and callers, another voter when it could take the lead:
a leader is known, and all that it says to be committed is here. One that nobody leads is up, and
not ready.

Of the other voters a node knows what they said themselves (``inquiry``), what the log says of them
(their registrations), and how far the leader knows them to be.
"""

from __future__ import annotations

from typing import Final

from emulator.controller.registry import supported_features
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import FEATURE_NAME, Feature
from emulator.metadata.migration_state import MigrationState
from emulator.node.inquiry import LeaderAccount, VoterAnswer, VoterPosition
from emulator.node.machine import Node
from emulator.raft.quorum_state import VoterState

LATE_MS: Final = 10_000
"""A voter that has not caught up for so long is not ready. A Fetch waits 0.5 s at most."""


def not_ready_because(node: Node, now_ms: int) -> str:
    """Why this node is not ready; empty if it is."""
    if not node.migration.connected:
        return "no ZooKeeper session"
    if node.active:
        return ""
    raft = node.raft
    if node.role.silent_because or len(raft.config.voters) == 1:
        return node.role.silent_because or "not the active controller yet"
    if raft.is_leader:
        return "the leader, and not the active controller yet"
    if raft.voter_state is not VoterState.FOLLOWER:
        return _nobody_leads(node)
    return "; ".join(_own_reasons(node, now_ms))


def _nobody_leads(node: Node) -> str:
    """How many voters an election needs, who cannot be reached, and why this one does not stand."""
    voters = len(node.raft.config.voters)
    text = f"no leader is known: {voters // 2 + 1} of the {voters} voters must reach each other"
    away = [str(each) for each, answer in _answers(node).items() if answer.failure]
    text = f"{text}; no answer from {', '.join(away)}" if away else text
    hindrance = node.raft.held.hindrance
    return text if hindrance is None else f"{text}; {hindrance}"


def _answers(node: Node) -> dict[int, VoterAnswer]:
    return {} if node.peers.inquiry is None else node.peers.inquiry.voters


def _own_reasons(node: Node, now_ms: int) -> list[str]:
    """Why this follower could not take the lead now."""
    raft = node.raft
    found = []
    if not raft.held.may_be_elected:
        found.append(f"voter-state is {raft.held.holding.value}: records may be missing here")
    since = raft.caught_up_ms
    if since is None:
        found.append("it has not caught up with the leader yet")
    elif now_ms - since > LATE_MS:
        found.append(f"it has not caught up with the leader for {(now_ms - since) // 1000} s")
    if _is_to_migrate(node.controller.stable) and not node.config.migration_enabled:
        found.append("zookeeper.metadata.migration.enable is not true, and nothing is copied yet")
    return found


def reasons(node: Node, voter: int, account: LeaderAccount | None, now_ms: int) -> list[str]:
    """Why a voter is not fit to lead next, or keeps the migration from beginning.

    Args:
        node: that is asked.
        voter: id of this voter or another one.
        account: what the leader tells of the voters; None if it did not.
        now_ms: milliseconds since the Unix epoch.
    """
    if voter == node.config.node_id:
        return [why] if (why := not_ready_because(node, now_ms)) else []
    answer = _answers(node).get(voter, VoterAnswer())
    found = [f"it cannot be reached: {answer.failure}"] if answer.failure else []
    image = node.controller.stable
    registered = image.metadata_version.supports(Feature.CONTROLLER_REGISTRATION)
    if registered and voter not in image.controllers:
        found.append("it has not registered (ControllerRegistration)")
    elif registered and _is_to_migrate(image) and not image.controllers[voter].zk_migration_ready:
        found.append("it has no migration configured (zookeeper.metadata.migration.enable)")
    elif not registered and _is_to_migrate(image):
        why = answer.not_migrating(node.config.release)
        found += [why] if why else []
    levels = levels_of(node, voter)
    level = image.metadata_version.level
    if levels is not None and not levels[0] <= level <= levels[1]:
        low, high = levels
        found.append(f"it supports {FEATURE_NAME} {low} to {high}, and {level} is finalised")
    if account is not None and voter != account.leader_id:
        found += _behind(account.voters.get(voter, VoterPosition()), account.told_ms)
    return found


def _behind(position: VoterPosition, at_ms: int) -> list[str]:
    if position.last_fetch_ms < 0:
        return ["it has not fetched from the leader in this epoch"]
    if at_ms - position.last_fetch_ms > LATE_MS:
        return [f"it has not fetched for {(at_ms - position.last_fetch_ms) // 1000} s"]
    if position.last_caught_up_ms < 0:
        return ["it has not caught up with the leader in this epoch"]
    if at_ms - position.last_caught_up_ms > LATE_MS:
        return [f"it has not caught up for {(at_ms - position.last_caught_up_ms) // 1000} s"]
    return []


def levels_of(node: Node, voter: int) -> tuple[int, int] | None:
    """Lowest and highest metadata.version that a voter supports; None if it is not known."""
    if voter == node.config.node_id:
        return supported_features(node.config.release)[FEATURE_NAME]
    answered = _answers(node).get(voter, VoterAnswer()).levels
    if answered is not None:
        return answered
    registered = node.controller.stable.controllers.get(voter)
    return None if registered is None else registered.features.get(FEATURE_NAME)


def _is_to_migrate(image: Image) -> bool:
    """Whether the copy is still to come: without the flag a voter must not lead.

    After it such a voter is there to finalise, and is ready, or nobody could be restarted so.
    """
    return image.migration_state is MigrationState.PRE_MIGRATION
