"""Tables of speed beside Kafka's controller are what the kept rows give."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from tools import kept, speeds
from tools.kept import KAFKA, OURS, filled, rows


def row(target: str, repeat: int, **figures: Any) -> dict[str, Any]:
    return {"case": "a", "target": target, "repeat": repeat, **figures}


def test_a_ratio_is_the_median_of_the_rounds_ratios_and_not_of_the_medians() -> None:
    values = {OURS: (10.0, 20.0, 90.0), KAFKA: (10.0, 40.0, 30.0)}
    found = [
        row(target, repeat, x=value)
        for target, each in values.items()
        for repeat, value in enumerate(each, 1)
    ]
    (some,) = speeds.pairs(found).values()
    assert speeds.beside(some, "x") == "20 / 30"
    assert speeds.ratio(some, "x") == "1.00 (0.50 - 3.00)"


@pytest.mark.parametrize("page", ["", "{0}{1}{1}", "{1}{0}", "{0}"])
def test_a_page_without_both_marks_is_left_as_it_is(page: str) -> None:
    marks = "<!-- a, from kept rows: written by make docs -->\n", "<!-- a end -->\n"
    with pytest.raises(ValueError, match="the marks of a"):
        filled(page.format(*marks), {"a": lambda: iter("x")})


def test_what_no_round_has_is_not_shown_as_a_number() -> None:
    some = [(row(OURS, 1, x=None), row(KAFKA, 1, x=3.0))]
    assert speeds.beside(some, "x") == "- / 3"
    assert speeds.ratio(some, "x") == "-"


def test_rows_that_did_not_get_there_do_not_leave_the_median_to_the_fast_ones() -> None:
    values = {OURS: (10.0, 20.0, 30.0), KAFKA: (10.0, None, 30.0)}
    found = [
        row(target, repeat, x=value)
        for target, each in values.items()
        for repeat, value in enumerate(each, 1)
    ]
    (some,) = speeds.pairs(found).values()
    assert speeds.beside(some, "x") == "20 / -"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"void": "the trees differ"}, "is void: the trees differ"),
        ({"versions": "Python 3.11.7 (main), Kafka 3.9.2"}, "Python 3.11.2 .* and Python 3.11.7"),
    ],
)
def test_a_row_that_is_void_or_of_another_build_is_in_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], why: str
) -> None:
    _, found = rows("isr-churn-*.jsonl")
    monkeypatch.setattr(kept, "ROWS", tmp_path)
    lines = [json.dumps(one) for one in (*found, found[0] | change)]
    (tmp_path / "isr-churn-0.jsonl").write_text("\n".join(lines[:-1]))
    assert rows("isr-churn-*.jsonl")[1] == found
    (tmp_path / "isr-churn-0.jsonl").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=why):
        rows("isr-churn-*.jsonl")


def test_a_round_that_one_of_two_lacks_is_refused() -> None:
    with pytest.raises(KeyError, match=KAFKA):
        speeds.pairs([row(OURS, 1), row(OURS, 2), row(KAFKA, 1)])


def test_the_isr_table_has_each_rate_with_what_the_rows_say() -> None:
    _, found = rows("isr-churn-*.jsonl")
    lines = [one for one in "".join(speeds.isr()).splitlines() if one.startswith("| ")][1:]
    due = sorted({one["rate_per_s"] for one in found})
    assert [one.split(" |")[0] for one in lines] == [f"| {rate:,.0f}" for rate in due]
    for rate, line in zip(due, lines, strict=True):
        for target in (OURS, KAFKA):
            some = [one for one in found if (one["rate_per_s"], one["target"]) == (rate, target)]
            of_both = line.split(" | ")[1].split(" / ")
            middle = statistics.median(one["zk_changes_per_s"] for one in some)
            assert of_both[target == KAFKA] == f"{middle:,.0f}"


@pytest.mark.parametrize(
    ("change", "limits"),
    [
        ({"machine_busy": 0.95}, "the machine's cores"),
        ({"machine_busy": 0.5}, "nothing"),
        ({"machine_busy": 0.5, "frozen_s": 5.0}, "ZooKeeper, stopped"),
        ({"machine_busy": 0.5, "achieved_per_s": 1.0}, "not known"),
    ],
)
def test_what_limited_is_that_of_the_rows(change: dict[str, float], limits: str) -> None:
    _, found = rows("isr-churn-*.jsonl")
    one = next(one for one in found if (one["rate_per_s"], one["target"]) == (500, OURS))
    assert speeds.full([one | change]) == limits


@pytest.mark.parametrize("name", [name for name in speeds.TABLES if name != "verdict"])
def test_no_table_is_empty(name: str) -> None:
    text = "".join(speeds.TABLES[name]())
    assert text.count("\n| ") >= 3, "a head and two rows"
    assert "nan" not in text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, []),
        ({"others_cores": 0.62}, ["kafka: others used 0.6 cores"]),
        ({"late_p99_ms": 84.8}, ["kafka: the client was late itself, by 85 ms at p99"]),
    ],
)
def test_a_row_of_a_late_client_is_to_be_doubted(change: dict[str, float], says: list[str]) -> None:
    plain = {"target": KAFKA, "others_cores": 0.1, "late_p99_ms": 2.0}
    assert list(speeds.doubts(plain | change)) == says
    _, found = rows("once-*.jsonl")
    said = "".join(speeds.once())
    for row in found:
        case = f"{row['scenario']}.{row['case']}"
        if any(case == one.case and row["target"] in one.targets for one in speeds._LINES):
            assert all(text in said for text in speeds.doubts(row))


def test_kafkas_copy_of_a_million_is_fifty_of_its_kept_copies_of_20_000() -> None:
    _, found = rows("once-*.jsonl")
    [row] = [one for one in found if one["scenario"] == "initial-copy" and one["target"] == KAFKA]
    assert speeds.kafkas_copy_s() == pytest.approx(50 * row["dual_write_s"])
    assert f"about {50 * row['dual_write_s'] / 60:.0f} minutes" in "".join(speeds.sizes())
