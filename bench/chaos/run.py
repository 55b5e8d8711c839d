"""One run: servers, clients, strikes, calm, verdict; what it started has ended when it returns."""

from __future__ import annotations

import functools
import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any, Final, Self

from bench.chaos import quorum, verdict
from bench.chaos.plan import LEADER, Strike, strikes
from bench.chaos.stage import CLUSTER, Options, Stage, restart
from bench.demo.clients import Clients
from bench.demo.controllers import IDS
from bench.demo.seed import ask
from bench.load import cluster_api as api
from bench.load.admin import AdminResult
from bench.rig.bridge import Bridge
from bench.rig.kafka import Broker
from bench.rig.process import running
from bench.rig.readiness import known_to
from bench.rig.seeded import cluster_id
from bench.rig.waiting import wait_for

RECORDS: Final = {"records-a": 3, "records-b": 3}
_STARTED_S: Final = 120.0
_CALM_S: Final = 120.0
_ASK_EVERY_S: Final = 0.5
Say = Callable[[str, dict[str, Any]], None]


class Leadership:
    """Asks the controllers now and then who leads, in a thread; knows the leader last seen."""

    def __init__(self, stage: Stage, say: Say) -> None:
        self._stage = stage
        self._say = say
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="leadership", daemon=True)
        self.seen: dict[int, set[int]] = {}
        """Epoch -> who said that it leads in it."""

    @property
    def leader(self) -> int | None:
        """Place of the controller that led last."""
        if not self.seen:
            return None
        return IDS.index(min(self.seen[max(self.seen)]))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_ASK_EVERY_S):
            for one in quorum.leaders(self._stage):
                if one.node_id not in self.seen.setdefault(one.epoch, set()):
                    self.seen[one.epoch].add(one.node_id)
                    self._say("leader", {"epoch": one.epoch, "node": one.node_id})


def run(options: Options) -> int:
    """Run one round.

    Returns:
        Exit code: 0 if nothing was wrong, 1 if something was.

    Raises:
        ProcessError: the servers do not start.
    """
    options.out.mkdir(parents=True)
    begin = time.monotonic()
    log = (options.out / "events.jsonl").open("a")

    def say(what: str, values: dict[str, Any]) -> None:
        line = {"at_s": round(time.monotonic() - begin, 2), "what": what, **values}
        log.write(json.dumps(line) + "\n")
        log.flush()
        _print(json.dumps(line))

    say("begin", {**asdict(options), "out": str(options.out)})
    with log, Stage(options) as stage:
        clients = Clients(stage.bootstrap, options.out / "trace", options.out.name)
        try:
            wrong = _story(stage, clients, say)
        finally:
            clients.abandon()
    left = [process.name for process in running()]
    if left:
        wrong.append(f"processes left behind: {left}")
    for line in wrong:
        _print(f"WRONG: {line}")
    _print(f"chaos {'FAILED' if wrong else 'OK'}: seed {options.seed}")
    return int(bool(wrong))


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _story(stage: Stage, clients: Clients, say: Say) -> list[str]:
    start(stage)
    topics = [
        api.topic(name, count, 3, {"min.insync.replicas": "2"}) for name, count in RECORDS.items()
    ]
    ask(lambda: api.create_topics(stage.brokers[0].bootstrap, topics))
    wait_for("leaders", lambda: not _short(stage), _STARTED_S)
    say("started", {})
    clients.start(RECORDS)
    with Leadership(stage, say) as leadership:
        load = clients.administer(stage.options.rate)
        _strike(stage, clients, leadership, load, say)
        say("calm", {})
        done = load.result(_CALM_S)
        wait_for("replicas in sync", lambda: not _short(stage), _CALM_S)
        say("in sync", {})
        produced, consumed = clients.stop()
        read = clients.verify(produced.acknowledged)
        if stage.zk is not None:
            _ours_leads(stage, say)
            wait_for("ZooKeeper with every record", lambda: _lag(stage) == 0, _CALM_S)
        last = wait_for("a leader", lambda: quorum.leaders(stage), _CALM_S)[-1]
    say("clients", _figures(done, produced, consumed))
    found = verdict.Found(done, produced, consumed, read, leadership.seen, last.high_watermark)
    return verdict.wrong(stage, found)


def start(stage: Stage) -> None:
    """Start every server; brokers know of each other, and a migration is in dual write.

    Raises:
        ProcessError: one of them ended, or the time is over.
        TimeoutError: the cluster does not come up.
    """
    for server in stage.zookeepers:
        server.start()
    for server in stage.zookeepers:
        server.wait_started()
    if stage.zk is not None:
        for broker in stage.brokers:
            broker.start()
        for broker in stage.brokers:
            broker.wait_started()
    cluster = CLUSTER if stage.zk is None else cluster_id(stage.zk)
    for controller in stage.controllers:
        if isinstance(controller, Bridge):
            controller.format(cluster, new_quorum=True)
        else:
            controller.cluster_id = cluster
    for controller in stage.controllers:
        controller.start()
    for controller in stage.controllers:
        controller.wait_started()
    for broker in stage.brokers:
        if stage.zk is not None:
            broker.stop()
            broker.migrate(stage.proxies[0].port)
            broker.extra |= {"controller.quorum.voters": stage.voters}
        broker.start()
    for broker in stage.brokers:
        broker.wait_started()
    _known(stage.brokers)
    if stage.zk is not None:
        wait_for("dual write", lambda: _migrating(stage), _STARTED_S)


def _known(brokers: list[Broker]) -> None:
    wanted = frozenset(broker.id for broker in brokers)
    ports = [broker.client_port for broker in brokers]
    what = f"{len(wanted)} brokers at each broker"
    wait_for(what, lambda: all(known_to(port)[0] >= wanted for port in ports), _STARTED_S)


def _migrating(stage: Stage) -> bool:
    return any(
        (server.status() or {"migration": {}})["migration"].get("driver_state") == "DUAL_WRITE"
        for server in stage.controllers
        if isinstance(server, Bridge)
    )


def _strike(
    stage: Stage, clients: Clients, leadership: Leadership, load: Future[AdminResult], say: Say
) -> None:
    begin = time.monotonic()
    options = stage.options
    sizes = {kind: len(stage.servers(kind)) for kind in ("controller", "broker", "zookeeper")}
    for strike in strikes(options.seed, options.seconds, sizes):
        _pass(clients, begin + strike.at_s)
        which = _target(strike, leadership)
        values = {"fault": strike.fault.name, "kind": strike.kind, "number": which}
        say("strike", {**values, "lasts_s": round(strike.lasts_s, 1)})
        stage.begin(strike.kind, which, strike.fault)
        _pass(clients, begin + strike.at_s + strike.lasts_s)
        stage.end(strike.kind, which, strike.fault)
        say("over", values)
    _pass(clients, begin + options.seconds)
    if load.done():
        load.result()


def _target(strike: Strike, leadership: Leadership) -> int:
    if strike.which != LEADER:
        return strike.which
    return leadership.leader or 0


def _pass(clients: Clients, until: float) -> None:
    while time.monotonic() < until:
        clients.check()
        time.sleep(0.05)


def _short(stage: Stage) -> list[str]:
    """What the brokers' metadata lacks: of every broker that runs."""
    alive = [broker.bootstrap for broker in stage.brokers if broker.alive]
    return [line for each in alive for line in _shape(each).short()]


def _shape(address: str) -> api.Shape:
    seen: api.Shape = ask(lambda: api.shape(address))
    return seen


def _ours_leads(stage: Stage, say: Say) -> None:
    """Let one of ours lead, which compares the stores; what Kafka's leader left is told first."""
    while True:
        leader = wait_for("a leader", lambda: quorum.leaders(stage), _CALM_S)[-1]
        server = stage.controllers[IDS.index(leader.node_id)]
        if isinstance(server, Bridge):
            return
        left = verdict.between_stores(stage)
        say("left by Kafka's leader", {"node": leader.node_id, "differences": left})
        server.kill()
        wait_for("another leader", functools.partial(_followed, stage, leader), _CALM_S)
        restart(server)


def _followed(stage: Stage, leader: quorum.Leader) -> bool:
    """Whether another one leads, in a later epoch."""
    return any(
        one.epoch > leader.epoch and one.node_id != leader.node_id for one in quorum.leaders(stage)
    )


def _lag(stage: Stage) -> int | None:
    for leader in reversed(quorum.leaders(stage)):
        server = stage.controllers[IDS.index(leader.node_id)]
        status = server.status() if isinstance(server, Bridge) else None
        if status is not None:
            lag: int | None = status["migration"]["lag"]["records"]
            return lag
    return None


def _figures(done: AdminResult, produced: Any, consumed: Any) -> dict[str, Any]:
    return {
        "changes": done.done.total(),
        "intended": done.intended,
        "failed": {f"{a} {e}": n for (a, e), n in done.failed.items()},
        "retried": {f"{a} {e}": n for (a, e), n in done.retried.items()},
        "records": len(produced.acknowledged),
        "records_failed": dict(produced.failed),
        "longest_record_ms": round(produced.longest_ms),
        "consumed": consumed.consumed,
        "consumer_failed": dict(consumed.failed),
    }
