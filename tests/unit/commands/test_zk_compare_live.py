"""`zk diff` on a cluster in which a controller writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.commands.exits import ExitCode
from emulator.commands.zk import compare as compared
from emulator.migration.tree_diff import Difference
from emulator.znodes import cluster, migration, own
from tests.unit.commands.running import run

TORN = Difference(migration.PATH, "differs", b"1", None)


class Cluster:
    """Claims as they are read one after the other, and what each comparison finds."""

    def __init__(self, claims: list[bytes], found: list[list[Difference]]) -> None:
        self.claims, self.found, self.readings = claims, found, 0

    def read_some(self, _hosts: str, _security: Any, paths: tuple[str, ...]) -> dict[str, bytes]:
        if set(paths) == {cluster.PATH}:
            return {}
        assert set(paths) == {migration.PATH, own.PATH}
        return {migration.PATH: self.claims.pop(0)}

    def compared(self, *_of: Any) -> tuple[list[Difference], str]:
        self.readings += 1
        return self.found.pop(0), "note"


def told(
    monkeypatch: pytest.MonkeyPatch, claims: list[bytes], found: list[list[Difference]]
) -> tuple[list[Difference], str, int]:
    cluster = Cluster(claims, found)
    monkeypatch.setattr(compared, "read_some", cluster.read_some)
    monkeypatch.setattr(compared, "_compared", cluster.compared)
    differences, note = compared.compare("h:1", Path("folder"))
    return differences, note, cluster.readings


def test_what_differs_while_a_controller_writes_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert told(monkeypatch, [b"1", b"2", b"2"], [[TORN], []]) == ([], "note", 2)


def test_what_differs_while_nobody_writes_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, [b"1", b"1"], [[TORN]]) == ([TORN], "note", 1)


@pytest.mark.parametrize(
    ("paths", "verdict", "said"),
    [
        ([], "EQUAL", "note: no znode differs"),
        (
            [migration.PATH, own.PATH, "/controller"],
            "DIFFERENT: 3 znodes",
            "of a controller that does not lead",
        ),
        (["/brokers/topics/t"], "DIFFERENT: 1 znode", "note"),
    ],
)
def test_what_an_empty_list_and_the_controllers_own_znodes_mean_is_said(
    paths: list[str], verdict: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that differs was an offset and silence; a follower's folder looked like damage.

    The verdict is what ``status`` tells to look for: who keeps the output in a file has it.
    """
    found = [Difference(path, "differs", b"1", None) for path in paths]
    monkeypatch.setattr(compared, "compare", lambda *_of: (found, "note"))
    line = ("zk", "diff", "--zookeeper", "h:1", "--log-dir", "folder")
    code, out, complaint = run(*line)
    first, *listed = out.splitlines()
    assert (code, complaint) == (int(bool(paths)), "")
    assert listed == [f"differs    {path}" for path in paths]
    assert first.startswith(f"{verdict}: ")
    assert first.endswith(said)
    code, out, complaint = run(*line, "--json")
    assert json.loads(out)["verdict"] == verdict.partition(":")[0]
    assert complaint == f"{first}\n"


@pytest.mark.parametrize(
    ("hosts", "hint"), [("h:1", "(h:1/kafka)"), ("h:1/kafak", "Is its chroot right?")]
)
def test_a_path_without_a_cluster_is_not_compared(
    hosts: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the chroot it named every znode as missing, as if all was lost."""
    monkeypatch.setattr(compared, "read_some", lambda *_of: {})
    monkeypatch.setattr(compared, "_compared", lambda *_of: ([TORN], "note"))
    code, out, complaint = run("zk", "diff", "--zookeeper", hosts, "--log-dir", "folder")
    assert (code, out) == (ExitCode.UNREACHABLE, "")
    assert hint in complaint
    there = {cluster.PATH: b"{}"}
    monkeypatch.setattr(compared, "read_some", lambda *_of: there)
    assert run("zk", "diff", "--zookeeper", hosts, "--log-dir", "folder")[0] == ExitCode.FOUND


def test_a_path_of_others_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Difference("/a\nb\x1b[2J", "extra", b"1", None)]
    monkeypatch.setattr(compared, "compare", lambda *_of: (found, "note"))
    _, out, _ = run("zk", "diff", "--zookeeper", "h:1", "--log-dir", "folder")
    assert out.splitlines()[1:] == [r"extra      /a\nb\x1b[2J"]


def test_of_a_cluster_that_never_rests_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    claims = [b"%d" % each for each in range(2 * compared.READINGS_MAX)]
    found = [[TORN] for _ in range(compared.READINGS_MAX)]
    differences, note, readings = told(monkeypatch, claims, found)
    assert (differences, readings) == ([TORN], compared.READINGS_MAX)
    assert "a controller wrote meanwhile" in note
