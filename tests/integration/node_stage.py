"""One cluster for many tests: our controller's process, a real ZooKeeper behind a fault proxy.

The brokers are a fleet in ZooKeeper mode, in a thread of this process together with the clients.
What is judged is read around the proxy, by KazooClient and Kafka's own tools.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.protocol.states import ZnodeStat
from prometheus_client.parser import text_string_to_metric_families

from bench.judge import stores as judge
from bench.load.connection import Connection
from emulator.servers.bridge import Bridge
from emulator.servers.fault_proxy import FaultProxy
from emulator.servers.ports import HOST
from emulator.servers.seeded import seed
from emulator.servers.waiting import PATIENCE_S, wait_for
from emulator.servers.zk_dump import contents, dump
from emulator.servers.zookeeper import ZooKeeper
from tests.integration.staged_brokers import StagedBrokers
from tests.integration.zookeeper_frames import Op, decode
from tests.kit.requests import create_topics
from wire import messages as m

T = TypeVar("T")

CLUSTER_ID = "bm9kZS1vbi16b29rZWVwZQ"
NODE_ID = 3000
BROKERS = (0, 1, 2)
BOUND = 32
SESSION_MS = 3_000
OLD_TOPIC = "from-zookeeper"

LAG = "kraft_bridge_zk_write_behind_lag_records"
PENDING = "kraft_bridge_zk_pending_records"
COMMITTED = "kraft_bridge_last_committed_record_offset"
ACKED = "kraft_bridge_zk_acked_record_offset"
UNION = "kraft_bridge_zk_write_blocking_kraft_union_ms_total"
TOTAL = "kraft_bridge_zk_write_blocking_kraft_operations_ms_total"
BLOCKED = "kraft_bridge_zk_blocked_operations"
BLOCKED_COUNT = "kraft_bridge_zk_write_blocking_kraft_ms_count"
RATIO = "kraft_bridge_zk_coalescing_ratio"


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self.events = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.events.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end."""
        return asyncio.run_coroutine_threadsafe(work, self.events).result()

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start something that runs until `close`."""
        asyncio.run_coroutine_threadsafe(work, self.events)

    def close(self) -> None:
        """Cancel what runs, and end."""
        self.run(_cancel_the_others())
        self.events.call_soon_threadsafe(self.events.stop)
        self._thread.join()
        self.events.close()


async def _cancel_the_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, when its request was sent and when it came (``time.monotonic``)."""

    message: Any
    sent_s: float
    came_s: float

    @property
    def ms(self) -> float:
        return (self.came_s - self.sent_s) * 1_000

    @property
    def error(self) -> int:
        """The error of the only topic in it."""
        (topic,) = self.message.topics
        return int(topic.error_code)


def new_topic(name: str, partitions: int = 1, timeout_ms: int = 20_000) -> m.CreateTopicsRequest:
    """``1 + partitions`` records; replicas on all three brokers."""
    return create_topics(name, assigned=[BROKERS] * partitions, timeout_ms=timeout_ms)


class Stage:
    """See the module's docstring. Every method that waits has a limit and says what it lacks."""

    def __init__(
        self,
        folder: Path,
        zookeeper: ZooKeeper,
        proxy: FaultProxy,
        more: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self.zookeeper = zookeeper
        self.proxy = proxy
        self.trace = folder / "trace"
        self._first = 0
        self.seen: list[tuple[float, bytes]] = []
        """Requests to ZooKeeper, when and what, as the proxy saw them."""
        proxy.watch = lambda frame: self.seen.append((time.monotonic(), frame))
        self.client = KazooClient(zookeeper.hosts, timeout=60)
        self.loop = Loop()
        properties = {
            "kraftbridge.zk.write.behind.max.records": BOUND,
            "kraftbridge.trace.dir": self.trace,
            "zookeeper.session.timeout.ms": SESSION_MS,
            **more,
        }
        self.bridge = Bridge(folder, proxy.hosts, properties=properties)
        self.brokers = StagedBrokers(
            self.loop.events,
            zookeeper.hosts,
            f"{HOST}:{self.bridge.port}",
            CLUSTER_ID,
            len(BROKERS),
        )
        self._names = itertools.count()
        self._correlation_ids = itertools.count(1)
        self._connections: list[Connection] = []

    # ------------------------------------------------------------- beginning and end
    def start(self) -> None:
        """Up to dual write."""
        self.client.start(timeout=PATIENCE_S)
        seed(self.client, CLUSTER_ID)
        _old_cluster(self.client)
        self.bridge.format(CLUSTER_ID)
        self.brokers.begin()
        self.bridge.start().wait_dual_write()
        self._first = len(self.seen)
        self.settle()

    def close(self) -> None:
        """End everything but ZooKeeper and the proxy."""
        self._heal()
        self.bridge.kill()
        self.brokers.close()
        self.loop.close()
        self.client.stop()
        self.client.close()

    def revive(self) -> None:
        """Whatever a test before did: healthy, nothing behind, brokers there."""
        self._heal()
        if not self.zookeeper.alive:
            self.zookeeper.start()
        if not self.bridge.alive:
            self.bridge.start()
        self.bridge.wait_dual_write()
        self.settle()

    def _heal(self) -> None:
        self.proxy.delay()
        self.proxy.thaw()
        self.zookeeper.resume()

    def settle(self, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """Wait until the stores agree and all brokers are unfenced; returns the status."""

        def settled(status: dict[str, Any]) -> bool:
            lag = status["migration"]["lag"]["records_without_no_ops"]
            ready = [b["id"] for b in status["brokers"] if not b["fenced"]]
            return lag == 0 and ready == list(BROKERS)

        return self.bridge.wait_status("agreement", settled, timeout_s)

    # ------------------------------------------------------------- asking
    def name(self, text: str = "t") -> str:
        """A name for a topic that nobody used."""
        return f"{text}-{next(self._names)}"

    def ask(self, *requests: Any) -> list[Answered]:
        """Send each on a connection of its own, all at once, and wait for every answer."""
        return self.loop.run(self._ask(requests))

    def ask_in_turn(self, requests: Iterable[Any]) -> list[Answered]:
        """One after the other on one connection."""
        return self.loop.run(self._in_turn(requests))

    def begin(self, requests: Iterable[Any], answers: list[Answered]) -> None:
        """Send one after the other from now on; ends without a word when the connection does."""
        self.loop.begin(self._until_broken(requests, answers))

    def create(self, name: str, partitions: int = 1) -> None:
        """Create a topic."""
        (answered,) = self.ask(new_topic(name, partitions))
        assert answered.error == 0, answered

    async def _open(self) -> Connection:
        while self._connections:
            idle = self._connections.pop()
            if not idle.closed:
                return idle
        return await Connection.open((HOST, self.bridge.port), "tests", self._correlation_ids)

    async def _ask(self, requests: Iterable[Any]) -> list[Answered]:
        each = [(await self._open(), request) for request in requests]
        return list(await asyncio.gather(*(self._one(c, request) for c, request in each)))

    async def _one(self, connection: Connection, request: Any) -> Answered:
        sent = time.monotonic()
        message, _ = await connection.call(request)
        self._connections.append(connection)
        return Answered(message, sent, time.monotonic())

    async def _in_turn(self, requests: Iterable[Any]) -> list[Answered]:
        return [await self._one(await self._open(), request) for request in requests]

    async def _until_broken(self, requests: Iterable[Any], answers: list[Answered]) -> None:
        with suppress(OSError):
            for request in requests:
                answered = await self._one(await self._open(), request)
                answers.append(answered)  # one by one: the test looks on

    # ------------------------------------------------------------- looking
    def scrape(self) -> dict[str, float]:
        """Every sample without labels, by name."""
        text = self.bridge.wait_page("/metrics")
        families = text_string_to_metric_families(text)
        return {s.name: s.value for family in families for s in family.samples if not s.labels}

    def migration_offset(self) -> int:
        """What /migration says, read around the proxy."""
        data, _ = self.client.retry(self.client.get, "/migration")
        return int(json.loads(data)["kraft_metadata_offset"])

    def stat(self, path: str) -> ZnodeStat:
        """Read a znode's stat.

        Raises:
            NoNodeError: it is not there.
        """
        return self.client.retry(self.client.get, path)[1]

    def tree(self) -> dict[str, bytes | None]:
        """The whole tree."""
        return contents(self.dumped())

    def dumped(self) -> dict[str, Any]:
        """The whole tree with what ZooKeeper says of each znode, secrets left out."""
        return dump(self.zookeeper.hosts)

    def disagreements(self) -> list[str]:
        """Where ZooKeeper and the log disagree, by the judge: raw reads, Kafka's own log tool."""
        self.settle()
        log = judge.from_log(judge.dump_log(self.bridge.data))
        return judge.differences(judge.from_dump(self.dumped()), log)

    def topics(self) -> set[str]:
        """Names in ZooKeeper."""
        # Its session may have ended while ZooKeeper was away.
        return set(self.client.retry(self.client.get_children, "/brokers/topics"))

    def first_requests(self) -> list[list[Op]]:
        """What the controller asked of ZooKeeper until its first dual write, in order."""
        return [decode(frame)[1] for _, frame in self.seen[: self._first]]

    def troubles(self) -> int:
        """How often the controller has noticed that something between it and ZooKeeper broke."""
        signs = ("zookeeper connection lost", "the whole tree in zookeeper is compared again")
        return sum(any(sign in line for sign in signs) for line in self.bridge.lines())

    def updates(self) -> list[int]:
        """UpdateMetadata requests that came to each broker."""
        return self.brokers.updates()

    @contextmanager
    def listening(self) -> Iterator[tuple[int, list[object]]]:
        """A port of its own, and a list that grows by each connection to it."""
        connections: list[object] = []

        async def accepted(reader: object, writer: asyncio.StreamWriter) -> None:
            connections.append(reader)
            writer.close()

        async def listen() -> asyncio.Server:
            return await asyncio.start_server(accepted, HOST)

        async def close() -> None:
            server.close()

        server = self.loop.run(listen())
        try:
            yield server.sockets[0].getsockname()[1], connections
        finally:
            self.loop.run(close())

    def multis(self, since: int = 0) -> list[list[Op]]:
        """The multis among what the proxy saw, from index ``since`` of `seen`."""
        decoded = [decode(frame) for _, frame in self.seen[since:]]
        return [ops for code, ops in decoded if code == 14]

    @contextmanager
    def frozen(self, *, answers: bool = False) -> Iterator[None]:
        """Nothing passes between the controller and ZooKeeper, or ``answers`` only."""
        self.proxy.freeze(to_client=not answers)
        try:
            yield
        finally:
            self.proxy.thaw()

    @contextmanager
    def written_once(self) -> Iterator[list[str]]:
        """Names of topics that are to be made inside: each is there in the end, made once.

        ZooKeeper counts creations and deletions of children: a topic made twice would show, and
        so would a partition state written a second time.
        """
        names: list[str] = []
        before = self.stat("/brokers/topics").cversion
        yield names
        self.settle()
        assert set(names) <= self.topics()
        assert self.stat("/brokers/topics").cversion - before == len(names)
        for name in names:
            topic = f"/brokers/topics/{name}"
            for path in (topic, f"{topic}/partitions/0/state"):
                stat = self.stat(path)
                assert (stat.version, stat.mzxid) == (0, stat.czxid), path


@contextmanager
def staged(
    zookeeper: ZooKeeper, folder: Path, properties: Mapping[str, object] | None = None
) -> Iterator[Stage]:
    """A cluster in dual write for the length of a ``with`` block; more properties win over ours."""
    with FaultProxy(zookeeper.port) as proxy:
        stage = Stage(folder, zookeeper, proxy, properties or {})
        try:
            stage.start()
            yield stage
        finally:
            stage.close()


def until(what: str, ready: Any, timeout_s: float = PATIENCE_S) -> None:
    """Wait for something."""
    wait_for(what, ready, timeout_s)


def _old_cluster(client: KazooClient) -> None:
    """What ZooKeeper-mode brokers left: a topic with a config, a broker's config, producer ids."""
    path = f"/brokers/topics/{OLD_TOPIC}"
    assignment = {
        "removing_replicas": {},
        "partitions": {"0": [0, 1, 2], "1": [1, 2, 0]},
        "topic_id": "Zm9sbG93LXRoZS13aHQtcg",
        "adding_replicas": {},
        "version": 3,
    }
    _put(client, path, assignment)
    client.create(f"{path}/partitions", None)
    for number in range(2):
        client.create(f"{path}/partitions/{number}", None)
        state = {
            "controller_epoch": 1,
            "leader": number,
            "version": 1,
            "leader_epoch": 0,
            "isr": [0, 1, 2],
        }
        _put(client, f"{path}/partitions/{number}/state", state)
    config = {"version": 1, "config": {"retention.ms": "100000"}}
    _put(client, f"/config/topics/{OLD_TOPIC}", config)
    _put(client, "/config/brokers/0", {"version": 1, "config": {"log.cleaner.threads": "2"}})
    block = {"version": 1, "broker": 0, "block_start": "0", "block_end": "999"}
    client.set("/latest_producer_id_block", json.dumps(block).encode())


def _put(client: KazooClient, path: str, value: object) -> None:
    client.create(path, json.dumps(value).encode())
