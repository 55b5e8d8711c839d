"""A fleet goes from ZooKeeper mode to KRaft mode: on our controller and on Kafka 3.9.2's alike."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from emulator.servers.bridge import COMMAND, Bridge
from emulator.servers.kafka import KraftController
from emulator.servers.ports import HOST
from emulator.servers.seeded import connected
from emulator.servers.zookeeper import ZooKeeper
from tests.integration.secured_stage import Ensemble
from wire import records as r
from wire.batch import decode_batches
from wire.record_serde import decode_record

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

CLUSTER, ANOTHER = "5L6g3nShT-eMCtK--X86sw", "MkU3OEVBNTcwNTJENDM2Qg"
BROKERS, RESTARTED, TOPICS, PARTITIONS = 6, 2, 4, 6
OWNERS = ("ours", "kafka")
LISTENER = "INTERNAL"
"""The controllers' inter.broker.listener.name."""


def fleet(zookeeper: str, port: int, *more: str) -> subprocess.CompletedProcess[str]:
    """A fleet that migrates to the controller at a port, run to its end."""
    arguments = (
        f"--brokers {BROKERS} --zookeeper {zookeeper} --controller {HOST}:{port} --json "
        f"--cluster-id {CLUSTER} --listener {LISTENER} --patience 60"
    ).split()
    return subprocess.run(
        [sys.executable, "-c", COMMAND, "fleet", *arguments, *more],
        capture_output=True,
        text=True,
        check=False,
    )


@dataclass(frozen=True)
class Migrated:
    """What a fleet measured, and what is in ZooKeeper and in the log after its end."""

    figures: Mapping[str, Any]
    modes: tuple[str, ...]
    """As each broker registered last."""
    topics: frozenset[str]
    ids: frozenset[str]
    cluster: str
    ruler: int


def migrated(owner: str, zookeeper: ZooKeeper, folder: Path) -> Migrated:
    """One whole migration below an empty folder of ZooKeeper."""
    chroot = f"/{owner}"
    with ExitStack() as stack:
        root = stack.enter_context(connected(zookeeper.hosts))
        root.create(chroot, b"")
        hosts = f"{zookeeper.hosts}{chroot}"
        controller: Bridge | KraftController
        if owner == "ours":
            controller = Bridge(folder, hosts).format(CLUSTER)
        else:
            controller = KraftController("3.9.2", folder, hosts, CLUSTER)
        stack.callback(controller.kill)
        ended = fleet(
            hosts,
            controller.start().wait_started().port,
            *f"--topics {TOPICS} --partitions {PARTITIONS} --isr-churn 10 --seconds 8".split(),
            *f"--wave restart@1:{RESTARTED} --wave roll@4/2".split(),
            *("-X", "broker.heartbeat.interval.ms=500"),
        )
        assert ended.returncode == 0, ended.stderr + ended.stdout
        client = stack.enter_context(connected(hosts))
        return Migrated(json.loads(ended.stdout), modes(controller.data), *left(client))


def modes(data: Path) -> tuple[str, ...]:
    """``kraft`` or ``zk`` of each broker, in the order of their ids: their last registrations."""
    (log,) = (data / "__cluster_metadata-0").glob("*.log")
    last: dict[int, str] = {}
    for batch in decode_batches(log.read_bytes(), whole_only=False):
        if not batch.is_control:
            for _, value in batch.records:
                record, _ = decode_record(value)
                if isinstance(record, r.RegisterBrokerRecord):
                    last[record.broker_id] = "zk" if record.is_migrating_zk_broker else "kraft"
    return tuple(last[number] for number in sorted(last))


def left(client: KazooClient) -> tuple[frozenset[str], frozenset[str], str, int]:
    """Names of topics, ids of brokers, id of the cluster, and who holds ``/controller``."""
    cluster, _ = client.get("/cluster/id")
    holder, _ = client.get("/controller")
    return (
        frozenset(client.get_children("/brokers/topics")),
        frozenset(client.get_children("/brokers/ids")),
        json.loads(cluster)["id"],
        json.loads(holder)["brokerid"],
    )


@pytest.fixture(scope="module")
def both(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Migrated]:
    def one(owner: str) -> Migrated:
        return migrated(owner, zookeeper, tmp_path_factory.mktemp(owner))

    with ThreadPoolExecutor(len(OWNERS)) as pool:
        return dict(zip(OWNERS, pool.map(one, OWNERS), strict=True))


@pytest.mark.requirement("F01", "N02")
@pytest.mark.parametrize("owner", OWNERS)
def test_every_broker_comes_up_restarts_and_comes_back_in_kraft_mode(
    both: dict[str, Migrated], owner: str
) -> None:
    found = both[owner].figures
    assert found["waits"]["registration"]["count"] == BROKERS + RESTARTED + BROKERS
    assert found["waits"]["shutdown"]["count"] == BROKERS + RESTARTED + BROKERS
    assert (found["ended_badly"], found["absent"]) == ({}, {})
    assert both[owner].modes == ("kraft",) * BROKERS
    assert found["isr"]["unfinished"] == 0
    assert found["isr"]["done"] > 0


@pytest.mark.parametrize("owner", OWNERS)
def test_zookeeper_is_left_by_the_brokers_and_holds_what_they_created(
    both: dict[str, Migrated], owner: str
) -> None:
    found = both[owner]
    assert found.topics == {f"fleet-{number:05d}" for number in range(TOPICS)}
    assert found.ids == set()
    assert found.cluster == CLUSTER, "as --cluster-id says: there was none"
    assert found.ruler == 3000


def test_both_controllers_are_asked_the_same(both: dict[str, Migrated]) -> None:
    ours, kafka = (both[owner].figures for owner in OWNERS)
    assert set(ours["requests"]) == set(kafka["requests"])
    refusals = {error for found in (ours, kafka) for error in found["errors"]}
    assert not [one for one in refusals if not one.startswith(("AlterPartition", "Envelope"))]


def test_a_fleet_migrates_on_a_zookeeper_that_wants_tls_and_a_login(tmp_path: Path) -> None:
    folder = tmp_path / "ensemble"
    folder.mkdir()
    ensemble = Ensemble(folder)
    with ExitStack() as stack:
        stack.callback(ensemble.server.kill)
        secured = ensemble.tls() | ensemble.sasl()
        bridge = Bridge(tmp_path, ensemble.tls_hosts, properties=secured)
        stack.callback(bridge.kill)
        bridge.format(CLUSTER).start().wait_started()
        more = [word for key, value in secured.items() for word in ("-X", f"{key}={value}")]
        more += "--topics 1 --seconds 2 --wave roll@0/5".split()
        ended = fleet(ensemble.tls_hosts, bridge.port, *more)
        assert ended.returncode == 0, ended.stderr + ended.stdout
        waits = json.loads(ended.stdout)["waits"]
        assert waits["registration"]["count"] == BROKERS * 2
        client = stack.enter_context(ensemble.client())
        assert left(client) == ({"fleet-00000"}, set(), CLUSTER, 3000)


def bridge_on(stack: ExitStack, folder: Path, hosts: str, cluster_id: str) -> Bridge:
    """A controller of ours on an empty chroot."""
    server, _, chroot = hosts.partition("/")
    stack.enter_context(connected(server)).create(f"/{chroot}", b"")
    bridge = Bridge(folder, hosts)
    stack.callback(bridge.kill)
    bridge.format(cluster_id).start().wait_started()
    return bridge


@pytest.mark.requirement("N09")
def test_a_fleet_that_the_controller_refuses_to_the_end_fails(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        bridge = bridge_on(stack, tmp_path, f"{zookeeper.hosts}/refused", CLUSTER)
        lower = ("-X", "inter.broker.protocol.version=3.8")
        more = ("--seconds", "1", "--patience", "3", *lower)
        ended = fleet(f"{zookeeper.hosts}/refused", bridge.port, *more)
    assert ended.returncode == 1
    ((why, count),) = json.loads(ended.stdout)["absent"].items()
    assert "registration refused: UNSUPPORTED_VERSION" in why
    assert count == BROKERS


@pytest.mark.requirement("N08")
def test_a_fleet_whose_cluster_is_not_the_controllers_ends_at_once_and_says_so(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        bridge = bridge_on(stack, tmp_path, f"{zookeeper.hosts}/foreign", ANOTHER)
        ended = fleet(f"{zookeeper.hosts}/foreign", bridge.port, "--seconds", "600")
    assert ended.returncode == 1
    *_, last = ended.stderr.splitlines()
    assert last.startswith("kraft-bridge: broker ")
    assert "INCONSISTENT_CLUSTER_ID" in last
    assert CLUSTER in last
