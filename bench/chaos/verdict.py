"""What must hold at the end, from outside: by what clients were answered, the logs, ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.chaos.level import Store, differing, whole_logs
from bench.chaos.refusals import Period, unfounded
from bench.chaos.stage import Controller, Stage
from bench.demo.controllers import IDS
from bench.demo.verdict import never_there, refused, undeleted, unlike
from bench.judge.stores import Entities, differences, dump_log, end_of, from_log
from bench.load.admin import AdminResult
from bench.load.records import ConsumeResult, ProduceResult, Verdict
from emulator.servers.process import ServerProcess

_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Found:
    """The answers that clients got, and the controllers that answered as leader."""

    admin: AdminResult
    produced: ProduceResult
    consumed: ConsumeResult
    read: Verdict
    leaders: Mapping[int, set[int]]
    """Epoch -> controllers that answered as its leader."""
    committed: int
    """High watermark of the metadata log when the load had ended."""
    struck: Sequence[Period] = ()
    """When controllers were struck, monotonic ms."""


def failures(stage: Stage, found: Found, lead: Callable[[], Controller]) -> list[str]:
    """One line for each thing that must not be; empty if the run held.

    What a log or ZooKeeper lacks is waited for, 15 minutes at most.

    Args:
        stage: everything runs.
        found: the answers that clients got.
        lead: in a migration; makes one of ours the leader (kills Kafka's leader if need be), and
            returns it.

    Raises:
        CalledProcessError: Kafka's tool cannot read a log.
    """
    lines = [*ended_servers(stage.all), *epochs_with_two_leaders(found.leaders)]
    lines += client_failures(found)
    folders = {node_id: server.data for node_id, server in _of(stage)}
    records = whole_logs(lambda node_id: dump_log(folders[node_id]), folders, found.committed)
    lines += agreement(records, found.committed)
    longest = max(records.values(), key=len)
    lines += refused(found.admin, longest)
    ahead_ns = time.time_ns() - time.monotonic_ns()
    lines += unfounded(found.admin.not_now, longest, found.struck, ahead_ns)
    logs = {node_id: from_log(each) for node_id, each in records.items()}
    lines += missing_from_logs(found.admin, logs)
    if stage.zk is not None:
        store = Store(stage.zk, kafkas=stage.options.kafkas)
        judged = differing(store.offset, store.tree, lambda: dump_log(lead().data), lead)
        lines += [f"stores: {line}" for line in judged[:_SHOWN]]
    return lines


def between_stores(stage: Stage) -> list[str]:
    """What differs between ZooKeeper and the longest log, as it is now."""
    assert stage.zk is not None
    tree = Store(stage.zk, kafkas=stage.options.kafkas).tree()
    longest = max((dump_log(each.data) for _, each in _of(stage)), key=end_of)
    return differences(tree, from_log(longest))[:_SHOWN]


def _of(stage: Stage) -> Iterable[tuple[int, Controller]]:
    return zip(IDS, stage.controllers, strict=True)


def ended_servers(servers: Sequence[ServerProcess]) -> list[str]:
    """Servers that ended by themselves."""
    return [
        f"{server.folder.name}/{server.name} ended with {server.exit_code}"
        for server in servers
        if not server.alive
    ]


def epochs_with_two_leaders(leaders: Mapping[int, set[int]]) -> list[str]:
    """Epochs in which more than one controller answered as leader."""
    return [
        f"epoch {epoch}: led by {sorted(ids)}" for epoch, ids in leaders.items() if len(ids) > 1
    ]


def client_failures(found: Found) -> list[str]:
    """Records that were acknowledged and are not there; errors that no retry mends."""
    lines = []
    if not found.read.held or found.read.read < found.read.acknowledged:
        lines.append(
            f"records: {found.read.acknowledged} acknowledged, {found.read.read} read; missing "
            f"{found.read.missing[:_SHOWN]}, twice {found.read.duplicated[:_SHOWN]}, out of order "
            f"{found.read.out_of_order[:_SHOWN]}"
        )
    if not found.read.acknowledged or not found.admin.done.total():
        lines.append("nothing was acknowledged: the run shows nothing")
    for topic, number in sorted(found.consumed.unread(found.produced.acknowledged)):
        position = found.consumed.positions.get((topic, number), 0)
        lines.append(f"the group has not read {topic}-{number} beyond offset {position}")
    lines += [f"record: {count} x {error}" for error, count in found.produced.failed.items()]
    lines += [f"consumer: {count} x {error}" for error, count in found.consumed.failed.items()]
    if found.admin.unsent:
        lines.append(f"{found.admin.unsent} changes were never sent: no connection was free")
    return lines


def agreement(records: Mapping[int, Sequence[Mapping[str, Any]]], committed: int) -> list[str]:
    """Logs that lack what was committed, or that hold different records at one offset.

    They are read one after the other while the quorum goes on: a later one may be longer.
    """
    lines = []
    merged: dict[int, tuple[int, Mapping[str, Any]]] = {}
    for node_id, each in records.items():
        end = end_of(each)
        if end < committed - 1:
            lines.append(f"controller {node_id}: ends at {end}, committed is {committed - 1}")
        for record in each:
            other, there = merged.setdefault(record["offset"], (node_id, record))
            if there != record:
                lines.append(
                    f"offset {record['offset']}: controller {other} has {there}, {node_id} {record}"
                )
                break
    return lines


def missing_from_logs(admin: AdminResult, logs: Mapping[int, Entities]) -> list[str]:
    """Changes that were acknowledged and are not in a log."""
    lines = []
    for node_id, log in logs.items():
        found = [*unlike(admin.topics, log), *undeleted(admin, log), *never_there(admin, log)]
        lines += [f"controller {node_id}: {line}" for line in found[:_SHOWN]]
    return lines
