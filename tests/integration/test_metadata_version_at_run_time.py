"""metadata.version raised by Kafka's own kafka-features under load: in five steps, and in one.

Two plain KRaft clusters of real 3.9.2 brokers on our controllers, both formatted at 3.4-IV0; the
second one's folder by Kafka's own kafka-storage.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bench.demo.clients import Clients
from bench.judge.stores import dump_log
from bench.load import cluster_api as api
from emulator.raft.format import MetaProperties, render_meta_properties
from emulator.servers.bridge import Bridge
from emulator.servers.fault_proxy import FaultProxy, FrameProtocol
from emulator.servers.kafka import KafkaBroker
from emulator.servers.tool_host import Printed, ToolHost
from emulator.servers.waiting import wait_for
from tests.integration.taps import Confluent, Tap, key_of
from wire import messages as m

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

RELEASE = "3.9.2"
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
FETCH, API_VERSIONS = 1, 18
FIVE = {"3.5": 11, "3.6": 14, "3.7": 19, "3.8": 20, "3.9": 21}
FETCH_VERSION = {8: 13, 11: 15, 14: 15, 19: 16, 20: 16, 21: 17}
"""Between brokers, by level; MetadataVersion.fetchRequestVersion of 3.9.2."""
WORDS, WORDS_TOO = "words-aiokafka", "words-confluent"


@dataclass
class Cluster:
    """One cluster, and what was seen of it."""

    bridge: Bridge
    brokers: list[KafkaBroker]
    taps: list[Tap]
    tools: ToolHost
    raised: list[tuple[int, float, float]] = field(default_factory=list)
    """Level, and when kafka-features was asked for it and had done it (monotonic seconds)."""
    seen: dict[str, Any] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return self.brokers[0].bootstrap

    def features(self, *arguments: str) -> Printed:
        return self.tools.run(FEATURES, "--bootstrap-server", self.bootstrap, *arguments)

    def raise_to(self, name: str, level: int) -> None:
        begin = time.monotonic()
        done = self.features("upgrade", "--metadata", name)
        assert done.code == 0, done
        self.raised.append((level, begin, time.monotonic()))
        self.bridge.wait_status(
            f"level {level}", lambda status: bool(status["metadata_version"]["level"] == level)
        )
        for broker in self.brokers:
            self.wait_features(broker, level)

    def wait_features(self, broker: KafkaBroker, level: int) -> None:
        """Until a broker shows its clients the level, which is when it has replayed the record."""

        def told() -> bool:
            request = m.ApiVersionsRequest(client_software_name="t", client_software_version="1")
            answer = asyncio.run(api.call(broker.bootstrap, request, 3))
            found = {one.name: one.max_version_level for one in answer.finalized_features}
            return bool(found.get("metadata.version") == level)

        wait_for(f"level {level} on broker {broker.id}", told)

    def create(self, name: str) -> None:
        topic = api.topic(name, 2, len(self.brokers), {})
        asyncio.run(api.create_topics(self.bootstrap, [topic]))

    def fetch_in(self, version: int) -> bool:
        """Whether the newest fetch of each fetcher is in this version."""
        newest = {
            number: struct.unpack_from(">hh", frame)[1]
            for number, tap in enumerate(self.taps)
            for _, frame in tap.kept
            if key_of(frame) == FETCH and b"-fetcher-" in frame[:60]
        }
        return set(newest.values()) <= {version}

    def between_brokers(self) -> list[tuple[float, int, int]]:
        """Time, API key and version of what brokers' fetchers sent to each other."""
        frames = itertools.chain.from_iterable(tap.kept for tap in self.taps)
        found = []
        for at, frame in sorted(frames):
            key, version = struct.unpack_from(">hh", frame)
            if b"-fetcher-" in frame[:60]:
                found.append((at, key, version))
        return found


def prepared(stack: ExitStack, folder: Path, tools: ToolHost, *broker_ids: int) -> Cluster:
    """Our controller's configuration, and brokers in KRaft mode behind proxies; nothing started."""
    folder.mkdir()
    bridge = Bridge(folder, None)
    stack.callback(bridge.kill)
    brokers, taps = [], []
    for number in broker_ids:
        broker = KafkaBroker(
            RELEASE,
            number,
            folder,
            None,
            controller_port=bridge.port,
            broker_count=len(broker_ids),
        )
        stack.callback(broker.kill)
        proxy = stack.enter_context(FaultProxy(broker.internal_port, FrameProtocol.KAFKA))
        taps.append(Tap(proxy).keep(lambda frame: key_of(frame) in {FETCH, API_VERSIONS}))
        broker.extra["advertised.listeners"] = (
            f"INTERNAL://{proxy.hosts},CLIENT://{broker.bootstrap}"
        )
        broker.data.mkdir()
        meta = MetaProperties(CLUSTER_ID, number, bytes([100 + number] * 16))
        (broker.data / "meta.properties").write_bytes(render_meta_properties(meta))
        brokers.append(broker)
    return Cluster(bridge, brokers, taps, tools)


@pytest.fixture(scope="module")
def kraft_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Cluster]]:
    """Both clusters, all done and stopped: raised in five steps, and in one."""
    folder = tmp_path_factory.mktemp("levels")
    with ExitStack() as stack:
        tools = stack.enter_context(ToolHost(RELEASE))
        five = prepared(stack, folder / "five", tools, 1, 2)
        one = prepared(stack, folder / "one", tools, 1)
        five.bridge.format(CLUSTER_ID, "3.4-IV0")
        properties = one.bridge.write_properties()
        formatted = tools.run(
            "kafka.tools.StorageTool",
            *("format", "-t", CLUSTER_ID, "-c", properties, "--release-version", "3.4-IV0"),
        )
        assert formatted.code == 0, formatted
        for cluster in (five, one):
            cluster.bridge.start().wait_started()
        for cluster in (five, one):
            for broker in cluster.brokers:
                broker.start()
        for cluster in (five, one):
            for broker in cluster.brokers:
                broker.wait_started()
        story(stack, five, folder / "trace-five", FIVE)
        story(stack, one, folder / "trace-one", {"3.9": 21})
        yield five, one


def story(stack: ExitStack, cluster: Cluster, trace: Path, steps: dict[str, int]) -> None:
    """Raise it step by step under a producer and a consumer; then look at what is left."""
    seen = cluster.seen
    cluster.create(WORDS)
    cluster.create(WORDS_TOO)
    clients = Clients(cluster.bootstrap, trace, "test")
    stack.callback(clients.abandon)
    clients.start({WORDS: 2})
    confluent = Confluent(cluster.bootstrap, WORDS_TOO)
    stack.callback(confluent.stop)
    wait_for("records", lambda: min(confluent.acknowledged, clients.read) > 5)
    seen["described_before"] = cluster.features("describe").out
    seen["metrics_before"] = cluster.bridge.wait_page("/metrics")
    cluster.create("at-8")
    for name, level in steps.items():
        enough = (confluent.acknowledged + 5, clients.read + 5)
        cluster.raise_to(name, level)
        cluster.create(f"at-{level}")
        wait_for("records", functools.partial(_served, confluent, clients, enough))
        wait_for(
            f"fetches of level {level}",
            functools.partial(cluster.fetch_in, FETCH_VERSION[level]),
        )
        clients.check()
    seen["metrics_after"] = cluster.bridge.wait_page("/metrics")
    seen["described_after"] = cluster.features("describe").out
    if len(steps) > 1:
        seen["dry"] = cluster.features("downgrade", "--metadata", "3.8", "--dry-run")
        seen["safe"] = cluster.features("downgrade", "--metadata", "3.7-IV3")
        for broker in cluster.brokers:
            cluster.wait_features(broker, 18)
        seen["refused"] = cluster.features("downgrade", "--metadata", "3.7-IV1")
        seen["unsafe"] = cluster.features("downgrade", "--unsafe", "--metadata", "3.7-IV1")
        seen["quorum"] = cluster.tools.run(
            "org.apache.kafka.tools.MetadataQuorumCommand",
            *("--bootstrap-server", cluster.bootstrap, "describe", "--status"),
        )
    confluent.stop()
    produced, consumed = clients.stop()
    seen["clients"] = (produced, consumed, clients.verify(produced.acknowledged), confluent)
    seen["processes"] = [broker.alive for broker in cluster.brokers]
    if len(cluster.brokers) > 1:
        unregister(cluster)
    for broker in cluster.brokers:
        broker.kill()
    seen["code"] = cluster.bridge.stop()
    seen["records"] = dump_log(cluster.bridge.data)


def unregister(cluster: Cluster) -> None:
    """A broker that died is forgotten by Kafka's own tool."""
    first, last = cluster.brokers
    last.kill()
    cluster.seen["unregistered"] = cluster.tools.run(
        "org.apache.kafka.tools.ClusterTool",
        *("unregister", "--bootstrap-server", first.bootstrap, "--id", str(last.id)),
    )
    cluster.seen["status_after"] = cluster.bridge.wait_status(
        "one broker", lambda status: len(status["brokers"]) == 1
    )


def _served(producer: Confluent, clients: Clients, enough: tuple[int, int]) -> bool:
    """Whether so many records of librdkafka are acknowledged, and of aiokafka produced and read."""
    clients.check()
    return producer.acknowledged >= enough[0] and clients.read >= enough[1]


@pytest.fixture(params=["five", "one"])
def cluster(request: pytest.FixtureRequest, kraft_brokers: tuple[Cluster, Cluster]) -> Cluster:
    return kraft_brokers[("five", "one").index(request.param)]


@pytest.mark.requirement("J11", "J13")
def test_clients_notice_nothing_and_nothing_is_restarted(cluster: Cluster) -> None:
    produced, consumed, verdict, confluent = cluster.seen["clients"]
    assert not produced.failed
    assert not consumed.failed
    assert verdict.held
    assert confluent.errors == []
    assert min(len(produced.acknowledged), consumed.consumed, confluent.acknowledged) > 10
    assert all(cluster.seen["processes"])
    assert cluster.seen["code"] == 0
    levels = [level for level, _, _ in cluster.raised]
    assert levels in ([11, 14, 19, 20, 21], [21])


@pytest.mark.requirement("J12", "J23")
def test_record_versions_change_with_the_level_in_kafkas_own_dump(cluster: Cluster) -> None:
    """What Kafka's kafka-dump-log reads before and behind each FeatureLevel record."""
    level = 1
    versions: dict[tuple[str, int], set[int]] = {}
    for record in cluster.seen["records"]:
        kind = record["type"]
        if kind == "FEATURE_LEVEL_RECORD" and record["data"]["name"] == "metadata.version":
            level = record["data"]["featureLevel"]
        versions.setdefault((kind, level), set()).add(record["version"])
    named = {
        record["data"]["name"]: record["data"].get("topicId")
        for record in cluster.seen["records"]
        if record["type"] == "TOPIC_RECORD"
    }
    for at in [8, *(level for level, _, _ in cluster.raised)]:
        assert f"at-{at}" in named
        assert versions["PARTITION_RECORD", at] == {1 if at >= 17 else 0}
    assert versions["REGISTER_BROKER_RECORD", 8] == {2}
    # The brokers register again, unasked, when log directories can be kept.
    first = next(level for level, _, _ in cluster.raised if level >= 17)
    assert versions["REGISTER_BROKER_RECORD", first] == {3}
    before_15 = [at for kind, at in versions if kind == "REGISTER_CONTROLLER_RECORD" and at < 15]
    assert not before_15
    assert ("REGISTER_CONTROLLER_RECORD", first) in versions
    several = {key: found for key, found in versions.items() if len(found) > 1}
    # Kafka's controllers too write a change of a registration in the lowest version that says it.
    assert {kind for kind, _ in several} <= {"BROKER_REGISTRATION_CHANGE_RECORD"}


@pytest.mark.requirement("J04")
def test_a_folder_formatted_by_kafka_storage_begins_at_its_level(
    kraft_brokers: tuple[Cluster, Cluster],
) -> None:
    _, one = kraft_brokers
    kinds = [record["type"] for record in one.seen["records"][:2]]
    assert kinds == ["FEATURE_LEVEL_RECORD", "ZK_MIGRATION_STATE_RECORD"]
    assert one.seen["records"][0]["data"]["featureLevel"] == 8
    assert "FinalizedVersionLevel: 3.4-IV0" in one.seen["described_before"]


@pytest.mark.requirement("M03")
def test_the_metric_and_kafka_features_say_the_same(cluster: Cluster) -> None:
    line = 'kraft_bridge_features{feature="metadata.version",level="%d"} 1.0'
    assert line % 8 in cluster.seen["metrics_before"]
    assert line % 21 in cluster.seen["metrics_after"]
    assert line % 8 not in cluster.seen["metrics_after"]
    assert "FinalizedVersionLevel: 3.4-IV0" in cluster.seen["described_before"]
    assert "FinalizedVersionLevel: 3.9-IV0" in cluster.seen["described_after"]


@pytest.mark.requirement("J14", "J15")
def test_brokers_switch_their_requests_to_each_other_right_behind_the_record(
    kraft_brokers: tuple[Cluster, Cluster],
) -> None:
    """KIP-778 has them renegotiate by ApiVersions. As shipped, fetchers never ask: the level says
    the version, and the next fetch on the open connection is in it.
    """
    five, _ = kraft_brokers
    sent = five.between_brokers()
    marks = [(8, 0.0, 0.0), *five.raised, (18, time.monotonic(), 0.0)]
    for (level, _, done), (_, next_begin, _) in itertools.pairwise(marks):
        if level == 21:
            continue  # the safe downgrade follows within; see below
        versions = [version for at, key, version in sent if key == FETCH and done < at < next_begin]
        assert versions[-1] == FETCH_VERSION[level]
        assert set(versions) <= {FETCH_VERSION[level], _version_before(level)}
    last = [version for at, key, version in sent if key == FETCH and at > five.raised[-1][2]]
    assert 17 in last
    assert last[-1] == 15, "and back at 3.7-IV3"
    assert not [at for at, key, _ in sent if key == API_VERSIONS]


def _version_before(level: int) -> int:
    """The fetch of a session that was under way is sent to its end in the old version."""
    levels = [8, *FIVE.values()]
    return FETCH_VERSION[levels[max(levels.index(level) - 1, 0)]]


@pytest.mark.requirement("J20")
def test_a_safe_downgrade_is_done_and_one_that_loses_metadata_is_not(
    kraft_brokers: tuple[Cluster, Cluster],
) -> None:
    five, _ = kraft_brokers
    seen = five.seen
    assert "metadata.version can be downgraded to 20" in seen["dry"].out
    assert seen["dry"].code == seen["safe"].code == 0
    levels = [
        record["data"]["featureLevel"]
        for record in seen["records"]
        if record["type"] == "FEATURE_LEVEL_RECORD"
    ]
    assert levels == [8, 11, 14, 19, 20, 21, 18]
    for name, why in (
        ("refused", "downgrade because it might delete metadata information"),
        ("unsafe", "Unsafe metadata downgrade is not supported in this version"),
    ):
        assert seen[name].code == 1
        assert why in seen[name].out + seen[name].err


def test_the_quorum_is_described_through_a_broker(kraft_brokers: tuple[Cluster, Cluster]) -> None:
    """DescribeQuorum in an Envelope is answered by the Raft machine."""
    five, _ = kraft_brokers
    printed = five.seen["quorum"]
    assert printed.code == 0, printed
    found = dict(line.split(maxsplit=1) for line in printed.out.splitlines())
    assert (found["ClusterId:"], found["LeaderId:"]) == (CLUSTER_ID, "3000")
    assert int(found["HighWatermark:"]) > 0


def test_a_dead_broker_is_unregistered_by_kafkas_tool(
    kraft_brokers: tuple[Cluster, Cluster],
) -> None:
    """Out of every ISR first, then the registration, before its session could lapse."""
    five, _ = kraft_brokers
    assert five.seen["unregistered"].code == 0, five.seen["unregistered"]
    assert [one["id"] for one in five.seen["status_after"]["brokers"]] == [1]
    kinds = [r["type"] for r in five.seen["records"]]
    at = kinds.index("UNREGISTER_BROKER_RECORD")
    moves = [r["data"] for r in five.seen["records"][:at] if r["type"] == "PARTITION_CHANGE_RECORD"]
    assert five.seen["records"][at]["data"]["brokerId"] == 2
    assert moves[-1]["isr"] == [1]
