"""What a row says about itself."""

import pytest

from bench.runs.measuring import missing_znodes
from bench.runs.scenario import Case
from tests.unit.runs.kit import row

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
