"""The command line: help without Java, exit codes, and words for what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.unit.commands.running import CLUSTER, run


@pytest.mark.parametrize(
    "verb", ["format", "controller", "status", "demo", "analyze", "zk", "log", "wire"]
)
def test_every_verb_explains_itself(verb: str) -> None:
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert "Usage" in out


@pytest.mark.requirement("C13")
def test_no_verb_starts_or_ends_a_migration() -> None:
    _, out, _ = run("--help")
    verbs = {line.split()[0] for line in out.partition("Commands:")[2].splitlines() if line.strip()}
    known = {"format", "controller", "broker", "status", "preflight", "plan", "demo", "analyze"}
    known |= {"bench", "load", "elect-leaders", "fleet", "simulate", "zk", "log", "wire"}
    assert verbs == known


def test_a_folder_that_is_not_formatted_does_not_start(properties: Path) -> None:
    code, _, complaint = run("controller", "-c", properties)
    assert (code, "run kraft-bridge format first" in complaint) == (1, True)


def test_a_missing_configuration_is_named(tmp_path: Path) -> None:
    code, _, complaint = run("controller", "-c", tmp_path / "none")
    assert (code, "No such file" in complaint) == (2, True)


@pytest.mark.parametrize("verb", [("log", "dump"), ("zk", "diff", "--zookeeper", "127.0.0.1:1")])
def test_a_folder_that_is_none_is_named(verb: tuple[str, ...], tmp_path: Path) -> None:
    code, _, complaint = run(*verb, "--log-dir", tmp_path)
    assert (code, "not a formatted controller's folder" in complaint) == (2, True)


@pytest.mark.parametrize("hosts", ["127.0.0.1:1", "a:b"])
@pytest.mark.parametrize("verb", ["dump", "diff"])
def test_a_zookeeper_that_does_not_answer_is_named(
    verb: str, hosts: str, properties: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = KazooClient.start
    monkeypatch.setattr(KazooClient, "start", lambda client, timeout: start(client, timeout / 100))
    run("format", "-c", properties, "-t", CLUSTER)
    log_dir = () if verb == "dump" else ("--log-dir", tmp_path / "data")
    code, out, complaint = run("zk", verb, "--zookeeper", hosts, *log_dir)
    assert (code, out) == ({"dump": 1, "diff": 2}[verb], "")
    assert hosts in complaint
