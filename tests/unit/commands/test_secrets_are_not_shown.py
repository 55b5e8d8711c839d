"""What verbs print for people holds no secret unless it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.commands.zk import compare
from emulator.migration.tree_diff import Difference
from emulator.raft import layout
from tests.unit.commands.running import CLUSTER, run
from wire import records as r
from wire.batch import Batch, encode_batch
from wire.record_serde import encode_record

SALT, STORED, SERVER = b"salty" * 4, b"stored" * 4, b"server" * 4
SCRAM = b'{"version":1,"config":{"SCRAM-SHA-256":"salt=c2E=,stored_key=c3Q=,server_key=c2U="}}'


@pytest.mark.parametrize("asked", [False, True])
def test_the_log_without_keys_of_credentials_and_passwords(
    properties: Path, tmp_path: Path, asked: bool
) -> None:
    run("format", "-c", properties, "-t", CLUSTER)
    keys = {"salt": SALT, "stored_key": STORED, "server_key": SERVER}
    records = [
        r.UserScramCredentialRecord(name="alice", mechanism=1, iterations=4096, **keys),
        r.ConfigRecord(
            resource_type=4,
            resource_name="1",
            name="listener.name.a.ssl.keystore.password",
            value="open sesame",
        ),
        r.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="7"),
        r.ConfigRecord(resource_type=4, resource_name="1", name="ssl.key.password", value=None),
    ]
    batch = Batch(0, 1, 0, 1_000, [(None, encode_record(one, 0)) for one in records])
    log = tmp_path / "data" / layout.segment_path(0)
    log.parent.mkdir(exist_ok=True)
    log.write_bytes(encode_batch(batch))
    code, out, _ = run("log", "dump", "--log-dir", tmp_path / "data", *["--with-secrets"] * asked)
    assert code == 0
    assert ("open sesame" in out) is asked
    assert out.count("<redacted>") == (0 if asked else 4)
    assert '"value":"7"' in out
    assert '"value":null' in out
    assert '"alice"' in out


@pytest.mark.parametrize("asked", [False, True])
def test_a_comparison_without_keys_of_credentials(
    properties: Path, tmp_path: Path, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("format", "-c", properties, "-t", CLUSTER)
    found = [Difference("/config/users/alice", "missing", None, SCRAM)]
    monkeypatch.setattr(compare, "compare", lambda *_: (found, "a note"))
    where = ("--zookeeper", "127.0.0.1:1", "--log-dir", tmp_path / "data")
    code, out, _ = run("zk", "diff", *where, "--json", *["--with-secrets"] * asked)
    assert code == 1
    assert ("stored_key" in out) is asked
    assert "/config/users/alice" in out
    assert "SCRAM-SHA-256" in out
