"""Our controller as a child process, by the command that an operator would type."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, Self

from emulator.servers.java import java_text
from emulator.servers.kafka import CONTROLLER_ID, KafkaBroker, ibp
from emulator.servers.ports import HOST, free_ports, is_open
from emulator.servers.process import ProcessError, ServerProcess
from emulator.servers.waiting import PATIENCE_S

_PROTOCOLS = "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT"
COMMAND = "from emulator.cli import main; main()"
_ASK_S = 2.0


class Bridge(ServerProcess):
    """One controller, node 3000; its folder survives stop, kill and start again.

    Args:
        folder: its properties, log folder and output.
        zk: connect string of the ZooKeeper to migrate from; None: migration is off.
        release: Kafka release of the brokers, such as ``3.9.2``.
        port: where it listens; a free one if not given.
        properties: more properties; they win over ours.
    """

    def __init__(
        self,
        folder: Path | str,
        zk: str | None,
        *,
        release: str = "3.9.2",
        port: int | None = None,
        properties: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(f"controller-{CONTROLLER_ID}", Path(folder).absolute())
        self.zk = zk
        self.release = release
        own, self.metrics_port = free_ports(2)
        self.port = port or own
        self.data = self.folder / f"{self.name}-data"
        self.config = self.folder / f"{self.name}.properties"
        self.extra = dict(properties or {})
        self.command = COMMAND
        """What Python runs; a test may change it."""

    @property
    def url(self) -> str:
        """Where ``/status`` and ``/metrics`` are."""
        return f"http://{HOST}:{self.metrics_port}"

    def properties(self) -> dict[str, object]:
        """The properties of the next start."""
        found: dict[str, object] = {
            "process.roles": "controller",
            "node.id": CONTROLLER_ID,
            "controller.quorum.voters": f"{CONTROLLER_ID}@{HOST}:{self.port}",
            "listeners": f"CONTROLLER://{HOST}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": _PROTOCOLS,
            "inter.broker.listener.name": "INTERNAL",
            "log.dirs": self.data,
            "kraftbridge.release": ibp(self.release),
            "kraftbridge.metrics.port": self.metrics_port,
        }
        if self.zk is not None:
            found |= {
                "zookeeper.connect": self.zk,
                "zookeeper.metadata.migration.enable": "true",
            }
        return found | self.extra

    def format(
        self,
        cluster_id: str,
        release_version: str | None = None,
        *,
        new_quorum: bool = False,
        compared: bool = False,
    ) -> Self:
        """Run ``kraft-bridge format``, at the newest metadata.version of the release unless told.

        ``new_quorum``: none of its voters has ever run. ``compared``: with ZooKeeper and the
        brokers, as an operator does; without, brokers may be down, or have another version.

        Raises:
            ProcessError: it failed.
        """
        level = release_version or str(self.properties()["kraftbridge.release"])
        more = [] if compared else ["--unchecked"]
        more += ["--new-quorum"] if new_quorum else []
        code = self._run("format", "-t", cluster_id, "-r", level, *more).wait()
        if code != 0:
            raise ProcessError(f"kraft-bridge format ended with {code}:\n{self.tail()}")
        return self

    def start(self) -> Self:
        """Run ``kraft-bridge controller``; `wait_started` then waits until it answers."""
        return self._run("controller")

    def write_properties(self) -> Path:
        """Write `properties` to its file, as every start does; returns the file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = (f"{key}={value}\n" for key, value in self.properties().items())
        self.config.write_text(java_text("".join(lines)))
        return self.config

    def _run(self, verb: str, *arguments: str) -> Self:
        self.write_properties()
        return self.launch(
            [sys.executable, "-c", self.command, verb, "-c", self.config, *arguments]
        )

    def page(self, path: str) -> str | None:
        """A page of its HTTP server, such as ``/metrics``; None while it does not answer."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=_ASK_S) as answer:  # noqa: S310 - http on this machine
                text: str = answer.read().decode()
                return text
        except (OSError, ValueError, HTTPException):  # the last one: it was killed half-way
            return None

    def wait_page(self, path: str) -> str:
        """The page of `page`, as soon as it answers: on a busy machine that may take a while.

        Raises:
            ProcessError: it ended, or the time is over.
        """
        found: list[str] = []

        def answered() -> bool:
            found.extend(filter(None, [self.page(path)]))
            return bool(found)

        self.wait_until(f"an answer to {path}", answered)
        return found[-1]

    def status(self) -> dict[str, Any] | None:
        """The content of ``/status``; None if there is no answer, or it is another program's."""
        try:
            found = json.loads(self.page("/status") or "null")
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def wait_started(self, timeout_s: float = PATIENCE_S) -> Self:
        """Wait until it answers.

        Raises:
            PortTakenError: a port of it was taken meanwhile.
            ProcessError: it ended, or the time is over.
        """
        self.wait_until("an answer to /status", lambda: self.status() is not None, timeout_s)
        return self

    def wait_status(
        self, what: str, ready: Callable[[dict[str, Any]], bool], timeout_s: float = PATIENCE_S
    ) -> dict[str, Any]:
        """Wait until ``/status`` is as wanted, and return it.

        Raises:
            ProcessError: it ended, or the time is over.
        """
        last: dict[str, Any] = {}

        def asked() -> bool:
            nonlocal last
            last = self.status() or {}
            return bool(last) and ready(last)

        self.wait_until(what, asked, timeout_s)
        return last

    def wait_dual_write(self, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """Wait until the migration driver is in DUAL_WRITE; returns the status.

        Raises:
            ProcessError: it ended, or the time is over.
        """
        return self.wait_status(
            "dual write",
            lambda status: bool(status["migration"]["driver_state"] == "DUAL_WRITE"),
            timeout_s,
        )

    def wait_unfenced(self, brokers: Iterable[int]) -> dict[str, Any]:
        """Wait until these brokers are registered and unfenced; returns the status.

        Brokers show each other before that (`Cluster.wait_ready`), and DUAL_WRITE begins before it.

        Raises:
            ProcessError: it ended, or the time is over.
        """
        wanted = frozenset(brokers)

        def ready(status: dict[str, Any]) -> bool:
            return wanted <= {one["id"] for one in status["brokers"] if not one["fenced"]}

        return self.wait_status(f"brokers {sorted(wanted)} unfenced", ready)

    def wait_drained(self, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """Wait until ZooKeeper holds every committed record; returns the status.

        Raises:
            ProcessError: it ended, or the time is over.
        """
        return self.wait_status(
            "lag 0", lambda status: bool(status["migration"]["lag"]["records"] == 0), timeout_s
        )


# Our broker as a child process, with the same properties as Kafka's broker.

_DEFAULT: Final = "3.9"


class BridgeBroker(KafkaBroker):
    """``kraft-bridge broker``; everything else is as of `emulator.servers.kafka.KafkaBroker`."""

    def properties(self) -> dict[str, object]:
        """Kafka's; and, unless that is what it is without, the release it is to be."""
        release = ibp(self.release)
        more = {} if release == _DEFAULT else {"kraftbridge.release": release}
        return super().properties() | more

    def start(self) -> Self:
        """Start it with `properties`; `wait_started` then waits until it serves.

        Raises:
            ProcessError: it is running already.
        """
        self.log = self.out
        path = self._write_properties()
        return self.launch([sys.executable, "-c", COMMAND, "broker", "-c", path])

    def wait_started(self, timeout_s: float = PATIENCE_S) -> Self:
        """Wait until it accepts connections.

        Raises:
            PortTakenError: a port of it was taken meanwhile.
            ProcessError: it ended, or the time is over.
        """
        port = self.client_port
        self.wait_until(f"port {port}", lambda: is_open(port), timeout_s)
        return self
