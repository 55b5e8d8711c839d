"""Traces that end before their process: said by a gauge, or seen beside the others of the host."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from bench.analysis.schema import struct_type
from bench.analysis.whole import missing
from emulator.trace import rows
from emulator.trace.metrics import TRACE_MISSING_S
from emulator.trace.rows import CpuGauge

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]

S = 1_000_000_000


def test_each_is_found_once_with_the_seconds(spark: SparkSession) -> None:
    def gauge(process: str, at_s: int, name: str = "g", value: float = 0.0) -> tuple[object, ...]:
        return (at_s * S, name, value, process, "r")

    def run(process: str, host: str) -> tuple[object, ...]:
        return (rows.SCHEMA_VERSION, 0, 0, host, "0", "3.9", "{}", process, "r")

    gauges = [
        gauge("whole", 1),
        gauge("whole", 250),
        gauge("said", 10),
        gauge("said", 100, TRACE_MISSING_S.name, 88.5),
        gauge("said", 300, TRACE_MISSING_S.name, 288.5),
        gauge("seen", 120),
        gauge("elsewhere", 10),
    ]
    # A load samples its CPU, and may be over long before the others of its host.
    gauges += [gauge("short load", at_s, str(CpuGauge.PROCESS), 1.0) for at_s in (1, 20)]
    request = (1, "A", 0, None, 1, 300 * S, None, 0, None, None, None, 1, 1, *[None] * 3)
    hosts = dict.fromkeys(("whole", "said", "seen", "load", "short load"), "h")
    hosts["elsewhere"] = "other"
    found = missing(
        spark.createDataFrame(gauges, struct_type(rows.GaugeRow)),
        spark.createDataFrame([(*request, "load", "r")], struct_type(rows.RequestRow)),
        spark.createDataFrame([run(*one) for one in hosts.items()], struct_type(rows.RunRow)),
    )
    assert {(row.process, row.missing_s, row.why) for row in found.collect()} == {
        ("said", 288.5, "not written"),
        ("seen", 180.0, "others went on"),
    }
