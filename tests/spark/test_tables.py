"""Schemas, operations, stalls and latency, by tables one can check in the head."""

from __future__ import annotations

import math
import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from bench.analysis import blocking, latency, operations, stalls
from bench.analysis.read import TraceVersionError, read
from bench.analysis.schema import struct_type
from bench.report.analyze import report
from emulator.io.trace_file import TraceFile
from emulator.trace import rows
from tests import data
from tests.spark.trace_frames import frame, frames, ms
from tests.spark.write_behind_model import WriteBehindModel

DATA = Path(data.__file__).parent
pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]


def test_schemas_follow_the_rows() -> None:
    assert struct_type(rows.StallRow).simpleString() == (
        "struct<begin_ns:bigint,end_ns:bigint,process:string,run_id:string>"
    )
    operation = struct_type(rows.MultiRow)["operations"]
    assert operation.dataType.simpleString() == (
        "array<struct<operation:string,ops:bigint,bytes:bigint>>"
    )


def test_spark_reads_what_the_writer_wrote(spark: SparkSession, tmp_path: Path) -> None:
    given = WriteBehindModel(seconds=0.1).run()
    trace = TraceFile(tmp_path, "r", "c")
    for row in given:
        trace.append(row)
    trace.close()
    found = read(spark, str(tmp_path))
    expected = frames(spark, given)
    for table in ("multis", "requests"):
        assertDataFrameEqual(found[table].select(expected[table].columns), expected[table])
    assert found["blocks"].count() == 0


def test_a_trace_of_another_schema_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    trace = TraceFile(tmp_path, "r", "c")
    other = rows.SCHEMA_VERSION + 1
    trace.append(rows.RunRow(other, 0, 0, "h", "9", "3.9", "{}"))
    trace.close()
    with pytest.raises(TraceVersionError, match=f"c wrote trace schema {other}"):
        read(spark, str(tmp_path))


def test_a_trace_of_the_first_schema_is_analysed(spark: SparkSession, tmp_path: Path) -> None:
    """Kept as that version wrote it: without fleets, numbers of rows, and some of the columns."""
    with tarfile.open(DATA / "trace-of-schema-1.tar.xz") as archive:
        # The argument of this name came with 3.11.4.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    found = read(spark, str(tmp_path / "trace"))
    counts = {name: table.count() for name, table in found.items()}
    assert counts == {**dict.fromkeys(rows.TABLES, 1), "ranges": 3, "fleet": 0}
    said = report(spark, str(tmp_path / "trace"), tmp_path / "out").findings
    assert not [one for one in said if one.about.startswith("gap")]
    assert any("1 carried 3 records in 3 operations" in one.says for one in said)


def test_a_multis_time_is_shared_by_its_operations(spark: SparkSession) -> None:
    kinds = rows.MultiOperation
    given = [
        rows.MultiRow(
            0, ms(8), 4, 1000, 1, 3, "ok", (kinds("topic_create", 3, 900), kinds("chain", 1, 100))
        ),
        rows.MultiRow(ms(8), ms(10), 2, 200, 4, 3, "ok", (kinds("chain", 2, 200),)),
        rows.MultiRow(0, ms(99), 9, 9, 1, 3, "lost", (kinds("chain", 9, 9),)),
    ]
    multis = frame(spark, rows.MultiRow, given)
    found = operations.by_operation(multis).drop("run_id", "process")
    expected = [("topic_create", 1, 3, 900, 6.0, 2.0), ("chain", 2, 3, 300, 4.0, 4.0 / 3)]
    assertDataFrameEqual(found, spark.createDataFrame(expected, found.schema))
    [shared] = operations.coalescing(multis).collect()
    assert (shared.multis, shared.records, shared.records_per_multi) == (2, 3, 1.5)
    lost = operations.multi_latency(multis).where("result = 'lost'").collect()
    assert [(row.samples, row.max_ms) for row in lost] == [(1, 99.0)]


def test_requests_by_api(spark: SparkSession) -> None:
    row = rows.RequestRow
    given = [
        row(1, "Envelope", 0, "a", 1, ms(2), 0, 0, 1, 3, "CreateTopics"),
        row(2, "CreateTopics", 7, "b", 1, ms(1), 0, 36),
        row(3, "CreateTopics", 7, "a", 1, ms(9), intended_ns=0, sent_ns=0),
    ]
    servers = latency.server_requests(frame(spark, rows.RequestRow, given))
    found = operations.by_api(servers).drop("run_id", "process")
    expected = [("CreateTopics", 2, 1, 1, 3)]
    assertDataFrameEqual(found, spark.createDataFrame(expected, found.schema))


def test_a_request_forwarded_twice_is_joined_once(spark: SparkSession) -> None:
    row = rows.RequestRow
    given = [
        row(1, "Envelope", 0, "a", 5, ms(3), ms(1), 41, inner_api="DeleteTopics"),
        row(2, "Envelope", 0, "a", 5, ms(9), ms(7), inner_api="DeleteTopics"),
        row(1, "DeleteTopics", 6, "a", 5, ms(11), intended_ns=ms(-2), sent_ns=0),
    ]
    requests = frame(spark, rows.RequestRow, given)
    joined = latency.joined_requests(
        latency.client_requests(requests), latency.server_requests(requests)
    )
    [found] = joined.collect()
    assert (found.response_ms, found.server_ms, found.attempts) == (13.0, 8.0, 2)
    assert found.elsewhere_ms == 3.0


def test_intended_and_achieved_rate(spark: SparkSession) -> None:
    row = rows.RequestRow
    given = [
        row(1, "X", 0, "a", 1, ms(10), intended_ns=0, sent_ns=0),
        row(2, "X", 0, "a", 2, ms(1500), intended_ns=ms(500), sent_ns=ms(600)),
        row(3, "X", 0, "a", 3, ms(1600), error_code=7, intended_ns=ms(1000), sent_ns=ms(1000)),
    ]
    clients = latency.client_requests(frame(spark, rows.RequestRow, given))
    found = latency.rate_per_second(clients).select("second", "intended", "achieved")
    assertDataFrameEqual(found, spark.createDataFrame([(0, 2, 1), (1, 1, 1)], found.schema))


def test_what_is_given_up_is_slower_than_any_answer_and_rates_are_those_of_the_schedule(
    spark: SparkSession,
) -> None:
    """25 each second for 2 s, begun at 0: 40 are answered after 5 ms, ten given up after 60 s."""
    row = rows.RequestRow
    given = []
    for number in range(50):
        due, lost = ms(40 * number), number >= 40
        took = ms(60_000 if lost else 5)
        error = 7 if lost else 0
        given.append(
            row(number, "X", 0, "a", number, due + took, None, error, intended_ns=due, sent_ns=due)
        )
    requests = frame(spark, rows.RequestRow, given)
    clients = latency.client_requests(requests)
    [rates] = latency.rate_summary(clients).collect()
    assert (rates.intended, rates.achieved) == (50, 40)
    assert (rates.due_per_s, rates.achieved_per_s) == (25.0, 20.0)
    table = latency.latency_table(latency.server_requests(requests), clients).collect()
    [felt] = [one for one in table if one.seen == "client response"]
    assert (felt.samples, felt.p50_ms, felt.p90_ms, felt.max_ms) == (50, 5.0, None, math.inf)
    assert (felt.not_done, felt.not_done_ms) == (10, 60_000.0)
    [served] = [one for one in table if one.seen == "client service"]
    assert (served.samples, served.max_ms) == (40, 5.0)


def test_stalls_of_fifty_milliseconds_mark_their_seconds(spark: SparkSession) -> None:
    given = [
        rows.StallRow(ms(100), ms(120)),
        rows.StallRow(ms(1950), ms(2050)),
        rows.StallRow(ms(2500), ms(2550)),
    ]
    frame_ = frame(spark, rows.StallRow, given)
    summary = stalls.stall_summary(frame_).drop("run_id", "process")
    assertDataFrameEqual(summary, spark.createDataFrame([(3, 170.0, 100.0, 2)], summary.schema))
    noisy = stalls.noisy_seconds(frame_).drop("run_id", "process")
    assertDataFrameEqual(noisy, spark.createDataFrame([(1, 100.0), (2, 100.0)], noisy.schema))


def test_two_causes_at_once_share_the_time(spark: SparkSession) -> None:
    row = rows.BlockRow
    blocks = [
        row(0, ms(10), "lag_records", "CreateTopics", 1),
        row(ms(5), ms(15), "session_lost", "AlterPartition", 2, "timed_out"),
    ]
    block_frame = frame(spark, rows.BlockRow, blocks)
    multi_frame = frame(spark, rows.MultiRow, [rows.MultiRow(0, ms(5), 1, 1, 1, 1)])
    segments = blocking.blocked_segments(block_frame, multi_frame)
    found = blocking.blocking_by_cause(segments).drop("run_id", "process")
    expected = [
        ("lag_records", "multi in flight", 5.0, 5.0),
        ("lag_records", "no multi in flight", 2.5, 5.0),
        ("session_lost", "no multi in flight", 7.5, 10.0),
    ]
    assertDataFrameEqual(found, spark.createDataFrame(expected, found.schema))
    whole = blocking.blocked_whole(block_frame).drop("run_id", "process")
    assertDataFrameEqual(whole, spark.createDataFrame([(2, 1, 20.0, 15.0)], whole.schema))


def test_parts_of_a_request_are_doubted_where_instants_contradict_or_lack(
    spark: SparkSession,
) -> None:
    """The first is right, the second committed before it was appended, the third never."""
    row = rows.RequestRow
    requests = [
        row(1, "X", 0, "a", 1, ms(9), received_ns=ms(1), first_offset=1, last_offset=1),
        row(2, "X", 0, "a", 2, ms(9), received_ns=ms(1), first_offset=2, last_offset=2),
        row(3, "X", 0, "a", 3, ms(9), received_ns=ms(1), first_offset=3, last_offset=3),
    ]
    ranges = [
        rows.RangeRow("appended", 1, 1, ms(2)),
        rows.RangeRow("committed", 1, 1, ms(5)),
        rows.RangeRow("appended", 2, 2, ms(8)),
        rows.RangeRow("committed", 2, 2, ms(6)),
        rows.RangeRow("appended", 3, 3, ms(8)),
    ]
    parts = blocking.request_parts(
        frame(spark, rows.RequestRow, requests),
        frame(spark, rows.RangeRow, ranges),
        frame(spark, rows.BlockRow, []),
    )
    [found] = blocking.parts_summary(parts).collect()
    assert (found.requests, found.out_of_order, found.uncommitted) == (3, 1, 1)
    assert found.latency_ms == 16.0
    assert (found.queue_ms, found.commit_ms, found.answer_ms) == (8.0, 1.0, 7.0)


def test_an_attribution_that_loses_time_is_told(spark: SparkSession) -> None:
    whole = spark.createDataFrame(
        [("r", "c", 1, 0, 10.0, 10.0)],
        "run_id string, process string, blocked_operations long, timed_out_operations long, "
        "total_ms double, union_ms double",
    )
    parts = spark.createDataFrame(
        [("r", "c", "lag_ms", "no multi in flight", 9.5, 10.0)],
        "run_id string, process string, cause string, zookeeper string, union_ms double, "
        "total_ms double",
    )
    [checked] = blocking.blocking_check(whole, parts).collect()
    assert checked.unexplained_share == pytest.approx(0.05)
