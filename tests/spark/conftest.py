"""One Spark session for the whole run, or until a test fails: the next one gets a new one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from bench.analysis.session import abandon, end, session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        started = session("local[2]", app="tests")
    except BaseException:
        abandon()
        raise
    # Tables of ten rows: compiling a query costs more than running it, and one partition is plenty.
    started.conf.set("spark.sql.codegen.wholeStage", "false")
    started.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    started.conf.set("spark.sql.shuffle.partitions", "1")
    started.conf.set("spark.sql.adaptive.enabled", "false")
    yield started
    end(started)
