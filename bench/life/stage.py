"""The servers of a life: one ZooKeeper, three brokers, three controllers of ours."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from bench.demo.controllers import Controllers
from bench.life.standing import BrokerStanding, Mode, Quorum, Standing
from bench.life.waits import Ruling
from bench.load import cluster_api as api
from emulator.servers.bridge import Bridge
from emulator.servers.cluster import KafkaCluster
from emulator.servers.kafka import KafkaBroker, authorizer, tokens
from emulator.servers.patience import patiently
from emulator.servers.process import ORDERLY, ProcessError, ServerProcess, kill_all
from emulator.servers.tool_host import ToolHost
from emulator.servers.waiting import PATIENCE_S, wait_for
from emulator.servers.zookeeper import ZooKeeper

T = TypeVar("T")

BROKERS: Final = 3
STATE: Final = "state.json"
SAFE: Final = {
    # Kafka's default. With two, 3.4.1's brokers stood still for 30 s at their start: both threads
    # waited for a block of producer ids, which a third one was to fetch.
    "num.io.threads": 8,
    "min.insync.replicas": 2,
    "default.replication.factor": BROKERS,
    "unclean.leader.election.enable": "false",
}
UNSECURED: Final = "3.4.1"
"""Its brokers do not start with migration on and an authorizer, nor is SCRAM in its log."""
ADVISED: Final = "3.9.2"
"""In the life of this release the verbs' ``next`` decides what is done, and finalising waits for an
operator; in the other life a script decides, and it does not wait."""
_RULING: Final = frozenset({"MIGRATION", "POST_MIGRATION"})


def _security(release: str) -> dict[str, object]:
    """Properties of controllers that enforce ACLs and issue delegation tokens."""
    return {**tokens(release), **authorizer(kraft=True)}


class Stage:
    """Every server, on the folders of this life; ``start`` starts those that are to run.

    As a context manager, all have ended at its end.

    Args:
        folder: of the life.
        standing: how each server is to be started.
    """

    def __init__(self, folder: Path, standing: Standing) -> None:
        self.folder = folder
        self.standing = standing
        self.zk = ZooKeeper(folder / "zookeeper")
        self.secured = standing.release != UNSECURED
        """Whether brokers enforce ACLs and users log in."""
        self.advised = standing.release == ADVISED
        """Whether ``next`` of the verbs decides, and controllers without the flag wait."""
        self.cluster = KafkaCluster(
            standing.release,
            folder / "brokers",
            self.zk,
            count=BROKERS,
            properties=SAFE,
            sasl=self.secured,
            authorizer=self.secured,
        )
        self.tools = ToolHost()
        self._look: KazooClient | None = None
        self.controllers = self._made()
        for broker in self.cluster.brokers:
            self._settings(broker)

    @property
    def config_files(self) -> list[Path]:
        """The properties of the controllers."""
        return [node.config for node in self.controllers.nodes.values()]

    @property
    def state_file(self) -> Path:
        """Where ``standing`` is kept."""
        return self.folder / STATE

    def save(self) -> None:
        """Keep ``standing``."""
        self.standing.save(self.state_file)

    def typed(self, name: str) -> None:
        """Note that a command of the runbook was typed."""
        if name not in self.standing.typed:
            self.standing.typed.append(name)
            self.save()

    # ------------------------------------------------------------- controllers
    def _made(self) -> Controllers:
        standing = self.standing
        made = Controllers(
            self.folder / f"controllers-{standing.attempt}",
            self.zk.hosts,
            standing.controllers_release or standing.release,
            _security(standing.release) if self.secured else {},
        )
        for number, node in made.nodes.items():
            self._apply_settings(number, node)
        return made

    def plan_quorum(self) -> None:
        """Choose folders and ports of a new quorum; nothing is started."""
        self.standing.attempt += 1
        self.standing.cluster_id = self.znode("/cluster/id")["id"]
        self.controllers = self._made()
        folder = self.folder / f"controllers-{self.standing.attempt}"
        shutil.rmtree(folder, ignore_errors=True)  # what a run left that was cut here

    def format_quorum(self) -> None:
        """Format the folders of the quorum that was planned.

        Raises:
            ProcessError: a controller failed.
        """
        self.controllers.format(self.standing.cluster_id)

    def start_quorum(self) -> None:
        """Format and start the controllers; brokers learn of them when restarted.

        Raises:
            ProcessError: a controller failed.
        """
        self.standing.quorum = Quorum.MIGRATING
        self.save()
        self.controllers.start(self.standing.cluster_id)

    def stop_controller(self, number: int) -> None:
        """Stop a controller in order.

        Raises:
            ProcessError: it did not.
        """
        code = self.controllers.nodes[number].stop(PATIENCE_S)
        if code != 0:
            raise ProcessError(f"controller {number} ended with {code}")

    def start_controller(self, number: int) -> None:
        """Start a controller as ``standing`` says, and wait until one leads.

        Raises:
            ProcessError: it does not start.
            TimeoutError: none leads.
        """
        node = self.controllers.nodes[number]
        self._apply_settings(number, node)
        node.start().wait_started()
        self.status()

    def _apply_settings(self, number: int, node: Bridge) -> None:
        standing = self.standing
        node.release = standing.controllers_release or standing.release
        node.zk = None if number in standing.without_flag else self.zk.hosts
        if node.zk is None and self.advised:
            node.extra["kraftbridge.finalise.hold"] = "true"

    def end_zookeeper(self) -> None:
        """End ZooKeeper for good."""
        self.standing.zookeeper = False
        self.standing.quorum = Quorum.FINAL
        self.save()
        self._look_no_more()
        self.zk.stop()

    # ------------------------------------------------------------- brokers
    def _settings(self, broker: KafkaBroker) -> None:
        """Let the next start of a broker be as ``standing`` says."""
        wanted = self.standing.brokers[broker.id]
        broker.release = wanted.release
        broker.zk = None if wanted.mode is Mode.KRAFT else self.zk.hosts
        broker.migration = wanted.mode is Mode.MIGRATING
        broker.controller_port = None
        broker.extra.pop("controller.quorum.voters", None)
        if wanted.mode is not Mode.ZOOKEEPER:
            broker.controller_port = self.controllers.port
            broker.extra["controller.quorum.voters"] = self.controllers.voters

    def prepared(self, mode: Mode) -> list[Path]:
        """The properties that the brokers are to have in a mode, written beside their own."""
        folder = self.folder / "prepared"
        folder.mkdir(exist_ok=True)
        found = []
        for broker in self.cluster.brokers:
            now = self.standing.brokers[broker.id]
            self.standing.brokers[broker.id] = BrokerStanding(mode, now.release)
            self._settings(broker)
            lines = (f"{key}={value}\n" for key, value in broker.properties().items())
            self.standing.brokers[broker.id] = now
            self._settings(broker)
            found.append(folder / f"broker-{broker.id}-{mode}.properties")
            found[-1].write_text("".join(lines))
        return found

    def start_broker(self, broker: KafkaBroker) -> None:
        """Start a broker as ``standing`` says, and wait until it has started.

        A znode that an earlier, killed start has left is waited for first: the broker would end.

        Raises:
            ProcessError: it ended, or did not start in time.
            TimeoutError: the znode does not go.
        """
        self._settings(broker)
        if broker.zk is not None:
            path = f"/brokers/ids/{broker.id}"
            wait_for(f"end of {path}", lambda: self.look.retry(self.look.exists, path) is None)
        broker.start().wait_started()

    def stop_broker(self, broker: KafkaBroker) -> None:
        """SIGTERM and wait.

        Raises:
            ProcessError: it had to be killed, or ended before.
        """
        if not broker.alive:
            raise ProcessError(f"{broker.name} ended by itself with {broker.exit_code}")
        code = broker.stop(PATIENCE_S)
        if code == -signal.SIGKILL:
            raise ProcessError(f"{broker.name} did not stop within {PATIENCE_S:g} s")

    def start(self) -> None:
        """Start what is to run, after an earlier run or for the first time.

        Raises:
            ProcessError: a server did not start.
            TimeoutError: replicas do not get in sync.
        """
        if self.standing.zookeeper:
            self.zk.start().wait_started()
        if self.standing.quorum is not Quorum.ABSENT:
            self.controllers.format(self.standing.cluster_id)
            for node in self.controllers.nodes.values():
                node.start()
            for node in self.controllers.nodes.values():
                node.wait_started()
        for broker in self.cluster.brokers:
            self.start_broker(broker)
        self.whole()

    def stop(self) -> list[str]:
        """Stop all in order: brokers, controllers, ZooKeeper; what did not end well, by name."""
        self.cluster.stop(PATIENCE_S)
        codes = {broker.name: broker.exit_code for broker in self.cluster.brokers}
        if self.standing.quorum is not Quorum.ABSENT:
            ended = self.controllers.stop(PATIENCE_S)
            codes |= {
                f"controller {each}": code
                for each, code in zip(self.controllers.nodes, ended, strict=True)
            }
        self._look_no_more()
        self.zk.stop()
        return [f"{name} ended with {code}" for name, code in codes.items() if code not in ORDERLY]

    def in_mode(self, mode: Mode) -> list[int]:
        """Ids of the brokers that are to run in a mode."""
        return [number for number, one in self.standing.brokers.items() if one.mode is mode]

    # ------------------------------------------------------------- looking
    @property
    def look(self) -> KazooClient:
        """A client that reads ZooKeeper on its own."""
        if self._look is None:
            logging.getLogger("kazoo").addHandler(logging.NullHandler())
            again = KazooRetry(max_tries=-1, max_delay=1.0, deadline=PATIENCE_S)
            self._look = KazooClient(self.zk.hosts, timeout=60, command_retry=again)
            self._look.start(timeout=PATIENCE_S)
        return self._look

    def _look_no_more(self) -> None:
        client, self._look = self._look, None
        if client is not None:
            with contextlib.suppress(Exception):  # of a connection that ends
                client.stop()
                client.close()

    def znode(self, path: str) -> Any:
        """The JSON of a znode; None if it is not there."""
        try:
            return json.loads(self.look.retry(self.look.get, path)[0])
        except NoNodeError:
            return None

    def shape(self, broker: KafkaBroker) -> api.Shape:
        """The Metadata response of a broker for its clients."""
        return asyncio.run(api.shape(broker.bootstrap))

    def whole(self) -> None:
        """Wait until every broker knows all, and every replica is in sync, as each of them says.

        Raises:
            TimeoutError: they do not get there.
        """
        for broker in self.cluster.brokers:
            whole = functools.partial(self._is_whole, broker)
            self.wait(f"replicas in sync, by broker {broker.id}", whole)

    def _is_whole(self, broker: KafkaBroker) -> bool:
        seen = self.shape(broker)
        return len(seen.brokers) == BROKERS and not seen.short()

    def wait(self, what: str, ready: Callable[[], T]) -> T:
        """Call ``ready`` until it answers something true, and return that.

        A server that runs and does not answer is asked again.

        Raises:
            ProcessError: a broker or controller has ended by itself.
            TimeoutError: it was not so within 15 minutes.
        """
        return patiently(what, ready, self._servers())

    def _servers(self) -> list[ServerProcess]:
        """Brokers, and controllers if the quorum is to run."""
        there = self.standing.quorum is not Quorum.ABSENT
        return [*self.cluster.brokers, *(self.controllers.nodes.values() if there else ())]

    def ruling(self) -> Ruling:
        """Whether a controller is active now; never raises."""
        for status in self._statuses():
            migration = status["migration"]
            if status["active"] and (migration is None or migration["migration_state"] in _RULING):
                lag = {} if migration is None else migration["lag"]
                records = lag.get("records_without_no_ops")
                dual = migration is not None and migration["migration_state"] == "MIGRATION"
                by_log = records is not None or not dual
                controller = status["node_id"], status["leader_epoch"]
                return Ruling(True, controller, records, lag.get("ms"), by_log=by_log)
        alive = {broker.id for broker in self.cluster.brokers if broker.alive}
        holder = None
        if self.standing.zookeeper and self.zk.alive:
            with contextlib.suppress(KazooException, KazooTimeoutError, ValueError, OSError):
                holder = json.loads(self.look.get("/controller")[0])
        return Ruling(holder is not None and holder["brokerid"] in alive, holder)

    def _statuses(self) -> Iterator[dict[str, Any]]:
        for node in self.controllers.nodes.values():
            status = node.status() if node.alive else None
            if status is not None:
                yield status

    def status(self) -> dict[str, Any]:
        """The status of the controller that leads.

        Raises:
            TimeoutError: none does.
        """

        def active() -> dict[str, Any] | None:
            # One that was paused may not have learned yet that another one leads.
            leading = [one for one in self._statuses() if one["active"]]
            return max(leading, key=lambda one: one["leader_epoch"], default=None)

        found = wait_for("a controller that leads", active)
        assert found is not None
        return found

    def leader(self) -> Any:
        """The process of the controller that leads."""
        return self.controllers.nodes[self.status()["node_id"]]

    # ------------------------------------------------------------- end
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.tools.close()
            self._look_no_more()
        finally:
            kill_all()
