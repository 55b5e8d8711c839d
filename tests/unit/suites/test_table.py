"""Where a test belongs, the reasons that are known, and the two files of the package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from bench.suites.classes import classes
from bench.suites.kept import Kept
from bench.suites.known import Known, known, reason_of
from bench.suites.reports import FAILED, LEFT_OUT, PASSED, Ended
from bench.suites.table import compare, details, table

ROOT = Path(__file__).resolve().parents[3]
ROW = Known("no metrics here", row="a row", text="metrics")


def ended(name, outcome, text=""):
    return Ended(f"[method:{name}]", name, outcome, text, 1.0)


def by_id(*all_of_them):
    return {one.id: one for one in all_of_them}


@pytest.mark.parametrize(
    ("ours", "text", "kafkas", "place"),
    [
        (PASSED, "", PASSED, "passed"),
        (PASSED, "", None, "passed"),
        (PASSED, "", FAILED, "passed_alone"),
        (FAILED, "", FAILED, "both"),
        (FAILED, "no metrics", PASSED, "explained"),
        (FAILED, "else", PASSED, "wrong"),
        (FAILED, "else", None, "wrong"),
    ],
)
def test_a_test_is_in_one_place(ours, text, kafkas, place):
    theirs = by_id(ended("t", kafkas)) if kafkas else {}
    row = compare("C", by_id(ended("t", ours, text)), theirs, [ROW], whole=True)
    places = ("passed", "passed_alone", "both", "explained", "wrong")
    assert [name for name in places if getattr(row, name)] == [place]
    assert row.good == (place != "wrong")


def test_what_was_left_out_is_counted_by_reason():
    some = by_id(ended("a", LEFT_OUT, "left out: combined mode"), ended("b", LEFT_OUT))
    row = compare("C", some, {}, [], whole=True)
    assert row.left_out == {"combined mode": 1, "an assumption of the test": 1}


def test_a_class_that_is_not_whole_is_not_good():
    row = compare("C", {}, {}, [], whole=False)
    assert not row.good
    assert "C (not whole)" in table([row])[2]


def test_the_table_and_what_is_below_it():
    ours = by_id(ended("a", PASSED), ended("b", FAILED, "metrics\nat x"), ended("c", FAILED, "x"))
    row = compare("C", ours, by_id(ended("a", FAILED)), [ROW], whole=True)
    assert table([row])[2:] == ["| C | 1 | 0 | 1 | 1 |", "| all | 1 | 0 | 1 | 1 |"]
    assert details([row]) == [
        "1 x no metrics here (divergence: a row): C.b",
        "failed on Kafka's alone: C.a",
        "WRONG: C.c: x",
    ]


def test_a_reason_may_name_the_test():
    one = Known("why", test=r"^C\.b")
    assert reason_of("C", ended("b()", FAILED, "any"), [one]) is one
    assert reason_of("C", ended("a()", FAILED, "any"), [one]) is None


def test_each_row_of_a_known_reason_is_one_of_the_divergence_page():
    text = (ROOT / "tools" / "divergence.toml").read_text()
    subjects = {key for one in tomllib.loads(text)["section"] for key in one.get("rows", {})}
    assert [one.row for one in known() if one.row and one.row not in subjects] == []


def test_each_known_reason_is_bound_to_a_test_or_a_text():
    for one in known():
        assert one.test or one.text, one
        re.compile(one.test)
        re.compile(one.text)


def test_the_short_form_has_three_classes():
    assert len([one for one in classes() if one.short]) == 3
    assert len({one.simple for one in classes()}) == len(classes())


def test_what_was_run_is_kept_unless_the_code_has_changed(tmp_path):
    path = tmp_path / "a" / "ours.json"
    kept = Kept("code")
    kept.add([ended("a", PASSED), ended("b", LEFT_OUT, "left out: run before")])
    kept.save(path)
    assert list(Kept.load(path, "code").ended) == ["[method:a]"]
    assert Kept.load(path, "another") is None


def test_a_test_that_is_cut_twice_has_failed():
    kept = Kept("code")
    for _ in range(2):
        assert not kept.ended
        kept.begun([ended("a", FAILED)], 60)
    assert kept.ended["[method:a]"].text.startswith("it did not end")
