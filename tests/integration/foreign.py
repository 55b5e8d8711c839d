"""Brokers that must not take part, each beside a migration of brokers that should.

Three brokers hold a topic: one with migration on, a 3.9.2 one without the flag, a 3.3.2 one. Then
the two are put right, the migration comes to dual write, and strangers knock. Nothing here asserts.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient

from bench.load import cluster_api as api
from emulator.servers.bridge import Bridge
from emulator.servers.cluster import KafkaCluster
from emulator.servers.fault_proxy import FaultProxy, FrameProtocol
from emulator.servers.kafka import CONTROLLER_ID, KafkaBroker
from emulator.servers.seeded import connected
from emulator.servers.waiting import wait_for
from tests.integration.taps import Tap
from tests.kit.requests import create_topics
from wire import messages as m

NEWEST: Final = "3.9.2"
OLD_RELEASE: Final = "3.3.2"
MIGRATING, NO_FLAG, OLD, STRANGER = 0, 1, 2, 5
IDLE = 6
"""A broker that had no replica; only its znode was ever there."""
ASTRAY, ASTRAY_KRAFT = 7, 8
"""Brokers of another cluster that were given the address of this controller."""
OTHER_CLUSTER: Final = "AAAAAAAAAAAAAAAAAAAAAA"
IBP: Final = "inter.broker.protocol.version"
TOPIC: Final = "shared"
GIVE_UP_MS: Final = 3_000
CHANGES: Final = 200
POLL_S: Final = 0.1


@dataclass
class Foreign:
    """What was seen, by name, and what is still there to look at."""

    cluster: KafkaCluster
    bridge: Bridge
    look: KazooClient
    seen: dict[str, Any] = field(default_factory=dict)
    strangers: dict[int, Tap] = field(default_factory=dict)

    def shape(self, broker: int) -> api.Shape:
        return asyncio.run(api.shape(self.cluster.brokers[broker].bootstrap))

    def waiting(self) -> dict[str, str]:
        """Subject -> sentence of what the controller waits for."""
        status = self.bridge.status() or {"migration": {"waiting": []}}
        return {one["subject"]: one["text"] for one in status["migration"]["waiting"]}

    def wait_for_names(self, *brokers: int) -> dict[str, str]:
        """Wait until exactly these brokers are waited for."""
        wanted = {str(broker) for broker in brokers}
        wait_for(f"waiting for {sorted(wanted)}", lambda: set(self.waiting()) == wanted)
        return self.waiting()

    def wait_gone(self, broker: int) -> None:
        path = f"/brokers/ids/{broker}"
        wait_for(f"end of {path}", lambda: self.look.exists(path) is None)

    def whole(self) -> None:
        def ready(broker: int) -> bool:
            shape = self.shape(broker)
            return len(shape.brokers) == len(self.cluster.brokers) and not shape.short()

        for broker in self.cluster.brokers:
            ask = functools.partial(ready, broker.id)
            wait_for(f"all replicas in sync on {broker.id}", ask)


def play(cluster: KafkaCluster, folder: Path, stack: ExitStack) -> Foreign:
    """The whole of it; servers that are left end with ``stack``."""
    look = stack.enter_context(connected(cluster.zk))
    bridge = Bridge(folder, cluster.zk, properties={"broker.session.timeout.ms": 6000})
    stack.callback(bridge.kill)
    run = Foreign(cluster, bridge, look)
    _old_cluster(run)
    _blocked(run)
    _put_right(run)
    _after_a_deleted_epoch(run)
    _strangers(run, folder, stack)
    _of_another_cluster(run, folder, stack)
    _twin(run, folder, stack)
    _diverge(run)
    run.seen["records"] = run.bridge.lines()
    return run


def _old_cluster(run: Foreign) -> None:
    """A rolling upgrade that was left half done."""
    cluster = run.cluster
    brokers = cluster.brokers
    home = brokers[0].folder
    brokers[OLD] = KafkaBroker(OLD_RELEASE, OLD, home, cluster.zk)
    for broker in brokers[:OLD]:
        broker.extra[IBP] = "3.3"
    cluster.start().wait_ready()
    shape = run.shape(0)
    controller = shape.brokers[shape.controller_id]
    asyncio.run(api.create_topics(controller, [api.topic(TOPIC, 3, 3, {})]))
    run.seen["class paths"] = {broker.release: _class_path(broker) for broker in brokers}
    run.seen["epoch before"] = run.look.get("/controller_epoch")[0]


def _class_path(broker: KafkaBroker) -> list[str]:
    words = Path(f"/proc/{broker.pid}/cmdline").read_bytes().decode().split("\0")
    return words[words.index("-cp") + 1].split(":")


def _blocked(run: Foreign) -> None:
    """The controller waits, and says for whom; one has a controller's id, one a wrong version."""
    cluster, bridge, seen = run.cluster, run.bridge, run.seen
    first, second, _ = cluster.brokers
    cluster_id = run.look.get("/cluster/id")[0].decode().split('"id":"')[1].split('"')[0]
    seen["cluster id"] = cluster_id
    bridge.format(cluster_id).start().wait_started()
    misnamed = _stranger(run, CONTROLLER_ID, migration=True)
    first.stop()
    del first.extra[IBP]
    misnamed.start()
    first.migrate(bridge.port).start().wait_started()
    misnamed.wait_started()
    run.look.create(f"/brokers/ids/{IDLE}", b"{}", ephemeral=True)
    seen["waiting"] = run.wait_for_names(NO_FLAG, OLD, IDLE, CONTROLLER_ID)
    seen["logged"] = [line for line in bridge.lines() if "waiting" in line]
    seen["status"] = bridge.wait_status("an answer", bool)
    seen["controller"] = run.look.get("/controller")[0]
    seen["epoch"] = run.look.get("/controller_epoch")[0]
    seen["misnamed"] = (misnamed.alive, _refusals(misnamed))
    misnamed.stop()
    run.wait_gone(CONTROLLER_ID)
    run.look.delete(f"/brokers/ids/{IDLE}")
    seen["waiting later"] = run.wait_for_names(NO_FLAG, OLD)
    _tell_that_it_is_full(run, second)
    second.stop()
    second.extra[IBP] = "3.8"
    second.migrate(bridge.port).start().wait_started()
    seen["wrong version"] = wait_for("a refusal", lambda: _refusals(second))
    seen["waiting with wrong version"] = run.wait_for_names(NO_FLAG, OLD)
    seen["alive with wrong version"] = second.alive


def _refusals(broker: KafkaBroker) -> list[str]:
    return [line for line in broker.lines() if "Unable to register broker" in line]


def _tell_that_it_is_full(run: Foreign, broker: KafkaBroker) -> None:
    """What a KRaft controller begins with, said to a broker that does not expect one."""
    epoch = int(run.look.get("/controller_epoch")[0])
    request = m.UpdateMetadataRequest(
        controller_id=CONTROLLER_ID,
        is_kraft_controller=True,
        type=2,
        controller_epoch=epoch,
        broker_epoch=-1,
        topic_states=[],
        live_brokers=[],
    )
    answer = asyncio.run(api.call(f"127.0.0.1:{broker.internal_port}", request, 8))
    run.seen["full without flag"] = (
        answer.error_code,
        wait_for(
            "a complaint",
            lambda: [
                line for line in broker.lines() if "UpdateMetadataRequest with Type=FULL" in line
            ],
        ),
    )


def _put_right(run: Foreign) -> None:
    """The operator does what was said: the same folders, a bridge release, flag and version."""
    _, second, third = run.cluster.brokers
    second.stop()
    del second.extra[IBP]
    third.stop()
    third.release = NEWEST
    for broker in (second, third):
        broker.migrate(run.bridge.port).start()
    run.cluster.start()
    run.bridge.wait_dual_write()
    run.whole()


def _after_a_deleted_epoch(run: Foreign) -> None:
    """What a controller says that began with 1, as one does that finds no /controller_epoch."""
    broker = run.cluster.brokers[MIGRATING]
    for request, version in (
        (m.UpdateMetadataRequest(controller_id=MIGRATING, controller_epoch=1, broker_epoch=-1), 7),
        (m.LeaderAndIsrRequest(controller_id=MIGRATING, controller_epoch=1, broker_epoch=-1), 6),
    ):
        answer = asyncio.run(api.call(f"127.0.0.1:{broker.internal_port}", request, version))
        run.seen["of epoch 1", type(request)] = answer.error_code
    run.seen["epoch later"] = run.look.get("/controller_epoch")[0]


def _stranger(run: Foreign, id_: int, *, migration: bool) -> KafkaBroker:
    """A broker nobody asked for, in ZooKeeper mode: an old one if it does not migrate."""
    home = run.cluster.brokers[0].folder
    release = NEWEST if migration else OLD_RELEASE
    broker = KafkaBroker(release, id_, home, run.cluster.zk, migration=migration)
    broker.extra["reserved.broker.max.id"] = CONTROLLER_ID
    if migration:
        broker.controller_port = run.bridge.port
    return broker


def _strangers(run: Foreign, _folder: Path, stack: ExitStack) -> None:
    """During dual write: one of a release that cannot migrate, one with a controller's id."""
    made = [
        _stranger(run, STRANGER, migration=False),
        _stranger(run, CONTROLLER_ID, migration=True),
    ]
    for broker in made:
        stack.callback(broker.kill)
        tap = Tap(stack.enter_context(FaultProxy(broker.internal_port, FrameProtocol.KAFKA)))
        run.strangers[broker.id] = tap.keep()
        broker.extra["advertised.listeners"] = (
            f"INTERNAL://{tap.proxy.hosts},CLIENT://{broker.bootstrap}"
        )
        broker.start()
    for broker in made:
        broker.wait_started()
    one = run.cluster.brokers[0].bootstrap
    forced = create_topics("forced", assigned=[(0, STRANGER)], timeout_ms=20_000)
    answer = asyncio.run(api.call(one, forced))
    run.seen["assigned to a stranger"] = answer.topics[0].error_code
    asyncio.run(api.create_topics(one, [api.topic("spread", 12, 3, {})]))
    wait_for(
        "the topic on every broker",
        lambda: all("spread" in run.shape(broker).topics for broker in range(3)),
    )
    run.whole()
    run.seen["shapes beside strangers"] = [run.shape(broker) for broker in range(3)]
    run.seen["znodes beside strangers"] = sorted(run.look.get_children("/brokers/ids"))
    run.seen["misnamed later"] = (made[1].alive, _refusals(made[1]))
    for broker in made:
        broker.kill()


def _of_another_cluster(run: Foreign, folder: Path, stack: ExitStack) -> None:
    """One in ZooKeeper mode, of a cluster in another chroot, and one in KRaft mode."""
    home = folder / "astray"
    port = run.bridge.port
    old = KafkaBroker(NEWEST, ASTRAY, home, f"{run.cluster.zk}/other", broker_count=1).migrate(port)
    kraft = KafkaBroker(NEWEST, ASTRAY_KRAFT, home, None, controller_port=port, broker_count=1)
    kraft.extra["initial.broker.registration.timeout.ms"] = GIVE_UP_MS
    for broker in (old, kraft.identify(OTHER_CLUSTER)):
        stack.callback(broker.kill)
        broker.start()
    wait_for("end of the broker in KRaft mode", lambda: not kraft.alive)
    old.wait_started()
    asked = len(_of_another(old))
    wait_for("another refusal", lambda: len(_of_another(old)) > asked)
    run.seen["of another cluster"] = (old.alive, _of_another(old))
    run.seen["of another cluster, in KRaft mode"] = (kraft.exit_code, _of_another(kraft))
    run.seen["status beside them"] = run.bridge.wait_status("an answer", bool)
    old.kill()


def _of_another(broker: KafkaBroker) -> list[str]:
    return [line for line in broker.lines() if "INCONSISTENT_CLUSTER_ID" in line]


def _twin(run: Foreign, folder: Path, stack: ExitStack) -> None:
    """A KRaft broker comes with the id of a ZooKeeper-mode one: while that lives, and after."""
    broker = run.cluster.brokers[NO_FLAG]
    twin = KafkaBroker(NEWEST, broker.id, folder / "twin", None, controller_port=run.bridge.port)
    twin.extra["initial.broker.registration.timeout.ms"] = GIVE_UP_MS
    stack.callback(twin.kill)
    twin.identify(run.seen["cluster id"]).start()
    wait_for("end of the twin", lambda: not twin.alive)
    run.seen["twin"] = (twin.exit_code, _refusals(twin), run.shape(0).brokers[broker.id])
    broker.stop()
    run.wait_gone(broker.id)
    del twin.extra["initial.broker.registration.timeout.ms"]
    twin.start().wait_started()
    run.cluster.brokers[NO_FLAG] = twin
    run.whole()
    run.seen["twin later"] = run.bridge.wait_status(
        "a KRaft broker",
        lambda status: (
            [one["kind"] for one in status["brokers"]] == ["zookeeper", "kraft", "zookeeper"]
        ),
    )


@contextmanager
def _polled(run: Foreign, samples: list[tuple[float, int, frozenset[str]]]) -> Any:
    """Ask every broker every 100 ms which topics it shows."""
    over = threading.Event()

    def poll(broker: int) -> None:
        while not over.wait(POLL_S):
            at = time.monotonic()
            samples.append((at, broker, frozenset(run.shape(broker).topics)))

    threads = [threading.Thread(target=poll, args=(broker.id,)) for broker in run.cluster.brokers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _diverge(run: Foreign) -> None:
    """Changes while both kinds of broker serve: how long do they tell clients different things?"""
    samples: list[tuple[float, int, frozenset[str]]] = []
    names = [f"seen-{number}" for number in range(CHANGES)]
    one = run.cluster.brokers[0].bootstrap
    with _polled(run, samples):
        for name in names:
            asyncio.run(api.create_topics(one, [api.topic(name, 1, 3, {})]))
        for name in names:
            everywhere = functools.partial(_everywhere, run, samples, name)
            wait_for(f"{name} on every broker", everywhere)
    run.seen["divergence_s"] = sorted(_apart(samples, name) for name in names)


def _everywhere(run: Foreign, samples: list[tuple[float, int, frozenset[str]]], name: str) -> bool:
    return len(_shown(samples, name)) == len(run.cluster.brokers)


def _shown(samples: list[tuple[float, int, frozenset[str]]], name: str) -> dict[int, float]:
    """Broker -> when it showed a topic first."""
    first: dict[int, float] = {}
    for at, broker, topics in list(samples):
        if name in topics:
            first.setdefault(broker, at)
    return first


def _apart(samples: list[tuple[float, int, frozenset[str]]], name: str) -> float:
    """Seconds from the first broker that showed a topic to the last."""
    first = _shown(samples, name)
    return max(first.values()) - min(first.values())
