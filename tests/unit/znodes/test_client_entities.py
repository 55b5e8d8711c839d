"""Client quotas and SCRAM credentials: every form of a name and a value, and what is refused."""

from __future__ import annotations

import json
import math

import pytest

from emulator.metadata import EMPTY, Image, client_quotas
from emulator.metadata.metadata_version import LATEST, MetadataVersion
from emulator.metadata.scram import Credential, Mechanism, record_of
from emulator.migration.entity_plan import ENTITIES_PER_PIECE
from emulator.migration.plan import changes, compare
from emulator.migration.tree_diff import differences
from emulator.simulation.models.zookeeper_tree import ServerTree
from emulator.znodes import client_entities
from emulator.znodes.client_entities import ClientEntities
from emulator.znodes.entity import RefusalKind
from emulator.zookeeper.ops import Create, SetData
from tests.laws.zk_trees import EPOCH, known, ops_of, read, replayed, tree_of, write
from tests.unit.migration.recorded import node_data, recorded_nodes, recorded_records
from wire import records as r

CLASS = ClientEntities()
CREDENTIAL = Credential(b"salt", b"stored", b"server", 4096)
SCRAM = client_entities.render_scram(CREDENTIAL)
EMPTY_CONFIG = {"version": 1, "config": {}}


def quota(entity: dict[str, str | None], key: str, value: float | None) -> object:
    return client_quotas.record_of(client_quotas.entity(entity.items()), key, value)


def scram(name: str, mechanism: Mechanism) -> object:
    return record_of((name, mechanism), CREDENTIAL)


def config(**entries: str) -> bytes:
    return json.dumps({"version": 1, "config": entries}).encode()


def mirrored(tree: ServerTree, before: Image, records: list[object]) -> Image:
    """The tree follows some records by dual write."""
    after, touched = replayed(records, before)
    write(
        tree,
        ops_of(changes(before, after, touched, controller_epoch=EPOCH, known=known(tree))),
    )
    return after


def contents(tree: ServerTree) -> dict[str, object]:
    """Znodes of entities and folders below the top level, and the notifications in order."""
    return {
        path: json.loads(node.data) if node.data else None
        for path, node in tree.nodes.items()
        if path.startswith(("/config/users/", "/config/clients/", "/config/ips/"))
    }


def told(tree: ServerTree) -> list[str]:
    return [
        json.loads(node.data or b"")["entity_path"]
        for path, node in sorted(tree.nodes.items())
        if path.startswith("/config/changes/")
    ]


ENTITIES = [
    ({"user": "alice"}, "/config/users/alice"),
    ({"user": None}, "/config/users/<default>"),
    ({"user": "<default>"}, "/config/users/%3Cdefault%3E"),
    ({"user": "CN=a b,O=*~ü/+%"}, "/config/users/CN%3Da%20b%2CO%3D%2A%7E%C3%BC%2F%2B%25"),
    ({"user": "."}, "/config/users/%2E"),
    ({"user": ".."}, "/config/users/%2E%2E"),
    ({"user": "a.b-c_d"}, "/config/users/a.b-c_d"),
    ({"client-id": "app 1"}, "/config/clients/app%201"),
    ({"client-id": None}, "/config/clients/<default>"),
    ({"user": "a/b", "client-id": "c:d"}, "/config/users/a%2Fb/clients/c%3Ad"),
    ({"user": None, "client-id": "c"}, "/config/users/<default>/clients/c"),
    ({"user": "u", "client-id": None}, "/config/users/u/clients/<default>"),
    ({"user": None, "client-id": None}, "/config/users/<default>/clients/<default>"),
    ({"ip": "10.0.0.1"}, "/config/ips/10.0.0.1"),
    ({"ip": "fe80::1"}, "/config/ips/fe80::1"),
    ({"ip": None}, "/config/ips/<default>"),
]


@pytest.mark.parametrize(("entity", "path"), ENTITIES)
@pytest.mark.requirement("W11")
def test_an_entity_comes_changes_and_goes(entity: dict[str, str | None], path: str) -> None:
    """Kafka 3.9 writes the last line only for a user alone; see the next test."""
    key = "connection_creation_rate" if "ip" in entity else "consumer_byte_rate"
    tree = tree_of({})
    image = mirrored(tree, EMPTY, [quota(entity, key, 10)])
    assert contents(tree)[path] == {"version": 1, "config": {key: "10"}}
    image = mirrored(tree, image, [quota(entity, key, 20)])
    assert contents(tree)[path] == {"version": 1, "config": {key: "20"}}
    back, _ = replayed([one for e in CLASS.records(read(tree), EMPTY) for one in e])
    assert back.client_quotas == image.client_quotas
    image = mirrored(tree, image, [quota(entity, key, None)])
    assert contents(tree)[path] == EMPTY_CONFIG
    image = mirrored(tree, image, [quota(entity, key, 30)])
    assert contents(tree)[path] == {"version": 1, "config": {key: "30"}}
    assert told(tree) == [path.removeprefix("/config/")] * 4
    assert list(differences(read(tree), image, None)) == []


def captured(step: str) -> dict[str, bytes | None]:
    """Quotas and credentials in a tree that Kafka 3.9.2 left."""
    nodes = recorded_nodes("3.9.2-full", step).items()
    roots = ("/config/users/", "/config/clients/", "/config/ips/")
    return {path: node_data(node) for path, node in nodes if path.startswith(roots)}


def copied(tree: ServerTree) -> Image:
    return replayed([one for e in CLASS.records(read(tree), EMPTY) for one in e])[0]


@pytest.mark.requirement("W11")
def test_the_last_quota_of_an_entity_that_is_no_user_goes_from_zookeeper_too() -> None:
    """Kafka 3.9.2 leaves it in force in ZooKeeper until the controller restarts.

    "Encountered zk migration fault: Unhandled error in MetadataChangeEvent": a NullPointerException
    in KRaftMigrationZkWriter.handleClientQuotasDelta, which looks the removed entity up in the new
    image. Nothing of that delta is written and no broker is told. Ours is right as both stores must
    be equal: a rollback would put the removed quota in force again.
    """
    path, alice = "/config/users/alice/clients/app1", {"user": "alice", "client-id": "app1"}
    quotas = recorded_records("3.9.2-full", {"CLIENT_QUOTA_RECORD"})
    (removed,) = (one for _, one in quotas if one["remove"] and len(one["entity"]) == 2)
    assert {one["entityType"]: one["entityName"] for one in removed["entity"]} == alice
    theirs = [captured(step)[path] for step in ("2-09-quota", "2-22-controller-down")]
    assert theirs == [config(producer_byte_rate="512").replace(b" ", b"")] * 2
    assert json.loads(captured("2-23-controller-restarted")[path] or b"") == EMPTY_CONFIG

    tree = tree_of(captured("2-08-acl-del"))
    image = copied(tree)
    mirrored(tree, image, [quota(alice, removed["key"], None)])
    assert contents(tree)[path] == EMPTY_CONFIG
    assert told(tree) == ["users/alice/clients/app1"]


def test_a_full_comparison_of_equal_stores_writes_nothing() -> None:
    """Kafka 3.9.2 rewrites every entity in each full sync, each with a notification.

    Right after the copy, with nothing changed, all ten entities. Every broker works through all of
    that, at each failover.
    """
    before, after = (recorded_nodes("3.9.2-full", s) for s in ("0d-pending-delete", "1-dualwrite"))
    entities = {path for path, data in captured("1-dualwrite").items() if data}
    assert len(entities) == 10
    assert all(after[path].get("text") == before[path].get("text") for path in entities)
    assert all(after[path]["version"] == before[path]["version"] + 1 for path in entities)
    new = [p for p in after if p.startswith("/config/changes/") and p not in before]
    assert {
        "/config/" + json.loads(node_data(after[path]) or b"")["entity_path"] for path in new
    } == entities

    tree = tree_of(captured("0d-pending-delete"))
    assert ops_of(compare(read(tree), copied(tree), controller_epoch=EPOCH)) == []


def test_quotas_and_credentials_of_a_user_are_written_together() -> None:
    tree = tree_of({})
    user = {"user": "alice"}
    image = mirrored(tree, EMPTY, [scram("alice", Mechanism.SCRAM_SHA_256)])
    image = mirrored(tree, image, [quota(user, "request_percentage", 55.5)])
    image = mirrored(tree, image, [scram("alice", Mechanism.SCRAM_SHA_512)])
    whole = {"request_percentage": "55.5", "SCRAM-SHA-256": SCRAM, "SCRAM-SHA-512": SCRAM}
    assert contents(tree) == {"/config/users/alice": {"version": 1, "config": whole}}
    removal = r.RemoveUserScramCredentialRecord(name="alice", mechanism=1)
    image = mirrored(tree, image, [quota(user, "request_percentage", None), removal])
    assert contents(tree)["/config/users/alice"] == {
        "version": 1,
        "config": {"SCRAM-SHA-512": SCRAM},
    }
    back, _ = replayed([one for e in CLASS.records(read(tree), EMPTY) for one in e])
    assert back.scram_credentials == image.scram_credentials


def test_a_folder_of_another_user_becomes_an_entity_without_a_refused_write() -> None:
    """Whether a write makes a znode or sets it is known, not guessed from the image."""
    tree = tree_of({})
    below = [
        quota({"user": "u", "client-id": name}, "producer_byte_rate", 1) for name in ("c", "d")
    ]
    image = mirrored(tree, EMPTY, below)
    assert contents(tree)["/config/users/u"] is None
    assert told(tree) == ["users/u/clients/c", "users/u/clients/d"]
    mirrored(tree, image, [quota({"user": "u"}, "producer_byte_rate", 2)])
    assert contents(tree)["/config/users/u"] == {
        "version": 1,
        "config": {"producer_byte_rate": "2"},
    }


def test_a_full_comparison_writes_only_what_differs() -> None:
    records = [quota({"user": f"u{n:03}"}, "producer_byte_rate", n + 1) for n in range(100)]
    image, _ = replayed(records)
    tree = tree_of({})
    pieces = list(compare(read(tree), image, controller_epoch=EPOCH))
    assert max(map(len, pieces)) <= ENTITIES_PER_PIECE, "no step is long"
    write(tree, ops_of(pieces))
    assert len(told(tree)) == 100
    assert ops_of(compare(read(tree), image, controller_epoch=EPOCH)) == []
    # As another writer would put the same: other order, other forms of the numbers.
    tree.nodes["/config/users/u007"].data = b'{"config":{"producer_byte_rate":"8.0"},"version":1}'
    tree.nodes["/config/users/u008"].data = config(producer_byte_rate="8")
    (op,) = (
        op
        for op in ops_of(compare(read(tree), image, controller_epoch=EPOCH))
        if isinstance(op, SetData)
    )
    assert op.path == "/config/users/u008"


def test_what_zookeeper_has_too_much_becomes_an_empty_config() -> None:
    tree = tree_of(
        {
            "/config/users/old": config(producer_byte_rate="1"),
            "/config/users/null/clients/x": None,
            "/config/ips/1.2.3.4": b"garbage",
            "/config/clients/empty": config(),
            "/config/users/foreign/other/x": b"left alone",
        }
    )
    found = {(one.path, one.kind) for one in differences(read(tree), EMPTY, None)}
    assert found == {("/config/users/old", "extra"), ("/config/ips/1.2.3.4", "extra")}
    write(tree, ops_of(compare(read(tree), EMPTY, controller_epoch=EPOCH)))
    assert sorted(told(tree)) == ["ips/1.2.3.4", "users/old"]
    assert tree.nodes["/config/users/foreign/other/x"].data == b"left alone"
    assert list(differences(read(tree), EMPTY, None)) == []


REFUSED = [
    ("/config/users/a", config(a="1"), "'a' is none of the keys producer_byte_rate"),
    ("/config/users/a", config(producer_byte_rate="x"), "producer_byte_rate: 'x' is not a number"),
    ("/config/users/a", config(producer_byte_rate="1.5"), "'1.5' is not a LONG value"),
    ("/config/users/a", config(request_percentage="NaN"), "'NaN' is not a number"),
    ("/config/users/a", config(request_percentage="1_0"), "'1_0' is not a number"),
    ("/config/users/a", config(connection_creation_rate="1"), "is none of the keys"),
    ("/config/clients/a", config(**{"SCRAM-SHA-256": SCRAM}), "is none of the keys"),
    ("/config/users/a/clients/b", config(**{"SCRAM-SHA-256": SCRAM}), "is none of the keys"),
    ("/config/ips/a", config(producer_byte_rate="1"), "is none of the keys"),
    ("/config/ips/a", config(connection_creation_rate="3e9"), "'3e9' is not an INT value"),
    ("/config/users/a", config(**{"SCRAM-SHA-512": ""}), "a credential consists of name=value"),
    ("/config/users/a", config(**{"SCRAM-SHA-512": "salt=YQ=="}), "a credential has the fields"),
    (
        "/config/users/a",
        config(**{"SCRAM-SHA-512": SCRAM.replace("4096", "0")}),
        "is no number of iterations",
    ),
    (
        "/config/users/a",
        config(**{"SCRAM-SHA-512": SCRAM.replace("salt=", "salt=!")}),
        "salt is not base64",
    ),
    ("/config/users/a%zz", config(producer_byte_rate="1"), "is not percent-encoded UTF-8"),
    ("/config/users/a%ff", config(producer_byte_rate="1"), "is not percent-encoded UTF-8"),
    ("/config/clients/" + "a" * 32_768, config(), "the name: more than 32767 bytes"),
    ("/config/users/a", b"{", "Input data was truncated"),
    ("/config/users/a", b'{"version":2,"config":{}}', "version 2"),
]


@pytest.mark.parametrize(("path", "data", "why"), REFUSED)
def test_what_cannot_be_copied_is_refused_with_its_reason(path: str, data: bytes, why: str) -> None:
    """Kafka stops in the middle of the copy, or drops the key; the operator is never told which."""
    (refusal,) = filter(None, CLASS.refusals(read(tree_of({path: data})), LATEST))
    assert (refusal.kind, refusal.path) == (RefusalKind.MALFORMED, path)
    assert why in refusal.why
    assert "c3RvcmVk" not in refusal.why, "no secrets in messages"


def test_two_znodes_of_one_entity_are_refused() -> None:
    data = config(producer_byte_rate="1")
    tree = read(tree_of({"/config/users/a+b": data, "/config/users/a%20b": data}))
    (refusal,) = filter(None, CLASS.refusals(tree, LATEST))
    assert "same entity" in refusal.why
    assert {refusal.path, refusal.why.rsplit(" ", 1)[1]} == {
        "/config/users/a+b",
        "/config/users/a%20b",
    }


def test_credentials_need_metadata_version_11() -> None:
    """Kafka writes the records unchecked; a controller of that version cannot read them."""
    tree = read(
        tree_of(
            {
                "/config/users/a": config(**{"SCRAM-SHA-256": SCRAM}),
                "/config/users/b": config(producer_byte_rate="1"),
            }
        )
    )
    assert not list(filter(None, CLASS.refusals(tree, MetadataVersion.from_level(11))))
    (refusal,) = filter(None, CLASS.refusals(tree, MetadataVersion.from_level(10)))
    assert (refusal.kind, refusal.path) == (RefusalKind.METADATA_VERSION, "/config/users/a")
    assert "metadata.version 11" in refusal.why


def test_credentials_of_the_default_user_are_those_of_a_user_of_that_name() -> None:
    """As Kafka reads them; a broker finds them under either znode."""
    tree = tree_of({"/config/users/<default>": config(**{"SCRAM-SHA-256": SCRAM})})
    image, _ = replayed([one for e in CLASS.records(read(tree), EMPTY) for one in e])
    assert list(image.scram_credentials) == [("<default>", 1)]
    write(tree, ops_of(compare(read(tree), image, controller_epoch=EPOCH)))
    assert contents(tree) == {
        "/config/users/<default>": EMPTY_CONFIG,
        "/config/users/%3Cdefault%3E": {"version": 1, "config": {"SCRAM-SHA-256": SCRAM}},
    }


def test_an_unfinished_copy_is_taken_back() -> None:
    records = [quota(entity, "connection_creation_rate", 5) for entity, _ in ENTITIES]
    image, _ = replayed([*records, scram("a", Mechanism.SCRAM_SHA_512)])
    after, _ = replayed(list(CLASS.leftovers(image)), image)
    assert not after.client_quotas
    assert not after.scram_credentials


def test_a_value_no_type_fits_is_written_rather_than_blocking_all_writing() -> None:
    """A log may hold what this release does not know; Kafka gives the whole change up."""
    tree = tree_of({})
    mirrored(tree, EMPTY, [quota({"user": "a"}, "new_rate", 1.5)])
    assert contents(tree)["/config/users/a"] == {"version": 1, "config": {"new_rate": "1.5"}}


@pytest.mark.parametrize(
    ("key", "text", "number"),
    [
        ("producer_byte_rate", "1024", 1024.0),
        ("producer_byte_rate", "9223372036854775807", float(2**63)),
        ("consumer_byte_rate", "12345678901", 12345678901.0),
        ("connection_creation_rate", "2147483647", 2147483647.0),
        ("request_percentage", "3.0", 3.0),
        ("request_percentage", "55.5", 55.5),
        ("request_percentage", "1.0E10", 1e10),
        ("controller_mutation_rate", "1.0E-4", 1e-4),
        ("controller_mutation_rate", "0.001", 0.001),
        ("controller_mutation_rate", "9999999.0", 9999999.0),
        ("controller_mutation_rate", "1.0E7", 1e7),
        ("controller_mutation_rate", "1.7976931348623157E308", 1.7976931348623157e308),
        ("controller_mutation_rate", "0.1", 0.1),
        ("controller_mutation_rate", "100.0", 100.0),
        ("controller_mutation_rate", "-2.5", -2.5),
    ],
)
def test_numbers_are_written_as_kafka_writes_them(key: str, text: str, number: float) -> None:
    assert client_entities.checked(key, text) == number
    assert client_entities.render_quota(key, number) == text


@pytest.mark.parametrize("text", ["1024.0000001", " 1024 ", "1024d", "+1024.", "1.024e3", "1024F"])
def test_numbers_are_read_as_java_reads_them(text: str) -> None:
    assert (
        client_entities.render_quota("producer_byte_rate", client_entities.parse_quota(text))
        == "1024"
    )


def test_numbers_that_are_none_are_written_as_java_writes_them() -> None:
    names = [client_entities.java_double(n) for n in (math.nan, math.inf, -math.inf, 0.0, -0.0)]
    assert names == ["NaN", "Infinity", "-Infinity", "0.0", "-0.0"]


def test_a_name_written_in_another_way_is_replaced_by_kafkas() -> None:
    """Brokers decode both to one entity: an empty config under the old name would undo the new."""
    odd = {"/config/users/a+b": "5", "/config/ips/%3A%3A1": "7"}
    odd["/config/users/%c3%a9/clients/c"] = "6"
    keys = {p: "connection_creation_rate" if "ips" in p else "producer_byte_rate" for p in odd}
    tree = tree_of({path: config(**{keys[path]: value}) for path, value in odd.items()})
    write(tree, ops_of(compare(read(tree), copied(tree), controller_epoch=EPOCH)))
    usual = ("users/a%20b", "users/%C3%A9/clients/c", "ips/::1")
    assert {p for p, data in contents(tree).items() if data} == {f"/config/{one}" for one in usual}
    assert set(told(tree)) == {*usual, "users/%C3%A9"}
    assert "/config/users/%c3%a9" not in tree.nodes
    assert list(differences(read(tree), copied(tree), None)) == []


def test_a_name_that_cannot_be_decoded_goes_without_a_word() -> None:
    """It came after the copy: nobody is told what no broker could read."""
    tree = tree_of({"/config/users/a%zz": config(producer_byte_rate="1")})
    write(tree, ops_of(compare(read(tree), EMPTY, controller_epoch=EPOCH)))
    assert contents(tree) == {}
    assert told(tree) == []


def test_folders_are_not_told() -> None:
    assert CLASS.notifications(Create("/config/users/u", None)) == ()
    assert CLASS.notifications(Create("/config/users/u/clients", None)) == ()
    (one,) = CLASS.notifications(SetData("/config/users/u/clients/c", b"{}"))
    assert isinstance(one, Create)
    assert one.path == "/config/changes/config_change_"
