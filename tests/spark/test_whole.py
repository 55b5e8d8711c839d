"""A test that ends in the middle of a question to Spark leaves the next one a whole session."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.jvm,
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
]

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ("pytest_timeout", "tests.kit.whole", "tests.spark.conftest")
PLANTED = """
import threading
import pytest

@pytest.fixture(scope="module")
def table(spark):
    return spark.range(7)

def rows(table):
    return table.rdd.map(lambda row: row.id).sum()

def test_whole(table):
    assert rows(table) == 21

@pytest.mark.timeout(1, func_only=True)
def test_in_a_job(spark, table):
    spark.sparkContext.parallelize([1], 1).foreach(lambda _: threading.Event().wait())

def test_after_a_job(table):
    assert rows(table) == 21

@pytest.mark.timeout(1, func_only=True)
def test_in_java(spark):
    spark._jvm.java.lang.Thread.currentThread().join()

def test_after_java(spark, table):
    assert rows(table) == 21 and spark.sql("select 3").first()[0] == 3

def test_stopped(spark):
    spark.stop()
    raise ValueError

def test_after_a_stop(spark, table):
    assert rows(table) == 21 and table.sparkSession is spark
"""


def test_a_time_limit_in_the_middle_of_a_job_breaks_no_other_test(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 600\nfilterwarnings = error\n")
    (tmp_path / "test_planted.py").write_text(PLANTED)
    plugins = [text for name in PLUGINS for text in ("-p", name)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "--junit-xml", "found.xml"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    cases = ET.parse(tmp_path / "found.xml").iter("testcase")
    wrong = [(str(case.get("name")), part.tag) for case in cases for part in case]
    failed = ("test_in_a_job", "test_in_java", "test_stopped")
    assert wrong == [(name, "failure") for name in failed], done.stdout
