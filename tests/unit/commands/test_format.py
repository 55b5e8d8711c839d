"""``format``: what it writes, what it refuses, and what starts without it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from emulator.io.disk import Disk
from emulator.raft.layout import FOLDER, VOTER_STATE
from emulator.seam import ReplaceFile
from tests.data import one_voter
from tests.unit.commands.running import CLUSTER, run

MIGRATES = (
    *("-X", "zookeeper.metadata.migration.enable=true"),
    *("-X", "zookeeper.connect=h:1"),
    *("-X", "inter.broker.listener.name=CONTROLLER"),
)


Folders = tuple[str, tuple[str, ...]]
"""The folder that is formatted, and those that are not used."""


@pytest.mark.requirement("V10")
def test_format_then_the_log_of_a_fresh_folder(properties: Path, tmp_path: Path) -> None:
    code, out, _ = run("format", "-c", properties, "-t", CLUSTER, "-r", "3.7-IV4")
    assert (code, "metadata.version 3.7-IV4" in out) == (0, True)
    again, _, complaint = run("format", "-c", properties, "-t", CLUSTER)
    assert (again, "already formatted" in complaint) == (1, True)
    assert "empty it first" in complaint
    ignored, out, _ = run("format", "-c", properties, "-t", CLUSTER, "-g")
    assert (ignored, "already formatted" in out) == (0, True)
    code, out, _ = run("log", "dump", "--log-dir", tmp_path / "data")
    assert (code, out) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("-t", "nonsense"), 2, "cluster id"),
        (("-t", CLUSTER, "-r", "2.8"), 2, "release version"),
        (("-t", CLUSTER, "-r", "3.9-IV0", "-X", "kraftbridge.release=3.4"), 2, "newer than"),
        (("-t", CLUSTER, "-r", "3.3", *MIGRATES), 2, "3.3-IV3 cannot migrate"),
        (("-t", CLUSTER, "-X", "process.roles=controler"), 2, "has process.roles=controller"),
        (("-t", CLUSTER, "-X", "log.dirs=/dev/null/x"), 1, "bridge: /dev/null/x: Not a directory"),
        (("-t", CLUSTER, "-X", "node.id=1"), 2, "not in controller.quorum.voters"),
        (("-t", CLUSTER, "-X", "nonsense"), 2, "not key=value"),
    ],
)
def test_format_says_what_is_wrong(
    properties: Path, arguments: tuple[str, ...], code: int, word: str
) -> None:
    found, _, complaint = run("format", "-c", properties, *arguments)
    assert (found, word in complaint) == (code, True), complaint


@pytest.mark.parametrize(
    ("named", "metadata", "folders"),
    [
        (("a", "b"), "", ("a", ("b",))),
        (("a", "b", "a"), "m", ("m", ("a", "b"))),
        (("a", "a/"), "", ("a", ())),
        (("a",), "", ("a", ())),
    ],
)
def test_of_several_folders_it_says_which_is_formatted_and_which_is_not_used(
    properties: Path, tmp_path: Path, named: tuple[str, ...], metadata: str, folders: Folders
) -> None:
    """Kafka 3.9.2's own tool formats each of them; a controller of ours has one."""
    used, unused = folders
    more = ["-X", "log.dirs=" + ",".join(f"{tmp_path}/{one}" for one in named)]
    more += ["-X", f"metadata.log.dir={tmp_path / metadata}"] if metadata else []
    code, out, told = run("format", "-c", properties, "-t", CLUSTER, *more)
    assert (code, f"Formatted {tmp_path / used} with" in out) == (0, True)
    assert (tmp_path / used / "meta.properties").exists()
    assert not any((tmp_path / one).exists() for one in unused)
    others = ", ".join(str(tmp_path / one) for one in unused)
    said = f"log.dirs: not used, and not formatted: {others}; a controller has one folder, that of"
    assert (said in told) == bool(unused), told


def test_a_full_disk_is_one_sentence(properties: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: Disk, effect: ReplaceFile) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", effect.path)

    monkeypatch.setattr(Disk, "replace", full)
    code, _, complaint = run("format", "-c", properties, "-t", CLUSTER)
    assert (code, "Traceback" in complaint) == (1, False)
    assert "No space left on device" in complaint
    assert "nothing was formatted in" in complaint


@pytest.mark.parametrize(
    ("name", "kept", "why"),
    [
        ("meta.properties", 0, "version is missing"),
        ("meta.properties", 40, "version is missing"),
        ("bootstrap.checkpoint", 0, "empty, not even a snapshot header"),
        ("bootstrap.checkpoint", 100, " at byte "),
    ],
)
def test_a_damaged_file_of_format_is_named_with_a_way_out_that_keeps_the_log(
    properties: Path, tmp_path: Path, name: str, kept: int, why: str
) -> None:
    data = tmp_path / "data"
    for path, content in one_voter.folder("stopped")[0].items():
        (data / path).parent.mkdir(parents=True, exist_ok=True)
        (data / path).write_bytes(content)
    whole = run("log", "dump", "--log-dir", data)
    assert (whole[0], bool(whole[1])) == (0, True)
    (data / name).write_bytes((data / name).read_bytes()[:kept])
    code, _, complaint = run("controller", "-c", properties)
    *_, said = complaint.splitlines()  # the first line says which controller it is
    assert (code, said.startswith(f"kraft-bridge: {data}/{name}")) == (1, True), complaint
    assert why in complaint
    assert "remove its meta.properties and run kraft-bridge format -c FILE -t" in complaint
    if name == "meta.properties":
        assert run("log", "dump", "--log-dir", data) == (2, "", complaint)
    (data / "meta.properties").unlink()
    code, _, complaint = run("format", "-c", properties, "-t", CLUSTER, "-r", "3.9-IV0")
    assert code == 0, complaint
    assert run("log", "dump", "--log-dir", data) == whole


def test_the_folder_of_a_broker_in_zookeeper_mode_is_not_to_be_formatted_anew(
    properties: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=a\n")
    code, _, complaint = run("controller", "-c", properties)
    said = "meta.properties: version 0, a controller's folder has version 1; name a folder of "
    assert (code, f"{tmp_path}/data/{said}the controller's own in log.dirs" in complaint) == (
        1,
        True,
    )
    assert "remove" not in complaint


def test_a_broker_in_zookeeper_mode_needs_no_format(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nzookeeper.connect=127.0.0.1:1\nlog.dirs=data\n")
    code, _, complaint = run("format", "-c", file, "-t", CLUSTER)
    assert code == 2
    assert "is not formatted, only started" in complaint


def three(tmp_path: Path) -> Path:
    """The properties of one of three controllers."""
    file = tmp_path / "three.properties"
    file.write_text(
        "process.roles=controller\nnode.id=3000\ncontroller.listener.names=CONTROLLER\n"
        "controller.quorum.voters=3000@localhost:9093,3001@localhost:9094,3002@localhost:9095\n"
        "listeners=CONTROLLER://127.0.0.1:9093\n"
        f"listener.security.protocol.map=CONTROLLER:PLAINTEXT\nlog.dirs={tmp_path / 'three'}\n"
    )
    return file


def test_a_voter_of_a_new_quorum_is_formatted_as_one(tmp_path: Path) -> None:
    file, folder = three(tmp_path), tmp_path / "three"
    code, out, _ = run("format", "-c", file, "-t", CLUSTER)
    assert (code, "In a new quorum every voter needs --new-quorum" in out) == (0, True)
    assert not (folder / VOTER_STATE).exists()
    code, out, _ = run("format", "-c", file, "-t", CLUSTER, "--new-quorum", "-g")
    assert (code, "a voter of a new quorum" in out) == (0, True)
    assert (folder / VOTER_STATE).read_bytes() == b"0\nnew\n"
    (folder / VOTER_STATE).write_bytes(b"0\nwhole\n")
    (folder / FOLDER / f"{0:020d}.log").write_bytes(b"x")
    code, _, complaint = run("format", "-c", file, "-t", CLUSTER, "--new-quorum", "-g")
    assert (code, "belongs to a quorum already" in complaint) == (1, True)
    assert (folder / VOTER_STATE).read_bytes() == b"0\nwhole\n"


def test_a_lone_voter_and_a_broker_are_no_voters_of_a_new_quorum(
    properties: Path, tmp_path: Path
) -> None:
    code, _, _ = run("format", "-c", properties, "-t", CLUSTER, "--new-quorum")
    assert (code, (tmp_path / "data" / VOTER_STATE).exists()) == (0, False)
    broker = tmp_path / "broker.properties"
    broker.write_text(
        "process.roles=broker\nnode.id=1\ncontroller.quorum.voters=3000@localhost:9093\n"
        "controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://127.0.0.1:9092\n"
        f"log.dirs={tmp_path / 'broker'}\n"
    )
    code, _, complaint = run("format", "-c", broker, "-t", CLUSTER, "--new-quorum")
    assert (code, "--new-quorum is for controllers" in complaint) == (1, True)
