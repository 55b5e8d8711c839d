"""Metrics of the operating system's process, by the names that Prometheus gives them everywhere."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from functools import cache
from importlib import metadata

from prometheus_client import ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Family

from emulator.io.log_output import lines_lost

BUILD_INFO = "kraft_bridge_build_info"
LOG_LINES_LOST = "kraft_bridge_log_lines_lost"


def text() -> str:
    """Memory, CPU time, descriptors and start of this process, and what it is; text format."""
    return generate_latest(_OfProcess()).decode()


class _OfProcess:
    """The registry interface that ``generate_latest`` needs."""

    def collect(self) -> Iterable[Family]:
        yield from _collector().collect()
        family = Family(BUILD_INFO, "1, with the versions of this program and of Python.", "gauge")
        family.add_sample(BUILD_INFO, _versions(), 1)
        yield family
        lost = Family(LOG_LINES_LOST, "Log lines that could not be written.", "counter")
        lost.add_sample(f"{LOG_LINES_LOST}_total", {}, lines_lost())
        yield lost


@cache
def _collector() -> ProcessCollector:
    return ProcessCollector(registry=None)


@cache
def _versions() -> dict[str, str]:
    return {"version": metadata.version("kraft-bridge"), "python": platform.python_version()}
