"""Where the stores differ, what brokers may do now comes first, and numbers have their unit."""

from __future__ import annotations

import pytest

from bench.demo.analysis import written
from bench.demo.differing import in_force, most_urgent, with_units
from bench.demo.narrator import Check

RETENTION = "config topics/metrics retention.ms: ZooKeeper '1', metadata log '3600000'"
OTHER = "topic a: ZooKeeper None, metadata log {'id': 'x'}"


def test_that_records_can_be_deleted_now_is_the_first_sentence_of_what_to_do() -> None:
    for line in (RETENTION, f"controller 3000: {RETENTION}"):
        check = Check(4, "x", held=False, figures="", wrong=(*most_urgent([OTHER, line]),))
        [one] = written([check])
        assert one.remedy.startswith(
            "Correct this first: brokers in ZooKeeper mode may be using retention.ms 1 ms for "
            "topic metrics now; records can be deleted. Do not finalise"
        )
        assert one.wrong[0].endswith("ZooKeeper 1 ms, metadata log 3,600,000 ms (1 h)")
        commands = [each for each in one.remedy.split("\n") if each.startswith("`")]
        assert [each.split()[2] for each in commands] == ["diff", "reconcile"]
        assert "Check first which value is right." in one.remedy
        assert "overwrites ZooKeeper" in one.remedy


@pytest.mark.parametrize(
    ("line", "begins"),
    [
        (OTHER, "may be using what ZooKeeper has now."),
        (
            "config brokers/1 log.retention.bytes: ZooKeeper '1000', metadata log None",
            "may be using log.retention.bytes 1,000 bytes for broker 1 now; records can be",
        ),
        (
            "config topics/a cleanup.policy: ZooKeeper None, metadata log 'compact'",
            "may be using the default of cleanup.policy for topic a now; records can be",
        ),
    ],
)
def test_any_difference_is_one_of_what_brokers_use(line: str, begins: str) -> None:
    found = in_force([with_units(line)])
    assert found.startswith(f"Correct this first: brokers in ZooKeeper mode {begins}")


def test_what_is_no_difference_of_the_stores_is_not_said_to_be_one() -> None:
    assert in_force(["topic a is missing"]) == ""
    assert in_force([]) == ""


def test_a_value_that_is_no_number_stays_as_it_is() -> None:
    for line in (OTHER, "config topics/a retention.ms: ZooKeeper '-1', metadata log 'many'"):
        assert with_units(line) == line
