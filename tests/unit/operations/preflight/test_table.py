"""A table of inputs: what preflight says of each, and that it says nothing of its twin.

The files are written and read as an operator gives them, with folders where the row has some.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import javaproperties
import pytest

from emulator.commands.preflight import inputs, sarif
from emulator.operations.preflight.engine import Severity, printed
from emulator.operations.preflight.report import PreflightReport, run
from emulator.operations.preflight.survey import DumpedZnode
from tests.unit.operations.preflight.clean import (
    CLUSTER,
    PLAIN,
    PLAIN_MAP,
    TOPIC_IDS,
    js,
    node_files,
    topic,
    tree,
    with_parents,
)

DATA = Path(__file__).parents[3] / "data"
ROWS = tomllib.loads((DATA / "preflight.toml").read_text())["row"]
FILES: Mapping[str, tuple[tuple[int, ...], tuple[int, ...], str]] = {
    "strimzi": ((0, 1, 2), (3, 4, 5), "CONTROLPLANE-9090,REPLICATION-9091,PLAIN-9092,TLS-9093"),
    "cp-ansible": ((1, 2, 3), (9991, 9992, 9993), "BROKER,INTERNAL"),
    "cfk": ((0, 1, 2), (9990, 9991, 9992), "EXTERNAL,INTERNAL,REPLICATION"),
    "bitnami": ((100, 101, 102), (0, 1, 2), "CLIENT,INTERNAL"),
}
"""Installer -> ids of its brokers and its controllers, names of the brokers' listeners."""
Values = dict[str, str]


class Cluster:
    """Files by name, and a tree; a change of a row spoils it."""

    def __init__(self, base: str, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, Values] = {}
        self.nodes: dict[str, DumpedZnode] = {}
        (self._installed if base in FILES else self._lab)(base)
        if base in {"rolling", "rolled"}:
            self._rolling((1,) if base == "rolling" else (1, 2, 3))

    def _lab(self, _base: str) -> None:
        present, targets = node_files(PLAIN, PLAIN_MAP, ids=(1, 2, 3), controllers=(101, 102, 103))
        self.files = {one.name: dict(one.values) for one in (*present, *targets)}
        self.nodes = dict(tree((1, 2, 3)))

    def _installed(self, base: str) -> None:
        brokers, controllers, listeners = FILES[base]
        for kind, ids in (("broker", brokers), ("target", brokers), ("controller", controllers)):
            text = (DATA / "installers" / base / f"{kind}.properties").read_text()
            for one in ids:
                found = javaproperties.loads(text.replace("{id}", str(one)))
                self.files[f"{kind}-{one}"] = found
        self.nodes = dict(tree(brokers, listeners))

    def _rolling(self, done: tuple[int, ...]) -> None:
        """In dual write; some brokers are in KRaft mode."""
        for one in done:
            self.files[f"broker-{one}"] = dict(self.files[f"target-{one}"])
            del self.nodes[f"/brokers/ids/{one}"]
        self._put("/controller", version=2, brokerid=101, timestamp="1", kraftControllerEpoch=5)
        self._put("/controller_epoch", None)
        self.nodes["/controller_epoch"] = DumpedZnode(b"12")
        mark = {"version": 0, "kraft_controller_id": 101, "kraft_controller_epoch": 5}
        self._put("/migration", **mark, kraft_metadata_offset=300, kraft_metadata_epoch=5)

    def _put(self, path: str, text: str | None = "", **values: Any) -> None:
        self.nodes[path] = DumpedZnode(js(values) if not text else text.encode())

    def change(self, one: Mapping[str, Any]) -> None:
        if "file" in one:
            for name in self._chosen(one["file"]):
                number = name.rpartition("-")[2]
                more = {k: v.replace("{id}", number) for k, v in one.get("set", {}).items()}
                self.files[name] |= more
                for key in one.get("unset", ()):
                    del self.files[name][key]
        elif "topic" in one:
            name, replicas = one["topic"], tuple(one["replicas"])
            made = topic(name, "AAAAAAAAAAAAAAAAAAAAAw", replicas)
            self.nodes |= {path: DumpedZnode(data) for path, data in made.items()}
        elif "folder" in one:
            self._hold(one)
        elif one.get("drop"):
            path = one["znode"]
            gone = [x for x in self.nodes if x == path or x.startswith(f"{path}/")]
            for each in gone:
                del self.nodes[each]
        elif "like" in one:
            self.nodes[one["znode"]] = self.nodes[one["like"]]
        else:
            self._merge(one)

    def _merge(self, one: Mapping[str, Any]) -> None:
        path = one["znode"]
        known = self.nodes.get(path, DumpedZnode(None)).data or b"{}"
        data = one["text"].encode() if "text" in one else js({**json.loads(known), **one["json"]})
        self.nodes[path] = DumpedZnode(data)

    def _chosen(self, which: str) -> Iterator[str]:
        kind = which.removesuffix("s")
        return (x for x in self.files if which in {x, "all"} or x.startswith(f"{kind}-"))

    def _hold(self, one: Mapping[str, Any]) -> None:
        """A folder of a broker, as Kafka writes it."""
        where = self.folder / one["folder"]
        for kind in ("broker", "target"):
            values = self.files[f"{kind}-{one['of']}"]
            before = f"{values['log.dirs']}," if one.get("beside") else ""
            values["log.dirs"] = f"{before}{where}"
        if one.get("absent"):
            return
        where.mkdir()
        meta = one.get("meta", {"version": "0", "broker.id": str(one["of"]), "cluster.id": CLUSTER})
        if meta:
            (where / "meta.properties").write_text("".join(f"{k}={v}\n" for k, v in meta.items()))
        for name, topic_id in one.get("partitions", {}).items():
            (where / name).mkdir()
            written = topic_id.replace("{topic}", TOPIC_IDS["orders"])
            if written:
                text = f"version: 0\ntopic_id: {written}"
                (where / name / "partition.metadata").write_text(text)
        for name, text in one.get("metadata", {}).items():
            (where / name).mkdir()
            (where / name / "partition.metadata").write_text(text)
        if "quorum" in one:
            (where / "__cluster_metadata-0").mkdir()
            (where / "__cluster_metadata-0" / "quorum-state").write_text(one["quorum"])

    def report(self) -> PreflightReport:
        """Written, read and judged."""
        paths = {name: self.folder / name for name in self.files}
        for name, values in self.files.items():
            paths[name].write_text(javaproperties.dumps(values, timestamp=False))
        nodes = {
            path: {"null": True} if one.data is None else {"text": one.data.decode()}
            for path, one in with_parents(self.nodes).items()
        }
        dump = self.folder / "tree.json"
        dump.write_text(json.dumps({"nodes": nodes}))
        present = [path for name, path in paths.items() if not name.startswith("target")]
        survey = inputs.offline(dump, present)
        targets = [x for name, x in paths.items() if name.startswith("target")]
        object.__setattr__(survey, "targets", [inputs.read_properties(x) for x in targets])
        return run(survey)

    def lines(self, report: PreflightReport) -> list[str]:
        """What it says, without the folder of the test."""
        here = f"{self.folder}/"
        found = [
            f"{printed(x.code)} {x.severity.value} {x.znode}: {x.fact}" for x in report.findings
        ]
        found += [f"{printed(x.code)} not looked at: {x.why}" for x in report.not_run]
        return [one.replace(here, "") for one in found]


def made(row: Mapping[str, Any], changes: str, folder: Path) -> tuple[Cluster, PreflightReport]:
    cluster = Cluster(row["base"], folder)
    for one in row[changes]:
        cluster.change(one)
    return cluster, cluster.report()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_each_input_is_judged_and_its_twin_is_clean(row: Mapping[str, Any], tmp_path: Path) -> None:
    spoilt, clean = tmp_path / "spoilt", tmp_path / "twin"
    spoilt.mkdir()
    clean.mkdir()
    cluster, report = made(row, "changes", spoilt)
    lines = cluster.lines(report)
    assert any(row["line"] in line for line in lines), lines
    twin, report = made(row, "twin", clean)
    told = [x for x in report.findings if x.severity is not Severity.INFO]
    assert not told, twin.lines(report)
    assert report.exit_code(strict=True) == 0


@pytest.mark.parametrize("base", FILES)
def test_files_as_installers_write_them_pass_strict(base: str, tmp_path: Path) -> None:
    cluster = Cluster(base, tmp_path)
    report = cluster.report()
    assert report.exit_code(strict=True) == 0, cluster.lines(report)


def test_one_path_of_several_machines_is_the_folder_of_one_broker(tmp_path: Path) -> None:
    cluster = Cluster("lab", tmp_path)
    partitions = {"orders-0": "{topic}", "payments-0": TOPIC_IDS["payments"]}
    cluster.change({"folder": "data", "of": 1, "partitions": partitions})
    for name in [x for x in cluster.files if not x.startswith("controller")]:
        cluster.files[name]["log.dirs"] = str(tmp_path / "data")
    cluster.nodes |= {
        path: DumpedZnode(data)
        for path, data in topic("more", "AAAAAAAAAAAAAAAAAAAABA", (2, 3)).items()
    }
    lines = cluster.lines(cluster.report())
    assert not [x for x in lines if x.startswith("PF-W25") and "not looked at" not in x], lines


def test_the_first_line_says_how_many_brokers_are_done(tmp_path: Path) -> None:
    report = Cluster("rolling", tmp_path).report()
    assert report.roll is not None
    assert (report.roll.done, report.roll.of, report.roll.text) == ((1,), 3, "1 of 3 brokers done")
    assert sarif.verdict(report).startswith("no blocker found: 1 of 3 brokers done; 0 blockers")
    (tmp_path / "all").mkdir()
    rolled = Cluster("rolled", tmp_path / "all").report()
    assert sarif.verdict(rolled).startswith("no blocker found: 3 of 3 brokers done; ")
    (tmp_path / "before").mkdir()
    assert Cluster("lab", tmp_path / "before").report().roll is None
