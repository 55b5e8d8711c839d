"""The main numbers of the tables; shared by page and summary."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from bench.analysis.limits import (
    PARTS,
    Figure,
    Key,
    Limited,
    Run,
    blocked_share,
    figures_of,
    limited,
)
from bench.analysis.quorum import MOVED_S, QUORUM
from emulator.config.words import duration, folded, several

Record: TypeAlias = Mapping[str, Any]
Tables: TypeAlias = Mapping[str, Sequence[Record]]

UNEXPLAINED_LIMIT: Final = 0.01
"""An attribution whose parts miss the whole by more is not shown as one."""

OF_CONTROLLERS: Final = ("stage_latency", "lag_summary", "coalescing", "blocking")
"""Tables with a row only where a controller's trace holds a change."""

_NO_CONTROLLER: Final = (
    "not known: the trace holds no change of a controller; a controller of kraft-bridge writes "
    "its part with kraftbridge.trace.dir"
)
BOUND: Final = "kraftbridge.zk.write.behind.max.records"
BOUND_DEFAULT: Final = 10_000
"""Of that property; a test holds it equal to the controller's."""
HARD_BOUND: Final = "kraftbridge.zk.write.behind.hard.max.records"
HARD_FACTOR: Final = 2
"""Of the first bound, where that property is not given; a test holds it equal too."""
_INDENT: Final = "    "


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the summary; ``warning`` marks what makes the run less believable."""

    about: str
    says: str
    warning: bool = False


def findings(tables: Tables) -> list[Finding]:
    """Turn result tables into the summary, in reading order."""
    return [
        *_missing(tables),
        *_limited(tables),
        *_clocks(tables),
        *_load(tables),
        *_blocking(tables),
        *_lag(tables),
        *_cost(tables),
        *_noise(tables),
    ]


def lines(found: Iterable[Finding], width: int | None) -> Iterable[tuple[Finding, str]]:
    """The summary as text: each finding after what it is about, a blank line between none.

    Args:
        found: the findings, in reading order.
        width: of the console in characters: longer lines are wrapped and indented; None: each
            finding is one line, for files and other programs.

    >>> [text for _, text in lines([Finding("runs", "12, all count")], None)]
    ['runs: 12, all count']
    """
    for each in found:
        text = " ".join(f"{each.about}: {each.says}".split())
        if width is None:
            yield each, text
        else:
            yield each, folded(text, width, _INDENT)


def limits_of(tables: Tables) -> Iterable[tuple[str, Limited, list[Figure]]]:
    """What limited each run of a trace, and the figures it is concluded from."""
    for run_id in sorted({row["run_id"] for row in tables.get("utilisation", ())}):
        rows = [row for row in tables["utilisation"] if row["run_id"] == run_id]
        rates = [row for row in tables["rate_summary"] if row["run_id"] == run_id]
        run = Run(
            done=done_share(rates),
            blocked=blocked_share(rows),
            blocked_ms=sum(
                row["union_ms"] for row in tables["blocking"] if row["run_id"] == run_id
            ),
        )
        figures = figures_of(rows)
        yield run_id, limited(figures, run), figures


def limit_text(limit: Limited) -> str:
    """What limited a run of one load; a sweep compares rates, and says it otherwise."""
    if limit.by is None or not limit.in_time:
        return limit.text
    return (
        f"Nothing, at this load: what was due was done in time. {full_text(limit.by)}, so the most "
        "that can be done is not known"
    )


def full_text(one: Figure) -> str:
    """How full the machine was, or how late the client; the begin of a sentence."""
    if one.key is Key.MACHINE:
        return f"CPU was {one.used} busy"
    return f"{one.name[:1].upper()}{one.name[1:]} was {one.used} late"


def is_controller(process: object) -> bool:
    """Whether a process of a trace is a controller, by its name."""
    return str(process).startswith("controller")


def done_share(rates: Sequence[Record]) -> float | None:
    """Share of what was due each second that was carried out each second; None without a load.

    What was carried out much later than due is less each second, though it was done in the end.
    """
    due = sum(row["intended"] for row in rates)
    if not due:
        return None
    per_s = [row["due_per_s"] for row in rates]
    shares: list[float] = [sum(row["achieved"] for row in rates) / due]
    if None not in per_s:
        shares.append(sum(row["achieved_per_s"] for row in rates) / sum(per_s))
    return min(1.0, *shares)


def _limited(tables: Tables) -> Iterable[Finding]:
    """What limited a run, and where a change's time went; first, as all else follows from it."""
    found = list(limits_of(tables))
    for run_id, limit, _ in found:
        of_run = f" ({run_id})" if len(found) > 1 else ""
        yield Finding(f"what limited this run{of_run}", limit_text(limit), limit.warns)
        parts = {
            row["part"]: row for row in tables.get("change_time", ()) if row["run_id"] == run_id
        }
        mean_ms = {part: row["mean_ms"] for part, row in parts.items()}
        whole_ms = sum(mean_ms.values())
        if whole_ms > 0:
            shown = ", ".join(
                f"{part} {duration(mean_ms[part])} ({mean_ms[part] / whole_ms:.0%})"
                if part in mean_ms
                else f"{part} not known"
                for part in PARTS
            )
            samples = max(row["samples"] for row in parts.values())
            yield Finding(
                f"where a change's time went{of_run}",
                f"{duration(whole_ms)} at the mean of {samples:,} changes: {shown}",
            )


def _load(tables: Tables) -> Iterable[Finding]:
    for row in sorted(tables["latency"], key=lambda row: (row["api"], row["seen"])):
        if row["seen"] == "client response":
            yield Finding(
                f"client-observed latency of {row['api']}",
                ", ".join(f"{name} {_felt(row, f'{name}_ms')}" for name in ("p50", "p99", "max"))
                + f" ({row['samples']:,} due{_not_done(row)}, {row['accuracy']})",
                warning=row["not_done"] > 0,
            )
    intended, achieved = due_and_done(tables)
    if intended:
        yield Finding(
            "open-loop load",
            f"{achieved:,} of {intended:,} intended requests answered without error, "
            f"{per_s(tables, 'achieved_per_s'):.1f} each second of "
            f"{per_s(tables, 'due_per_s'):.1f} due",
            warning=achieved < 0.99 * intended,
        )


def _felt(row: Record, quantile: str) -> str:
    """A quantile of all that was due; of what was given up, how long it waited at least."""
    value = row[quantile]
    return f"> {duration(row['not_done_ms'])}" if value == math.inf else quantile_text(value)


def _not_done(row: Record) -> str:
    return f", {row['not_done'] / row['samples']:.1%} given up" if row["not_done"] else ""


def due_and_done(tables: Tables) -> tuple[int, int]:
    """Changes of all clients together: what was due, and what of it was carried out."""
    rates = tables["rate_summary"]
    return sum(row["intended"] for row in rates), sum(row["achieved"] for row in rates)


def per_s(tables: Tables, rate: str) -> float:
    """A rate, of all clients together: each by its own clock, as hosts count from their start."""
    return float(sum(row[rate] or 0.0 for row in tables["rate_summary"]))


def bound_of(tables: Tables, run_id: str, process: str) -> int:
    """Records that may be unwritten before changes wait, by the properties of the process."""
    return bounds_of(tables, run_id, process)[0]


def bounds_of(tables: Tables, run_id: str, process: str) -> tuple[int, int]:
    """The same, and that of deletions and what brokers need; 0: none."""
    for row in tables.get("runs", ()):
        leads = row["process"] == process or (process == QUORUM and BOUND in row["parameters"])
        if row["run_id"] == run_id and leads:
            try:
                given = json.loads(row["parameters"])
                bound = int(given.get(BOUND, BOUND_DEFAULT))
                hard = int(given.get(HARD_BOUND, -1))
            except (AttributeError, TypeError, ValueError, OverflowError, RecursionError):
                break
            return bound, HARD_FACTOR * bound if hard < 0 else hard
    return BOUND_DEFAULT, HARD_FACTOR * BOUND_DEFAULT


def _of_bound(tables: Tables, row: Record) -> str:
    """How much of the bound the greatest lag was."""
    bound = bound_of(tables, row["run_id"], row["process"])
    if not bound:
        return "no bound"
    return f"{row['max_lag_records'] / bound:.1%} of the bound of {bound:,}"


def _blocking(tables: Tables) -> Iterable[Finding]:
    if not any(tables[name] for name in OF_CONTROLLERS):
        # A load or a fleet traces its own requests only: nothing is known of what they waited for.
        yield Finding("ZooKeeper blocking KRaft", _NO_CONTROLLER, warning=True)
    elif not tables["blocking"]:
        yield Finding("ZooKeeper blocking KRaft", _never(tables))
    limits = {run_id: limit for run_id, limit, _ in limits_of(tables)}
    for row in tables["blocking"]:
        run_id = row["run_id"]
        how_long = blocked_for(tables, run_id, limits.get(run_id), row["union_ms"])
        yield Finding(
            f"ZooKeeper blocking KRaft ({row['process']})",
            f"{how_long} in which something waited; "
            f"{several(row['blocked_operations'], 'operation')}, {duration(row['total_ms'])} "
            f"summed; {row['timed_out_operations']:,} gave up"
            f"{_but(doubts(tables, run_id, limits.get(run_id)))}",
        )
        if row["unexplained_share"] > UNEXPLAINED_LIMIT:
            yield Finding(
                "attribution of blocking",
                f"refused: parts miss the whole by {row['unexplained_share']:.1%}",
                warning=True,
            )


NEVER: Final = "never"
AS_SEEN: Final = "0 ms seen"
"""How long ZooKeeper blocked KRaft where no wait is in the trace: nothing is in doubt, or it is."""


def blocked_for(tables: Tables, run_id: str, limit: Limited | None, ms: float) -> str:
    """How long ZooKeeper blocked KRaft, and how certain that is: the one wording of it.

    Returns: such as ``2.72 s``, ``at least 2.72 s``, ``0 ms seen; up to 1 s not recorded``.
    """
    lost = _unrecorded(tables, run_id)
    if ms:
        return f"at least {duration(ms)}" if lost else duration(ms)
    if lost:
        return f"{AS_SEEN}; {lost[0]} not recorded"
    return AS_SEEN if doubts(tables, run_id, limit) else NEVER


def _unrecorded(tables: Tables, run_id: str) -> tuple[str, str] | None:
    """How much a controller's trace lacks, and where, in words; None: nothing."""
    lacks = {
        row["why"]
        for row in tables["missing"]
        # Negative: rows that are there twice.
        if row["run_id"] == run_id
        and is_controller(row["process"])
        and (row["missing_rows"] or 0) >= 0
    }
    if lacks == {NOT_CLOSED}:
        return "up to 1 s", "at the end of a controller's trace, which was not closed,"
    return ("some time", "of a controller") if lacks else None


def doubts(tables: Tables, run_id: str, limit: Limited | None) -> list[str]:
    """Why ZooKeeper may have blocked KRaft for longer than was counted, or would by this load."""
    found = []
    if lost := _unrecorded(tables, run_id):
        found.append(f"{' '.join(lost)} is not recorded")
    if limit is None or limit.zookeeper is None:
        found.append("whether the machine was full or the client late is not known")
    elif not limit.zookeeper:
        text = "another load may differ, as the machine was full or the client late"
        found.append(text)
    return found


NOT_CLOSED: Final = "no end"
"""Why rows are missing of a trace without a last row: why its writer ended is not known."""


def _but(found: Sequence[str]) -> str:
    return f"; but {'; '.join(found)}" if found else ""


def _never(tables: Tables) -> str:
    """The text for a run in which no operation waited, with the load, which it depends on."""
    limits = {run_id: limit for run_id, limit, _ in limits_of(tables)}
    runs = sorted({row["run_id"] for name in OF_CONTROLLERS for row in tables[name]})
    found = [one for each in runs for one in doubts(tables, each, limits.get(each))]
    told = (blocked_for(tables, each, limits.get(each), 0.0) for each in runs)
    text = f"{max(told, key=len, default=NEVER)}: no operation waited for ZooKeeper"
    due, lags = per_s(tables, "due_per_s"), tables["lag_summary"]
    done = f", at {per_s(tables, 'achieved_per_s'):.1f} changes/s ({due:.1f} due)"
    text += done if due else ", and the trace holds no load"
    if lags:
        text += f"; the lag reached {_of_bound(tables, max(lags, key=_greatest))}"
    return text + _but([*dict.fromkeys(found)])


def _greatest(row: Record) -> int:
    return int(row["max_lag_records"])


def _when(tables: Tables, row: Record) -> str:
    """Whether the lag was greatest when no change was due any more; only of one machine's clock."""
    ends = [each["last_due_ns"] for each in tables["rate_summary"]]
    if (
        row["process"] == QUORUM
        or not ends
        or len({each["host"] for each in tables.get("runs", ())}) != 1
    ):
        return ""
    late_s = (row["max_lag_ns"] - max(ends)) / 1e9
    return f", {late_s:.1f} s after the last change was due" if late_s > 0 else ""


def _lag(tables: Tables) -> Iterable[Finding]:
    together = {row["run_id"] for row in tables["lag_summary"] if row["process"] == QUORUM}
    for row in tables["lag_summary"]:
        if row["run_id"] in together and row["process"] != QUORUM:
            continue  # of one leader: it ends where that one ended
        yield Finding(
            f"write-behind lag ({row['process']})",
            f"at most {row['max_lag_records']:,} records ({_of_bound(tables, row)})"
            f"{_when(tables, row)}; at most {duration(row['max_lag_ms'])}; "
            f"behind {_share(row['behind_share'])} of the time; "
            f"{row['last_lag_records']:,} records at the end",
            warning=row["last_lag_records"] > 0,
        )
    readings = sum(row["readings"] for row in tables["gauge_agreement"])
    if readings:
        agreeing = sum(row["agreeing"] for row in tables["gauge_agreement"])
        yield Finding(
            "lag gauges against the trace",
            f"{agreeing:,} of {readings:,} readings agree within 1 record or 1 ms",
            warning=agreeing < 0.99 * readings,
        )


def _cost(tables: Tables) -> Iterable[Finding]:
    for row in tables["coalescing"]:
        yield Finding(
            f"multis ({row['process']})",
            f"{row['multis']:,} carried {row['records']:,} records in {row['ops']:,} operations, "
            f"{row['bytes']:,} bytes: {row['records_per_multi']:.1f} records each",
        )


_WHY: Final = {
    "not written": "it could not be written, as the log of the process says",
    "deleted": "all files of a process may take kraftbridge.trace.max.bytes",
    "file missing": "a file of it is not there, or has not all its rows, or was deleted before "
    "--follow read it",
    "not read": "the last file of the table was seen by --follow, and deleted or damaged before it "
    "could be read",
    NOT_CLOSED: "the trace was not closed: the process ended without that, or still writes",
    "others went on": "others of its host went on for so long; it ended, or could not write",
}


def _missing(tables: Tables) -> Iterable[Finding]:
    def place(row: Record) -> tuple[str, ...]:
        return row["run_id"], row["process"], row["why"], row["table"] or ""

    for row in sorted(tables["missing"], key=place):
        count, seconds = row["missing_rows"], f"{row['missing_s'] or 0:,.1f} s"
        if row["why"] == "not read":
            known = "not known how many" if count is None else f"{count:,}"
            lacks = f"the last rows of {row['table']} ({known}) are missing"
        elif row["why"] == "file missing":
            lacks = (
                f"{count:,} rows of {row['table']} within {seconds} are missing"
                if count > 0
                else f"{-count:,} rows of {row['table']} are there twice"
            )
        elif row["why"] == NOT_CLOSED:
            lacks = f"rows of up to its last second may be missing, and all of the {seconds} after"
        elif row["why"] == "deleted":
            lacks = f"the oldest {count:,} rows, of {seconds}, were deleted"
        else:
            lacks = f"{seconds} are missing"
            lacks += f" ({count:,} rows)" if count is not None else ""
        lacks += f", from {begins(tables, row)} on" if row.get("at_ns") is not None else ""
        yield Finding(
            f"gap in the trace of {row['process']}",
            f"in run {row['run_id']} {lacks}: {_WHY[row['why']]}",
            warning=True,
        )


def begins(tables: Tables, row: Record) -> str:
    """When something begins that has ``at_ns``, by the pair of clocks of its process."""
    return instant(wall_of(tables, row))


def wall_of(tables: Tables, row: Record) -> float | None:
    """The same in ns since 1970; None: it is not known."""
    for run in tables.get("runs", ()):
        same = (run["run_id"], run["process"]) == (row["run_id"], row["process"])
        if same and row.get("at_ns") is not None:
            return float(run["wall_ns"] - run["monotonic_ns"] + row["at_ns"])
    return None


def instant(wall_ns: float | None) -> str:
    """An instant of the wall clock (ns since 1970), as text."""
    if wall_ns is None:
        return "not known"
    try:
        at = datetime.fromtimestamp(wall_ns / 1e9, UTC)
    except (ValueError, OverflowError, OSError):
        return "at an impossible time"
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _clocks(tables: Tables) -> Iterable[Finding]:
    for run_id in sorted({row["run_id"] for row in tables.get("lives", ())}):
        lives = [row for row in tables["lives"] if row["run_id"] == run_id]
        hosts = sorted({row["host"] for row in lives})
        if len(hosts) > 1:
            yield Finding(
                f"clocks of {len(hosts)} hosts",
                f"in run {run_id} times of {', '.join(hosts)} are put together by their wall "
                "clocks; how far these are apart is not in the trace",
                warning=True,
            )
        for row in sorted(lives, key=lambda row: row["process"]):
            if abs(row["moved_s"] or 0.0) > MOVED_S:
                yield Finding(
                    f"clock of {row['host']}",
                    f"in run {run_id} it was set, or the host was started again: by "
                    f"{row['process']} it had moved by {row['moved_s']:,.1f} s",
                    warning=True,
                )
        led = [row for row in tables["leaders"] if row["run_id"] == run_id]
        if len({row["process"] for row in led}) > 1:
            begins = min(row["first_ns"] for row in led)
            order = ", ".join(
                f"{row['process']} in epoch {row['leader_epoch']} (from "
                f"{(row['first_ns'] - begins) / 1e9:,.1f} s on)"
                for row in sorted(led, key=lambda row: row["leader_epoch"])
            )
            yield Finding("leaders", f"in run {run_id} {order}")


def _noise(tables: Tables) -> Iterable[Finding]:
    lives = Counter((row["run_id"], row["process"]) for row in tables.get("runs", ()))
    for (run_id, process), times in sorted(lives.items()):
        if times > 1:
            yield Finding(
                f"starts of {process}",
                f"{times} in run {run_id}: its offsets and request ids begin anew, and what is "
                "computed from them mixes its lives",
                warning=True,
            )
    for row in tables["stalls"]:
        yield Finding(
            f"event loop stalls ({row['process']})",
            f"{row['stalls']:,}, longest {duration(row['longest_ms'])}; "
            f"{row['noisy_stalls']:,} of 50 ms or more",
            warning=row["noisy_stalls"] > 0,
        )
    for row in tables["request_parts"]:
        for column, why in (
            ("out_of_order", "have instants that contradict each other"),
            ("uncommitted", "have no instant of commit in the trace"),
        ):
            if row[column]:
                yield Finding(
                    f"parts of {row['api']}",
                    f"{row[column]:,} of {row['requests']:,} requests {why}",
                    warning=True,
                )


def quantile_text(value: float | None) -> str:
    """A quantile in ms; None: with too few samples beyond it."""
    return "too few samples" if value is None else duration(value)


def _share(value: float | None) -> str:
    return "none" if value is None else f"{value:.1%}"
