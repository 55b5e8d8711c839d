"""The report of many runs: the headline, curves beside Kafka's, knees, fits, and what to doubt."""

from __future__ import annotations

import json
import os
import platform
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Final

from bench.analysis.limits import RESOURCES, Key
from bench.analysis.sweep.conclusions import (
    OURS,
    Conclusions,
    SweepOfRates,
    first_limit,
    limit_at,
    rate_text,
)
from bench.analysis.sweep.knee import ACHIEVED, P99_FACTOR, TREND_SHARE
from bench.analysis.sweep.one_run import PERIODS, Group, Run
from bench.lines import changes_a_second
from bench.load.figures import COVERAGE, REPEATS
from bench.load.schedule import GRACE, SETTLED
from bench.report import charts
from bench.report.blocks import Block, Note, ReportSection, render, table
from bench.report.findings import Finding, Record, instant
from bench.report.strips import of_noise
from bench.report.sweep_blocking import blocking, fields
from bench.report.sweep_stalls import predicted_beside_measured, stall_panels
from bench.report.sweep_verdict import sweep_answers, sweep_verdict, unknown, whose
from emulator.config.words import several

_CURVES: Final[tuple[tuple[str, str, Callable[[Run], float | None], bool], ...]] = (
    ("p99 of a change, from when it was due", "ms", lambda run: run.p99_ms, True),
    ("p99 of ZooKeeper's lag, at most", "ms", lambda run: run.lag_p99_high_ms, True),
    ("Changes answered without error", "changes/s", lambda run: run.achieved_per_s, False),
)
_HEADLINE: Final = "headline"
_SHOWN_ANOMALIES: Final = 200
_CAVEATS: Final = """
One machine holds the controller, ZooKeeper, the brokers and the load: they compete for its cores. \
Compare targets within one run, not absolute figures between machines.
The lag of every target is read from outside: what was committed, and what ZooKeeper held, each \
at some instant while it was read. Its p99 lies between two values; both are shown.
A percentile is that of all that was due: what was not carried out is slower than any that was. It \
is shown only where ten values or more lie beyond it.
ZkWriteBlockingKRaftMillis is a measure of kraft-bridge: Apache Kafka never holds a change back, \
and its lag grows without bound instead.
"""


def sweep_page(found: Conclusions, described: Sequence[Record], made: str) -> str:
    """Render the document.

    Args:
        found: what was concluded.
        described: the rows of the bench's runs: commands, versions, load of the machine.
        made: how the report was made, by ``how_made``.
    """
    first = {
        "p99 and lag, ours beside Kafka's": _curves(found),
        "Rate, stall and bound": stall_panels(found),
        "Predicted, and then measured": predicted_beside_measured(found),
        "Noise of this machine": _noise(found),
        "What is not known": map(Note, (f"{text}." for text in unknown(found))),
    }
    folded = {
        "Time that ZooKeeper blocked KRaft": blocking(found),
        "Time without a controller": _copies(found),
        "Knees": _knees(found),
        "What limited each run": _limits(found),
        "What a multi and a record cost ZooKeeper": _cost(found),
        "With and without writing to ZooKeeper": _counterfactuals(found),
        "Runs not to be believed at once": _anomalies(found),
        "All runs": _runs(found, described),
        "How this was made": _method(described, made),
    }
    sections = [
        ReportSection(title, list(blocks), folded=part is folded)
        for part in (first, folded)
        for title, blocks in part.items()
    ]
    answers = sweep_answers(found)
    return render(
        "kraft-bridge: a sweep of rates",
        sweep_summary(found),
        [section for section in sections if section.blocks],
        sweep_verdict(answers),
        about=_about(found, described),
        answers=answers,
    )


def _about(found: Conclusions, described: Sequence[Record]) -> str:
    """What was run, when, and where, in a line."""
    names = sorted({run.group.scenario for run in found.runs if run.group.scenario})
    began = [row["started_wall_ns"] for row in described if row.get("started_wall_ns")]
    machines = sorted({row["machine"] for row in described if row.get("machine")})
    busy = [row["others_cores"] for row in described if row.get("others_cores") is not None]
    counts = sum(run.counts for run in found.runs)
    texts = [
        f"bench scenarios {', '.join(names)}" if names else "bench runs",
        f"{several(len(found.runs), 'run')}, of which {counts} count",
        instant(min(began)) if began else "",
        "; ".join(_plain(machine) for machine in machines),
        f"other programs used {min(busy):.2f} to {max(busy):.2f} cores" if busy else "",
    ]
    return " · ".join(text for text in texts if text)


def _noise(found: Conclusions) -> Iterable[Block]:
    if not found.noise:
        return
    yield of_noise(found.noise)
    yield Note(
        "Code is compared with itself: the repeats of each rate are dealt into two halves, in "
        "every way, and the medians of the halves are compared. A dot is a rate, the band what "
        "95 % of all differences are within: a smaller one between two runs means nothing."
    )


def sweep_summary(found: Conclusions) -> list[Finding]:
    """What the page and the terminal begin with: first what limited the runs."""
    return [*sweep_limits(found), Finding(_HEADLINE, found.headline), *sweep_findings(found)]


def sweep_limits(found: Conclusions) -> list[Finding]:
    """What limited each sweep of rates, for the first lines of the page and the terminal."""
    said = []
    for sweep in found.sweeps:
        about, limit = f"what limited {sweep.group.label}", first_limit(sweep)
        if limit is None:
            unknown = sorted({name for run in sweep.runs for name in run.limit.unknown})
            text = "nothing at any rate" if not unknown else "nothing of what is known"
            text += f"; not known: how full: {', '.join(unknown)}" if unknown else ""
            said.append(Finding(about, text))
            continue
        rate, first = limit
        barred = sum(not run.of_zookeeper for run in sweep.runs)
        text = f"first at {changes_a_second(rate)}: {first.text}"
        if barred:
            text += f" (so in {barred} of {len(sweep.runs)} runs)"
        said.append(Finding(about, text, warning=True))
    return said


def _limits(found: Conclusions) -> Iterable[Block]:
    """Each run's verdict and figures, and what the columns are."""
    rows = []
    for run in found.runs:
        if not run.counts:
            continue
        used = {one.name: one.used for one in run.figures}
        rows.append(
            {"run": run.run_id, "rate_per_s": run.rate, "limited_by": run.limit.text, **used}
        )
    names = list(dict.fromkeys(name for row in rows for name in row))
    yield from table([{name: row.get(name, "not known") for name in names} for row in rows])
    if rows:
        yield from table(
            [
                {
                    "resource": each.name,
                    "measured": each.measured,
                    "limit": each.limit,
                    "full from": "-" if each.full is None else f"{each.full:.0%}",
                }
                for each in RESOURCES
            ]
        )


def sweep_findings(found: Conclusions) -> list[Finding]:
    """The summary for the page and the terminal: blocking, one line a sweep of rates, doubts."""
    summary = list(_blocked_runs(found))
    summary += [
        Finding(f"knee of {sweep.group.label}", _knee_text(sweep))
        for sweep in _of_rates(found)
        if sweep.knee is not None
    ]
    summary += [
        Finding(
            f"time without a controller, {copy.target}, {copy.per_topic} partitions a topic",
            f"{copy.fixed_s:.2f} s and {copy.each_us:,.0f} us each partition (R2 "
            f"{copy.r_squared:.3f}, {copy.sizes[0][0]:,} to {copy.sizes[-1][0]:,} partitions)",
        )
        for copy in found.copies
    ]
    doubtful = len({anomaly.run_id for anomaly in found.anomalies})
    summary.append(
        Finding(
            "runs",
            f"{len(found.runs)}, of which {sum(run.counts for run in found.runs)} count; "
            f"{doubtful} with something to doubt",
            warning=doubtful > 0,
        )
    )
    return summary


def _blocked_runs(found: Conclusions) -> Iterable[Finding]:
    """Blocking in all runs, also in those that belong to no sweep of rates."""
    ours = [
        run
        for run in found.runs
        if run.group.target == OURS and run.counts and run.blocked_share is not None
    ]
    if not ours:
        return
    shares = {run.run_id: run.blocked_share or 0.0 for run in ours}
    worst = max(shares, key=lambda run_id: shares[run_id])
    blocked = sum(share > 0 for share in shares.values())
    runs = several(len(shares), f"run of {OURS}", f"runs of {OURS}")
    text = f"in {blocked} of {runs} an operation waited"
    if blocked:
        text += f", at most {shares[worst]:.2%} of the time ({worst})"
    barred = sum(not run.of_zookeeper for run in ours)
    text += f"; {barred} of them do not show how much ZooKeeper can take" if barred else ""
    yield Finding("ZooKeeper blocking KRaft", text)


def _knee_text(sweep: SweepOfRates) -> str:
    assert sweep.knee is not None
    at = sweep.knee
    if at.next_rate is None:
        return f"{rate_text(at)}; not reached by this sweep"
    limit = limit_at(sweep, at.next_rate)
    if limit.by is None:
        whose = "whether it is ZooKeeper's own knee is not known"
    elif limit.by.key is Key.ZOOKEEPER:
        whose = "ZooKeeper's own knee"
    else:
        whose = "not the knee of ZooKeeper, which this sweep does not reach"
    return f"{rate_text(at)}; not at {at.next_rate:,.0f}: {whose}. {limit.text}"


def _of_rates(found: Conclusions) -> list[SweepOfRates]:
    """Those of several rates; without those of stalls that have pictures of their own.

    With Kafka beside it a stall is a comparison, of which those pictures show one half.
    """
    compared = {sweep.group.scenario for sweep in found.sweeps if sweep.group.target != OURS}
    return [
        sweep
        for sweep in found.sweeps
        if sweep.rates > 1
        and not (found.stalls and sweep.group.stalled and sweep.group.scenario not in compared)
    ]


def _curves(found: Conclusions) -> Iterable[Block]:
    by_latency: dict[tuple[str, float], list[SweepOfRates]] = defaultdict(list)
    for sweep in _of_rates(found):
        by_latency[sweep.group.scenario, sweep.group.latency_ms].append(sweep)
    for (scenario, latency), sweeps in sorted(by_latency.items()):
        names = _names(sweeps)
        far = f", {latency:g} ms added to each request to ZooKeeper" if latency else ""
        knees = {
            names[sweep.group]: (sweep.knee.low, sweep.knee.next_rate)
            for sweep in sweeps
            if sweep.knee is not None and sweep.knee.low is not None
        }
        for title, unit, value, logarithmic in _CURVES:
            yield charts.by_rate(
                f"{title}: {scenario}{far}",
                unit,
                {names[sweep.group]: charts.repeats(sweep.runs, value) for sweep in sweeps},
                logarithmic=logarithmic,
                knees=knees,
            )
    if by_latency:
        yield Note(
            "Each mark is a repeat; the line joins their medians, the band is the interval of the "
            f"median ({REPEATS} repeats or more). The bar at the foot of a chart is the knee of "
            "its colour: somewhere in it a sweep ceases to keep up. Drag to zoom, double click for "
            "all rates. Keys on a picture: ← → move, + \u2212 zoom, 0 all rates."
        )


def _names(sweeps: Sequence[SweepOfRates]) -> dict[Group, str]:
    """What tells sweeps of one picture from each other: their target alone, if that does."""
    targets = [sweep.group.target for sweep in sweeps]
    alone = len(set(targets)) == len(targets)
    return {sweep.group: whose(sweep) if alone else sweep.group.label for sweep in sweeps}


def _copies(found: Conclusions) -> Iterable[Block]:
    if found.copies:
        yield Note(
            "First copies out of ZooKeeper: seconds from the claim, when the controller before it "
            "ends to be one, to dual write, as fixed + partitions times a constant, by least "
            "squares of relative errors over medians of repeats. off: the greatest residual."
        )
    yield from table(
        [
            {
                "target": each.target,
                "partitions_per_topic": each.per_topic,
                "fixed_s": each.fixed_s,
                "us_per_partition": each.each_us,
                "r_squared": each.r_squared,
                "off": f"{each.off:.1%}",
                "measured": ", ".join(f"{size:,}: {took:.3g} s" for size, took in each.sizes),
            }
            for each in found.copies
        ]
    )


def _knees(found: Conclusions) -> Iterable[Block]:
    knees = []
    for sweep in _of_rates(found):
        if sweep.knee is not None:
            at = sweep.knee
            knees.append(
                {
                    "sweep": sweep.group.label,
                    "scenario": sweep.group.scenario,
                    "low_per_s": at.low,
                    "high_per_s": at.high,
                    "not_at_per_s": at.next_rate,
                    "repeats": at.repeats,
                    "unblocked_low_per_s": sweep.unblocked and sweep.unblocked.low,
                    "unblocked_high_per_s": sweep.unblocked and sweep.unblocked.high,
                    "limited_by": at.next_rate and limit_at(sweep, at.next_rate).text,
                }
            )
    if not knees:
        return
    yield Note(
        f"The highest rate at which, there and at each lower rate, at least {ACHIEVED:.0%} of the "
        "intended changes were answered without error in time, the lag has no upward trend (the "
        "lower end of Sen's 95 % interval of its slope is at most "
        f"{TREND_SHARE:.0%} of what is committed), and p99 is at most {P99_FACTOR:g} times that of "
        "the lowest rate. Each is judged on the interval of the median over repeats, two order "
        f"statistics that hold it in {COVERAGE:.0%} or more, which takes {REPEATS} repeats: low is "
        "the rate up to which all hold, high the one before the first that fails. unblocked: the "
        f"lag's p99 is within {found.lag_limit_ms:g} ms, {PERIODS} times as long as the time "
        "between two readings of it or longer, and no change ever waited; not of rows from which "
        "nothing of ZooKeeper follows. limited_by: at the rate that fails."
    )
    yield from table(knees)
    yield from table(
        [
            {
                "sweep": sweep.group.label,
                "rate_per_s": verdict.rate,
                "repeats": verdict.repeats,
                "achieved": verdict.achieved,
                "lag_growth": verdict.growth,
                "p99_ms": verdict.p99_ms,
                "fails": ", ".join(verdict.fails) or "nothing",
                "cannot_be_said": ", ".join(verdict.unsure) or "nothing",
            }
            for sweep in _of_rates(found)
            for verdict in sweep.verdicts
        ]
    )


def _cost(found: Conclusions) -> Iterable[Block]:
    rows = [
        {"sweep": sweep.group.label, **fields(sweep.cost)}
        for sweep in found.sweeps
        if sweep.cost is not None
    ]
    if rows:
        yield Note(
            "Busy time of ZooKeeper per slice = a + b records + c multis, by least squares over "
            "slices of all runs that show how much ZooKeeper can take; residuals are those of the "
            "same slices. Where records and multis are not separable, only their sum counts."
        )
    yield from table(rows)


def _counterfactuals(found: Conclusions) -> Iterable[Block]:
    if found.counterfactuals:
        yield Note(
            "Difference of p99 between runs with the same arrivals, with and without writing to "
            f"ZooKeeper: the median of the pairs and its interval, which takes {REPEATS} of them."
        )
    yield from table([fields(each) for each in found.counterfactuals])


def _anomalies(found: Conclusions) -> Iterable[Block]:
    shown = found.anomalies[:_SHOWN_ANOMALIES]
    yield from table([{"run": each.run_id, "what": each.what} for each in shown])
    if len(found.anomalies) > len(shown):
        yield Note(f"{len(found.anomalies) - len(shown):,} more are not shown.")


def _runs(found: Conclusions, described: Sequence[Record]) -> Iterable[Block]:
    achieved = {row["run_id"]: row["achieved_per_s"] for row in described}
    if any(achieved.values()):
        yield Note(
            "achieved: the share of what was due in the steady window that was answered without "
            f"error, at most {GRACE:.0%} of the window late. achieved_per_s: answers of the whole "
            "run by the time they took, to the end of the schedule or, where answers take longer, "
            f"until {SETTLED:.0%} of them had come: the figure of a load that comes at once."
        )
    yield from table(
        [
            {
                "run": run.run_id,
                "rate_per_s": run.rate,
                "achieved": run.achieved,
                "achieved_per_s": achieved.get(run.run_id),
                "p50_ms": run.p50_ms,
                "p99_ms": run.p99_ms,
                "lag_p99_low_ms": run.lag_p99_low_ms,
                "lag_p99_high_ms": run.lag_p99_high_ms,
                "judged_from_ms": run.judged_from_ms,
                "lag_p99_records": run.lag_p99_records,
                "blocked_share": run.blocked_share,
                "blocked_operations": run.blocked_operations,
                "utilisation": run.utilisation,
                "records_per_multi": run.records_per_multi,
                "others_cores": run.others_cores,
                "counts": run.counts,
            }
            for run in found.runs
        ]
    )


def _method(described: Sequence[Record], made: str) -> Iterable[Block]:
    for caveat in _CAVEATS.strip().splitlines():
        yield Note(caveat)
    for title, column in (
        ("Runs were taken with", "command"),
        ("Warm-up", "warm_up"),
        ("Versions", "versions"),
        ("Machine of the runs", "machine"),
    ):
        for value in sorted({row[column] for row in described if row[column]}):
            yield Note(f"{title}: {_plain(value)}")
    loads = [row["load_1_min"] for row in described if row["load_1_min"] is not None]
    others = [row["others_cores"] for row in described if row["others_cores"] is not None]
    for name, values in (("Load average", loads), ("Cores used by others", others)):
        if values:
            yield Note(f"{name} during the runs: {min(values):.2f} to {max(values):.2f}")
    yield Note(made)


def how_made(command: str, where: str) -> str:
    """By which command, when and by what a report is made.

    Args:
        command: the command that makes it again.
        where: where the Parquet behind it lies.
    """
    packages = ("pyspark", "numpy", "scipy")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return (
        f"This report: {command}; {now}; Python {platform.python_version()}, {versions}; load "
        f"average {os.getloadavg()[0]:.2f}; Parquet behind it: {where}"
    )


def _plain(text: str) -> str:
    """JSON objects as words; other texts as they are."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    if not isinstance(found, dict):
        return text
    return ", ".join(f"{name} {value}" for name, value in found.items())
