"""Three real brokers migrated once: what passed on the wire and what was seen, for many tests.

Every connection runs through a proxy that keeps the requests: brokers to our controller, our
controller to brokers, our controller to ZooKeeper, each broker to ZooKeeper. Nothing here asserts.
"""

from __future__ import annotations

import asyncio
import functools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from bench.demo.clients import Clients
from bench.judge.stores import Entities, dump_log, from_dump, from_log
from bench.load import cluster_api as api
from bench.load.records import Verdict
from emulator.commands.zk.compare import compare
from emulator.servers.bridge import Bridge
from emulator.servers.cluster import KafkaCluster
from emulator.servers.fault_proxy import FaultProxy, FrameProtocol, Kind
from emulator.servers.ports import free_port
from emulator.servers.seeded import connected
from emulator.servers.tool_host import ToolHost
from emulator.servers.waiting import wait_for
from emulator.servers.zk_dump import contents, dump
from tests.integration import client_entities, elections
from tests.integration.looking import CLAIMED, a_new_session, prepared
from tests.integration.taps import Confluent, Tap, java_producer, key_of, last_offset
from tests.integration.zookeeper_frames import MULTI, operation
from wire import messages as m
from wire.frame import decode_request
from wire.schema import spec

FETCH, CONTROL = 1, {4, 5, 6}
LOG = "__cluster_metadata-0"
LIFE = {62, 63}
"""BrokerRegistration and BrokerHeartbeat."""
OLD_EPOCH = 40
ZK_DELAY_MS = 200
PAUSED = 2
ALONE = 1
ROLLED = 2


@dataclass
class Story:
    """The run, as tests look at it."""

    cluster: KafkaCluster
    bridge: Bridge
    look: KazooClient
    controller_tap: Tap
    broker_taps: list[Tap]
    zk_tap: Tap
    broker_zk_taps: list[Tap]
    seen: dict[str, Any] = field(default_factory=dict)
    """What was looked at on the way, by name."""
    log_ends: list[tuple[bytes, int]] = field(default_factory=list)
    """Each multi on its way to ZooKeeper, and the last offset in the log's files at that moment."""
    offsets: list[int] = field(default_factory=list)
    """``kraft_metadata_offset`` of ``/migration``, read again and again in dual write."""

    def json(self, path: str) -> Any:
        return json.loads(self.look.get(path)[0])

    def shape(self, broker: int = 0) -> api.Shape:
        return asyncio.run(api.shape(self.cluster.brokers[broker].bootstrap))

    def tree(self) -> dict[str, bytes | None]:
        return contents(dump(self.cluster.zk, with_secrets=True))

    @functools.cached_property
    def records(self) -> list[dict[str, Any]]:
        """The metadata log, read by Kafka's own tool."""
        return dump_log(self.bridge.data)

    @property
    def copied(self) -> list[dict[str, Any]]:
        """Records of the log up to the end of the migration's transaction."""
        marks = [
            index
            for index, record in enumerate(self.records)
            if record["type"] == "END_TRANSACTION_RECORD"
        ]
        return self.records[: marks[-1] + 1]

    def stores(self) -> tuple[Entities, Entities]:
        tree = from_dump(dump(self.cluster.zk, with_secrets=True))
        return tree, from_log(dump_log(self.bridge.data))

    def whole(self) -> None:
        """Wait until every replica is in sync that is not on its way."""
        count = len(self.cluster.brokers)

        def ready() -> bool:
            seen = self.shape()
            short = [one for one in seen.short() if not one.startswith(elections.MOVING)]
            return len(seen.brokers) == count and not short

        wait_for("replicas in sync", ready)

    def wait_fenced(self, broker: int, *, fenced: bool) -> dict[str, Any]:
        return self.bridge.wait_status(
            f"broker {broker} fenced={fenced}",
            lambda status: any(
                one["id"] == broker and one["fenced"] is fenced for one in status["brokers"]
            ),
        )

    def create(self, *topics: tuple[str, int, int]) -> float:
        """Create topics through a broker; returns how long the answer took, in seconds."""
        begin = time.monotonic()
        asyncio.run(
            api.create_topics(
                self.cluster.brokers[0].bootstrap, [api.topic(*one, {}) for one in topics]
            )
        )
        return time.monotonic() - begin


@contextmanager
def wired(cluster: KafkaCluster, folder: Path) -> Iterator[Story]:
    """Proxies everywhere; nothing started yet."""
    with ExitStack() as stack:

        def tap(port: int, protocol: FrameProtocol) -> Tap:
            return Tap(stack.enter_context(FaultProxy(port, protocol)))

        zk_port = int(cluster.zk.rpartition(":")[2])
        zk_tap = tap(zk_port, FrameProtocol.ZOOKEEPER)
        log_ends: list[tuple[bytes, int]] = []
        bridge = Bridge(
            folder,
            zk_tap.proxy.hosts,
            release=cluster.brokers[0].release,
            properties={"zookeeper.session.timeout.ms": 6000},
        )
        stack.callback(bridge.kill)

        def beside_the_log(frame: bytes) -> bool:
            if operation(frame) == MULTI:
                log_ends.append((frame, last_offset(bridge.data / LOG)))
            return True

        zk_tap.keep(beside_the_log)
        broker_taps, broker_zk_taps = [], []
        for broker in cluster.brokers:
            broker_zk_taps.append(tap(zk_port, FrameProtocol.ZOOKEEPER).keep())
            broker.zk = broker_zk_taps[-1].proxy.hosts
            internal = tap(broker.internal_port, FrameProtocol.KAFKA)
            internal.keep_answers(lambda frame: key_of(frame) in CONTROL)
            broker_taps.append(internal.keep(lambda frame: key_of(frame) in CONTROL))
            broker.extra["advertised.listeners"] = (
                f"INTERNAL://{internal.proxy.hosts},CLIENT://{broker.bootstrap}"
            )
        controller_tap = tap(bridge.port, FrameProtocol.KAFKA)
        controller_tap.keep_answers(lambda frame: key_of(frame) in LIFE)
        look = stack.enter_context(connected(cluster.zk))
        yield Story(
            cluster,
            bridge,
            look,
            controller_tap.keep(lambda frame: key_of(frame) != FETCH),
            broker_taps,
            zk_tap,
            broker_zk_taps,
            log_ends=log_ends,
        )


def tell(story: Story, folder: Path) -> None:
    """From a ZooKeeper-mode cluster to dual write, through changes, to the end."""
    with ExitStack() as stack:
        stack.callback(story.cluster.kill)
        elections.prepare(story)
        client_entities.prepare(story)
        watched = story.cluster.brokers[0]
        watched.jmx_port = free_port()
        _old_cluster(story)
        elections.in_zookeeper_mode(story, folder)
        client_entities.in_zookeeper_mode(story)
        clients = Clients(story.cluster.bootstrap, folder / "trace", "test")
        stack.callback(clients.abandon)
        clients.start({"words-aiokafka": 3})
        confluent = Confluent(story.cluster.bootstrap, "words-confluent")
        stack.callback(confluent.stop)
        java = java_producer(story.cluster, folder, "words-java")
        stack.callback(java.kill)
        wait_for("group topic", lambda: "__consumer_offsets" in story.shape().topics)
        tools = stack.enter_context(ToolHost())
        story.seen["state_by_jmx"] = _state_by_jmx(tools, watched.jmx_port)
        watched.jmx_port = None
        _migrate(story, tools)
        _change(story)
        _ask_for_a_level(story, tools, "bootstrap-server", story.cluster.bootstrap)
        _send_every_change(story)
        elections.in_dual_write(story, folder, tools)
        client_entities.in_dual_write(story)
        _pause(story)
        elections.after_the_pause(story)
        elections.at_the_end(story)
        confluent.stop()
        java.stop()
        produced, consumed = clients.stop()
        verdict: Verdict = clients.verify(produced.acknowledged)
        story.seen["clients"] = (produced, consumed, verdict, confluent, java.lines())
        begin = time.monotonic()
        story.bridge.wait_drained()
        story.seen["stores"] = story.stores()
        story.seen["equal_after_s"] = time.monotonic() - begin
        begin = time.monotonic()
        story.seen["compared"] = compare(story.cluster.zk, story.bridge.data)[0]
        story.seen["compare_s"] = time.monotonic() - begin
        story.seen["status_at_the_end"] = story.bridge.wait_status("an answer", bool)
        story.seen["metrics"] = story.bridge.wait_page("/metrics")
        _roll_to_kraft(story)
        _tell_a_broker_otherwise(story)
        _depose(story)
        story.bridge.kill()
        _without_a_controller(story)


def _old_cluster(story: Story) -> None:
    story.look.create("/controller_epoch", str(OLD_EPOCH).encode())
    cluster = story.cluster.start().wait_ready()
    seen = story.shape()
    controller = seen.brokers[seen.controller_id]
    words = [f"words-{library}" for library in ("aiokafka", "confluent", "java")]
    topics = [
        api.topic("kept", 6, 3, {"retention.ms": "1234567", "cleanup.policy": "compact"}),
        api.topic("two", 3, 2, {}),
        api.topic("alone", 1, 1, {"max.message.bytes": "500000"}),
        api.topic("leaving", 4, 3, {"retention.ms": "7654321"}),
        *(api.topic(name, 3, 3, {}) for name in words),
    ]
    asyncio.run(api.create_topics(controller, topics))
    one = cluster.brokers[1].bootstrap
    limits = {"leader.replication.throttled.rate": "104857600"}
    asyncio.run(api.set_configs(one, api.BROKER, "1", limits))
    asyncio.run(api.set_configs(one, api.BROKER, "", {"message.max.bytes": "1500000"}))
    story.seen["controllers_before"] = [story.shape(id_).controller_id for id_ in range(3)]
    story.seen["controller_before"] = story.json("/controller")


def _state_by_jmx(tools: ToolHost, port: int) -> str:
    """What the controller's bean of a broker says of the migration, as Kafka's own tool prints."""
    url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"
    bean = "kafka.controller:type=KafkaController,name=ZkMigrationState"
    given = ("--object-name", bean, "--one-time", "true", "--jmx-url", url)
    printed = tools.run("org.apache.kafka.tools.JmxTool", *given)
    return printed.out


def _migrate(story: Story, tools: ToolHost) -> None:
    cluster, bridge, seen = story.cluster, story.bridge, story.seen
    bridge.format(story.json("/cluster/id")["id"]).start().wait_started()
    seen["waiting_for_all"] = bridge.wait_status(
        "three missing brokers", lambda status: len(status["migration"]["waiting"]) == 3
    )
    seen["prepared_first"] = prepared(cluster.brokers, bridge)
    _ask_for_a_level(story, tools, "bootstrap-controller", f"127.0.0.1:{bridge.port}")
    *first, last = cluster.brokers
    for broker in first:
        broker.stop()
        broker.migrate(story.controller_tap.proxy.port).start().wait_started()
        seen["waiting_for_plain"] = story.wait_fenced(broker.id, fenced=False)
        story.whole()
    last.stop()
    _ask_for_a_deletion(story)
    seen["waiting_for_absent"] = bridge.wait_status(
        "one missing broker, gone from /brokers/ids",
        lambda status: (
            ["/brokers/ids" in one["text"] for one in status["migration"]["waiting"]] == [False]
        ),
    )
    seen["tree_before"] = story.tree()
    seen["epoch_before"] = story.look.get("/controller_epoch")
    seen["last_restarts"] = time.monotonic()
    last.migrate(story.controller_tap.proxy.port).start().wait_started()
    seen["dual_write"] = bridge.wait_dual_write()
    bridge.wait_drained()
    seen["epoch_after"] = story.look.get("/controller_epoch")
    seen["controller_after"] = story.look.get("/controller")
    seen["migration_after"] = story.json("/migration")
    seen["deletions_pzxid"] = story.look.get("/admin/delete_topics")[1].pzxid
    story.whole()


def _ask_for_a_level(story: Story, tools: ToolHost, how: str, where: str) -> None:
    """Ask by kafka-features for another metadata.version, and for the one in force."""
    for kind, level in (("downgrade", "3.8"), ("upgrade", "3.9")):
        story.seen[f"{kind}-{how}"] = tools.run(
            "org.apache.kafka.tools.FeatureCommand", f"--{how}", where, kind, "--metadata", level
        )


def _send_every_change(story: Story) -> None:
    """Each request that changes metadata, with nothing in it, to a broker."""
    features = m.UpdateFeaturesRequest
    requests = [
        m.CreateTopicsRequest(),
        m.DeleteTopicsRequest(),
        m.CreatePartitionsRequest(),
        m.CreateAclsRequest(),
        m.DeleteAclsRequest(),
        m.AlterClientQuotasRequest(),
        m.AlterUserScramCredentialsRequest(),
        m.ElectLeadersRequest(topic_partitions=[]),
        m.AlterPartitionReassignmentsRequest(),
        features(feature_updates=[features.FeatureUpdateKey(feature="no.such.feature")]),
    ]
    one = story.cluster.brokers[1].bootstrap
    story.seen["asked_for"] = {spec(type(request)).key for request in requests}
    for request in requests:
        asyncio.run(api.call(one, request))


def _ask_for_a_deletion(story: Story) -> None:
    """A broker with replicas is down: Kafka has to hold the deletion back."""

    def asked() -> bool:
        shape = story.shape()
        if shape.controller_id not in (0, 1):
            return False
        asyncio.run(api.delete_topic(shape.brokers[shape.controller_id], "leaving"))
        return story.look.exists("/admin/delete_topics/leaving") is not None

    wait_for("pending deletion", asked)


@contextmanager
def _offsets(story: Story) -> Iterator[None]:
    over = threading.Event()

    def poll() -> None:
        while not over.wait(0.02):
            story.offsets.append(story.json("/migration")["kraft_metadata_offset"])

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _change(story: Story) -> None:
    seen = story.seen
    one = story.cluster.brokers[1].bootstrap
    with _offsets(story):
        story.create(("made", 3, 3))
        begin = time.monotonic()
        wait_for(
            "topic on each broker", lambda: all("made" in story.shape(b).topics for b in range(3))
        )
        seen["shown_after_s"] = time.monotonic() - begin
        begin = time.monotonic()
        for broker in range(3):
            story.shape(broker)
        seen["look_s"] = time.monotonic() - begin
        kinds = m.CreatePartitionsRequest
        more = kinds.CreatePartitionsTopic(name="made", count=5, assignments=None)
        seen["more"] = asyncio.run(api.call(one, kinds(topics=[more], timeout_ms=20_000)))
        asyncio.run(api.set_configs(one, api.TOPIC, "made", {"retention.ms": "99999"}))
        seen["controllers_after"] = {story.shape(b % 3).controller_id for b in range(18)}
        seen["quick_s"] = [story.create((f"quick-{i}", 1, 1)) for i in range(3)]
        story.bridge.wait_drained()
        story.zk_tap.proxy.delay(to_server_ms=ZK_DELAY_MS)
        seen["delayed_s"] = [story.create((f"delayed-{i}", 1, 1)) for i in range(3)]
        seen["lag_while_delayed"] = story.bridge.wait_status("an answer", bool)["migration"]["lag"][
            "records"
        ]
        story.zk_tap.proxy.delay()
        story.bridge.wait_drained()
        fault = story.zk_tap.proxy.plan(Kind.LOSE_REPLY, code=MULTI)
        story.create(("after-loss", 2, 2))
        fault.wait()
        story.create(("doomed", 2, 2))
        story.bridge.wait_drained()
        story.whole()
        asyncio.run(api.delete_topic(one, "doomed"))
        wait_for("end of the replicas", lambda: not folders(story, "doomed"))


def folders(story: Story, topic: str) -> list[Path]:
    """Folders that brokers keep as partitions of a topic, not as deleted or stray ones."""
    return [
        folder
        for broker in story.cluster.brokers
        for folder in broker.data.glob(f"{topic}-*")
        if not folder.name.endswith(("-delete", "-stray"))
    ]


def _pause(story: Story) -> None:
    """A broker stands still past its session: it is fenced, and comes back by itself."""
    with story.cluster.brokers[PAUSED].paused():
        story.wait_fenced(PAUSED, fenced=True)
        story.seen["fenced_at"] = time.monotonic()
        wait_for("leaders elsewhere", lambda: PAUSED not in story.shape().led())
        story.seen["shape_while_paused"] = story.shape()
        elections.while_paused(story)
    story.wait_fenced(PAUSED, fenced=False)
    story.whole()


def _roll_to_kraft(story: Story) -> None:
    """A broker leaves ZooKeeper, as each does in the end; the others stay as they are."""
    story.seen["rolled"] = time.monotonic()
    story.seen["metrics_before_the_roll"] = story.bridge.wait_page("/metrics")
    broker = story.cluster.brokers[ROLLED]
    broker.stop()
    broker.zk, broker.migration = None, False
    broker.start().wait_started()
    story.wait_fenced(ROLLED, fenced=False)
    story.whole()
    story.create(("of-both", 1, 3))
    wait_for(
        "topic on each broker", lambda: all("of-both" in story.shape(b).topics for b in range(3))
    )
    story.whole()
    story.bridge.wait_drained()
    story.seen["stores_of_both"] = story.stores()
    story.seen["metrics_after_the_roll"] = story.bridge.wait_page("/metrics")
    story.seen["described"] = [
        asyncio.run(api.call(one.bootstrap, m.DescribeClusterRequest()))
        for one in story.cluster.brokers
    ]


def _tell_a_broker_otherwise(story: Story) -> None:
    """The same UpdateMetadata twice, first as if a ZooKeeper controller had sent it."""
    kind = m.UpdateMetadataRequest
    frames = [decode_request(frame)[1] for _, frame in [*story.broker_taps[0].kept]]
    update = next(each for each in reversed(frames) if isinstance(each, kind) and each.live_brokers)
    update.topic_states = []
    update.broker_epoch = -1  # either kind of controller may leave it out
    broker = story.cluster.brokers[0]
    told: dict[bool, tuple[int, int]] = {}
    for flag in (False, True):
        update.is_kraft_controller = flag
        answer = asyncio.run(api.call(f"127.0.0.1:{broker.internal_port}", update, 8))
        told[flag] = (answer.error_code, story.shape().controller_id)
    story.seen["controller_by_flag"] = told


def _depose(story: Story) -> None:
    """A foreign hand on /controller_epoch; put right again for whoever looks at the tree next."""
    data, _ = story.look.get("/controller_epoch")
    # The controller notices after the change is answered: later it sends callers away.
    story.zk_tap.proxy.freeze()
    story.look.set("/controller_epoch", str(int(data) + 1).encode())
    asyncio.run(
        api.set_configs(
            story.cluster.brokers[1].bootstrap, api.TOPIC, "made", {"retention.ms": "99998"}
        )
    )
    story.zk_tap.proxy.thaw()
    story.seen["deposed"] = wait_for(
        "foreign change noticed",
        lambda: (
            (not story.bridge.alive and story.bridge.tail())
            or (story.bridge.status() or {"migration": {}})["migration"].get("deposed_because")
        ),
    )
    story.look.set("/controller_epoch", data)


def _without_a_controller(story: Story) -> None:
    """The quorum is gone for longer than its session; a broker's own session ends meanwhile.

    A broker in ZooKeeper mode tries to become the controller when it has a new session.
    """
    seen = story.seen
    seen["controller_left"] = [story.look.get(path) for path in CLAIMED]
    seen["asked_alone"] = a_new_session(story.look, story.broker_zk_taps[ALONE], ALONE)
    seen["controller_later"] = [story.look.get(path) for path in CLAIMED]
