"""Rows of one stack: kills of the leader, and commits one after the other."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.beside.machine import Meter, wait_quiet
from bench.chaos import quorum
from bench.chaos.run import start
from bench.chaos.stage import Options, Stage, restart
from bench.demo.controllers import IDS
from bench.load.connection import Connection, address_of
from bench.rig.ports import HOST
from bench.rig.waiting import wait_for
from wire import messages as m

STACKS: Final = {"ours": 0, "kafka": 3}
"""Name -> how many of the three controllers are Kafka's."""
COMMITS: Final = 300
WARM_UPS: Final = 600
"""Changes before anything is timed: Java compiles what it runs often."""
_TIMEOUT_S: Final = 60.0
_AGAIN_S: Final = 0.01
"""Pause before an attempt is repeated."""
_REST_S: Final = 2.0
_LAG_MAX: Final = 2
Row = dict[str, Any]


def rows(
    folder: Path, stack: str, kills: int, patience_s: float, say: Callable[[Row], None]
) -> Iterator[Row]:
    """Rows of both parts; each part has servers of its own, one real broker among them."""
    for linger_ms in (25, 0):
        with _stage(folder / f"{stack}-{linger_ms}", stack, linger_ms) as stage:
            start(stage)
            parts = [_commits(stage)] if linger_ms == 0 else [_commits(stage), _kills(stage, kills)]
            for row in itertools.chain.from_iterable(parts):
                row |= {"stack": stack, "linger_ms": linger_ms}
                say(row)
                yield row
        wait_quiet(patience_s)


def _stage(folder: Path, stack: str, linger_ms: int) -> Stage:
    more: Mapping[str, object] = {"controller.quorum.append.linger.ms": linger_ms}
    return Stage(Options(folder, kafkas=STACKS[stack], properties=more, brokers=1))


def _commits(stage: Stage) -> Iterator[Row]:
    """Changes one after the other, straight to the leader."""
    leader = _leader(stage)
    address = f"{HOST}:{stage.controllers[IDS.index(leader.node_id)].port}"
    asyncio.run(_one_by_one(address, WARM_UPS))
    pids = {s.folder.name: s.pid for s in stage.controllers if s.pid is not None}
    meter = Meter(pids)
    times = sorted(asyncio.run(_one_by_one(address, COMMITS)))
    usage = meter.usage()
    yield {
        "what": "commit",
        "calls": len(times),
        "p50_ms": round(times[len(times) // 2] * 1e3, 3),
        "p99_ms": round(times[int(len(times) * 0.99)] * 1e3, 3),
        "cpu_ms_each": round(sum(usage.cpu_s[name] for name in pids) / len(times) * 1e3, 3),
        "others_cores": round(usage.others_cores, 2),
    }


async def _one_by_one(address: str, count: int) -> list[float]:
    connection = await Connection.open(address_of(address), "failover", itertools.count(1))
    times = []
    try:
        for number in range(count):
            begin = time.monotonic()
            answer, _ = await connection.call(_change(number))
            assert answer.entries[0].error_code == 0, answer
            times.append(time.monotonic() - begin)
    finally:
        connection.close()
    return times


def _change(number: int) -> Any:
    kind = m.AlterClientQuotasRequest
    entity = [kind.EntityData(entity_type="user", entity_name=f"user-{number % 20}")]
    ops = [kind.OpData(key="producer_byte_rate", value=1e6 + number, remove=False)]
    return kind(entries=[kind.EntryData(entity=entity, ops=ops)], validate_only=False)


def _kills(stage: Stage, count: int) -> Iterator[Row]:
    """The leader is killed; changes are sent through the broker until one succeeds."""
    for number in range(count):
        time.sleep(_REST_S)
        leader = _leader(stage)
        place = IDS.index(leader.node_id)
        asyncio.run(_until_done(stage, time.monotonic()))
        killed = time.monotonic()
        stage.controllers[place].kill()
        through_broker_s, attempts = asyncio.run(_until_done(stage, killed))
        follows = _leader(stage)
        restart(stage.controllers[place])
        wait_for("the killed one to follow", lambda: _all_follow(stage), _TIMEOUT_S)
        yield {
            "what": "kill",
            "number": number,
            "killed": leader.node_id,
            "leads": follows.node_id,
            "epochs": follows.epoch - leader.epoch,
            "first_change_s": round(through_broker_s, 3),
            "attempts": attempts,
        }


async def _until_done(stage: Stage, since: float) -> tuple[float, int]:
    """Send changes through the broker until one is carried out: (seconds since, attempts)."""
    address = address_of(stage.brokers[0].bootstrap)
    connection = await Connection.open(address, "failover", itertools.count(1))
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            for attempt in itertools.count(1):
                answer, _ = await connection.call(_change(attempt))
                if answer.entries[0].error_code == 0:
                    return time.monotonic() - since, attempt
                await asyncio.sleep(_AGAIN_S)
    finally:
        connection.close()
    raise AssertionError("not reached")


def _leader(stage: Stage) -> quorum.Leader:
    return wait_for("a leader", lambda: quorum.leaders(stage), _TIMEOUT_S)[-1]


def _all_follow(stage: Stage) -> bool:
    for server in stage.controllers:
        said = quorum.described(server.port) if server.alive else None
        if said is not None:
            ends = [voter.log_end_offset for voter in said.current_voters]
            return bool(max(ends) - min(ends) <= _LAG_MAX)
    return False


def summary(taken: list[Row]) -> list[str]:
    """Lines of a table in Markdown: medians of both stacks."""
    lines = ["| what | " + " | ".join(STACKS) + " | ratio |", "|---|" + "---:|" * 3]
    for what, linger_ms, name, label in (
        ("kill", 25, "first_change_s", "leader killed to first change, s (median)"),
        ("commit", 25, "p50_ms", "commit p50, ms, linger 25"),
        ("commit", 0, "p50_ms", "commit p50, ms, linger 0"),
        ("commit", 0, "p99_ms", "commit p99, ms, linger 0"),
        ("commit", 0, "cpu_ms_each", "CPU of the three controllers for a commit, ms, linger 0"),
        ("migration", None, "elected_s", "in a migration: leader killed to the next election, s"),
        ("migration", None, "dual_write_s", "elected to dual write, nothing to write, s"),
        ("migration", None, "zookeeper_writes", "transactions of ZooKeeper meanwhile"),
    ):
        found = {
            stack: [
                row[name]
                for row in taken
                if (row["what"], row.get("linger_ms"), row["stack"]) == (what, linger_ms, stack)
            ]
            for stack in STACKS
        }
        if all(found.values()):
            ours, kafkas = (median(values) for values in found.values())
            lines.append(f"| {label} | {ours:.4g} | {kafkas:.4g} | {ours / kafkas:.2f} |")
    return lines
