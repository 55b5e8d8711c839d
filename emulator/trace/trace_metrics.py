"""Metrics of the trace itself."""

from __future__ import annotations

from typing import Final

from emulator.trace.metric import Metric, MetricKind

TRACE_ROWS = Metric(
    "kraft_bridge_trace_rows",
    "Rows recorded in the trace since the start, by table; none without a trace.",
    kind=MetricKind.COUNTER,
    labels=("table",),
)
TRACE_MISSING_S = Metric(
    "kraft_bridge_trace_missing_seconds",
    "Seconds up to now that are missing in the trace because it could not be written; 0 while it "
    "is. None without a trace.",
    unit="s",
)

TRACE_METRICS: Final = (TRACE_ROWS, TRACE_MISSING_S)
"""In the order declared."""
