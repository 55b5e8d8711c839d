"""The trace of a controller: a failure of the trace does not stop the controller."""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from emulator.config.confidential import redacted
from emulator.config.load import Config
from emulator.io.clock import Clock
from emulator.io.trace_file import TraceFailedError, TraceFile
from emulator.seam import Log
from emulator.trace import trace_metrics as metric
from emulator.trace.exposition import Values, one_label
from emulator.trace.rows import SCHEMA_VERSION, GaugeRow, Row, RunRow, StallRow

FLUSH_NS: Final = 1_000_000_000
_REMEDY: Final = "the node goes on without it; restart it to record again"


class NodeTrace:
    """What a controller records, if it is to record; logs once that it cannot.

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
        """Record what a look every 100 ms finds; hand it over once a second."""
        if self._file is None or self._reported:
            return
        try:
            if stalled is not None:
                self._file.append(stalled)
            for gauge, value in gauges().items():
                self._file.append(GaugeRow(time_ns=now_ns, gauge=gauge, value=value))
        except Exception as error:  # noqa: BLE001 - a fault of what only looks ends the looking
            self._file.give_up(f"a fault of this program: {type(error).__name__}: {error}")
        if now_ns >= self._flush_due_ns:
            self._flush_due_ns = now_ns + FLUSH_NS
            self._file.flush()
        if self._file.ended is not None:
            self._report()

    def close(self) -> None:
        """Finish its files; what is missing is logged."""
        try:
            if self._file is not None:
                self._file.close()
        except TraceFailedError:
            self._report(at_the_end=True)
        if self._none_because:
            self._report(at_the_end=True)

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
        return {metric.TRACE_ROWS: rows, metric.TRACE_MISSING_S: self._missing_s}

    @property
    def _why(self) -> str:
        ended = None if self._file is None else self._file.ended
        return self._none_because if ended is None else ended.why

    @property
    def _missing_s(self) -> float:
        if self._none_because:
            return (self._clock.now_ns() - self._began_ns) / 1e9
        return 0.0 if self._file is None else self._file.missing_s

    def _report(self, *, at_the_end: bool = False) -> None:
        if self._reported and not at_the_end:
            return
        self._reported = True
        fields: dict[str, object] = {
            "folder": self._folder,
            "why": self._why,
            "missing_s": math.ceil(self._missing_s),
        }
        if at_the_end:
            self._log(Log("warning", "the trace is not whole", fields))
        else:
            self._log(Log("error", "the trace has ended", fields | {"remedy": _REMEDY}))


def _begun(config: Config, clock: Clock) -> TraceFile:
    process = f"controller-{config.node_id}"
    run_id = config.trace_run_id or str(clock.wall_anchor_ms)
    trace = TraceFile(Path(config.trace_dir), run_id, process)
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
