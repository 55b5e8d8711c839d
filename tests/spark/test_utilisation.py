"""How full each resource was, and where a change's time went, by a trace one can check by hand."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis import blocking, utilisation
from emulator.trace import rows
from emulator.trace.rows import CpuGauge
from tests.spark.trace_frames import frame, ms, ranges

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]

CALLS = range(4)
"""Changes, one due each 100 ms; all by one broker, which forwards one at a time."""


def requests() -> list[rows.RequestRow]:
    """Due at n * 100, begun 2 later, sent 20 later, at the controller from 30 to 70, back at 80."""
    found = []
    for n in CALLS:
        due = n * 100.0
        found += [
            rows.RequestRow(
                n,
                "CreateTopics",
                7,
                "load",
                n,
                ms(due + 80),
                intended_ns=ms(due),
                begun_ns=ms(due + 2),
                first_sent_ns=ms(due + 20),
                sent_ns=ms(due + 20),
            ),
            rows.RequestRow(
                100 + n,
                "Envelope",
                0,
                "load",
                n,
                ms(due + 70),
                ms(due + 30),
                0,
                n,
                n,
                "CreateTopics",
                forwarded_by="2",
            ),
        ]
    # Given up: nothing of it counts but that it was due and waited for a connection.
    lost = {"intended_ns": ms(350), "begun_ns": ms(350), "first_sent_ns": ms(355)}
    found.append(
        rows.RequestRow(
            9, "CreateTopics", 7, "load", 9, ms(60_350), error_code=7, sent_ns=ms(355), **lost
        )
    )
    return found


def cpu(at_s: float, **seconds: float) -> list[rows.GaugeRow]:
    return [
        rows.GaugeRow(ms(at_s * 1000), CpuGauge[name], value) for name, value in seconds.items()
    ]


@pytest.fixture
def trace(spark: SparkSession) -> dict[str, DataFrame]:
    moves = []
    for n in CALLS:
        moves += [("appended", n, n, n * 100.0 + 45), ("committed", n, n, n * 100.0 + 65)]
    multis = [rows.MultiRow(ms(n * 100 + 65), ms(n * 100 + 135), 4, 9, n, n) for n in CALLS]
    blocks = [rows.BlockRow(ms(32), ms(42), "lag_records", "CreateTopics", 100)]
    gauges = [
        *cpu(0.05, PROCESS=1.0, EVENT_LOOP=1.0, MACHINE=50.0, MACHINE_CORES=4.0),
        *cpu(0.35, PROCESS=1.15, EVENT_LOOP=1.03, MACHINE=50.6, MACHINE_CORES=4.0),
        *cpu(9.0, PROCESS=99.0, EVENT_LOOP=99.0, MACHINE=999.0, MACHINE_CORES=4.0),
    ]
    return {
        "requests": frame(spark, rows.RequestRow, requests()),
        "ranges": frame(spark, rows.RangeRow, ranges(*moves)),
        "multis": frame(spark, rows.MultiRow, multis),
        "blocks": frame(spark, rows.BlockRow, blocks),
        "gauges": frame(spark, rows.GaugeRow, gauges),
    }


def changes_of(trace: dict[str, DataFrame], made: DataFrame) -> DataFrame:
    parts = blocking.request_parts(trace["requests"], trace["ranges"], trace["blocks"])
    # Kept, as the job does: each resource is computed from them.
    return utilisation.change_parts(parts, made).localCheckpoint()


def test_each_resource_is_as_full_as_the_trace_says(trace: dict[str, DataFrame]) -> None:
    made = trace["requests"].where("intended_ns is not null")
    table = utilisation.utilisation(trace, made, changes_of(trace, made))
    found = {(row.resource, row.subject): (row.value, row.limit) for row in table.collect()}
    # The controller's window is from 30 to 370, of 340 ms.
    expected = {
        ("log_sync", "c"): 4 * 20 / 340,
        ("zookeeper", "c"): (3 * 70 + 5) / 340,
        ("blocked", "c"): 10 / 340,
        # At the broker from 20 to 80, in a window from 20 to 380.
        ("forwarding", "2"): 4 * 60 / 360,
        ("client", "c"): 2.0,
        ("connections", "c"): 4 / 5,
        ("process", "c"): 0.5,
        ("event_loop", "c"): 0.1,
        ("machine", ""): 0.5,
    }
    assert {key: value for key, (value, _) in found.items()} == pytest.approx(expected)
    assert found["process", "c"][1] == 4.0


def test_the_parts_of_a_change_add_up_to_what_its_client_saw(trace: dict[str, DataFrame]) -> None:
    made = trace["requests"].where("intended_ns is not null")
    parts = utilisation.change_time(changes_of(trace, made)).collect()
    found = {row.part: (row.samples, row.mean_ms) for row in parts}
    assert found == {
        "client": (4, 20.0),
        "broker": (4, 20.0),
        "queue": (4, 12.5),  # of one 10 ms are the wait for ZooKeeper
        "blocked": (4, 2.5),
        "commit": (4, 20.0),
        "answer": (4, 5.0),
    }
    assert sum(mean for _, mean in found.values()) == 80.0


def test_without_a_client_the_controllers_parts_remain(trace: dict[str, DataFrame]) -> None:
    made = trace["requests"].where("false")
    changes = changes_of(trace, made)
    assert {row.part for row in utilisation.change_time(changes).collect()} == {
        "queue",
        "blocked",
        "commit",
        "answer",
    }
    table = utilisation.utilisation(trace, made, changes)
    assert {row.resource for row in table.collect()} == {
        "log_sync",
        "zookeeper",
        "blocked",
        "process",
        "event_loop",
        "machine",
    }


def test_a_trace_of_before_says_nothing_of_what_it_does_not_have(
    trace: dict[str, DataFrame], spark: SparkSession
) -> None:
    """Without the columns of begin and first attempt, without a forwarder, without CPU."""
    empty = frame(spark, rows.GaugeRow, [])
    asked = trace["requests"]
    for column in ("begun_ns", "first_sent_ns", "forwarded_by"):
        asked = asked.withColumn(column, F.lit(None).cast(asked.schema[column].dataType))
    older = trace | {"requests": asked, "gauges": empty}
    made = asked.where("intended_ns is not null")
    table = utilisation.utilisation(older, made, changes_of(older, made))
    assert {row.resource for row in table.collect()} == {"log_sync", "zookeeper", "blocked"}


def test_one_change_that_is_answered_much_later_makes_nothing_less_full(
    trace: dict[str, DataFrame], spark: SparkSession
) -> None:
    """200 in two seconds, and two by another broker, to another controller, on its own clock."""
    times = [(n * 10, n * 10 + 5, "c", "1") for n in range(199)] + [(1990, 60_000, "c", "1")]
    times += [(n * 10, n * 10 + 5, "d", "2") for n in range(2)]
    made = spark.createDataFrame(
        [("r", of, by, ms(a), ms(b), "load", ms(a), ms(b)) for a, b, of, by in times],
        "run_id string, process string, forwarded_by string, received_ns long, answered_ns long, "
        "client_process string, sent_ns long, done_ns long",
    )
    multis = frame(spark, rows.MultiRow, [rows.MultiRow(0, ms(1000), 4, 9, 0, 0)])
    both = trace | {"multis": multis.unionByName(multis.withColumn("process", F.lit("d")))}
    table = utilisation.utilisation(both, trace["requests"].where("false"), made)
    found = {(row.resource, row.subject): row.value for row in table.collect()}
    # The window ends when 99 % are answered: of 200 those of the controller, of 202 the client's.
    assert {key: found[key] for key in found if key[0] in {"zookeeper", "forwarding"}} == {
        ("zookeeper", "c"): pytest.approx(1000 / 1975),
        ("forwarding", "1"): pytest.approx(198 * 5 / 1975),
        ("forwarding", "2"): pytest.approx(2 * 5 / 1975),
    }


def test_of_several_attempts_the_last_in_the_log_counts(trace: dict[str, DataFrame]) -> None:
    """Clocks of two hosts say nothing of which controller was asked first."""
    parts = blocking.request_parts(trace["requests"], trace["ranges"], trace["blocks"])
    before = (
        parts.withColumn("process", F.lit("d"))
        .withColumn("offset", F.col("offset") - 100)
        .withColumn("received_ns", F.col("received_ns") + 10**15)
    )
    made = trace["requests"].where("intended_ns is not null")
    found = utilisation.change_parts(parts.unionByName(before), made).collect()
    assert [row.process for row in found] == ["c"] * 4
