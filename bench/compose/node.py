"""The first process of a container: it runs a server as the steps want it.

It ends with the server's exit code if that ends by itself, and with 0 after SIGTERM.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType
from typing import Final

from bench.compose import board, control, plan
from bench.compose.health import healthy
from bench.compose.plan import ServerMode
from emulator.servers.jars import kafka_jars, zookeeper_jars
from emulator.servers.java import QUICK_START
from emulator.servers.kafka import ibp
from emulator.servers.seeded import cluster_id
from emulator.servers.waiting import wait_for

_POLL_S: Final = 0.2
_STOP_S: Final = 60.0
_ZOOKEEPER_S: Final = 120.0
_WITH_ZOOKEEPER: Final = frozenset({ServerMode.ZOOKEEPER, ServerMode.MIGRATING})
_FAST: Final = ("java", *QUICK_START)
_LOG: Final = "-Dlog4j.configuration=file:/opt/kraft-bridge/spark/log4j.properties"


class Node:
    """One server, restarted when a step wants it otherwise.

    Args:
        name: of the service: ``zookeeper``, ``broker-1``, ``controller-3000``.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._child: subprocess.Popen[bytes] | None = None
        self._ending = False

    def run(self) -> int:
        """Run it until SIGTERM, or until the server ends by itself; returns the exit code."""
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, self._end)
        now = ServerMode.STOPPED
        self._write_running(now)
        self._ended("")
        while not self._ending:
            wanted = control.wanted_mode(self._name)
            if wanted is not now:
                self._stop()
                self._write_running(ServerMode.STOPPED)
                try:
                    self._start(wanted)
                except (TimeoutError, subprocess.CalledProcessError) as error:
                    self._ended(str(error))
                    sys.stderr.write(f"{self._name}: {error}\n")
                    return 1
                now = wanted
                self._write_running(now)
            if self._child is not None and (code := self._child.poll()) is not None:
                self._write_running(ServerMode.STOPPED)
                self._ended(f"exit code {code}")
                return code
            time.sleep(_POLL_S)
        self._stop()
        return 0

    def _start(self, wanted: ServerMode) -> None:
        if wanted in _WITH_ZOOKEEPER:
            # Some runtimes pass over the conditions of depends_on.
            wait_for("answer of ZooKeeper", self._zookeeper_answers, _ZOOKEEPER_S)
        if wanted is not ServerMode.STOPPED and not self._ending:
            self._child = subprocess.Popen(self._command(wanted))

    def _zookeeper_answers(self) -> bool:
        return self._ending or healthy(plan.ZOOKEEPER)

    def _end(self, _signal: int, _frame: FrameType | None) -> None:
        self._ending = True

    def _write_running(self, now: ServerMode) -> None:
        control.write(f"{self._name}.running", now)

    def _ended(self, why: str) -> None:
        control.write(f"{self._name}.ended", why)

    def _stop(self) -> None:
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child = None

    def _command(self, wanted: ServerMode) -> Sequence[str]:
        kind, _, number = self._name.partition("-")
        if kind == "broker":
            return self._broker(int(number), wanted)
        return self._controller(int(number), wanted)

    def _broker(self, number: int, wanted: ServerMode) -> Sequence[str]:
        folder = str(control.folder(self._name))
        file = _write(self._name, plan.broker(number, wanted, folder))
        jars = os.pathsep.join(map(str, kafka_jars(plan.RELEASE)))
        return [*_FAST, "-Xmx512m", _LOG, "-cp", jars, "kafka.Kafka", file]

    def _controller(self, number: int, wanted: ServerMode) -> Sequence[str]:
        folder = control.folder(self._name)
        trace, run_id = str(control.trace()), f"attempt-{control.attempt()}"
        file = _write(self._name, plan.controller(number, wanted, str(folder), trace, run_id))
        if not (folder / "meta.properties").exists():
            form = [
                "kraft-bridge",
                "format",
                "-c",
                file,
                "-t",
                cluster_id(plan.zookeeper_hosts()),
                "-r",
                ibp(plan.RELEASE),
                "--unchecked",
                "--new-quorum",
            ]
            subprocess.run(form, check=True)
        return ["kraft-bridge", "controller", "-c", file]


def zookeeper() -> Sequence[str]:
    """The command of ZooKeeper."""
    folder = control.folder(plan.ZOOKEEPER)
    folder.mkdir(parents=True, exist_ok=True)
    lines = {
        "tickTime": 2000,
        "dataDir": folder,
        "clientPort": plan.ZOOKEEPER_PORT,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "ruok,srvr",
    }
    file = _write(plan.ZOOKEEPER, lines)
    jars = os.pathsep.join(map(str, zookeeper_jars()))
    main = "org.apache.zookeeper.server.ZooKeeperServerMain"
    return [*_FAST, "-Xmx256m", "-cp", jars, main, file]


def prometheus() -> Sequence[str]:
    """The command of Prometheus, which looks at the controllers."""
    folder = control.folder(plan.PROMETHEUS)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "prometheus.yml"
    file.write_text(plan.prometheus(str(board.folder() / "kraft-bridge.rules.yml")))
    given = {
        "config.file": file,
        "storage.tsdb.path": folder / "data",
        "web.listen-address": plan.prometheus_url().removeprefix("http://"),
        "log.level": "warn",
    }
    return ["prometheus", *(f"--{key}={value}" for key, value in given.items())]


ALONE: Final = {plan.ZOOKEEPER: zookeeper, plan.PROMETHEUS: prometheus}
"""Servers that no step restarts, and the command of each."""


def _write(name: str, properties: plan.Properties) -> str:
    lines = [f"{key}={value}" for key, value in properties.items()]
    control.write(f"{name}.properties", "\n".join(lines))
    return str(control.properties_file(name))
