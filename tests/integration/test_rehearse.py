"""``rehearse`` on dumps: a recorded tree goes through, and what is spoilt is a no-go by name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.rehearsal.evidence import verified
from bench.rehearsal.made import document
from bench.rehearsal.phases import PHASES
from emulator.servers.bridge import COMMAND
from emulator.servers.zk_dump import contents
from tests import data

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

NAMES = [one.name for one in PHASES]


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


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    folder = tmp_path_factory.mktemp("recorded")
    tree = data.extract("3.9.2-full/tree-0-before.json", folder)
    return rehearse(folder / "out", "--dump", tree)


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


def malformed(tree: dict[str, Any], _folder: Path) -> list[object]:
    tree["nodes"]["/config/topics/orders-0001"]["text"] = '{"version":1,"config":'
    return []


def another_level(_tree: dict[str, Any], folder: Path) -> list[object]:
    """Broker 2 has another inter.broker.protocol.version than the others."""
    file = folder / "broker-2.properties"
    file.write_text(
        "broker.id=2\nlisteners=INTERNAL://:9091,CLIENT://:9092\n"
        "listener.security.protocol.map=INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT\n"
        "inter.broker.listener.name=INTERNAL\ninter.broker.protocol.version=3.8\n"
        "zookeeper.connect=zk1:2181\nlog.dirs=/data\n"
    )
    return ["-c", file]


Spoil = Callable[[dict[str, Any], Path], list[object]]


@pytest.mark.parametrize(
    ("spoil", "phase", "said"),
    [
        (malformed, "copy", "/config/topics/orders-0001"),
        (another_level, "wait", "broker 1 is refused"),
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
