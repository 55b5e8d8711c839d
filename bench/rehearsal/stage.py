"""The servers of a rehearsal: a real ZooKeeper, three controllers of ours, emulated brokers."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from bench.demo.controllers import Controllers
from bench.life.waits import Ruling
from bench.rehearsal.brokers import Brokers
from bench.rehearsal.own import OwnNodes
from bench.rehearsal.plan import Around, Plan
from bench.rehearsal.stand_in import StandIn
from bench.rehearsal.znodes import LoadedZnode, write
from emulator.servers.bridge import COMMAND
from emulator.servers.process import ORDERLY, ProcessError, kill_all
from emulator.servers.waiting import PATIENCE_S
from emulator.servers.zookeeper import ZooKeeper

_HEAP_MIB: Final = 256
_ZNODES_PER_MIB: Final = 256
"""A znode takes about 1 KiB of ZooKeeper's heap with its overhead; so much is kept free again."""
_RULING: Final = frozenset({"MIGRATION", "POST_MIGRATION"})
_SESSION_S: Final = 60
_REFUSED_S: Final = 5.0
_ENDED: Final = ORDERLY | {None, -signal.SIGKILL}
"""Exit codes of what runs, or was ended by a phase."""
_BETWEEN: Final = "inter.broker.listener.name"
_OWN: Final = "/kraft_bridge"
_ROLLED_BACK: Final = "kraft-bridge rollback"
ELSEWHERE: Final = "/another-chroot"
_BLOCKED: Final = "kraft_bridge_zk_write_blocking_kraft_union_ms_total"


class StuckError(Exception):
    """A phase does not come to its end, and waiting will not help; the text says why."""


class ClusterFaultError(StuckError):
    """The same, and the reason lies in the cluster or its files."""


class RehearsalStage:
    """All servers; as a context manager, all have ended at its end.

    Args:
        folder: of the run.
        plan: of the brokers.
        brokers: not begun.
        cluster_id: of the cluster.
        properties: more of each controller.
        elsewhere: controllers look below a chroot where nothing is.
        own: nodes with files of production; None: there is no file.
        login: of brokers to ZooKeeper, ``user:password``; empty: none.
    """

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        brokers: Brokers,
        cluster_id: str,
        properties: Mapping[str, object],
        *,
        elsewhere: bool = False,
        own: OwnNodes | None = None,
        login: str = "",
    ) -> None:
        self.own = own
        self._login = login
        self._chroot = ELSEWHERE if elsewhere else ""
        self.folder = folder
        self._plan = plan
        self.brokers = brokers
        self._cluster_id = cluster_id
        self._properties = properties
        self.zk = ZooKeeper(folder / "zookeeper")
        self.attempt = 0
        self.resumed = False
        """Whether the folders of the next attempt are those of an earlier run."""
        self.controllers: Controllers | None = None
        self._client: KazooClient | None = None
        self._stand_in: StandIn | None = None
        self.blocked = Blocked()

    # ---------------------------------------------------------------- ZooKeeper
    def load(self, nodes: Sequence[LoadedZnode]) -> None:
        """Start ZooKeeper anew, write the tree, and let a stand-in be elected.

        Raises:
            ProcessError: it does not start.
            LoadError: a znode cannot be written.
        """
        shutil.rmtree(self.zk.folder, ignore_errors=True)  # of an interrupted run
        write(self._start_zookeeper(len(nodes)), "", nodes)
        self._have_one_elected()

    def reload(self, count: int) -> None:
        """Start ZooKeeper on what an earlier run has left, of so many znodes at least.

        Raises:
            ProcessError: it does not start.
        """
        self.resumed = True
        self._start_zookeeper(count)
        self._have_one_elected()

    def is_rolled_back(self) -> bool:
        """Whether ``kraft-bridge rollback`` was the last to write our znode."""
        try:
            return bool(json.loads(self.client.get(_OWN)[0])["writer"] == _ROLLED_BACK)
        except NoNodeError:
            return False

    def _start_zookeeper(self, count: int) -> KazooClient:
        self.zk.heap = f"{_HEAP_MIB + count // _ZNODES_PER_MIB}m"
        self.zk.start().wait_started()
        logging.getLogger("kazoo").addHandler(logging.NullHandler())
        logins = [("digest", self._login)] if self._login else []
        self._client = KazooClient(self.zk.hosts, timeout=_SESSION_S, auth_data=logins)
        self._client.start(timeout=PATIENCE_S)
        return self._client

    def _have_one_elected(self) -> None:
        self._stand_in = StandIn(self.client, self.brokers.ids[0])
        self._stand_in.start()

    @property
    def client(self) -> KazooClient:
        """A client of ZooKeeper."""
        assert self._client is not None
        return self._client

    def end_zookeeper(self) -> None:
        """It is not needed any more."""
        self._look_no_more()
        self.zk.stop()

    def _look_no_more(self) -> None:
        if self._stand_in is not None:
            self._stand_in.close()
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):  # of a connection that ends
                client.stop()
                client.close()

    # ---------------------------------------------------------------- controllers
    def plan_quorum(self) -> None:
        """Three controllers with new folders of their own; nothing is started.

        If this attempt was interrupted in an earlier run, theirs are kept.
        """
        if not self.resumed:
            shutil.rmtree(self._quorum_folder(self.attempt + 1), ignore_errors=True)
        self.keep_quorum(self.attempt + 1)
        self.resumed = False

    def keep_quorum(self, attempt: int) -> None:
        """The controllers of an attempt, with the folders that there are; nothing is started."""
        self.attempt = attempt
        name = self._plan.controller_listener
        between = str(self._properties.get(_BETWEEN, self._plan.between))
        protocols = ",".join(
            f"{one}:PLAINTEXT" for one in dict.fromkeys((name, *self._listeners(), between))
        )
        self.controllers = Controllers(
            self._quorum_folder(attempt),
            f"{self.zk.hosts}{self._chroot}",
            f"{self._plan.release}.0",
            {
                **self._properties,
                "controller.listener.names": name,
                "listener.security.protocol.map": protocols,
                _BETWEEN: between,
            },
            self._plan.controllers,
        )
        for node in self.controllers.nodes.values():
            node.extra["listeners"] = f"{name}://127.0.0.1:{node.port}"

    def _quorum_folder(self, attempt: int) -> Path:
        return self.folder / f"controllers-{attempt}"

    def _listeners(self) -> Iterator[str]:
        for one in self._plan.brokers:
            yield from one.listeners

    @property
    def quorum(self) -> Controllers:
        """The controllers of this attempt."""
        assert self.controllers is not None
        return self.controllers

    def format_quorum(self) -> None:
        """As an operator formats them.

        Raises:
            ProcessError: a value that ``format`` reads from the cluster contradicts another one.
        """
        self.quorum.format(self._cluster_id)

    def start_quorum(self) -> None:
        """Start them, and wait until each answers.

        Raises:
            ProcessError: one of them does not start.
        """
        self.quorum.start(self._cluster_id)

    @property
    def around(self) -> Around:
        """What brokers are started beside."""
        voters = "" if self.controllers is None else self.controllers.voters
        name = self._plan.controller_listener
        return Around(self.zk.hosts, voters, name, self.attempt, self._login)

    @property
    def files(self) -> list[str]:
        """The properties files of the controllers."""
        return [str(node.config) for node in self.quorum.nodes.values()]

    def verb(self, *words: str, codes: Sequence[int] = (0,)) -> str:
        """Type a command of ``kraft-bridge``; returns what it printed.

        Raises:
            StuckError: it ended with another code.
        """
        try:
            done = subprocess.run(
                [sys.executable, "-c", COMMAND, *words],
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE_S,
            )
        except subprocess.TimeoutExpired as late:
            raise StuckError(
                f"kraft-bridge {words[0]} did not end within {PATIENCE_S:g} s"
            ) from late
        if done.returncode not in codes:
            said = (done.stdout + done.stderr).strip()
            raise StuckError(
                f"kraft-bridge {' '.join(words[:2])} ended with {done.returncode}: {said}"
            )
        return done.stdout

    # ---------------------------------------------------------------- looking
    def statuses(self) -> Iterator[dict[str, Any]]:
        """Of each controller that answers."""
        for node in () if self.controllers is None else self.controllers.nodes.values():
            status = node.status() if node.alive else None
            if status is not None:
                yield status

    def leading(self) -> dict[str, Any] | None:
        """The status of the controller that leads; None: none does."""
        leading = [one for one in self.statuses() if one["active"]]
        return max(leading, key=lambda one: int(one["leader_epoch"]), default=None)

    def ruling(self) -> Ruling:
        """Whether a controller of ours carries out changes; a stand-in never does. Never raises."""
        status = self.leading()
        if status is None:
            return Ruling(False)
        migration = status["migration"]
        if migration is None:
            return Ruling(True, (status["node_id"], status["leader_epoch"]), by_log=True)
        rules = migration["migration_state"] in _RULING
        lag = migration["lag"]
        self.blocked.znodes(migration["poisoned"])
        self.blocked.look(self.quorum)
        self.blocked.bound = lag["bound_records"]
        return Ruling(rules, None, lag["records_without_no_ops"], lag["ms"], by_log=rules)

    def check_servers(self) -> None:
        """See that nothing has ended by itself, and that ZooKeeper takes what is written.

        Raises:
            ProcessError: ZooKeeper or a controller has ended.
            StuckError: ZooKeeper refuses a znode.
        """
        if why := self.blocked.why:
            raise ClusterFaultError(why)
        quorum = [] if self.controllers is None else [*self.controllers.nodes.values()]
        for one in (self.zk, *quorum):
            if one.exit_code not in _ENDED:
                raise ProcessError(
                    f"{one.name} ended by itself with {one.exit_code}:\n{one.tail()}"
                )

    # ---------------------------------------------------------------- end
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.brokers.close()
            self._look_no_more()
        finally:
            kill_all()


class Blocked:
    """Time in which changes waited for ZooKeeper, as the controllers count it, over their lives."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, int | None], float] = {}
        self._looked_s = 0.0
        self.bound: int | None = None
        """Records that may wait to be written to ZooKeeper."""
        self._refused_s: float | None = None
        self._refused = ""

    @property
    def ms(self) -> float:
        """All so far."""
        return sum(self._last.values())

    def znodes(self, poisoned: Sequence[Mapping[str, Any]]) -> None:
        """Take the znodes that ZooKeeper refuses now, as the leader names them."""
        self._refused_s = (self._refused_s or time.monotonic()) if poisoned else None
        self._refused = "; ".join(
            f"{one['znode']}: {one['cause']}: {one['remedy']}" for one in poisoned
        )

    @property
    def why(self) -> str:
        """What ZooKeeper has refused for so long that waiting does not help; empty: nothing."""
        since_s = self._refused_s
        long = since_s is not None and time.monotonic() - since_s > _REFUSED_S
        return self._refused if long else ""

    def look(self, controllers: Controllers, *, now: bool = False) -> None:
        """Read what each that runs has counted, once a second."""
        if not now and time.monotonic() - self._looked_s < 1.0:
            return
        self._looked_s = time.monotonic()
        for number, node in controllers.nodes.items():
            page = node.page("/metrics") if node.alive else None
            for line in (page or "").splitlines():
                if line.startswith(_BLOCKED):
                    self._last[number, node.pid] = float(line.rpartition(" ")[2])
