"""``preflight``: exit codes, JSON, and one sentence when nothing can be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import data
from tests.unit.commands.running import run


def test_preflight_of_a_dump_says_what_it_found_by_exit_code(tmp_path: Path) -> None:
    folder = "3.9.2-rollback-and-stale-migration-znode"
    before = data.extract("3.9.2-full/tree-0-before.json", tmp_path)
    code, out, _ = run("preflight", "--dump", before)
    assert code == 0
    assert "W03 warning  /brokers/topics/moving" in out
    assert "B11: no server.properties given" in out
    assert run("preflight", "--dump", before, "--strict")[0] == 1
    rolled_back = data.extract(f"{folder}/tree-5-rolled-back.json", tmp_path)
    code, out, _ = run("preflight", "--dump", rolled_back, "--json")
    assert code == 2
    found = json.loads(out)
    assert found["counts"]["blocker"] == 1
    (blocker,) = (one for one in found["findings"] if one["severity"] == "blocker")
    assert (blocker["code"], blocker["znode"]) == ("B02", "/migration")
    assert blocker["fact"]
    assert blocker["remedy"]
    assert {one["code"] for one in found["not_run"]} >= {"B05", "I02"}


def test_preflight_reads_properties_and_the_folder_they_name(
    tmp_path: Path, properties: Path
) -> None:
    dump = data.extract("3.9.2-full/tree-0-before.json", tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("cluster.id=another\n")
    code, out, _ = run("preflight", "--dump", dump, "-c", properties, "--json")
    assert code == 2
    codes = {one["code"] for one in json.loads(out)["findings"]}
    assert {"B04", "B12"} <= codes


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "needs --zookeeper, --dump"),
        (("--dump", "a", "--zookeeper", "h:1"), "exclude each other"),
        (("-c", "no-such.properties"), "no-such.properties"),
        (("--dump", "no-such-file"), "no-such-file"),
        (("--dump", __file__), "test_preflight.py"),
        (("--dump", "a", "--identity", "kafka"), "--identity kafka: not scheme:id"),
    ],
)
def test_preflight_that_cannot_look_exits_with_3(arguments: tuple[str, ...], why: str) -> None:
    code, out, err = run("preflight", *arguments)
    assert (code, out) == (3, "")
    assert why in err
