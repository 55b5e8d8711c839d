"""The live page at ``/`` of a controller, and ``/series``, which it reads each second.

Everything that it shows is what ``/status`` and ``/metrics`` have. What only a course of time shows
is made here: a ring of 15 minutes with one look a second (:class:`Series`), and what changed from
one look to the next (:func:`changes`). A look costs two calls a broker and none a partition; the
brokers are compared only after one of them changed.

Names come from others: the page sets each as text, and here what a reader does not see, or what
turns the text around it, becomes an escape that he sees.
"""

from __future__ import annotations

import json
import secrets
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs

from emulator.config.words import duration, several
from emulator.config.zookeeper_mode import MIGRATION
from emulator.io.http import ByQuery, Page, Routes
from emulator.io.printable import printable_in
from emulator.metadata.brokers import Broker
from emulator.node.advice import iso
from emulator.node.introspection import FIGURES, Moment
from emulator.trace.distribution import Distribution, enough

SCHEMA: Final = "series/1"
EVERY_MS: Final = 1_000
KEPT: Final = 900
"""Looks that are kept: 15 minutes."""
EVENTS_MAX: Final = 500
EVENTS_MS: Final = 3_600_000
TEXT_MAX: Final = 600
"""Characters of an event; names of topics and reasons may be long."""
AT_ONCE_MAX: Final = 20
"""Changes from one look to the next that are kept."""
NAMED_MAX: Final = 8
"""Brokers that one event names."""
MARK_EVERY: Final = 10
MARKS: Final = 6
"""A copy of the distributions each 10 s, for the last minute."""
MULTI: Final = "multi"
SYNC: Final = "log_sync"
"""What is measured: ZooKeeper's multis, and the syncs of the metadata log."""
COLUMNS: Final = ("number", "at_ms", *FIGURES, "log_syncs", "log_sync_ms", "loop_stalls")
PHASES: Final = ("waiting", "copying", "dual write", "finalising", "final")
"""In their order; other words are one of these, or none."""
_NOT_COPIED: Final = frozenset({"waiting", "copying", "copy paused"})
_ENDED: Final = MappingProxyType(
    {"refused": "Not known", "deposed": "Not known", "rolled back": "It was rolled back"}
)
"""Phases in which this controller does not write to ZooKeeper -> whether the migration is safe."""
_ALSO: Final = MappingProxyType(
    {"copy paused": "copying", "claiming": "dual write", "mixed quorum": "finalising"}
)
WAITS_FOR: Final = MappingProxyType(
    {
        "no_session": "No session with ZooKeeper",
        "metadata_version": "metadata.version is too low",
        "migration_state": "The metadata log has no migration",
        "controller_not_ready": "Controller {} is not ready",
        "no_brokers": "No broker is in ZooKeeper",
        "broker_not_registered": "Broker {} has not registered",
        "broker_not_migrating": "Broker {} is in KRaft mode",
        "offline_replicas": "Broker {} is down",
        "malformed_znode": "A znode cannot be copied",
        "no_controller_epoch": "There is no /controller_epoch",
        "migration_znode": "A znode of the migration is damaged",
        "other_cluster": "ZooKeeper has another cluster",
        "other_log": "ZooKeeper was migrated to another log",
        "controller_held": "Another controller holds /controller",
        "zookeeper_mode_took_over": "The cluster was rolled back",
        "stale_controller_epoch": "Broker {} refuses this epoch",
        "unreadable": "A znode cannot be read",
        "encoded_value": "A secret cannot be read",
        "no_listener": "Broker {} lacks a listener",
        "broker_unreachable": "Broker {} cannot be reached",
        "broker_slow": "Broker {} answers late",
    }
)
"""What a migration waits for -> few words of it, with its subject."""
Document: TypeAlias = Mapping[str, Any]
"""``/status``."""
Advice: TypeAlias = Callable[[Document, str], tuple[str, Sequence[Mapping[str, Any]]]]
"""The verdict of ``kraft-bridge status`` and its steps, from a status and the option that asks for
it; the verb that starts a controller hands it in."""
Row: TypeAlias = tuple[float | None, ...]
ROLLBACK: Final = "kraft-bridge rollback --yes --config FILES"
"""What is to be typed to go back; FILES: of all controllers."""
_STOP: Final = (
    "run the rollback with the FILES of all controllers, which stops them; at the end restart each "
    "broker with its old config file"
)


@dataclass(frozen=True, slots=True)
class Change:
    """What is seen to have happened since the look before.

    ``number``: of the look that shows it.
    """

    number: int
    at_ms: int
    alarm: bool
    text: str


class Series:
    """The looks of the last 15 minutes, and the changes of the last hour.

    Args:
        begun_ms: when this process began; another one has another ring.
    """

    def __init__(self, begun_ms: int) -> None:
        self.begun_ms = begun_ms
        self.changes: deque[Change] = deque(maxlen=EVENTS_MAX)
        self._rows: deque[Row] = deque(maxlen=KEPT)
        self._marks: deque[Mapping[str, Distribution]] = deque(maxlen=MARKS)
        self._now: Mapping[str, Distribution] = {}
        self._number = 0
        self._last: Moment | None = None

    def add(
        self, seen: Moment, of_process: Row, measured: Mapping[str, Distribution], now_ms: int
    ) -> None:
        """Add one look.

        Args:
            seen: the node.
            of_process: the last three of ``COLUMNS``.
            measured: what grows on; a copy is made each 10 s.
            now_ms: the time.
        """
        self._number += 1
        figures = (seen.figures[name] for name in FIGURES)
        self._rows.append((self._number, now_ms, *figures, *of_process))
        self._now = measured
        if self._number % MARK_EVERY == 1:
            self._marks.append({name: each.copy() for name, each in measured.items()})
        if self._last is None:
            self.changes.append(Change(1, now_ms, False, f"begun in phase: {seen.phase}"))
        else:
            found = list(changes(self._last, seen))
            if more := len(found) - AT_ONCE_MAX:
                found[AT_ONCE_MAX:] = [(True, f"{more} more changes")] if more > 0 else []
            for alarm, text in found:
                self.changes.append(Change(self._number, now_ms, alarm, text[:TEXT_MAX]))
        self._last = seen
        while self.changes and self.changes[0].at_ms < now_ms - EVENTS_MS:
            self.changes.popleft()

    def rows(self, since: int = 0) -> list[Row]:
        """The looks after that of a number."""
        return [row for row in self._rows if (row[0] or 0) > since]

    def known(self, since: int) -> int:
        """That number, 0 if no look has it: it is of an earlier process."""
        return since if since <= self._number else 0

    def last_minute(self) -> dict[str, dict[str, float]]:
        """What was measured in it: how many, the longest, the percentiles that are ``enough``."""
        if not self._marks:
            return {}
        found = {name: each.since(self._marks[0][name]) for name, each in self._now.items()}
        return {
            name: {"count": each.count, "max_ms": round(each.greatest, 2)}
            | {
                figure: round(each.quantile(share), 2)
                for figure, share in (("p50_ms", 0.5), ("p99_ms", 0.99))
                if enough(each.count, share)
            }
            for name, each in found.items()
        }

    def growth(self, name: str) -> float:
        """How much a figure grew in the last minute, per second; 0 while that is not known."""
        at = COLUMNS.index(name)
        rows = [row for row in list(self._rows)[-60:] if row[at] is not None]
        if len(rows) < 2:
            return 0.0
        took_ms = (rows[-1][1] or 0) - (rows[0][1] or 0)
        return ((rows[-1][at] or 0) - (rows[0][at] or 0)) / took_ms * 1_000 if took_ms else 0.0

    def grown(self, name: str) -> float:
        """By how much a figure grew in the looks that are kept; one that only grows."""
        at = COLUMNS.index(name)
        return (self._rows[-1][at] or 0) - (self._rows[0][at] or 0) if self._rows else 0.0

    def newest(self, name: str) -> float | None:
        """A figure of the last look; None: not known."""
        return self._rows[-1][COLUMNS.index(name)] if self._rows else None


def changes(before: Moment, now: Moment) -> Iterator[tuple[bool, str]]:
    """What happened between two looks: whether it is an alarm, and a sentence."""
    if now.phase != before.phase:
        yield now.phase in {"refused", "deposed"}, f"phase: {before.phase} → {now.phase}"
    if (now.leader, now.epoch) != (before.leader, before.epoch):
        none = now.leader < 0
        yield none, "no leader is known" if none else f"controller {now.leader} leads"
    if now.session != before.session and now.session in {"CONNECTED", "CONNECTING"}:
        lost = now.session == "CONNECTING"
        yield lost, "the session with ZooKeeper is lost" if lost else "connected to ZooKeeper"
    if bool(now.blocked_by) != bool(before.blocked_by):
        blocks = f"ZooKeeper blocks KRaft: the bound of {now.blocked_by} is reached"
        yield bool(now.blocked_by), blocks if now.blocked_by else "KRaft is not blocked any more"
    if now.poisoned > before.poisoned:
        yield True, f"ZooKeeper refuses znodes: {now.poisoned}"
    elif now.poisoned < before.poisoned:
        yield False, f"znodes that ZooKeeper refuses: {now.poisoned}"
    for broker, (code, why) in now.refused.items():
        if before.refused.get(broker, ("",))[0] != code:
            yield True, f"broker {broker} is refused: {code}: {why}"
    for kind, (text, fatal) in now.waits.items():
        if kind not in before.waits:
            yield fatal, f"waits: {text}"
    for kind, (text, _fatal) in before.waits.items():
        if kind not in now.waits:
            yield False, f"waits no longer: {text}"
    if now.brokers is not before.brokers:
        yield from _of_brokers(before.brokers, now.brokers)


def _of_brokers(
    before: Mapping[int, Broker], now: Mapping[int, Broker]
) -> Iterator[tuple[bool, str]]:
    """The same of the brokers; those to which the same happened are one line."""
    found: defaultdict[tuple[bool, str], list[int]] = defaultdict(list)
    for number, one in now.items():
        was = before.get(number)
        mode = "ZooKeeper" if one.is_migrating_zk_broker else "KRaft"
        if was is None or was.is_migrating_zk_broker != one.is_migrating_zk_broker:
            found[False, f"registered in {mode} mode"].append(number)
        if one.fenced and was is not None and not was.fenced:
            found[True, "fenced"].append(number)
        elif not one.fenced and (was is None or was.fenced):
            found[False, "active"].append(number)
    for number in before:
        if number not in now:
            found[False, "no longer registered"].append(number)
    for (alarm, what), numbers in found.items():
        named = ", ".join(map(str, sorted(numbers)[:NAMED_MAX]))
        more = len(numbers) - NAMED_MAX
        some = f"brokers {named}" if len(numbers) > 1 else f"broker {named}"
        yield alarm, f"{some}{f' and {more} more' if more > 0 else ''}: {what}"


def bounds(status: Document, series: Series) -> list[dict[str, Any]]:
    """How full each bound is, and the seconds until it is reached at the last minute's rate.

    Args:
        status: ``/status``; without a migration there is none, nor at one that does not lead.
        series: the looks.
    """
    migration = status["migration"]
    if migration is None or _elsewhere(status):
        return []
    lag = migration["lag"]
    rows = [
        ("records", lag["counted_records"], lag["bound_records"], "counted_records"),
        ("records, second bound", lag["counted_records"], lag["hard_bound_records"], ""),
        ("bytes", lag["counted_bytes"], lag["bound_bytes"], "counted_bytes"),
        ("age in ms", lag["ms"], lag["bound_ms"], "lag_ms"),
    ]
    found = []
    for name, count, bound, figure in rows:
        if bound:
            grows = series.growth(figure or "counted_records")
            left_s = (bound - count) / grows if grows > 0 and count < bound else None
            found.append(
                {
                    "name": name,
                    "count": count,
                    "bound": bound,
                    "share": count / bound,
                    "left_s": None if left_s is None or left_s > 3_600 else round(left_s, 1),
                }
            )
    return found


def _answer(question: str, level: str, answer: str, text: str) -> dict[str, str]:
    text = text[:1].upper() + text[1:]
    return {"question": question, "level": level, "answer": answer, "text": text}


def is_safe(status: Document, verdict: str) -> dict[str, str]:
    """Whether the migration is safe now; ``level``: ``ok``, ``wait`` or ``bad``."""
    level, answer, text = _kept(status)
    if verdict.startswith("PROBLEM"):
        act = {"ok": f"{answer}, but act", "wait": f"{answer}; act", "bad": answer}
        answer = "Something needs you" if answer.startswith("In phase") else act[level]
        level, text = "bad", f"see the next step{f'; {text}' if text else ''}"
    return _answer("Is my migration safe?", level, answer, text)


def _elsewhere(status: Document) -> tuple[str, str] | None:
    """An answer and more where another controller knows it, or none; None: this one does."""
    leader = status["leader_id"]
    if leader is None:
        return "Not known", "no leader is known to this controller"
    if leader != status["node_id"]:
        return "Ask the leader", f"controller {leader} leads; only its page shows this"
    return None


def _kept(status: Document) -> tuple[str, str, str]:
    """Whether a change can be lost: level, answer, and more."""
    migration, name = status["migration"], status["phase"]["name"]
    if elsewhere := _elsewhere(status):
        return "wait", *elsewhere
    if name == "final":
        return "ok", "Yes, it is done", "it is final: ZooKeeper is no longer written"
    if migration is None and _ALSO.get(name, name) == "finalising":
        on_hold = (status["finalisation"] or {}).get("state") == "held"
        text = (
            "changes are only in the metadata log since this phase began; none is lost if you go "
            "back as the line above says"
        )
        return "wait", "Not final yet; on hold" if on_hold else "Not final yet", text
    if migration is None or name == "not migrating":
        level = "ok" if name == "not migrating" and status["active"] else "wait"
        return level, f"In phase: {status['phase']['text']}", ""
    if name in _ENDED:
        # What was compared before does not count any more, nor is anything on its way.
        text = f"the phase is {name}: this controller does not write to ZooKeeper"
        return "bad", _ENDED[name], text
    if migration["poisoned"]:
        refused = len(migration["poisoned"])
        text = f"ZooKeeper refuses {refused} znode{'s' if refused > 1 else ''}, see below"
        return "bad", "No: ZooKeeper lacks some of it", text
    if not status["active"] and name not in _NOT_COPIED:
        return "wait", "Not known yet", "this controller is not active"
    missing = migration["going_back"]["changes_not_in_zookeeper"]
    compared = migration["compared_at"]
    if missing is None:
        if name in _NOT_COPIED:
            return "ok", "Yes", _untouched(name)
        return "wait", "Not known yet", "the stores are being compared"
    if migration["left_out"]:
        text = "a rollback loses access control entries that no znode can hold, see below"
        return "wait", "All but some ACLs", text
    if not missing:
        text = "both stores were compared as a whole, and made equal, at "
        text = f"{text}{compared[11:19]} UTC" if compared else ""
        return "ok", "Yes: ZooKeeper has every change", text
    are = "1 change is" if missing == 1 else f"{missing:,} changes are"
    text = f"{are} on the way to ZooKeeper; a rollback waits for them"
    return "ok", "Yes: no change can be lost", text


def _untouched(phase: str) -> str:
    """Why nothing can be lost before the copy is whole."""
    why = "nothing was copied yet" if phase == "waiting" else "the copy only reads it"
    return f"ZooKeeper still has everything: {why}"


def what_limits(status: Document, filled: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What holds the migration or KRaft back now; ``filled``: of :func:`bounds`."""
    ask, migration, name = "What limits it?", status["migration"], status["phase"]["name"]
    if elsewhere := _elsewhere(status):
        return _answer(ask, "wait", *elsewhere)
    if migration is None or name == "final":
        return _answer(ask, "ok", "Nothing", "ZooKeeper is not written")
    fullest = max(filled, key=lambda one: float(one["share"]), default=None)
    if migration["blocked"]:
        text = (
            f"the bound of {migration['blocked_by']} is reached: callers wait until it is at 75 %"
        )
        return _answer(ask, "bad", "ZooKeeper blocks KRaft", text)
    if waits := migration["waiting"]:
        more = f" (and {len(waits) - 1} more, below)" if len(waits) > 1 else ""
        worst = max(waits, key=lambda one: bool(one["fatal"]))
        for_what = WAITS_FOR.get(worst["why"], "It waits").format(worst["subject"])
        return _answer(ask, "bad" if worst["fatal"] else "wait", for_what, worst["text"] + more)
    if name in _ENDED:
        return _answer(ask, "bad", f"It is {name}", "this controller does not write to ZooKeeper")
    if migration["poisoned_since"]:
        text = "nothing behind it is written, see below"
        return _answer(ask, "bad", "ZooKeeper refuses a znode", text)
    lag = migration["lag"]
    if lag["records"] is None:
        text = "changes are not written to ZooKeeper yet"
        if (copied := migration["copy"]) is not None:
            done = f"{copied['topics_copied']:,} of {copied['topics']:,} topics done"
            return _answer(ask, "wait", f"Copying: {done}", text)
        return _answer(ask, "wait", "Copying" if name == "copying" else "Nothing yet", text)
    behind = f"{lag['records']:,} records, {duration(lag['ms'])}"
    if fullest is None:
        return _answer(ask, "ok", "Nothing", f"ZooKeeper is {behind} behind; no bound is set")
    share = f"{fullest['share']:.0%} of the bound of {fullest['name']}"
    if fullest["left_s"] is not None and fullest["share"] >= 0.25:
        left = f"reached in {duration(fullest['left_s'] * 1_000)} at the last minute's rate"
        return _answer(ask, "wait", f"Soon ZooKeeper: {share}", f"{left}; it is {behind} behind")
    return _answer(ask, "ok", "Nothing: ZooKeeper keeps up", f"it is {behind} behind: {share}")


def how_long_blocked(status: Document, series: Series) -> dict[str, str]:
    """How long callers waited for ZooKeeper."""
    ask = "How long was KRaft blocked?"
    if elsewhere := _elsewhere(status):
        return _answer(ask, "wait", *elsewhere)
    if series.newest("blocked_ms") is None:
        return _answer(ask, "wait", "Not known", "this controller could not look at itself yet")
    in_all, waiting = series.newest("blocked_ms") or 0, series.newest("blocked_operations") or 0
    if status["phase"]["name"] in _NOT_COPIED and not in_all and not waiting:
        text = "before dual write no change waits for ZooKeeper"
        return _answer(ask, "wait", "Does not apply yet", text)
    since = f"since {(iso(series.begun_ms) or '')[11:19]} UTC"
    begun = f"when this process of controller {status['node_id']} began; earlier is not known"
    watched = min(900_000, (series.newest("at_ms") or series.begun_ms) - series.begun_ms)
    recent = series.grown("blocked_ms") if watched == 900_000 else in_all
    answer = f"{duration(recent)} in the last {duration(watched)}"
    text = f"{duration(in_all)} in total {since}, {begun}"
    if waiting:
        wait = "request waits" if waiting == 1 else "requests wait"
        return _answer(ask, "bad", f"Now; {answer}", f"{waiting:,.0f} {wait}; {text}")
    return _answer(ask, "wait" if recent else "ok", answer, text)


def going_back(status: Document) -> dict[str, str]:
    """What a return to ZooKeeper mode costs now, in one line.

    Returns: ``level`` as of an answer, or ``none``: there is no way back; ``answer``, ``text``;
    ``command``: what the text says to run, empty: nothing.
    """
    level, answer, text = _back(status)
    command = ROLLBACK if text.endswith(_STOP) else ""
    return {"level": level, "answer": answer, "text": text, "command": command}


def _back(status: Document) -> tuple[str, str, str]:
    migration, name = status["migration"], status["phase"]["name"]
    if elsewhere := _elsewhere(status):
        return "wait", *elsewhere
    if name == "final":
        return "none", "No", "the migration is final"
    if name == "not migrating":
        return "ok", "Nothing to go back from", "no migration was begun"
    if migration is None and _ALSO.get(name, name) == "finalising":
        kraft, brokers = status["phase"]["kraft_brokers"], status["phase"]["brokers"]
        restarts = several(kraft + brokers, "restart of a broker", "restarts of brokers")
        text = (
            f"first a controller with {MIGRATION}=true has to lead: restart one with it. It writes "
            "what ZooKeeper lacks, and shows what ZooKeeper refuses, if anything. Then "
            f"{_in_zookeeper_mode(kraft, brokers)}{_STOP}"
        )
        return "wait", f"Yes, with a restart of a controller and {restarts}", text
    if migration is None:
        text = f"start a controller with {MIGRATION}=true again; then this line says what it takes"
        return "wait", "Yes, still", text
    back = migration["going_back"]
    if not back["possible"]:
        return "none", "No", back["text"]
    if name in _ENDED or (not status["active"] and name not in _NOT_COPIED):
        return "wait", "Not known to this controller", "see below"
    if name in _NOT_COPIED:
        text = f"{_untouched(name)}. To go back {_STOP}"
        return "ok", "Yes; no change is lost", text
    lost, level = _lost(migration)
    kraft, brokers = back["brokers_in_kraft_mode"], status["phase"]["brokers"]
    first = _in_zookeeper_mode(kraft, brokers)
    restarts = several(kraft + brokers, "restart of a broker", "restarts of brokers")
    return level, f"Yes, with {restarts}; {lost}", f"{'first ' if first else ''}{first}{_STOP}"


def _in_zookeeper_mode(kraft: int, brokers: int) -> str:
    """The restarts before the rollback; empty: none."""
    return f"restart {kraft} of {brokers} brokers in ZooKeeper mode; then " if kraft else ""


def no_return(status: Document, steps: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The point of no return, and what the next step has to do with it.

    Returns: ``before``: the phase that it lies before; the final record is what makes it.
    ``text``: what is said at the next step; empty: it can be undone. ``short``: the same in one
    line.
    """
    hold = (status["finalisation"] or {}).get("hold")
    before = PHASES[-1]
    check = len(steps) > 1 and steps[0].get("action") == "diff"
    step = steps[1] if check else steps[0] if steps else {}
    if not step.get("no_way_back"):
        return {"before": before, "text": "", "short": ""}
    which = "Step 2 below" if check else "The next step"
    if step["action"] == "finalise":
        after = "Afterwards you cannot return to ZooKeeper."
        text = f"Point of no return. Running this ends the hold. {after}"
    elif hold:
        text = "Point of no return, unless hold is on at the controller that leads afterwards."
        return {"before": before, "text": text, "short": f"{which} is final without a hold."}
    elif hold is False:
        text = "Point of no return: hold is off."
    else:
        text = "It is not known whether hold is on: treat this step as the point of no return."
    return {"before": before, "text": text, "short": f"{which} cannot be undone."}


def _lost(migration: Mapping[str, Any]) -> tuple[str, str]:
    """What a rollback loses, and the level of that."""
    if migration["poisoned"]:
        return "znodes that ZooKeeper refuses keep old content", "bad"
    if left := len(migration["left_out"]):
        lost = several(left, "access control entry", "access control entries")
        return f"{lost} {'is' if left == 1 else 'are'} lost", "wait"
    if migration["going_back"]["changes_not_in_zookeeper"] is None:
        return "what ZooKeeper lacks is not known yet", "wait"
    return "no change is lost", "ok"


def phases(status: Document) -> list[dict[str, Any]]:
    """The phases in their order: which are over, and where it is; none for an unusual one."""
    name = str(status["phase"]["name"])
    here = _ALSO.get(name, name)
    at = PHASES.index(here) if here in PHASES else -1
    states = ["ahead" if at < i else "done" if i < at else "now" for i in range(len(PHASES))]
    if here == "final":
        states[-1] = "done"
    return [{"name": name, "state": state} for name, state in zip(PHASES, states, strict=True)]


_FILE: Final = Path(__file__).with_name("live_page.html")
_NONCE: Final = b"{{nonce}}"
_SAFE: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)


def routes(
    series: Series, status: Callable[[], Document], advice: Advice | None, url: Callable[[], str]
) -> Routes:
    """``/`` and ``/series``.

    Args:
        series: the looks.
        status: the JSON object of ``/status``.
        advice: see there; None: the page shows no next step.
        url: where this node is asked.
    """
    template = _FILE.read_bytes()

    def shown() -> Page:
        nonce = secrets.token_urlsafe(16)
        policy = (
            f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        body = template.replace(_NONCE, nonce.encode())
        headers = (("Content-Security-Policy", policy), *_SAFE)
        return Page(200, "text/html; charset=utf-8", body, headers)

    def read(query: str) -> Page:
        since = parse_qs(query).get("since", ["0"])[-1]
        if not (since.isascii() and since.isdigit() and len(since) < 16):
            return Page(400, "text/plain", b"since: the number of a look\n", _SAFE)
        found = document(series, status(), advice, url(), int(since))
        body = json.dumps(printable_in(found), separators=(",", ":"))
        return Page(200, "application/json", body.encode() + b"\n", _SAFE)

    return {"/": shown, "/series": ByQuery(read)}


def document(
    series: Series, status: Document, advice: Advice | None, url: str, since: int
) -> dict[str, Any]:
    """The JSON object of ``/series``: what came after a look, and how it stands now."""
    verdict, steps = advice(status, f" --url {url}") if advice else ("", ())
    filled = bounds(status, series)
    since = series.known(since)
    return {
        "schema": SCHEMA,
        "run": series.begun_ms,
        "columns": COLUMNS,
        "samples": [
            [each if each is None else round(each, 3) for each in row] for row in series.rows(since)
        ],
        "events": [
            {"at": iso(one.at_ms), "at_ms": one.at_ms, "alarm": one.alarm, "text": one.text}
            for one in series.changes
            if one.number > since
        ],
        "last_minute": series.last_minute(),
        "bounds": filled,
        "verdict": verdict,
        "answers": [
            is_safe(status, verdict),
            what_limits(status, filled),
            how_long_blocked(status, series),
        ],
        "back": going_back(status),
        "no_return": no_return(status, steps),
        "phases": phases(status),
        "next": steps,
        "status": status,
    }
