"""What must hold at the end, from outside: by the clients' own book, the logs, ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.chaos.stage import Controller, Stage
from bench.demo.controllers import IDS
from bench.demo.verdict import refused, undeleted, unlike
from bench.judge.stores import Entities, differences, dump_log, from_dump, from_log
from bench.load.admin import AdminResult
from bench.load.records import ConsumeResult, ProduceResult, Verdict
from bench.rig.process import Process
from bench.rig.zk_dump import dump

_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Found:
    """What the clients were told, and who said that it leads."""

    admin: AdminResult
    produced: ProduceResult
    consumed: ConsumeResult
    read: Verdict
    leaders: Mapping[int, set[int]]
    """Epoch -> controllers that said that they lead in it."""
    committed: int
    """High watermark of the metadata log when the load had ended."""


def wrong(stage: Stage, found: Found) -> list[str]:
    """One line for each thing that must not be; empty if the run held."""
    lines = [*dead([*stage.controllers, *stage.brokers]), *leading(found.leaders), *clients(found)]
    records = {node_id: dump_log(server.data) for node_id, server in _of(stage)}
    lines += agreement(records, found.committed)
    lines += refused(found.admin, max(records.values(), key=len))
    logs = {node_id: from_log(each) for node_id, each in records.items()}
    lines += stores(found.admin, logs)
    if stage.zk is not None:
        lines += [f"stores: {line}" for line in _unlike(stage.zk, logs, stage.options.kafkas)]
    return lines


def between_stores(stage: Stage) -> list[str]:
    """What differs between ZooKeeper and the longest log."""
    assert stage.zk is not None
    logs = {node_id: from_log(dump_log(each.data)) for node_id, each in _of(stage)}
    return _unlike(stage.zk, logs, stage.options.kafkas)


def _unlike(zk: str, logs: Mapping[int, Entities], kafkas: int) -> list[str]:
    tree = from_dump(dump(zk, with_secrets=True))
    if kafkas:  # a controller of Kafka's compares no versions when it is elected
        tree.versions = None
    newest = max(logs.values(), key=lambda log: log.offset)
    return differences(tree, newest)[:_SHOWN]


def _of(stage: Stage) -> Iterable[tuple[int, Controller]]:
    return zip(IDS, stage.controllers, strict=True)


def dead(servers: Sequence[Process]) -> list[str]:
    """Servers that ended by themselves."""
    return [
        f"{server.folder.name}/{server.name} ended with {server.exit_code}"
        for server in servers
        if not server.alive
    ]


def leading(leaders: Mapping[int, set[int]]) -> list[str]:
    """Epochs in which more than one controller said that it leads."""
    return [
        f"epoch {epoch}: led by {sorted(ids)}" for epoch, ids in leaders.items() if len(ids) > 1
    ]


def clients(found: Found) -> list[str]:
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
    if not found.consumed.kept_up(len(found.produced.acknowledged)):
        lines.append(f"the group read {found.consumed.consumed} records only")
    for what, failed in (("record", found.produced.failed), ("consumer", found.consumed.failed)):
        lines += [f"{what}: {count} x {error}" for error, count in failed.items()]
    return lines


def agreement(records: Mapping[int, Sequence[Mapping[str, Any]]], committed: int) -> list[str]:
    """Logs that lack what was committed, or that hold different records at one offset.

    They are read one after the other while the quorum goes on: a later one may be longer.
    """
    lines = []
    merged: dict[int, tuple[int, Mapping[str, Any]]] = {}
    for node_id, each in records.items():
        end = max((record["offset"] for record in each), default=-1)
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


def stores(admin: AdminResult, logs: Mapping[int, Entities]) -> list[str]:
    """Changes that were acknowledged and are not in a log."""
    lines = []
    for node_id, log in logs.items():
        found = [*unlike(admin.topics, log), *undeleted(admin, log)]
        lines += [f"controller {node_id}: {line}" for line in found[:_SHOWN]]
    return lines
