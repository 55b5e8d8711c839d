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
        (
            ("-t", CLUSTER, "-X", "log.dirs=/dev/null/x"),
            1,
            "/x: this folder cannot be made: Not",
        ),
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
    assert (code, "--new-quorum is for controllers" in complaint) == (2, True)
    code, out, complaint = run("format", "-c", broker, "-t", CLUSTER, "-r", "3.8")
    assert (code, out.startswith(f"Formatted {tmp_path / 'broker'}")) == (0, True)
    assert complaint == "not used: -r 3.8: the controllers have it, and this is a broker\n"


def broker_of(tmp_path: Path, *names: str) -> tuple[Path, list[Path]]:
    """The properties of a broker, and its folders; the first is that of the metadata log."""
    file, folders = tmp_path / "broker.properties", [tmp_path / one for one in names]
    file.write_text(
        "process.roles=broker\nnode.id=1\ncontroller.quorum.voters=3000@localhost:9093\n"
        "controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://127.0.0.1:9092\n"
        f"log.dirs={','.join(map(str, folders))}\n"
    )
    return file, folders


OTHER = "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize("given", [(), ("-g",)])
@pytest.mark.parametrize("broker", [False, True])
def test_of_two_at_once_the_second_finds_what_the_first_has_formatted(
    properties: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: tuple[str, ...],
    *,
    broker: bool,
) -> None:
    """Both have looked before either locks: the other one is run when the first opens the disk."""
    file, folders = broker_of(tmp_path, "a") if broker else (properties, [tmp_path / "data"])
    outcomes: list[tuple[int, str, str]] = []

    def opened(root: Path) -> Disk:
        if not outcomes:
            outcomes.append((0, "", ""))
            outcomes[0] = run("format", "-c", file, "-t", OTHER)
        return Disk(root)

    monkeypatch.setattr("emulator.io.formatting.Disk", opened)
    code, _, complaint = run("format", "-c", file, "-t", CLUSTER, *given)
    assert outcomes[0][0] == 0, outcomes
    said = f"with cluster id {OTHER}, not {CLUSTER}" if given else "--ignore-formatted leaves it"
    assert (code, f"{folders[0]} is already formatted" in complaint, said in complaint) == (
        1,
        True,
        True,
    ), complaint
    assert f"cluster.id={OTHER}\n" in (folders[0] / "meta.properties").read_text()


def test_a_failure_at_a_later_folder_names_those_that_are_formatted(tmp_path: Path) -> None:
    file, (first, second) = broker_of(tmp_path, "a", "b")
    second.write_text("no folder")
    code, out, complaint = run("format", "-c", file, "-t", CLUSTER)
    assert (code, out) == (1, "")
    assert f"{second}: not a folder" in complaint
    assert f"; formatted before: {first}; --ignore-formatted does the others" in complaint
    second.unlink()
    assert run("format", "-c", file, "-t", CLUSTER, "-g")[:2] == (
        0,
        f"""Formatted {second}
next: kraft-bridge broker -c {file}
""",
    )


def test_folders_of_two_clusters_are_refused(tmp_path: Path) -> None:
    file, folders = broker_of(tmp_path, "a", "b")
    for folder, cluster in zip(folders, (CLUSTER, OTHER), strict=True):
        folder.mkdir()
        (folder / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={cluster}\n")
    code, _, complaint = run("format", "-c", file, "-g")
    said = f"{folders[1]} is of cluster {OTHER}, {folders[0]} of cluster {CLUSTER}"
    assert (code, said in complaint) == (1, True), complaint


@pytest.mark.parametrize("broker", [False, True])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("version=1\nnode.id={id}\n", "cluster.id is missing"),
        ("version=2\nnode.id={id}\ncluster.id=x\n", "version 2"),
        (f"version=0\nbroker.id={{id}}\ncluster.id={CLUSTER}\n", "version 0"),
    ],
)
def test_a_formatted_folder_that_the_node_could_not_use_is_refused(
    properties: Path, tmp_path: Path, text: str, why: str, *, broker: bool
) -> None:
    """A broker takes a folder of ZooKeeper mode, as Kafka's does; a controller's is its own."""
    file, (folder,) = broker_of(tmp_path, "a") if broker else (properties, [tmp_path / "data"])
    folder.mkdir()
    (folder / "meta.properties").write_text(text.format(id=1 if broker else 3000))
    code, _, complaint = run("format", "-c", file, "-g")
    if broker and why == "version 0":
        assert (code, complaint) == (0, "")
        return
    said = f"kraft-bridge: {folder}/meta.properties: {why}"
    assert (code, complaint.startswith(said)) == (1, True), complaint


def test_a_corrupt_checkpoint_is_named(properties: Path, tmp_path: Path) -> None:
    assert run("format", "-c", properties, "-t", CLUSTER)[0] == 0
    file = tmp_path / "data" / "bootstrap.checkpoint"
    file.write_bytes(file.read_bytes()[:100])
    code, _, complaint = run("format", "-c", properties, "-g")
    assert (code, f"kraft-bridge: {file} at byte " in complaint) == (1, True), complaint


def test_keys_that_are_repeated_very_often_are_a_few_lines(properties: Path) -> None:
    lines = [f"key{one}=1\nkey{one}=2\n" for one in range(1_000)] + ["log.dir=x\n"] * 1_000
    with properties.open("a") as file:
        file.writelines(lines)
    code, _, complaint = run("format", "-c", properties, "-t", CLUSTER)
    repeated = [one for one in complaint.splitlines() if " stand" in one]
    assert (code, len(repeated), "991 more keys" in repeated[-1]) == (0, 11, True)
    assert max(map(len, complaint.splitlines())) < 300
