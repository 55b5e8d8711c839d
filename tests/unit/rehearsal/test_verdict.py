"""Go only if everything was rehearsed and nothing speaks against it; each reason is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.rehearsal.page import page
from bench.rehearsal.verdict import (
    FAILED,
    NOT_REHEARSED,
    REHEARSED,
    PhaseFigures,
    Rehearsal,
    as_json,
    text,
)


def played() -> Rehearsal:
    """A rehearsal with nothing against it."""
    found = Rehearsal("tree.json", 2_000, 20_000, 10.0, warnings=["PF-W02 a: b"])
    found.phases = [
        PhaseFigures(
            name,
            "x",
            REHEARSED,
            begin_s=0.0,
            end_s=1.5,
            lag_records=3,
            bound_records=10_000,
            changes=7,
        )
        for name in ("wait", "copy")
    ]
    return found


def spoil_phase(found: Rehearsal, state: str) -> None:
    found.phases[1].state, found.phases[1].why = state, "because"


SPOILT: dict[str, Callable[[Rehearsal], None]] = {
    "preflight: PF-B04 /a: x": lambda one: setattr(one, "blockers", ["PF-B04 /a: x"]),
    "copy: the copy refuses /a: x": lambda one: setattr(one, "refusals", ["/a: x"]),
    "broker: broker 1 in KRaft mode: x": lambda one: one.refused_brokers.append(
        "broker 1 in KRaft mode: x"
    ),
    "change: CreateTopics: X, 1 times": lambda one: one.lost.append("CreateTopics: X, 1 times"),
    "stores: they differ": lambda one: one.differences.append("they differ"),
    "phase: copy: failed: because": lambda one: spoil_phase(one, FAILED),
    "phase: copy: not rehearsed: because": lambda one: spoil_phase(one, NOT_REHEARSED),
}


def test_a_warning_does_not_decide() -> None:
    found = played()
    assert found.go
    assert as_json(found)["verdict"] == "go"
    assert text(found).splitlines()[-1].startswith("GO: ")
    assert "PF-W02 a: b" in text(found)


@pytest.mark.parametrize("reason", SPOILT)
def test_each_reason_alone_is_a_no_go_that_names_it(reason: str) -> None:
    found = played()
    SPOILT[reason](found)
    assert not found.go
    assert f"  {reason}\n" in text(found)
    assert text(found).splitlines()[-1].startswith("NO-GO: 1 reason ")
    assert [f"{one['kind']}: {one['text']}" for one in as_json(found)["reasons"]] == [reason]
    assert reason.partition(": ")[2] in page(found)


def test_nothing_that_was_played_is_no_go() -> None:
    assert not Rehearsal("tree.json", 0, 0, 1.0).go


def test_a_text_of_others_is_escaped_on_the_page() -> None:
    found = played()
    found.refusals = ["/config/topics/<script>: x"]
    assert "<script>:" not in page(found)


def test_of_very_many_reasons_the_first_are_printed_and_json_has_all() -> None:
    found = played()
    found.blockers = [f"PF-B04 /{number}: x" for number in range(50)]
    assert "and 40 more; --json has all" in text(found)
    assert len(as_json(found)["reasons"]) == 50
