"""Nodes with production's own files: good ones take part, and each bad change is found by them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest

from bench.rehearsal.own import OwnFound
from bench.verbs.own_nodes import StartedFiles
from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.survey import Survey
from emulator.servers.bridge import COMMAND
from emulator.servers.ports import HOST, free_port, is_open
from emulator.servers.process import ServerProcess
from tests.unit.operations.preflight.clean import CLEAN, CLUSTER, clean
from tests.unit.operations.preflight.every_change import EVERY_CHANGE

pytestmark = [pytest.mark.slow]


def with_folders(one: Survey) -> Survey:
    """What is known of brokers' ``meta.properties`` is in their folders."""

    def changed(x: Properties) -> Properties:
        if x.is_controller:
            return x
        values = {"log.dirs": f"/data/{x.node_id}", **x.values}
        metas = {values["log.dirs"].split(",")[0]: x.meta} if x.is_zookeeper_broker else {}
        return replace(x, values=values, metas=metas)

    files = [changed(x) for x in one.properties]
    return replace(one, properties=files, targets=[changed(x) for x in one.targets])


class Model(ServerProcess):
    """The simulator's ZooKeeper, empty, behind a port: no Java."""

    def __init__(self, folder: Path) -> None:
        super().__init__("zookeeper", folder)
        self._port = free_port()
        self.hosts = f"{HOST}:{self._port}"

    def start(self) -> Self:
        words = [sys.executable, "-m", "bench.zookeeper_model", str(self._port), "--empty"]
        return self.launch(words)

    def wait_started(self) -> None:
        self.wait_until("its port", lambda: is_open(self._port))


BY_MODEL: dict[str, Any] = {"server": Model}


def play(survey: Survey, *folders: Path, **more: Any) -> OwnFound:
    cluster = survey.json("/cluster/id").get("id", CLUSTER)
    release = survey.brokers[0].get("inter.broker.protocol.version", "3.9")[:3]
    started = StartedFiles(
        survey, cluster, lambda _id: release, folders, lambda name, text: f"{name}: {text}", **more
    )
    return started.play(str)


@pytest.mark.parametrize("name", CLEAN)
def test_good_files_take_part(name: str) -> None:
    found = play(with_folders(clean(name)), **BY_MODEL)
    assert (found.refused, found.unseen) == ([], [])


@pytest.mark.jvm
def test_good_files_take_part_beside_a_real_zookeeper_and_a_bad_one_does_not() -> None:
    survey = with_folders(clean("secured"))
    assert play(survey).refused == []
    (change,) = [one for one in EVERY_CHANGE if one.name == "two brokers with one id"]
    assert any("broker-1" in one for one in play(change.apply(survey)).refused)


FOUND = {
    ("B04", "another cluster's broker"): "belongs to another cluster",
    ("B05", "two brokers with one id"): "",
    ("B12", "no flag"): "",
    ("B16", "another port"): "no controller is reached",
    ("B16", "another host"): "no controller is reached",
    ("B16", "addresses of voters exchanged"): "",
    ("B18", "folder of another broker"): "belongs to broker 9",
    ("B19", "not a super user"): "CLUSTER_AUTHORIZATION_FAILED",
    ("B20", "another chroot"): "",
    ("B21", "a listener that no broker has"): "OTHER",
    ("B22", "another password"): "",
    ("B22", "another mechanism"): "",
    ("B22", "no certificate"): "",
    ("B22", "another protocol of the controllers"): "",
    ("B22", "users of SCRAM before the copy"): "",
    ("B24", "another's advertised address"): "Kafka registers only one of them",
    ("B24", "the address of a live broker"): "Kafka registers only one of them",
    ("B24", "one port on one machine"): "",
    ("B24", "one folder on one machine"): "in use",
    ("B17", "one id twice"): "in use",
}


@pytest.mark.parametrize(("code", "name"), FOUND)
def test_each_bad_file_is_found_by_the_nodes(code: str, name: str) -> None:
    (change,) = [one for one in EVERY_CHANGE if (one.code, one.name) == (code, name)]
    found = play(with_folders(change.apply(clean("plain"))), **BY_MODEL)
    assert found.refused
    assert any(FOUND[code, name] in one for one in found.refused)


def rewritten(key: str, value: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        meta = folder / "meta.properties"
        lines = [x for x in meta.read_text().splitlines() if not x.startswith(f"{key}=")]
        meta.write_text("\n".join([*lines, f"{key}={value}" if value else ""]))

    return change


def unformatted(folder: Path) -> None:
    for path in [x for x in folder.rglob("*") if x.is_file()]:
        path.unlink()


def kept(_folder: Path) -> None:
    """Nothing is changed."""


@pytest.mark.parametrize(
    ("change", "level", "said"),
    [
        (kept, "3.9", ""),
        (rewritten("cluster.id", "A" * 22), "3.9", "cluster"),
        (rewritten("node.id", "77"), "3.9", "77"),
        (rewritten("version", "0"), "3.9", "version"),
        (unformatted, "3.9", "format"),
        (kept, "3.6", "3.6"),
    ],
    ids=["clean", "cluster", "node", "version", "unformatted", "level"],
)
def test_a_controller_starts_with_a_copy_of_its_folder(
    change: Callable[[Path], None],
    level: str,
    said: str,
    tmp_path: Path,
) -> None:
    survey = clean("plain")
    file, data = tmp_path / "controller.properties", tmp_path / "data"
    (own,) = survey.controllers
    values = {**own.values, "log.dirs": str(data), "listeners": "CONTROLLER://127.0.0.1:9093"}
    file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    words = ["format", "-c", str(file), "-t", CLUSTER, "-r", level, "--unchecked", "--new-quorum"]
    subprocess.run([sys.executable, "-c", COMMAND, *words], check=True, capture_output=True)
    change(data)
    found = play(with_folders(survey), data, **BY_MODEL)
    assert bool(found.refused) is bool(said)
    assert any(said in one for one in found.refused) is bool(said)
