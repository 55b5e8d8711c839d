"""``kraft-bridge preflight``: files in, a table or JSON out; ``emulator.preflight`` judges."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from rich.console import Console

from emulator.commands.zookeeper_client import Connector, settings
from emulator.config import properties as properties_text
from emulator.config.zookeeper import ZooKeeperSecurity
from emulator.preflight.engine import Severity
from emulator.preflight.report import Report
from emulator.preflight.survey import Properties, RoundTrips, Survey, of_dump

ROUND_TRIPS = 20
CONNECT_TIMEOUT_S = 10.0
STYLES = {Severity.BLOCKER: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


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
    """What a file of ``kraft-bridge zk dump`` and properties files tell.

    Raises:
        PreflightError: one of them cannot be read.
    """
    try:
        document = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        return of_dump(document, [read_properties(one) for one in configs])
    except (OSError, ValueError) as error:
        raise PreflightError(f"{path}: {error}") from error


def ensemble(zookeeper: str | None, configs: Sequence[Path]) -> tuple[str, ZooKeeperSecurity]:
    """Connect string ("" if nobody says) and credentials, from the first properties file.

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
    """What a live tree, its round trips and properties files tell; nothing is written.

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


def to_json(report: Report) -> bytes:
    """One object: ``findings``, ``not_run``, and ``counts`` by severity."""
    return msgspec.json.encode(
        {
            "counts": {one.value: report.count(one) for one in Severity},
            "findings": report.findings,
            "not_run": report.not_run,
        }
    )


def show(report: Report, console: Console) -> None:
    """Print findings by severity, then the rules that could not run."""
    for one in report.findings:
        console.print(
            f"[{STYLES[one.severity]}]{one.code} {one.severity.value:8}[/] ",
            end="",
            highlight=False,
        )
        console.print(f"{one.znode}", markup=False, highlight=False, soft_wrap=True)
        _lines(
            console,
            ("", one.fact),
            ("means: ", one.consequence),
            ("do: ", one.remedy),
            ("see: ", one.reference),
        )
    if report.not_run:
        console.print("[bold]I04 not looked at[/]", highlight=False)
    for skipped in report.not_run:
        _lines(console, (f"{skipped.code}: ", skipped.why))
    counts = ", ".join(f"{report.count(one)} {one.value}" for one in Severity)
    console.print(f"{counts}, {len(report.not_run)} not looked at", highlight=False)


def _lines(console: Console, *lines: tuple[str, str]) -> None:
    for label, text in _told(lines):
        console.print(f"    {label}{text}", markup=False, highlight=False, soft_wrap=True)


def _told(lines: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return ((label, text) for label, text in lines if text)
