"""What a node is, as a table: who is answered follows from it alone."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from emulator.migration.authority import SILENT, Authority
from emulator.node.role import ASKS_MS, DUTIES, NodeRole, Role, role
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
    """A stand-in for every machine of a node."""
    one = SimpleNamespace(**fields)
    one.raft = one.history = one.controller = one.migration = one.peers = one
    return one


def test_who_does_not_answer_is_not_waited_for_before_a_log_begins() -> None:
    """Nor does the time begin anew with each step; in another epoch it does."""
    machines = each_of_them(
        config=SimpleNamespace(voters={1: None, 2: None}, release="3.9"),
        rewritten=0,
        rewinds=0,
        inquiry=None,
        tip=SimpleNamespace(features={}),
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
        rewritten=0,
        rewinds=0,
        inquiry=None,
        tip=SimpleNamespace(features={}),
        resign=resign,
    )
    one = NodeRole(machines, machines)
    one.resign([3])
    assert resigned == []
    with pytest.raises(ResignedError):
        one.follow(10_000)
    assert resigned == [(10_000, [3])]
