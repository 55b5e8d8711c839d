"""``kraft-bridge plan``: counts, refusals and gaps of dumps, real ones and broken ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from emulator.cli import app
from emulator.servers.zk_dump import redact
from tests import data


def run(*arguments: str, code: int = 0) -> str:
    """Output of the command, which ends with 1 if it names refusals; stderr when it fails."""
    result = CliRunner().invoke(app, ["plan", *arguments])
    if code == 0 and ("Refused: " in result.stdout or '"refusals":[{' in result.stdout):
        code = 1
    assert result.exit_code == code, result.output
    return result.stderr if code > 1 else result.stdout


def dumped(tmp_path: Path, change: Any = None, folder: str = "3.9.2-full") -> str:
    """A recorded dump with some nodes changed."""
    tree = data.tree(folder, "0-before")
    for path, node in (change or {}).items():
        tree["nodes"][path] = node
    file = tmp_path / "tree.json"
    file.write_text(json.dumps(tree))
    return str(file)


def test_the_counts_are_those_of_the_recorded_copy(tmp_path: Path) -> None:
    """As ``tests/conformance/test_recorded_copies.py`` finds them record by record."""
    file = data.extract("3.9.2-full/tree-0d-pending-delete.json", tmp_path)
    found = json.loads(run("--dump", str(file), "--json"))
    assert found["records"] == {
        "TOPIC_RECORD": 5,
        "CONFIG_RECORD": 21,
        "PARTITION_RECORD": 16,
        "USER_SCRAM_CREDENTIAL_RECORD": 3,
        "CLIENT_QUOTA_RECORD": 10,
        "PRODUCER_IDS_RECORD": 1,
        "ACCESS_CONTROL_ENTRY_RECORD": 8,
        "DELEGATION_TOKEN_RECORD": 1,
    }
    assert found["refusals"] == found["unchecked"] == []
    assert [one["znode"] for one in found["left"]] == ["/admin/delete_topics/pending.del"]
    assert found["metadata_version"] == {"level": 21, "name": "3.9-IV0"}


def test_a_topic_with_two_malformed_znodes_is_refused_by_both(tmp_path: Path) -> None:
    nodes = data.tree("3.9.2-full", "0-before")["nodes"]
    state = next(path for path in sorted(nodes) if path.endswith("/partitions/0/state"))
    bad = {f"/config/topics/{state.split('/')[3]}", state}
    file = dumped(tmp_path, {key: {"text": "[]"} for key in bad})
    found = json.loads(run("--dump", file, "--json"))
    assert {one["znode"] for one in found["refusals"]} == bad


def test_a_dump_without_secrets_gives_the_same_counts_and_names_the_gaps(tmp_path: Path) -> None:
    """Scram credentials, passwords; what is no JSON below a place of secrets is lost whole."""
    nodes = data.tree("3.9.2-full", "0-before")["nodes"]
    password = '{"version":1,"config":{"ssl.key.password":"encryptedPassword:x","a":"b"}}'
    change = {
        "/config/brokers/1": {"text": password},
        "/config/brokers/2": {"text": "no JSON"},
    }
    deep = '{"config":{"a":"<redacted>"},"x":' + "[" * 100_000
    hidden = {
        path: {"text": redact(path, (change | nodes)[path]["text"].encode()).decode()}
        for path in {*change, *nodes}
        if path.startswith(("/config/users/", "/config/brokers/"))
        and "text" in (change | nodes)[path]
    }
    for path in change:
        hidden[path] = {"text": redact(path, change[path]["text"].encode()).decode()}
    hidden["/config/topics/deep"] = {"text": deep}
    plain = json.loads(run("--dump", dumped(tmp_path), "--json"))
    found = json.loads(run("--dump", dumped(tmp_path, hidden), "--json"))
    assert found["refusals"] == []
    assert found["records"]["USER_SCRAM_CREDENTIAL_RECORD"] == 3
    # Two keys of broker 1 instead of three, none of broker 2 instead of two.
    assert found["records"]["CONFIG_RECORD"] == plain["records"]["CONFIG_RECORD"] - 3
    assert {one["znode"]: one["reason"] for one in found["unchecked"]} == {
        "/config/brokers/1": "left out of the dump: ssl.key.password",
        "/config/brokers/2": "left out of the dump: not counted",
        "/config/topics/deep": "left out of the dump: not counted",
        "/config/users/alice": "left out of the dump: SCRAM-SHA-256, SCRAM-SHA-512",
        "/config/users/bob": "left out of the dump: SCRAM-SHA-512",
    }


def test_every_refusal_is_named_and_the_rest_is_counted(tmp_path: Path) -> None:
    bad = {
        "/brokers/topics/orders": {"text": "{"},
        "/brokers/topics/payments/partitions/0/state": {"text": "[]"},
        "/kafka-acl/Topic/orders": {"text": '{"version":1,"acls":[{"principal":"bob"}]}'},
        "/latest_producer_id_block": {"text": "[]"},
        "/migration": {"text": "{}"},
        "/cluster/id": {"null": True},
    }
    whole = json.loads(run("--dump", dumped(tmp_path), "--json"))["records"]
    found = json.loads(run("--dump", dumped(tmp_path, bad), "--json"))
    assert {one["znode"]: one["code"] for one in found["refusals"]} == {
        **dict.fromkeys(bad, "malformed_znode"),
        "/migration": "migration_znode",
    }
    assert all(one["reason"] for one in found["refusals"])
    assert found["records"]["TOPIC_RECORD"] == whole["TOPIC_RECORD"] - 1
    assert found["records"]["PARTITION_RECORD"] == whole["PARTITION_RECORD"] - 6
    assert found["records"]["ACCESS_CONTROL_ENTRY_RECORD"] < whole["ACCESS_CONTROL_ENTRY_RECORD"]
    assert "PRODUCER_IDS_RECORD" not in found["records"]


@pytest.mark.parametrize(
    ("level", "refused"),
    [
        ("3.3-IV0", ["/", "/config/users/alice", "/config/users/bob", "/delegation_token"]),
        ("3.4-IV0", ["/config/users/alice", "/config/users/bob", "/delegation_token"]),
        ("3.5-IV2", ["/delegation_token"]),
        ("3.6-IV2", []),
    ],
)
def test_the_level_decides_what_can_be_recorded(
    tmp_path: Path, level: str, refused: list[str]
) -> None:
    """A migration from 8 on, SCRAM from 11, tokens from 14."""
    found = json.loads(run("--dump", dumped(tmp_path), "--json", "-r", level))
    assert {one["code"] for one in found["refusals"]} <= {"metadata_version"}
    named = {one["znode"].partition("/tokens/")[0] for one in found["refusals"]}
    assert sorted(named) == refused


def test_a_cluster_that_has_migrated_is_not_copied_again(tmp_path: Path) -> None:
    file = data.extract("3.9.2-full/tree-1-dualwrite.json", tmp_path)
    found = json.loads(run("--dump", str(file), "--json"))
    assert [(one["code"], one["znode"]) for one in found["refusals"]] == [
        ("controller_held", "/controller")
    ]


def test_the_controllers_properties_say_the_level(tmp_path: Path) -> None:
    """That of its folder once it is formatted, before that the newest of its release."""
    config = tmp_path / "server.properties"
    config.write_text(
        "process.roles=controller\nnode.id=3000\ncontroller.quorum.voters=3000@127.0.0.1:9093\n"
        "listeners=CONTROLLER://127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT\n"
        f"zookeeper.connect=127.0.0.1:2181\nlog.dirs={tmp_path}/log\n"
        "zookeeper.metadata.migration.enable=true\nkraftbridge.release=3.7\n".replace("\\\n", "\n")
    )
    arguments = ("--dump", dumped(tmp_path), "--json", "-c", str(config))
    assert json.loads(run(*arguments))["metadata_version"]["name"] == "3.7-IV4"
    cluster = "GM-0TRQsRn2jEBRruGoNQQ"
    formatting = ["format", "-c", str(config), "-t", cluster, "-r", "3.6-IV2"]
    assert CliRunner().invoke(app, formatting).exit_code == 0
    assert json.loads(run(*arguments))["metadata_version"]["name"] == "3.6-IV2"


def test_people_get_a_table(tmp_path: Path) -> None:
    text = run("--dump", dumped(tmp_path, {"/kafka-acl/Weird/x": {"text": "{}"}}))
    assert "PARTITION_RECORD" in text
    assert "/kafka-acl/Weird/x: no broker reads" in text
    text = run("--dump", dumped(tmp_path, {"/config/topics/orders": {"text": "{"}}))
    assert "Nothing would be copied" in text
    assert "/config/topics/orders: " in text


@pytest.mark.parametrize("text", [None, "{", "[]", '{"nodes": 1}'])
def test_a_bad_file_ends_with_2_and_one_sentence(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "tree.json"
    if text is not None:
        file.write_text(text)
    said = run("--dump", str(file), "--json", code=2)
    assert said.startswith(f"kraft-bridge: {file}: ")
    assert said.count("\n") == 1


def test_a_level_that_is_none_ends_with_2(tmp_path: Path) -> None:
    assert "4.9" in run("--dump", dumped(tmp_path), "-r", "4.9", code=2)
