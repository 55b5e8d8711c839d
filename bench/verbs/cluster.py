"""``kraft-bridge cluster``: a cluster for tests in any language, controlled over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import stat
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from emulator.commands.common import fail
from emulator.commands.exits import ExitCode
from emulator.commands.json_forms import stamped
from emulator.io import log_output
from emulator.io.operator_route import BearerToken
from emulator.io.printable import sentence
from emulator.seam import Log
from wire.releases import RELEASES

if TYPE_CHECKING:
    from emulator.testing.cluster import Cluster

PARENT_S: Final = 0.2
"""How often it is looked whether the parent has ended."""

Brokers = Annotated[int, typer.Option(min=0, max=100, help="How many brokers, with ids from 0.")]
Controllers = Annotated[
    int, typer.Option(min=1, max=9, help="How many controllers, with ids from 3000.")
]
ControlPort = Annotated[
    int, typer.Option(min=0, max=65_535, help="Of the control; 0 takes a free one.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="Write the token into it, for this user alone, and not into the line."),
]
Properties = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="KEY=VALUE", help="A property of every node; may be repeated."),
]
Release = Annotated[str, typer.Option(help="Emulated Kafka release.")]
Level = Annotated[
    Literal["debug", "info", "warning", "error"],
    typer.Option("--log-level", help="Lines of the nodes below it are left out."),
]


def cluster(  # noqa: PLR0917  # one option each
    brokers: Brokers = 1,
    controllers: Controllers = 1,
    control: ControlPort = 0,
    token_file: TokenFile = None,
    release: Release = RELEASES[-1],
    properties: Properties = None,
    log_level: Level = "warning",
) -> None:
    """Run a cluster in KRaft mode for tests in any language, controlled over HTTP.

    Its first line is a JSON object with all addresses, the URL of the control and its token. It
    listens on 127.0.0.1 only, and keeps nothing. It ends by SIGTERM or Ctrl-C, and when its parent
    or its standard input, if that is a pipe, ends.
    """
    from emulator.testing import Cluster, ClusterError, FaultMissedError
    from emulator.testing.local_node import SettingsError

    log_output.never_wait()
    _log_to_stderr(log_level)
    given = dict(_pair(one) for one in properties or ())
    token = BearerToken()
    try:
        made = Cluster(
            brokers=brokers,
            controllers=controllers,
            release=release,
            fsync=False,
            properties=given,
            broker_properties=given,
        )
        with _written(token, token_file):
            asyncio.run(_Life(made, token, token_file).run(control))
    except SettingsError as error:
        raise fail(str(error), ExitCode.WRONG) from error
    except (ClusterError, FaultMissedError) as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(sentence(error)) from error


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise fail(f"-X {text}: write KEY=VALUE", ExitCode.WRONG)
    return key.strip(), value.strip()


@contextlib.contextmanager
def _written(token: BearerToken, path: Path | None) -> Iterator[None]:
    """The token in its file, as long as the cluster runs."""
    if path is None:
        yield
        return
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise fail(f"--token-file {path}: there is something that is no file", ExitCode.WRONG)
    token.write(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()


class _Life:
    """The cluster from its start to its end.

    Args:
        cluster: not started yet.
        token: of its control.
        token_file: where it is; None: in the line.
    """

    def __init__(self, cluster: Cluster, token: BearerToken, token_file: Path | None) -> None:
        self._cluster = cluster
        self._token = token
        self._token_file = token_file

    async def run(self, port: int) -> None:
        """Serve until something ends it.

        Args:
            port: of the control.

        Raises:
            ClusterError: it could not start, or a node did not end in order.
            FaultMissedError: a fault never fired.
            OSError: the port is taken, or nobody reads the line.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[str] = loop.create_future()
        with _ends(loop, ended):
            serving = loop.create_task(self._serve(port, ended))
            ended.add_done_callback(lambda _: self._started or serving.cancel())
            with contextlib.suppress(asyncio.CancelledError):
                await serving

    _started = False

    async def _serve(self, port: int, ended: asyncio.Future[str]) -> None:
        from emulator.testing.control import controlled, state

        async with self._cluster as cluster, controlled(cluster, self._token, port) as url:
            self._started = True
            found = await asyncio.to_thread(state, cluster)
            secret = (
                {"token": self._token.text}
                if self._token_file is None
                else {"token_file": str(self._token_file.absolute())}
            )
            line = json.dumps(stamped("cluster", {"control": url, **secret, **found}))
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
            why = await ended
            log_output.write(f"kraft-bridge: the cluster is stopped: {why}\n")


@contextlib.contextmanager
def _ends(loop: asyncio.AbstractEventLoop, ended: asyncio.Future[str]) -> Iterator[None]:
    """Set the future once something ends the cluster; what comes later changes nothing."""

    def end(why: str) -> None:
        if not ended.done():
            ended.set_result(why)

    parent = os.getppid()

    async def look() -> None:
        while os.getppid() == parent:  # noqa: ASYNC110  # no event of ours
            await asyncio.sleep(PARENT_S)
        end("the process that started it has ended")

    def read() -> None:
        if not os.read(0, 65_536):
            loop.remove_reader(0)
            end("its standard input has ended")

    looking = loop.create_task(look())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, end, signal.Signals(number).name)
    piped = _is_pipe(0)
    if piped:
        loop.add_reader(0, read)
    try:
        yield
    finally:
        looking.cancel()
        if piped:
            loop.remove_reader(0)


def _is_pipe(fd: int) -> bool:
    """Whether its end is somebody's: a shell gives /dev/null to what runs in the background."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _log_to_stderr(level: str) -> None:
    """Lines of the nodes go to standard error, which is never waited for."""
    own = logging.getLogger("kraft_bridge")
    own.setLevel(level.upper())
    own.propagate = False
    own.addHandler(_NodeLines(level))


class _NodeLines(logging.Handler):
    def __init__(self, level: str) -> None:
        super().__init__()
        self._writer = cache(lambda node: log_output.logger(node, level=level))

    def emit(self, record: logging.LogRecord) -> None:
        line: Any = getattr(record, "line", None)
        node = record.name.partition(".")[2] or "cluster"
        if not isinstance(line, Log):
            text = self.format(record)
            line = Log("warning" if record.levelno < logging.ERROR else "error", text, {})
        self._writer(node)(line)
