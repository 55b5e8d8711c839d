"""Step 3: load through the brokers; one of them, and the leading controller, killed."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections import Counter
from concurrent.futures import Future
from typing import Any, Final

from bench.demo.narrator import Narrator
from bench.demo.seed import unheard
from bench.demo.stage import Stage
from bench.demo.verdict import elected_ns, refused
from bench.demo.watch import Watch
from bench.load import cluster_api as api
from bench.load.admin import AdminResult
from emulator.servers.kafka import KafkaBroker
from emulator.servers.machine import Shared, Sharing
from emulator.servers.patience import patiently
from emulator.servers.waiting import PATIENCE_S, wait_for

_KILL_LEADER_AT: Final = 0.1
_KILL_AT: Final = 0.2
"""Parts of the load's time after which the leading controller is killed, and a broker."""
_SHARE_MIN: Final = 0.30
_RATE_MIN: Final = 0.8
"""The share of the requested rate that must be reached."""
_P50_MAX_MS: Final = 500.0
_SLOW_MS: Final = 500.0
_NEW_LEADERS_S: Final = 300.0
"""How long a broker may take to learn of new leaders; other requests may be queued before."""
_KILLED: Final = "a controller and a broker were killed meanwhile"
_SHOWN: Final = 5
"""At most so many changes are named in the output."""


def strain(stage: Stage, narrator: Narrator) -> AdminResult:
    """Run the load, kill and revive a broker and the leading controller, read every record back.

    The load runs for its time, and until both are back.

    Raises:
        ProcessError: a server did not do what it should.
        TimeoutError: something did not happen in time.
    """
    options = stage.options
    brokers = stage.cluster.brokers
    with Watch(stage.controllers, narrator, [broker.id for broker in brokers]) as watch:
        load, shared = stage.clients.administer(options.rate), Shared()
        begin = time.monotonic()
        watch.doing(
            f"{options.rate:g} administrative changes/s for {options.seconds:g} s, open loop"
        )
        _pass(stage, load, begin + options.seconds * _KILL_LEADER_AT)
        watch.doing(f"SIGKILL to controller {stage.controllers.leader}, which leads")
        old, new, took_s = stage.controllers.replace()
        watch.doing(f"controller {new} leads; {old} was started again, and follows")
        _pass(stage, load, begin + options.seconds * _KILL_AT)
        victim, led, of = _most_leading(stage)
        leaderless = _kill_and_revive(stage, watch, victim)
        watch.doing("waiting for the end of the load")
        _pass(stage, load, begin + options.seconds)
        stage.clients.administer_no_more()
        done, sharing = load.result(2 * PATIENCE_S), shared.read()
        watch.doing("waiting until every replica is in sync")
        wait_for("replicas in sync at every broker", lambda: _all_in_sync(stage), PATIENCE_S)
        watch.doing("ending producer and group, and reading every record back")
        produced, consumed = stage.clients.stop()
        verdict = stage.clients.verify(produced.acknowledged)
    _check_admin(stage, narrator, done)
    _check_speed(stage, narrator, done, sharing)
    narrator.check(
        "the leading controller, killed, was replaced, and is back",
        old != new and stage.controllers.nodes[old].alive,
        f"node {old} led; {took_s:.1f} s later node {new} wrote to ZooKeeper",
    )
    narrator.check(
        f"broker {victim.id}, killed, led at least {_SHARE_MIN:.0%} of the partitions, and is back",
        led / of >= _SHARE_MIN and not leaderless and victim.alive,
        f"it led {led} of {of} ({led / of:.0%}){_named(leaderless)}",
    )
    unread = consumed.unread(produced.acknowledged)
    narrator.check(
        "producer and consumer group without a non-retriable error",
        not produced.failed and not consumed.failed and consumed.consumed > 0 and not unread,
        f"{len(produced.acknowledged)} records acknowledged, {consumed.consumed} consumed; longest "
        f"wait {produced.longest_ms / 1000:.1f} s ({_KILLED}){_listed(produced.failed)}"
        f"{_listed(consumed.failed)}"
        + (f"; not read to the end: {len(unread)} partitions" if unread else ""),
    )
    narrator.check(
        "every acknowledged record read back once, in order",
        verdict.held and verdict.read >= verdict.acknowledged > 0,
        f"{verdict.acknowledged} acknowledged, {verdict.read} read; "
        f"{len(verdict.missing)} missing, {len(verdict.duplicated)} twice, "
        f"{len(verdict.out_of_order)} out of order",
    )
    return done


def _all_in_sync(stage: Stage) -> bool:
    """Whether every broker shows every replica in sync."""
    return not any(unheard(stage.shape(broker)) for broker in stage.cluster.brokers)


def _named(partitions: list[str]) -> str:
    return f"; without a leader meanwhile: {', '.join(partitions[:5])}" if partitions else ""


def _pass(stage: Stage, load: Future[AdminResult], until: float) -> None:
    """Let the load run until then; raises the error of a client that ends meanwhile."""
    while time.monotonic() < until and not load.done():
        stage.clients.check()
        time.sleep(0.1)


def _most_leading(stage: Stage) -> tuple[KafkaBroker, int, int]:
    """The broker that leads most partitions (of three: at least a third), how many, of how many."""
    seen = stage.shape()
    led = seen.led()
    victim = max(stage.cluster.brokers, key=lambda broker: led[broker.id])
    return victim, led[victim.id], len(seen.partitions)


def unled(seen: api.Shape, victim: int) -> list[str]:
    """Partitions with other in-sync replicas that have no leader, or still this broker."""
    return [
        f"{name}-{number}"
        for name, topic in seen.topics.items()
        for number, (leader, _, isr) in topic.items()
        if leader in {victim, -1} and set(isr) - {victim}
    ]


def _kill_and_revive(stage: Stage, watch: Watch, victim: KafkaBroker) -> list[str]:
    """Returns the partitions that got no new leader while the killed broker was down."""
    watch.doing(f"SIGKILL to broker {victim.id}")
    victim.kill()

    def fenced() -> bool:
        status = stage.controllers.status() or {"brokers": []}
        return any(one["id"] == victim.id and one["fenced"] for one in status["brokers"])

    wait_for(f"fencing of broker {victim.id}", fenced, PATIENCE_S)
    watch.doing(f"broker {victim.id} is fenced; waiting for the end of its ZooKeeper session")
    path = f"/brokers/ids/{victim.id}"
    wait_for("end of its session", lambda: stage.stat(path) is None, PATIENCE_S)
    watch.doing("waiting until the other brokers know the new leaders")
    with contextlib.suppress(TimeoutError):
        wait_for("leaders elsewhere", lambda: not unled(stage.shape(), victim.id), _NEW_LEADERS_S)
    leaderless = unled(stage.shape(), victim.id)
    watch.doing(f"broker {victim.id} starts again")
    victim.start().wait_started(PATIENCE_S)
    return leaderless


def _check_admin(stage: Stage, narrator: Narrator, done: AdminResult) -> None:
    controllers, wrong = stage.controllers, []
    if done.given_up:
        records = patiently("log read whole", controllers.records, [])
        ahead_ns = time.time_ns() - time.monotonic_ns()
        wrong = refused(done, records, elected_ns(records, ahead_ns))
    twice = len(done.given_up) - len(wrong)
    errors: Counter[str] = Counter()
    for (_, error), times in done.retried.items():
        errors[error] += times
    retried = ", ".join(f"{times} {error}" for error, times in errors.most_common(_SHOWN))
    if done.unsent:
        wrong.append(f"{done.unsent} were never sent: no connection was free for {PATIENCE_S:g} s")
    narrator.check(
        "every administrative change was carried out",
        not wrong and done.done.total() + twice == done.intended > 0,
        f"{done.done.total() + twice} of {done.intended} "
        f"({', '.join(f'{n} {api}' for api, n in sorted(done.done.items()))}"
        + (f", {twice} that a broker sent twice: the second was refused" if twice else "")
        + f"); attempts repeated: {done.retried.total()}"
        + (f" ({retried})" if retried else "")
        + "".join(f"; {line}" for line in wrong[:_SHOWN])
        + (f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""),
    )


def _check_speed(stage: Stage, narrator: Narrator, done: AdminResult, sharing: Sharing) -> None:
    rate, carried = stage.options.rate, done.achieved_per_s
    busy = f"this machine was busy: {sharing}" if sharing.busy else None
    narrator.check_speed(
        f"at least {_RATE_MIN * rate:g} of {rate:g} changes/s",
        carried >= _RATE_MIN * rate,
        f"{carried:.1f} changes/s over {done.schedule_s:.1f} s; {sharing}",
        busy,
    )
    waits = sorted(wait / 1e6 for _, wait in stage.clients.waits)
    half_ms = statistics.median(waits) if waits else math.inf
    slow = sum(wait > _SLOW_MS for wait in waits)
    narrator.check_speed(
        f"half of the changes were answered within {_P50_MAX_MS:g} ms",
        half_ms <= _P50_MAX_MS,
        f"half within {half_ms:.0f} ms; {slow} of {len(waits)} took more than {_SLOW_MS:g} ms, the "
        f"longest {waits[-1] / 1000 if waits else math.inf:.1f} s ({_KILLED})",
        busy,
    )


def _listed(errors: Any) -> str:
    return "".join(f"; {count} x {error}" for error, count in sorted(errors.items(), key=str))
