"""One small cluster of a release that migrates to one controller, with checks."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from bench.judge import matrix_stores as judge
from bench.judge import stores as plain
from bench.load import cluster_api as api
from bench.matrix import controllers
from bench.matrix.leftovers import Standing
from bench.matrix.login import call_as
from emulator.servers.cluster import KafkaCluster
from emulator.servers.kafka import USERS
from emulator.servers.patience import patiently
from emulator.servers.ports import HOST
from emulator.servers.process import ProcessError, ServerProcess
from emulator.servers.tool_host import ToolHost
from emulator.servers.waiting import PATIENCE_S
from emulator.servers.zk_dump import UnreadableError, contents, dump, versions
from emulator.servers.zookeeper import ZooKeeper

COUNT: Final = 3
TIMEOUT_MS: Final = round(PATIENCE_S * 1_000)
"""Timeout in a request that a broker lets wait."""


class WrongError(Exception):
    """A step did not do what it should; one sentence."""


@dataclass
class Stage:
    """Started as a context manager: ZooKeeper and brokers in plain ZooKeeper mode.

    Args:
        release: of the brokers.
        begin: makes the controller.
        folder: of everything.
        secured: whether brokers enforce ACLs: 3.4.1 does not start so with migration on.
        host: Kafka's tools.
    """

    release: str
    begin: controllers.Begin
    folder: Path
    secured: bool
    host: ToolHost
    zk: ZooKeeper = field(init=False)
    cluster: KafkaCluster = field(init=False)
    controller: controllers.Controller = field(init=False)
    look: KazooClient = field(init=False)
    before: judge.Stores = field(init=False)
    """ZooKeeper's tree when the controller was started."""
    kept: dict[str, Any] = field(default_factory=dict)
    """Values that a step stores for later ones."""
    migrated: bool = False
    """Whether every broker forwards administrative requests to the controller."""
    _turn: itertools.count[int] = field(default_factory=itertools.count)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        try:
            self.zk = self._stack.enter_context(ZooKeeper(self.folder / "zookeeper", fsync=False))
            self.cluster = KafkaCluster(
                self.release,
                self.folder / "brokers",
                self.zk,
                count=COUNT,
                sasl=True,
                authorizer=self.secured,
            )
            self._stack.enter_context(self.cluster)
            logging.getLogger("kazoo").addHandler(logging.NullHandler())
            self.look = KazooClient(self.zk.hosts, timeout=60)
            self.look.start(timeout=PATIENCE_S)
            self._stack.callback(self.look.close)
            self._stack.callback(self.look.stop)
            self._set_controller("controller")
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _set_controller(self, name: str) -> None:
        self.controller = self.begin(
            self.release,
            self.folder / name,
            self.zk.hosts,
            self.json("/cluster/id")["id"],
            secured=self.secured,
        )
        self._stack.callback(self.controller.kill)

    def another_controller(self) -> None:
        """Make a controller for a second migration, with its own folder, and do not start it."""
        self._set_controller("controller-2")

    def end_zookeeper(self) -> None:
        """Stop ZooKeeper for good."""
        self.look.stop()
        self.zk.stop()

    # ------------------------------------------------------------- asking
    def ask(self, request: Any, broker: int | None = None) -> Any:
        """Send a request to ``broker``; None: to a broker that takes administrative requests."""
        address = self._admin() if broker is None else self.cluster.brokers[broker].bootstrap
        return asyncio.run(api.call(address, request, limit_s=PATIENCE_S))

    def ask_as(self, user: str, *requests: Any, broker: int | None = None) -> list[Any]:
        """Send requests over the SASL listener, logged in by PLAIN."""
        if broker is None:
            broker = self._admin_id()
        return call_as(self.sasl(broker), "PLAIN", user, USERS[user], *requests)

    def sasl(self, broker: int) -> str:
        """``host:port`` of a broker's SASL listener."""
        return f"{HOST}:{self.cluster.brokers[broker].sasl_port}"

    def _admin_id(self) -> int:
        alive = self.alive
        if self.migrated:
            return alive[next(self._turn) % len(alive)]
        self.until("controller", lambda: self.shape(alive[0]).controller_id in alive)
        return self.shape(alive[0]).controller_id

    def _admin(self) -> str:
        return self.cluster.brokers[self._admin_id()].bootstrap

    @property
    def alive(self) -> list[int]:
        """Ids of the brokers that run."""
        return [broker.id for broker in self.cluster.brokers if broker.alive]

    def shape(self, broker: int = 0) -> api.Shape:
        """The Metadata response of a broker for its clients."""
        return asyncio.run(api.shape(self.cluster.brokers[broker].bootstrap))

    # ------------------------------------------------------------- looking
    def json(self, path: str) -> Any:
        """A znode's content."""
        return json.loads(self.look.get(path)[0])

    def tree(self) -> judge.Stores:
        """ZooKeeper now."""
        found = dump(self.zk.hosts, with_secrets=True)
        held = judge.read_tree(contents(found))
        held.plain.versions = versions(found)
        return held

    def records(self) -> list[dict[str, Any]]:
        """The controller's log now, as Kafka's own tool reads it; one read half is read again."""
        found: list[dict[str, Any]] = self.until("log that Kafka's tool can read", self._read_log)
        return found

    def _read_log(self) -> list[dict[str, Any]]:
        with tempfile.TemporaryDirectory() as scratch:
            found = sorted((self.controller.data / "__cluster_metadata-0").glob("*.log"))
            segments = ",".join(str(shutil.copy(segment, scratch)) for segment in found)
            printed = self.host.run(
                "kafka.tools.DumpLogSegments",
                *("--cluster-metadata-decoder", "--skip-record-metadata", "--files", segments),
            )
        if printed.code:
            raise UnreadableError(f"kafka-dump-log cannot read the log: {printed.err[:200]}")
        return list(plain.read_dump(printed.out))

    def standing(self) -> Standing:
        """Znodes and brokers now, to find later what a step left behind."""
        modes = {True: "in ZooKeeper mode", False: "in KRaft mode"}
        brokers = {
            f"broker {one.id}": modes[one.zk is not None] if one.alive else "ended"
            for one in self.cluster.brokers
        }
        try:
            return Standing(frozenset(self._paths("/")) if self.zk.alive else None, brokers)
        except (KazooException, KazooTimeoutError):
            return Standing(None, brokers)

    def _paths(self, path: str) -> Iterator[str]:
        try:
            names = self.look.get_children(path)
        except NoNodeError:  # deleted since its parent was listed
            return
        yield path
        for name in names:
            yield from self._paths(f"{path.rstrip('/')}/{name}")

    def differences(self) -> list[str]:
        """What differs between ZooKeeper and the log now; nothing while there is no dual write."""
        if not self.migrated:
            return []
        return judge.differences(self.tree(), judge.read_log(self.records()))

    def agree(self, timeout_s: float = PATIENCE_S) -> tuple[judge.Stores, judge.Stores]:
        """Wait until ZooKeeper holds all of the log, and return both; they must agree.

        ZooKeeper is read from the offset in ``/migration`` on, and the log after it: if that offset
        is at the end of the log, what differs is a fault, and is not waited for.

        Raises:
            WrongError: they differ, or ZooKeeper does not get there; says where.
        """

        def level() -> tuple[judge.Stores, judge.Stores] | None:
            reached = self.json("/migration")["kraft_metadata_offset"]
            tree, log = self.tree(), judge.read_log(self.records())
            found[:] = judge.differences(tree, log)
            if log.last_change <= reached:
                return tree, log
            found.append(f"/migration stands {log.last_change - reached} records behind")
            return None

        found: list[str] = []
        try:
            both: tuple[judge.Stores, judge.Stores] = self.until("equal stores", level, timeout_s)
        except WrongError as late:
            raise WrongError("; ".join([*found[:3], *found[3:][-1:]]) or str(late)) from late
        if found:
            raise WrongError("; ".join(found[:3]))
        return both

    def everywhere(self, what: str, ready: Callable[[api.Shape], bool]) -> None:
        """Wait until every broker that runs shows its clients this.

        Raises:
            WrongError: one does not.
        """
        self.each(what, lambda broker: ready(self.shape(broker)))

    def each(self, what: str, ready: Callable[[int], Any], timeout_s: float = PATIENCE_S) -> None:
        """Wait until this holds on every broker that runs, by its id.

        Raises:
            WrongError: on one it does not.
        """
        for broker in self.alive:
            asked = functools.partial(ready, broker)
            self.until(f"{what} on broker {broker}", asked, timeout_s)

    def until(self, what: str, ready: Callable[[], Any], timeout_s: float = PATIENCE_S) -> Any:
        """Wait for something; returns it. A server that does not answer is asked again.

        Raises:
            WrongError: it does not come, or a server that ran has ended.
        """
        servers: list[ServerProcess] = [one for one in self.cluster.brokers if one.alive]
        if isinstance(self.controller, ServerProcess) and self.controller.alive:
            servers.append(self.controller)
        try:
            return patiently(what, ready, servers, timeout_s)
        except TimeoutError as late:
            raise WrongError(f"no {what} within {timeout_s:g} s") from late
        except ProcessError as ended:
            raise WrongError(f"no {what}: {ended}") from ended

    def whole(self) -> None:
        """Wait until all brokers know each other and every replica is in sync, everywhere."""
        self.everywhere(
            "all replicas in sync",
            lambda shape: len(shape.brokers) == len(self.alive) and not shape.short(),
        )

    @property
    def ours(self) -> bool:
        """Whether the controller is ours."""
        return self.begin is controllers.ours


def accepted(what: str, *codes: int) -> None:
    """Raise WrongError if one of these is an error."""
    if any(codes):
        raise WrongError(f"{what}: error {next(filter(None, codes))}")


def same(what: str, got: object, wanted: object) -> None:
    """Raise WrongError if these differ."""
    if got != wanted:
        raise WrongError(f"{what}: {got!r} instead of {wanted!r}")
