"""``rehearse`` on dumps: a recorded tree goes through, and what is spoilt is a no-go by name."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.rehearsal.evidence import verified
from bench.rehearsal.made import CLUSTER_ID, document
from bench.rehearsal.phases import PHASES
from emulator.servers.bridge import COMMAND
from emulator.servers.zk_dump import contents
from tests import data

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

NAMES = [one.name for one in PHASES]
SECRET = "aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMmh1bnQ="


@dataclass(frozen=True)
class Rehearsed:
    """What a rehearsal has printed and left."""

    code: int
    found: dict[str, Any]
    progress: str
    folder: Path

    def states(self) -> dict[str, str]:
        """Phase -> what became of it."""
        return {one["phase"]: one["state"] for one in self.found["phases"]}

    def of(self, kind: str) -> list[str]:
        """The reasons of a kind."""
        return [one["text"] for one in self.found["reasons"] if one["kind"] == kind]


def rehearse(out: Path, *arguments: object) -> Rehearsed:
    command = [sys.executable, "-c", COMMAND, "rehearse", "--json", "--out", out, *arguments]
    done = subprocess.run(
        [str(one) for one in command], capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    (folder,) = out.iterdir()
    return Rehearsed(done.returncode, json.loads(done.stdout), done.stderr, folder)


def written(tree: dict[str, Any], folder: Path) -> Path:
    file = folder / "tree.json"
    file.write_text(json.dumps(tree))
    return file


INTERRUPTED = "to KRaft mode"


def interrupt(out: Path, *arguments: object) -> str:
    """Begin a rehearsal, and interrupt it in the middle of a roll; returns what it said."""
    words = [sys.executable, "-c", COMMAND, "rehearse", "--out", out, *arguments]
    said = []
    with subprocess.Popen(
        [str(one) for one in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            said.append(line)
            if line.rstrip().endswith("broker 0 is in KRaft mode"):
                running.send_signal(signal.SIGINT)
    assert running.returncode == 130, said
    return "".join(said)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    """Interrupted once; it goes on with its phase."""
    folder = tmp_path_factory.mktemp("recorded")
    tree = data.extract("3.9.2-full/tree-0-before.json", folder)
    said = interrupt(folder / "out", "--dump", tree)
    (run,) = (folder / "out").iterdir()
    assert f"--resume {run} beside the same again" in said
    assert f"'{INTERRUPTED}'" in said.splitlines()[-1]
    assert re.search(r"controller \d+: live page at http://127\.0\.0\.1:\d+/$", said, re.MULTILINE)
    return rehearse(folder / "out", "--dump", tree, "--resume", run)


def test_a_recorded_tree_goes_through_the_whole_life(recorded: Rehearsed) -> None:
    assert recorded.found["reasons"] == [], recorded.progress
    assert (recorded.code, recorded.found["verdict"]) == (0, "go")
    assert recorded.states() == dict.fromkeys(NAMES, "rehearsed")
    phases = {one["phase"]: one for one in recorded.found["phases"]}
    for name in ("dual write", "leader killed", "to KRaft mode", "and back", "roll", "hold"):
        assert phases[name]["changes"] > 0, name
        assert phases[name]["longest_change_s"] > 0, name
        assert phases[name]["going_back"], name
    assert phases["leader killed"]["without_controller_s"] > 0
    assert "no way back" in phases["finalise"]["going_back"]
    brokers = [(one["id"], one["rack"], one["listeners"]) for one in recorded.found["brokers"]]
    listeners = ["INTERNAL", "CLIENT", "SASLP"]
    assert brokers == [(number, f"r{number}", listeners) for number in range(3)]
    assert any("release 3.9 of brokers 0, 1, 2" in one for one in recorded.found["assumed"])
    assert any(f"interrupted in '{INTERRUPTED}'" in one for one in recorded.found["assumed"])


def test_its_evidence_is_whole_and_has_the_hash_that_was_printed(recorded: Rehearsed) -> None:
    found = verified(recorded.folder, recorded.found["hash"])
    assert (found.problems, found.verdict) == ([], "go")
    assert found.files > 5
    html = recorded.folder / "report.html"
    html.write_text(html.read_text() + " ")
    assert verified(recorded.folder).problems == ["report.html was changed"]


def test_no_secret_of_the_tree_is_left_anywhere(recorded: Rehearsed) -> None:
    tree = contents(data.tree("3.9.2-full", "0-before"))
    users = [value for path, value in tree.items() if path.startswith("/config/users/") and value]
    secrets = [
        part.partition("=")[2].encode()
        for value in users
        for credential in json.loads(value)["config"].values()
        for part in credential.split(",")
        if part.startswith(("stored_key=", "server_key="))
    ]
    assert len(secrets) >= 6
    files = [path for path in recorded.folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        held = path.read_bytes()
        assert not [one for one in secrets if one in held], path


def malformed(tree: dict[str, Any], folder: Path) -> list[object]:
    """And names are replaced."""
    tree["nodes"]["/config/topics/orders-0001"]["text"] = '{"version":1,"config":'
    return ["--anonymise", folder / "names.json"]


def another_level(tree: dict[str, Any], folder: Path) -> list[object]:
    """Broker 2 has another inter.broker.protocol.version than the others; secrets are kept."""
    file = folder / "broker-2.properties"
    file.write_text(
        "broker.id=2\nlisteners=INTERNAL://:9091,CLIENT://:9092\n"
        "listener.security.protocol.map=INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT\n"
        "inter.broker.listener.name=INTERNAL\ninter.broker.protocol.version=3.8\n"
        "zookeeper.connect=zk1:2181\nlog.dirs=/data\n"
    )
    credential = f"salt=c2FsdA==,stored_key={SECRET},server_key={SECRET},iterations=4096"
    user = {"version": 1, "config": {"SCRAM-SHA-256": credential}}
    tree["nodes"]["/config/users/alice"]["text"] = json.dumps(user)
    return ["-c", file, "--keep-secrets"]


def a_lost_broker(tree: dict[str, Any], _folder: Path) -> list[object]:
    """PF-B10: a replica is on a broker that nobody has."""
    held = json.loads(tree["nodes"]["/brokers/topics/orders-0002"]["text"])
    held["partitions"]["0"] = [1, 77]
    tree["nodes"]["/brokers/topics/orders-0002"]["text"] = json.dumps(held)
    return []


CONTROLLER = (
    "process.roles=controller\nnode.id=3000\nlisteners=CONTROLLER://:9093\n"
    "controller.quorum.voters=3000@c0:9093\ncontroller.listener.names=CONTROLLER\n"
    "listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,NOWHERE:PLAINTEXT\n"
    "zookeeper.metadata.migration.enable=true\nlog.dirs=/controller\n"
)


def another_chroot(_tree: dict[str, Any], folder: Path) -> list[object]:
    """PF-B20: controllers look below no chroot, brokers below one."""
    another_level({"nodes": {"/config/users/alice": {}}}, folder)
    broker = folder / "broker-2.properties"
    text = broker.read_text().replace("version=3.8", "version=3.9")
    broker.write_text(text.replace("zk1:2181", "zk1:2181/kafka"))
    file = folder / "controller.properties"
    file.write_text(
        f"{CONTROLLER}inter.broker.listener.name=INTERNAL\nzookeeper.connect=zk1:2181\n"
    )
    return ["-c", broker, "-c", file]


def closed(tree: dict[str, Any], folder: Path) -> list[object]:
    """PF-B09: a login that the controllers have not may write the configs of topics."""
    tree["nodes"]["/config/topics"]["acl"] = [[31, "sasl", "kafka"], [1, "world", "anyone"]]
    file = folder / "controller.properties"
    file.write_text(
        f"{CONTROLLER}inter.broker.listener.name=INTERNAL\nzookeeper.connect=zk1:2181\n"
    )
    return ["-c", file]


def no_such_listener(_tree: dict[str, Any], folder: Path) -> list[object]:
    """PF-B21: controllers reach brokers by a listener that none has."""
    file = folder / "controller.properties"
    file.write_text(f"{CONTROLLER}inter.broker.listener.name=NOWHERE\nzookeeper.connect=zk1:2181\n")
    return ["-c", file]


def inside(folder: Path, *texts: str) -> list[tuple[Path, str]]:
    """The files of a folder that hold a text, in their bytes or names."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [
        (path, text)
        for path in files
        for text in texts
        if text.encode() in path.read_bytes() or text in path.name
    ]


Spoil = Callable[[dict[str, Any], Path], list[object]]


@pytest.mark.parametrize(
    ("spoil", "phase", "said"),
    [
        (malformed, "copy", "/config/topics/topic-"),
        (another_level, "wait", "broker 1 is refused"),
        (a_lost_broker, "copy", "77"),
        (closed, "dual write", "/config/topics"),
        (another_chroot, "wait", "chroot"),
        (no_such_listener, "wait", "NOWHERE"),
    ],
)
def test_what_is_spoilt_is_named_and_nothing_behind_it_is_called_rehearsed(
    spoil: Spoil, phase: str, said: str, tmp_path: Path
) -> None:
    tree = document(topics=4, partitions=3, brokers=3)
    more = spoil(tree, tmp_path)
    found = rehearse(tmp_path / "out", "--dump", written(tree, tmp_path), *more)
    assert (found.code, found.found["verdict"]) == (1, "no-go"), found.progress
    states = found.states()
    at = NAMES.index(phase)
    assert [states[one] for one in NAMES[:at]] == ["rehearsed"] * at, found.progress
    assert states[phase] == "failed"
    assert [states[one] for one in NAMES[at + 1 :]] == ["not rehearsed"] * len(NAMES[at + 1 :])
    failed = next(one["why"] for one in found.found["phases"] if one["state"] == "failed")
    assert said in failed
    assert verified(found.folder, found.found["hash"]).verdict == "no-go"
    assert not inside(found.folder, SECRET)
    if spoil is malformed:
        assert not inside(found.folder, "orders-", ".example", "alice", CLUSTER_ID)
        table = json.loads((tmp_path / "names.json").read_text())
        assert "orders-0001" in table["topic"]
    elif spoil is another_level:
        assert list((tmp_path / "out").iterdir()) == [found.folder]
