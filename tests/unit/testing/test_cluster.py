"""Clusters of one test: what they start, and that they leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
from collections import Counter
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import pytest

from emulator.testing import Cluster, ClusterError, Fault
from emulator.testing.cluster import _wait
from wire import messages as m


def one_topic(name: str = "orders") -> m.CreateTopicsRequest:
    topic = m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return m.CreateTopicsRequest(topics=[topic], timeout_ms=1_000)


@pytest.fixture(autouse=True, scope="module")
def _made_once_for_a_process() -> None:
    """uvloop keeps a pipe for signals."""
    with Cluster():
        pass


def left_open() -> Counter[str]:
    """Threads and descriptors of this process, each kind with how many there are.

    Not which ones: uvloop replaces the pipes that it keeps.
    """
    gc.collect()
    found = Counter(thread.name for thread in threading.enumerate())
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of this look itself
            found[str(path.readlink()).partition("[")[0]] += 1
    return found


def assert_nothing_left(before: Counter[str]) -> None:
    """What others left to this process may end meanwhile."""
    assert left_open() - before == Counter()


def test_it_serves_requests_from_synchronous_code() -> None:
    with Cluster() as cluster:
        answer = cluster.request(m.DescribeClusterRequest(endpoint_type=2))
        status = cluster.status()
    assert [(one.host, one.port) for one in answer.brokers] == [
        ("127.0.0.1", int(cluster.controllers.rpartition(":")[2]))
    ]
    assert answer.cluster_id == status["cluster_id"]
    assert status["active"] is True
    assert status["migration"] is None


def test_it_serves_requests_from_coroutines() -> None:
    async def work() -> tuple[object, set[asyncio.Task[object]]]:
        async with Cluster(release="3.5") as cluster:
            # It blocks this loop, and is answered all the same.
            answer = cluster.request(one_topic())
            assert cluster.status()["release"] == "3.5"
            return answer, asyncio.all_tasks()

    answer, tasks = asyncio.run(work())
    assert isinstance(answer, m.CreateTopicsResponse)
    # There is no broker to hold it.
    assert [topic.error_code for topic in answer.topics] == [38]
    assert len(tasks) == 1


@pytest.mark.parametrize("fsync", [True, False])
def test_it_leaves_no_thread_descriptor_or_file(fsync: bool) -> None:
    before = left_open()
    for _ in range(3):
        with (
            Cluster(fsync=fsync) as cluster,
            socket.create_connection(("127.0.0.1", int(cluster.controllers.rpartition(":")[2]))),
        ):
            folder = cluster.folder
            assert (folder / "controller-3000/meta.properties").exists()
            assert cluster.status()["fsync"] is fsync
    assert_nothing_left(before)
    assert not folder.exists()


def test_several_run_at_once_and_share_nothing() -> None:
    with Cluster() as one, Cluster(release="3.4") as other:
        assert one.controllers != other.controllers
        assert one.cluster_id != other.cluster_id
        assert (one.status()["release"], other.status()["release"]) == ("3.9", "3.4")


def test_without_fsync_nothing_is_synced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with Cluster(folder=tmp_path, fsync=False):
        """Formatted, with fsync as `kraft-bridge format` does it."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    with Cluster(folder=tmp_path, fsync=False):
        assert not synced
    with Cluster(folder=tmp_path):
        assert synced


def test_a_folder_of_its_own_is_kept_and_continued(tmp_path: Path) -> None:
    with Cluster(folder=tmp_path) as first:
        cluster_id, epoch = first.cluster_id, first.status()["leader_epoch"]
    with Cluster(folder=tmp_path) as second:
        assert second.cluster_id == cluster_id
        assert second.status()["leader_epoch"] == epoch + 1


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"release": "2.8"}, "kraftbridge.release"),
        ({"metadata_version": "9.9"}, "release version"),
        ({"properties": {"node.id": "7"}}, "set by the cluster itself: node.id"),
        ({"properties": {"num.partitions": "many"}}, "num.partitions"),
        ({"properties": {"kraftbridge.metrics.port": "1"}}, "kraftbridge.metrics.port=1"),
    ],
)
def test_what_is_wrong_is_said_and_leaves_nothing(
    settings: dict[str, object], why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = left_open()
    if "kraftbridge.metrics.port=1" in why:
        taken = socket.create_server(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        settings = {"properties": {"kraftbridge.metrics.port": port}}
        why = f"kraftbridge.metrics.port={port}"
    with pytest.raises(ClusterError, match=why), Cluster(**settings):  # type: ignore[arg-type]
        raise AssertionError("started")
    if "metrics" in why:
        taken.close()
    assert_nothing_left(before)
    assert list(tmp_path.iterdir()) == []


def test_the_error_of_a_test_is_not_hidden_by_the_end(tmp_path: Path) -> None:
    with pytest.raises(KeyError), Cluster():
        raise KeyError
    with pytest.raises(ClusterError, match="not running"):
        Cluster().status()


def test_a_node_that_broke_is_told_at_the_end() -> None:
    cluster = Cluster().__enter__()
    cluster._node(3000).call(lambda process: process.shell.fail(ValueError("broken on purpose")))
    assert isinstance(cluster._node(3000).thread.ended.exception(10), ValueError)
    with pytest.raises(ClusterError, match="broken on purpose"):
        cluster.status()
    with pytest.raises(ClusterError, match="broken on purpose"):
        cluster.__exit__(None, None, None)
    assert not cluster._node(3000).thread._thread.is_alive()


def test_brokers_register_and_answer() -> None:
    with Cluster(brokers=2) as cluster:
        created = cluster.request(one_topic())
        assert [topic.error_code for topic in created.topics] == [0]
        metadata = cluster.request(m.MetadataRequest(topics=[]), 1)
        told = [f"{one.host}:{one.port}" for one in metadata.brokers]
        assert ",".join(told) == cluster.bootstrap
        assert [one["fenced"] for one in cluster.status()["brokers"]] == [False, False]
        assert cluster.status(1)["fsync"] is True
        with pytest.raises(ClusterError, match="no node 2"):
            cluster.status(2)


def test_brokers_leave_nothing_behind() -> None:
    before = left_open()

    async def work() -> None:
        async with Cluster(brokers=2, fsync=False) as cluster:
            assert await asyncio.to_thread(cluster.request, m.MetadataRequest(topics=[]))

    asyncio.run(work())
    assert_nothing_left(before)


def test_a_broker_that_cannot_start_ends_the_others() -> None:
    before = left_open()
    wrong = {"num.partitions": "many"}
    with pytest.raises(ClusterError, match="many"), Cluster(brokers=1, broker_properties=wrong):
        raise AssertionError("started")
    assert_nothing_left(before)


def test_a_broker_that_is_not_served_is_told_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("emulator.testing.cluster.START_S", 1.0)
    refused = Fault(api="BrokerRegistration", error="UNSUPPORTED_VERSION")
    why = "broker 0 does not serve its clients yet: .*UNSUPPORTED_VERSION"
    with pytest.raises(ClusterError, match=why), Cluster(brokers=1, controller_faults=refused):
        raise AssertionError("started")

    async def work() -> None:
        async with Cluster(brokers=1, controller_faults=refused):
            raise AssertionError("started")

    with pytest.raises(ClusterError, match=why):
        asyncio.run(work())


def test_a_number_of_brokers_that_cannot_be_is_refused() -> None:
    with pytest.raises(ClusterError, match="brokers=-1"):
        Cluster(brokers=-1)


def test_a_cluster_without_brokers_has_no_bootstrap_servers() -> None:
    with Cluster() as cluster, pytest.raises(ClusterError, match=r"Cluster\(brokers=1\)"):
        assert cluster.bootstrap


def test_a_cluster_starts_once() -> None:
    with Cluster() as cluster:
        with pytest.raises(ClusterError, match="started already"), cluster:
            raise AssertionError("started twice")
        assert cluster.status()["active"]


def test_an_error_after_a_cancelled_wait_is_not_called_forgotten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        future: Future[None] = Future()
        waiting = asyncio.ensure_future(_wait(future, 10))
        await asyncio.wait([waiting], timeout=0)
        waiting.cancel()
        await asyncio.wait([waiting])
        future.set_exception(KeyError("late"))
        # Until the loop has taken it over.
        await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.05)

    asyncio.run(work())
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_a_start_that_is_cancelled_leaves_nothing() -> None:
    before = left_open()

    async def work() -> None:
        entering = asyncio.ensure_future(Cluster().__aenter__())
        await asyncio.wait([entering], timeout=0)
        entering.cancel()
        await asyncio.wait([entering])
        assert entering.cancelled()

    asyncio.run(work())
    assert_nothing_left(before)
