"""The command line: help without Java, exit codes, and words for what is wrong."""

from __future__ import annotations

import ast
import os
import re
from contextlib import closing
from pathlib import Path

import pytest

import emulator
from emulator.io import folder_holder
from emulator.io.disk import Disk
from emulator.raft import layout
from tests.unit.commands.running import CLUSTER, run
from wire import records as r
from wire.batch import Batch, encode_batch
from wire.record_serde import encode_record


@pytest.mark.parametrize(
    "verb", ["format", "controller", "status", "demo", "analyze", "zk", "log", "wire"]
)
def test_every_verb_explains_itself(verb: str) -> None:
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert "Usage" in out


@pytest.mark.requirement("C13")
def test_no_verb_starts_or_ends_a_migration() -> None:
    """``finalise`` ends a hold that a setting asked for, at a controller without the flag."""
    _, out, _ = run("--help")
    listed = out.partition("Rehearse:")[2].partition("Exit codes:")[0]
    verbs = {line.split()[0] for line in listed.splitlines() if re.match(r"  \S", line)}
    known = {"format", "controller", "broker", "status", "preflight", "plan", "demo", "analyze"}
    known |= {"bench", "load", "elect-leaders", "fleet", "simulate", "zk", "log", "wire"}
    known |= {"cluster", "finalise", "rollback", "trace", "predict", "conformance"}
    known |= {"rehearse", "evidence"}
    assert verbs == known


@pytest.mark.requirement("C13")
def test_no_request_of_a_peer_moves_the_migration() -> None:
    """Only what a start finds, the copy, and a leader without the flag write its state; no API."""
    root = Path(emulator.__file__).parent
    writers = set()
    for path in root.rglob("*.py"):
        text = path.read_text()
        nodes = ast.walk(ast.parse(text)) if "ZkMigrationStateRecord" in text else ()
        for node in nodes:
            name = node.func if isinstance(node, ast.Call) else None
            if isinstance(name, ast.Attribute) and name.attr == "ZkMigrationStateRecord":
                writers.add(str(path.relative_to(root)))
    assert writers == {
        "controller/rules/activation.py",
        "metadata/snapshot.py",
        "migration/taking_over/importer.py",
        "node/finalising.py",
    }


@pytest.mark.requirement("R07")
def test_a_log_with_a_state_that_is_unknown_ends_each_start_with_one_error(
    properties: Path, tmp_path: Path
) -> None:
    """And writes nothing: who restarts it again and again finds the folder as it was."""
    run("format", "-c", properties, "-t", CLUSTER)
    log = tmp_path / "data" / layout.segment_path(0)
    log.parent.mkdir(exist_ok=True)
    state = encode_record(r.ZkMigrationStateRecord(zk_migration_state=9), 0)
    log.write_bytes(encode_batch(Batch(0, 1, 0, 1_000, [(None, state)])))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for _ in range(2):
        code, _, complaint = run("controller", "-c", properties)
        assert code == 1
        assert complaint.count("migration state 9 is unknown") == 1
        assert "Traceback" not in complaint
        after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert {path: data for path, data in after.items() if path.name != ".lock"} == {
            path: data for path, data in before.items() if path.name != ".lock"
        }


@pytest.mark.parametrize("named", [(), ("-c",)])
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", "run kraft-bridge format -c {file} -t CLUSTER_ID first"),
        (
            "zookeeper.connect=h:1\nzookeeper.metadata.migration.enable=true\n",
            "run kraft-bridge format -c {file} first",
        ),
    ],
)
def test_a_folder_that_is_not_formatted_does_not_start(
    properties: Path, tmp_path: Path, more: str, said: str, named: tuple[str, ...]
) -> None:
    """A service is not to start it again and again: code 2; the whole command is said."""
    properties.write_text(properties.read_text() + more)
    code, _, complaint = run("controller", *named, properties)
    last = complaint.splitlines()[-1]
    said = f"kraft-bridge: {tmp_path}/data is not formatted: {said.format(file=properties)}"
    assert (code, last) == (2, said)


def test_a_controller_has_one_file(properties: Path) -> None:
    two = f"two properties files are given, {properties} and -c {properties}: a node has one"
    for typed, said in ((), "missing: -c FILE"), ((properties, "-c", properties), two):
        code, _, complaint = run("controller", *typed)
        assert (code, said in complaint) == (2, True)


@pytest.mark.parametrize("verb", ["controller", "format", "broker"])
def test_a_folder_that_a_node_uses_already_is_refused_with_its_process(
    properties: Path, tmp_path: Path, verb: str
) -> None:
    """By the lock's own process, whatever numbers a file would say."""
    if verb == "broker":
        properties.write_text(
            "process.roles=broker\nnode.id=1\ncontroller.quorum.voters=3000@localhost:9093\n"
            "controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://127.0.0.1:9092\n"
            f"log.dirs={tmp_path / 'data'}\n"
        )
    more = ("-t", CLUSTER) if verb == "format" else ()
    with closing(Disk(tmp_path / "data")):
        code, _, complaint = run(verb, "-c", properties, *more)
    said = (
        f"kraft-bridge: {tmp_path}/data is in use by process {os.getpid()}: a node with this "
        "folder may run already; end that process first, or name another folder in log.dirs"
    )
    assert (code, complaint.splitlines()[-1]) == (1, said)


def test_a_process_that_is_not_seen_is_another_one(
    properties: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_holder, "holder", lambda _: folder_holder.FolderHolder(None, None))
    with closing(Disk(tmp_path / "data")):
        code, _, complaint = run("controller", "-c", properties)
    assert (code, "data is in use by another process: a node with" in complaint) == (1, True)


def test_a_missing_configuration_is_named(tmp_path: Path) -> None:
    code, _, complaint = run("controller", "-c", tmp_path / "none")
    assert (code, "No such file" in complaint) == (2, True)


@pytest.mark.parametrize("verb", [("log", "dump"), ("zk", "diff", "--zookeeper", "127.0.0.1:1")])
def test_a_folder_that_is_none_is_named(verb: tuple[str, ...], tmp_path: Path) -> None:
    code, _, complaint = run(*verb, "--log-dir", tmp_path)
    assert (code, "not a formatted controller's folder" in complaint) == (2, True)


@pytest.mark.parametrize(("hosts", "code"), [("127.0.0.1:1", 3), ("a:b", 2)])
@pytest.mark.parametrize("verb", ["dump", "diff"])
def test_a_zookeeper_that_does_not_answer_is_named(
    verb: str, hosts: str, code: int, properties: Path, tmp_path: Path
) -> None:
    run("format", "-c", properties, "-t", CLUSTER)
    log_dir = () if verb == "dump" else ("--log-dir", tmp_path / "data")
    found, out, complaint = run("zk", verb, "--zookeeper", hosts, *log_dir)
    assert (found, out) == (code, "")
    assert hosts in complaint
