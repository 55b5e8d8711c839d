"""Nodes of a cluster that come and go: who leads, and calls in a wrong order."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.servers.waiting import wait_for
from emulator.testing import Cluster, ClusterError, Fault
from emulator.testing.cluster import START_S
from tests.unit.testing.test_cluster import assert_nothing_left, left_open
from wire import messages as m


@pytest.fixture(autouse=True, scope="module")
def _made_once_for_a_process() -> None:
    """uvloop keeps a pipe for signals."""
    with Cluster():
        pass


def create(cluster: Cluster, name: str = "orders", partitions: int = 1, replicas: int = 3) -> None:
    topic = m.CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas
    )
    request = m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    assert [one.error_code for one in cluster.request(request).topics] == [0]


def leader(cluster: Cluster, via: int, name: str = "orders") -> int:
    topic = m.MetadataRequest.MetadataRequestTopic(name=name)
    (found,) = cluster.request(m.MetadataRequest(topics=[topic]), via).topics
    return int(found.partitions[0].leader_id)


def known_brokers(cluster: Cluster, via: int) -> list[int]:
    return [one.node_id for one in cluster.request(m.MetadataRequest(topics=[]), via).brokers]


def node(cluster: Cluster, node_id: int) -> dict[str, object]:
    return next(one for one in cluster.nodes if one["id"] == node_id)


def refuses(address: object) -> bool:
    host, _, port = str(address).rpartition(":")
    try:
        socket.create_connection((host, int(port)), 5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_each_of_several_controllers_can_lead() -> None:
    with Cluster(controllers=3, fsync=False) as cluster:
        assert cluster.controllers.count(":") == 3
        first = cluster.active_controller
        epoch = cluster.status()["leader_epoch"]
        second = cluster.resign(first)
        assert second != first
        assert cluster.status()["leader_epoch"] > epoch
        for node_id in (3000, 3001, 3002, 3002):
            cluster.move_controller(node_id)
            assert cluster.active_controller == node_id
            assert [one["id"] for one in cluster.nodes if one["active"]] == [node_id]
        cluster.stop(3002)
        assert refuses(node(cluster, 3002)["address"])
        cluster.move_controller(3000)
        cluster.start(3002)
        cluster.move_controller(3002)
        answer = cluster.request(m.DescribeQuorumRequest(), 3002, client_id="test")
        assert answer.error_code == 0


def test_a_controller_that_is_alone_cannot_resign() -> None:
    with Cluster() as cluster:
        with pytest.raises(ClusterError, match="one controller"):
            cluster.resign()
        cluster.move_controller(3000)


def test_leaders_move_and_brokers_are_fenced_and_all_brokers_know_it_at_once() -> None:
    with Cluster(brokers=3, controllers=3, fsync=False) as cluster:
        create(cluster)
        for wanted in (2, 0, 1, 1, 2):
            cluster.move_leader("orders", 0, wanted)
            assert [leader(cluster, via) for via in range(3)] == [wanted] * 3
        cluster.fence(2)
        assert node(cluster, 2)["fenced"] is True
        assert leader(cluster, 0) != 2
        assert known_brokers(cluster, 1) == [0, 1]
        with pytest.raises(ClusterError, match="broker 2 is not in sync"):
            cluster.move_leader("orders", 0, 2)
        cluster.fence(2)
        cluster.unfence(2)
        assert known_brokers(cluster, 1) == [0, 1, 2]
        cluster.fence(1)
        cluster.stop(1)
        cluster.start(1)
        assert node(cluster, 1)["fenced"] is False
        with pytest.raises(ClusterError, match="no partition orders-7"):
            cluster.move_leader("orders", 7, 0)


def test_a_broker_that_is_unregistered_ends_in_order_after_its_answer() -> None:
    before = left_open()
    late = Fault(api="UnregisterBroker", delay_ms=300, executed=True)
    with Cluster(brokers=2, fsync=False, controller_faults=late) as cluster:
        for _ in range(3):
            # The answer comes by the broker that ends, later than it knows of its end.
            answer = cluster.request(m.UnregisterBrokerRequest(broker_id=1), 1)
            assert answer.error_code == 0
            wait_for("end of the broker", lambda: node(cluster, 1)["state"] == "stopped")
            assert "unregistered" in str(node(cluster, 1)["why"])
            assert node(cluster, 1)["fenced"] is None
            assert refuses(node(cluster, 1)["address"])
            assert node(cluster, 0)["state"] == "running"
            cluster.start(1)
            assert known_brokers(cluster, 0) == [0, 1]
        # One that is stopped already is only removed.
        cluster.stop(0)
        cluster.request(m.UnregisterBrokerRequest(broker_id=0), 3000)
        wait_for("removal", lambda: node(cluster, 0)["fenced"] is None)
        assert "granted" in str(node(cluster, 0)["why"])
    assert_nothing_left(before)


def test_calls_in_a_wrong_order_say_what_is_wrong() -> None:
    wrong: list[tuple[Callable[[Cluster], object], str]] = [
        (lambda one: one.start(0), "broker 0 is running already"),
        (lambda one: one.start(3000), "controller 3000 is running already"),
        (lambda one: one.stop(1), "the cluster has no node 1"),
        (lambda one: one.fence(3000), "controller 3000 is no broker"),
        (lambda one: one.move_controller(0), "broker 0 is no controller"),
        (lambda one: one.resign(0), "broker 0 is no controller"),
        (lambda one: one.resign(3001), "no node 3001"),
        (lambda one: one.move_leader("orders", 0, 3000), "controller 3000 is no broker"),
    ]
    with Cluster(brokers=1, fsync=False) as cluster:
        for call, why in wrong:
            with pytest.raises(ClusterError, match=why):
                call(cluster)
        cluster.stop(0)
        for call in (cluster.stop, cluster.fence, cluster.unfence):
            with pytest.raises(ClusterError, match="broker 0 is not running: stopped"):
                call(0)
        with pytest.raises(ClusterError, match="broker 0 ended"):
            cluster.status(0)
    with pytest.raises(ClusterError, match="broker 0 is not running"):
        cluster.stop(0)
    with pytest.raises(ClusterError, match="the cluster is being stopped"):
        cluster.start(0)
    with pytest.raises(ClusterError, match="controllers=0"):
        Cluster(controllers=0)
    with pytest.raises(ClusterError, match="not running"):
        Cluster(brokers=1).stop(0)


def test_without_a_majority_nothing_waits_for_one() -> None:
    begun_s = time.monotonic()
    with Cluster(brokers=2, controllers=3, fsync=False) as cluster:
        cluster.move_controller(3000)
        cluster.stop(3001)
        cluster.stop(3000)
        for call in (
            cluster.resign,
            lambda: cluster.fence(0),
            lambda: cluster.move_controller(3002),
        ):
            with pytest.raises(ClusterError, match="no majority of the controllers"):
                call()
        cluster.stop(1)
        cluster.start(1)
        cluster.stop(3002)
        assert cluster.active_controller is None
        cluster.start(3002)
        cluster.start(3001)
        assert cluster.active_controller in {3001, 3002}
        cluster.stop(3001)
        # Its end does not wait either.
    assert time.monotonic() - begun_s < START_S


@pytest.mark.parametrize("crash", [True, False])
def test_an_end_waits_for_no_shutdown_that_nobody_grants(crash: bool) -> None:
    session = {"broker.session.timeout.ms": "600000"}
    with Cluster(brokers=2, controllers=3, fsync=False, properties=session) as cluster:
        if crash:
            cluster.stop(0, at_once=True)
        else:
            cluster.stop(3000)
            cluster.stop(3001)


def test_a_broker_that_crashed_stays_registered_until_its_session_ends() -> None:
    session = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "100"}
    with Cluster(brokers=2, fsync=False, properties=session, broker_properties=session) as cluster:
        cluster.stop(0, at_once=True)
        assert known_brokers(cluster, 1) == [0, 1]
        cluster.start(0)
        assert node(cluster, 0)["fenced"] is False
        cluster.stop(0, at_once=True)
        wait_for("end of its session", lambda: node(cluster, 0)["fenced"] is True)


def test_a_kept_folder_goes_on_with_as_many_controllers_only(tmp_path: Path) -> None:
    with Cluster(controllers=3, folder=tmp_path, fsync=False) as first:
        cluster_id = first.cluster_id
        assert {one.name for one in tmp_path.iterdir()} == {
            f"controller-{node_id}" for node_id in (3000, 3001, 3002)
        }
    with Cluster(controllers=3, folder=tmp_path, fsync=False) as second:
        assert second.cluster_id == cluster_id
    with (
        pytest.raises(ClusterError, match="another number of controllers"),
        Cluster(controllers=5, folder=tmp_path),
    ):
        raise AssertionError("started")


def test_the_port_of_a_stopped_node_is_nobody_elses() -> None:
    with Cluster(brokers=1, fsync=False) as cluster:
        cluster.stop(0)
        port = int(cluster.bootstrap.rpartition(":")[2])
        with socket.socket() as other, pytest.raises(OSError) as taken:  # noqa: PT011 - by number
            other.bind(("127.0.0.1", port))
        assert taken.value.errno == errno.EADDRINUSE
        cluster.start(0)
        assert cluster.bootstrap == f"127.0.0.1:{port}"
        assert cluster.request(m.MetadataRequest(topics=[]), 0)


def test_the_end_does_not_wait_for_an_operation_under_way() -> None:
    before = left_open()
    failed: list[str] = []
    never = Fault(api="BrokerRegistration", error="UNSUPPORTED_VERSION", nth=2, times=10_000)
    with Cluster(brokers=1, fsync=False, controller_faults=never) as cluster:
        cluster.stop(0)

        def start() -> None:
            try:
                cluster.start(0)
            except ClusterError as error:
                failed.append(str(error))

        starting = threading.Thread(target=start)
        starting.start()
        wait_for("a refusal", lambda: cluster.faults[0]["fired"] > 0)
    starting.join()
    (why,) = failed
    assert "broker 0" in why
    assert_nothing_left(before)


def test_coroutines_use_several_controllers_and_leave_nothing() -> None:
    before = left_open()

    async def work() -> None:
        async with Cluster(brokers=1, controllers=3, fsync=False) as cluster:
            await asyncio.to_thread(cluster.stop, 0)
            await asyncio.to_thread(cluster.start, 0)
            await asyncio.gather(*(asyncio.to_thread(cluster.resign) for _ in range(4)))

    asyncio.run(work())
    asyncio.run(work())
    assert_nothing_left(before)
