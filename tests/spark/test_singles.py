"""The slowest change with its parts, and changes of which the trace has one side."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from bench.analysis import blocking, quorum, singles, utilisation
from bench.analysis.limits import PARTS
from emulator.trace import rows
from tests.spark.trace_frames import frame, ms, ranges

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]

AHEAD_NS = 1_000_000_000_000
"""By so much the wall clock is ahead."""


def client(number: int, due: float, done: float, error: int = 0) -> rows.RequestRow:
    return rows.RequestRow(
        number,
        "CreateTopics",
        7,
        "load",
        number,
        ms(done),
        error_code=error,
        intended_ns=ms(due),
        begun_ns=ms(due),
        first_sent_ns=ms(due + 5),
        sent_ns=ms(due + 5),
    )


def server(number: int, received: float, answered: float) -> rows.RequestRow:
    got = (ms(answered), ms(received), 0, number, number)
    return rows.RequestRow(100 + number, "CreateTopics", 7, "load", number, *got)


@pytest.fixture
def found(spark: SparkSession) -> Any:
    """Changes 0 and 1 have both sides, 2 has one, 3 was given up after longer than all.

    Of those that are ``idle`` the controller appended no record.
    """

    def run(
        *seen: int, idle: int = -1, more: tuple[rows.RequestRow, ...] = ()
    ) -> tuple[list[Any], list[Any]]:
        made = [client(0, 0, 60), client(1, 100, 400), client(2, 200, 290), client(3, 300, 9000, 7)]
        made += more
        served = [server(one, one * 100 + 10, one * 100 + 50) for one in seen]
        moves = [
            (stage, one, one, one * 100.0 + after)
            for one in seen
            for stage, after in (("appended", 20), ("committed", 40))
        ]
        if idle >= 0:
            at = idle * 100.0
            row = server(idle, at + 10, at + 50)
            served.append(msgspec.structs.replace(row, first_offset=None, last_offset=None))
        requests = frame(spark, rows.RequestRow, [*made, *served])
        clocks = [rows.RunRow(2, 0, AHEAD_NS, "h", "1", "3.9", "{}")]
        blocks = frame(spark, rows.BlockRow, [])
        parts = blocking.request_parts(
            requests, frame(spark, rows.RangeRow, ranges(*moves)), blocks
        )
        wanted = requests.where("intended_ns is not null")
        changes: DataFrame = utilisation.change_parts(parts, wanted).localCheckpoint()
        clock = quorum.clocks(frame(spark, rows.RunRow, clocks))
        return (
            singles.slowest(wanted, changes, clock).collect(),
            singles.untraced(requests, changes, clock).collect(),
        )

    return run


def test_the_slowest_that_was_carried_out_has_its_parts(found: Any) -> None:
    [row], lacking = found(0, 1)
    assert (row.api, row.ms, row.wall_ns) == ("CreateTopics", 300.0, AHEAD_NS + ms(100))
    parts = {part: row[f"{part}_ms"] for part in PARTS}
    assert parts == {
        "client": 5.0,
        "broker": 255.0,
        "queue": 10.0,
        "blocked": 0.0,
        "commit": 20.0,
        "answer": 10.0,
    }
    [other] = lacking
    assert (other.sent_wall_ns, other.done_wall_ns) == (AHEAD_NS + ms(205), AHEAD_NS + ms(290))
    assert not other.changed_nothing


def test_of_several_as_slow_the_first_is_shown_whichever_was_read_first(found: Any) -> None:
    [row], _ = found(0, 1, more=(client(4, 600, 900),))
    assert (row.ms, row.wall_ns) == (300.0, AHEAD_NS + ms(100))


def test_a_change_that_changed_nothing_is_told_from_one_that_is_lost(found: Any) -> None:
    _, [one] = found(0, 1, idle=2)
    assert one.changed_nothing


def test_of_a_slowest_without_the_controllers_side_no_part_is_known(found: Any) -> None:
    [row], lacking = found(0)
    assert row.ms == 300.0
    assert {row[f"{part}_ms"] for part in PARTS} == {None}
    assert len(lacking) == 2


def test_a_load_without_any_controller_names_none(found: Any) -> None:
    [row], lacking = found()
    assert row.ms == 300.0
    assert lacking == []
