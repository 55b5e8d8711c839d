"""The ``quorum`` of ``/status``: who leads, how far every voter is, who is not ready and why.

A leader knows how far the others are. A follower shows what the leader told it last
(DescribeQuorum), with the time of that, and what it knows itself. Reads the machines and changes
nothing.
"""

from __future__ import annotations

from typing import Any

from emulator.config.listeners import HostPort
from emulator.node import readiness
from emulator.node.advice import iso
from emulator.node.inquiry import LeaderAccount, VoterPosition, release_of
from emulator.node.machine import Node
from emulator.raft.quorum_state import NONE


def quorum(node: Node, now_ms: int) -> dict[str, Any]:
    """The JSON object, as docs/status.md describes it."""
    raft = node.raft
    account = _account(node, now_ms)
    positions = {} if account is None else account.voters
    leader = None if account is None else positions.get(account.leader_id)
    rows = []
    for voter, (host, port) in sorted(raft.config.voters.items()):
        position = positions.get(voter, VoterPosition())
        end = _known(position.end_offset)
        reasons = readiness.reasons(node, voter, account, now_ms)
        levels = readiness.levels_of(node, voter)
        rows.append(
            {
                "id": voter,
                "endpoint": str(HostPort(host, port)),
                "end_offset": end,
                "lag": None if end is None or leader is None else max(0, leader.end_offset - end),
                "last_fetch": _time(position.last_fetch_ms),
                "last_caught_up": _time(position.last_caught_up_ms),
                "release": release_of(levels),
                "metadata_versions": None if levels is None else f"{levels[0]}-{levels[1]}",
                "ready": not reasons,
                "why_not": "; ".join(reasons),
            }
        )
    return {
        "leader_id": raft.leader_id if raft.leader_id != NONE else None,
        "leader_epoch": raft.leader_epoch,
        "state": raft.voter_state.value.lower(),
        "voter_state": raft.held.holding.value,
        "told_by": None if account is None else account.leader_id,
        "as_of": None if account is None else iso(account.at_ms),
        "not_told_because": _not_told_because(node),
        "high_watermark": None if account is None else _known(account.high_watermark),
        "voters": rows,
    }


def _account(node: Node, now_ms: int) -> LeaderAccount | None:
    """How far the voters are: known by this leader, or told by the leader of this epoch."""
    raft, own = node.raft, node.config.node_id
    if raft.is_leader:
        voters = {
            each: VoterPosition(one.end_offset, one.last_fetch_ms, one.last_caught_up_ms)
            for each, one in raft.progress.items()
        }
        voters[own] = VoterPosition(raft.log_end_offset, now_ms, now_ms)
        return LeaderAccount(own, raft.leader_epoch, now_ms, raft.high_watermark, voters)
    account = None if node.peers.inquiry is None else node.peers.inquiry.account
    if account is None or account.epoch != raft.leader_epoch:
        return None
    return account


def _not_told_because(node: Node) -> str:
    """Why a follower was not told anything new; empty if it was, or if it leads."""
    inquiry = node.peers.inquiry
    if node.raft.is_leader or inquiry is None:
        return ""
    leader_id = node.raft.leader_id
    if leader_id not in inquiry.voters:
        return "no leader is known"
    return inquiry.voters[leader_id].failure or inquiry.account_failure


def _known(offset: int) -> int | None:
    return None if offset < 0 else offset


def _time(time_ms: int) -> str | None:
    return None if time_ms < 0 else iso(time_ms)
