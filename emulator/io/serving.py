"""What every served process has: listeners, the HTTP endpoint, signals, and one way to end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import platform
import resource
import signal
import socket
import sys
import traceback
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import msgspec
from prometheus_client import ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Family

from emulator.config.listeners import METRICS_PORT, USUAL, HostPort, Listener, url_of
from emulator.io import http, log_output
from emulator.io.disk import FolderLockedError
from emulator.io.operator_route import FaultsRoute, OperatorRoute
from emulator.io.printable import sentence
from emulator.io.run import Shell
from emulator.io.status_url import StatusUrl
from emulator.net.faults.script import FaultScript
from emulator.seam import Halt, Log

COLLECTIONS: Final = (10_000, 4, 2_000)
"""New objects between two passes of the collector, and after how many passes it looks at the next
older ones too. A pass is a part of a step: it looks at 60,000 objects at most, in 2 ms, and at all
of them only after 100,000,000 new ones. With 50,000 and 50 it was 2,500,000, in 150 ms.
"""
BIND_AGAIN_S: Final = 5.0
"""After it an address of metrics and status that could not be bound is tried again."""
SWITCH_S: Final = 0.0005
"""How long the thread that syncs files waits for a busy event loop, before and after each sync; it
only hands a call over (default: 5 ms, several times as long as a sync)."""
BUILD_INFO: Final = "kraft_bridge_build_info"
LOG_LINES_LOST: Final = "kraft_bridge_log_lines_lost"


class BindError(Exception):
    """An address of the configuration cannot be bound; the text names the property and why."""


@contextlib.contextmanager
def named(key: str) -> Iterator[None]:
    """Add the property's name to the error of an address that cannot be bound."""
    try:
        yield
    except OSError as error:
        raise BindError(f"{key}: {error.strerror or error}") from error


async def listen(
    shell: Shell, listeners: Sequence[Listener], sockets: Mapping[str, socket.socket] | None
) -> None:
    """Bind every listener.

    Args:
        shell: accepts the connections.
        listeners: where to bind.
        sockets: listener name -> socket that is bound already.

    Raises:
        BindError: an address cannot be bound.
    """
    bound = sockets or {}
    for one in listeners:
        with named(f"listeners: {one.name}://{HostPort(one.host, one.port)}"):
            await shell.listen(one.name, one.host, one.port, bound.get(one.name))


def pages(
    metrics: Callable[[], str],
    status: Callable[[], Mapping[str, Any]],
    not_ready_because: Callable[[], str],
) -> http.Routes:
    """``/metrics``, ``/status``, ``/livez`` and ``/readyz`` of a node.

    Args:
        metrics: the text format of Prometheus.
        status: a JSON object.
        not_ready_because: why it is not ready for traffic; empty if it is.
    """

    def ready() -> http.Page:
        why = not_ready_because()
        return http.Page(503 if why else 200, "text/plain", (why or "ready").encode() + b"\n")

    def measured() -> http.Page:
        text = metrics() + _process_text()
        return http.Page(200, "text/plain; version=0.0.4", text.encode())

    def shown() -> http.Page:
        return http.Page(200, "application/json", _json(status()) + b"\n")

    return {
        "/metrics": measured,
        "/status": shown,
        "/livez": lambda: http.Page(200, "text/plain", b"alive\n"),
        "/readyz": ready,
    }


def _json(value: Mapping[str, Any]) -> bytes:
    r"""Indented; ten times as fast as ``json``, which is left for a path that is not UTF-8.

    >>> print(_json({"log_dir": "/data/\udcff"}).decode())
    {
     "log_dir": "/data/\udcff"
    }
    """
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=1)
    except UnicodeEncodeError:
        return json.dumps(value, indent=1).encode()


async def serve_http(
    routes: http.Routes,
    host: str,
    port: int,
    log: Callable[[Log], None],
    actions: http.Actions,
    *,
    names: Collection[str] = (),
) -> tuple[http.HttpServer, int]:
    """Serve metrics and status; returns the server and its port.

    Args:
        routes: path -> page.
        host: where to bind.
        port: 0: any free one.
        log: takes a line with the address.
        actions: path -> what a POST does.
        names: more names by which it may be asked (:class:`http.KnownHosts`).

    Raises:
        BindError: the address cannot be bound.
    """
    with named(f"{METRICS_PORT}={port}"):
        failed = failures_to(log)
        server, bound = await http.serve(routes, host, port, actions, failed, names=names)
    log(Log("info", "metrics and status", {"url": url_of(host, bound)}))
    return server, bound


def failures_to(log: Callable[[Log], None]) -> http.Failed:
    """Log a page that cannot be made; again only if the reason is another one."""
    logged: dict[str, str] = {}

    def failed(path: str, error: Exception) -> None:
        why = f"{type(error).__name__}: {error}"
        if logged.get(path) != why:
            logged[path] = why
            at = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(at.filename).name}:{at.lineno}"
            log(Log("error", "a page cannot be made", {"path": path, "why": why, "where": where}))

    return failed


@dataclass(frozen=True, slots=True)
class HttpEndpoint:
    """What a node serves over HTTP, and where.

    ``port``: None: that of ``USUAL``, or a free one there; 0: any free one; negative: nothing is
    served. ``faults``: the script that requests to ``/faults`` change; None: there is no such page.
    ``folder``: of the node, for their token and ``status.url``. ``waited_for``: False: if its
    address cannot be bound, the node serves without it, and it is tried again until it can.
    ``names``: more names by which it may be asked.
    """

    host: str
    port: int | None
    routes: http.Routes
    faults: FaultScript | None
    folder: Path
    operator: http.Actions | None = None
    waited_for: bool = True
    names: Collection[str] = ()

    @property
    def places(self) -> list[HostPort]:
        """Where to bind, in this order; none: nothing is served."""
        if self.port is None:
            return [USUAL, HostPort(USUAL.host, 0)]
        return [HostPort(self.host, self.port)] if self.port >= 0 else []


@contextlib.asynccontextmanager
async def opened(
    shell: Shell,
    listeners: Sequence[Listener],
    sockets: Mapping[str, socket.socket] | None,
    endpoint: HttpEndpoint,
    log: Callable[[Log], None],
) -> AsyncIterator[int]:
    """Listeners and the HTTP endpoint, until the end; yields the port of HTTP, -1 if there is none.

    If something cannot be opened, the shell is stopped, and nothing stays behind.

    Args:
        shell: accepts the connections.
        listeners: where to bind.
        sockets: listener name -> socket that is bound already.
        endpoint: see there.
        log: takes a line with the address.

    Raises:
        BindError: an address cannot be bound.
        OSError: the token cannot be written.
    """
    with contextlib.ExitStack() as closing:
        try:
            await listen(shell, listeners, sockets)
            actions: http.Actions = {}
            if endpoint.faults is not None:
                route = FaultsRoute(endpoint.faults, endpoint.folder, log)
                closing.callback(route.close)
                actions = {"/faults": route.answer}
            if endpoint.operator and endpoint.places:
                operator = OperatorRoute(endpoint.folder, endpoint.operator)
                closing.callback(operator.close)
                actions = {**actions, **operator.actions}
            port = await _serve_pages(endpoint, actions, log, closing)
        except BaseException:
            await shell.stop()
            raise
        yield port


async def _serve_pages(
    endpoint: HttpEndpoint,
    actions: http.Actions,
    log: Callable[[Log], None],
    closing: contextlib.ExitStack,
) -> int:
    """Serve the pages until ``closing``; returns the port, -1 if there is none or not yet."""
    status_url = StatusUrl(endpoint.folder, log)
    if not endpoint.places:
        return -1

    async def bind() -> int:
        """Bind the first place that can be; raises BindError if none can."""
        *earlier, last = endpoint.places
        for place in earlier:
            with contextlib.suppress(BindError):
                return await bind_at(place)
        return await bind_at(last)

    async def bind_at(place: HostPort) -> int:
        server, port = await serve_http(
            endpoint.routes, place.host, place.port, log, actions, names=endpoint.names
        )
        closing.callback(server.close)
        closing.callback(status_url.close)
        status_url.write(url_of(place.host, port))
        return port

    async def bind_later() -> None:
        while True:
            await asyncio.sleep(BIND_AGAIN_S)
            with contextlib.suppress(BindError):
                await bind()
                return

    try:
        return await bind()
    except BindError as error:
        if endpoint.waited_for and endpoint.port is not None:
            raise
        text = "metrics and status are not served, the node goes on without them"
        log(Log("error", text, {"why": str(error), "again_in_s": BIND_AGAIN_S}))
    later = asyncio.get_running_loop().create_task(bind_later())
    closing.callback(later.cancel)
    return -1


def own_process(shell: Shell) -> None:
    """Make the running process that of this shell alone: its signals, its collector.

    A terminal that is closed asks for an orderly stop, as of Kafka; it may send two SIGHUP, and the
    second does not cut the stop off. Under ``nohup`` it is ignored.
    """
    loop = asyncio.get_running_loop()
    asked = False

    def stop(*, again: bool) -> None:
        nonlocal asked
        if again or not asked:
            asked = True
            shell.request_shutdown()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, partial(stop, again=True))
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        loop.add_signal_handler(signal.SIGHUP, partial(stop, again=False))
    # A collection first would take as long as 40,000 partitions are read, and find little.
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)
    sys.setswitchinterval(SWITCH_S)


def exit_code_of(
    run: Callable[[], Halt],
    plain: tuple[type[Exception], ...],
    log: Callable[[Log], None],
    lasting: tuple[type[Exception], ...] = (),
) -> int:
    """Run until the end; returns the exit code.

    Args:
        run: the whole life of the process.
        plain: failures that an operator can repair: the text is shown without a traceback.
        log: takes the last line.
        lasting: those of ``plain`` that another start would find again: code 2.

    Raises:
        FolderLockedError: as the run; the verb says by which process.
    """
    try:
        halt = run()
    except FolderLockedError:
        raise
    except plain as error:
        log_output.write(f"kraft-bridge: {sentence(error)}\n")
        return 2 if isinstance(error, lasting) else 1
    except Exception:  # noqa: BLE001 - the last place that can log it, and end with a code
        log_output.write(traceback.format_exc())
        log_output.write("kraft-bridge: stopped because of a bug; nothing was written after it\n")
        return 1
    log(Log("info" if halt.exit_code == 0 else "error", "stopped", {"why": halt.why}))
    return halt.exit_code


def _process_text() -> str:
    """Memory, CPU time, descriptors and start of this process, and what it is; text format."""
    return generate_latest(_OfProcess()).decode()


class _OfProcess:
    """The registry interface that ``generate_latest`` needs."""

    def collect(self) -> Iterable[Family]:
        yield from _collector().collect()
        family = Family(BUILD_INFO, "1, with the versions of this program and of Python.", "gauge")
        family.add_sample(BUILD_INFO, _build(), 1)
        yield family
        lost = Family(LOG_LINES_LOST, "Log lines that could not be written.", "counter")
        lost.add_sample(f"{LOG_LINES_LOST}_total", {}, log_output.lines_lost())
        yield lost


@cache
def _collector() -> ProcessCollector:
    return ProcessCollector(registry=None)


@cache
def _build() -> dict[str, str]:
    return {"version": metadata.version("kraft-bridge"), "python": platform.python_version()}


# The number of connections for which this process has file descriptors.

RESERVE_MAX: Final = 512
"""For the log, snapshots, the trace, ZooKeeper, a connection to each broker, and for connections
that are accepted in one turn of the loop before the first of them is turned away (the backlog of a
listener, 100)."""


def for_connections() -> int:
    """Raise the soft limit to the hard limit if possible; returns it without the reserve."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return beside_reserve(soft)


def beside_reserve(limit: int) -> int:
    """Descriptors for connections under a limit; the reserve is a quarter of a low one.

    >>> beside_reserve(20_000), beside_reserve(400)
    (19488, 300)
    """
    if limit == resource.RLIM_INFINITY:
        limit = 2**31 - 1
    return limit - min(RESERVE_MAX, limit // 4)
