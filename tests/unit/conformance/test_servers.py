"""``make conformance``: what is kept, what goes on after a server's end, what must be explained."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench.conformance import __main__ as command
from bench.conformance import differences, patience, runner
from bench.conformance.case import CASES, Where
from bench.conformance.choosing import GROUPS, chosen
from bench.conformance.differences import Difference, unexplained
from bench.conformance.servers import SERVERS, Part, Server, built
from emulator.servers.process import ProcessError
from emulator.testing import Cluster
from tests.unit.conformance.faulty import Plant, Proxy
from tests.unit.conformance.test_conformance import address
from tools import requirements


@pytest.fixture(scope="module")
def ours() -> Iterator[Cluster]:
    with Cluster(brokers=1, fsync=False) as made:
        yield made


def failed(name: str, level: str = "must") -> dict[str, Any]:
    told = {"id": name, "level": level, "outcome": "failed"}
    return {**told, "why": "what", "expected": "a", "got": "b"}


# ------------------------------------------------------------------ the table
def test_every_row_names_servers_and_cases_that_there_are() -> None:
    names = {one.name for one in SERVERS}
    for one in differences.read():
        assert one.server in names
        assert {case.partition("@")[0] for case in one.cases} <= CASES.keys()


def test_a_row_says_where_and_why(tmp_path: Path) -> None:
    page = tmp_path / "differences.toml"
    row = '[[difference]]\nserver = "kfake"\ncases = ["topics.create"]\nwhere = "f"\nwhy = "{}"\n'
    page.write_text(row.format(""))
    with pytest.raises(ValueError, match="without where, why"):
        differences.read(page)
    page.write_text(row.format("it does") * 2)
    with pytest.raises(ValueError, match="twice"):
        differences.read(page)


def test_what_is_not_explained_is_told() -> None:
    row = Difference("kfake", ("topics.create",), "f", "why")
    assert unexplained("kfake", [failed("topics.create")], [row]) == []
    (line,) = unexplained("librdkafka", [failed("topics.create")], [row])
    assert line == "librdkafka: must topics.create: what: expected a, got b"
    (line,) = unexplained("kfake", [], [row])
    assert "its row can go" in line


def test_a_must_of_kafkas_needs_the_text_of_a_kip() -> None:
    row = Difference("kafka-3.4.1", ("topics.create",), "Class.method", "why")
    cases = [failed("topics.create")]
    (line,) = unexplained("kafka-3.4.1", cases, [row])
    assert "quotes no KIP" in line
    quoted = Difference("kafka-3.4.1", ("topics.create",), "Class.method", "why", "KIP-0: text")
    assert unexplained("kafka-3.4.1", cases, [quoted]) == []
    assert unexplained("kafka-3.4.1", [failed("topics.create", "should")], [row]) == []


# ------------------------------------------------------------------ a run
def test_a_server_that_ends_under_a_case_is_started_again(
    ours: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "BACK_S", 0.0)
    starts = []

    def start(_: Path, stack: ExitStack) -> dict[Where, runner.Address]:
        def end(whole: bytes, key: int, version: int) -> bytes | None:
            if len(starts) > 1 or key != 41:
                return whole
            stack.close()
            return None

        proxy = Proxy(ours.bootstrap.partition(",")[0], Plant(request_bytes=end))
        stack.callback(proxy.close, within_s=0)
        starts.append(proxy)
        return {Where.BROKER: address(proxy.address)}

    found = list(command.judged_whole("one", Part(start, ("tokens", "features"))))
    assert len(starts) == 2
    first, second = found
    last = first["cases"][-1]
    told = (last["id"], last["outcome"], last["why"])
    assert told == ("tokens.refused", "failed", "the server")
    ids = [one["id"] for each in found for one in each["cases"]]
    places = [Where.BROKER, Where.EACH]
    assert ids == [
        f"{one.id}@broker" if one.where is Where.EACH else one.id
        for one in chosen(("tokens", "features"))
        if one.where in places
    ]
    assert "failed" not in {one["outcome"] for one in second["cases"]}


def test_what_was_judged_is_kept(ours: Cluster, tmp_path: Path) -> None:
    starts = []

    def start(_: Path, __: ExitStack) -> dict[Where, runner.Address]:
        starts.append(1)
        return {Where.BROKER: address(ours.bootstrap.partition(",")[0])}

    server = Server("one", [Part(start, ("tokens",)), Part(start, ("scram",))])
    row = command.taken(server, tmp_path, again=False)
    assert {one["id"].partition(".")[0] for one in row["cases"]} == {"tokens", "scram"}
    assert command.taken(server, tmp_path, again=False) == row
    assert len(starts) == 2
    kept = json.loads((tmp_path / "one.json").read_text())
    (tmp_path / "one.json").write_text(json.dumps({**kept, "code": "older"}))
    command.taken(server, tmp_path, again=False)
    assert len(starts) == 4, "older code: judged anew"
    lines = list(command.table({"one": row}))
    assert lines[0] == "| group | one |"
    (cell,) = [line for line in lines if line.startswith("| scram |")]
    passed = sum(one["id"].startswith("scram") for one in row["cases"])
    assert cell == f"| scram | {passed}: {passed}, 0, 0 |"


def test_without_go_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ProcessError, match="needs Go"):
        built()


@pytest.mark.slow  # ours, whole: test_conformance.py
def test_librdkafkas_mock_differs_as_the_table_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "interrupt_on_terminate", lambda: None)
    monkeypatch.setattr(patience, "CLOSED_S", (2.0, 2.0))
    options = ["--out", str(tmp_path), "--server", "librdkafka"]
    monkeypatch.setattr(sys, "argv", ["bench.conformance", *options])
    code = command.main()
    out = capsys.readouterr().out
    assert code == 0, out
    assert out.startswith("| group | librdkafka |")
    cells = dict(re.findall(r"^\| (\w+) \| \d+: (\d+), \d+, \d+ \|", out, re.MULTILINE))
    assert cells.keys() >= {*GROUPS}
    assert int(cells["framing"]) > 20


# ------------------------------------------------------------------ the pages
def test_requirements_name_the_cases_that_prove_them() -> None:
    named = {
        row.id: set(re.findall(r"`(\w+\.[\w.]+)`", row.seen.partition("; case")[2]))
        for row in requirements.rows()
        if "; case" in row.seen
    }
    proven: dict[str, set[str]] = {}
    for one in CASES.values():
        for row in one.rows:
            proven.setdefault(row, set()).add(one.id)
    assert named == proven
