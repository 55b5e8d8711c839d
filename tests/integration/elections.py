"""Steps of the one migration: leaders that move, replicas that move. Nothing here asserts.

``swapped`` gets other preferred replicas, so that there is something to elect. ``moving`` is on its
way to broker 2 when the migration begins, and held back there by a throttle.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any

from confluent_kafka import ElectionType, Producer
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from bench.load import cluster_api as api
from emulator.cli import app
from emulator.servers.tool_host import Printed, ToolHost
from emulator.servers.waiting import wait_for
from tests.kit import requests

if TYPE_CHECKING:
    from tests.integration.migrated import Story

ELECTION = "/admin/preferred_replica_election"
TARGET = 2
AT_THE_ANSWER = "log-at-the-answer"
SWAPPED, MOVING = "swapped", "moving"
FIRST, SECOND, THIRD = (0, 1, 2), (1, 0, 2), (2, 1, 0)
THROTTLE = "follower.replication.throttled"
_ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_TIMEOUT_MS = 20_000


def prepare(story: Story) -> None:
    """Before the brokers start: the one to be throttled fetches a batch at a time.

    It is not throttled yet when it starts to fetch after a restart.
    """
    story.cluster.brokers[TARGET].extra["replica.fetch.max.bytes"] = 1_024


def bridge_tool(*arguments: object) -> tuple[int, str, str]:
    """Run ``kraft-bridge elect-leaders``: exit code, stdout, stderr."""
    result = CliRunner().invoke(app, ["elect-leaders", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def leaders(story: Story, topic: str = SWAPPED) -> dict[int, int]:
    return {index: one[0] for index, one in sorted(story.shape().topics[topic].items())}


def replicas(story: Story, topic: str) -> dict[int, tuple[int, ...]]:
    return {index: one[1] for index, one in sorted(story.shape().topics[topic].items())}


def elect(broker: str, topic: str, *indexes: int, kind: int = 0) -> Any:
    """ElectLeaders over a raw connection."""
    request = requests.elect(topic, *indexes, kind=kind, timeout_ms=_TIMEOUT_MS)
    return asyncio.run(api.call(broker, request))


def reassign(broker: str, topic: str, target: Sequence[int], *indexes: int) -> Any:
    """AlterPartitionReassignments over a raw connection."""
    request = requests.reassign(topic, target, *indexes, timeout_ms=_TIMEOUT_MS)
    return asyncio.run(api.call(broker, request))


def _create(controller: str, name: str, *assigned: Sequence[int]) -> None:
    topics = requests.create_topics(name, assigned=assigned).topics
    asyncio.run(api.create_topics(controller, topics))


def in_zookeeper_mode(story: Story, folder: Path) -> None:
    """What is under way when the migration begins; and an election by the znode."""
    shape = story.shape()
    controller = shape.brokers[shape.controller_id]
    _create(controller, SWAPPED, FIRST, FIRST, FIRST)
    _create(controller, MOVING, (0, 1), (0, 1))
    _fill(story.cluster.bootstrap)
    asyncio.run(api.set_configs(controller, api.TOPIC, MOVING, {f"{THROTTLE}.replicas": "*"}))
    target = story.cluster.brokers[TARGET].bootstrap
    asyncio.run(api.set_configs(target, api.BROKER, str(TARGET), {f"{THROTTLE}.rate": "1"}))
    log = story.cluster.brokers[TARGET].log
    in_force = (f"topics/{MOVING} with config", f"{THROTTLE}.rate -> 1)")
    wait_for("throttle", lambda: all(one in log.read_text() for one in in_force))
    story.seen["moving_asked"] = reassign(controller, MOVING, (TARGET, 1), 0, 1)
    reassign(controller, SWAPPED, SECOND, 0, 1, 2)
    wait_for("other preferred replicas", lambda: set(replicas(story, SWAPPED).values()) == {SECOND})
    story.seen["leaders_swapped"] = leaders(story)
    wanted = ("--path-to-json-file", _order(folder, SWAPPED, SECOND, 0, 1, 2))
    story.seen["by_zookeeper"] = bridge_tool("--zookeeper", story.cluster.zk, *wanted)
    story.seen["leaders_by_zookeeper"] = leaders(story)


def _fill(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(1_000):
        producer.produce(MOVING, bytes(20_000), partition=number % 2)
        producer.poll(0)
    producer.flush(30)


def in_dual_write(story: Story, folder: Path, host: ToolHost) -> None:
    """Kafka's own tools and ours; of what is under way one is cancelled, one completed."""
    seen, one = story.seen, story.cluster.brokers[1].bootstrap
    seen["moving_at_dual_write"] = story.json(f"/brokers/topics/{MOVING}")

    def tool(main: str, *arguments: object) -> Printed:
        return host.run(main, "--bootstrap-server", one, *map(str, arguments))

    seen["reassignments_listed"] = tool(_REASSIGN, "--list")
    _cancel(story, folder, tool)
    _complete(story, folder, tool)
    order = _order(folder, SWAPPED, THIRD, 0, 1, 2)
    seen["reordered"] = tool(_REASSIGN, "--execute", "--reassignment-json-file", order)
    wait_for("order", lambda: set(replicas(story, SWAPPED).values()) == {THIRD})
    _tamper(story)
    seen["leaders_reordered"] = leaders(story)
    seen["refused_by_zookeeper"] = bridge_tool("--zookeeper", story.cluster.zk)
    wanted = ("--election-type", "preferred", "--topic", SWAPPED, "--partition")
    seen["java_elected"] = tool(_ELECT, *wanted, 0)
    seen["leaders_after_java"] = _told(story, {0: TARGET})
    seen["java_again"] = tool(_ELECT, *wanted, 0)
    several = _order(folder, SWAPPED, THIRD, 0, 99)
    kind = ("--election-type", "preferred")
    seen["java_unknown"] = tool(_ELECT, *kind, "--path-to-json-file", several)
    ours = ("--bootstrap-server", one, "--topic", SWAPPED, "--partition", 1)
    seen["ours_elected"] = bridge_tool(*ours)
    copytree(story.bridge.data, folder / AT_THE_ANSWER)
    seen["log_at_the_answer"] = folder / AT_THE_ANSWER
    seen["leaders_after_ours"] = _told(story, {0: TARGET, 1: TARGET})
    seen["ours_again"] = bridge_tool(*ours)
    seen["all_elected"] = _elect_all(story)


def while_paused(story: Story) -> None:
    """The preferred replica of ``swapped`` is fenced.

    Asked by raw connections: brokers may name the one that stands still as the controller.
    """
    one = story.cluster.brokers[1].bootstrap
    story.seen["preferred_away"] = elect(one, SWAPPED, 0)
    story.seen["unclean_needless"] = elect(one, SWAPPED, 0, kind=1)


def after_the_pause(story: Story) -> None:
    """Every leader goes back, by one call without a list."""
    story.seen["elected_after_pause"] = _elect_all(story)


def at_the_end(story: Story) -> None:
    """What became of the znode that nobody reads."""
    story.seen["election_znode_at_the_end"] = story.json(ELECTION)
    story.look.delete(ELECTION)


def _told(story: Story, expected: dict[int, int]) -> dict[int, int]:
    """Leaders of ``swapped`` once brokers have been told, which trails what is committed."""
    wait_for("new leaders", lambda: expected.items() <= leaders(story).items())
    return leaders(story)


def _elect_all(story: Story) -> dict[tuple[str, int], Any]:
    """Partition -> None or the error, as librdkafka tells; then every preferred replica leads."""
    admin = AdminClient({"bootstrap.servers": story.cluster.brokers[1].bootstrap})
    results = admin.elect_leaders(ElectionType.PREFERRED, None).result()

    def preferred() -> bool:
        return all(leader == one[0] for leader, one, _ in story.shape().partitions)

    wait_for("preferred leaders everywhere", preferred)
    return {(one.topic, one.partition): error for one, error in results.items()}


def _order(folder: Path, topic: str, target: Sequence[int], *indexes: int) -> Path:
    parts = [{"topic": topic, "partition": index, "replicas": target} for index in indexes]
    path = folder / f"{topic}-{'-'.join(map(str, indexes))}.json"
    path.write_text(json.dumps({"version": 1, "partitions": parts}))
    return path


def _cancel(story: Story, folder: Path, tool: Any) -> None:
    order = _order(folder, MOVING, (TARGET, 1), 1)
    wanted = ("--cancel", "--preserve-throttles", "--reassignment-json-file", order)
    story.seen["moving_cancelled"] = tool(_REASSIGN, *wanted)
    # In the order of the reassignment, as Kafka leaves them.
    wait_for("cancelled", lambda: replicas(story, MOVING)[1] == (1, 0))
    wait_for("no folder on the target", lambda: 1 not in held(story, TARGET))


def _complete(story: Story, folder: Path, tool: Any) -> None:
    target = story.cluster.brokers[TARGET].bootstrap
    rate = {f"{THROTTLE}.rate": "104857600"}
    asyncio.run(api.set_configs(target, api.BROKER, str(TARGET), rate))
    wait_for("completed", lambda: replicas(story, MOVING)[0] == (TARGET, 1))
    wait_for("no folder on the old broker", lambda: 0 not in held(story, 0))
    order = _order(folder, MOVING, (TARGET, 1), 0)
    wanted = ("--verify", "--preserve-throttles", "--reassignment-json-file", order)
    story.seen["moving_verified"] = tool(_REASSIGN, *wanted)
    story.seen["moving_held"] = {broker: held(story, broker) for broker in range(3)}


def held(story: Story, broker: int) -> set[int]:
    """Partitions of ``moving`` that a broker keeps a folder of, not as a deleted one."""
    found = story.cluster.brokers[broker].data.glob(f"{MOVING}-*")
    numbers = [folder.name.removeprefix(f"{MOVING}-") for folder in found]
    return {int(number) for number in numbers if number.isdigit()}


def _tamper(story: Story) -> None:
    """The way of the old tool, which asked no one whether anybody reads the znode."""
    value = {"version": 1, "partitions": [{"topic": SWAPPED, "partition": 2}]}
    story.seen["tampered"] = time.monotonic()
    story.look.create(ELECTION, json.dumps(value).encode())
