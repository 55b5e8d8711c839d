"""What verbs print as JSON is what the page of forms says, member by member."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.rehearsal.verdict import PhaseFigures, Rehearsal, as_json
from bench.report import analyze
from bench.report.beside import Beside, RunCheck
from bench.report.findings import Finding
from bench.report.verdict import judge, threshold, verdict
from emulator.cli import VERBS
from emulator.commands.json_forms import FORMS, JsonForm, JsonMember, stamped
from emulator.commands.zk import compare
from emulator.migration.tree_diff import Difference
from emulator.raft import layout
from emulator.servers import zk_dump
from tests import data
from tests.kit.json_form import digest, never_shown, problems
from tests.kit.reads import ReadsAtOnce
from tests.unit.commands.running import CLUSTER, run
from tests.unit.report.a_run import RUN, a_run
from wire import messages as m
from wire import records as r
from wire.batch import Batch, encode_batch
from wire.frame import RequestHeader, encode_request, encode_response
from wire.record_serde import encode_record

PINNED = {
    "preflight/2": "38b199651fbaf5c2",
    "plan/1": "f1db40be5e34220d",
    "rollback/2": "6b8cfede8049eef0",
    "zk-dump/1": "fb421238d7183c2d",
    "zk-diff/1": "bbdbe17cd2325021",
    "zk-reconcile/1": "3d5214ac9b088e3f",
    "finalise/1": "a036adee93ee9faf",
    "log-record/1": "540c70c363f74336",
    "load/1": "3276509bf092a7db",
    "predict/1": "768dfdccd67b9b25",
    "conformance/1": "9a03a5f416ab5fd6",
    "cluster/1": "8f21bdf60fb27195",
    "fleet/1": "ef7dce4187a856a1",
    "analyze/1": "21ae01503995df87",
    "wire-table/1": "b2f9b95cc86b723c",
    "wire-pair/1": "0dc8d2267d2a0856",
    "wire-check/1": "2c917c5af33cb031",
    "rehearsal/1": "11666181bf4ed2f2",
}
"""Of the members of each version, whoever reads it: a change needs another version, an addition a
new digest."""


def test_a_version_keeps_its_members() -> None:
    assert {form.schema: digest(form) for form in FORMS.values()} == PINNED


def test_every_verb_that_prints_json_has_a_form() -> None:
    printed = " ".join(one.printed_by for one in FORMS.values())
    told = [verb for verb in (*VERBS, "wire show", "wire check") if verb not in {"wire", "status"}]
    verbs = [verb for verb in told if "--json " in run(*verb.split(), "--help")[1]]
    assert len(verbs) > 5
    assert [verb for verb in verbs if f"{verb} " not in printed] == []


def documents(name: str, text: str) -> list[Any]:
    return [json.loads(x) for x in text.splitlines()] if FORMS[name].lines else [json.loads(text)]


def check(name: str, *printed: str, but: frozenset[str] = frozenset()) -> None:
    """Each document is of the form, and all members but ``but`` are shown by one of them."""
    found = [one for text in printed for one in documents(name, text)]
    assert [problem for one in found for problem in problems(FORMS[name], one)] == []
    assert never_shown(FORMS[name], found) == but


def test_preflight(tmp_path: Path) -> None:
    file = tmp_path / "tree.json"
    file.write_text(json.dumps({"nodes": {"/brokers/ids": {"null": True}}}))
    outside_a_roll = frozenset({"roll.done[]", "roll.not_restarted[]"})
    check("preflight", run("preflight", "--dump", file, "--json")[1], but=outside_a_roll)


def test_plan(tmp_path: Path) -> None:
    hidden = {"text": json.dumps({"version": 1, "config": {"SCRAM-SHA-256": zk_dump.REDACTED}})}
    tree = data.tree("3.9.2-full", "0-before")
    tree["nodes"] |= {"/config/users/bob": hidden, "/config/topics/none": {"text": "{}"}}
    tree["nodes"] |= {"/brokers/topics/bad": {"text": "oops"}}
    tree["nodes"] |= {"/admin/delete_topics/none": {"null": True}}
    file = tmp_path / "tree.json"
    file.write_text(json.dumps(tree))
    check("plan", run("plan", "--dump", file, "--json")[1])


class ATree(ReadsAtOnce):
    """As much of kazoo's client as a dump uses, with one znode of each kind of data."""

    nodes = {"/": (b"", ["a", "zookeeper"]), "/a": (b"x", ["b", "c"])} | {
        "/a/b": (b"\xff", []),
        "/a/c": (None, []),
    }

    def start(self, **_more: Any) -> None: ...

    stop = close = start
    synced = False

    def sync(self, path: str) -> None:
        self.synced = path == "/"

    def get(self, path: str) -> tuple[bytes | None, Any]:
        names = "version cversion czxid mzxid pzxid ctime mtime ephemeralOwner"
        return self.nodes[path][0], SimpleNamespace(**dict.fromkeys(names.split(), 0))

    def get_acls(self, _path: str) -> tuple[list[Any], None]:
        return [SimpleNamespace(perms=31, id=SimpleNamespace(scheme="world", id="anyone"))], None

    def get_children(self, path: str) -> list[str]:
        assert self.synced, "the server asked may lag behind"
        return self.nodes[path][1]


def test_zk_dump(monkeypatch: pytest.MonkeyPatch) -> None:
    made = zk_dump.dump
    monkeypatch.setattr(
        zk_dump, "dump", lambda hosts, **_more: made(hosts, connect=lambda _hosts: ATree())
    )
    check("zk-dump", run("zk", "dump", "--zookeeper", "127.0.0.1:1")[1])


def test_zk_diff(properties: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("format", "-c", properties, "-t", CLUSTER)
    rows = [
        Difference("/a", "missing", None, b"x"),
        Difference("/b", "extra", b"\xff", None),
        Difference("/c/state", "version", b"{}", b"{}", 3, 7),
    ]
    where = ("--zookeeper", "127.0.0.1:1", "--log-dir", tmp_path / "data", "--json")
    for found in (rows, []):
        monkeypatch.setattr(compare, "compare", lambda *_, found=found: (found, "a note"))
        code, out, _ = run("zk", "diff", *where)
        assert code == int(bool(found))
        assert problems(FORMS["zk-diff"], json.loads(out)) == [], "equal stores print one too"
        shown = json.loads(out)["differences"]
        assert len(shown) == len(found)
        assert [(one["version"], one["partition_epoch"]) for one in shown[2:]] == [(3, 7)][
            : len(found)
        ]
    monkeypatch.setattr(compare, "compare", lambda *_: (rows, "a note"))
    lines = run("zk", "diff", *where[:-1])[1].splitlines()
    assert lines[3:] == ["version    /c/state 3, below 7"]


def test_log_dump(properties: Path, tmp_path: Path) -> None:
    run("format", "-c", properties, "-t", CLUSTER)
    records = [r.TopicRecord(name="t", topic_id=b"i" * 16), r.NoOpRecord()]
    batch = Batch(0, 1, 0, 1_000, [(None, encode_record(one, 0)) for one in records])
    log = tmp_path / "data" / layout.segment_path(0)
    log.parent.mkdir(exist_ok=True)
    log.write_bytes(encode_batch(batch))
    check("log-record", run("log", "dump", "--log-dir", tmp_path / "data")[1])


def test_analyze(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Beside((RunCheck("x", None, wrong=("a differs",)),))
    found = verdict(a_run(), RUN, beside)
    judged = judge([found], [threshold("blocked_share>0.01")])
    html = tmp_path / "report.html"
    done = analyze.Analysis(html, "tables", [Finding("load", "none")], [found], beside, judged)
    asked: list[object] = []

    def analysed(*_: object, fail_if: object, **__: object) -> analyze.Analysis:
        asked.append(fail_if)
        return done

    monkeypatch.setattr(analyze, "analyze", analysed)
    limit = ("--fail-if", "blocked_share>0.01")
    code, printed, _ = run("analyze", tmp_path, "--out", tmp_path, "--json", *limit)
    assert (code, asked) == (1, [[judged[0].threshold]]), "a threshold is crossed"
    check("analyze", printed)
    done.thresholds.clear()
    assert run("analyze", tmp_path, "--out", tmp_path)[0] == 0


def test_wire(tmp_path: Path) -> None:
    check("wire-table", run("wire", "show", "--json")[1])
    asked = encode_request(RequestHeader(20, 6, 1, "me"), m.DeleteTopicsRequest())
    answered = encode_response(20, 6, 1, m.DeleteTopicsResponse())
    pair = {"api_key": 20, "api": "DeleteTopics", "api_version": 6}
    for key, frame in (("request", asked), ("response", answered)):
        pair[key] = base64.b64encode(frame).decode()
    file = tmp_path / "wire.jsonl"
    file.write_text(json.dumps(pair) + "\n")
    check("wire-check", run("wire", "check", file, "--json")[1])
    from wire.follow import shown

    check("wire-pair", shown(file.read_text()).json())


FORM = JsonForm(
    "x",
    1,
    "x",
    (JsonMember("a", "int", ""), JsonMember("b[].c", "str?", ""), JsonMember("d{}", "float", "")),
)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, []),
        ({"a": None}, [".a: null"]),
        ({"a": True}, [".a: bool, not int"]),
        ({"a": "1"}, [".a: str, not int"]),
        ({"b": [{"c": None}]}, []),
        ({"b": [{}]}, [".b[].c: missing"]),
        ({"b": {}}, [".b: no array"]),
        ({"d": {"any": 1}}, []),
        ({"d": {"any": "1"}}, [".d{}: str, not float"]),
        ({"e": 1}, [".e: not of this form"]),
        ({"schema": "x/2"}, ["schema x/2"]),
    ],
)
def test_a_document_of_another_form_is_seen(change: dict[str, Any], told: list[str]) -> None:
    document = {"schema": "x/1", "a": 1, "b": [], "d": {}}
    assert problems(FORM, {**document, **change}) == told
    assert problems(FORM, {"a": 1, **document}) == ["schema does not come first"]
    assert never_shown(FORM, [{**document, "d": {"any": 1}}]) == {"b[].c"}


def test_rehearsal() -> None:
    found = Rehearsal("tree.json", 1, 2, 1.0, assumed=["a"], warnings=["w"], blockers=["b"])
    found.predicted, found.repaired = ["p"], ["r"]
    found.brokers = [{"id": 1, "release": "3.9", "source": "s", "rack": None, "listeners": ["A"]}]
    found.phases = [PhaseFigures("wait", "x"), PhaseFigures("copy", "x", begin_s=0.0, end_s=1.0)]
    check("rehearsal", json.dumps(stamped("rehearsal", as_json(found))))
