"""All servers and clients of a demonstration; ends them in order, or at once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.retry import KazooRetry

from bench.demo.clients import Clients
from bench.demo.controllers import Controllers
from bench.load import cluster_api as api
from emulator.io.disk import make_folder
from emulator.servers.cluster import KafkaCluster
from emulator.servers.kafka import KafkaBroker
from emulator.servers.process import ProcessError, end_undisturbed, kill_all
from emulator.servers.waiting import PATIENCE_S, wait_for
from emulator.servers.zookeeper import ZooKeeper

RELEASE: Final = "3.9.2"
BROKER_PROPERTIES: Final = {"num.io.threads": 4}


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line may change."""

    out: Path
    """Folder of this run, by `new_folder`."""
    seconds: float = 60.0
    """Length of the load."""
    rate: float = 10.0
    """Administrative changes per second."""


@dataclass
class Stage:
    """Servers and clients of one run; as a context manager all gone at its end."""

    options: Options
    zk: ZooKeeper = field(init=False)
    cluster: KafkaCluster = field(init=False)
    controllers: Controllers = field(init=False)
    clients: Clients = field(init=False)
    zk_client: KazooClient | None = None

    def __post_init__(self) -> None:
        home = self.options.out
        self.run_id = home.name
        self.zk = ZooKeeper(home / "zookeeper")
        self.cluster = KafkaCluster(
            RELEASE, home / "brokers", self.zk, properties=BROKER_PROPERTIES
        )
        self.trace = home / "trace"
        traced = {"kraftbridge.trace.dir": self.trace, "kraftbridge.trace.run.id": self.run_id}
        self.controllers = Controllers(home / "controllers", self.zk.hosts, RELEASE, traced)
        self.clients = Clients(self.cluster.bootstrap, self.trace, self.run_id)

    def look(self) -> KazooClient:
        """A KazooClient, which reads the tree independently."""
        if self.zk_client is None:
            # A killed server is expected and is not logged.
            logging.getLogger("kazoo").addHandler(logging.NullHandler())
            again = KazooRetry(max_tries=-1, deadline=PATIENCE_S, max_delay=1.0)
            client = KazooClient(self.zk.hosts, timeout=30, command_retry=again)
            client.start(timeout=PATIENCE_S)
            self.zk_client = client
        return self.zk_client

    def look_no_more(self) -> None:
        """Close that client: ZooKeeper is about to end."""
        client, self.zk_client = self.zk_client, None
        if client is not None:
            # Errors of the connection while it ends are ignored.
            with contextlib.suppress(Exception):
                client.stop()
                client.close()

    def shape(self, broker: KafkaBroker | None = None) -> api.Shape:
        """The metadata that a broker returns, the first one that runs if none is named.

        Raises:
            ProcessError: it does not run.
            TimeoutError: it did not answer for 15 minutes.
        """

        def asked() -> api.Shape | None:
            found = next((each for each in brokers if each.alive), None)
            if found is None:
                raise ProcessError(f"no broker runs: {brokers[0].tail()}")
            try:
                return asyncio.run(api.shape(found.bootstrap))
            except OSError:
                return None

        brokers = self.cluster.brokers if broker is None else [broker]
        seen = wait_for("answer to Metadata", asked, PATIENCE_S)
        assert seen is not None
        return seen

    def stat(self, path: str) -> Any:
        """The stat of a znode, or None if it is not there; a slow ZooKeeper is asked again."""
        client = self.look()
        return client.retry(client.exists, path)

    def znode(self, path: str) -> Any:
        """The JSON of a znode, or None if it is not there; a slow ZooKeeper is asked again."""
        client = self.look()
        with contextlib.suppress(NoNodeError):
            return json.loads(client.retry(client.get, path)[0])
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end_undisturbed()
        try:
            self.look_no_more()
            self.clients.abandon()
        finally:
            kill_all()


def new_folder(root: Path, what: str = "demo") -> Path:
    """Make ``<root>/<what>-<time>``, with a number after it where there is one of this second.

    Raises:
        NotADirectoryError: something else than a folder has the name of ``root``.
        OSError: it cannot be made.
    """
    root = root.absolute()
    make_folder(root)
    name = time.strftime(f"{what}-%Y%m%d-%H%M%S")
    for more in itertools.chain([""], (f"-{number}" for number in itertools.count(2))):
        with contextlib.suppress(FileExistsError):
            (folder := root / f"{name}{more}").mkdir()
            break
    return folder
