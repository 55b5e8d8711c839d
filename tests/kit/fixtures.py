"""Fixtures that start real servers and break what lies between; each ends what it started."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from kazoo.client import KazooClient

from emulator.servers import java_tools
from emulator.servers.cluster import KafkaCluster
from emulator.servers.fault_proxy import FaultProxy, FrameProtocol
from emulator.servers.kafka import KafkaBroker
from emulator.servers.process import PortTakenError
from emulator.servers.seeded import connected
from emulator.servers.zk_dump import contents, dump
from emulator.servers.zookeeper import ZooKeeper

NEWEST = "3.9.2"
ServerT = TypeVar("ServerT", KafkaBroker, KafkaCluster)


class StartBrokers(Protocol):
    """Starts brokers in ZooKeeper mode; they end with the scope of the fixture.

    ``secured`` ones have a SASL listener and enforce ACLs.
    """

    def __call__(
        self,
        release: str = NEWEST,
        *,
        count: int = 3,
        zk: ZooKeeper | str | None = None,
        properties: dict[str, object] | None = None,
        start: bool = True,
        secured: bool = False,
    ) -> KafkaCluster: ...


def started_zookeeper(folder: Path, **options: Any) -> ZooKeeper:
    """A ZooKeeper that answers; if its port was taken meanwhile, on another one."""
    zk = ZooKeeper(folder, **options)
    try:
        return zk.start().wait_started()
    except PortTakenError:
        return ZooKeeper(folder, **options).start().wait_started()
    except BaseException:
        zk.kill()
        raise


@contextmanager
def broker_factory(factory: pytest.TempPathFactory) -> Iterator[StartBrokers]:
    """The factory behind `brokers`, `module_brokers` and `shared_brokers`."""
    with ExitStack() as stack:

        def start_brokers(
            release: str = NEWEST,
            *,
            count: int = 3,
            zk: ZooKeeper | str | None = None,
            properties: dict[str, object] | None = None,
            start: bool = True,
            secured: bool = False,
        ) -> KafkaCluster:
            folder = factory.mktemp(f"kafka-{release}-")
            if zk is None:
                zk = started_zookeeper(folder / "zookeeper", fsync=False)
                stack.callback(zk.kill)
            cluster = KafkaCluster(
                release,
                folder,
                zk,
                count=count,
                properties=properties,
                sasl=secured,
                authorizer=secured,
            )
            stack.callback(cluster.kill)
            return cluster.start().wait_ready() if start else cluster

        yield start_brokers


@pytest.fixture
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartBrokers]:
    """Start brokers for one test: ``brokers("3.4.1", count=1)``."""
    with broker_factory(tmp_path_factory) as start_brokers:
        yield start_brokers


@pytest.fixture
def real_brokers() -> Iterator[Callable[[ServerT], ServerT]]:
    """Takes a broker, or a cluster, that the test makes itself; it ends with the test."""
    with ExitStack() as stack:

        def own(server: ServerT) -> ServerT:
            stack.callback(server.kill)
            return server

        yield own


@pytest.fixture(scope="module")
def module_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartBrokers]:
    """Start brokers for the tests of one module."""
    with broker_factory(tmp_path_factory) as start_brokers:
        yield start_brokers


@pytest.fixture(scope="session")
def shared_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartBrokers]:
    """Start brokers that live until the end of the run."""
    with broker_factory(tmp_path_factory) as start_brokers:
        yield start_brokers


@pytest.fixture(scope="session")
def cluster(shared_brokers: StartBrokers) -> KafkaCluster:
    """Three brokers of the newest release in plain ZooKeeper mode, one for the whole run.

    Tests name their topics apart and leave the brokers running.
    """
    return shared_brokers()


@pytest.fixture
def make_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., ZooKeeper]]:
    """Start ZooKeepers for one test, with the options of `ZooKeeper`."""
    with ExitStack() as stack:

        def make(**options: Any) -> ZooKeeper:
            zk = started_zookeeper(tmp_path_factory.mktemp("zookeeper"), **options)
            stack.callback(zk.kill)
            return zk

        yield make


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A real ZooKeeper, fresh for each module."""
    zk = started_zookeeper(tmp_path_factory.mktemp("zookeeper"), fsync=False)
    try:
        yield zk
    finally:
        zk.kill()


@pytest.fixture
def zk_client(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    """A connected KazooClient: the independent hand that sets up and looks."""
    with connected(zookeeper.hosts) as client:
        yield client


@pytest.fixture
def zk_tree(zookeeper: ZooKeeper) -> Callable[[], dict[str, bytes | None]]:
    """Call it to read the whole tree, secrets and all: path -> data."""
    return lambda: contents(dump(zookeeper.hosts, with_secrets=True))


@pytest.fixture
def fault_proxy() -> Iterator[Callable[..., FaultProxy]]:
    """Start proxies for one test: ``fault_proxy(zookeeper.port)``."""
    with ExitStack() as stack:

        def make(target_port: int, protocol: FrameProtocol = FrameProtocol.ZOOKEEPER) -> FaultProxy:
            return stack.enter_context(closing(FaultProxy(target_port, protocol).start()))

        yield make


@pytest.fixture(scope="session")
def kafka_tool() -> Callable[..., str]:
    """Kafka's command-line tools; see `emulator.servers.java_tools.kafka_tool`."""
    return java_tools.kafka_tool


@pytest.fixture(scope="session")
def compile_java() -> Callable[..., Path]:
    """Compile Java helpers; see `emulator.servers.java_tools.compile_java`."""
    return java_tools.compile_java
