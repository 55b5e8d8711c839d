"""Clusters with nothing to find, of the shapes that real ones have.

Each is a tree with the present files, the target files and the controllers' folders of its nodes.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from emulator.operations.preflight.controller_folder import ControllerFolder
from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.survey import DumpedZnode, RoundTrips, Survey, of_dump
from tests import data

CLUSTER = "iM0LPIyuSZWXhfsk3WQMaw"
ACL = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
OLD_ACL = "kafka.security.authorizer.AclAuthorizer"
NOW_MS = 1_795_218_000_000
YEAR_MS = 365 * 24 * 3_600_000
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"
JAAS = f'{SCRAM_LOGIN} required username="broker" password="x";'
PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
PLAIN_JAAS = f'{PLAIN_LOGIN} required username="broker" password="x" user_broker="x";'


TOPIC_IDS = {"orders": "AAAAAAAAAAAAAAAAAAAAAQ", "payments": "AAAAAAAAAAAAAAAAAAAAAg"}


def js(value: object) -> bytes:
    return json.dumps(value).encode()


def config(entries: Mapping[str, str]) -> bytes:
    return js({"version": 1, "config": entries})


def with_parents(nodes: Mapping[str, DumpedZnode]) -> dict[str, DumpedZnode]:
    found = dict(nodes)
    for path in nodes:
        parent = path.rpartition("/")[0]
        while parent:
            found.setdefault(parent, DumpedZnode(None))
            parent = parent.rpartition("/")[0]
    return found


def node_files(
    broker: Mapping[str, str],
    shared: Mapping[str, str],
    *,
    ids: tuple[int, ...] = (0, 1, 2),
    controllers: tuple[int, ...] = (3000,),
    ibp: str = "3.9",
    chroot: str = "",
    quorum: Mapping[str, str] | None = None,
) -> tuple[list[Properties], list[Properties]]:
    """Present files of brokers and controllers, and target files of the brokers.

    ``broker``: only of brokers; ``{id}`` in a value is the node's id. ``shared``: of all.
    """
    voters = ",".join(f"{one}@c{one}.example.com:9093" for one in controllers)
    find = dict(quorum or {"controller.quorum.voters": voters})
    find["controller.listener.names"] = "CONTROLLER"
    zookeeper = {"zookeeper.connect": f"zk1:2181,zk2:2181{chroot}"}
    flag = {"zookeeper.metadata.migration.enable": "true"}
    present, targets = [], []
    for one in ids:
        own = {key: value.replace("{id}", str(one)) for key, value in {**shared, **broker}.items()}
        old = {key: OLD_ACL if value == ACL else value for key, value in own.items()}
        now = {**old, **find, **zookeeper, **flag, "broker.id": str(one)}
        now["inter.broker.protocol.version"] = ibp
        meta = {"version": "0", "broker.id": str(one), "cluster.id": CLUSTER}
        present.append(Properties(f"broker-{one}", now, meta))
        target = {**own, **find, "process.roles": "broker", "node.id": str(one)}
        targets.append(Properties(f"target-{one}", target, meta))
    for one in controllers:
        file = {**shared, **find, **zookeeper, **flag, "process.roles": "controller"}
        file |= {"node.id": str(one), "listeners": "CONTROLLER://:9093"}
        inter = broker.get("inter.broker.listener.name") or broker.get(
            "security.inter.broker.protocol"
        )
        file |= {"inter.broker.listener.name": inter} if inter else {}
        meta = {"version": "1", "node.id": str(one), "cluster.id": CLUSTER}
        present.append(Properties(f"controller-{one}", file, meta))
    return present, targets


def folder(node_id: int, level: int = 21, **more: Any) -> ControllerFolder:
    meta = {"version": "1", "node.id": str(node_id), "cluster.id": CLUSTER}
    return ControllerFolder(f"data-{node_id}", meta, bootstrap_level=level, **more)


PLAIN = {
    "listeners": "PLAINTEXT://:9092",
    "advertised.listeners": "PLAINTEXT://kafka-{id}:9092",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "broker.rack": "rack-{id}",
}
PLAIN_MAP = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}
SECURED = {
    "listeners": "INTERNAL://:9091,EXTERNAL://:9094,AUTH://:9095",
    "advertised.listeners": "INTERNAL://k{id}:9091,EXTERNAL://k{id}.example.com:9094,AUTH://k{id}:9095",
    "inter.broker.listener.name": "INTERNAL",
    "ssl.keystore.location": "/etc/kafka/keystore.jks",
    "broker.rack": "eu-west-1{id}",
    "log.dirs": "/disk1,/disk2",
}
SECURED_MAP = {
    "listener.security.protocol.map": (
        "INTERNAL:SASL_SSL,EXTERNAL:SSL,AUTH:SASL_PLAINTEXT,CONTROLLER:SASL_SSL"
    ),
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "listener.name.controller.plain.sasl.jaas.config": PLAIN_JAAS,
    "listener.name.internal.scram-sha-512.sasl.jaas.config": JAAS,
    "authorizer.class.name": ACL,
    "super.users": "User:broker;User:CN=admin,O=Example",
    "delegation.token.secret.key": "x",
}


def tree(ids: tuple[int, ...] = (0, 1, 2), listeners: str = "PLAINTEXT") -> dict[str, DumpedZnode]:
    """A small tree as a cluster of 3.9 in ZooKeeper mode has it."""
    nodes: dict[str, bytes | None] = {
        "/cluster/id": js({"version": "1", "id": CLUSTER}),
        "/controller": js(
            {"version": 2, "brokerid": ids[0], "timestamp": "1", "kraftControllerEpoch": -1}
        ),
        "/controller_epoch": b"7",
        "/feature": js({"version": 2, "status": 1, "features": {}}),
        "/latest_producer_id_block": js(
            {"version": 1, "broker": ids[0], "block_start": "0", "block_end": "999"}
        ),
        "/kafka-acl/Topic/orders": js(
            {
                "version": 1,
                "acls": [
                    {
                        "principal": "User:app",
                        "permissionType": "Allow",
                        "operation": "Read",
                        "host": "*",
                    }
                ],
            }
        ),
    }
    for path in ("admin/delete_topics", "brokers/seqid", "consumers", "config/changes"):
        nodes[f"/{path}"] = None
    for kind in ("topics", "brokers", "users", "clients", "ips"):
        nodes[f"/config/{kind}"] = None
    for path in ("isr_change_notification", "log_dir_event_notification", "kafka-acl-changes"):
        nodes[f"/{path}"] = None
    names = listeners.split(",")
    for one in ids:
        nodes[f"/brokers/ids/{one}"] = js(
            {
                "version": 5,
                "host": None,
                "port": -1,
                "jmx_port": 9999,
                "rack": f"rack-{one}",
                "endpoints": [f"{name}://kafka-{one}:{9092 + at}" for at, name in enumerate(names)],
                "listener_security_protocol_map": dict.fromkeys(names, "PLAINTEXT"),
                "features": {},
                "timestamp": "1",
            }
        )
    for name, topic_id in TOPIC_IDS.items():
        nodes |= topic(name, topic_id, ids)
    found = with_parents({path: DumpedZnode(value) for path, value in nodes.items()})
    found["/brokers/topics"] = DumpedZnode(None, child_changes=2)
    return found


def topic(name: str, topic_id: str, ids: tuple[int, ...]) -> dict[str, bytes | None]:
    root = f"/brokers/topics/{name}"
    return {
        root: js(
            {
                "version": 3,
                "partitions": {"0": list(ids)},
                "topic_id": topic_id,
                "adding_replicas": {},
                "removing_replicas": {},
            }
        ),
        f"{root}/partitions": None,
        f"{root}/partitions/0": None,
        f"{root}/partitions/0/state": js(
            {
                "version": 1,
                "leader": ids[0],
                "leader_epoch": 1,
                "controller_epoch": 7,
                "isr": list(ids),
            }
        ),
        f"/config/topics/{name}": config({"retention.ms": "1", "cleanup.policy": "compact"}),
    }


def plain() -> Survey:
    present, targets = node_files(PLAIN, PLAIN_MAP)
    return Survey(tree(), present, targets, (folder(3000),))


def three_controllers_below_a_chroot() -> Survey:
    ids = (3000, 3001, 3002)
    present, targets = node_files(PLAIN, PLAIN_MAP, controllers=ids, chroot="/kafka/prod")
    folders = tuple(folder(one, election_epoch=2, voters=frozenset(ids)) for one in ids)
    return Survey(tree(), present, targets, folders, chroot="/kafka/prod")


def guide() -> Survey:
    """The sample files of the migration guide of Apache Kafka 3.9."""
    quorum = {"controller.quorum.bootstrap.servers": "localhost:9093"}
    present, targets = node_files(PLAIN, {}, quorum=quorum)
    return Survey(tree(), present, targets, (folder(3000, dynamic=True),))


def secured() -> Survey:
    """TLS and SCRAM, an authorizer, tokens, quotas, dynamic configs, two disks."""
    present, targets = node_files(SECURED, SECURED_MAP)
    nodes = tree(listeners="INTERNAL,EXTERNAL,AUTH")
    more: dict[str, bytes | None] = {
        "/config/users/alice": config({"SCRAM-SHA-512": long_scram(), "producer_byte_rate": "1"}),
        "/config/users/<default>": config({"consumer_byte_rate": "1048576"}),
        "/config/users/<default>/clients/<default>": config({"request_percentage": "50.5"}),
        "/config/users/CN%3Dapp%2CO%3DExample": config({}),
        "/config/clients/app": config({"producer_byte_rate": "1024"}),
        "/config/ips/10.0.0.1": config({"connection_creation_rate": "10"}),
        "/config/brokers/<default>": config({"log.cleaner.threads": "2"}),
        "/config/brokers/1": config({"leader.replication.throttled.rate": "10000000"}),
        "/config/changes/config_change_0000000004": js(
            {"version": 2, "entity_path": "users/alice"}
        ),
        "/kafka-acl-extended/prefixed/Group/app-": nodes["/kafka-acl/Topic/orders"].data,
        "/kafka-acl-extended-changes": None,
        "/kafka-acl/Cluster/kafka-cluster": js(
            {
                "version": 1,
                "acls": [
                    {
                        "principal": "User:broker",
                        "permissionType": "Allow",
                        "operation": "ClusterAction",
                        "host": "*",
                    }
                ],
            }
        ),
        "/delegation_token/token_changes": None,
        "/delegation_token/tokens/AbCdEf": js(
            {
                "version": 3,
                "owner": "User:alice",
                "tokenRequester": "User:alice",
                "renewers": [],
                "issueTimestamp": 1,
                "maxTimestamp": 9,
                "expiryTimestamp": 9,
                "tokenId": "AbCdEf",
            }
        ),
    }
    nodes |= {path: DumpedZnode(value) for path, value in more.items()}
    return Survey(with_parents(nodes), present, targets, (folder(3000),))


def long_scram() -> str:
    key = "A" * 86
    return f"salt=c2FsdA==,stored_key={key}==,server_key={key}==,iterations=8192"


def leftovers() -> Survey:
    """A cluster that began with 0.8 and was upgraded ever since; its brokers are untouched."""
    present, targets = node_files(PLAIN, PLAIN_MAP)
    gone = ("zookeeper.metadata.migration.enable", "controller.")
    present = [
        replace(one, values={k: v for k, v in one.values.items() if not k.startswith(gone)})
        if one.is_zookeeper_broker
        else one
        for one in present
    ]
    nodes = tree()
    del nodes["/feature"]
    nodes["/controller"] = DumpedZnode(js({"version": 1, "brokerid": 0, "timestamp": "1"}))
    more: dict[str, bytes | None] = {
        "/config/changes/config_change_0000000001": js(
            {"version": 1, "entity_type": "topics", "entity_name": "orders"}
        ),
        "/consumers/old/ids": None,
        "/consumers/old/owners/orders": None,
        "/isr_change_notification/isr_change_0000000003": js({"version": 1, "partitions": []}),
        "/kafka-acl-changes/acl_changes_0000000001": b"Topic:orders",
    }
    nodes |= {path: DumpedZnode(value) for path, value in more.items()}
    old = DumpedZnode(b"42", mtime_ms=NOW_MS - 2 * YEAR_MS)
    nodes["/consumers/old/offsets/orders/0"] = old
    return Survey(with_parents(nodes), present, targets, (folder(3000),), read_at_ms=NOW_MS)


def captured(name: str) -> Survey:
    """A real cluster before its migration, with files as it had them."""
    dump = json.loads(data.read(f"{name}/tree-0-before.json"))
    nodes = dump["nodes"]
    for path in [path for path in nodes if path.startswith("/brokers/topics/moving")]:
        if path == "/brokers/topics/moving":
            found = json.loads(nodes[path]["text"])
            found |= {"adding_replicas": {}, "removing_replicas": {}}
            nodes[path]["text"] = json.dumps(found)
    for path in [x for x in nodes if x.startswith("/config/brokers/")]:
        found = json.loads(nodes[path].get("text") or "{}")
        if "config" in found:  # of that reassignment
            kept = {k: v for k, v in found["config"].items() if ".throttled." not in k}
            nodes[path]["text"] = json.dumps(found | {"config": kept})
    with_three_replicas(nodes)
    release = name[:3]
    cluster = json.loads(nodes["/cluster/id"]["text"])["id"]
    broker = {
        "listeners": "INTERNAL://127.0.0.1:1909{id},CLIENT://127.0.0.1:1919{id},"
        "SASLP://127.0.0.1:1929{id}",
        "inter.broker.listener.name": "INTERNAL",
        "log.dirs": "./b{id}",
    }
    shared = {
        "listener.security.protocol.map": (
            "INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT,SASLP:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "delegation.token.secret.key": "x",
    }
    shared |= {"authorizer.class.name": ACL, "super.users": "User:ANONYMOUS;User:admin"}
    present, targets = node_files(broker, shared, ibp=release)
    mine = {"cluster.id": cluster}
    present = [replace(one, meta={**one.meta, **mine}) for one in present]
    targets = [replace(one, meta={**one.meta, **mine}) for one in targets]
    level = {"3.7": 19, "3.9": 21}[release]
    made = folder(3000, level)
    survey = of_dump(dump, present)
    return replace(survey, targets=targets, folders=(replace(made, meta={**made.meta, **mine}),))


def with_three_replicas(nodes: dict[str, Any]) -> None:
    """No roll of a cluster is clean while a topic has one replica."""
    for path in [x for x in nodes if x.startswith("/brokers/topics/") and x.count("/") == 3]:
        found = json.loads(nodes[path]["text"])
        for index, replicas in found["partitions"].items():
            if len(replicas) == 1:
                found["partitions"][index] = replicas + [x for x in (0, 1, 2) if x != replicas[0]]
            state = f"{path}/partitions/{index}/state"
            told = json.loads(nodes[state]["text"]) | {"isr": found["partitions"][index]}
            nodes[state]["text"] = json.dumps(told)
        nodes[path]["text"] = json.dumps(found)


def operated() -> Survey:
    """As an operator of Kubernetes writes it: TLS between all, a control plane listener."""
    ids = (0, 1, 2)
    names = ("REPLICATION-9091", "PLAIN-9092", "TLS-9093")
    listeners = ",".join(f"{name}://0.0.0.0:{name[-4:]}" for name in names)
    inside = "my-cluster-kafka-brokers.ns.svc"
    broker = {
        "listeners": listeners,
        "advertised.listeners": ",".join(
            f"{name}://my-cluster-kafka-{{id}}.{inside}:{name[-4:]}" for name in names
        ),
        "inter.broker.listener.name": names[0],
        "log.dirs": "/var/lib/kafka/data-0/kafka-log{id}",
    }
    shared = {
        "listener.security.protocol.map": (
            "CONTROLPLANE-9090:SSL,REPLICATION-9091:SSL,PLAIN-9092:PLAINTEXT,TLS-9093:SSL,"
            "CONTROLLER:SSL"
        ),
        "authorizer.class.name": ACL,
        "super.users": "User:CN=my-cluster-kafka,O=io.strimzi;User:CN=operator,O=io.strimzi",
    }
    present, targets = node_files(broker, shared, controllers=(3, 4, 5))
    plane = {
        "listeners": f"CONTROLPLANE-9090://0.0.0.0:9090,{listeners}",
        "control.plane.listener.name": "CONTROLPLANE-9090",
    }
    present = [
        replace(one, values={**one.values, **plane, **_plane_of(one)})
        if one.is_zookeeper_broker
        else one
        for one in present
    ]
    nodes = tree(ids, ",".join(names))
    return Survey(nodes, present, targets, tuple(folder(one) for one in (3, 4, 5)))


def _plane_of(one: Properties) -> dict[str, str]:
    told = one.get("advertised.listeners")
    host = told.partition("://")[2].partition(":")[0]
    return {"advertised.listeners": f"CONTROLPLANE-9090://{host}:9090,{told}"}


CLEAN: Mapping[str, Callable[[], Survey]] = {
    "plain": plain,
    "three controllers below a chroot": three_controllers_below_a_chroot,
    "guide": guide,
    "secured": secured,
    "leftovers": leftovers,
    "operated": operated,
    "3.7.2": functools.partial(captured, "3.7.2-short"),
    "3.9.2": functools.partial(captured, "3.9.2-full"),
    "3.9.2 again": functools.partial(captured, "3.9.2-rollback-and-stale-migration-znode"),
}


@functools.cache
def clean(name: str) -> Survey:
    """A cluster by name, with measured round trips."""
    return replace(CLEAN[name](), round_trips=RoundTrips(1.0, 2.0))
