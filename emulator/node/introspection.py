"""``/status`` (with a versioned schema), ``/metrics``, and the gauges of the trace.

Reads the machines' plain numbers and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from emulator.config.listeners import HostPort
from emulator.controller.registry import tells_readiness
from emulator.controller.rules.finalisation import Lack, Lacking, lacking
from emulator.metadata.brokers import Broker, Endpoint
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import FEATURE_NAME
from emulator.metadata.migration_state import MigrationState
from emulator.migration.authority import Authority
from emulator.migration.driver import MigrationDriver
from emulator.migration.phases import (
    Finalisation,
    PhaseFacts,
    PhaseRow,
    modes_of,
    row_of,
    text_of,
)
from emulator.migration.status import Status, Waiting
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.node import advice, readiness
from emulator.node.advice import iso
from emulator.node.finalising import Finalising, VoterFlags
from emulator.node.inquiry import LeaderAccount, VoterAnswer, VoterPosition, release_of
from emulator.node.machine import Node
from emulator.raft.quorum_state import NONE
from emulator.trace import metrics as metric
from emulator.trace import raft_metrics
from emulator.trace.exposition import STATUS_SCHEMA, Value, one_label
from emulator.trace.metric import Metric
from emulator.znodes import acls
from emulator.zookeeper.client import ZkClient
from wire.errors import ErrorCode
from wire.schema import api_name

# What ``/status`` says of finalising: who or what is missing, and the mark in the log.
#
# Reads the machines and changes nothing.


def finalisation(node: Node) -> dict[str, Any] | None:
    """The part of ``/status``; None if the log has no copied migration."""
    image = node.controller.stable
    if image.migration_state not in {MigrationState.MIGRATION, MigrationState.POST_MIGRATION}:
        return None
    side = node.migration
    missing: Sequence[Lacking] = ()
    held = node.config.finalise_hold
    since: dict[tuple[str, str], int] = {}
    waits_for = ""
    no_mark = ""
    heard = VoterFlags(node.raft, node.peers.inquiry).heard
    if isinstance(side, Finalising):
        missing, held, since = side.missing, side.held, side.since
        waits_for = "; ".join(side.waited_for)
    elif node.raft.is_leader:
        missing = lacking(image, node.controller.config, heard)
        no_mark = side.no_mark_because(node.raft.leader_epoch)
    return {
        "state": _state(node, image, held=held and len(missing) == 1),
        "rule": node.config.finalise_by,
        "hold": held,
        "missing": [
            {
                "why": one.lack.value,
                "subject": one.subject,
                "text": one.text,
                "since": iso(since.get((one.lack.value, one.subject))),
            }
            for one in missing
            if not _restarted(one, heard)
        ],
        "waits_for": waits_for,
        "mark": _mark(image),
        "no_mark_because": no_mark,
    }


def _restarted(one: Lacking, heard: Mapping[int, bool | None]) -> bool:
    """Whether a voter runs without the flag, and only its registration is of the process before."""
    return one.lack is Lack.CONTROLLER_WITH_FLAG and heard.get(int(one.subject)) is False


def _state(node: Node, image: Image, *, held: bool) -> str:
    if image.migration_state is MigrationState.POST_MIGRATION:
        return "finalised"
    if not node.raft.is_leader:
        return "follows"
    if node.driver is not None:
        return "migrating"
    return "held" if held else "waiting"


def _mark(image: Image) -> dict[str, Any] | None:
    mark = image.mark
    if mark is None:
        return None
    return {
        "node_id": mark.node_id,
        "controller_epoch": mark.zk_epoch,
        "read_at": iso(mark.read_ms),
        "confirmed_offset": mark.confirmed_offset,
    }


# The ``quorum`` of ``/status``: who leads, how far every voter is, who is not ready and why.
#
# A leader knows how far the others are. A follower shows what the leader told it last
# (DescribeQuorum), with the time of that, and what it knows itself. Reads the machines and changes
# nothing.


def quorum(node: Node, now_ms: int) -> dict[str, Any]:
    """The JSON object, as tools/status.toml describes it."""
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
                "answers": voter == node.config.node_id or not _answer(node, voter).failure,
                "migration_flag": _flag_of(node, voter),
                "ready": not reasons,
                "why_not": "; ".join(reasons),
            }
        )
    leaderless_ms = raft.leaderless_since_ms
    return {
        "leader_id": raft.leader_id if raft.leader_id != NONE else None,
        "leader_epoch": raft.leader_epoch,
        "leaderless_ms": None if leaderless_ms is None else max(0, now_ms - leaderless_ms),
        "state": raft.voter_state.value.lower(),
        "voter_state": raft.held.holding.value,
        "told_by": None if account is None else account.leader_id,
        "as_of": None if account is None else iso(account.at_ms),
        "not_told_because": _not_told_because(node),
        "high_watermark": None if account is None else _known(account.high_watermark),
        "voters": rows,
    }


def _answer(node: Node, voter: int) -> VoterAnswer:
    """What another voter has answered to ApiVersions last."""
    inquiry = node.peers.inquiry
    return VoterAnswer() if inquiry is None else inquiry.voters.get(voter, VoterAnswer())


def _flag_of(node: Node, voter: int) -> bool | None:
    """Whether a voter runs with the flag; None: it is not known, or its release does not say."""
    if voter == node.config.node_id:
        return node.config.migration_enabled
    answer = _answer(node, voter)
    release = release_of(answer.levels)
    if answer.answered_ms is None or (release is not None and not tells_readiness(release)):
        known = node.controller.stable.controllers.get(voter)
        return None if known is None else known.zk_migration_ready
    return answer.migrating


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


@lru_cache(maxsize=10_000)
def _shown(endpoints: tuple[Endpoint, ...]) -> tuple[str, ...]:
    """The listeners of a broker; a page of 1,000 brokers is asked for each second."""
    return tuple(f"{one.name}://{HostPort(one.host, one.port)}" for one in endpoints)


_LATE_HEARTBEAT: Final = "BrokerHeartbeat", str(ErrorCode.REQUEST_TIMED_OUT.value)


def status(
    node: Node,
    now_ms: int,
    trace: Mapping[str, Any] | None = None,
    log_lines_lost: int = 0,
) -> dict[str, Any]:
    """The JSON object behind ``/status`` and ``kraft-bridge status --json``.

    Args:
        node: the node.
        now_ms: the time.
        trace: folder, why it ended, seconds that are missing; None: nothing is to be recorded.
        log_lines_lost: of the process.
    """
    image = node.controller.stable
    version = image.metadata_version
    end = finalisation(node)
    waiting = {} if node.driver is None else node.driver.channels.waiting
    return {
        "schema": STATUS_SCHEMA,
        "shown_at": advice.iso(now_ms),
        "node_id": node.config.node_id,
        "cluster_id": node.cluster_id,
        "log_dir": node.config.log_dir,
        "release": node.config.release,
        "active": node.active,
        "leader_epoch": node.raft.leader_epoch,
        "leader_id": node.raft.leader_id if node.raft.leader_id >= 0 else None,
        "quorum": quorum(node, now_ms),
        "metadata_version": {"level": version.level, "name": version.name},
        "offsets": {
            "log_end": node.raft.log_end_offset,
            "high_watermark": node.raft.high_watermark,
            "stable": image.offset,
        },
        "brokers": [
            {
                "id": broker.id,
                "kind": "zookeeper" if broker.is_migrating_zk_broker else "kraft",
                "fenced": broker.fenced,
                "in_controlled_shutdown": broker.in_controlled_shutdown,
                "requests_waiting": waiting.get(broker.id),
                "requests_forwarded": node.counters.forwarded_by.get(str(broker.id), 0),
                "endpoints": [*_shown(broker.endpoints)],
            }
            for _id, broker in sorted(image.brokers.items())
        ],
        "refusals": advice.refusals(node),
        "snapshot_failure": advice.snapshot_failure(node.snapshots.failure),
        "trace": trace,
        "log_lines_lost": log_lines_lost,
        "topics": len(image.topics),
        "partitions": _partition_count(image),
        "migration": None if node.driver is None else _migration(node, node.driver, now_ms),
        "finalisation": end,
        "phase": _phase(node, end),
    }


@dataclass(frozen=True, slots=True)
class Moment:
    """What is looked at each second for the live page: nothing of topics and partitions.

    ``figures``: by the names in ``FIGURES``; None: not known. Of several controllers only the one
    that leads knows what ZooKeeper lacks. ``brokers``: as the image holds them; the map is another
    one if one of them changed. ``refused``: broker -> code and text of its last refusal. ``waits``:
    the kind of a reason to wait and what it is about -> its text, and whether waiting alone does
    not remove it.
    """

    figures: Mapping[str, float | None]
    phase: str
    leader: int
    epoch: int
    session: str
    blocked_by: str
    refused: Mapping[int, tuple[str, str]]
    waits: Mapping[tuple[str, str], tuple[str, bool]]
    poisoned: int
    brokers: Mapping[int, Broker]


FIGURES: Final = (
    "lag_records",
    "lag_ms",
    "counted_records",
    "counted_bytes",
    "blocked_operations",
    "blocked_ms",
    "requests",
    "requests_forwarded",
    "requests_waiting",
    "committed_offset",
    "confirmed_offset",
    "multis",
    "multi_ms",
    "multis_in_flight",
)
"""Of a :class:`Moment`."""


def moment(node: Node, now_ms: int) -> Moment:
    """One look; the numbers are those that ``/status`` and ``/metrics`` have."""
    answered = node.counters.answered
    driver, zk = node.driver, node.zk
    figures: dict[str, float | None] = dict.fromkeys(FIGURES)
    figures |= {
        "blocked_operations": len(node.controller.gate),
        "blocked_ms": node.blocked_union_ms(now_ms),
        "requests": sum(answered.values()),
        "requests_forwarded": sum(n for (_key, forwarded), n in answered.items() if forwarded),
        "requests_waiting": node.counters.waiting,
        "committed_offset": node.controller.stable.offset,
    }
    waits: dict[tuple[str, str], tuple[str, bool]] = {}
    if driver is not None and zk is not None:
        found, pipeline = driver.status(now_ms), driver.write_behind.pipeline
        if found.lag_known:
            figures |= {"lag_records": found.lag_records, "lag_ms": found.lag_ms}
        figures |= {
            "counted_records": found.bound.counted_records,
            "counted_bytes": found.bound.counted_bytes,
            "confirmed_offset": found.confirmed_offset,
            "multis": sum(pipeline.multis.values()),
            "multi_ms": pipeline.multi_latency_ms.total,
            "multis_in_flight": pipeline.in_flight,
        }
        reasons = (one.reason for one in _waiting(driver, zk, found))
        waits = {(one.why.value, one.subject): (_text(node, one), one.fatal) for one in reasons}
    return Moment(
        figures,
        phase=_row(node, finalisation(node) if driver is None else None).phase.value,
        leader=node.raft.leader_id,
        epoch=node.raft.leader_epoch,
        session="" if zk is None else zk.state.name,
        blocked_by="" if driver is None else ", ".join(driver.bound.status.reached),
        refused={one["broker"]: (one["error"], one["text"]) for one in advice.refusals(node)},
        waits=waits,
        poisoned=0 if driver is None else len(driver.write_behind.poison.znodes),
        brokers=node.controller.stable.brokers,
    )


def _phase(node: Node, end: Mapping[str, Any] | None) -> dict[str, Any]:
    """The phase as an operator sees it; ``end``: the part about finalising."""
    image = node.controller.stable
    row = _row(node, end)
    total = len(image.brokers)
    kraft = sum(not one.is_migrating_zk_broker for one in image.brokers.values())
    return {
        "name": row.phase.value,
        "text": text_of(row.phase, kraft, total),
        "ahead": row.ahead.value,
        "driver_state": None if node.driver is None else node.driver.state.value,
        "kraft_brokers": kraft,
        "brokers": total,
    }


def _row(node: Node, end: Mapping[str, Any] | None) -> PhaseRow:
    """The row of this node in the table of phases."""
    if node.driver is not None and node.zk is not None:
        return node.driver.row((*_no_session(node.zk), *node.driver.waits.reasons))
    image = node.controller.stable
    return row_of(
        PhaseFacts(
            MigrationState(image.migration_state),
            node.migration.authority if node.raft.is_leader else Authority.GRANTED,
            None,
            brokers=modes_of(image),
            finalisation=_how_far(node, end),
        )
    )


def _how_far(node: Node, end: Mapping[str, Any] | None) -> Finalisation:
    """What keeps this leader without the flag from finalising."""
    if end is None:
        return Finalisation.OPEN
    if end["state"] == "held":
        return Finalisation.HELD
    own = str(node.config.node_id)
    with_flag = Lack.CONTROLLER_WITH_FLAG.value
    others = (one["subject"] for one in end["missing"] if one["why"] == with_flag)
    return Finalisation.MIXED if any(one != own for one in others) else Finalisation.OPEN


def _migration(node: Node, driver: MigrationDriver, now_ms: int) -> dict[str, Any]:
    found = driver.status(now_ms)
    assert node.zk is not None, "a driver has a client"
    return {
        "phase": found.phase,
        "driver_state": found.state,
        "migration_state": found.migration_state,
        "waiting": [
            {
                "why": one.reason.why.value,
                "subject": one.reason.subject,
                "text": _text(node, one.reason),
                "fatal": one.reason.fatal,
                "since": advice.iso(one.since_ms),
            }
            for one in _waiting(driver, node.zk, found)
        ],
        "records_copied": found.records_copied,
        "copy": _copy(driver.copy_progress),
        "lag": _lag(found),
        "blocked": found.bound.blocked,
        "blocked_by": ", ".join(found.bound.reached),
        "hard_blocked": found.bound.hard_blocked,
        "blocked_operations": len(node.controller.gate),
        "committed_offset": found.committed_offset,
        "confirmed_offset": found.confirmed_offset,
        "controller_epoch": found.zk_epoch,
        "epoch_headroom": advice.epoch_headroom(found, node.raft.leader_epoch),
        "claims": driver.claim_count,
        "claimed_at": advice.iso(driver.write_behind.confirmations.claimed_ms),
        "compared_at": advice.iso(driver.write_behind.confirmations.compared_ms),
        "write_behind": found.write_behind,
        "deposed_because": found.deposed_because,
        "poisoned": [
            {"znode": p.path, "cause": p.cause, "skipped": p.skipped, "remedy": p.remedy}
            for p in found.poisoned
        ],
        "poisoned_since": advice.iso(found.blocked_since_ms),
        "repairs": [*_repairs(driver)],
        "left_out": [
            {"znode": path, "reason": why} for path, why in acls.left_out(node.controller.stable)
        ],
        "may_roll_back": found.may_roll_back,
        "going_back": advice.going_back(node, found),
        "zookeeper": {
            "state": node.zk.state.name,
            "server": node.zk.server,
            "connect": ",".join(map(str, node.config.zookeeper_servers))
            + node.config.zookeeper_chroot,
            "sessions": node.zk.generation,
            "request_bytes_max": node.zk.limit.bytes,
            "requests_too_large": node.zk.limit.halved_count,
            "requests_too_slow": node.zk.limit.in_time.halved_count,
        },
    }


def _repairs(driver: MigrationDriver) -> Iterator[dict[str, Any]]:
    """What brokers failed, and what ZooKeeper refused of what a comparison repairs."""
    for one in driver.channels.repairs.known:
        yield {
            "kind": one.kind.name.lower(),
            "broker": one.broker_id,
            "request": one.request,
            "error": one.error,
            "times": one.times,
            "first_at": advice.iso(one.first_ms),
            "at": advice.iso(one.last_ms),
            "done": one.kind.done,
            "kafka": one.kind.kafka,
        }
    for znode in driver.write_behind.poison.repaired:
        yield {
            "kind": "znode_compared",
            "broker": -1,
            "request": znode.path,
            "error": znode.error,
            "times": znode.times,
            "first_at": advice.iso(znode.first_ms),
            "at": advice.iso(znode.last_ms),
            "done": "the whole tree was compared, and what differed was written",
            "kafka": "takes some such znodes as written, and tries others again without end",
        }


def _waiting(driver: MigrationDriver, zk: ZkClient, found: Status) -> tuple[Waiting, ...]:
    """All reasons to wait."""
    channels = driver.channels
    return (
        *_no_session(zk),
        *found.waiting,
        *channels.outdated.waiting,
        *channels.unreached.waiting,
    )


def _lag(found: Status) -> dict[str, Any]:
    return {
        "records": found.lag_records if found.lag_known else None,
        "longest_records": found.lag_longest_records if found.lag_known else None,
        "records_without_no_ops": found.lag_changed_records if found.lag_known else None,
        "ms": found.lag_ms,
        "counted_records": found.bound.counted_records,
        "bound_records": found.bounds.records,
        "hard_bound_records": found.bounds.hard_records,
        "counted_bytes": found.bound.counted_bytes,
        "bound_bytes": found.bounds.bytes,
        "bound_ms": found.bounds.age_ms,
        "hard_bound_in_ms": found.bound.hard_in_ms,
    }


def _copy(progress: tuple[int, int] | None) -> dict[str, int] | None:
    """How far the copy is; None: none is under way."""
    return None if progress is None else {"topics_copied": progress[0], "topics": progress[1]}


def _text(node: Node, reason: Reason) -> str:
    """What to tell of a reason; of a broker that is refused, why it is."""
    if reason.why is Why.BROKER_NOT_REGISTERED:
        why = node.controller.surroundings.registrations.why_not(int(reason.subject))
        if why is not None:
            told = f"broker {reason.subject} tries to register and is refused: {why}"
            unsupported = why.code == ErrorCode.UNSUPPORTED_VERSION.name
            if unsupported and f"of {FEATURE_NAME}." in why.text:
                version = node.controller.stable.metadata_version.name
                told += f" Restart it with inter.broker.protocol.version={version}."
            return told
    return reason.text


def _no_session(zk: ZkClient) -> list[Waiting]:
    """The reason to wait if there is no ZooKeeper session; it precedes all others."""
    if zk.servers.down is None:
        return []
    since_ms, why = zk.servers.down
    text = f"no session with ZooKeeper, tried {zk.server} last: {why}"
    return [Waiting(Reason(Why.NO_SESSION, zk.server, text), since_ms)]


def metrics(node: Node, now_ms: int) -> dict[Metric, Any]:
    """All metrics that this node has values for."""
    image = node.controller.stable
    brokers = list(image.brokers.values())
    counters = node.counters
    values: dict[Metric, Any] = {
        metric.ACTIVE_CONTROLLER_COUNT: int(node.active),
        metric.ZK_MIGRATION_STATE: int(image.migration_state),
        metric.PHASE: one_label({_row(node, finalisation(node)).phase.value: 1}),
        metric.METADATA_TYPE: _metadata_type(node, image.migration_state),
        metric.FEATURES: {
            (name, str(level)): 1 for name, level in sorted(image.finalised_features.items())
        },
        metric.MIGRATING_ZK_BROKER_COUNT: sum(b.is_migrating_zk_broker for b in brokers),
        metric.ACTIVE_BROKER_COUNT: sum(not b.fenced for b in brokers),
        metric.FENCED_BROKER_COUNT: sum(b.fenced for b in brokers),
        metric.REFUSED_BROKERS: _refused(node),
        metric.GLOBAL_TOPIC_COUNT: len(image.topics),
        metric.GLOBAL_PARTITION_COUNT: _partition_count(image),
        metric.OFFLINE_PARTITION_COUNT: len(node.controller.surroundings.index.unled),
        metric.PREFERRED_REPLICA_IMBALANCE_COUNT: len(
            node.controller.surroundings.index.imbalanced
        ),
        metric.LAST_APPLIED_RECORD_OFFSET: image.offset,
        metric.LAST_COMMITTED_RECORD_OFFSET: node.raft.high_watermark - 1,
        raft_metrics.CURRENT_EPOCH: node.raft.leader_epoch,
        raft_metrics.CURRENT_LEADER: node.raft.leader_id,
        raft_metrics.HIGH_WATERMARK: node.raft.high_watermark,
        raft_metrics.LOG_END_OFFSET: node.raft.log_end_offset,
        metric.ZK_WRITE_BLOCKING_KRAFT_MS: node.blocking_ms,
        metric.ZK_WRITE_BLOCKING_KRAFT_TOTAL_MS: node.blocked_total_ms(now_ms),
        metric.ZK_WRITE_BLOCKING_KRAFT_UNION_MS: node.blocked_union_ms(now_ms),
        metric.ZK_BLOCKED_OPERATIONS: len(node.controller.gate),
        metric.EVENT_QUEUE_TIME_MS: node.controller.surroundings.queue_ms,
        metric.REQUESTS_WAITING: counters.waiting,
        metric.LONGEST_STEP_MS: {
            ("any",): counters.longest_step_ns / 1e6,
            ("cpu",): counters.longest_step_cpu_ns / 1e6,
        },
        metric.REQUESTS: {
            (api_name(key), "yes" if forwarded else "no"): count
            for (key, forwarded), count in sorted(counters.answered.items())
        },
        metric.REQUEST_LATENCY_MS: {
            (api_name(key),): latency for key, latency in sorted(counters.latency_ms.items())
        },
        metric.REQUEST_ERRORS: {
            (api, _error_name(code)): count
            for (api, code), count in sorted(counters.request_errors.items())
        },
        metric.TIMED_OUT_BROKER_HEARTBEAT_COUNT: counters.request_errors.get(_LATE_HEARTBEAT, 0),
        metric.NEW_ACTIVE_CONTROLLERS_COUNT: counters.elections,
        metric.REQUEST_FAILURES: {
            (api_name(key), error, place): count
            for (key, error, place), count in sorted(node.controller.answers.failures.total.items())
        },
        raft_metrics.SNAPSHOT_FAILURES: node.snapshots.failures,
        metric.CONNECTIONS: one_label(node.connections.open_by_listener),
        metric.CONNECTIONS_ACCEPTED: one_label(node.connections.accepted_total),
        metric.CONNECTIONS_REFUSED: {
            ("invalid",): node.connections.refused_total,
            ("limit",): node.connections.turned_away_total,
            ("idle",): node.connections.idle_total,
        },
    }
    if node.driver is not None and node.zk is not None:
        values |= _migration_metrics(node.driver, node.zk, now_ms)
    return values


def _metadata_type(node: Node, state: MigrationState) -> int:
    """1: ZooKeeper has the metadata, 2: the log has, 3: both. Source: KIP-866, Metrics."""
    if state is MigrationState.MIGRATION:
        return 3
    waiting = state is MigrationState.PRE_MIGRATION or (not state and node.driver is not None)
    return 1 if waiting else 2


def _refused(node: Node) -> dict[tuple[str, ...], int]:
    """1 for each broker that is refused, and for what error."""
    refusals = node.controller.surroundings.registrations.refusals()
    return {(str(one.cause.broker_id), one.cause.code): 1 for one in refusals}


def _migration_metrics(driver: MigrationDriver, zk: ZkClient, now_ms: int) -> Mapping[Metric, Any]:
    found = driver.status(now_ms)
    behind = driver.write_behind
    pipeline = behind.pipeline
    multis = sum(pipeline.multis.values())
    return {
        metric.ZK_WRITE_BEHIND_LAG: found.lag_records,
        metric.ZK_WRITE_BEHIND_LAG_WITHOUT_NO_OPS: found.lag_changed_records,
        metric.ZK_WRITE_BEHIND_LAG_MS: found.lag_ms,
        metric.ZK_PENDING_RECORDS: found.lag_changed_records,
        metric.ZK_WRITE_BEHIND_COUNTED: found.bound.counted_records,
        metric.ZK_WRITE_BEHIND_BOUND: found.bounds.records,
        metric.ZK_WRITE_BEHIND_HARD_BOUND: found.bounds.hard_records,
        metric.ZK_WRITE_BEHIND_BYTES: found.bound.counted_bytes,
        metric.ZK_WRITE_SNAPSHOT_TIME_MS: behind.confirmations.snapshot_time_ms,
        metric.ZK_WRITE_DELTA_TIME_MS: behind.confirmations.delta_time_ms,
        metric.ZK_MULTIS: one_label(pipeline.multis),
        metric.ZK_MULTI_OPS: one_label(pipeline.multi_ops),
        metric.ZK_MULTI_BYTES: pipeline.multi_bytes,
        metric.ZK_MULTI_LATENCY_MS: pipeline.multi_latency_ms,
        metric.ZK_MULTIS_IN_FLIGHT: pipeline.in_flight,
        metric.ZK_COALESCING_RATIO: behind.confirmations.records / multis if multis else 1.0,
        metric.ZK_POISONED_ZNODES: len(found.poisoned),
        metric.ZK_CLAIMS: driver.claim_count,
        metric.LAST_ZK_ACKED_RECORD_OFFSET: found.confirmed_offset,
        metric.BROKER_REQUESTS: dict(sorted(driver.channels.outcomes.items())),
        metric.BROKER_REQUESTS_WAITING: {
            (str(broker_id),): n for broker_id, n in sorted(driver.channels.waiting.items())
        },
        metric.BROKERS_NOT_ANSWERING: driver.channels.cut_count,
        metric.REASONS_TO_WAIT: one_label(
            dict.fromkeys((one.value for one in Why), 0)
            | Counter(one.reason.why.value for one in _waiting(driver, zk, found))
        ),
        metric.ZK_SESSIONS: zk.generation,
        metric.ZK_REQUEST_LIMIT_BYTES: zk.limit.bytes,
    }


def gauges(node: Node, now_ms: int) -> dict[str, float]:
    """The gauges sampled into the trace, by metric name."""
    if node.driver is None:
        return {}
    lag = node.driver.write_behind.lag
    values: dict[Metric, Value] = {
        metric.ZK_WRITE_BEHIND_LAG: lag.records,
        metric.ZK_WRITE_BEHIND_LAG_WITHOUT_NO_OPS: lag.changed_records,
        metric.ZK_WRITE_BEHIND_LAG_MS: lag.age_ms(now_ms),
        metric.ZK_BLOCKED_OPERATIONS: len(node.controller.gate),
        metric.LAST_COMMITTED_RECORD_OFFSET: node.raft.high_watermark - 1,
    }
    return {one.name: float(value) for one, value in values.items() if isinstance(value, int)}


def _partition_count(image: Image) -> int:
    return sum(len(topic.partitions) for topic in image.topics.values())


def _error_name(code: str) -> str:
    try:
        return ErrorCode(int(code)).name
    except ValueError:
        return code
