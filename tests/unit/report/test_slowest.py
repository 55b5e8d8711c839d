"""What the slowest change waited for, and where the changes are that have no parts."""

from __future__ import annotations

from typing import Any

import pytest

from bench.analysis.limits import PARTS
from bench.report.beside import NOTHING
from bench.report.page import page
from bench.report.slowest import slowest, untraced
from bench.report.verdict import verdict
from tests.unit.report.a_run import BEGIN_NS, RUN, a_run, at
from tests.unit.report.test_verdict import calm


def slow(ms: float, at_s: float = 0.0, **parts: float | None) -> dict[str, Any]:
    """A row of the slowest change; parts that are not given took nothing."""
    row = {"run_id": RUN, "process": "admin", "api": "CreateTopics", "ms": ms}
    row |= {"wall_ns": BEGIN_NS + round(at_s * 1e9)}
    return row | {f"{part}_ms": parts.get(part, 0.0) for part in PARTS}


NOWHERE = dict.fromkeys(PARTS)
"""No part is known."""


def led(process: str, epoch: int, first_s: float, last_s: float) -> dict[str, Any]:
    times = {"first_ns": BEGIN_NS + round(first_s * 1e9), "last_ns": BEGIN_NS + round(last_s * 1e9)}
    return {"run_id": RUN, "process": process, "leader_epoch": epoch, **times}


@pytest.mark.parametrize(
    ("row", "waited", "brief"),
    [
        (slow(900.0, broker=880.0), "880 ms of it at the broker", "at the broker or on"),
        (slow(900.0, blocked=880.0), "880 ms of it for ZooKeeper", "for ZooKeeper"),
        (slow(900.0, client=880.0), "880 ms of it at the client", "at the client"),
        (slow(900.0, **NOWHERE), "is not known, as the trace lacks", "for what is not known"),
    ],
)
def test_it_waited_for_its_longest_part(row: dict[str, Any], waited: str, brief: str) -> None:
    found = slowest(calm() | {"slowest": [row]})
    assert found is not None
    assert waited in found.waited
    assert found.brief.startswith(brief)


@pytest.mark.parametrize("parts", [{"broker": 2_300.0}, NOWHERE])
def test_a_change_of_the_leader_meanwhile_is_named(parts: Any) -> None:
    leaders = [led("controller-1 life 1", 1, 0, 4), led("controller-2", 3, 6, 20)]
    tables = calm() | {"leaders": leaders, "slowest": [slow(2_400.0, 4.1, **parts)]}
    found = slowest(tables)
    assert found is not None
    assert found.waited.endswith("while controller-2 took over from controller-1")
    assert found.brief == "for a new leading controller"
    if parts is not NOWHERE:
        # One is due each 0.1 s, and takes some ms: those from 4 s to 6 s, and one given up.
        assert found.changes == 21
        tables["timeline"] += [at(3.0, "change", 2_000.0), at(6.5, "change", 2_000.0)]
        late = slowest(tables)
        assert late is not None
        assert late.changes == 22, "also what was due before, and was not answered yet"
        said = verdict(tables, RUN, NOTHING)
        assert "22 changes waited for a new leading controller, up to 2.4 s." in said.text
        cause = "back; 22 changes waited for a new leading controller"
        assert cause in page(tables, "x", [said]), "it is in the table of where time went"
    tables["slowest"] = [slow(2_400.0, 9.0, **parts)]
    later = slowest(tables)
    assert later is not None
    assert "took over" not in later.waited


def test_the_verdict_and_its_picture_do_not_contradict_each_other() -> None:
    """ "Nothing limited" stood beside a change of 2.36 s."""
    tables = calm() | {"slowest": [slow(2_360.0, broker=2_341.0)]}
    longest = tables["percentiles"][-1] | {"ms": 2_360.0, "censored_ms": None}
    tables["percentiles"] = [*tables["percentiles"][:2], longest]
    found = verdict(tables, RUN, NOTHING)
    card = found.answers[2]
    assert card.word == "No resource"
    assert "Nothing limited" not in found.text
    assert "its slowest change, of 2.36 s, waited at the broker" in found.text
    assert "2.34 s of it at the broker" in card.text
    assert "<span>it waited at the broker or on the way" in page(tables, "x", [found])
    tables["slowest"] = [slow(38.0, broker=30.0)]
    quick = verdict(tables, RUN, NOTHING).answers[2]
    assert (quick.word, quick.short) == ("Nothing", "Nothing limited the run.")
    assert quick.text == "The load was done on time. The slowest change took 38 ms."


def test_an_analysis_without_the_slowest_change_says_nothing_of_it() -> None:
    tables = calm()
    del tables["slowest"]
    assert slowest(tables) is None
    assert verdict(tables, RUN, NOTHING).answers[2].word == "Nothing"


def lost(at_s: float, *sent_s: float, idle: int = 0) -> dict[str, Any]:
    """A run with a trace that was not closed, and changes of 0.1 s each without its side."""
    tables = a_run()
    gap = {"run_id": RUN, "process": "controller-1", "why": "no end", "table": None}
    tables["missing"] = [gap | {"missing_rows": None, "missing_s": 2.0, "at_ns": round(at_s * 1e9)}]
    tables["untraced"] = [
        {"run_id": RUN, "process": "admin", "sent_wall_ns": BEGIN_NS + round(one * 1e9)}
        | {"done_wall_ns": BEGIN_NS + round((one + 0.1) * 1e9), "changed_nothing": number < idle}
        for number, one in enumerate(sent_s)
    ]
    return tables


SIDE = "it lacks the controllers' side: "
END = (
    "under way at the end of the trace of controller-1, which was not closed, so up to 1 s may be "
    "missing"
)


@pytest.mark.parametrize(
    ("tables", "lacking", "why"),
    [
        (
            lost(5.0, 5.2, 5.9),
            2,
            f"2 were {END}",
        ),
        (lost(5.0, 5.2, 9.0, idle=2), 2, "2 changed nothing, so no record was written"),
        (
            lost(5.0, 1.0, 5.2, 9.0, idle=1),
            4,
            f"1 changed nothing, so no record was written; 1 was {END}; why of 2 is not known",
        ),
        (lost(5.0, 9.0), 1, "why is not known"),
    ],
)
def test_why_changes_have_no_parts_is_said_of_each(
    tables: dict[str, Any], lacking: int, why: str
) -> None:
    assert untraced(tables, lacking).endswith(SIDE + why)


def test_the_page_counts_the_changes_that_have_no_parts() -> None:
    assert untraced(lost(5.0), 0) == ""
    html = page(lost(5.0, *[5.2] * 20), "x", [verdict(a_run(), RUN, NOTHING)])
    assert "Of 880 of 900 changes that were carried out" in html
    assert "20 were under way at the end of the trace of controller-1" in html
