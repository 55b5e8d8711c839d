"""The input of ``kraft-bridge preflight``: properties files, a dump, or a live tree."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from emulator.commands.configuration import text_of
from emulator.commands.input_file import whole
from emulator.commands.zk.client import CONNECT_TIMEOUT_S, Connector, settings
from emulator.config import properties as properties_text
from emulator.config.zookeeper import OPEN, ZooKeeperSecurity, connect_string
from emulator.io.tls import TlsError
from emulator.operations.preflight import controller_folder
from emulator.operations.preflight.broker_folders import partition_of, topic_id_of
from emulator.operations.preflight.controller_folder import ControllerFolder
from emulator.operations.preflight.counts import estimated
from emulator.operations.preflight.node_file import FolderContents, Properties
from emulator.operations.preflight.survey import RoundTrips, Survey, of_dump
from emulator.raft import layout

ROUND_TRIPS = 20
SMALL_BYTES = 65_536
PARTITION_METADATA = "partition.metadata"


class PreflightError(Exception):
    """Something given cannot be read; one sentence that names it."""


def read_properties(path: Path) -> Properties:
    """Read a ``server.properties``, and what is in the folders it names that are here.

    Raises:
        PreflightError: the file cannot be read, or is malformed.
    """
    try:
        # A lone surrogate, which Java's escapes can write, could not be printed.
        values = properties_text.parse(text_of(path))
        values = {_encodable(key): _encodable(value) for key, value in values.items()}
    except IsADirectoryError as error:
        each = f"--controller-dir {path} --controller-dir …"
        why = f"{error.strerror}; give --controller-dir once for each folder: {each}"
        raise PreflightError(f"{path}: {why}") from error
    except OSError as error:
        raise PreflightError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise PreflightError(f"{path}: {error}") from error
    lists = (values.get(key, "") for key in ("metadata.log.dir", "log.dirs", "log.dir"))
    folders = [part.strip() for text in lists for part in text.split(",") if part.strip()]
    metas, unread = dict[str, dict[str, str]](), dict[str, str]()
    held: dict[str, FolderContents] = {}
    for folder in dict.fromkeys(folders):
        try:
            if (meta := _meta(Path(folder))) is not None:
                metas[folder] = meta
            if Path(folder).is_dir():
                held[folder] = _contents(Path(folder))
        except (OSError, ValueError) as error:
            unread[folder] = str(getattr(error, "strerror", None) or error)
    meta = next(iter(metas.values()), {})
    return Properties(str(path), values, meta, metas, unread, held)


def _contents(folder: Path) -> FolderContents:
    """The partitions in a folder, with their topic ids; nothing is locked, nothing written."""
    topic_ids, unread = dict[str, str](), dict[str, str]()
    others, malformed = list[str](), list[str]()
    quorum_state: bytes | None = None
    for one in sorted(x for x in folder.iterdir() if x.is_dir()):
        name = _encodable(one.name)
        if name == layout.FOLDER:
            quorum_state = _bytes_of(folder / layout.QUORUM_STATE) or b""
        elif partition_of(name) is None:
            others.append(name)
        else:
            try:
                found = _bytes_of(one / PARTITION_METADATA)
                topic_ids[name] = "" if found is None else topic_id_of(found.decode())
            except OSError as error:
                unread[name] = str(error.strerror or error)
            except ValueError:
                malformed.append(name)
    return FolderContents(topic_ids, unread, tuple(others), quorum_state, tuple(malformed))


def _bytes_of(path: Path) -> bytes | None:
    """The first bytes of a small file; None if there is none."""
    try:
        with path.open("rb") as file:
            return file.read(SMALL_BYTES)
    except FileNotFoundError:
        return None


def read_folder(path: Path, shown: tuple[int, int] = (-1, -1)) -> ControllerFolder:
    """Read a controller's folder; nothing is locked, and the controller may be running.

    Args:
        path: the folder, or the log's folder in it.
        shown: offset and leader epoch in ``/migration``, -1 if it has none.

    Raises:
        PreflightError: it is no folder, or a file in it cannot be read.
    """
    if path.name == layout.FOLDER:
        path = path.parent
    if not path.is_dir():
        raise PreflightError(f"{path}: no such folder")
    try:
        names = [one for one in (*path.iterdir(), *_inner(path)) if one.is_file()]
        files = {
            name: one.read_bytes()
            for one in sorted(names)
            if controller_folder.wanted(name := one.relative_to(path).as_posix())
        }
    except OSError as error:
        raise PreflightError(f"{error.filename or path}: {error.strerror or error}") from error
    try:
        meta = _meta(path) or {}
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise PreflightError(f"{path / layout.META_PROPERTIES}: {why}") from error
    return controller_folder.read(str(path), files, meta, shown)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _inner(path: Path) -> Iterable[Path]:
    inner = path / layout.FOLDER
    return inner.iterdir() if inner.is_dir() else ()


def _meta(folder: Path) -> dict[str, str] | None:
    """The folder's ``meta.properties``; None if there is none.

    Raises:
        OSError, ValueError: it is there and cannot be read.
    """
    try:
        found = properties_text.parse(text_of(folder / layout.META_PROPERTIES))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return {_encodable(key): _encodable(value) for key, value in found.items()}


def offline(path: Path, configs: Sequence[Path]) -> Survey:
    """The survey from a file of ``kraft-bridge zk dump`` and properties files.

    Raises:
        PreflightError: one of them cannot be read.
    """
    files = [read_properties(one) for one in configs]
    try:
        document = msgspec.json.decode(whole(path), type=dict[str, Any])
        return of_dump(document, files)
    except OSError as error:
        raise PreflightError(f"{path}: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PreflightError(f"{path}: not a dump of a ZooKeeper tree: {error}") from error
    except ValueError as error:
        raise PreflightError(f"{path}: {error}") from error


class Size(NamedTuple):
    """Of a dump: records and znodes that a copy has, and one znode that prevents it, or ""."""

    records: int
    znodes: int
    refused: str


def size(path: Path) -> Size:
    """The size of a dump.

    Raises:
        PreflightError: it cannot be read.
    """
    survey = offline(path, ())
    refused = next((one.znode for one in survey.copy.refusals), "")
    return Size(sum(survey.copy.records.values()), len(survey.nodes), refused)


def times(found: Size, read_ms: float, sync_ms: float) -> tuple[float, float]:
    """Milliseconds of its copy and of reading it, at these round trips."""
    trips = estimated(found.records, found.znodes, RoundTrips(read_ms, sync_ms))
    return trips.copy_ms, trips.reading_ms


def ensemble(
    zookeeper: str | None, configs: Sequence[Path], *, online: bool
) -> tuple[str, ZooKeeperSecurity]:
    """Connect string ("" if none is configured) and credentials, from the first properties file.

    Without a connection to make, credentials that cannot be used are none.

    Raises:
        PreflightError: the file cannot be read, its security settings cannot be used, or the
            connect string is none.
    """
    # Read as every other file, so that its encoding does not matter.
    first = read_properties(configs[0]).values if configs else {}
    try:
        named_hosts, security = settings(None, [f"{key}={value}" for key, value in first.items()])
    except (OSError, ValueError) as error:
        if not online:
            return "", OPEN
        raise PreflightError(f"{configs[0]}: {error}") from error
    hosts = zookeeper or named_hosts
    try:
        if hosts and online:
            connect_string(hosts)
    except ValueError as error:
        raise PreflightError(f"{hosts} is not host:port[,…][/chroot]: {error}") from error
    return hosts, security


def logins(configs: Sequence[Path]) -> frozenset[str]:
    """``scheme:id`` of the controllers in ZooKeeper, from their files; of the first file if none.

    A login that cannot be read is none: B12 says why ours would not start.
    """
    files = [read_properties(one) for one in configs]
    found: set[str] = set()
    for one in [x for x in files if x.is_controller] or files[:1]:
        try:
            _, security = settings(None, [f"{key}={value}" for key, value in one.values.items()])
        except (OSError, ValueError):
            continue
        found.update(x for x in security.identities if ":" in x)
    return frozenset(found)


def live(
    hosts: str, document: Mapping[str, Any], configs: Sequence[Path], connect: Connector
) -> Survey:
    """The survey from a live tree, its round trips and properties files; nothing is written.

    Args:
        hosts: connect string.
        document: the tree, as ``zk dump`` prints it.
        configs: properties files.
        connect: makes the client.

    Raises:
        PreflightError: a file cannot be read, or ZooKeeper stopped answering.
    """
    survey = of_dump(document, [read_properties(one) for one in configs])
    _, slash, chroot = hosts.partition("/")
    return replace(
        survey,
        chroot=f"/{chroot.strip('/')}" if slash and chroot.strip("/") else "",
        round_trips=_measured(hosts, connect),
    )


def _measured(hosts: str, connect: Connector) -> RoundTrips:
    """Round trips to an ensemble.

    Raises:
        PreflightError: it does not answer.
    """
    try:
        client = connect(hosts)
        try:
            client.start(timeout=CONNECT_TIMEOUT_S)
            return RoundTrips(
                _median_ms(lambda: client.exists("/")), _median_ms(lambda: client.sync("/"))
            )
        finally:
            client.stop()
            client.close()
    except (KazooException, KazooTimeoutError) as error:
        why = connect.why or error or type(error).__name__
        raise PreflightError(f"ZooKeeper at {hosts}: {why}") from error


def round_trips(configs: Sequence[Path]) -> tuple[RoundTrips | None, str]:
    """Round trips to the ZooKeeper that files name, for a tree from a dump; else why not."""
    try:
        hosts, security = ensemble(None, configs, online=True)
        if not hosts:
            return None, "no zookeeper.connect in the first file given"
        return _measured(hosts, Connector(security)), ""
    except (PreflightError, TlsError) as error:
        return None, str(error)


def _median_ms(ask: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUND_TRIPS):
        began = time.perf_counter()
        ask()
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)
