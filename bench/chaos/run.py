"""One run: servers, clients, strikes, calm, verdict; what it started has ended when it returns."""

from __future__ import annotations

import contextlib
import functools
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final, Self

from bench.chaos import quorum, verdict
from bench.chaos.plan import CONTROLLER, LEADER, Strike, fails_over, strikes
from bench.chaos.refusals import Period
from bench.chaos.stage import CLUSTER, Controller, Options, Stage, restart
from bench.demo.clients import Clients
from bench.demo.controllers import IDS
from bench.demo.seed import ask
from bench.lines import print_line
from bench.load import cluster_api as api
from bench.load.admin import AdminResult
from emulator.servers.bridge import Bridge
from emulator.servers.cluster import known_to
from emulator.servers.kafka import KafkaBroker
from emulator.servers.machine import Shared
from emulator.servers.process import ProcessError, running
from emulator.servers.seeded import cluster_id
from emulator.servers.waiting import PATIENCE_S, wait_for

RECORDS: Final = {"records-a": 3, "records-b": 3}
_RECORDS_PER_S: Final = 100.0
_ASK_EVERY_S: Final = 0.5
WriteEvent = Callable[[str, dict[str, Any]], None]


class Leadership:
    """Asks the controllers for the leader every half second, in a thread, and keeps the answers."""

    def __init__(self, stage: Stage, write_event: WriteEvent) -> None:
        self._stage = stage
        self._write_event = write_event
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="leadership", daemon=True)
        self._lock = threading.Lock()
        self._error: Exception | None = None
        self.seen: dict[int, set[int]] = {}
        """Epoch -> node ids of the controllers that answered as its leader."""

    def ask(self) -> Sequence[quorum.Leader]:
        """The controllers that answer as leader now, by epoch; each is added to ``seen``."""
        found = quorum.leaders(self._stage)
        with self._lock:
            for one in found:
                if one.node_id not in self.seen.setdefault(one.epoch, set()):
                    self.seen[one.epoch].add(one.node_id)
                    self._write_event("leader", {"epoch": one.epoch, "node": one.node_id})
        return found

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _watch(self) -> None:
        try:
            while not self._stop.wait(_ASK_EVERY_S):
                self.ask()
        except Exception as error:  # noqa: BLE001 - raised where it is seen, by __exit__
            self._error = error


def run(options: Options) -> int:
    """Run one round.

    Returns:
        Exit code: 0 if nothing was wrong, 1 if something was.
    """
    options.out.mkdir(parents=True)
    begin = time.monotonic()
    log = (options.out / "events.jsonl").open("a")

    def write_event(what: str, values: dict[str, Any]) -> None:
        line = {"at_s": round(time.monotonic() - begin, 2), "what": what, **values}
        log.write(json.dumps(line) + "\n")
        log.flush()
        print_line(json.dumps(line))

    write_event("begin", {**asdict(options), "out": str(options.out)})
    shared = Shared()
    with log:
        with Stage(options) as stage:
            clients = Clients(
                stage.bootstrap, options.out / "trace", options.out.name, _RECORDS_PER_S
            )
            try:
                wrong = _story(stage, clients, write_event)
            except (TimeoutError, ProcessError) as error:
                wrong = [str(error)]
            finally:
                clients.abandon()
        used = shared.read()
        write_event("machine", asdict(used))
    left = [process.name for process in running()]
    if left:
        wrong.append(f"processes left behind: {left}")
    for line in wrong:
        print_line(f"WRONG: {line}")
    print_line(f"chaos {'FAILED' if wrong else 'OK'}: seed {options.seed}; {used}")
    return int(bool(wrong))


def _story(stage: Stage, clients: Clients, write_event: WriteEvent) -> list[str]:
    start(stage)
    _create(stage)
    _await(stage, write_event, "replicas in sync", lambda: not _short(stage))
    write_event("started", {})
    clients.start(RECORDS)
    with Leadership(stage, write_event) as leadership:
        load = clients.administer(stage.options.rate)
        struck = _strike(stage, clients, leadership, write_event)
        clients.administer_no_more()
        write_event("calm", {})
        _await(stage, write_event, "answer to every change", load.done)
        done = load.result()
        _await(stage, write_event, "replicas in sync", lambda: not _short(stage))
        write_event("in sync", {})
        produced, consumed = clients.stop()
        read = clients.verify(produced.acknowledged)
        if stage.zk is not None:
            _ours_leads(stage, write_event)
        last = wait_for("a leader", lambda: quorum.leaders(stage), PATIENCE_S)[-1]
        write_event("clients", _figures(done, produced, consumed))
        seen = leadership.seen
        found = verdict.Found(done, produced, consumed, read, seen, last.high_watermark, struck)
        return verdict.failures(stage, found, functools.partial(_ours_leads, stage, write_event))


def _await(stage: Stage, write_event: WriteEvent, what: str, ready: Callable[[], bool]) -> None:
    """Wait for what needs all brokers.

    Raises:
        ProcessError: a server ended by itself.
        TimeoutError: it was not so within 15 minutes.
    """

    def asked() -> bool:
        _revive(stage, write_event)
        if ended := verdict.ended_servers(stage.all):
            raise ProcessError(", ".join(ended))
        return ready()

    wait_for(what, asked, PATIENCE_S)


def _revive(stage: Stage, write_event: WriteEvent) -> None:
    for broker in stage.revive():
        write_event("started again", {"broker": broker.id, "why": "its ZooKeeper session"})


def _create(stage: Stage) -> None:
    """Create the topics of the records; a request without an answer in time is sent again."""
    topics = [
        api.topic(name, count, 3, {"min.insync.replicas": "2"}) for name, count in RECORDS.items()
    ]
    address = stage.brokers[0].bootstrap

    def created() -> bool:
        with contextlib.suppress(OSError):
            return bool(ask(lambda: api.created(address, topics)))
        return False

    wait_for("topics of the records", created, PATIENCE_S)


def start(stage: Stage) -> None:
    """Start every server; brokers know of each other, and a migration is in dual write.

    Raises:
        ProcessError: one of them ended, or the time is over.
        TimeoutError: the cluster does not come up.
    """
    for server in stage.zookeepers:
        server.start()
    for server in stage.zookeepers:
        server.wait_started(PATIENCE_S)
    if stage.zk is not None:
        for broker in stage.brokers:
            broker.start()
        for broker in stage.brokers:
            broker.wait_started(PATIENCE_S)
    cluster = CLUSTER if stage.zk is None else cluster_id(stage.zk)
    for controller in stage.controllers:
        if isinstance(controller, Bridge):
            controller.format(cluster, new_quorum=True)
        else:
            controller.cluster_id = cluster
    for controller in stage.controllers:
        controller.start()
    for controller in stage.controllers:
        controller.wait_started(PATIENCE_S)
    for broker in stage.brokers:
        if stage.zk is not None:
            broker.stop(PATIENCE_S)
            broker.migrate(stage.proxies[0].port)
            broker.extra |= {"controller.quorum.voters": stage.voters}
        broker.start()
    for broker in stage.brokers:
        broker.wait_started(PATIENCE_S)
    _known(stage.brokers)
    if stage.zk is not None:
        wait_for("dual write", lambda: _migrating(stage), PATIENCE_S)


def _known(brokers: list[KafkaBroker]) -> None:
    wanted = frozenset(broker.id for broker in brokers)
    ports = [broker.client_port for broker in brokers]
    what = f"{len(wanted)} brokers at each broker"
    wait_for(what, lambda: all(known_to(port)[0] >= wanted for port in ports), PATIENCE_S)


def _migrating(stage: Stage) -> bool:
    return any(
        (server.status() or {"migration": {}})["migration"].get("driver_state") == "DUAL_WRITE"
        for server in stage.controllers
        if isinstance(server, Bridge)
    )


def _strike(
    stage: Stage, clients: Clients, leadership: Leadership, write_event: WriteEvent
) -> list[Period]:
    """Strike until the load's time is over; returns when controllers were struck, monotonic ms."""
    begin = time.monotonic()
    options = stage.options
    sizes = {kind: len(stage.servers(kind)) for kind in ("controller", "broker", "zookeeper")}
    struck = []
    for strike in strikes(options.seed, options.seconds, sizes):
        _pass(stage, clients, write_event, begin + strike.at_s)
        which = _target(strike, leadership)
        values = {"fault": strike.fault.name, "kind": strike.kind, "number": which}
        write_event("strike", {**values, "lasts_s": round(strike.lasts_s, 1)})
        since = time.monotonic()
        stage.begin(strike.kind, which, strike.fault)
        _pass(stage, clients, write_event, begin + strike.at_s + strike.lasts_s)
        if fails_over(strike):
            _other_leads(leadership, IDS[which])
        stage.end(strike.kind, which, strike.fault)
        write_event("over", values)
        if strike.kind == CONTROLLER:
            struck.append(Period(since * 1_000, time.monotonic() * 1_000))
    _pass(stage, clients, write_event, begin + options.seconds)
    return struck


def _target(strike: Strike, leadership: Leadership) -> int:
    """The place of the server to strike; of the leader, once there is one."""
    if strike.server_index != LEADER:
        return strike.server_index
    leader = wait_for("a leader", leadership.ask, PATIENCE_S)[-1]
    return IDS.index(leader.node_id)


def _other_leads(leadership: Leadership, killed: int) -> None:
    """Wait until another controller than the one that was killed leads."""
    wait_for(
        f"a leader in place of {killed}",
        lambda: any(one.node_id != killed for one in leadership.ask()),
        PATIENCE_S,
    )


def _pass(stage: Stage, clients: Clients, write_event: WriteEvent, until: float) -> None:
    while time.monotonic() < until:
        clients.check()
        _revive(stage, write_event)
        time.sleep(0.05)


def _short(stage: Stage) -> list[str]:
    """What the metadata of the brokers lacks; a broker that does not answer lacks all."""
    lines = []
    for broker in stage.brokers:
        try:
            shape = _shape(broker.bootstrap)
        except OSError as error:
            lines.append(f"broker {broker.id}: {error}")
        else:
            lines += shape.short()
            lines += [f"{name} at broker {broker.id}" for name in RECORDS.keys() - shape.topics]
    return lines


def _shape(address: str) -> api.Shape:
    seen: api.Shape = ask(lambda: api.shape(address))
    return seen


def _ours_leads(stage: Stage, write_event: WriteEvent) -> Controller:
    """Make a controller of ours the leader; first log the differences that Kafka's leader left."""
    while True:
        leader = wait_for("a leader", lambda: quorum.leaders(stage), PATIENCE_S)[-1]
        server = stage.controllers[IDS.index(leader.node_id)]
        if isinstance(server, Bridge):
            return server
        left = verdict.between_stores(stage)
        write_event("left by Kafka's leader", {"node": leader.node_id, "differences": left})
        server.kill()
        wait_for("another leader", functools.partial(_followed, stage, leader), PATIENCE_S)
        restart(server)


def _followed(stage: Stage, leader: quorum.Leader) -> bool:
    """Whether another controller leads, in a later epoch."""
    return any(
        one.epoch > leader.epoch and one.node_id != leader.node_id for one in quorum.leaders(stage)
    )


def _figures(done: AdminResult, produced: Any, consumed: Any) -> dict[str, Any]:
    return {
        "changes": done.done.total(),
        "intended": done.intended,
        "failed": {f"{a} {e}": n for (a, e), n in done.failed.items()},
        "retried": {f"{a} {e}": n for (a, e), n in done.retried.items()},
        "slow": done.slow,
        "records": len(produced.acknowledged),
        "records_failed": dict(produced.failed),
        "longest_record_ms": round(produced.longest_ms),
        "consumed": consumed.consumed,
        "consumer_failed": dict(consumed.failed),
    }
