"""What a node is, as a table: who is answered follows from it alone."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from emulator.migration.authority import SILENT, Authority
from emulator.node.role import ASKS_MS, DUTIES, HANDS_OVER_MS, NodeRole, Role, Unfit, role
from emulator.raft.election import VoterProgress
from emulator.raft.replica import Serving

CASES = list(product((False, True), (False, True), Authority, (False, True)))


def judged(case: tuple[bool, bool, Authority, bool]) -> Role:
    leads, committed, authority, leaving = case
    return role(leads=leads, committed=committed, authority=authority, leaving=leaving)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_case_has_one_role(case):
    leads, committed, authority, leaving = case
    found = judged(case)
    assert (found is Role.FOLLOWING) is (not leads), "whatever its log or ZooKeeper say"
    assert (found is Role.SILENT) is (leads and authority in SILENT)
    speaks = leads and authority is Authority.GRANTED
    assert (found is Role.WON) is (speaks and not committed)
    assert (found is Role.ACTIVE) is (speaks and committed and not leaving)
    assert (found is Role.LEAVING) is (speaks and committed and leaving)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_leader_that_is_not_activated_yet_answers_nobody(case):
    leads, committed, authority, leaving = case
    found = role(
        leads=leads, committed=committed, authority=authority, leaving=leaving, passive=True
    )
    assert found is (judged(case) if leads else Role.PASSIVE)


def test_who_is_refused_by_zookeeper_or_follows_answers_no_callers():
    refused = {Role.FOLLOWING, Role.PASSIVE, Role.SILENT}
    assert {each for each, duty in DUTIES.items() if not duty.callers} == refused
    withheld = {each for each, duty in DUTIES.items() if duty.observers is Serving.NOTHING}
    assert withheld == {Role.PASSIVE, Role.SILENT}
    assert set(DUTIES) == set(Role)


def each_of_them(**fields: Any) -> Any:
    """A stand-in for every machine of a node, of which none has done anything."""
    idle = {"rewritten": 0, "rewinds": 0, "inquiry": None, "tip": SimpleNamespace(features={})}
    one = SimpleNamespace(**(idle | fields))
    one.raft = one.history = one.controller = one.migration = one.peers = one
    return one


def test_who_does_not_answer_is_not_waited_for_before_a_log_begins() -> None:
    """Nor does the time begin anew with each step; in another epoch it does."""
    machines = each_of_them(
        config=SimpleNamespace(voters={1: None, 2: None}, release="3.9"),
    )
    one = NodeRole(machines, machines)
    flags: Any = SimpleNamespace(complete=False, with_flag=[])
    one._flags = flags
    begun = [one._asked(5, 10_000 + after_ms) for after_ms in (0, 1, ASKS_MS - 1, ASKS_MS)]
    assert begun == [False, False, False, True]
    assert not one._asked(6, 10_000 + ASKS_MS)
    flags.complete = True
    assert one._asked(6, 10_001 + ASKS_MS)


def test_the_wanted_successors_are_named_in_the_next_step() -> None:
    resigned: list[tuple[int, list[int]]] = []

    class ResignedError(Exception):
        """Nothing after it is looked at here."""

    def resign(now_ms: int, first: list[int]) -> None:
        resigned.append((now_ms, first))
        raise ResignedError

    machines = each_of_them(
        config=SimpleNamespace(voters={1: None, 2: None, 3: None}, release="3.9"),
        resign=resign,
    )
    one = NodeRole(machines, machines)
    one.resign([3])
    assert resigned == []
    with pytest.raises(ResignedError):
        one.follow(10_000)
    assert resigned == [(10_000, [3])]


@pytest.mark.parametrize(
    ("ends", "fitter", "waits"),
    [
        ({2: 9, 3: 10}, [2], True),
        ({2: 10, 3: 9}, [2], False),
        ({2: 9, 3: 10}, [2, 3], False),
        ({2: 9, 3: 9}, [2, 3], True),
        ({2: 9, 3: 9}, [], False),
        ({2: 9, 3: 9}, [7], False),
    ],
)
def test_who_must_not_lead_lets_who_is_to_lead_have_the_whole_log_first(
    ends: dict[int, int], fitter: list[int], waits: bool
) -> None:
    """Nobody who has more elects it. It is not waited for longer than a moment."""
    resigned: list[int] = []
    machines = each_of_them(
        config=SimpleNamespace(voters={1: None, 2: None, 3: None}, release="3.9"),
        log_end_offset=10,
        progress={each: VoterProgress(end) for each, end in ends.items()},
        is_leader=True,
        fitter=fitter,
        resign=lambda now_ms, first: resigned.append(now_ms) or [],
    )
    one = NodeRole(machines, machines)
    one.follow = lambda now_ms: None  # type: ignore[method-assign]

    def resigns(now_ms: int) -> bool:
        one._must_not_lead(5, "another one has the flag", now_ms)
        one._give_up(5, now_ms)
        return resigned.pop() == now_ms if resigned else False

    assert resigns(10_000) is not waits
    if waits:
        assert one.deadline_ms == 10_000 + HANDS_OVER_MS
        one._give_up(5, 10_000 + HANDS_OVER_MS - 1)
        assert resigned == []
        one._give_up(5, 10_000 + HANDS_OVER_MS)
        assert resigned == [10_000 + HANDS_OVER_MS]


@pytest.mark.parametrize(
    ("reason", "times"), [(Unfit.APART, (2, 0)), (Unfit.REFUSED, (0, 2)), (Unfit.OVER, (0, 0))]
)
def test_how_often_it_gave_up_counts_by_reason(
    monkeypatch: pytest.MonkeyPatch, reason: Unfit, times: tuple[int, int]
) -> None:
    """It waits longer each time."""
    machines = each_of_them(
        config=SimpleNamespace(voters={1: None, 2: None}, release="3.9"),
        over_because="",
        refused_because="",
    )
    one = NodeRole(machines, machines)
    monkeypatch.setattr(NodeRole, "_unfit", reason)
    monkeypatch.setattr(NodeRole, "_due", lambda *_: True)
    monkeypatch.setattr(NodeRole, "_must_not_lead", lambda *_: None)
    for epoch in (5, 6):
        one._judge_reason(epoch, 10_000)
    assert (one._apart.times, one._refused.times) == times
