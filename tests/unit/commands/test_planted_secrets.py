"""A unique token in each place of a secret: no command, error, log, trace or page shows it."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import ZnodeStat

from emulator.commands.zk import client as zk_client
from emulator.config.load import OURS
from emulator.controller.tables.server_configs import Type, server_configs
from emulator.raft import layout
from emulator.testing import Cluster
from tests.kit.reads import ReadsAtOnce
from tests.unit.commands.running import CLUSTER, PROPERTIES, run
from wire import messages as m
from wire import records as r
from wire.batch import Batch, encode_batch
from wire.record_serde import encode_record

JAAS, DIGEST = "kraftbridge.zookeeper.jaas.config", "kraftbridge.zookeeper.digest"
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
KEYS = [name for name, one in server_configs("3.9").items() if one.type is Type.PASSWORD]
KEYS += ["delegation.token.master.key", "listener.name.x.plain.sasl.jaas.config", JAAS, DIGEST]
KEYS += ["my.own.password", "zookeeper.ssl.keystore.pasword"]


class Planted:
    """Makes tokens, and finds them in what is shown, plain and as base64."""

    def __init__(self) -> None:
        self._tokens: list[str] = []

    def token(self) -> str:
        self._tokens.append(f"Qz7vPlanted{len(self._tokens):03d}Xk9")
        return self._tokens[-1]

    def shown_in(self, shown: str) -> list[str]:
        forms = {one: (one, base64.b64encode(one.encode()).decode()[:-4]) for one in self._tokens}
        return [one for one, all_forms in forms.items() if any(form in shown for form in all_forms)]


@pytest.fixture
def planted() -> Planted:
    return Planted()


def test_the_search_finds_a_token(planted: Planted) -> None:
    one, other = planted.token(), planted.token()
    assert planted.shown_in(f"x{one}y") == [one]
    assert planted.shown_in(base64.b64encode(other.encode()).decode()) == [other]
    assert planted.shown_in("nothing") == []


def said(*arguments: object) -> str:
    _, out, err = run(*arguments)
    assert "Traceback" not in out + err
    return out + err


def values_of(key: str, token: str) -> list[str]:
    """The token as the value of a key, whole and in what looks like a login."""
    found = [token]
    if "jaas" in key:
        found += [
            f'{MODULE} required username="u" password="{token}";',
            f'Client {{ {MODULE} required username="u" password="{token}"; }};',
            f'Client {{ {MODULE} required username="u" password="a"{token}"; }};',
            f'Client {{ {MODULE} required username="u" password=a;{token} b; }};',
            f"Client {{ {MODULE} required username=u password= ; {token}",
            f"{token} {{ x y; }};",
        ]
    if key == DIGEST:
        found.append(f":{token}")
    return found


WRONG = "node.id=x\nzookeeper.ssl.client.enable=true\nsecurity.protocol=SASL_PLAINTEXT\n"
"""Wrong in other places too: every problem is said, and each verb ends at once."""
ELECT = ("elect-leaders", "--bootstrap-server", "127.0.0.1:1", "--timeout", "0.2")


def test_no_property_is_shown_by_any_command_that_reads_it(
    tmp_path: Path, planted: Planted
) -> None:
    file, dumped = tmp_path / "server.properties", tmp_path / "dump.json"
    lines = [f"{key}={planted.token()}" for key in KEYS]
    file.write_text("\n".join((WRONG, "sasl.mechanism=PLAIN", PROPERTIES, *lines)))
    dumped.write_text('{"nodes": {}}')
    shown = [
        said("controller", "-c", file),
        said("broker", "-c", file, "-X", "process.roles=broker"),
        said("format", "-c", file, "-t", CLUSTER),
        said("plan", "-c", file, "--dump", dumped),
        said("preflight", "-c", file, "--dump", dumped),
        said("zk", "dump", "-c", file),
        said("zk", "diff", "-c", file, "--log-dir", tmp_path / "none"),
        said(*ELECT, "--admin.config", file),
        *(said("controller", "-c", file, "-X", line) for line in lines),
        *(said("controller", "-c", file, "-X", line.replace("=", " ")) for line in lines),
        said("fleet", "--brokers", "1", "--controller", "127.0.0.1:1", "-X", lines[0]),
    ]
    assert [planted.shown_in(one) for one in shown] == [[]] * len(shown)


@pytest.mark.parametrize("key", [JAAS, DIGEST, "sasl.jaas.config"])
def test_no_part_of_a_login_that_is_wrong_is_shown(
    key: str, tmp_path: Path, planted: Planted
) -> None:
    file = tmp_path / "server.properties"
    for value in values_of(key, planted.token()):
        file.write_text(f"{WRONG}sasl.mechanism=PLAIN\n{key}={value}\n{PROPERTIES}")
        shown = [
            said("controller", "-c", file),
            said("zk", "dump", "-c", file),
            said("zk", "dump", "-X", f"{key}={value}"),
            said(*ELECT, "--admin.config", file),
        ]
        assert [planted.shown_in(one) for one in shown] == [[]] * len(shown), value


def test_lines_of_a_key_without_continuation_are_not_named(
    tmp_path: Path, planted: Planted
) -> None:
    """Each line of the PEM text is read as a key of its own."""
    token = base64.b64encode((planted.token() * 2).encode()).decode()
    file = tmp_path / "server.properties"
    file.write_text(f"{PROPERTIES}log.dirs={tmp_path}/d\nssl.keystore.key=-----BEGIN\n{token}\n")
    shown = said("controller", "-c", file)
    assert "not the form of a property's name" in shown
    assert planted.shown_in(shown) == []
    assert token[:20] not in shown


def test_the_log_and_its_folder(tmp_path: Path, planted: Planted) -> None:
    """A properties file that is right, and a log with every secret that a record can hold."""
    file = tmp_path / "server.properties"
    secrets = "".join(f"{key}={planted.token()}\n" for key in KEYS if key not in {JAAS, DIGEST})
    file.write_text(f"{PROPERTIES}log.dirs={tmp_path}/data\n{secrets}")
    shown = said("format", "-c", file, "-t", CLUSTER)
    keys = {name: planted.token().encode() for name in ("salt", "stored_key", "server_key")}
    records: list[object] = [
        r.UserScramCredentialRecord(name="alice", mechanism=1, iterations=4_096, **keys),
        *(r.ConfigRecord(4, "1", key, planted.token()) for key in KEYS),
    ]
    batch = Batch(0, 1, 0, 1_000, [(None, encode_record(one, 0)) for one in records])
    log = tmp_path / "data" / layout.segment_path(0)
    log.parent.mkdir(exist_ok=True)
    log.write_bytes(encode_batch(batch))
    shown += said("log", "dump", "--log-dir", tmp_path / "data")
    assert shown.count("<redacted>") == len(KEYS) + 3
    # A record that is cut, and one of a state that nobody knows: errors about the same log.
    log.write_bytes(encode_batch(batch)[:-7])
    shown += said("log", "dump", "--log-dir", tmp_path / "data")
    records.append(r.ZkMigrationStateRecord(zk_migration_state=9))
    batch = Batch(0, 1, 0, 1_000, [(None, encode_record(one, 0)) for one in records])
    log.write_bytes(encode_batch(batch))
    for log_json in ((), ("--log-json",)):
        shown += said("controller", "-c", file, *log_json)
    assert "migration state 9 is unknown" in shown
    assert planted.shown_in(shown) == []


class Tree(ReadsAtOnce):
    """A ZooKeeper that kazoo's client would read, from a dictionary."""

    def __init__(self, data: dict[str, bytes]) -> None:
        self.data = data

    def start(self, timeout: float) -> None:
        """Nothing to do."""

    stop = close = lambda self: None
    sync = lambda self, path: None  # noqa: E731
    handler = None

    def get(self, path: str) -> tuple[bytes, Any]:
        if path not in self.data and not self.get_children(path):
            raise NoNodeError
        return self.data.get(path, b""), ZnodeStat(1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1)

    def get_acls(self, path: str) -> tuple[list[Any], None]:
        return [], None

    def get_children(self, path: str) -> list[str]:
        below = path.rstrip("/") + "/"
        return sorted(
            {one[len(below) :].split("/")[0] for one in self.data if one.startswith(below)}
        )


def tree_with(planted: Planted) -> dict[str, bytes]:
    """Every znode that holds secrets, as Kafka writes it and broken in several ways."""
    token = planted.token

    def config(**values: str) -> bytes:
        return json.dumps({"version": 1, "config": values}).encode()

    scram = f"salt={token()},stored_key={token()},server_key={token()},iterations=4096"
    encoded = f"keyLength:128,salt:eA==,cipherAlgorithm:{token()},encryptedPassword:{token()}"
    return {
        "/cluster/id": b'{"version":"1","id":"MkU3OEVBNTcwNTJENDM2Qg"}',
        "/config/users/alice": config(**{"SCRAM-SHA-256": scram}),
        "/config/users/bob": config(**{"SCRAM-SHA-512": scram.replace(",", ";")}),
        "/config/users/carl": config(**{"SCRAM-SHA-512": f"{token()}=x,,"}),
        "/config/users/dora": b'{"version":1,"config":{"SCRAM-SHA-256":"' + token().encode(),
        "/config/users/eve": json.dumps({"version": token(), "config": [token()]}).encode(),
        "/config/users/fay/clients/c": config(**{"SCRAM-SHA-256": scram}),
        "/config/brokers/1": config(**{"listener.name.a.ssl.key.password": encoded}),
        "/config/brokers/2": config(**{"ssl.keystore.password": token()}),
        "/config/brokers/3": config(**{"ssl.keystore.password": f"{token()}:{token()}"}),
        "/config/brokers/<default>": token().encode(),
        "/config/brokers/x": config(**{"sasl.jaas.config": f'a.B required password="{token()}";'}),
        "/delegation_token/tokens/t": json.dumps({"version": 3, "hmac": token()}).encode(),
        "/delegation_token/tokens/u": token().encode(),
        "/chroot/config/users/alice": config(**{"SCRAM-SHA-256": scram}),
        "/chroot/config/brokers/1": config(**{"ssl.key.password": token()}),
    }


def test_a_tree_of_zookeeper_and_its_dumps(
    tmp_path: Path, planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = tree_with(planted)
    monkeypatch.setattr(zk_client, "_Client", lambda **_: Tree(nodes))
    monkeypatch.setattr(zk_client, "why_unreachable", lambda _: "")
    file = tmp_path / "server.properties"
    text = f"{PROPERTIES}log.dirs={tmp_path}/data\npassword.encoder.secret={planted.token()}\n"
    file.write_text(text)
    run("format", "-c", file, "-t", CLUSTER)
    where = ("--zookeeper", "127.0.0.1:1")
    hidden, diff = (
        said("zk", "dump", *where),
        ("zk", "diff", *where, "--log-dir", f"{tmp_path}/data"),
    )
    assert "/chroot/config/users/alice" in hidden
    shown = [hidden, said(*diff), said(*diff, "--json"), said("preflight", *where)]
    whole = run("zk", "dump", *where, "--with-secrets")[1]
    assert len(planted.shown_in(whole)) > 15, "the tree holds what is looked for"
    assert "/config/users/alice" in shown[1], "the comparison has found it"
    for number, dump in enumerate((whole, hidden)):
        dumped = tmp_path / f"{number}.json"
        dumped.write_text(dump)
        for as_json in ((), ("--json",)):
            shown.append(said("plan", "--dump", dumped, "-c", file, *as_json))
            shown.append(said("preflight", "--dump", dumped, "-c", file, *as_json))
    assert [planted.shown_in(one) for one in shown] == [[]] * len(shown)


def test_a_running_cluster_its_pages_log_and_trace(
    tmp_path: Path, planted: Planted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "kraft_bridge")
    secrets = {key: planted.token() for key in KEYS if key in OURS or key.startswith("deleg")}
    secrets |= {key: planted.token() for key in ("ssl.key.password", "my.own.password")}
    url = "sasl.oauthbearer.token.endpoint.url"
    secrets[url] = f"https://me:{planted.token()}@host/token"
    secrets[DIGEST] = f"u:{secrets[DIGEST]}"
    secrets[JAAS] = f'Client {{ {MODULE} required username="u" password="{secrets[JAAS]}"; }};'
    more = {"kraftbridge.metrics.port": "0", "kraftbridge.trace.dir": str(tmp_path / "trace")}
    shown = []
    with Cluster(brokers=1, properties=secrets | more, fsync=False) as cluster:
        shown += [repr(cluster.request(request)) for request in requests(planted)]
        shown += [
            said("status", "--url", cluster.http(3000), *json_) for json_ in ((), ("--json",))
        ]
        shown.append(json.dumps(cluster.status()))
        for page in ("metrics", "status", "readyz", "nowhere"):
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"{cluster.http(3000)}/{page}", timeout=300) as answer,
            ):
                shown.append(answer.read().decode())
    assert caplog.records
    shown += [caplog.text, repr([vars(record) for record in caplog.records])]
    traced = [path for path in (tmp_path / "trace").rglob("*") if path.is_file()]
    assert traced
    shown += [rows_of(path) for path in traced]
    assert any("<redacted>" in one for one in shown), "the properties are in the trace"
    assert any("https://host/token" in one for one in shown), "so is the address, without its login"
    assert [planted.shown_in(one) for one in shown] == [[]] * len(shown)


def requests(planted: Planted) -> Iterator[Any]:
    """Requests that set secrets, rightly and wrongly, and those that show what is set."""
    scram, alter = m.AlterUserScramCredentialsRequest, m.IncrementalAlterConfigsRequest
    for mechanism, iterations in ((1, 4_096), (1, 1), (9, 4_096)):
        salt, salted = (planted.token().encode() for _ in range(2))
        one = scram.ScramCredentialUpsertion("alice", mechanism, iterations, salt, salted)
        yield scram(upsertions=[one])
    for key in ("listener.name.x.ssl.key.password", "ssl.key.password", "no.such.password"):
        for kind, name in ((4, "0"), (4, ""), (2, "topic"), (9, "x")):
            config = alter.AlterableConfig(key, 0, planted.token())
            yield alter(resources=[alter.AlterConfigsResource(kind, name, [config])])
    yield m.CreateDelegationTokenRequest(max_lifetime_ms=-1)
    yield m.RenewDelegationTokenRequest(planted.token().encode(), 1)
    described = m.DescribeConfigsRequest.DescribeConfigsResource
    for node in ("0", "3000", ""):
        yield m.DescribeConfigsRequest(resources=[described(4, node, None)], include_synonyms=True)
    yield m.DescribeUserScramCredentialsRequest(None)


def rows_of(path: Path) -> str:
    """A trace's table as text; of other files the bytes."""
    if path.suffix != ".parquet":
        return path.read_bytes().decode(errors="replace")
    from pyarrow import parquet

    return str(parquet.read_table(path).to_pylist())


URLS = (
    "http://u:{}@127.0.0.1:1",
    "http://u:{}@127.0.0.1:x",
    "http://{}@127.0.0.1:1",
    "http://u:a/{}@127.0.0.1:1",
    "http://u:a@{}@127.0.0.1:1",
    "http://127.0.0.1:1/?token={}",
    "https://u:{}@[::1",
    "ftp://u:{}@127.0.0.1",
    "u:{}@127.0.0.1:1",
)


@pytest.mark.parametrize("verb", ["status", "finalise", "zk reconcile --dry-run --log-dir"])
@pytest.mark.parametrize("url", URLS)
def test_the_password_in_an_address_is_not_shown(
    url: str, verb: str, planted: Planted, tmp_path: Path
) -> None:
    (tmp_path / "operator.token").write_text(planted.token())
    folder = [tmp_path] if "--log-dir" in verb else []
    shown = said(*verb.split(), *folder, "--url", url.format(planted.token()))
    assert "127.0.0.1" in shown or "::1" in shown
    assert planted.shown_in(shown) == []


def test_the_password_of_an_identity_is_not_shown(tmp_path: Path, planted: Planted) -> None:
    nodes = {"/config/topics": {"null": True, "acl": [[31, "digest", "kafka"]]}}
    dumped = tmp_path / "dump.json"
    dumped.write_text(json.dumps({"nodes": nodes}))
    for user, open_to_it in (("other", False), ("kafka", True)):
        told = f"digest:{user}:{planted.token()}"
        shown = said("preflight", "--dump", dumped, "--identity", told)
        assert (f"the controller has digest:{user}" in shown) is not open_to_it
        assert planted.shown_in(shown) == []
