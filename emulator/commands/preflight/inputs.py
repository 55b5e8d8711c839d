"""The input of ``kraft-bridge preflight``: properties files, a dump, or a live tree."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from emulator.commands.zk.client import Connector, settings
from emulator.config import properties as properties_text
from emulator.config.zookeeper import ZooKeeperSecurity
from emulator.preflight.survey import Properties, RoundTrips, Survey, of_dump

ROUND_TRIPS = 20
CONNECT_TIMEOUT_S = 10.0


class PreflightError(Exception):
    """Something given cannot be read; one sentence that names it."""


def read_properties(path: Path) -> Properties:
    """Read a ``server.properties``, and the ``meta.properties`` in its log folder if there is one.

    Raises:
        PreflightError: the file cannot be read, or is malformed.
    """
    try:
        values = properties_text.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PreflightError(f"{path}: {error}") from error
    told = (values.get(key, "") for key in ("metadata.log.dir", "log.dirs", "log.dir"))
    folders = [part.strip() for text in told for part in text.split(",") if part.strip()]
    meta: dict[str, str] = {}
    for folder in folders:
        try:
            meta = properties_text.parse((Path(folder) / "meta.properties").read_text("utf-8"))
            break
        except (OSError, ValueError):
            continue
    return Properties(str(path), values, meta)


def offline(path: Path, configs: Sequence[Path]) -> Survey:
    """The survey from a file of ``kraft-bridge zk dump`` and properties files.

    Raises:
        PreflightError: one of them cannot be read.
    """
    try:
        document = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        return of_dump(document, [read_properties(one) for one in configs])
    except (OSError, ValueError) as error:
        raise PreflightError(f"{path}: {error}") from error


def ensemble(zookeeper: str | None, configs: Sequence[Path]) -> tuple[str, ZooKeeperSecurity]:
    """Connect string ("" if none is configured) and credentials, from the first properties file.

    Raises:
        PreflightError: the file cannot be read, or its security settings cannot be used.
    """
    try:
        told, security = settings(configs[0] if configs else None, ())
    except (OSError, ValueError) as error:
        raise PreflightError(f"{configs[0]}: {error}") from error
    return zookeeper or told, security


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
    client = connect(hosts)
    try:
        client.start(timeout=CONNECT_TIMEOUT_S)
        trips = RoundTrips(
            _median_ms(lambda: client.exists("/")), _median_ms(lambda: client.sync("/"))
        )
    except (KazooException, KazooTimeoutError) as error:
        raise PreflightError(f"ZooKeeper at {hosts}: {error or type(error).__name__}") from error
    finally:
        client.stop()
        client.close()
    return replace(
        survey,
        chroot=f"/{chroot.strip('/')}" if slash and chroot.strip("/") else "",
        round_trips=trips,
    )


def _median_ms(ask: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUND_TRIPS):
        began = time.perf_counter()
        ask()
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)
