"""What a run comes to, in words and in numbers, and the thresholds set for it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.report.analyze import SCHEMA, Analysis
from bench.report.beside import (
    CHECKS,
    EVENTS,
    NOTHING,
    Beside,
    RunCheck,
    RunEnd,
    RunEvent,
    read_beside,
    write_beside,
)
from bench.report.findings import (
    AS_SEEN,
    BOUND_DEFAULT,
    HARD_FACTOR,
    bounds_of,
    findings,
    limits_of,
)
from bench.report.page import page
from bench.report.verdict import MEASURES, judge, runs_of, threshold, verdict
from emulator.commands.json_forms import FORMS
from emulator.migration.settings import HARD_FACTOR as CONTROLLERS
from tests.unit.commands.running import run
from tests.unit.report.a_run import RUN, a_run, empty

FAILED = RunCheck("the stores are equal", False, "1 differs", True, "Do not finalise.")


def test_the_questions_are_answered_in_the_first_sentences() -> None:
    found = verdict(a_run(), RUN, Beside((FAILED, RunCheck("x", True))))
    assert found.text == (
        "Not safe: 1 of 2 checks of safety failed. Do not finalise. 100 of 1,000 changes were "
        "given up. ZooKeeper limited the run. ZooKeeper blocked KRaft for 3 s, 30% of the 10 s "
        "under load."
    )
    assert [(one.word, one.state) for one in found.answers] == [
        ("No", "bad"),
        ("Do not finalise", "bad"),
        ("ZooKeeper", "full"),
        ("3 s", "bad"),
        ("Not known", "open"),
    ]
    assert found.answers[2].sure.startswith("how full the log's sync, the event loop")
    assert "2 of them gave up" in found.answers[3].text
    together = "40 operations waited for ZooKeeper, in part at the same time, 30% of the 10 s under"
    assert found.answers[3].text.startswith(together)


def test_operations_that_waited_at_the_same_time_are_said_to() -> None:
    """3 operations, 2.72 s, and the slowest waited 2.72 s: no sum of three."""
    waited = "3 operations waited for ZooKeeper"
    for total_ms, says in ((8_900.0, f"{waited} at the same time, 30%"), (3e3, f"{waited}, 30%")):
        tables = a_run()
        tables["blocking"][0] |= {"blocked_operations": 3, "total_ms": total_ms}
        assert verdict(tables, RUN, NOTHING).answers[3].text.startswith(says)


def test_what_differs_is_in_the_first_card_and_a_lag_has_its_bound() -> None:
    """The key was small and last, and 623 % of nobody knew what."""
    key = "config topics/a retention.ms: ZooKeeper '1', metadata log '2'"
    safe, *_, blocked, _ = verdict(
        a_run(), RUN, Beside((replace(FAILED, wrong=(key, "x")),))
    ).answers
    assert safe.text.endswith(f"the first: the stores are equal: {key}.")
    assert "its lag reached 101% of its bound of 10,000 records" in blocked.text


def test_a_run_that_says_nothing_of_zookeeper_does_not_seem_to_contradict_itself() -> None:
    tables = a_run()
    shares = [
        row | {"value": 0.99} for row in tables["utilisation"] if row["resource"] == "blocked"
    ]
    row = tables["utilisation"][0]
    tables["utilisation"] = [row | {"resource": "machine", "value": 0.99}, *shares]
    tables["rate_summary"][0] |= {"achieved": 1000, "achieved_per_s": 100.0}
    on_time = verdict(tables, RUN, NOTHING)
    assert (on_time.answers[2].word, on_time.answers[2].short) == (
        "Not certain: ZooKeeper or CPU",
        "",
    )
    assert "99% of the 3.03 s under load" in on_time.answers[2].text
    assert "CPU was 99% busy too, so how much ZooKeeper can take" in on_time.answers[2].text
    tables["rate_summary"][0] |= {"achieved": 900, "achieved_per_s": 90.0}
    said = verdict(tables, RUN, NOTHING).text
    assert "how much ZooKeeper can take was not measured" in said
    assert "In this run ZooKeeper blocked KRaft for 3 s" in said
    assert "nothing follows" not in said


def test_what_is_not_known_is_no_good_news() -> None:
    found = verdict(empty(), RUN, NOTHING)
    assert [one.state for one in found.answers] == ["open"] * 5
    assert "not known" in found.text
    assert "Safe" not in found.text
    assert {name for name, value in found.measures.items() if value is not None} == {"missing_s"}
    assert found.measures.keys() == MEASURES.keys()


HELD = RunCheck("x", True)
OPEN = RunCheck("the stores are equal", None)
OF_SPEED = RunCheck("8 changes/s", False, "3.1", False)


@pytest.mark.parametrize(
    ("checks", "word", "state", "begins", "failed"),
    [
        ((HELD, OF_SPEED), "Yes", "good", "Safe: the one check of safety held.", 0.0),
        (
            (HELD, FAILED, OPEN),
            "No",
            "bad",
            "Not safe: 1 of 3 checks of safety failed. Do not",
            2.0,
        ),
        ((HELD, OPEN), "Not known", "open", "Not known to be safe: 1 of 2 checks of safety", 1.0),
        ((OF_SPEED,), "Not judged", "open", "Nothing limited", None),
        ((), "Not judged", "open", "Nothing limited", None),
    ],
)
def test_a_run_is_safe_only_by_checks_that_were_judged_and_held(
    checks: tuple[RunCheck, ...], word: str, state: str, begins: str, failed: float | None
) -> None:
    found = verdict(calm(), RUN, Beside(checks))
    assert (found.answers[0].word, found.answers[0].state) == (word, state)
    assert found.text.startswith(begins)
    assert found.measures["failed_checks"] == failed


ALL = {"machine": 0.2, "client": 1.0, "log_sync": 0.3, "event_loop": 0.1, "connections": 0.0}
ALL |= {"forwarding": 0.4, "zookeeper": 0.3, "blocked": 0.0}


def calm(**of_resources: float | None) -> dict[str, list[dict[str, Any]]]:
    """A run without a wait; other figures of its resources, None: not measured."""
    tables = a_run()
    tables["blocking"] = []
    row = tables["utilisation"][0]
    shares = {name: value for name, value in (ALL | of_resources).items() if value is not None}
    tables["utilisation"] = [row | {"resource": k, "value": v} for k, v in shares.items()]
    tables["rate_summary"][0] |= {"achieved": 1000, "achieved_per_s": 100.0}
    return tables


def test_a_calm_run_is_said_to_be_one() -> None:
    found = verdict(calm(), RUN, Beside((HELD,)))
    assert found.text == (
        "Safe: the one check of safety held. Nothing limited the run. "
        "ZooKeeper never blocked KRaft."
    )
    assert [one.state for one in found.answers] == ["good", "open", "good", "good", "open"]


NOT_CLOSED_TEXT = "at the end of a controller's trace, which was not closed,"


@pytest.mark.parametrize(
    ("why", "word", "doubt"),
    [
        (None, "Never", ""),
        (
            "no end",
            f"{AS_SEEN}; up to 1 s not recorded",
            f"up to 1 s {NOT_CLOSED_TEXT} is not recorded",
        ),
        (
            "deleted",
            f"{AS_SEEN}; some time not recorded",
            "some time of a controller is not recorded",
        ),
    ],
)
def test_the_page_and_the_console_say_the_same_of_a_trace_with_gaps(
    why: str | None, word: str, doubt: str
) -> None:
    """One said "? 0 ms" and the other "never" of the same run."""
    tables = calm()
    gap = {"run_id": RUN, "process": "controller-1", "why": why, "table": None, "at_ns": None}
    rows = 5 if why == "deleted" else None
    tables["missing"] = [gap | {"missing_rows": rows, "missing_s": 1.0}] if why else []
    card = verdict(tables, RUN, NOTHING).answers[3]
    [line] = [one.says for one in findings(tables) if one.about == "ZooKeeper blocking KRaft"]
    assert card.word == word
    assert line.lower().startswith(f"{word.lower()}: no operation waited for ZooKeeper".lower())
    assert doubt in card.sure
    assert line.endswith(f"; but {doubt}" if doubt else "of the bound of 10,000")
    html = page(tables, "x", [verdict(tables, RUN, NOTHING)])
    assert f"<b>{word.lower().partition('; ')[0]}</b>" in html
    tables["blocking"] = a_run()["blocking"]
    waited = verdict(tables, RUN, NOTHING).answers[3]
    assert waited.word == ("At least 3 s" if why else "3 s")
    assert ("blocked KRaft for at least 3 s" in waited.short) is bool(why)


@pytest.mark.parametrize("unknown", [name for name in ALL if name != "blocked"])
def test_a_resource_that_was_not_measured_is_not_known_to_have_had_room(unknown: str) -> None:
    *_, limit, blocked, _ = verdict(calm(**{unknown: None}), RUN, NOTHING).answers
    assert (limit.word, limit.state) == ("Nothing known", "open")
    assert limit.short.startswith("Nothing known limited the run; how full ")
    assert limit.short.endswith(" was is not known.")
    judges = unknown not in {"machine", "client"}
    assert blocked.state == ("good" if judges else "open")
    assert ("never" in blocked.short) is judges


@pytest.mark.parametrize(
    ("of_resources", "achieved"), [(dict.fromkeys(ALL), 1000), ({}, 980), ({}, None)]
)
def test_nothing_limited_only_a_run_that_did_what_was_due(
    of_resources: dict[str, float | None], achieved: int | None
) -> None:
    tables = calm(**of_resources)
    tables["utilisation"] += [a_run()["utilisation"][0] | {"value": 0.0}]
    tables["rate_summary"] = [row | {"achieved": achieved} for row in tables["rate_summary"]]
    tables["rate_summary"] *= achieved is not None
    found = verdict(tables, RUN, NOTHING).answers[2]
    assert (found.word, found.state) == ("Not known", "open")
    assert found.short == "What limited the run is not known."


@pytest.mark.parametrize(
    ("of_resources", "busy"),
    [({"machine": 1.0}, "CPU was 100% busy"), ({"client": 20.0}, "The client was 20 ms late")],
)
def test_what_was_full_held_nothing_up_where_all_was_done_in_time(
    of_resources: dict[str, float | None], busy: str
) -> None:
    found = verdict(calm(**of_resources), RUN, NOTHING)
    assert "limited" not in found.text
    card = found.answers[2]
    assert (card.word, card.state) == ("Nothing, at this load", "open")
    assert card.text.startswith(f"What was due was done in time. {busy}, so the most that can be")
    [said] = [one for one in findings(calm(**of_resources)) if one.about == "what limited this run"]
    assert said.says == (
        f"{card.word}: what was due was done in time. {busy}, so the most that can be done is not "
        "known"
    )


def test_a_run_is_safe_as_far_as_it_went() -> None:
    end = RunEnd("dual write (0 of 3 brokers in KRaft mode)", True, "Yes")
    found = verdict(calm(), RUN, Beside((HELD,), (), end))
    assert found.answers[0].word == "Yes, up to dual write"
    assert found.text.startswith(
        "Safe up to dual write, 0 of 3 brokers in KRaft mode: the one check of safety held. Moving "
        "brokers to KRaft mode was not tested."
    )
    moved = RunEnd("dual write (3 of 3 brokers in KRaft mode)", True, "Yes")
    assert "not tested" not in verdict(calm(), RUN, Beside((HELD,), (), moved)).text


@pytest.mark.parametrize(
    ("of_resources", "word", "short"),
    [
        (
            {"machine": 0.99},
            "The machine's cores",
            "so how much ZooKeeper can take was not measured.",
        ),
        ({"client": 99.0}, "The client", "so how much ZooKeeper can take was not measured."),
        ({"event_loop": 0.9}, "The event loop", "The event loop limited the run."),
        ({"event_loop": 0.9, "client": None}, "The event loop", "as far as is known."),
        ({"blocked": 0.3, "machine": None}, "ZooKeeper", "as far as is known."),
    ],
)
def test_what_limited_a_run_bars_what_it_says_of_zookeeper(
    of_resources: dict[str, float | None], word: str, short: str
) -> None:
    tables = calm(**of_resources)
    tables["rate_summary"][0] |= {"achieved": 900, "achieved_per_s": 90.0}
    *_, limit, blocked, _ = verdict(tables, RUN, NOTHING).answers
    [(_, found, _)] = limits_of(tables)
    assert (limit.word, limit.state) == (word, "full")
    assert limit.short.endswith(short)
    assert (blocked.state == "good") is ("never" in blocked.short) is (found.zookeeper is True)


@pytest.mark.parametrize(
    ("process", "missing_rows", "whole"),
    [
        ("controller-2 life 1", None, False),
        ("controller-1", 9, False),
        ("controller-1", -9, True),
        ("admin-load", 9, True),
    ],
)
def test_zookeeper_never_blocked_only_where_no_trace_of_a_controller_has_gaps(
    process: str, missing_rows: int | None, *, whole: bool
) -> None:
    tables, share = calm(), {"blocked_operations": 1, "timed_out_operations": 0, "union_ms": 1.0}
    row = {"run_id": RUN, "process": process, "why": "x", "missing_rows": missing_rows}
    tables["missing"] = [row | {"missing_s": 0.0}]
    found = verdict(tables, RUN, NOTHING).answers[3]
    assert found.state == ("good" if whole else "open")
    assert ("never" in found.short) is whole
    assert ("some time of a controller is not recorded" in found.sure) is not whole
    tables["blocking"] = [a_run()["blocking"][0] | share]
    assert verdict(tables, RUN, NOTHING).answers[3].state == ("good" if whole else "open")


def test_the_measures_are_those_of_the_tables() -> None:
    found = verdict(a_run(), RUN, Beside((FAILED,))).measures
    assert found == {
        "blocked_share": 0.3,
        "blocked_ms": 3000.0,
        "blocked_operations": 40.0,
        "p50_ms": 9.0,
        "p99_ms": math.inf,
        "given_up_share": 0.1,
        "achieved_share": 0.9,
        "lag_records": 10_100.0,
        "lag_ms": 3000.0,
        "lag_of_bound": 1.01,
        "missing_s": 0.0,
        "failed_checks": 1.0,
    }


@pytest.mark.parametrize(
    ("text", "value", "crossed"),
    [
        ("blocked_share>0.01", 0.3, True),
        ("blocked_share>0.3", 0.3, False),
        (" blocked_share >= 0.3 ", 0.3, True),
        ("achieved_share<0.99", 1.0, False),
        ("failed_checks!=0", 0.0, False),
        ("p99_ms>1e3", math.inf, True),
        ("p99_ms<1e3", None, True),
    ],
)
def test_a_threshold_is_crossed_also_by_what_is_not_known(
    text: str, value: float | None, *, crossed: bool
) -> None:
    assert threshold(text).crossed(value) is crossed


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("blocked>0.01", "no measure 'blocked'; there are blocked_share, blocked_ms,"),
        ("blocked_share", "is not MEASURE>NUMBER"),
        ("blocked_share=>1", "is not MEASURE>NUMBER"),
        ("blocked_share>many", "'many' is not a number"),
        ("blocked_share>nan", "'nan' is not a number"),
    ],
)
def test_a_threshold_that_is_none_is_refused_before_anything_is_started(
    text: str, says: str, tmp_path: Path
) -> None:
    code, _, complaint = run("analyze", tmp_path, "--out", tmp_path / "out", "--fail-if", text)
    assert code == 2
    assert says in complaint
    assert complaint.startswith("kraft-bridge: --fail-if ")
    assert not (tmp_path / "out").exists()


def test_the_summary_has_schema_verdict_checks_and_thresholds() -> None:
    found, beside = verdict(a_run(), RUN, Beside((FAILED,))), Beside((FAILED,))
    judged = judge([found], [threshold("p99_ms>1000"), threshold("lag_ms>1e6")])
    done = Analysis(Path("a"), "b", [], [found], beside, judged)
    summary = json.loads(json.dumps(done.summary(), allow_nan=False))
    assert summary["schema"] == SCHEMA == FORMS["analyze"].schema
    assert summary["verdict"][0]["measures"]["p99_ms"] is None
    assert summary["checks"][0]["remedy"] == "Do not finalise."
    assert judge([found], [threshold("lag_records>1")])[0].text == (
        "lag_records>1: lag_records is 10,100"
    )
    assert [(one["text"], one["crossed"]) for one in summary["thresholds"]] == [
        ("p99_ms>1000", True),
        ("lag_ms>1e6", False),
    ]


def test_each_run_of_a_trace_has_a_verdict() -> None:
    assert runs_of(a_run()) == [RUN]
    assert runs_of(empty()) == []


def test_what_lies_beside_a_trace_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_beside(str(tmp_path)) == read_beside("hdfs://h/trace") == NOTHING
    there = Beside((FAILED,), (RunEvent(7, "broker 1 is killed"),))
    write_beside(tmp_path, there.checks, there.events)
    assert read_beside(str(tmp_path)) == read_beside(tmp_path.as_uri()) == there
    (tmp_path / CHECKS).write_text("[1]")
    with pytest.raises(ValueError, match=rf"{CHECKS}: Expected `object`, got `int`"):
        read_beside(str(tmp_path))


@pytest.mark.parametrize("wall_ns", [-1, 10**30])
def test_an_event_at_an_impossible_time_is_refused(wall_ns: int, tmp_path: Path) -> None:
    """A browser draws none of its pictures over such a time."""
    write_beside(tmp_path, (), (RunEvent(wall_ns, "x"),))
    with pytest.raises(ValueError, match=EVENTS):
        read_beside(str(tmp_path))


def test_the_bounds_are_the_controller_s() -> None:
    hard = "kraftbridge.zk.write.behind.hard.max.records"
    tables = a_run()
    assert HARD_FACTOR == CONTROLLERS
    assert bounds_of(tables, RUN, "controller-1") == (BOUND_DEFAULT, 2 * BOUND_DEFAULT)
    tables["runs"][0]["parameters"] = json.dumps({hard: "0"})
    assert bounds_of(tables, RUN, "controller-1") == (BOUND_DEFAULT, 0)
