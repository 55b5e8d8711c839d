"""Where a trace belongs: a folder, or a URI of a store that several machines share."""

from __future__ import annotations

import contextlib
import importlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from emulator.config.extras import install
from emulator.io.trace_file import TraceFailedError, TraceUnavailableError


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
