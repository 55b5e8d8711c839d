"""What ``kraft-bridge status`` shows a person: the JSON of ``/status`` as tables."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

import msgspec
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from emulator.commands.common import columns
from emulator.commands.status_next import STUCK, brokers_first
from emulator.config.words import folded
from emulator.io.printable import printable_in
from emulator.migration.side import BEHIND
from emulator.operations.next_steps import (
    LINES_OF_FORMAT,
    NextStep,
    if_down,
    known_leader,
    led_by,
    lines,
    next_steps,
    unregistered,
    verdict,
)
from emulator.operations.rollback.phases import NOT_NOW

WRITES_BOTH: Final = ("hybrid", "dual write")
"""Phases in which ``rollback`` waits until ZooKeeper has every change."""
_OPEN: Final = ("waiting", "held")
"""States of finalising at a leader without the flag."""
BACK_TO_DUAL_WRITE: Final = (
    "Restart the controllers with zookeeper.metadata.migration.enable=true, and wait for phase "
    "dual write: what was changed is then written to ZooKeeper. Then kraft-bridge rollback "
    "--config FILES, with the files of all controllers"
)
LATER: Final = (
    "not now: brokers are in ZooKeeper mode. Once each is in KRaft mode status shows what is "
    "missing; kraft-bridge finalise shows it at any time"
)
"""Instead of a list that would read as what is to be done first."""


VERDICTS: Final = {"PROBLEM": "bold red", "WAIT": "yellow", "OK": "green"}
"""The first word -> its colour, which only repeats it."""
NARROW: Final = 60
"""Below so many columns a table would be a stack of syllables: each row is a list instead."""
PLAIN_WIDTH: Final = 1_000_000
"""Of a console that wraps nothing, and has no lines around tables."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00")
_MINUTE_S: Final = 60
_HOUR_S: Final = 3_600
_DAY_S: Final = 86_400


def colours(*, plain: bool) -> bool:
    """Whether standard output takes colours: a terminal, and nobody has asked for none."""
    asked_for_none = plain or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not asked_for_none


def console_of(*, plain: bool) -> Console:
    """A console for texts of others, which are no styles."""
    return Console(
        markup=False,
        emoji=False,
        highlight=False,
        width=PLAIN_WIDTH if plain else None,
        color_system="auto" if colours(plain=plain) else None,
    )


def with_ages(found: dict[str, Any]) -> dict[str, Any]:
    """The document with how long ago instead of each time, by the clock of the node itself.

    >>> with_ages({"shown_at": "2026-01-01T00:00:01.000+00:00", "x": ["2026-01-01T00:00:00+00:00"]})
    {'shown_at': '0.0 s ago', 'x': ['1.0 s ago']}
    """
    shown_at = found.get("shown_at")
    if not isinstance(shown_at, str) or not _TIME.fullmatch(shown_at):
        return found
    now = datetime.fromisoformat(shown_at)

    def aged(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: aged(one) for key, one in value.items()}
        if isinstance(value, list):
            return [aged(one) for one in value]
        if isinstance(value, str) and _TIME.fullmatch(value):
            return ago((now - datetime.fromisoformat(value)).total_seconds())
        return value

    return {key: aged(value) for key, value in found.items()}


def ago(seconds: float) -> str:
    """How long ago; of the future, in how long.

    >>> ago(0.24), ago(75), ago(600), ago(10_000), ago(300_000), ago(-30)
    ('0.2 s ago', '75 s ago', '10 min ago', '2 h ago', '3 days ago', 'in 30 s')
    """
    size = abs(seconds)
    for limit, unit, name in (
        (10, 1, ""),
        (2 * _MINUTE_S, 1, "s"),
        (2 * _HOUR_S, _MINUTE_S, "min"),
        (2 * _DAY_S, _HOUR_S, "h"),
        (float("inf"), _DAY_S, "days"),
    ):
        if size < limit:
            text = f"{int(size / unit)} {name}" if name else f"{size:.1f} s"
            break
    return f"{text} ago" if seconds >= 0 else f"in {text}"


class _Rows:
    """Rows of cells that are never cut: a znode's text may have to be typed.

    A table; where the console is narrow, a list of its cells; where it is plain, without lines.

    Args:
        title: above them; empty: none.
        columns: their names; none: two columns, of which the first names the second.
    """

    def __init__(self, title: str, *columns: str) -> None:
        self._title = title
        self._columns = columns
        self._rows: list[list[Text]] = []

    def add_row(self, *cells: str | Text) -> None:
        """Add one row."""
        self._rows.append([Text(one) if isinstance(one, str) else one for one in cells])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render for the width there is."""
        if options.max_width < NARROW:
            yield from self._narrow()
            return
        framed = bool(self._title or self._columns) and console.width < PLAIN_WIDTH
        table = Table(title=self._title or None, title_justify="left", title_style="bold")
        table.show_header = bool(self._columns)
        if not framed:
            table.box, table.padding = None, (0, 2, 0, 0)
        for name in self._columns or ("", ""):
            table.add_column(name, overflow="fold")
        for row in self._rows:
            table.add_row(*row)
        yield table

    def _narrow(self) -> RenderResult:
        if self._title:
            yield Text(self._title, style="bold", overflow="fold")
        for row in self._rows:
            names = self._columns or (row[0].plain,)
            cells = row if self._columns else row[1:]
            for at, (name, cell) in enumerate(zip(names, cells, strict=True)):
                line = Text("  " if at else "", overflow="fold")
                yield line.append(f"{name}: ").append_text(cell)


def _warning(text: str, *, on: bool = True) -> Text:
    """A cell in another colour where something is not as it should be, as its words say too."""
    return Text(text, style="yellow" if on else "")


def show(
    text: str,
    console: Console,
    asked: str = "",
    leader_url: str = "",
    files: Mapping[int, str] = MappingProxyType({}),
) -> None:
    """Print the verdict and what to do now, then phase, missing brokers, lag, the way back.

    Args:
        text: the JSON of ``/status``.
        console: to print on.
        asked: the options with which it was asked, for what to type next.
        leader_url: where the controller that leads answers, if this one does not.
        files: of controllers, by node id, as far as they were given.
    """
    found: dict[str, Any] = printable_in(msgspec.json.decode(text))
    if found.get("role") == "broker":
        console.print(_of_a_broker(found))
        return
    steps = next_steps(found, asked=asked, leader_url=leader_url, files=files)
    unread = _unread(found)
    first = f"PROBLEM: phase {unread}" if unread else verdict(found, steps)
    style = VERDICTS.get(first.partition(":")[0], "")
    width = 0 if console.width == PLAIN_WIDTH else columns()
    console.print(Text(folded(first, width), style=style, overflow="fold"), soft_wrap=True)
    for line in lines(steps, width):
        console.print(line, soft_wrap=True)
    found = with_ages(found)
    migration = found["migration"]
    console.print(_facts(found, migration, steps[0]))
    if migration and migration["waiting"]:
        console.print(_waiting(migration["waiting"]))
    finalisation = found.get("finalisation")
    if finalisation and brokers_first(finalisation):
        console.print(folded(f"Finalising: {LATER}", width), soft_wrap=True)
    elif finalisation and finalisation["state"] != "follows":
        console.print(_finalisation(finalisation))
    for one in found.get("refusals", ()):
        console.print(_refusal(one))
    for one in (migration or {}).get("repairs", ()):
        console.print(_repair(one))
    quorum = found.get("quorum")
    if quorum is not None and len(quorum["voters"]) > 1:
        console.print(_quorum(quorum))
        for voter in quorum["voters"]:
            if not voter["ready"]:
                text = f"voter {voter['id']} is not ready: {voter['why_not']}"
                console.print(folded(text, width), soft_wrap=True)
    if found["brokers"]:
        console.print(_brokers(found["brokers"]))


def _of_a_broker(found: dict[str, Any]) -> _Rows:
    table = _Rows("")
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


def _facts(found: dict[str, Any], migration: dict[str, Any] | None, step: NextStep) -> _Rows:
    table = _Rows("")
    version = found["metadata_version"]
    role = _role(found, step)
    unread = _unread(found)
    rows: list[tuple[str, str | Text]] = [
        ("controller", f"node {found['node_id']}, epoch {found['leader_epoch']}, {role}"),
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
        zookeeper = migration["zookeeper"]
        rows += [
            ("records copied", str(migration["records_copied"])),
            ("lag", _lag(lag)),
            ("callers wait", _warning(_callers_wait(migration), on=migration["blocked"])),
            ("last claim", _claim(migration)),
            ("stores compared", migration.get("compared_at") or "not yet"),
            ("going back", _going_back(found, migration)),
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
    elif found["finalisation"]["state"] in _OPEN:
        rows.append(("going back", f"{NOT_NOW}: {BACK_TO_DUAL_WRITE}"))
    if failure := found.get("snapshot_failure"):
        rows.append(("no snapshot", _no_snapshot(failure)))
    rows += _not_observed(found)
    for row in rows:
        table.add_row(*row)
    return table


def _going_back(found: dict[str, Any], migration: dict[str, Any]) -> str:
    """What it takes, behind the word of ``rollback``'s verdict if that would refuse."""
    text: str = migration.get("going_back", {}).get("text", "unknown")
    leads = found["leader_id"] == found["node_id"]
    unknown = migration["phase"] in WRITES_BOTH and migration["lag"]["records"] is None
    kraft = any(one["kind"] == "kraft" for one in found["brokers"])
    refused = kraft or migration["poisoned"] or (leads and unknown)
    may = migration["may_roll_back"] and migration["phase"] not in STUCK
    return f"{NOT_NOW}: {text}" if may and refused else text


def _not_observed(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What is missing in the trace and in the log; the node itself goes on."""
    rows = []
    if (trace := found.get("trace")) and trace["ended_because"]:
        lacks = f"its last {trace['missing_s']} s are missing: {trace['ended_because']}"
        rows.append(("trace", f"{trace['folder']} is not written, {lacks}"))
    if lost := found.get("log_lines_lost"):
        rows.append(("log", f"{lost} lines could not be written"))
    return rows


def _no_snapshot(failure: dict[str, Any]) -> str:
    """Why the log only grows, and when that may end."""
    times = "" if failure["times"] == 1 else f", {failure['times']} times"
    return (
        f"could not be written{times}, last {failure['at']}: {failure['why']}; the log grows, "
        f"next try {failure['again_at']}"
    )


def _unread(found: dict[str, Any]) -> str:
    """Why the log says nothing yet; empty if it does."""
    empty = found.get("offsets", {}).get("log_end") == 0
    return "unknown: the metadata log is empty here" if empty else ""


def _role(found: dict[str, Any], step: NextStep) -> str:
    """Whether the controller is active, else which one to ask, or what comes before that."""
    if found["active"]:
        return "active"
    if known_leader(found) == found["node_id"]:
        return "not active although it leads the log"
    return f"not active: {led_by(found, step)}"


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


def _waiting(reasons: list[dict[str, Any]]) -> _Rows:
    table = _Rows("Waiting for", "since", "what")
    missing = [one for one in reasons if unregistered(one) and not if_down(one)]
    if missing:
        ids = [one["subject"] for one in missing]
        brokers = f"broker{'s' if len(ids) > 1 else ''} {', '.join(ids)}"
        table.add_row(missing[0]["since"], f"{brokers} to register: {LINES_OF_FORMAT}")
    for reason in reasons:
        if reason not in missing:
            down = if_down(reason)
            text = f"broker {reason['subject']}: {down}" if down else reason["text"]
            table.add_row(reason["since"], text)
    return table


def _finalisation(found: dict[str, Any]) -> _Rows:
    """Who or what is missing, and the mark."""
    table = _Rows(f"Finalising: {found['state']}")
    for one in found["missing"]:
        table.add_row("missing", one["text"])
    if found.get("waits_for"):
        table.add_row("waits for", found["waits_for"])
    why = found.get("no_mark_because")
    if why and why != BEHIND:
        # An orderly stop writes what is left; a NoOp record is, about once a second.
        table.add_row("no mark", f"if the leader stopped now it would leave none because {why}")
    if (mark := found["mark"]) is not None:
        text = (
            f"of node {mark['node_id']}: ZooKeeper has everything, as was read "
            f"{mark['read_at']}, /controller_epoch {mark['controller_epoch']}"
        )
        table.add_row("mark", text)
    if found["state"] == "finalised":
        table.add_row("final", "there is no way back to ZooKeeper mode")
    return table


def _refusal(one: dict[str, Any]) -> _Rows:
    """A registration that was refused: who, why, what is needed, what to do."""
    table = _Rows(f"Broker {one['broker']} is refused, {one['times']} times, last {one['at']}")
    for name, key in (("from", "peer"), ("offers", "offered"), ("needed", "needed")):
        table.add_row(name, one[key])
    table.add_row("error", f"{one['error']}: {one['text']}")
    table.add_row("do", one["remedy"])
    return table


def _repair(one: dict[str, Any]) -> _Rows:
    """What a broker failed or ZooKeeper refused: what was done, and what Kafka would do."""
    times = "" if one["times"] == 1 else f", {one['times']} times since {one['first_at']}"
    what = f"{one['request']} of broker {one['broker']} failed: {one['error']}"
    if one["broker"] < 0:
        what = f"ZooKeeper refused {one['request']}: {one['error']}"
    table = _Rows(f"{what}, at {one['at']}{times}")
    table.add_row("done", one["done"])
    table.add_row("Kafka's controller", one["kafka"])
    return table


def _quorum(quorum: dict[str, Any]) -> _Rows:
    """The voters, and how far they are, as the leader's status has it."""
    leader, epoch = quorum["leader_id"], quorum["leader_epoch"]
    if leader is None:
        title = f"Quorum: no leader is known in epoch {epoch}"
    elif quorum["as_of"] is None:
        why = quorum["not_told_because"] or "it was just asked"
        title = f"Quorum: {leader} leads epoch {epoch}; the rest is not known yet: {why}"
    else:
        title = f"Quorum: {leader} leads epoch {epoch}, as of {quorum['as_of']}"
    names = ("id", "endpoint", "lag", "last fetch", "caught up", "release", "ready")
    table = _Rows(title, *names)
    for voter in quorum["voters"]:
        table.add_row(
            str(voter["id"]),
            voter["endpoint"],
            "unknown" if voter["lag"] is None else str(voter["lag"]),
            "leads" if voter["id"] == leader else voter["last_fetch"] or "never",
            voter["last_caught_up"] or "never",
            voter["release"] or voter["metadata_versions"] or "unknown",
            _warning("no") if not voter["ready"] else "yes" if leader is not None else "unknown",
        )
    return table


def _brokers(brokers: list[dict[str, Any]]) -> _Rows:
    table = _Rows("Brokers", "id", "mode", "state", "endpoints")
    for broker in brokers:
        state = "fenced" if broker["fenced"] else "active"
        shown = _warning(state, on=broker["fenced"])
        table.add_row(str(broker["id"]), broker["kind"], shown, " ".join(broker["endpoints"]))
    return table
