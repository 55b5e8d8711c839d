"""What a run comes to: four answers in words, its measures, and the thresholds set for them."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from bench.analysis.limits import BLOCKED_SHARE, DONE, Figure, Key, Limited
from bench.report.beside import Beside, RunCheck
from bench.report.blocks import Answer, shown
from bench.report.findings import (
    NEVER,
    OF_CONTROLLERS,
    Record,
    Tables,
    blocked_for,
    bound_of,
    done_share,
    doubts,
    due_and_done,
    full_text,
    limits_of,
)
from bench.report.slowest import Slowest, slowest
from bench.report.what_now import could_go_back, in_phase, what_now
from emulator.config.words import duration, several
from emulator.trace.distribution import enough

MEASURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "blocked_share": "share of the time in which a change waited for ZooKeeper",
        "blocked_ms": "ms in which a change waited for ZooKeeper",
        "blocked_operations": "operations that waited for ZooKeeper",
        "p50_ms": "median of the changes, from when they were due",
        "p99_ms": "99th percentile of the same; what was given up is slower than any that was done",
        "given_up_share": "share of the changes that were not carried out",
        "achieved_share": "share of what was due that was done in time",
        "lag_records": "greatest lag of ZooKeeper",
        "lag_ms": "longest lag of ZooKeeper",
        "lag_of_bound": "greatest lag by the bound from which on changes wait",
        "missing_s": "seconds of the trace that are missing",
        "failed_checks": "checks of safety that did not hold, or were not judged",
    }
)
"""What a threshold can be set for, and what it is."""
_COMPARED: Final[Mapping[str, Callable[[float, float], bool]]] = MappingProxyType(
    {
        ">=": operator.ge,
        "<=": operator.le,
        "==": operator.eq,
        "!=": operator.ne,
        ">": operator.gt,
        "<": operator.lt,
    }
)
_NOTICED_MS: Final = 500.0
_NONE_MOVED: Final = re.compile(r"\(0 of [1-9][\d,]* brokers in KRaft mode\)")
_THRESHOLD: Final = re.compile(r"\s*(\w+)\s*([<>=!]+)\s*(\S+)\s*")


@dataclass(frozen=True, slots=True)
class Threshold:
    """A run fails if its measure compares so; where the measure is not known, it fails too."""

    text: str
    measure: str
    compared: str
    limit: float

    def crossed(self, value: float | None) -> bool:
        """Whether a run with this value fails."""
        return value is None or _COMPARED[self.compared](value, self.limit)


def threshold(text: str) -> Threshold:
    """Read one, such as ``blocked_share>0.01``.

    Raises:
        ValueError: it is none; the text says what it may be.
    """
    match = _THRESHOLD.fullmatch(text)
    if match is None or match[2] not in _COMPARED:
        raise ValueError(
            f"{text!r} is not MEASURE>NUMBER (or >=, <, <=, ==, !=), such as blocked_share>0.01"
        )
    name, compared, number = match.groups()
    if name not in MEASURES:
        raise ValueError(f"{text!r}: no measure {name!r}; there are {', '.join(MEASURES)}")
    try:
        limit = float(number)
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise ValueError(f"{text!r}: {number!r} is not a number")
    return Threshold(text, name, compared, limit)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one run. ``measures``: by the names of ``MEASURES``; None: not known."""

    run_id: str
    text: str
    answers: tuple[Answer, ...]
    measures: Mapping[str, float | None]


def of_run(tables: Tables, run_id: str) -> Tables:
    """The rows of one run."""
    return {
        name: [row for row in rows if row.get("run_id") == run_id] for name, rows in tables.items()
    }


def runs_of(tables: Tables) -> list[str]:
    """The runs of a trace, each with at least one row of any table."""
    return sorted({str(row["run_id"]) for rows in tables.values() for row in rows})


def verdict(tables: Tables, run_id: str, beside: Beside) -> Verdict:
    """What one run comes to.

    Args:
        tables: of this run alone.
        run_id: its id.
        beside: what was written beside the trace.
    """
    limits = [(limit, figures) for _, limit, figures in limits_of(tables)]
    limit, figures = limits[0] if limits else (None, [])
    found = measures(tables, beside)
    slow = slowest(tables)
    answers = (
        _safe(beside),
        what_now(beside),
        _limit(tables, limit, figures, slow, found),
        _blocked(tables, found, limit),
        could_go_back(tables, beside),
    )
    safe, *others = [one.short for one in answers]
    text = " ".join(filter(None, (safe, _waited(tables, found), *others)))
    return Verdict(run_id, text, answers, found)


def _waited(tables: Tables, found: Mapping[str, float | None]) -> str:
    """What clients met, where a person would notice it."""
    up, median = found["given_up_share"], found["p50_ms"]
    texts = []
    if median is not None and median >= _NOTICED_MS:
        took = (
            "longer than any that was done" if median == math.inf else f"{duration(median)} or more"
        )
        texts.append(f"half of the changes took {took}")
    if up:
        due, _ = due_and_done(tables)
        gave_up = round(up * due)
        were = "was" if gave_up == 1 else "were"
        texts.append(f"{gave_up:,} of {several(due, 'change')} {were} given up")
    text = ", and ".join(texts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _safe(beside: Beside) -> Answer:
    question = "Was the migration safe?"
    safety = [one for one in beside.checks if one.safety]
    failed = [one for one in safety if one.held is False]
    open_ = [one for one in safety if one.held is None]
    if not safety:
        text = "Nothing that came with this trace compared ZooKeeper with the log; zk diff does."
        return Answer(question, "Not judged", "open", text, "")
    if failed:
        count = f"{len(failed)} of {several(len(safety), 'check')} of safety failed"
        do = begins_with(failed[0].remedy)
        text = f"{count}; the first: {_named(failed[0])}."
        return Answer(question, "No", "bad", text, f"Not safe: {count}.{do}")
    if open_:
        were = "was" if len(open_) == 1 else "were"
        count = f"{len(open_)} of {several(len(safety), 'check')} of safety {were} not judged"
        text = f"{count}; the first: {_named(open_[0])}."
        do = begins_with(open_[0].remedy)
        return Answer(question, "Not known", "open", text, f"Not known to be safe: {count}.{do}")
    all_ = "The one check" if len(safety) == 1 else f"All {len(safety)} checks"
    text = f"{all_} of safety held."
    upto = "" if beside.end is None else in_phase(beside.end.phase)
    word = f"Yes, up to {upto.partition(',')[0]}" if upto else "Yes"
    if beside.end is not None and _NONE_MOVED.search(beside.end.phase):
        text += " Moving brokers to KRaft mode was not tested."
    short = f"Safe{upto and f' up to {upto}'}: {text[:1].lower()}{text[1:]}"
    return Answer(question, word, "good", text, short)


def _named(one: RunCheck) -> str:
    """A check, and the first thing that it found wrong."""
    return f"{one.what}: {one.wrong[0]}" if one.wrong else one.what


def begins_with(remedy: str) -> str:
    """The first sentence of a remedy, behind a space; empty: there is none.

    >>> begins_with("Do not finalise. See the logs."), begins_with("")
    (' Do not finalise.', '')
    """
    first = remedy.partition(". ")[0].rstrip(".")
    return f" {first}." if first else ""


def _limit(
    tables: Tables,
    limit: Limited | None,
    figures: Sequence[Figure],
    slow: Slowest | None,
    found: Mapping[str, float | None],
) -> Answer:
    question = "What limited this run?"
    if (in_time := _in_time(tables, limit, slow, found)) is not None:
        return in_time
    waited = "" if slow is None else f" The slowest change took {_of_slowest(slow)}."
    if limit is None:
        text = f"Nothing in the trace says what limited it.{waited}"
        return Answer(question, "Not known", "open", text, "What limited the run is not known.")
    unknown = f"how full {', '.join(limit.unknown)} was is not known" if limit.unknown else ""
    # How full each resource was is below.
    text = f"{'The load was done on time' if limit.nothing else limit.text}.{waited}"
    if limit.by is None:
        if not limit.nothing:
            short = "What limited the run is not known."
            return Answer(question, "Not known", "open", text, short, unknown)
        if unknown:
            short = f"Nothing known limited the run; {unknown}."
            return Answer(question, "Nothing known", "open", text, short, unknown)
        sure = "all resources had room, as measured"
        if slow is not None and slow.ms >= _NOTICED_MS:
            late = f"its slowest change, of {duration(slow.ms)}, waited {slow.brief}"
            if slow.changes > 1:
                late = f"{slow.changes:,} changes waited {slow.brief}, up to {duration(slow.ms)}"
            short = f"No resource limited the run; {late}."
            return Answer(question, "No resource", "good", text, short, sure)
        return Answer(question, "Nothing", "good", text, "Nothing limited the run.", sure)
    others = [one.name for one in figures if one.full and one is not limit.by]
    if unknown:
        sure = unknown
    elif others:
        sure = f"likely, as what else was full waits for it: {', '.join(others)}"
    else:
        sure = "nothing else was full, as measured"
    name = f"{limit.by.name[:1].upper()}{limit.by.name[1:]}"
    follows = {
        False: ", so how much ZooKeeper can take was not measured",
        None: ", as far as is known",
        True: "",
    }
    short = f"{name} limited the run{follows[limit.zookeeper]}."
    return Answer(question, name, "full", text, short, sure)


def _in_time(
    tables: Tables,
    limit: Limited | None,
    slow: Slowest | None,
    found: Mapping[str, float | None],
) -> Answer | None:
    """Of a run that did what was due in time on a full machine, or with a late client.

    What was full held nothing up that is known, so only how much more it could take is not known.
    """
    question = "What limited this run?"
    done = found["achieved_share"]
    by = None if limit is None else limit.by
    if by is None or by.key not in {Key.MACHINE, Key.CLIENT} or done is None or done < DONE:
        return None
    busy = full_text(by)
    slowest_ = "" if slow is None else f" The slowest change took {_of_slowest(slow)}."
    share = found["blocked_share"] or 0.0
    if share >= BLOCKED_SHARE:
        text = (
            f"Changes waited for ZooKeeper in {of_load(tables, found)}.{slowest_} "
            f"{busy} too, so how much ZooKeeper can take was not measured."
        )
        other = "CPU" if by.key is Key.MACHINE else "the client"
        return Answer(question, f"Not certain: ZooKeeper or {other}", "open", text, "")
    text = f"What was due was done in time. {busy}, so the most that can be done is not known."
    return Answer(question, "Nothing, at this load", "open", f"{text}{slowest_}", "")


def _of_slowest(slow: Slowest) -> str:
    """How long it took, and where a person would notice it what it waited for."""
    took = duration(slow.ms)
    return took if slow.ms < _NOTICED_MS else f"{took}: {slow.waited}"


def _blocked(tables: Tables, found: Mapping[str, float | None], limit: Limited | None) -> Answer:
    question = "How long did ZooKeeper block KRaft?"
    waited, share = found["blocked_ms"], found["blocked_share"]
    if waited is None:
        text = "The trace holds no change of a controller."
        short = "Whether ZooKeeper blocked KRaft is not known."
        return Answer(question, "Not known", "open", text, short)
    run_id = next((row["run_id"] for name in OF_CONTROLLERS for row in tables[name]), "")
    doubted = doubts(tables, run_id, limit)
    sure = f"counted, but {' and '.join(doubted)}" if doubted else "counted, each wait by itself"
    how_long = blocked_for(tables, run_id, limit, waited)
    word = f"{how_long[:1].upper()}{how_long[1:]}"
    if not waited:
        text = f"No operation in the trace waited for ZooKeeper{_headroom(tables, found)}."
        if how_long != NEVER:
            short = f"ZooKeeper blocked KRaft: {how_long}."
            return Answer(question, word, "open", text, short, sure)
        short = "ZooKeeper never blocked KRaft."
        return Answer(question, word, "good", text, short, sure)
    part = "" if share is None else f", {of_load(tables, found)}"
    gave_up = sum(row["timed_out_operations"] for row in tables["blocking"])
    waits = several(round(found["blocked_operations"] or 0), "operation")
    text = (
        f"{waits} waited for ZooKeeper{_together(tables)}{part}"
        + (f"; {gave_up:,} of them gave up" if gave_up else "")
        + f"{_headroom(tables, found)}."
    )
    state = "open" if doubted or share is None else "good"
    state = "bad" if (share or 0.0) >= BLOCKED_SHARE else state
    here = "In this run " if limit is not None and limit.zookeeper is False else ""
    short = f"{here}ZooKeeper blocked KRaft for {how_long}{part}."
    return Answer(question, word, state, text, short, sure)


def _together(tables: Tables) -> str:
    """Whether operations waited at the same time, behind a space; empty: not, or it was one."""
    waits = sum(row["blocked_operations"] for row in tables["blocking"])
    summed = sum(row["total_ms"] for row in tables["blocking"])
    some = sum(row["union_ms"] for row in tables["blocking"])
    if waits < 2 or summed <= 1.01 * some:
        return ""
    return " at the same time" if summed >= 0.8 * waits * some else ", in part at the same time"


def of_load(tables: Tables, found: Mapping[str, float | None]) -> str:
    """The share of the time in which something waited for ZooKeeper, and of which time."""
    share, waited = found["blocked_share"] or 0.0, found["blocked_ms"]
    # Of several controllers it is that of the one where most waited.
    one = len(tables["blocking"]) == 1
    of = duration(waited / share) if one and share and waited else "time"
    return f"{in_share(share)} of the {of} under load"


def in_share(share: float) -> str:
    """A share as a person reads it.

    >>> in_share(0.0), in_share(0.0004), in_share(0.263)
    ('0%', '0.04%', '26.3%')
    """
    return f"{share:.2%}" if 0 < share < 0.01 else f"{100 * share:.3g}%"


def _headroom(tables: Tables, found: Mapping[str, float | None]) -> str:
    of_bound = found["lag_of_bound"]
    if of_bound is None:
        return ""
    return f"; its lag reached {in_share(of_bound)} of its bound{records(tables)}"


def records(tables: Tables) -> str:
    """The bound behind that share, in words; empty: it is not one for all."""
    bounds = {bound_of(tables, row["run_id"], row["process"]) for row in tables["lag_summary"]}
    return f" of {several(bounds.pop(), 'record')}" if len(bounds) == 1 else ""


def measures(tables: Tables, beside: Beside) -> dict[str, float | None]:
    """Of one run, by the names of ``MEASURES``; None where it is not known."""
    blocking = tables["blocking"]
    traced = any(tables[name] for name in OF_CONTROLLERS)
    shares = [row["value"] for row in tables["utilisation"] if row["resource"] == "blocked"]
    felt = {row["beyond"]: row for row in _client(tables)}
    due, done = due_and_done(tables)
    lags = tables["lag_summary"]
    used = [
        row["max_lag_records"] / bound
        for row in lags
        if (bound := bound_of(tables, row["run_id"], row["process"]))
    ]
    safety = [one for one in beside.checks if one.safety]
    none = 0.0 if traced else None
    return {
        "blocked_share": max(shares, default=none if not blocking else None),
        "blocked_ms": sum(row["union_ms"] for row in blocking) if blocking else none,
        "blocked_operations": (
            float(sum(row["blocked_operations"] for row in blocking)) if blocking else none
        ),
        "p50_ms": _at(felt, 0.5),
        "p99_ms": _at(felt, 0.01),
        "given_up_share": (due - done) / due if due else None,
        "achieved_share": done_share(tables["rate_summary"]),
        "lag_records": max((float(row["max_lag_records"]) for row in lags), default=None),
        "lag_ms": max((row["max_lag_ms"] for row in lags), default=None),
        "lag_of_bound": max(used, default=None),
        "missing_s": sum(row["missing_s"] or 0.0 for row in tables["missing"]),
        "failed_checks": (float(sum(not one.held for one in safety)) if safety else None),
    }


def _client(tables: Tables) -> Iterable[Record]:
    return [row for row in tables["percentiles"] if row["seen"] == "client"]


def _at(felt: Mapping[float, Record], beyond: float) -> float | None:
    """A percentile, where enough samples lie beyond it."""
    for share, row in felt.items():
        if math.isclose(share, beyond, rel_tol=1e-9) and enough(row["samples"], 1 - share):
            return float(row["ms"])
    return None


@dataclass(frozen=True, slots=True)
class Judged:
    """A threshold of one run, with what was measured."""

    run_id: str
    threshold: Threshold
    value: float | None

    @property
    def crossed(self) -> bool:
        """Whether the run fails by it."""
        return self.threshold.crossed(self.value)

    @property
    def text(self) -> str:
        """In words."""
        value = "not known" if self.value is None else shown(self.value)
        return f"{self.threshold.text}: {self.threshold.measure} is {value}"


def judge(found: Iterable[Verdict], thresholds: Sequence[Threshold]) -> list[Judged]:
    """Each threshold of each run."""
    return [
        Judged(one.run_id, each, one.measures[each.measure]) for one in found for each in thresholds
    ]
