"""What a node is, as a table: who is answered follows from it alone."""

from __future__ import annotations

from itertools import product

import pytest

from emulator.migration.authority import SILENT, Authority
from emulator.node.office import DUTIES, Office, office
from emulator.raft.replica import Serving

CASES = list(product((False, True), (False, True), Authority, (False, True)))


def judged(case: tuple[bool, bool, Authority, bool]) -> Office:
    leads, committed, authority, leaving = case
    return office(leads=leads, committed=committed, authority=authority, leaving=leaving)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_case_has_one_office(case):
    leads, committed, authority, leaving = case
    found = judged(case)
    assert (found is Office.FOLLOWING) is (not leads), "whatever its log or ZooKeeper say"
    assert (found is Office.SILENT) is (leads and authority in SILENT)
    speaks = leads and authority is Authority.GRANTED
    assert (found is Office.WON) is (speaks and not committed)
    assert (found is Office.ACTIVE) is (speaks and committed and not leaving)
    assert (found is Office.LEAVING) is (speaks and committed and leaving)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_leader_that_is_not_activated_yet_answers_nobody(case):
    leads, committed, authority, leaving = case
    found = office(
        leads=leads, committed=committed, authority=authority, leaving=leaving, passive=True
    )
    assert found is (judged(case) if leads else Office.PASSIVE)


def test_who_is_refused_by_zookeeper_or_follows_answers_no_callers():
    refused = {Office.FOLLOWING, Office.PASSIVE, Office.SILENT}
    assert {each for each, duty in DUTIES.items() if not duty.callers} == refused
    withheld = {each for each, duty in DUTIES.items() if duty.observers is Serving.NOTHING}
    assert withheld == {Office.PASSIVE, Office.SILENT}
    assert set(DUTIES) == set(Office)
