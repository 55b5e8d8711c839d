"""The trace of a program that makes load: the program never stops because of it."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from emulator.config.confidential import redacted
from emulator.config.load import Config
from emulator.config.words import install
from emulator.io.clock import Clock
from emulator.io.trace_file import (
    TraceFailedError,
    TraceFile,
    TraceLimits,
    TraceUnavailableError,
)
from emulator.seam import Log
from emulator.trace import metrics as metric
from emulator.trace.exposition import Values, one_label
from emulator.trace.rows import SCHEMA_VERSION, CpuGauge, GaugeRow, Row, RunRow, StallRow

# Where a trace belongs: a folder, or a URI of a store that several machines share.


@contextlib.contextmanager
def trace_folder(place: str) -> Iterator[Path]:
    """A folder of this machine, for the trace that belongs at ``place``.

    Of a path or a ``file:`` URI it is that folder, made if absent. Of any other URI that pyarrow
    knows (``s3://``, ``hdfs://``, ``gs://`` …) it is a temporary one; what is in it at the end is
    copied there, after a failure too.

    Raises:
        TraceUnavailableError: there is no such place, or its URI needs pyarrow and that is missing.
        TraceFailedError: at the end the trace could not be copied.
    """
    local = local_folder(place)
    if local is not None:
        try:
            local.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TraceUnavailableError(str(error)) from error
        yield local
        return
    store, path = _store(place)
    with tempfile.TemporaryDirectory(prefix="kraft-bridge-trace-") as made:
        try:
            yield Path(made)
        finally:
            try:
                _filesystems().copy_files(
                    made, path, _filesystems().LocalFileSystem(), destination_filesystem=store
                )
            except (OSError, ValueError) as error:
                raise TraceFailedError(f"it cannot be copied there: {error}") from error


def from_anywhere(place: str | None) -> str | None:
    """The same place for processes in other working folders: a relative path becomes absolute."""
    local = None if place is None else local_folder(place)
    return place if local is None else str(local.absolute())


def local_folder(place: str) -> Path | None:
    """The folder that a path or a ``file:`` URI names; None of another URI.

    >>> local_folder("out/load"), local_folder("file:///shared/a%20b"), local_folder("s3://b/t")
    (PosixPath('out/load'), PosixPath('/shared/a b'), None)
    """
    parts = urlsplit(place)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"}:
        return Path(unquote(parts.path))
    return None if "://" in place else Path(place)


def _store(place: str) -> tuple[Any, str]:
    """The file system of a URI, and the path in it."""
    try:
        store, path = _filesystems().FileSystem.from_uri(place)
    except (OSError, ValueError) as error:
        raise TraceUnavailableError(str(error)) from error
    return store, path


def _filesystems() -> Any:
    try:
        return importlib.import_module("pyarrow.fs")
    except ImportError as missing:
        raise TraceUnavailableError(f"{missing}; {install('spark')}") from missing


def cpu_rows(now_ns: int) -> list[GaugeRow]:
    """CPU used by this process, by the thread that calls, and on the cores that both may use.

    Of a machine without ``/proc/stat`` only the first two.
    """
    used = {CpuGauge.PROCESS: time.process_time(), CpuGauge.EVENT_LOOP: time.thread_time()}
    with contextlib.suppress(OSError, ValueError, KeyError, AttributeError):
        mine = os.sched_getaffinity(0)
        lines = dict(
            line.split(maxsplit=1) for line in Path("/proc/stat").read_text("ascii").splitlines()
        )
        # In a container the cores may be numbered anew; then it is shown no others.
        names = [f"cpu{number}" for number in mine]
        ticks = 0
        for name in names if lines.keys() >= {*names} else ["cpu"]:
            user, nice, system, _, _, irq, softirq, steal = map(int, lines[name].split()[:8])
            ticks += user + nice + system + irq + softirq + steal
        used[CpuGauge.MACHINE] = ticks / os.sysconf("SC_CLK_TCK")
        used[CpuGauge.MACHINE_CORES] = float(len(mine))
    return [GaugeRow(now_ns, gauge, value) for gauge, value in used.items()]


# The trace of a controller: a failure of the trace does not stop the controller.

FLUSH_NS: Final = 500_000_000
"""What a killed process loses; with the time that the writer takes it is less than a second."""
_REMEDY: Final = "the node goes on; so does the trace, once it can be written"
_REMEDY_FOR_GOOD: Final = "the node goes on without it; restart it to record again"


class NodeTrace:
    """What a controller records, if it is to record; logs that it cannot, and that it can again.

    Args:
        config: names folder and run.
        clock: of the node.
        log: takes a line at the end of a trace that is not whole.
    """

    def __init__(self, config: Config, clock: Clock, log: Callable[[Log], None]) -> None:
        self._folder = config.trace_dir
        self._clock = clock
        self._log = log
        self._file: TraceFile | None = None
        self._none_because = ""
        self._began_ns = clock.now_ns()
        self._flush_due_ns = 0
        self._reported = False
        self._seen_s = 0.0
        if self._folder:
            try:
                self._file = _begun(config, clock)
            except Exception as error:  # noqa: BLE001 - no pyarrow, no thread, whatever it is
                self._none_because = str(error) or type(error).__name__
                self._report()

    def append(self, row: Row) -> None:
        """Record a row, if there is a trace."""
        if self._file is not None:
            self._file.append(row)

    def sample(
        self, now_ns: int, stalled: StallRow | None, gauges: Callable[[], Mapping[str, float]]
    ) -> None:
        """Record what a look every 100 ms finds; hand it over twice a second."""
        if self._file is None or (self._reported and self._file.for_good):
            return
        try:
            if stalled is not None:
                self._file.append(stalled)
            for gauge, value in gauges().items():
                self._file.append(GaugeRow(time_ns=now_ns, gauge=gauge, value=value))
            if now_ns >= self._flush_due_ns:
                for row in cpu_rows(now_ns):
                    self._file.append(row)
        except Exception as error:  # noqa: BLE001 - a fault of what only looks ends the looking
            self._file.give_up(f"a fault of this program: {type(error).__name__}: {error}")
        if now_ns >= self._flush_due_ns:
            self._flush_due_ns = now_ns + FLUSH_NS
            self._file.flush()
        if self._file.ended is not None:
            self._seen_s = self._missing_s
            self._report()
        elif self._reported:
            self._reported = False
            found = {"missing_s": math.ceil(self._seen_s), "missing_rows": self._file.missing_rows}
            self._log(Log("info", "the trace goes on", {"folder": self._folder, **found}))

    def close(self) -> None:
        """Finish its files; what is missing is logged."""
        lacked = self._fields() if self._reported else None
        try:
            if self._file is not None:
                self._file.close()
        except TraceFailedError:
            lacked = self._fields()
        if lacked is not None:
            self._log(Log("warning", "the trace is not whole", lacked))

    @property
    def status(self) -> dict[str, Any] | None:
        """For ``/status``; None where nothing is to be recorded."""
        if not self._folder:
            return None
        return {
            "folder": self._folder,
            "ended_because": self._why,
            "missing_s": math.ceil(self._missing_s),
        }

    @property
    def metrics(self) -> Values:
        """For ``/metrics``."""
        rows = one_label({} if self._file is None else self._file.rows_total)
        if not self._folder:
            return {metric.TRACE_ROWS: rows}
        lost = 0 if self._file is None else self._file.missing_rows
        return {
            metric.TRACE_ROWS: rows,
            metric.TRACE_MISSING_S: self._missing_s,
            metric.TRACE_MISSING_ROWS: lost,
            metric.TRACE_DELETED_BYTES: 0 if self._file is None else self._file.deleted_bytes,
        }

    @property
    def _why(self) -> str:
        ended = None if self._file is None else self._file.ended
        return self._none_because if ended is None else ended.why

    @property
    def _missing_s(self) -> float:
        if self._none_because:
            return (self._clock.now_ns() - self._began_ns) / 1e9
        return 0.0 if self._file is None else self._file.missing_s

    def _fields(self) -> dict[str, object]:
        missing_s = math.ceil(self._missing_s)
        return {"folder": self._folder, "why": self._why, "missing_s": missing_s}

    def _report(self) -> None:
        if self._reported:
            return
        self._reported = True
        tried = self._file is not None and not self._file.for_good
        fields = self._fields() | {"remedy": _REMEDY if tried else _REMEDY_FOR_GOOD}
        self._log(Log("error", "the trace has ended", fields))


def _begun(config: Config, clock: Clock) -> TraceFile:
    process = f"controller-{config.node_id}"
    run_id = config.trace_run_id or str(clock.wall_anchor_ms)
    limits = TraceLimits(total_bytes=config.trace_max_bytes)
    trace = TraceFile(Path(config.trace_dir), run_id, process, limits=limits)
    trace.append(
        RunRow(
            schema_version=SCHEMA_VERSION,
            monotonic_ns=clock.monotonic_anchor_ns,
            wall_ns=clock.wall_anchor_ms * 1_000_000,
            host=socket.gethostname(),
            product_version=metadata.version("kraft-bridge"),
            release=config.release,
            parameters=json.dumps(redacted(config.static), sort_keys=True),
        )
    )
    return trace


class Recording:
    """Takes rows; without a file it keeps none. Nothing here waits or fails."""

    def __init__(self, file: TraceFile | None = None) -> None:
        self._file = file
        self.lacks = ""
        """At its end: what is missing, and why; empty if it is whole, or was not asked for."""

    def append(self, row: Row) -> None:
        """Record a row."""
        if self._file is not None:
            self._file.append(row)

    def flush(self) -> None:
        """Hand the rows over, and the CPU used up to now; about twice a second."""
        if self._file is not None:
            for row in cpu_rows(time.monotonic_ns()):
                self._file.append(row)
            self._file.flush()


@contextlib.contextmanager
def recording(place: str | None, run_id: str, process: str, run: RunRow) -> Iterator[Recording]:
    """Record at a place until the end; ``Recording.lacks`` is known after it.

    Args:
        place: path or URI; None: nothing is recorded.
        run_id: of the trace.
        process: the name of the writer.
        run: the row that describes it.

    Raises:
        TraceUnavailableError: there can be no trace.
    """
    found = Recording()
    if place is None:
        yield found
        return
    with contextlib.ExitStack() as ending:
        ending.enter_context(_noted(found))
        file = TraceFile(ending.enter_context(trace_folder(place)), run_id, process)
        found._file = file  # noqa: SLF001 - its own
        file.append(run)
        try:
            yield found
        finally:
            try:
                file.close()
            except TraceFailedError as error:
                found.lacks = f"{error}; its last {math.ceil(file.missing_s)} s are missing"
            else:
                if file.missing_rows:
                    found.lacks = f"{file.missing_rows} rows could not be written meanwhile"


@contextlib.contextmanager
def _noted(found: Recording) -> Iterator[None]:
    try:
        yield
    except TraceFailedError as error:
        found.lacks = str(error)
