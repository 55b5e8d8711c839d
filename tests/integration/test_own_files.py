"""Nodes with production's own files: good ones take part, and each bad change is found by them."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
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
from emulator.servers.process import (
    ProcessError,
    ServerProcess,
    interrupt_on_terminate,
    running,
)
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


def started(survey: Survey, *folders: Path, **more: Any) -> StartedFiles:
    cluster = survey.json("/cluster/id").get("id", CLUSTER)
    protocols = [one.get("inter.broker.protocol.version") for one in survey.brokers]
    release = next(filter(None, protocols), "3.9")[:3]
    return StartedFiles(
        survey, cluster, lambda _id: release, folders, lambda name, text: f"{name}: {text}", **more
    )


def play(survey: Survey, *folders: Path, **more: Any) -> OwnFound:
    with tempfile.TemporaryDirectory() as folder:
        found = started(survey, *folders, **more).play(Path(folder), str)
        assert not [*Path(folder).iterdir()]
    return found


@pytest.mark.parametrize("name", CLEAN)
def test_good_files_take_part(name: str) -> None:
    found = play(with_folders(clean(name)), **BY_MODEL)
    assert (found.refused, found.unseen) == ([], [])


def test_controllers_alone_take_part() -> None:
    """Nobody has to wait for a broker until one of them leads."""
    survey = clean("three controllers below a chroot")
    controllers = [one for one in survey.properties if one.is_controller]
    found = play(replace(survey, properties=controllers, targets=[]), **BY_MODEL)
    assert (found.refused, found.unseen) == ([], [])


@pytest.mark.jvm
def test_good_files_take_part_beside_a_real_zookeeper_and_a_bad_one_does_not() -> None:
    assert play(with_folders(clean("secured"))).refused == []
    found = play(bad("B05", "two brokers with one id", "secured"))
    assert any("broker-1" in one for one in found.refused)


def bad(code: str, name: str, base: str = "plain") -> Survey:
    (change,) = [one for one in EVERY_CHANGE if (one.code, one.name) == (code, name)]
    return with_folders(change.apply(clean(base)))


WORDS = "import sys; from tests.integration import test_own_files as own; own.{}(sys.argv[1])"


def begun(what: str, folder: Path) -> subprocess.Popen[str]:
    """A function of this file in a process of its own."""
    words = [sys.executable, "-c", WORDS.format(what), str(folder)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def waits(folder: str) -> None:
    """Nobody reaches a controller; ends with Ctrl-C as ``rehearse`` does."""
    interrupt_on_terminate(signal.SIGINT)
    one = started(bad("B16", "another port"), **BY_MODEL)
    seen = one._seen

    def look(statuses: Any) -> Any:
        say("a look")
        return seen(statuses)

    one._seen = look  # type: ignore[method-assign]
    try:
        one.play(Path(folder), str)
    except KeyboardInterrupt:
        say(f"left: {running()} {[*Path(folder).iterdir()]}")


def goes_through(folder: str) -> None:
    """Says whom it refuses."""
    found = started(with_folders(clean("plain")), **BY_MODEL).play(Path(folder), str)
    say(f"refused: {found.refused}")


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - another process reads it


def test_ctrl_c_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    with begun("waits", tmp_path) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "a look\n"
        one.send_signal(signal.SIGINT)
        assert one.stdout.read().splitlines()[-1] == "left: [] []"


def test_two_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with begun("goes_through", first) as one, begun("goes_through", second) as two:
        assert [x.communicate()[0] for x in (one, two)] == ["refused: []\n"] * 2


def test_without_its_zookeeper_no_node_is_refused(tmp_path: Path) -> None:
    made: list[Model] = []

    def model(folder: Path) -> Model:
        made.append(Model(folder))
        return made[-1]

    def note(_line: str) -> None:
        made[0].kill()

    before = {*running()}
    one = started(with_folders(clean("plain")), server=model)
    with pytest.raises(ProcessError, match="ZooKeeper ended by itself"):
        one.play(tmp_path, note)
    assert {*running()} <= before
    assert not [*tmp_path.iterdir()]


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
    found = play(bad(code, name), **BY_MODEL)
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
