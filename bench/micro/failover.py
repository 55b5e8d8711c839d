"""Three controllers of ours lose their leader, then three of Kafka's: until a change is made again.

The leader is killed several times: from the kill until a change sent through a real broker is
carried out; and the time of commits one after the other, with
``controller.quorum.append.linger.ms`` 25 (Kafka's default) and 0, in plain KRaft mode. Then the
same kills in a migration with 200 topics of 100 partitions in which nothing differs: from the
election until dual write goes on, and the transactions of ZooKeeper meanwhile. Whether ours needs
longer after a kill (median) is of speed: it is said, and not judged where the machine was busy.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.chaos import quorum
from bench.chaos.run import start
from bench.chaos.stage import CLUSTER, Controller, Options, Stage, restart
from bench.demo.controllers import IDS
from bench.load.connection import Connection, address_of
from bench.micro import table
from emulator.io.kafka_client import Connection as Blocking
from emulator.servers.bridge import Bridge
from emulator.servers.fleet import Fleet
from emulator.servers.machine import Meter, Shared, Sharing, wait_quiet
from emulator.servers.ports import HOST
from emulator.servers.waiting import wait_for
from emulator.trace.distribution import percentile
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
TOPICS, PARTITIONS = 200, 100
AT_ONCE: Final = 10
"""Topics of one request."""
_LONG_S: Final = 600.0
_POLL_S: Final = 0.01
_DRAIN_S: Final = 3.0
IDLE_MAX: Final = 12
"""Transactions in ``_DRAIN_S`` of a cluster at rest: NoOp records may move ``/migration``."""
FIGURES: Final = {
    "first_change_s": "leader killed to first change, s",
    "p50_ms": "commit p50, ms",
    "p99_ms": "commit p99, ms",
    "cpu_ms_each": "CPU of the three controllers for a commit, ms",
    "elected_s": "leader killed to the next election, s",
    "dual_write_s": "elected to dual write, nothing to write, s",
    "zookeeper_writes": "transactions of ZooKeeper meanwhile",
}
Row = dict[str, Any]


def options(parser: ArgumentParser) -> None:
    """What may be asked for."""
    parser.add_argument("--kills", type=int, default=7)
    parser.add_argument("--parts", nargs="+", choices=[*PARTS], default=[*PARTS])


def rows(asked: Namespace, folder: Path) -> Iterator[Row]:
    """The rows of each part and stack, and how the cores were shared meanwhile."""
    shared = Shared()
    for part, stack in itertools.product(asked.parts, STACKS):
        for row in PARTS[part](folder, stack, asked.kills, asked.patience):
            yield {"stack": stack, **row}
    yield {"what": "machine", "stack": "", **asdict(shared.read())}


def summary(rows: Sequence[Row]) -> tuple[str, bool]:
    """Medians of both stacks; a slower result of ours is printed, and is no failure."""
    taken = [row for row in rows if row["what"] != "machine"]
    text = table.beside(taken, ("what", "linger_ms"), "stack", [*STACKS], FIGURES)
    [machine] = [row for row in rows if row["what"] == "machine"]
    sharing = Sharing(machine["cores"], machine["ours"], machine["others"])
    kills = any(row["what"] == "kill" for row in taken)
    return text + (f"\n\n{judged(taken, sharing)}" if kills else ""), True


def judged(taken: Sequence[Row], sharing: Sharing) -> str:
    """Whether ours needs no longer than Kafka's after a kill, in one line."""
    ours, kafkas = (
        median(r["first_change_s"] for r in taken if (r["what"], r["stack"]) == ("kill", stack))
        for stack in STACKS
    )
    word = "OK" if ours <= kafkas else "NOT JUDGED" if sharing.busy else "FAILED"
    figures = f"{ours:.2f} s, Kafka's {kafkas:.2f} s; {sharing}"
    return f"{word:<12}ours needs no longer than Kafka's after a kill: {figures}"


def _kraft(folder: Path, stack: str, kills: int, patience_s: float) -> Iterator[Row]:
    """Rows of both lingers; each has servers of its own, one real broker among them."""
    for linger_ms in (25, 0):
        with _stage(folder / f"{stack}-{linger_ms}", stack, linger_ms) as stage:
            start(stage)
            parts = [_commits(stage)] if linger_ms == 0 else [_commits(stage), _kills(stage, kills)]
            for row in itertools.chain.from_iterable(parts):
                yield row | {"linger_ms": linger_ms}
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
        "p50_ms": percentile([each * 1e3 for each in times], 0.5),
        "p99_ms": percentile([each * 1e3 for each in times], 0.99),
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
        answer = quorum.described(server.port) if server.alive else None
        if answer is not None:
            ends = [voter.log_end_offset for voter in answer.current_voters]
            return bool(max(ends) - min(ends) <= _LAG_MAX)
    return False


def _migrating(folder: Path, stack: str, kills: int, patience_s: float) -> Iterator[Row]:
    """One row for each kill of the leader, with three emulated brokers that migrate."""
    wait_quiet(patience_s)
    options = Options(folder / f"{stack}-migration", kafkas=STACKS[stack], servers=1, brokers=0)
    with Stage(options) as stage, ExitStack() as stack_of:
        _start_migrating(stage, stack_of)
        _create(stage)
        for number in range(kills):
            _drained(stage)
            time.sleep(_DRAIN_S)
            yield {"what": "migration", "number": number} | _kill(stage)


def _start_migrating(stage: Stage, stack_of: ExitStack) -> None:
    [server] = stage.zookeepers
    server.start().wait_started()
    assert stage.zk is not None
    addresses = ",".join(f"{HOST}:{proxy.port}" for proxy in stage.proxies)
    fleet = Fleet(stage.options.out, stage.zk, addresses, CLUSTER)
    stack_of.callback(fleet.kill)
    fleet.start().wait_announced()
    for each in stage.controllers:
        if isinstance(each, Bridge):
            each.format(CLUSTER, new_quorum=True)
        each.start()
    for each in stage.controllers:
        each.wait_started()
    wait_for("dual write", lambda: any(map(_dual_writing, stage.controllers)), _LONG_S)


def _create(stage: Stage) -> None:
    leader = _leader(stage)
    kind = m.CreateTopicsRequest
    connection = Blocking(HOST, stage.controllers[IDS.index(leader.node_id)].port, _LONG_S)
    with contextlib.closing(connection):
        for first in range(0, TOPICS, AT_ONCE):
            topics = [
                kind.CreatableTopic(
                    name=f"topic-{number}", num_partitions=PARTITIONS, replication_factor=3
                )
                for number in range(first, first + AT_ONCE)
            ]
            answer = connection.call(kind(topics=topics, timeout_ms=600_000))
            assert {one.error_code for one in answer.topics} == {0}, answer


def _kill(stage: Stage) -> Row:
    leader = _leader(stage)
    place = IDS.index(leader.node_id)
    others = [each for each in stage.controllers if each is not stage.controllers[place]]
    before = {each.folder: _claims(each) for each in others}
    writes = stage.zookeepers[0].transactions()
    killed = time.monotonic()
    stage.controllers[place].kill()
    won = _until(lambda: [one for one in quorum.leaders(stage) if one.epoch > leader.epoch])
    again = _until(lambda: [each for each in others if _claims(each) > before[each.folder]])
    row = {
        "elected_s": round(won - killed, 3),
        "dual_write_s": round(again - won, 3),
        "zookeeper_writes": stage.zookeepers[0].transactions() - writes,
    }
    restart(stage.controllers[place])
    stage.controllers[place].wait_started()
    return row


def _until(ready: Callable[[], Any]) -> float:
    end = time.monotonic() + _LONG_S
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError("the failover did not end")
        time.sleep(_POLL_S)
    return time.monotonic()


def _claims(server: Controller) -> int:
    """How often a controller logged that dual write has begun."""
    mark = "to=DUAL_WRITE" if isinstance(server, Bridge) else "to DUAL_WRITE state"
    return sum(mark in line for line in server.lines())


def _dual_writing(server: Controller) -> bool:
    return _claims(server) > 0


def _drained(stage: Stage) -> None:
    """Wait until ZooKeeper does not change any more."""
    last = stage.zookeepers[0].transactions()
    while True:
        time.sleep(_DRAIN_S)
        now = stage.zookeepers[0].transactions()
        if now - last <= IDLE_MAX:
            return
        last = now


PARTS: Final[Mapping[str, Callable[[Path, str, int, float], Iterator[Row]]]] = {
    "kraft": _kraft,
    "migration": _migrating,
}
