"""One node of a cluster in this process: its port, its thread, its lives, and how each ended."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final, Generic, Protocol, TypeVar

import uvloop

from emulator.seam import Halt, Log

# One node on a thread and an event loop of its own.
#
# The loop of a test is left alone: a test that blocks it (a client that is not asyncio's) does not
# block the node, and no task, handler or setting of it is the node's.

T = TypeVar("T")

CUT_OFF: Final = "stopped at once"
LOOK_S: Final = 0.001
"""How often a node that starts is asked whether it is ready."""


class NodeEndedError(Exception):
    """The node is not running; the text says why."""


class ServedNode(Protocol):
    """What runs on the thread: a node with its sockets and files."""

    @property
    def settled(self) -> bool:
        """Whether its clients are served, and find what belongs to its start."""

    def request_shutdown(self) -> None:
        """Ask for an orderly stop; without effect before :meth:`serve` has called ``ready``."""

    async def serve(self, ready: Callable[[], None], sockets: Mapping[str, socket.socket]) -> Halt:
        """Serve until the end; ``ready`` is called once connections are accepted."""


class NodeThread:
    """Starts at construction; ``accepts``, ``ready`` and ``ended`` are done when the node is.

    Args:
        name: of the thread.
        build: makes the node; called on the thread.
        sockets: listener name -> bound socket; closed when the node ends.
    """

    def __init__(
        self, name: str, build: Callable[[], ServedNode], sockets: Mapping[str, socket.socket]
    ) -> None:
        self.accepts: Future[None] = Future()
        """Done when connections are accepted; an error if the node ends before."""
        self.ready: Future[None] = Future()
        """Done when clients are served; an error if the node ends before."""
        self.ended: Future[Halt] = Future()
        self._build = build
        self._sockets = sockets
        self._node: ServedNode | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = False
        self._serving: asyncio.Task[Any] | None = None
        self._cut = False
        self._stops_wanted = 0
        self._stops_asked = 0
        self._calls: set[Future[Any]] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], T]) -> T:
        """Call a function between two steps of the node; returns or raises what it does.

        Raises:
            NodeEndedError: the node is not running.
        """
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it belongs to the caller
                done.set_exception(error)

        with self._lock:
            if self._loop is None or self.ended.done():
                raise NodeEndedError(self._why())
            self._calls.add(done)
            self._loop.call_soon_threadsafe(run)
        try:
            return done.result()
        finally:
            self._calls.discard(done)

    def request_stop(self) -> None:
        """Ask for an orderly stop; ``ended`` says when it is done. A second call stops at once.

        A node that has not started yet is stopped when it has.
        """
        with self._lock:
            self._stops_wanted += 1
            if self._loop is not None and not self.ended.done():
                self._loop.call_soon_threadsafe(self._shut_down)

    def cut_off(self) -> None:
        """End as by a crash: nothing more is done or sent."""
        with self._lock:
            self._cut = True
            if self._loop is not None and not self.ended.done():
                self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._serving is not None:
            self._serving.cancel()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the thread, instant once ``ended`` is done; whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _why(self) -> str:
        if not self.ended.done():
            return "the node has not started yet"
        error = self.ended.exception()
        return self.ended.result().why if error is None else f"{type(error).__name__}: {error}"

    def _run(self) -> None:
        halt: Halt | None = None
        failed: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                with self._lock:
                    self._loop = runner.get_loop()
                halt = runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - whoever waits for the node gets it
            if self._cut and isinstance(error, asyncio.CancelledError):
                halt = Halt(0, CUT_OFF)
            else:
                failed = error
        for one in self._sockets.values():
            one.close()
        with self._lock:
            self._loop = None
            if failed is None:
                assert halt is not None, "a node ends with a Halt or an error"
                self.ended.set_result(halt)
            else:
                self.ended.set_exception(failed)
        why = NodeEndedError(self._why())
        for waiting in [self.accepts, self.ready, *self._calls]:
            if not waiting.done():
                waiting.set_exception(failed or why)

    async def _serve(self) -> Halt:
        self._serving = asyncio.current_task()
        if self._cut:
            return Halt(0, CUT_OFF)
        self._node = self._build()
        return await self._node.serve(self._look, self._sockets)

    def _look(self) -> None:
        """Called when the node has started, and again until it is ready."""
        assert self._node is not None, "it calls this"
        if not self._started:
            self._started = True
            self.accepts.set_result(None)
            self._shut_down()
        if self._node.settled:
            self.ready.set_result(None)
        else:
            asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _shut_down(self) -> None:
        """Pass each request for a stop on, once there is a node that takes it."""
        while self._started and self._stops_asked < self._stops_wanted:
            assert self._node is not None, "it has started"
            self._stops_asked += 1
            self._node.request_shutdown()


NodeT = TypeVar("NodeT", bound=ServedNode)

HOST: Final = "127.0.0.1"
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class ClusterError(Exception):
    """The cluster cannot start, is not running, or did not end in order; the text says why."""


class SettingsError(ClusterError):
    """What a cluster was given cannot be: a property, or a number of nodes."""


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
        self._joined = False
        self.thread = NodeThread(f"kraft-bridge {name}", self._built, {listener: bound})

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"{HOST}:{self.port}"

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return not self.thread.ended.done()

    @property
    def ready(self) -> bool:
        """Whether it has begun to serve its clients."""
        ready = self.thread.ready
        return ready.done() and ready.exception() is None

    @property
    def failure(self) -> str:
        """Why it did not end in order; empty if it did, or has not ended."""
        if self.running:
            return ""
        failed = self.thread.ended.exception()
        if failed is not None:
            return f"{type(failed).__name__}: {failed}"
        halt: Halt = self.thread.ended.result()
        return halt.why if halt.exit_code else ""

    @property
    def end(self) -> str:
        """Why it has ended; empty if it has not."""
        return self.failure or ("" if self.running else self.thread.ended.result().why)

    def call(self, work: Callable[[NodeT], T]) -> T:
        """Call a function between two steps of the node.

        Raises:
            ClusterError: it is not running.
        """

        def run() -> T:
            if self._node is None:
                raise NodeEndedError("the node has not started yet")
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

    def request_stop(self, *, at_once: bool = False) -> None:
        """Ask for an orderly stop; a second call stops at once.

        Args:
            at_once: as by a crash, which is no failure.
        """
        self.stopping = True
        if at_once:
            self.thread.cut_off()
        else:
            self.thread.request_stop()

    def join(self, timeout_s: float) -> None:
        """Wait for the end; after a time the node is stopped at once.

        Raises:
            ClusterError: it did not end in order; only the first call says so.
        """
        if self._joined:
            return
        self._joined = True
        if not self.thread.join(timeout_s):
            self.request_stop()
            self.thread.join()
        self._release()
        if self.failure:
            why = f"{self.name} did not end in order: {self.failure}"
            raise ClusterError(why) from self.thread.ended.exception()

    def _built(self) -> NodeT:
        self._node = self._build(self._log)
        return self._node

    def _log(self, line: Log) -> None:
        """Log lines go to the logger ``kraft_bridge.NAME``, with the ``Log`` as ``line``."""
        fields = " ".join(f"{key}={value}" for key, value in line.fields.items())
        if line.level in {"warning", "error"}:
            self.warned = f"{line.event} {fields}"
        self._logger.log(_LEVELS[line.level], "%s %s", line.event, fields, extra={"line": line})


class HeldPort:
    """A free port, kept until :meth:`close`: also while nobody listens, nobody else gets it.

    Raises:
        ClusterError: there is none.
    """

    def __init__(self) -> None:
        self._holder = _bound_socket(0)
        self.number: int = self._holder.getsockname()[1]

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"{HOST}:{self.number}"

    def socket(self) -> socket.socket:
        """A socket bound to it, to listen with.

        Raises:
            ClusterError: there is none.
        """
        return _bound_socket(self.number)

    def close(self) -> None:
        """Give it back."""
        self._holder.close()


def _bound_socket(port: int) -> socket.socket:
    made = socket.socket()
    try:
        # The holder and the node have the port both; only the node listens.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((HOST, port))
    except OSError as error:
        made.close()
        raise ClusterError(f"no free port: {error}") from error
    return made


class NodePlace(Generic[NodeT]):
    """A node of a cluster, running or not: one port, and one life after the other.

    Args:
        node_id: of the node.
        name: for people, such as ``broker 1``.
        port: closed by :meth:`close`.
    """

    def __init__(self, node_id: int, name: str, port: HeldPort) -> None:
        self.node_id = node_id
        self.name = name
        self.port = port
        self.launch: Callable[[socket.socket], LocalNode[NodeT]] | None = None
        """Begins a life on a socket; None until its folder is formatted."""
        self._life: LocalNode[NodeT] | None = None

    @property
    def node(self) -> LocalNode[NodeT]:
        """Its newest life.

        Raises:
            ClusterError: it was never started.
        """
        if self._life is None:
            raise ClusterError(f"{self.name} is not running")
        return self._life

    @property
    def started(self) -> bool:
        """Whether it was started, ever."""
        return self._life is not None

    @property
    def running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._life is not None and self._life.running

    @property
    def end(self) -> str:
        """Why it is not running; empty if it is."""
        return "not started" if self._life is None else self._life.end

    @property
    def failure(self) -> str:
        """Why its newest life did not end in order; empty if it did, or goes on."""
        return "" if self._life is None else self._life.failure

    def start(self) -> LocalNode[NodeT]:
        """Begin a life; the one before has to be joined.

        Raises:
            ClusterError: its port is taken.
        """
        assert self.launch is not None, "its folder is formatted"
        self._life = self.launch(self.port.socket())
        return self._life

    def join(self, timeout_s: float) -> None:
        """Wait for the end of its newest life, if there is one; see there.

        Raises:
            ClusterError: it did not end in order.
        """
        if self._life is not None:
            self._life.join(timeout_s)


def checked_properties(given: Mapping[str, str], own: frozenset[str]) -> dict[str, str]:
    """The properties that a test gives.

    Raises:
        SettingsError: the cluster sets one of them itself.
    """
    taken = own.intersection(given)
    if taken:
        raise SettingsError(f"set by the cluster itself: {', '.join(sorted(taken))}")
    return dict(given)


def warn(warnings: Iterable[str]) -> None:
    """Log what a configuration warns of."""
    for warning in warnings:
        logging.getLogger("kraft_bridge").warning("%s", warning)
