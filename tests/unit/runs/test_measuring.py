"""What a row says about itself."""

from types import SimpleNamespace

import pytest

from bench.runs.client import OpenLoop
from bench.runs.measuring import Figures, _client, missing_znodes
from bench.runs.scenario import Case
from emulator.servers.machine import Usage
from tests.unit.runs.kit import row
from tests.unit.runs.test_client import Numbers

CASE = Case("small", rate=10, count=20, partitions=2)
WHOLE = 20 * (3 + 2 * 2)


def measured(**columns):
    return row(case=CASE, **({"answered": 20, "drained_ns": 1, "znodes": WHOLE} | columns))


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"znodes": WHOLE + 5},
        {"answered": 19, "znodes": WHOLE - 7},
        {"znodes": None},
        {"drained_ns": None, "znodes": 0},
        {"kind": "isr", "znodes": 0},
    ],
    ids=str,
)
def test_a_row_whose_topics_are_all_in_zookeeper_may_be_compared(columns):
    assert missing_znodes(measured(**columns)) == ""


def test_a_row_that_left_znodes_out_is_void_whatever_migration_says():
    """Of 2,000 topics a thousand are compared in the trees; the others count here."""
    why = missing_znodes(measured(znodes=WHOLE - 1))
    assert why == f"ZooKeeper has {WHOLE - 1} new znodes; the topics created have {WHOLE}"


@pytest.mark.parametrize(
    ("lost", "p50", "p99"), [(0, 500.0, 990.0), (10, 500.0, 990.0), (11, 500.0, None)]
)
def test_what_is_not_answered_with_success_is_slower_than_any(lost, p50, p99):
    """A row in which half was lost looked faster."""
    loop = OpenLoop(Numbers(), 1_000, 1_000.0, 1, "test")
    loop.begin_ns = 10**9
    for number in range(1_000):
        loop.answered_ns[number] = loop.intended_ns(number) + (number + 1) * 1_000_000
        loop._errors[number] = 41 if number >= 1_000 - lost else 0
    made = row(rate_per_s=1_000.0, begin_ns=loop.begin_ns, end_ns=3 * 10**9)
    _client(made, loop)
    assert (made.refused, made.commit_p50_ms, made.commit_p99_ms) == (lost, p50, p99)
    assert made.commit_max_ms == (None if lost else 1_000.0)


def test_how_late_the_client_was_at_most_is_there_where_changes_are_few():
    loop = OpenLoop(Numbers(), 20, 10.0, 1, "test")
    loop.late_ns = [1_000_000, 12_000_000]
    made = row(rate_per_s=10.0, begin_ns=0, end_ns=10**9)
    _client(made, loop)
    assert (made.late_p99_ms, made.late_max_ms) == (None, 12.0)


def test_the_machine_is_measured_until_the_load_ends_and_not_until_zookeeper_has_it():
    usage = Usage(10.0, {"client": 4.0}, 0.4, 0.5)
    made, figures = row(), Figures.__new__(Figures)
    figures._meter = SimpleNamespace(usage=lambda: usage)
    figures.loaded(made)
    assert made.machine_busy == usage.busy
