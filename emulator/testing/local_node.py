"""One node of a cluster in this process: its address, its thread, and how it ended."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, TypeVar

from emulator.seam import Halt, Log
from emulator.testing.node_thread import NodeEndedError, NodeThread, ServedNode

T = TypeVar("T")
NodeT = TypeVar("NodeT", bound=ServedNode)

HOST: Final = "127.0.0.1"
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class ClusterError(Exception):
    """The cluster cannot start, is not running, or did not end in order; the text says why."""


class LocalNode(Generic[NodeT]):
    """A node that runs on a thread of its own, from construction on.

    Args:
        name: for people, such as ``broker 1``.
        listener: name of the one listener.
        bound: its socket.
        build: makes the node, which logs to its argument; called on its thread.
        release: called after its end.
    """

    def __init__(
        self,
        name: str,
        listener: str,
        bound: socket.socket,
        build: Callable[[Callable[[Log], None]], NodeT],
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.port: int = bound.getsockname()[1]
        self._build = build
        self._release = release
        self._logger = logging.getLogger(f"kraft_bridge.{name.replace(' ', '-')}")
        self._node: NodeT | None = None
        self.warned = ""
        """Its last warning or error."""
        self.stopping = False
        """Whether an orderly stop was asked for."""
        self.thread = NodeThread(f"kraft-bridge {name}", self._built, {listener: bound})

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"{HOST}:{self.port}"

    def call(self, work: Callable[[NodeT], T]) -> T:
        """Call a function between two steps of the node.

        Raises:
            ClusterError: it is not running.
        """

        def run() -> T:
            assert self._node is not None, "its thread has built it"
            return work(self._node)

        try:
            return self.thread.call(run)
        except NodeEndedError as error:
            raise ClusterError(f"{self.name} ended: {error}") from error

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until it serves its clients.

        Raises:
            ClusterError: it does not in time; the text has its last warning.
            Exception: why it ended.
        """
        try:
            self.thread.ready.result(timeout_s)
        except TimeoutError:
            if self.thread.ready.done():
                raise
            why = f"{self.name} does not serve its clients yet"
            raise ClusterError(f"{why}: {self.warned}" if self.warned else why) from None

    def request_stop(self) -> None:
        """Ask for an orderly stop; a second call stops at once."""
        self.stopping = True
        self.thread.request_stop()

    def join(self, timeout_s: float) -> None:
        """Wait for the end; after a time the node is stopped at once.

        Raises:
            ClusterError: it did not end in order.
        """
        if not self.thread.join(timeout_s):
            self.request_stop()
            self.thread.join()
        self._release()
        failed = self.thread.ended.exception()
        if failed is not None:
            why = f"{type(failed).__name__}: {failed}"
            raise ClusterError(f"{self.name} did not end in order: {why}") from failed
        halt: Halt = self.thread.ended.result()
        if halt.exit_code != 0:
            raise ClusterError(f"{self.name} did not end in order: {halt.why}")

    def _built(self) -> NodeT:
        self._node = self._build(self._log)
        return self._node

    def _log(self, line: Log) -> None:
        """Log lines go to the logger ``kraft_bridge.NAME``."""
        fields = " ".join(f"{key}={value}" for key, value in line.fields.items())
        if line.level in {"warning", "error"}:
            self.warned = f"{line.event} {fields}"
        self._logger.log(_LEVELS[line.level], "%s %s", line.event, fields)


def bound_socket() -> socket.socket:
    """A socket bound to a free port.

    Raises:
        ClusterError: there is none.
    """
    made = socket.socket()
    try:
        made.bind((HOST, 0))
    except OSError as error:
        made.close()
        raise ClusterError(f"no free port: {error}") from error
    return made


def checked_properties(given: Mapping[str, str], own: frozenset[str]) -> dict[str, str]:
    """The properties that a test gives.

    Raises:
        ClusterError: the cluster sets one of them itself.
    """
    taken = own.intersection(given)
    if taken:
        raise ClusterError(f"set by the cluster itself: {', '.join(sorted(taken))}")
    return dict(given)


def warn(warnings: Iterable[str]) -> None:
    """Log what a configuration warns of."""
    for warning in warnings:
        logging.getLogger("kraft_bridge").warning("%s", warning)
