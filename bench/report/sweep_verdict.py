"""What a sweep comes to: four answers in words, and a sentence of them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from bench.analysis.limits import Key, Limited
from bench.analysis.sweep.conclusions import (
    KAFKA,
    OURS,
    Conclusions,
    SweepOfRates,
    first_limit,
    rate_text,
    same_but_target,
)
from bench.analysis.sweep.knee import ACHIEVED, Knee
from bench.analysis.sweep.one_run import Run
from bench.analysis.sweep.stalls import StallCell
from bench.lines import changes_a_second
from bench.load.figures import REPEATS
from bench.report.blocks import Answer
from bench.report.strips import in_percent
from emulator.config.words import duration, several

_AT_LEAST: Final = " at least"
_UNKNOWN: Final = "up to a rate that cannot be said"


def sweep_answers(found: Conclusions) -> tuple[Answer, ...]:
    """How far ZooKeeper keeps up, what limited it, when it blocks, and what is noise."""
    sweep, beside = main_sweep(found)
    limit = _limit(sweep, beside, found.lag_limit_ms)
    return _rate(found, sweep, beside), limit, _blocked(found), _noise(found)


def sweep_verdict(answers: Iterable[Answer]) -> str:
    """How far ZooKeeper keeps up and what limited first, else the first thing that is known."""
    rate, limit, *others = (one.short for one in answers)
    first = " ".join(filter(None, (rate, limit))) or next(filter(None, others), "")
    return first or "These runs say nothing together."


def main_sweep(found: Conclusions) -> tuple[SweepOfRates | None, SweepOfRates | None]:
    """The sweep of ours that the page begins with, nearest to ZooKeeper, and Kafka's beside it."""
    ours = [one for one in found.sweeps if one.rates > 1 and one.group.target == OURS]
    if not ours:
        return None, None
    first = min(ours, key=lambda one: (one.group.latency_ms, -one.rates, str(one.group)))
    others = [one for one in found.sweeps if one.group.target != OURS and one.rates > 1]
    same = (one for one in others if same_but_target(one.group, first.group))
    return first, next(same, None)


def _rate(found: Conclusions, sweep: SweepOfRates | None, beside: SweepOfRates | None) -> Answer:
    question = "Up to which rate does ZooKeeper keep up?"
    if sweep is None or sweep.unblocked is None:
        text = "No rates of one case are among these runs: it takes two or more."
        return Answer(question, "Not asked", "open", text, "")
    at = sweep.unblocked
    limit = duration(found.lag_limit_ms)
    meaning = f"p99 of its lag within {limit}, 99 % of the changes done, none waits for it"
    within = f"(p99 of its lag within {limit})"
    if at.repeats < REPEATS and at.low != at.high:
        seen = _seen(sweep, found.lag_limit_ms)
        top = ", the highest measured" if _kept_up(sweep, found.lag_limit_ms)[1] else ""
        text = f"Kept up: {meaning}"
        short = f"ZooKeeper kept up with {OURS} {seen}{top} {within}"
        if beside is not None:
            theirs = f"ith {whose(beside)} {_seen(beside, found.lag_limit_ms)}"
            text, short = f"{text}. W{theirs}", f"{short}; w{theirs}"
        word = f"{seen[:1].upper()}{seen[1:]}"
        if top or word.endswith(_AT_LEAST):
            word = word.removesuffix(_AT_LEAST).replace("Up to", "At least", 1)
        word = "Cannot be said" if seen == _UNKNOWN else word
        times = "once" if at.repeats == 1 else f"{at.repeats} times"
        sure = f"not certain: each rate was measured {times}, and {REPEATS} times are needed"
        return Answer(question, word, "open", f"{text}.", f"{short}.", sure)
    short = f"ZooKeeper keeps up with {OURS} {_up_to(at)} {within}"
    text = f"Kept up: {meaning}. Ours {_up_to(at)}."
    if beside is not None and beside.unblocked is not None:
        theirs = _up_to(beside.unblocked)
        text += f" With {whose(beside)}, seen by the same instrument: {theirs}."
        short += f"; with {whose(beside)} {theirs}"
    sure = f"by the interval of the median of {several(at.repeats, 'repeat')} or more"
    return Answer(question, _word(at), "good" if at.low else "open", text, f"{short}.", sure)


def _kept_up(sweep: SweepOfRates, limit_ms: float) -> tuple[list[float], bool]:
    """Rates up to which all runs kept up, whatever chance had to do with it; whether all did."""
    held: dict[float, bool] = {}
    for run in sweep.runs:
        lag_ms, rate = run.lag_p99_high_ms, run.rate or 0.0
        kept_up = lag_ms is not None and lag_ms <= limit_ms and not run.blocked_operations
        held[rate] = held.get(rate, True) and kept_up and (run.achieved or 0.0) >= ACHIEVED
    rates = [*itertools.takewhile(lambda rate: held[rate], held)]
    return rates, len(rates) == len(held)


def _seen(sweep: SweepOfRates, limit_ms: float) -> str:
    """The highest of these rates, and whether it is known that it was the last one."""
    rates, whole = _kept_up(sweep, limit_ms)
    beyond = [run for run in sweep.runs if (run.rate or 0.0) not in rates]
    last = whole or any(_fell_behind(run, limit_ms) for run in beyond if run.rate == beyond[0].rate)
    if not rates:
        return "at no rate" if last else _UNKNOWN
    return f"up to {changes_a_second(rates[-1])}{'' if last else _AT_LEAST}"


def _fell_behind(run: Run, limit_ms: float) -> bool:
    """Whether ZooKeeper did for certain: not by a full machine, nor by readings far apart."""
    judged_from_ms, lag_ms = run.judged_from_ms, run.lag_p99_low_ms
    late = judged_from_ms is not None and judged_from_ms <= limit_ms
    late = late and lag_ms is not None and lag_ms > limit_ms
    less = run.achieved is not None and run.achieved < ACHIEVED
    return run.of_zookeeper and (bool(run.blocked_operations) or less or late)


def whose(sweep: SweepOfRates) -> str:
    """The target of a sweep, as a sentence names it."""
    return "Kafka's controller" if sweep.group.target == KAFKA else sweep.group.target


def _up_to(at: Knee) -> str:
    """How far a sweep keeps up, as a part of a sentence.

    >>> _up_to(Knee(200.0, 200.0, None, 5)), _up_to(Knee(200.0, 400.0, None, 5))
    ('up to 200 changes/s, the highest measured', 'up to 200 changes/s at least')
    >>> _up_to(Knee(None, None, 50.0, 5)), _up_to(Knee(None, 50.0, 100.0, 5))
    ('not even at 50 changes/s', 'up to a rate that cannot be said, less than 100 changes/s')
    """
    if at.high is None:
        return f"not even at {changes_a_second(at.next_rate or 0.0)}"
    if at.low is None:
        under = "" if at.next_rate is None else f", less than {changes_a_second(at.next_rate)}"
        return f"up to a rate that cannot be said{under}"
    if at.next_rate is None and at.low < at.high:
        return f"up to {changes_a_second(at.low)} at least"
    return rate_text(at)


def _word(at: Knee) -> str:
    """Few words of a knee.

    >>> _word(Knee(200.0, 200.0, 400.0, 5)), _word(Knee(800.0, 800.0, None, 5))
    ('200 changes/s', '800 changes/s or more')
    >>> _word(Knee(200.0, 400.0, 800.0, 5)), _word(Knee(None, None, 50.0, 5))
    ('200 to 400 changes/s', 'Less than 50 changes/s')
    """
    if at.high is None:
        return f"Less than {changes_a_second(at.next_rate or 0.0)}"
    if at.low is None:
        return "Cannot be said"
    if at.low < at.high:
        return f"{at.low:,.0f} to {changes_a_second(at.high)}"
    return f"{changes_a_second(at.low)}{' or more' if at.next_rate is None else ''}"


def _key(limit: Limited) -> Key | None:
    """The resource that limited; None: none did, or it is not known."""
    return None if limit.by is None else limit.by.key


def _limit(sweep: SweepOfRates | None, beside: SweepOfRates | None, limit_ms: float) -> Answer:
    question = "What limited it?"
    if sweep is None:
        return Answer(question, "Not asked", "open", "There is no sweep of rates.", "")
    limit = first_limit(sweep)
    unknown = sorted({name for run in sweep.runs for name in run.limit.unknown})
    not_known = f"how full {', '.join(unknown)} was is not known" if unknown else ""
    if limit is None:
        most = changes_a_second(sweep.runs[-1].rate or 0.0)
        top = f"Up to {most} nothing that was measured was full."
        if not_known:
            return Answer(question, "Nothing known", "open", top, "", not_known)
        return Answer(question, "Nothing", "good", top, "Nothing was full.", "measured")
    rate, first = limit
    name = first.by.name if first.by is not None else "something"
    name = f"{name[:1].upper()}{name[1:]}"
    still = ", though ZooKeeper kept up there" if rate in _kept_up(sweep, limit_ms)[0] else ""
    text = f"From {changes_a_second(rate)} on{still}. {first.text}."
    if first.by is not None and first.by.counts_from:
        text += f" Our limit is {first.by.counts_from}."
    theirs = None if beside is None else first_limit(beside)
    if beside is not None and theirs is not None:
        text += f" With {whose(beside)} from {changes_a_second(theirs[0])} on."
        if _key(theirs[1]) is not _key(first):
            text += f" {theirs[1].text}."
    why = re.split(r", so |, and |; |\. ", first.text.partition(": ")[2])[0]
    if first.by is not None and first.by.counts_from:
        why += f", our limit is {first.by.counts_from}"
    short = f"{name} {'were' if name.endswith('s') else 'was'} the first limit: {why}."
    sure = not_known or "as measured"
    return Answer(question, name, "full", text, short, sure)


def _blocked(found: Conclusions) -> Answer:
    question = "When did ZooKeeper block KRaft?"
    cells = [cell for grid in found.stalls for cell in grid.cells]
    ours = [run for run in found.runs if run.group.target == OURS and run.counts]
    told = [run for run in ours if run.blocked_share is not None]
    if any(cell.stall_s for cell in cells):
        return _stalled(question, cells)
    if not told:
        text = "No controller of ours wrote a trace in these runs."
        return Answer(question, "Not known", "open", text, "")
    blocked = [run for run in told if run.blocked_share]
    barred = sum(not run.of_zookeeper for run in told)
    sure = (
        f"counted, but {barred} of these runs do not show how much ZooKeeper can take"
        if barred
        else "counted"
    )
    if not blocked:
        text = f"In {several(len(told), 'run')} no operation waited for ZooKeeper."
        state = "open" if barred else "good"
        return Answer(
            question, "Never, in these runs", state, text, "No change waited for it.", sure
        )
    worst = max(blocked, key=lambda run: run.blocked_share or 0.0)
    share = in_percent(worst.blocked_share or 0.0)
    text = f"At most {share} of the time: {worst.run_id}."
    word = f"In {len(blocked)} of {several(len(told), 'run')}"
    return Answer(
        question, word, "full", text, f"It blocked KRaft for up to {share} of the time.", sure
    )


def _stalled(question: str, cells: Sequence[StallCell]) -> Answer:
    waits = [cell for cell in cells if cell.middle_s]
    held = sum(cell.holds for cell in cells)
    sure = f"{held} of {several(len(cells), 'case')} as predicted"
    if not waits:
        text = f"In {several(len(cells), 'case')} no change waited, in no stall."
        return Answer(
            question, "Never, in these runs", "good", text, "No change waited for it.", sure
        )
    worst = max(waits, key=lambda cell: cell.middle_s)
    only = all(cell.stall_s for cell in waits)
    word = (
        "Only while it was stalled" if only else f"In {len(waits)} of {several(len(cells), 'case')}"
    )
    stall = f"a stall of {duration(1e3 * worst.stall_s)}" if worst.stall_s else "no stall"
    text = (
        "A test of its own, in which ZooKeeper was stopped for a time: "
        f"in {len(waits)} of {several(len(cells), 'case')} some change waited, for up to "
        f"{duration(1e3 * worst.middle_s)} ({stall}, {changes_a_second(worst.rate)}, bound "
        f"{worst.bound:,})."
    )
    when = "only while it was stalled" if only else "also while it ran"
    short = f"It blocked KRaft {when}, for up to {duration(1e3 * worst.middle_s)} in {stall}."
    return Answer(question, word, "full", text, short, sure)


def _noise(found: Conclusions) -> Answer:
    question = "How much of a difference is noise here?"
    by_name = {one.figure: one for one in found.noise}
    one = by_name.get("commit p99") or next(iter(by_name.values()), None)
    if one is None or not math.isfinite(one.most):
        text = "It takes repeats of the same code at one rate."
        return Answer(question, "Not known", "open", text, "")
    text = (
        f"By so much does {one.figure} differ between two halves of the repeats of one rate, of "
        f"the same code: 95 % of the time by less, half of the time by {in_percent(one.middle)}."
    )
    sure = f"{one.deals:,} ways to halve the repeats of {several(len(one.rates), 'rate')}"
    return Answer(question, f"Up to {in_percent(one.most)}", "full", text, "", sure)


def unknown(found: Conclusions) -> list[str]:
    """What these runs do not say, in sentences."""
    runs = [run for run in found.runs if run.counts]
    barred = [run for run in runs if not run.of_zookeeper]
    few = min((run_count for run_count in _repeats(runs)), default=0)
    texts = []
    if barred:
        texts.append(
            f"{len(barred)} of {several(len(runs), 'run')} do not show how much ZooKeeper can "
            "take: the machine was full, or the client late"
        )
    if runs and few < REPEATS:
        texts.append(
            f"Some rate was measured {'once' if few == 1 else f'{few} times'}: of fewer than "
            f"{REPEATS} repeats there is no interval"
        )
    if any(run.group.target != OURS for run in runs):
        texts.append(
            "Of Kafka's controller there is no trace: how full its event loop and its log's sync "
            "were, and what its changes waited for"
        )
    doubtful = len({one.run_id for one in found.anomalies})
    if doubtful:
        are = "is" if doubtful == 1 else "are"
        texts.append(f"{several(doubtful, 'run')} not to be believed at once {are} named below")
    return texts or ["Nothing that these pages ask is left open by the runs"]


def _repeats(runs: Iterable[Run]) -> list[int]:
    found: dict[object, int] = {}
    for run in runs:
        if run.rate is not None:
            key = (run.group, run.rate)
            found[key] = found.get(key, 0) + 1
    return [*found.values()]
