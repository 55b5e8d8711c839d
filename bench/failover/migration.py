"""A failover in a migration in which nothing differs: from the election to dual write."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from bench.beside.machine import wait_quiet
from bench.chaos import quorum
from bench.chaos.stage import CLUSTER, Controller, Options, Stage, restart
from bench.demo.controllers import IDS
from bench.failover.rows import STACKS, Row
from bench.rig.bridge import Bridge
from bench.rig.fleet import Fleet
from bench.rig.ports import HOST
from bench.rig.waiting import wait_for
from emulator.commands.admin_client import Connection
from wire import messages as m

TOPICS, PARTITIONS = 200, 100
AT_ONCE: Final = 10
"""Topics of one request."""
_LONG_S: Final = 600.0
_POLL_S: Final = 0.01
_REST_S: Final = 3.0
IDLE_MAX: Final = 12
"""Transactions in ``_REST_S`` of a cluster at rest: NoOp records may move ``/migration``."""


def rows(
    folder: Path, stack: str, kills: int, patience_s: float, say: Callable[[Row], None]
) -> Iterator[Row]:
    """One row for each kill of the leader, with three emulated brokers that migrate."""
    wait_quiet(patience_s)
    options = Options(folder / f"{stack}-migration", kafkas=STACKS[stack], servers=1, brokers=0)
    with Stage(options) as stage, ExitStack() as stack_of:
        _start(stage, stack_of)
        _create(stage)
        for number in range(kills):
            _drained(stage)
            time.sleep(_REST_S)
            row = {"what": "migration", "stack": stack, "number": number} | _kill(stage)
            say(row)
            yield row


def _start(stage: Stage, stack_of: ExitStack) -> None:
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
    connection = Connection(HOST, stage.controllers[IDS.index(leader.node_id)].port, _LONG_S)
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


def _leader(stage: Stage) -> quorum.Leader:
    return wait_for("a leader", lambda: quorum.leaders(stage), _LONG_S)[-1]


def _claims(server: Controller) -> int:
    """How often a controller says in its log that dual write has begun."""
    said = "to=DUAL_WRITE" if isinstance(server, Bridge) else "to DUAL_WRITE state"
    return sum(said in line for line in server.lines())


def _dual_writing(server: Controller) -> bool:
    return _claims(server) > 0


def _drained(stage: Stage) -> None:
    """Wait until ZooKeeper does not change any more."""
    last = stage.zookeepers[0].transactions()
    while True:
        time.sleep(_REST_S)
        now = stage.zookeepers[0].transactions()
        if now - last <= IDLE_MAX:
            return
        last = now
