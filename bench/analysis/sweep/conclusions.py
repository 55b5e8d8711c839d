"""What the measures of many runs say together. Plain Python over one row a run and slice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.analysis.limits import LATE_MS, Limited
from bench.analysis.sweep import fits
from bench.analysis.sweep.copies import CopyFit, copies
from bench.analysis.sweep.knee import (
    ACHIEVED,
    Knee,
    Verdict,
    at_most,
    between,
    bracket,
    by_rate,
    knee,
    verdicts,
)
from bench.analysis.sweep.noise import Noise, noise
from bench.analysis.sweep.one_run import Group, Record, Run, run_of
from bench.analysis.sweep.stalls import Predictions, StallGrid, assumed, stall_grids
from bench.lines import changes_a_second
from bench.load.figures import REPEATS, interval
from emulator.servers.machine import QUIET_CORES

LAG_P99_MS: Final = 200.0
OURS: Final = "kraft-bridge"
KAFKA: Final = "kafka"
WITHOUT_ZOOKEEPER: Final = "no-zookeeper"
_OFF_RATE: Final = 0.05


@dataclass(frozen=True, slots=True)
class SweepOfRates:
    """One group: its runs from the lowest rate up, and the results computed from them."""

    group: Group
    runs: list[Run]
    verdicts: list[Verdict]
    knee: Knee | None
    cost: fits.Cost | None
    unblocked: Knee | None
    """The same of the rate up to which at least 99 % were achieved, the lag's p99 is within the
    limit, and no operation was blocked."""
    rates: int


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """Runs beside the same runs without writing to ZooKeeper: differences of p99, ms.

    ``low_ms`` and ``high_ms``: the interval of their median; None of too few pairs.
    """

    label: str
    rate: float | None
    pairs: int
    median_ms: float
    low_ms: float | None
    high_ms: float | None


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that makes one run less believable."""

    run_id: str
    what: str


@dataclass(frozen=True, slots=True)
class Conclusions:
    """Everything a report of a sweep shows."""

    headline: str
    lag_limit_ms: float
    runs: list[Run]
    sweeps: list[SweepOfRates]
    counterfactuals: list[Counterfactual]
    copies: list[CopyFit]
    anomalies: list[Anomaly]
    predictions: Predictions | None
    stalls: list[StallGrid]
    noise: list[Noise]


def conclude(
    tables: Mapping[str, Sequence[Record]],
    lag_limit_ms: float = LAG_P99_MS,
    predictions: Predictions | None = None,
) -> Conclusions:
    """Conclude from the records of ``sweep.job.TABLES``.

    Args:
        tables: ``described``, ``runs``, ``slices``, ``stalls``.
        lag_limit_ms: the lag's p99 that the headline asks for.
        predictions: made before the runs; None: from what the rows say of ZooKeeper.
    """
    slices = _by(tables["slices"], "run_id")
    measured = {row["run_id"]: row for row in tables["runs"]}
    stalls = {row["run_id"]: row["stalls"] for row in tables["stalls"]}
    runs = [
        run_of(row, measured.get(row["run_id"]), slices[row["run_id"]], stalls)
        for row in sorted(tables["described"], key=lambda row: str(row["run_id"]))
    ]
    groups: dict[Group, list[Run]] = defaultdict(list)
    for run in runs:
        if run.counts and run.rate is not None:
            groups[run.group].append(run)
    sweeps = [
        _sweep(group, sorted(members, key=lambda run: run.rate or 0.0), slices, lag_limit_ms)
        for group, members in sorted(groups.items(), key=lambda item: str(item[0]))
    ]
    predictions = predictions or assumed(tables["described"])
    code = {row["run_id"]: row.get("code") or "" for row in tables["described"]}
    return Conclusions(
        headline=headline(sweeps, lag_limit_ms),
        lag_limit_ms=lag_limit_ms,
        runs=runs,
        sweeps=sweeps,
        counterfactuals=list(_counterfactuals(runs)),
        copies=copies(tables["described"]),
        anomalies=list(_anomalies(runs)),
        predictions=predictions,
        stalls=stall_grids(tables["described"], OURS, predictions),
        noise=noise(runs, code),
    )


def _by(rows: Iterable[Record], key: str) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for row in rows:
        found[row[key]].append(row)
    return found


def _sweep(
    group: Group, runs: list[Run], slices: Mapping[str, Sequence[Record]], limit_ms: float
) -> SweepOfRates:
    points = [run.measured for run in runs]
    judged = verdicts(points)
    rows = [row for run in runs if run.of_zookeeper for row in slices[run.run_id] if row["multis"]]
    repeats = by_rate(runs, lambda run: run.rate or 0.0)
    return SweepOfRates(
        group=group,
        runs=runs,
        verdicts=judged,
        knee=knee(points),
        cost=fits.cost(
            [row["records"] for row in rows],
            [row["multis"] for row in rows],
            [row["busy_ms"] for row in rows],
        ),
        unblocked=bracket(
            {rate: within(of, limit_ms) for rate, of in repeats.items()},
            min(map(len, repeats.values())),
        ),
        rates=len(judged),
    )


def within(repeats: Sequence[Run], limit_ms: float) -> bool | None:
    """Whether runs of one rate satisfy the headline, and nothing was ever blocked.

    None: it cannot be said, as of a machine that was full, or a client that was late. The limit
    must be ``PERIODS`` of the readings of each run: of a lag that lasts about as long as one of
    them, readings say little.
    """
    if not all(run.of_zookeeper for run in repeats):
        return None
    if any(run.blocked_operations for run in repeats):
        return False
    from_ms = [run.judged_from_ms for run in repeats]
    close = all(each is not None and each <= limit_ms for each in from_ms)
    lags = ((run.lag_p99_low_ms, run.lag_p99_high_ms) for run in repeats)
    held = [
        at_most((None if run.achieved is None else -run.achieved for run in repeats), -ACHIEVED),
        between(lags, limit_ms) if close else None,
    ]
    return False if False in held else None if None in held else True


def headline(sweeps: Sequence[SweepOfRates], limit_ms: float) -> str:
    """One sentence: the highest rate with a small lag and nothing blocked, beside Kafka's.

    Of several bounds of the lag the smallest that reaches the highest rate is shown, and beside it
    what was reached without a bound: there nothing can be blocked.
    """
    alike: dict[Group, list[SweepOfRates]] = defaultdict(list)
    for sweep in sweeps:
        if sweep.rates > 1 and sweep.group.target == OURS:
            alike[sweep.group._replace(bound_records=None)].append(sweep)
    if not alike:
        return "No sweep of rates of kraft-bridge is among these runs."
    kafkas = {sweep.group: sweep for sweep in sweeps if sweep.group.target == KAFKA}
    parts = []
    for group in sorted(alike, key=_order):
        theirs = next((kafkas[one] for one in kafkas if same_but_target(one, group)), None)
        beside = f", Kafka: {_rate(theirs)}" if theirs is not None else ""
        parts.append(f"{_of_bounds(alike[group], group)}{beside}")
    return (
        f"With the lag's p99 within {limit_ms:g} ms and nothing blocked, ZooKeeper keeps up with "
        f"kraft-bridge at {'; '.join(parts)}."
    )


def _of_bounds(sweeps: Sequence[SweepOfRates], group: Group) -> str:
    unbounded = [sweep for sweep in sweeps if sweep.group.bound_records == 0]
    bounded = sorted(
        (sweep for sweep in sweeps if sweep.group.bound_records != 0),
        key=lambda sweep: (-_reached(sweep), sweep.group.bound_records or 0),
    )
    where = f"at {group.latency_ms:g} ms of latency"
    parts = []
    if bounded:
        best = bounded[0]
        bound = best.group.bound_records
        named = "" if bound is None else f" with a bound of {bound:,} records"
        if named and len(bounded) > 1:
            named += f" (the best of {len(bounded)} bounds)"
        parts.append(f"{_rate(best)} {where}{named}")
    parts += [
        f"{_rate(sweep)} {'' if bounded else where + ' '}without a bound" for sweep in unbounded
    ]
    return ", ".join(parts)


def _order(group: Group) -> tuple[str, float, int, str]:
    return group.scenario, group.latency_ms, group.partitions_per_topic or 0, group.setting


def same_but_target(one: Group, other: Group) -> bool:
    """Whether two groups differ in target and bound at most: Kafka has none."""
    return one._replace(target="", bound_records=None) == other._replace(
        target="", bound_records=None
    )


def _reached(sweep: SweepOfRates) -> float:
    return (sweep.unblocked and sweep.unblocked.low) or 0.0


def _rate(sweep: SweepOfRates) -> str:
    assert sweep.unblocked is not None
    at, batch = sweep.unblocked, sweep.group.partitions_per_topic or 1
    text = rate_text(at, f" of {batch:,} partitions" if batch > 1 else "")
    notes = []
    if at.low is not None:
        done = [run.achieved_per_s for run in sweep.runs if run.rate == at.low]
        notes.append(f"{min(each or 0.0 for each in done):,.1f}/s carried out at least")
    if at.low != at.high:
        judged = [run.judged_from_ms for run in sweep.runs]
        if None in judged:
            notes.append("how closely the lag was read is not known")
        else:
            from_ms = max(each or 0.0 for each in judged)
            notes.append(f"its lag can be judged from {from_ms:,.0f} ms on")
    barred = first_limit(sweep, no_verdict=True)
    if barred is not None:
        notes.append(f"not judged at {changes_a_second(barred[0])}: {barred[1].text}")
    return f"{text} ({'; '.join(notes)})" if notes else text


def first_limit(sweep: SweepOfRates, *, no_verdict: bool = False) -> tuple[float, Limited] | None:
    """The lowest rate at which something limited a run, and what; None: at no rate.

    Args:
        sweep: with its runs from the lowest rate up.
        no_verdict: only what forbids a verdict on ZooKeeper counts.
    """
    for run in sweep.runs:
        if not run.of_zookeeper or (run.limit.warns and not no_verdict):
            return run.rate or 0.0, run.limit
    return None


def limit_at(sweep: SweepOfRates, rate: float) -> Limited:
    """What limited the runs of one rate: first what forbids a verdict, then what is known."""
    here = [run.limit for run in sweep.runs if run.rate == rate]
    return min(here, key=lambda limit: (limit.zookeeper is not False, limit.by is None))


def rate_text(at: Knee, each: str = "") -> str:
    """Between which rates a sweep stops to keep up, in words.

    >>> rate_text(Knee(200.0, 400.0, 800.0, 5)), rate_text(Knee(None, None, 50.0, 5))
    ('up to a rate between 200 and 400 changes/s', 'no rate measured, from 50 changes/s on')
    >>> rate_text(Knee(None, 50.0, None, 3))
    'a rate that 3 repeats cannot tell, it takes 5'
    >>> rate_text(Knee(200.0, 400.0, None, 5)), rate_text(Knee(None, 50.0, None, 5))
    ('200 changes/s at least', 'a rate that cannot be said')
    """
    if at.repeats < REPEATS and at.low != at.high:
        repeats = "1 repeat" if at.repeats == 1 else f"{at.repeats} repeats"
        return f"a rate that {repeats} cannot tell, it takes {REPEATS}"
    if at.high is None:
        return f"no rate measured, from {changes_a_second(at.next_rate or 0.0)}{each} on"
    if at.low == at.high:
        top = "" if at.next_rate is not None else ", the highest measured"
        return f"up to {changes_a_second(at.high)}{each}{top}"
    if at.next_rate is None:
        unsure = f"{changes_a_second(at.low)}{each} at least" if at.low else ""
        return unsure or "a rate that cannot be said"
    if at.low is None:
        return f"up to {changes_a_second(at.high)}{each} at most, if at any rate measured"
    return f"up to a rate between {at.low:,.0f} and {changes_a_second(at.high)}{each}"


def _counterfactuals(runs: Sequence[Run]) -> Iterable[Counterfactual]:
    pairs: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.of_zookeeper and run.pair is not None and run.p99_ms is not None:
            pairs[run.pair].append(run)
    found: dict[tuple[str, float | None], list[float]] = defaultdict(list)
    for members in pairs.values():
        without = [run for run in members if run.group.target == WITHOUT_ZOOKEEPER]
        writing = [run for run in members if run.group.target != WITHOUT_ZOOKEEPER]
        if len(without) == 1:
            for run in writing:
                assert run.p99_ms is not None
                assert without[0].p99_ms is not None
                found[run.group.label, run.rate].append(run.p99_ms - without[0].p99_ms)
    for (label, rate), differences in sorted(found.items(), key=str):
        ends = interval(differences) or (None, None)
        yield Counterfactual(label, rate, len(differences), fits.median(differences), *ends)


def blocked_by_utilisation(runs: Sequence[Run]) -> dict[str, list[tuple[float, float]]]:
    """Of the runs of ours that say it: sweep -> utilisation and blocked share of each, in order."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for run in runs:
        if run.of_zookeeper and run.group.target == OURS:
            point = run.utilisation, run.blocked_share
            if point[0] is not None and point[1] is not None:
                found[f"{run.group.scenario}: {run.group.label}"].append((point[0], point[1]))
    return {name: sorted(points) for name, points in found.items()}


def _anomalies(runs: Sequence[Run]) -> Iterable[Anomaly]:
    for run in runs:
        if run.void:
            yield Anomaly(run.run_id, f"void: {run.void}")
            continue
        if not run.counts:
            yield Anomaly(run.run_id, "no request was intended in its steady window")
            continue
        if run.others_cores is not None and run.others_cores > QUIET_CORES:
            yield Anomaly(run.run_id, f"other processes used {run.others_cores:.2f} cores")
        if run.late_p99_ms is not None and run.late_p99_ms > LATE_MS:
            yield Anomaly(run.run_id, f"the client itself was late: p99 {run.late_p99_ms:.1f} ms")
        if run.rate and run.intended > (1 + _OFF_RATE) * run.rate * run.seconds:
            yield Anomaly(
                run.run_id,
                f"{run.intended / run.seconds:,.1f}/s in its trace where {run.rate:,.1f}/s was due",
            )
        if run.noisy_stalls:
            yield Anomaly(run.run_id, f"{run.noisy_stalls} stalls of 50 ms or more")
        if run.lag_p99_high_ms is None:
            yield Anomaly(run.run_id, "the p99 of its lag is not known")
