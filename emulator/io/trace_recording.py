"""The trace of a program that makes load: the program never stops because of it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

from emulator.io.trace_file import TraceFailedError, TraceFile
from emulator.io.trace_place import trace_folder
from emulator.trace.rows import Row, RunRow


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
        """Hand the rows over; about once a second."""
        if self._file is not None:
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


@contextlib.contextmanager
def _noted(found: Recording) -> Iterator[None]:
    try:
        yield
    except TraceFailedError as error:
        found.lacks = str(error)
