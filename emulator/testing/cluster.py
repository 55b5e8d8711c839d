"""A cluster for one test: nodes in this process, on free ports of 127.0.0.1, in a new folder.

Each node runs on a thread of its own (:mod:`emulator.testing.node_thread`). So a test may block,
and the same class serves ``async with`` and ``with``.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

from emulator.commands.admin_client import Connection
from emulator.faults.fault import Fault, read_toml
from emulator.faults.script import FaultScript
from emulator.testing.controller import HOST, ClusterError, ControllerSettings, LocalController

CLIENT_ID: Final = "kraft-bridge-test"


class FaultMissedError(AssertionError):
    """Faults of a script never fired, so the test did not test what it says; the text lists them.

    ``faults`` are they.
    """

    def __init__(self, faults: Sequence[Fault], status: Sequence[Mapping[str, Any]]) -> None:
        unfit = sorted({str(one["unfit"]) for one in status if one["unfit"]})
        because = f" ({'; '.join(unfit)})" if unfit else ""
        listed = ", ".join(f"{one.api}: {one.error or one.action}" for one in faults)
        super().__init__(f"faults that never fired: {listed}{because}")
        self.faults = tuple(faults)


class Cluster:
    """A controller in KRaft mode for one test.

    ``async with Cluster() as cluster:`` and ``with Cluster() as cluster:`` start it, stop it and
    remove its folder. Several may run at once. It needs no ZooKeeper; to migrate from one, give
    ``zookeeper.connect`` and ``zookeeper.metadata.migration.enable`` as properties.

    Args:
        release: the Kafka release that is emulated, "3.4" ... "3.9".
        metadata_version: the first one, such as "3.7-IV4"; None: the newest of the release.
        fsync: False: writes are not made durable, which is faster; what was acknowledged may be
            lost if the machine (not only the process) crashes. :meth:`status` says which it is.
        properties: more of Kafka's properties, and ``kraftbridge.`` ones.
        faults: the script to begin with: faults, TOML text, or the path of a TOML file. More with
            :meth:`add_faults`.
        folder: for the node's files, kept afterwards; None: a temporary one, removed at the end.

    Raises:
        ScriptError: the faults cannot be read.
        ClusterError: from the start: a property is wrong, or the folder cannot be used.
    """

    def __init__(
        self,
        *,
        release: str = "3.9",
        metadata_version: str | None = None,
        fsync: bool = True,
        properties: Mapping[str, str] = MappingProxyType({}),
        faults: Sequence[Fault] | str | Path = (),
        folder: Path | None = None,
    ) -> None:
        self._settings = ControllerSettings(release, metadata_version, fsync, dict(properties))
        self._script = FaultScript()
        self._script.add(*_faults(faults))
        self._told: set[int] = set()
        self._folder = folder
        self._temporary: Path | None = None
        self._controller: LocalController | None = None

    # ---------------------------------------------------------------- start and stop
    def __enter__(self) -> Self:
        """Start, and wait until requests are served."""
        controller = self._start()
        try:
            controller.thread.ready.result()
        except BaseException as error:
            raise self._not_started(error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop in order, wait for the end, remove the temporary folder.

        An error of the block is not replaced by these:

        Raises:
            ClusterError: the node ended with an error.
            FaultMissedError: a fault never fired.
        """
        self._request_stop()
        self._end(error)

    async def __aenter__(self) -> Self:
        """Start, and wait until requests are served; the loop goes on meanwhile."""
        controller = self._start()
        try:
            await asyncio.wrap_future(controller.thread.ready)
        except BaseException as error:
            raise self._not_started(error) from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop as ``with`` does; the loop goes on meanwhile."""
        self._request_stop()
        try:
            if self._controller is not None:
                # Not the future itself: a cancelled test must not cancel the node's end.
                await asyncio.wait([asyncio.wrap_future(self._controller.thread.ended)])
        finally:
            self._end(error)

    # ---------------------------------------------------------------- while it runs
    @property
    def controllers(self) -> str:
        """``host:port`` of the controller, as ``bootstrap.controllers`` takes it.

        Raises:
            ClusterError: it was not started.
        """
        return f"{HOST}:{self._started().port}"

    @property
    def http(self) -> str:
        """``http://host:port`` of metrics, status and faults: with ``kraftbridge.metrics.port``.

        Raises:
            ClusterError: it is not running, or has none.
        """
        port = self._started().call(lambda process: process.http_port)
        if port < 0:
            raise ClusterError("the cluster has no kraftbridge.metrics.port")
        return f"http://{HOST}:{port}"

    @property
    def cluster_id(self) -> str:
        """22 characters; of a folder that was formatted before, its own.

        Raises:
            ClusterError: it is not running.
        """
        return self._started().call(lambda process: process.node.cluster_id)

    @property
    def folder(self) -> Path:
        """Folder of the controller's files.

        Raises:
            ClusterError: it is not running.
        """
        found = self._folder or self._temporary
        if found is None:
            raise ClusterError("the cluster is not running")
        return found

    def status(self) -> dict[str, Any]:
        """What ``kraft-bridge status --json`` prints, and ``fsync``.

        Raises:
            ClusterError: it is not running.
        """
        found = self._started().call(lambda process: process.status())
        return {**found, "fsync": self._settings.fsync}

    def connect(self, *, client_id: str = CLIENT_ID, timeout_s: float = 10) -> Connection:
        """A blocking connection to the controller; close it.

        Raises:
            OSError: it does not answer in time.
        """
        port = self._started().port
        return Connection(HOST, port, timeout_s, client_id=client_id)

    def request(self, message: Any, *, client_id: str = CLIENT_ID, timeout_s: float = 10) -> Any:
        """Send one request (``wire.messages``) to the controller and wait for its answer.

        It blocks: in a coroutine that has other work, call it by ``asyncio.to_thread``.

        Raises:
            OSError: no answer in time, or the connection was cut: it may have been executed.
        """
        with closing(self.connect(client_id=client_id, timeout_s=timeout_s)) as connection:
            return connection.call(message)

    # ---------------------------------------------------------------- faults
    def add_faults(self, *faults: Fault | str | Path) -> None:
        """Add faults, TOML text or files of it to the script.

        Raises:
            ScriptError: they cannot be read, or are too many.
            ClusterError: it is not running.
        """
        read = [one for given in faults for one in _faults(given)]
        self._started().call(lambda _: self._script.add(*read))

    def clear_faults(self) -> None:
        """Remove all faults; those that never fired are still an error at the end.

        Raises:
            ClusterError: it is not running.
        """
        self._started().call(lambda _: self._script.clear())

    @property
    def faults(self) -> list[dict[str, Any]]:
        """Each fault of the script as it was written, with ``calls``, ``fired`` and ``unfit``.

        ``calls`` counts the requests it was about, ``fired`` those it struck; ``unfit`` says why it
        could not, the last time it was its turn and it did not.
        """
        controller = self._controller
        if controller is None or controller.thread.ended.done():
            return self._script.status()
        return controller.call(lambda _: self._script.status())

    def check_faults(self) -> None:
        """Called at the end, and by the plugin of pytest after each test.

        Raises:
            FaultMissedError: a fault never fired. Each is told once.
        """
        missed = [one for one in self._script.never_fired() if id(one) not in self._told]
        self._told.update(id(one) for one in missed)
        if missed:
            raise FaultMissedError(missed, self._script.status())

    # ---------------------------------------------------------------- the parts
    def _start(self) -> LocalController:
        if self._controller is not None:
            raise ClusterError("the cluster was started already")
        if self._folder is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="kraft-bridge-"))
        try:
            self._controller = LocalController(self._settings, self.folder, self._script)
        except BaseException:
            self._remove()
            raise
        return self._controller

    def _started(self) -> LocalController:
        if self._controller is None:
            raise ClusterError("the cluster is not running")
        return self._controller

    def _not_started(self, error: BaseException) -> BaseException:
        """Clean up after a start that failed; returns what to raise."""
        self._request_stop()
        self._end(error)
        self._controller = None
        return ClusterError(str(error)) if isinstance(error, Exception) else error

    def _request_stop(self) -> None:
        if self._controller is not None:
            self._controller.thread.request_stop()

    def _end(self, before: BaseException | None) -> None:
        """Wait for the node's end; nothing is raised if there is an error before."""
        try:
            if self._controller is not None:
                self._controller.join()
        except ClusterError:
            if before is None:
                raise
        finally:
            self._remove()
        if before is None:
            self.check_faults()

    def _remove(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None


def _faults(given: Fault | Iterable[Fault] | str | Path) -> list[Fault]:
    match given:
        case Fault():
            return [given]
        case Path():
            return read_toml(given.read_text(encoding="utf-8"))
        case str():
            return read_toml(given)
        case _:
            return list(given)
