"""What to do after a run, and whether one can go back: only what is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.report.beside import END, NOTHING, Beside, RunCheck, RunEnd, read_beside, write_beside
from bench.report.blocks import Answer
from bench.report.verdict import verdict
from emulator.config.zookeeper_mode import MIGRATION
from tests.unit.report.a_run import RUN, a_run, empty

END_OF_RUN = RunEnd(
    "dual write (0 of 3)", True, "Yes, with 3 restarts; no change is lost", "Do this."
)
HELD = RunCheck("x", True)
FAILED = RunCheck("stores", False, remedy="Do not finalise. Compare the stores.")


def answer(tables: Any, beside: Beside = NOTHING) -> Answer:
    """The last card."""
    return verdict(tables, RUN, beside).answers[-1]


def now(tables: Any, beside: Beside = NOTHING) -> Answer:
    """The second card."""
    return verdict(tables, RUN, beside).answers[1]


def traced(*flags: str | None, written: bool = True, lacks: int = 0) -> dict[str, Any]:
    """A run with controllers that had these values of the flag."""
    tables = a_run()
    [run] = tables["runs"]
    tables["runs"] = [
        run
        | {"process": f"controller-{at}"}
        | {"parameters": json.dumps({} if flag is None else {MIGRATION: flag})}
        for at, flag in enumerate(flags)
    ]
    tables["lag_summary"][0] |= {"last_lag_records": lacks}
    tables["coalescing"] = [{"run_id": RUN, "process": "controller-0"}] if written else []
    return tables


def test_what_the_leading_controller_said_at_the_end_is_in_the_card() -> None:
    found = answer(a_run(), Beside((HELD,), (), END_OF_RUN))
    assert (found.word, found.state) == ("Yes", "good")
    assert found.text == (
        "With 3 restarts; no change is lost (docs/rollback.md). The phase was dual write, 0 of 3."
    )
    assert now(a_run(), Beside((HELD,), (), END_OF_RUN)).word == "Do this"
    ended = RunEnd("x", True, "Yes", "Nothing: it has ended. Then read.")
    assert now(a_run(), Beside((), (), ended)).text == "It has ended. Then read."
    final = answer(a_run(), Beside((HELD,), (), RunEnd("final", False, "No: it is final")))
    assert (final.word, final.state) == ("No way back", "full")
    unknown = answer(a_run(), Beside((), (), RunEnd("finalising", None, "Yes, still: x")))
    assert unknown.state == "open"


def test_a_check_that_failed_says_first_what_to_do() -> None:
    beside = Beside((HELD, FAILED), (), END_OF_RUN)
    found, back = now(a_run(), beside), answer(a_run(), beside)
    assert (found.word, found.state) == ("Do not finalise", "bad")
    assert found.text == "Compare the stores."
    assert "Do this" not in found.text, "the next step is of a cluster whose checks held"
    assert (back.word, back.state) == ("Not yet", "bad")
    once = "Once the checks hold: with 3 restarts (docs/rollback.md)."
    assert back.text.startswith(once), "of stores that may differ nothing is promised"
    open_ = now(a_run(), Beside((RunCheck("stores", None),)))
    assert open_.state == "open"
    assert open_.word == "Look at what failed"


def test_a_trace_alone_shows_at_most_that_nothing_was_finalised() -> None:
    found = answer(traced("true", "true"))
    assert (found.word, found.state) == ("Yes", "good")
    assert found.text == "When this trace ended, nothing was finalised."
    assert "`kraft-bridge status` says what is next" in now(traced("true")).text
    assert "3 records at its end" in answer(traced("true", lacks=3)).text


@pytest.mark.parametrize(
    "tables",
    [
        traced("true", None),
        traced("true", "false"),
        traced("true", written=False),
        empty(),
    ],
)
def test_what_it_does_not_show_is_not_known(tables: Any) -> None:
    found = answer(tables)
    assert (found.word, found.state) == ("Not known", "open")
    assert "`kraft-bridge status`" in now(tables).text


def test_parameters_that_are_none_are_no_flag() -> None:
    tables = traced("true")
    tables["runs"][0] |= {"parameters": "[1]"}
    assert answer(tables).state == "open"
    tables["runs"][0] |= {"parameters": "{"}
    assert answer(tables).state == "open"


def test_the_end_lies_beside_the_trace(tmp_path: Path) -> None:
    write_beside(tmp_path, (HELD,), (), END_OF_RUN)
    assert read_beside(str(tmp_path)) == Beside((HELD,), (), END_OF_RUN)
    write_beside(tmp_path, (HELD,), ())
    assert read_beside(str(tmp_path)).end is None
    (tmp_path / END).write_text("[1]")
    with pytest.raises(ValueError, match=END):
        read_beside(str(tmp_path))
