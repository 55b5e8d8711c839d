"""No name and no secret of production is in anything that a rehearsal without names uses."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from bench.rehearsal.made import document
from bench.rehearsal.names import Names, TableError, anonymised, read, written
from bench.rehearsal.verdict import PhaseFigures
from bench.verbs import rehearse
from bench.verbs.rehearsed_inputs import Given, Prepared, prepared
from emulator.config.names import KAFKA_CONFIG_NAMES
from emulator.controller.tables.config_defs import topic_configs
from emulator.operations.preflight.survey import of_dump
from emulator.znodes.client_entities import TYPES
from tests import data
from tests.unit.commands.test_wrong_inputs import call

CONFIGS = KAFKA_CONFIG_NAMES | topic_configs("3.9").keys() | TYPES.keys()
SECRET = "hunter2hunter2"
ALICE, BOB = "User:ACME=alice", "User:ACME=bob"
RULE = {"permissionType": "Allow", "operation": "Read"}
STATE = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1]}
TOPIC = {"version": 3, "partitions": {"0": [1]}, "topic_id": "A" * 21 + "w"}
TOKEN = {"version": 3, "owner": ALICE, "tokenRequester": ALICE, "renewers": [BOB], "hmac": SECRET}
TIMES = {"issueTimestamp": 1, "maxTimestamp": 9, "expiryTimestamp": 9, "tokenId": "ACMEtoken"}
BROKER = {"version": 5, "host": "k2.ACME.com", "port": 9092, "jmx_port": -1, "timestamp": "1"}
ENDS = {
    "endpoints": ["ACMEIN://k2.ACME.com:9092"],
    "listener_security_protocol_map": {"ACMEIN": "SSL"},
    "rack": "ACME-r",
    "features": {},
}
SCRAM = f"salt=c2FsdA==,stored_key={SECRET},server_key=hunter3hunter3,iterations=4096"


def config(**values: str) -> dict[str, Any]:
    """Keys have dots where these have ``__``."""
    return {"version": 1, "config": {key.replace("__", "."): one for key, one in values.items()}}


NAMED: dict[str, Any] = {
    "/brokers/topics/ACME-orders": {**TOPIC, "adding_replicas": {}, "removing_replicas": {}},
    "/brokers/topics/ACME-orders/partitions/0/state": STATE,
    "/brokers/topics/ACME-broken": '{"ACME":',
    "/config/topics/ACME-orders": config(acme__note="ACME-note", retention__ms="5"),
    "/config/users/ACME%3Dalice": {"version": 1, "config": {"SCRAM-SHA-256": SCRAM}},
    "/config/users/ACME%3Dalice/clients/ACME-app": config(producer_byte_rate="10"),
    "/config/brokers/1": config(
        ssl__key__password=SECRET,
        listener__name__acmein__ssl__keystore__location="/etc/ACME/a.jks",
    ),
    "/config/ips/10.77.66.55": config(connection_creation_rate="5"),
    "/kafka-acl/Group/ACME-group": {
        "version": 1,
        "acls": [{**RULE, "principal": ALICE, "host": "10.77.66.55"}],
    },
    "/kafka-acl-extended/prefixed/Topic/ACME": {
        "version": 1,
        "acls": [{**RULE, "principal": BOB, "host": "*"}],
    },
    "/kafka-acl-changes/acl_changes_0000000001": "Topic:ACME-orders",
    "/delegation_token/tokens/ACMEtoken": TOKEN | TIMES,
    "/consumers/ACME-old/ids": None,
    "/ACME-tool/config": "ACME-tool",
    "/admin/delete_topics/ACME-gone": None,
    "/brokers/ids/2": BROKER | ENDS,
}
FILE = (
    "broker.id=2\nlisteners=ACMEIN://0.0.0.0:9092\nadvertised.listeners=ACMEIN://k2.ACME.com:9092\n"
    "inter.broker.listener.name=ACMEIN\nlistener.security.protocol.map=ACMEIN:SSL\n"
    "broker.rack=ACME-r\nzookeeper.connect=zk.ACME.com:2181/ACME\nlog.dirs=/data/ACME\n"
    f"ssl.keystore.password={SECRET}\nsuper.users=User:ACME=root\nnum.partitions=7\n"
    "acme.plugin.url=http://ACME/\n"
)


def tree() -> dict[str, Any]:
    """A made tree, and names of one firm in every place."""
    found = document(topics=2, partitions=2, brokers=1)
    for path, value in NAMED.items():
        text = value if isinstance(value, str) else json.dumps(value)
        shown = {"null": True} if value is None else {"text": text}
        found["nodes"][path] = {"acl": [[31, "sasl", "ACME-zk"]], "version": 0, **shown}
        for above in map(str, PurePosixPath(path).parents):
            if above != "/":
                found["nodes"].setdefault(above, {"null": True})
    found["count"] = len(found["nodes"])
    return found


def given_files(folder: Path, **more: Any) -> Given:
    file = folder / "ACME-broker.properties"
    file.write_text(FILE)
    dump = folder / "ACME-tree.json"
    dump.write_text(json.dumps(tree()))
    return Given(str(dump), tree(), [file], [], table=folder / "names.json", **more)


def words(found: Prepared) -> str:
    """All that the run, the report and the evidence are made of."""
    held = [(one.path, (one.data or b"").decode()) for one in found.nodes]
    extra = [dict(one.extra) for one in found.plan.brokers]
    return f"{held} {found!r} {extra} {found.found!r} {dict(found.controllers)}"


def test_no_name_and_no_secret_is_in_what_is_played(tmp_path: Path) -> None:
    found = prepared(given_files(tmp_path))
    shown = words(found)
    assert not re.findall(r"(?i).{0,40}acme.{0,40}", shown)
    assert SECRET not in shown
    assert "10.77.66.55" not in shown
    table = tmp_path / "names.json"
    assert table.stat().st_mode & 0o777 == 0o600
    assert SECRET not in table.read_text()
    names = read(table.read_text())
    assert names["topic"].keys() >= {"ACME-orders", "ACME-broken", "ACME-gone"}
    assert names["user"].keys() >= {"ACME=alice", "ACME=bob", "ACME-zk"}
    broken = f"/brokers/topics/{names['topic']['ACME-broken']}"
    assert any(one.startswith(f"{broken}: ") for one in found.found.refusals)
    assert any(one.startswith(f"PF-B07 {broken}: ") for one in found.found.blockers)
    broker = found.plan.brokers[-1]
    assert (broker.id, broker.rack) == (2, names["rack"]["ACME-r"])
    assert broker.listeners == (names["listener"]["ACMEIN"],)
    assert broker.extra["num.partitions"] == "7"


def test_the_same_names_another_time_and_none_of_another_table(tmp_path: Path) -> None:
    first = prepared(given_files(tmp_path))
    table = tmp_path / "names.json"
    kept = table.read_text()
    assert words(prepared(given_files(tmp_path))) == words(first)
    assert table.read_text() == kept
    for text in ("x", "[]", '{"topic":5}', '{"topic":{"a":1}}'):
        with pytest.raises(TableError):
            read(text)


def test_kept_secrets_are_played_and_known_so_that_no_log_keeps_them(tmp_path: Path) -> None:
    found = prepared(given_files(tmp_path, keep_secrets=True))
    held = {one.path: one.data for one in found.nodes}
    users = [data for path, data in held.items() if path.startswith("/config/users/user-") and data]
    assert any(SECRET.encode() in one for one in users)
    assert {SECRET.encode(), b"hunter3hunter3"} <= found.secrets
    assert SECRET not in (tmp_path / "names.json").read_text()


def test_servers_folders_go_whatever_happens_and_output_with_a_secret_is_not_kept(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    with rehearse._servers_folder(run, [b"hunter2"]) as servers:
        assert servers.stat().st_mode & 0o777 == 0o700
        (servers / "a").mkdir()
        (servers / "a/clean.out").write_text("fine")
        (servers / "a/dirty.out").write_text("x hunter2 y")
        (servers / "log.1").write_text("hunter2")
    assert [one.name for one in run.rglob("*") if one.is_file()] == ["clean.out"]
    (run / "b").write_text("in the way")
    held = tmp_path / "run-with-secrets/b"

    def spoil() -> None:
        with rehearse._servers_folder(run, [b"h"]):
            held.mkdir()
            (held / "x.out").write_text("cannot be copied")

    with pytest.raises(OSError, match="b"):
        spoil()
    assert [one.name for one in tmp_path.iterdir()] == ["run"]


def test_a_table_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "names.json"
    kept = '{"topic": {"other": "topic-1"}}'
    table.write_text(kept)

    def full(_self: Path, _text: str) -> int:
        raise OSError(28, "No space left on device")

    given = given_files(tmp_path)
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(typer.Exit):
        prepared(given)
    assert table.read_text() == kept


def test_a_secret_that_the_dump_lacks_cannot_be_kept(tmp_path: Path) -> None:
    found = document(topics=1, partitions=1, brokers=1)
    text = '{"version":1,"config":{"SCRAM-SHA-256":"<redacted>"}}'
    found["nodes"]["/config/users/alice"]["text"] = text
    file = tmp_path / "tree.json"
    file.write_text(json.dumps(found))
    code, _, err = call("rehearse", "--dump", str(file), "--keep-secrets")
    assert code == 2
    assert "a secret of /config/users/alice was left out of it: dump it --with-secrets" in err


@pytest.mark.parametrize("folder", ["3.9.2-full", "3.4.1-short"])
def test_a_recorded_tree_is_copied_as_before(folder: str) -> None:
    before = data.tree(folder, "0-before")
    after = anonymised(before, Names({}, json.dumps(before), CONFIGS))
    was, now = of_dump(before, []).copy, of_dump(after, []).copy
    assert now.records == was.records
    assert len(now.refusals) == len(was.refusals)


def test_a_table_inside_the_folder_of_runs_is_refused(tmp_path: Path) -> None:
    inside = tmp_path / "out" / "names.json"
    code, _, err = call(
        "rehearse", "--dump", "x", "--out", str(tmp_path / "out"), "--anonymise", str(inside)
    )
    assert code == 2
    assert "give a file outside" in err


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just("SENTINEL"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["config", "acls", "SENTINEL", "topic", "endpoints", "principal"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(
    place=st.sampled_from(
        ["/config/topics/", "/brokers/ids/", "/kafka-acl/Topic/", "/brokers/topics/", "/x/"]
    ),
    value=JSON,
)
def test_whatever_is_written_there_no_name_comes_through(place: str, value: Any) -> None:
    entry = {"text": json.dumps(value), "acl": [[31, "digest", "SENTINEL:x"]]}
    found = anonymised({"nodes": {f"{place}SENTINEL": entry}}, Names({}, "", CONFIGS))
    assert "SENTINEL" not in json.dumps(found)


def test_the_report_of_a_run_without_names_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_files(tmp_path)
    monkeypatch.setattr(rehearse, "_check_machine", lambda _out: None)

    def played(_out: Path, found: Prepared, *_more: object) -> None:
        found.found.phases = [PhaseFigures("copy", "", "rehearsed")]

    monkeypatch.setattr(rehearse, "_play_in", played)
    files = [str(tmp_path / "ACME-broker.properties")]
    table = str(tmp_path / "table.json")
    dump = str(tmp_path / "ACME-tree.json")
    code, out, _ = call("rehearse", "--dump", dump, "-c", *files, "--anonymise", table)
    assert code == 1
    assert "acme" not in out.lower()
    assert read(written(read(Path(table).read_text()))) == read(Path(table).read_text())
