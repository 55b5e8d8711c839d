"""``kraft-bridge status``: ask a controller or a broker for ``/status``, print it for a person."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.parse
import urllib.request
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from emulator.commands.common import Json, fail
from emulator.commands.exits import ExitCode

TIMEOUT_S = 5.0
NOT_OURS = "this is not the kraftbridge.metrics.port of a controller or broker"


def status(
    url: Annotated[
        str, typer.Option("--url", help="The node's kraftbridge.metrics.port, http://…")
    ] = "http://127.0.0.1:9404",
    *,
    as_json: Json = False,
) -> None:
    """Show the phase of the migration, missing brokers, the lag, if a rollback is possible."""
    try:
        body = fetch(url)
    except AddressError as error:
        raise fail(f"--url {error}", ExitCode.WRONG) from error
    except (OSError, ValueError) as error:
        raise fail(f"{url}/status: {error}", ExitCode.UNREACHABLE) from error
    if as_json:
        typer.echo(body, nl=False)
    else:
        # Texts of others are no styles.
        show(body, Console(markup=False, emoji=False))


class AddressError(ValueError):
    """The text is not the address of an HTTP server."""


def fetch(url: str) -> str:
    """The JSON text of ``/status``.

    Raises:
        AddressError: not an http address.
        OSError: nothing answers there.
        ValueError: the answer is not from a kraft-bridge controller or broker.
    """
    _check_address(url)
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/status", timeout=TIMEOUT_S) as answer:  # noqa: S310 - http only, see above
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        error.close()
        raise ValueError(f"{NOT_OURS}: {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise OSError(str(error.reason)) from error
    except http.client.HTTPException as error:
        raise ValueError(f"{NOT_OURS}: no HTTP") from error
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"{NOT_OURS}: {error}") from error
    if not isinstance(document, dict) or "schema" not in document:
        raise ValueError(NOT_OURS)
    return str(text)


def _check_address(url: str) -> None:
    try:
        parts = urllib.parse.urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or any(one.isspace() or not one.isprintable() for one in url):
        raise AddressError(f"{url!r} is not an http address")


def show(text: str, console: Console) -> None:
    """Print a summary: phase, missing brokers, lag, whether a rollback is possible."""
    found: dict[str, Any] = msgspec.json.decode(text)
    if found.get("role") == "broker":
        console.print(_of_a_broker(found))
        return
    migration = found["migration"]
    console.print(_facts(found, migration))
    if migration and migration["waiting"]:
        console.print(_waiting(migration["waiting"]))
    if found["brokers"]:
        console.print(_brokers(found["brokers"]))


def _of_a_broker(found: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    mode = "KRaft" if found["mode"] == "kraft" else "ZooKeeper"
    waiting = found["forwarded_requests_waiting"]
    forwards = f"changes are forwarded to it, {waiting} wait" if found["forwarding"] else ""
    for row in (
        ("broker", f"id {found['node_id']}, epoch {found['broker_epoch']}, {found['state']}"),
        ("mode", f"{mode}, as Kafka {found['release']}"),
        ("controller", f"{found['controller'] or 'unknown'}  {forwards}".rstrip()),
        ("metadata", f"{found['topics']} topics, record {found['metadata_offset']} applied"),
    ):
        table.add_row(*row)
    return table


def _facts(found: dict[str, Any], migration: dict[str, Any] | None) -> Table:
    table = Table.grid(padding=(0, 2))
    version = found["metadata_version"]
    active = "active" if found["active"] else "not active"
    rows = [
        ("controller", f"node {found['node_id']}, epoch {found['leader_epoch']}, {active}"),
        ("metadata.version", f"{version['name']} (level {version['level']})"),
        ("topics", f"{found['topics']} with {found['partitions']} partitions"),
    ]
    if migration is None:
        rows.append(("migration", "not enabled"))
    else:
        lag = migration["lag"]
        back = "yes" if migration["may_roll_back"] else "no"
        zookeeper = migration["zookeeper"]
        rows += [
            ("phase", f"{migration['phase']} ({migration['driver_state']})"),
            ("records copied", str(migration["records_copied"])),
            ("lag", _lag(lag)),
            ("callers wait", _callers_wait(migration)),
            ("roll back possible", back),
            ("ZooKeeper", f"{zookeeper['state'].lower()} {zookeeper['server']}"),
        ]
        if (soon_ms := lag.get("hard_bound_in_ms")) is not None:
            rows.append(("second bound", _second_bound(soon_ms, lag)))
        if (since := migration.get("poisoned_since")) is not None:
            rows.append(("nothing written", f"since {since}, behind what ZooKeeper refuses"))
        rows += [
            ("refused by ZooKeeper", f"{p['znode']}: {p['cause']}; {p['remedy']}")
            for p in migration["poisoned"]
        ]
        rows += [("not in ZooKeeper", one["reason"]) for one in migration.get("left_out", ())]
    for row in rows:
        table.add_row(*row)
    return table


def _lag(lag: dict[str, Any]) -> str:
    changes = f"{lag['records_without_no_ops']} of them changes"
    known = f"{lag['records']} records, {changes}, {lag['ms']} ms"
    if lag["records"] is None:
        known = "unknown until ZooKeeper has been claimed and compared with the log"
    bound, hard = (lag[key] or "none" for key in ("bound_records", "hard_bound_records"))
    counted = f"{lag['counted_records']} counted for the bounds {bound} and {hard}"
    return f"{known}; {counted}"


def _second_bound(soon_ms: int, lag: dict[str, int]) -> str:
    """When ISR changes and deletions will wait too, if ZooKeeper goes on taking nothing."""
    if not soon_ms:
        return f"reached: {lag['hard_bound_records']} records"
    minutes = soon_ms // 60_000
    when = f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
    return (
        f"ZooKeeper takes nothing: in about {when} at this rate, at {lag['hard_bound_records']} "
        "records, ISR changes and deletions wait too"
    )


def _callers_wait(migration: dict[str, Any]) -> str:
    """Which bound is reached, how many operations wait, and whether deletions do too."""
    if not migration["blocked"]:
        return "no"
    lag = migration["lag"]
    counts = {
        "records": f"{lag['counted_records']} of {lag['bound_records']} records",
        "bytes": f"{lag.get('counted_bytes')} of {lag.get('bound_bytes')} bytes",
        "age": f"{lag['ms']} of {lag.get('bound_ms')} ms",
    }
    causes = migration.get("blocked_by", "").split(", ")
    reached = ", ".join(counts[cause] for cause in causes if cause in counts)
    waiting = migration.get("blocked_operations", 0)
    others = "wait too" if migration.get("hard_blocked") else "do not wait"
    return (
        f"yes, ZooKeeper is behind{' by ' if reached else ''}{reached}: {waiting} "
        f"{'operation waits' if waiting == 1 else 'operations wait'} now; "
        f"deletions and ISR changes {others}"
    )


def _waiting(reasons: list[dict[str, Any]]) -> Table:
    table = Table(title="Waiting for", title_justify="left")
    for name in ("since", "what"):
        table.add_column(name)
    for reason in reasons:
        table.add_row(reason["since"], reason["text"])
    return table


def _brokers(brokers: list[dict[str, Any]]) -> Table:
    table = Table(title="Brokers", title_justify="left")
    for name in ("id", "mode", "state", "endpoints"):
        table.add_column(name)
    for broker in brokers:
        state = "fenced" if broker["fenced"] else "active"
        table.add_row(str(broker["id"]), broker["kind"], state, " ".join(broker["endpoints"]))
    return table
