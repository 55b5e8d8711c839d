"""One Spark session for the whole run, or until a test fails: the next one gets a new one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from bench.analysis.session import SMALL, abandon, end, session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        # Tables of ten rows: compiling a query costs more than running it.
        started = session("local[2]", app="tests", settings=SMALL)
    except BaseException:
        abandon()
        raise
    yield started
    end(started)
