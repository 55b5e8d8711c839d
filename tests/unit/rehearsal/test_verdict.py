"""Go only if everything was rehearsed and nothing speaks against it; each reason is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.rehearsal.page import ROLLBACK, page, rehearsal_answers
from bench.rehearsal.phases import PHASES
from bench.rehearsal.verdict import (
    FAILED,
    NOT_MEASURED,
    NOT_REACHED,
    NOT_REHEARSED,
    REHEARSED,
    REMEDIES,
    PhaseFigures,
    Rehearsal,
    as_json,
    table,
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


TYPED = "umask 077; kraft-bridge zk dump --with-secrets --zookeeper HOSTS > with-secrets.json"
SPOILT: dict[str, Callable[[Rehearsal], None]] = {
    "preflight: PF-B04 /a: x": lambda one: setattr(one, "blockers", ["PF-B04 /a: x"]),
    "copy: the copy refuses /a: x": lambda one: setattr(one, "refusals", ["/a: x"]),
    "node: broker 1 of broker-1.properties: x": lambda one: one.refused_nodes.append(
        "broker 1 of broker-1.properties: x"
    ),
    "broker: broker 1 in KRaft mode: x": lambda one: one.refused_brokers.append(
        "broker 1 in KRaft mode: x"
    ),
    "change: CreateTopics: X, once": lambda one: one.lost.append("CreateTopics: X, once"),
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
    found.assumed = ["a", "b"]
    next_, typed, last = text(found).splitlines()[-3:]
    assert next_.startswith("next: rehearse again with your own brokers")
    assert typed == f"type: {TYPED}", "a file of its own, which only its owner may read"
    assert "emulated brokers; not yet a go for production: 1 warning, 2 assumptions (" in last


def test_a_go_with_an_assumed_release_asks_for_the_files_first() -> None:
    found = played()
    found.brokers = [{"id": 0, "source": "--release"}, {"id": 1, "source": "assumed"}]
    next_, typed, _ = text(found).splitlines()[-3:]
    assert next_.startswith("next: rehearse again with the brokers' files")
    assert typed.startswith("type: kraft-bridge rehearse --dump tree.json -c ")
    found.brokers = found.brokers[:1]
    assert text(found).splitlines()[-2] == f"type: {TYPED}"


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_gets_no_table_that_is_cut(width: int) -> None:
    found = played()
    found.folder = "/a/folder/" + "x" * 90
    whole, lines = text(found), text(found, width).split("\n")
    assert max(map(len, whole.split("\n"))) > width
    assert all(len(one) <= width for one in lines if found.folder not in one and TYPED not in one)
    assert f"type: {TYPED}" in lines, "what is typed stays whole"
    assert [one.strip() for one in lines].count(found.folder) == 1, "a path stays whole"
    one = found.phases[0]
    assert any(line.startswith(f"{one.phase}: {one.state}; ") for line in lines)
    same = text(found, 1_000)
    assert same == whole


@pytest.mark.parametrize("reason", SPOILT)
def test_each_reason_alone_is_a_no_go_that_names_it(reason: str) -> None:
    found = played()
    SPOILT[reason](found)
    assert not found.go
    assert f"  {reason}\n" in text(found)
    assert text(found).splitlines()[-1].startswith("NO-GO: 1 reason; your cluster was not touched ")
    assert [f"{one['kind']}: {one['text']}" for one in as_json(found)["reasons"]] == [reason]
    assert reason.partition(": ")[2] in page(found)


def test_the_page_begins_with_what_to_do_and_whether_one_can_go_back() -> None:
    found = played()
    found.brokers = [{}, {}, {}]
    assert {one.state for one in rehearsal_answers(found)} == {"good", "open"}, "no rollback yet"
    found.phases.append(PhaseFigures(ROLLBACK, "x", REHEARSED, begin_s=2.0, end_s=22.0))
    can, now, back, _ = rehearsal_answers(found)
    assert [can.state, now.state, back.state] == ["good", "good", "good"]
    assert "Not yet a go for production: 1 warning below" in can.text
    assert "docs/clone.md" in now.text
    assert now.text.endswith(f"Type: {TYPED}")
    assert "3 restarts of brokers, with all brokers in KRaft mode 6" in back.text
    assert "took 20 s" in back.text
    found.phases[-1].state, found.phases[-1].why = FAILED, "because"
    can, now, back, _ = rehearsal_answers(found)
    assert [can.state, now.state, back.state] == ["bad", "bad", "bad"]
    assert back.text.startswith("The rollback failed in the rehearsal: because. Your cluster was")
    assert "the first: rollback: failed: because" in can.text
    assert {one.state for one in rehearsal_answers(Rehearsal("x", 0, 0, 1.0))} == {"bad", "open"}


def test_of_a_no_go_the_reasons_come_first_each_with_what_to_do() -> None:
    assert "<h2>Why not</h2>" not in page(played())
    found = played()
    for spoil in SPOILT.values():
        spoil(found)
    shown = page(found)
    assert shown.index("<h2>Why not</h2>") < shown.index("<h2>Phases</h2>")
    assert {one.kind for one in found.reasons} == {*REMEDIES}
    for one in found.reasons:
        assert REMEDIES[one.kind] in shown


def test_a_phase_that_was_not_rehearsed_has_no_figures() -> None:
    found = played()
    found.phases[0].state, found.phases[1].state = FAILED, NOT_REHEARSED
    assert table(found.phases)[2] == ["copy", NOT_REACHED, *["-"] * 6]
    assert table(found.phases)[1][3] == NOT_MEASURED, "a dash may be a 0"
    assert '<td class="word bad" data-name="state">✗ failed</td>' in page(found)
    assert '<div class="wide stacked"' in page(found), "on a phone no column is cut off"
    can, _, _, waited = rehearsal_answers(found)
    stop = "It stopped in phase 'wait'; later phases were not reached."
    assert stop in can.text
    assert waited.text == f"That was not measured. {stop}"
    assert can.text.startswith("1 reason below; "), "what follows from it is none"
    assert text(found).splitlines()[-1].startswith("NO-GO: 1 reason;")
    assert text(found).count("not reached: copy") == 1


@pytest.mark.parametrize("reason", SPOILT)
def test_only_what_lies_in_the_cluster_says_that_it_cannot_migrate(reason: str) -> None:
    found = played()
    SPOILT[reason](found)
    kind = reason.partition(":")[0]
    can, now, *_ = rehearsal_answers(found)
    if kind in {"preflight", "copy", "node", "broker"}:
        assert (can.word, now.word) == ("Not as it is", "Mend it, and repeat")
        assert "if that changed the cluster, take a dump again" in now.text
    else:
        assert can.word == "Not proven: the rehearsal failed"
        assert "dump again" not in now.text


def test_what_going_back_takes_is_said_where_it_changes() -> None:
    found = played()
    found.phases += [PhaseFigures(name, "x", REHEARSED) for name in ("roll", "hold")]
    for one, back in zip(found.phases, ("do a", "do a", "do b", "do a"), strict=True):
        one.going_back = back
    assert [page(found).count(f"to go back: {one}") for one in ("do a", "do b")] == [2, 1]


def test_going_back_is_a_phase() -> None:
    assert ROLLBACK in {one.name for one in PHASES}


def test_what_waited_longest_is_named_with_its_phase() -> None:
    found = played()
    wait, copy = found.phases
    wait.blocked_s = copy.blocked_s = 0.25
    wait.longest_change_s, copy.longest_change_s, copy.without_controller_s = 0.1, 1.336, 1.82
    waited = rehearsal_answers(found)[3]
    assert waited.word == "At most 1.34 s"
    assert waited.text == (
        "The longest change took 1.34 s (copy); there was no controller for 1.82 s (copy) at most; "
        "ZooKeeper blocked KRaft for 500 ms."
    )
    assert "<h2>What waited, and how long?</h2>" in page(found)


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
