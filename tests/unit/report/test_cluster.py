"""What ``make cluster`` calls the same, and that a difference in the store is named."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from bench import cluster
from emulator.servers.jars import ONLY_FOR, pyspark_jars
from tools.jars import pins


def written(folder: Path, name: str, *parts: list[float]) -> None:
    (folder / name).mkdir(parents=True)
    for number, values in enumerate(parts):
        pq.write_table(
            pa.table({"run_id": ["r"] * len(values), "ms": values}),
            folder / name / f"{number}.parquet",
        )


def test_tables_are_the_same_whatever_the_order_of_their_parts(tmp_path: Path) -> None:
    here, there, local = tmp_path / "here", tmp_path / "there", fs.LocalFileSystem()
    written(here, "lag", [1.0, 2.0], [0.1 + 0.2])
    written(there, "lag", [0.3], [2.0], [1.0])
    written(there, "followed", [1.0])  # what --follow keeps is no table
    assert cluster.differences(here, str(there), local) == []
    written(here, "blocking", [1.0, 2.0])
    written(there, "blocking", [1.0, 2.5])
    written(here, "latency", [1.0])
    written(there, "latency", [1.0], [1.0])
    assert cluster.differences(here, str(there), local) == ["blocking", "latency"]
    written(here, "here alone", [1.0])
    written(there, "there alone", [1.0])
    found = ["blocking", "here alone", "latency", "there alone"]
    assert cluster.differences(here, str(there), local) == found


def test_a_comparison_of_nothing_is_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no table in"):
        cluster.differences(tmp_path, str(tmp_path), fs.LocalFileSystem())


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    kept = tmp_path / "mine"
    kept.write_text("text")
    assert cluster.main(["--out", str(tmp_path)]) == 1
    assert kept.read_text() == "text"


def test_the_jars_of_the_store_are_fetched_for_it_alone_and_are_of_sparks_hadoop() -> None:
    mine = {path for path in pins(["cluster"]) if path.startswith("s3/")}
    assert ONLY_FOR["cluster"] == {"s3"}
    assert len(mine) > 20
    assert not [path for path in pins([]) if path.startswith("s3/")]
    (client,) = pyspark_jars().glob("hadoop-client-api-*.jar")
    assert f"s3/hadoop-aws-{client.stem.rpartition('-')[2]}.jar" in mine
