"""A standalone Spark cluster on loopback: a master and workers as child processes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pyspark

from emulator.servers.java import QUICK_START, find_java, spark_java_home
from emulator.servers.ports import HOST, free_ports
from emulator.servers.process import ServerProcess

_PACKAGE = "org.apache.spark.deploy"
_START_S = 120.0
_ROOT = Path(__file__).resolve().parents[2]


class SparkCluster:
    """One master; workers of one core and 1 GiB each.

    Args:
        folder: logs and work folders of the processes.
        workers: how many.
    """

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._home = Path(pyspark.__file__).parent
        port, *self._ui_ports = free_ports(workers + 2)
        self.url = f"spark://{HOST}:{port}"
        self._port = port
        self._master = ServerProcess("spark-master", folder)
        self._workers = [
            ServerProcess(f"spark-worker-{number}", folder) for number in range(workers)
        ]

    def __enter__(self) -> Self:
        """Start all; every worker is registered.

        Raises:
            JavaNotFoundError: there is no Java.
            ProcessError: one did not start; all are stopped.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all."""
        self.stop()

    def environment(self) -> Mapping[str, str]:
        """Variables for the processes of the cluster, and for its driver."""
        return {
            "JAVA_HOME": str(spark_java_home(find_java(), self._folder)),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_HOME": str(self._home),
            # Executors have no other way to get flags from here.
            "JAVA_TOOL_OPTIONS": " ".join(QUICK_START),
            # Workers run in folders of their own, and import what this process does.
            "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")])),
        }

    def _start(self) -> None:
        master_ui, *worker_uis = (str(port) for port in self._ui_ports)
        where = ["--host", HOST, "--port", str(self._port), "--webui-port", master_ui]
        self._launch(self._master, "master.Master", *where)
        self._master.wait_line("I have been elected leader", _START_S)
        for process, ui in zip(self._workers, worker_uis, strict=True):
            work = str(self._folder / process.name)
            size = ["--cores", "1", "--memory", "1g", "--work-dir", work]
            self._launch(
                process, "worker.Worker", "--host", HOST, "--webui-port", ui, *size, self.url
            )
        for process in self._workers:
            process.wait_line("Successfully registered with master", _START_S)

    def _launch(self, process: ServerProcess, main: str, *arguments: str) -> None:
        launcher = self._home / "bin" / "spark-class"
        process.launch([os.fspath(launcher), f"{_PACKAGE}.{main}", *arguments], self.environment())

    def kill_worker(self, number: int) -> None:
        """SIGKILL a worker and its executor, which has been asked for: as a lost machine."""
        self._workers[number].wait_line("Asked to launch executor", _START_S)
        self._workers[number].kill()

    def stop(self) -> None:
        """Stop all; logs stay."""
        for process in (*self._workers, self._master):
            process.stop()
