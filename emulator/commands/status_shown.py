"""What ``kraft-bridge status`` shows a person: the JSON of ``/status`` as tables."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from rich.console import Console
from rich.table import Table

from emulator.commands.status_next import brokers_first
from emulator.io.printable import printable_in
from emulator.operations.next_steps import lines, next_steps, verdict

LATER: Final = (
    "not now: brokers are in ZooKeeper mode. Once each is in KRaft mode this says what is missing; "
    "kraft-bridge finalise does at any time"
)
"""Instead of a list that would read as what is to be done first."""


def show(text: str, console: Console, asked: str = "") -> None:
    """Print the verdict and what to do now, then phase, missing brokers, lag, the way back.

    Args:
        text: the JSON of ``/status``.
        console: to print on.
        asked: the option with which it was asked, for what to type next.
    """
    found: dict[str, Any] = printable_in(msgspec.json.decode(text))
    if found.get("role") == "broker":
        console.print(_of_a_broker(found))
        return
    steps = next_steps(found, asked=asked)
    unread = _unread(found)
    console.print(f"PROBLEM: phase {unread}" if unread else verdict(found, steps), soft_wrap=True)
    for line in lines(steps):
        console.print(line, soft_wrap=True)
    migration = found["migration"]
    console.print(_facts(found, migration))
    if migration and migration["waiting"]:
        console.print(_waiting(migration["waiting"]))
    finalisation = found.get("finalisation")
    if finalisation and brokers_first(finalisation):
        console.print(f"Finalising: {LATER}", soft_wrap=True)
    elif finalisation and finalisation["state"] != "follows":
        console.print(_finalisation(finalisation))
    for one in found.get("refusals", ()):
        console.print(_refusal(one))
    quorum = found.get("quorum")
    if quorum is not None and len(quorum["voters"]) > 1:
        console.print(_quorum(quorum))
        for voter in quorum["voters"]:
            if not voter["ready"]:
                text = f"voter {voter['id']} is not ready: {voter['why_not']}"
                console.print(text, soft_wrap=True)
    if found["brokers"]:
        console.print(_brokers(found["brokers"]))


def _table(title: str, *columns: str) -> Table:
    """A table whose cells wrap and are never cut: a znode's text may have to be typed."""
    table = Table(title=title, title_justify="left", show_header=bool(columns))
    for name in columns or ("", ""):
        table.add_column(name, overflow="fold")
    return table


def _list() -> Table:
    """Names and texts, without lines; never cut."""
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(overflow="fold")
    return table


def _of_a_broker(found: dict[str, Any]) -> Table:
    table = _list()
    mode = "KRaft" if found["mode"] == "kraft" else "ZooKeeper"
    waiting = found["forwarded_requests_waiting"]
    forwards = f"changes are forwarded to it, {waiting} wait" if found["forwarding"] else ""
    for row in (
        ("broker", f"id {found['node_id']}, epoch {found['broker_epoch']}, {found['state']}"),
        ("mode", f"{mode}, as Kafka {found['release']}"),
        ("controller", f"{found['controller'] or 'unknown'}  {forwards}".rstrip()),
        ("metadata", f"{found['topics']} topics, record {found['metadata_offset']} applied"),
        *_not_observed(found),
    ):
        table.add_row(*row)
    return table


def _facts(found: dict[str, Any], migration: dict[str, Any] | None) -> Table:
    table = _list()
    version = found["metadata_version"]
    unread = _unread(found)
    rows = [
        ("controller", f"node {found['node_id']}, epoch {found['leader_epoch']}, {_role(found)}"),
        (
            "metadata.version",
            unread or f"{version['name']} (level {version['level']})",
        ),
        ("topics", f"{found['topics']} with {found['partitions']} partitions"),
    ]
    if migration is None and not found.get("finalisation"):
        rows.append(("migration", "not enabled"))
    elif migration is not None:
        lag = migration["lag"]
        back = "yes" if migration["may_roll_back"] else "no"
        zookeeper = migration["zookeeper"]
        rows += [
            ("records copied", str(migration["records_copied"])),
            ("lag", _lag(lag)),
            ("callers wait", _callers_wait(migration)),
            ("last claim", _claim(migration)),
            ("stores compared", migration.get("compared_at") or "not yet"),
            ("roll back possible", back),
            ("going back now", migration.get("going_back", {}).get("text", "unknown")),
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
    if failure := found.get("snapshot_failure"):
        rows.append(("no snapshot", _no_snapshot(failure)))
    rows += _not_observed(found)
    for row in rows:
        table.add_row(*row)
    return table


def _not_observed(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What is missing in the trace and in the log; the node itself goes on."""
    rows = []
    if (trace := found.get("trace")) and trace["ended_because"]:
        lacks = f"its last {trace['missing_s']} s are missing: {trace['ended_because']}"
        rows.append(("trace", f"{trace['folder']} has ended, {lacks}"))
    if lost := found.get("log_lines_lost"):
        rows.append(("log", f"{lost} lines could not be written"))
    return rows


def _no_snapshot(failure: dict[str, Any]) -> str:
    """Why the log only grows, and when that may end."""
    times = "" if failure["times"] == 1 else f", {failure['times']} times"
    return (
        f"could not be written{times}, last at {failure['at']}: {failure['why']}; the log grows, "
        f"next try from {failure['again_at']} on"
    )


def _unread(found: dict[str, Any]) -> str:
    """Why the log says nothing yet; empty if it does."""
    empty = found.get("offsets", {}).get("log_end") == 0
    return "unknown: the metadata log is empty here" if empty else ""


def _role(found: dict[str, Any]) -> str:
    """Whether the controller is active, else which one to ask; older releases do not name it."""
    if found["active"]:
        return "active"
    if "leader_id" not in found:
        return "not active"
    leader = found["leader_id"]
    if leader is None:
        return "not active: no leader is known"
    if leader == found["node_id"]:
        return "not active although it leads the log"
    return f"not active: ask node {leader}, which leads"


def _lag(lag: dict[str, Any]) -> str:
    changes = f"{lag['records_without_no_ops']} of them changes"
    known = f"{lag['records']} records, {changes}, {lag['ms']} ms"
    if lag["records"] is None:
        known = "unknown until ZooKeeper has been claimed and compared with the log"
    bound, hard = (lag[key] or "none" for key in ("bound_records", "hard_bound_records"))
    counted = f"{lag['counted_records']} counted for the bounds {bound} and {hard}"
    share = (
        f" ({lag['counted_records'] / lag['bound_records']:.0%} of the first)"
        if lag["bound_records"]
        else ""
    )
    return f"{known}; {counted}{share}"


def _claim(migration: dict[str, Any]) -> str:
    """When, with which epoch, and how far the epochs are apart."""
    at = migration.get("claimed_at")
    if at is None:
        return "none by this process"
    headroom = migration.get("epoch_headroom")
    low = ", too low for a rollback" if headroom is not None and headroom < 0 else ""
    return (
        f"{at}, /controller_epoch {migration['controller_epoch']}, epoch headroom {headroom}{low}"
    )


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
    table = _table("Waiting for", "since", "what")
    for reason in reasons:
        table.add_row(reason["since"], reason["text"])
    return table


def _finalisation(found: dict[str, Any]) -> Table:
    """Who or what is missing, and the mark."""
    table = _table(f"Finalising: {found['state']}")
    for one in found["missing"]:
        table.add_row("missing", one["text"])
    if found.get("waits_for"):
        table.add_row("waits for", found["waits_for"])
    if found.get("no_mark_because"):
        table.add_row("no mark", f"could not be left now because {found['no_mark_because']}")
    if (mark := found["mark"]) is not None:
        text = (
            f"of node {mark['node_id']}: ZooKeeper has everything, as read from "
            f"{mark['read_at']} on, /controller_epoch {mark['controller_epoch']}"
        )
        table.add_row("mark", text)
    if found["state"] == "finalised":
        table.add_row("final", "there is no way back to ZooKeeper mode")
    return table


def _refusal(one: dict[str, Any]) -> Table:
    """A registration that was refused: who, why, what is needed, what to do."""
    table = _table(f"Broker {one['broker']} is refused, {one['times']} times, last {one['at']}")
    for name, key in (("from", "peer"), ("offers", "offered"), ("needed", "needed")):
        table.add_row(name, one[key])
    table.add_row("error", f"{one['error']}: {one['text']}")
    table.add_row("do", one["remedy"])
    return table


def _quorum(quorum: dict[str, Any]) -> Table:
    """The voters, and how far they are, as the leader's status has it."""
    leader, epoch = quorum["leader_id"], quorum["leader_epoch"]
    if leader is None:
        title = f"Quorum: no leader is known in epoch {epoch}"
    elif quorum["as_of"] is None:
        why = quorum["not_told_because"] or "it was just asked"
        title = f"Quorum: {leader} leads epoch {epoch}, and has told nothing yet: {why}"
    else:
        title = f"Quorum: {leader} leads epoch {epoch}, as of {quorum['as_of']}"
    names = ("id", "endpoint", "lag", "last fetch", "caught up", "release", "ready")
    table = _table(title, *names)
    for voter in quorum["voters"]:
        table.add_row(
            str(voter["id"]),
            voter["endpoint"],
            "unknown" if voter["lag"] is None else str(voter["lag"]),
            "leads" if voter["id"] == leader else voter["last_fetch"] or "never",
            voter["last_caught_up"] or "never",
            voter["release"] or voter["metadata_versions"] or "unknown",
            "no" if not voter["ready"] else "yes" if leader is not None else "unknown",
        )
    return table


def _brokers(brokers: list[dict[str, Any]]) -> Table:
    table = _table("Brokers", "id", "mode", "state", "endpoints")
    for broker in brokers:
        state = "fenced" if broker["fenced"] else "active"
        table.add_row(str(broker["id"]), broker["kind"], state, " ".join(broker["endpoints"]))
    return table
