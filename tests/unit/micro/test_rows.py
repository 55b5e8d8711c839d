"""Rows of brokers: which are taken, kept and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.micro import cluster, fleets, forwarded
from bench.micro.fleets import RATES, highest
from bench.micro.forwarded import APIS, WAITS
from bench.micro.kept import KeptRows
from tests.unit.micro.asked import asked_of

ONE_SEARCH = ("--brokers", "50", "--controllers", "ours", "--modes", "kraft", "--seconds", "1")


def result(rate: int, *, in_time: bool) -> dict[str, Any]:
    return {"rate": rate, "in_time": in_time}


@pytest.mark.parametrize("limit", [0, *RATES])
def test_the_highest_rate_in_time_is_found_in_few_rows(limit: int) -> None:
    asked: list[int] = []

    def row(rate: int) -> dict[str, Any]:
        asked.append(rate)
        return result(rate, in_time=rate <= limit)

    best = highest(row)
    assert (best and best["rate"]) == (limit or None)
    assert len(asked) <= len(RATES).bit_length()


@pytest.mark.parametrize(
    ("what", "changed"),
    [
        ("a late heartbeat", {"heartbeats_under_load": {"count": 9, "p99_ms": 50.1}}),
        ("no heartbeat", {"heartbeats_under_load": {"count": 0}}),
        ("a change that was not made", {"isr": {"unfinished": 1}}),
        ("a broker that ended", {"ended_badly": {"refused": 1}}),
        ("a broker that did not come back", {"absent": {"refused": 1}}),
    ],
)
def test_a_rate_is_held_only_if_nothing_is_lost(what: str, changed: dict[str, Any]) -> None:
    found: dict[str, Any] = {
        "heartbeats_under_load": {"count": 9, "p99_ms": 50.0},
        "isr": {"unfinished": 0},
        "ended_badly": {},
        "absent": {},
    }
    assert fleets.in_time(found)
    assert not fleets.in_time(found | changed), what


def test_an_interrupted_run_takes_only_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []

    def row(_folder: Path, _zookeeper: object, key: dict[str, Any]) -> dict[str, Any]:
        if len(taken) == 2:
            raise KeyboardInterrupt
        taken.append(key["rate"])
        return {"in_time": key["rate"] <= 100}

    monkeypatch.setattr(fleets, "_row", row)

    def run() -> Any:
        return [*fleets.rows(asked_of(fleets, *ONE_SEARCH), tmp_path)]

    with pytest.raises(KeyboardInterrupt):
        run()
    before, taken = taken, []
    (found,) = run()
    assert found["rate"] == 100
    assert before
    assert not {*before} & {*taken}


def test_a_row_that_was_not_measured_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fleet that failed once would have been late at that rate for good."""
    answers = [{"in_time": False, "why": "not all brokers came up"}]
    monkeypatch.setattr(fleets, "_row", lambda *_: answers.pop() if answers else {"in_time": True})

    def run() -> Any:
        return [*fleets.rows(asked_of(fleets, *ONE_SEARCH), tmp_path)]

    first, second = run(), run()
    assert first[0]["rate"] < RATES[-1]
    assert second[0]["rate"] == RATES[-1]


def test_rows_of_other_code_and_a_torn_line_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "rows" / "rows.jsonl"
    rows = KeptRows(path, "new")
    rows.add({"rate": 10})
    KeptRows(path, "old").add({"rate": 25})
    with path.open("a") as file:
        file.write('{"rate": 50, "co')
    again = KeptRows(path, "new")
    assert again.find(rate=10) == {"rate": 10, "code": "new"}
    assert again.find(rate=25) is None
    assert again.find(rate=50) is None
    again.add({"rate": 100})
    assert KeptRows(path, "new").find(rate=100) is not None


def test_a_combination_that_is_late_everywhere_is_a_line_too() -> None:
    best = dict.fromkeys(fleets.FIGURES, 1.0) | {"isr_per_s": 1_234.5}
    found = [
        {"mode": "kraft", "brokers": 50, "controller": "ours", **best},
        {"mode": "kraft", "brokers": 50, "controller": "kafka", "rate": None},
    ]
    text, _ = fleets.summary(found)
    assert "| kraft | 50 | ISR changes/s | 1,234 | - | - |" in text
    assert text.splitlines()[-1] == "late at every rate: kraft, 50 brokers, kafka"


def test_the_first_turn_is_not_counted() -> None:
    rows = [
        {"API": what, "broker": name, "round": turn, "p99_ms": 9, "per_s": 1, "cpu_ms_each": 1}
        | {"p50_ms": 100 if not turn else 3 if name == "ours" else 2}
        for what in APIS
        for name in ("ours", "kafka")
        for turn in range(4)
    ]
    text, holds = forwarded.summary(rows)
    assert holds
    assert "| Metadata | p50, ms | 3 | 2 | 1.5 (1.5 - 1.5) |" in text
    assert f"| {WAITS} | p99, ms | 9 | 9 |" in text
    for row in rows:
        row["p50_ms"] += 2 * (row["broker"] == "ours")
    assert not forwarded.summary(rows)[1]


def start(brokers: int, seconds: float, which: str = cluster.LATER) -> dict[str, Any]:
    row = {"brokers": brokers, "fsync": True, "which": which, "start_s": seconds}
    return row | {"cpu_s": 0.1, "end_s": 0.1, "others_cores": 0.0}


@pytest.mark.parametrize(
    ("rows", "late"),
    [
        ([start(3, 0.4)], False),
        ([start(3, 0.6)], True),
        ([start(3, 0.4), start(3, 0.4), start(3, 2.0)], False),
        ([start(1, 0.6), start(3, 2.0, cluster.FIRST), start(3, 0.4)], False),
    ],
    ids=["in time", "late", "the median counts", "three brokers that start later"],
)
def test_a_start_of_three_brokers_has_a_limit(rows: list[dict[str, Any]], *, late: bool) -> None:
    text, holds = cluster.summary(rows)
    assert holds is not late
    assert text.count("\n") == 1 + len({(row["which"], row["brokers"]) for row in rows})
