"""Changes that spoil a clean cluster, each with the rule that must report it.

They apply to any cluster of ``clean.py``: they look for a broker, a topic or a file in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from emulator.metadata.migration_state import MigrationState
from emulator.operations.preflight.engine import Severity
from emulator.operations.preflight.node_file import FolderContents, Properties
from emulator.operations.preflight.survey import (
    Address,
    DumpedZnode,
    ListenerTrouble,
    Probe,
    Probes,
    Survey,
)
from emulator.znodes import own
from tests.unit.operations.preflight.clean import OLD_ACL, config, js, with_parents

Apply: TypeAlias = Callable[[Survey], Survey]


@dataclass(frozen=True, slots=True)
class Change:
    """One bad change. ``severity``: the least that the finding must have."""

    code: str
    name: str
    apply: Apply
    severity: Severity = Severity.BLOCKER


def put(path: str, data: bytes | None, **more: Any) -> Apply:
    def apply(one: Survey) -> Survey:
        nodes = with_parents({**one.nodes, path: DumpedZnode(data, **more)})
        return replace(one, nodes=nodes)

    return apply


def drop(*paths: str) -> Apply:
    def apply(one: Survey) -> Survey:
        kept = {k: v for k, v in one.nodes.items() if not k.startswith(paths)}
        return replace(one, nodes=kept)

    return apply


def then(*some: Apply) -> Apply:
    def apply(one: Survey) -> Survey:
        for each in some:
            one = each(one)
        return one

    return apply


def merge(path: Callable[[Survey], str], **values: Any) -> Apply:
    """Change keys of a znode's JSON."""

    def apply(one: Survey) -> Survey:
        where = path(one)
        return put(where, js({**one.json(where), **values}))(one)

    return apply


def a_topic(one: Survey) -> str:
    found = (name for name in one.children("/brokers/topics") if not name.startswith("__"))
    return f"/brokers/topics/{next(found)}"


def a_state(one: Survey) -> str:
    return f"{a_topic(one)}/partitions/0/state"


def leader_of(one: Survey) -> int:
    return int(one.json(a_state(one))["leader"])


def with_one_replica(one: Survey) -> Survey:
    leader = leader_of(one)
    listed = merge(a_topic, partitions={"0": [leader]})(one)
    return merge(a_state, isr=[leader])(listed)


def needing_all_replicas(one: Survey) -> Survey:
    count = len(one.json(a_state(one))["isr"])
    return at_config(config({"min.insync.replicas": str(count)}))(one)


def holding(topic_id: str | None, name: str = "", **more: Any) -> Apply:
    """A partition's folder of the first broker; of the first topic unless ``name`` says another."""

    def apply(one: Survey) -> Survey:
        topic, some = a_topic(one).rpartition("/")[2], list(one.properties)
        index = next(i for i, x in enumerate(some) if x.node_id == leader_of(one))
        held = FolderContents({} if topic_id is None else {name or f"{topic}-0": topic_id}, **more)
        metas = {"/held": dict(some[index].meta)}
        some[index] = replace(some[index], held={"/held": held}, metas=metas)
        return replace(one, properties=some)

    return apply


def probed(trouble: ListenerTrouble | None) -> Apply:
    """A connection to a broker's listener; without trouble its certificate ends in a week."""

    def apply(one: Survey) -> Survey:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        at = Address("broker 1", "INTERNAL", "b1", 9092, "SSL", one.properties[0])
        probe = Probe(at, trouble, ends=now + timedelta(days=7))
        return replace(one, probes=Probes((probe,), now))

    return apply


def but_the_first(one: Survey) -> Survey:
    """A key in the files of all brokers but one."""
    brokers = [x for x in one.properties if x.is_zookeeper_broker]
    more = {"min.insync.replicas": "1"}
    some = [
        replace(x, values={**x.values, **more}) if x in brokers[1:] else x for x in one.properties
    ]
    return replace(one, properties=some)


def twice_on_its_leader(one: Survey) -> Survey:
    """The leader of a partition is both of its replicas, and the ISR."""
    leader = one.json(a_state(one))["leader"]
    listed = merge(a_topic, partitions={"0": [leader, leader]})(one)
    return merge(a_state, isr=[leader])(listed)


def at_topic(below: str, data: bytes | None) -> Apply:
    return lambda one: put(f"{a_topic(one)}{below}", data)(one)


def at_config(data: bytes) -> Apply:
    return lambda one: put(a_topic(one).replace("/brokers/", "/config/"), data)(one)


def edited(
    files: str, chosen: Callable[[Properties], bool], changes: Mapping[str, str | None]
) -> Apply:
    """Change keys in the first file for which ``chosen`` holds."""

    def apply(one: Survey) -> Survey:
        some = list(getattr(one, files))
        index = next(i for i, file in enumerate(some) if chosen(file))
        values = {**some[index].values, **changes}
        kept = {key: value for key, value in values.items() if value is not None}
        some[index] = replace(some[index], values=kept)
        return replace(one, **{files: some})

    return apply


def broker(changes: Mapping[str, str | None]) -> Apply:
    return edited("properties", lambda one: one.is_zookeeper_broker, changes)


def controller(changes: Mapping[str, str | None]) -> Apply:
    return edited("properties", lambda one: one.is_controller, changes)


def target(changes: Mapping[str, str | None]) -> Apply:
    return edited("targets", lambda one: True, changes)


def meta_of(chosen: Callable[[Properties], bool], **changes: str) -> Apply:
    def apply(one: Survey) -> Survey:
        some = list(one.properties)
        index = next(i for i, file in enumerate(some) if chosen(file))
        found = {**some[index].meta, **{k.replace("_", "."): v for k, v in changes.items()}}
        some[index] = replace(some[index], meta=found)
        return replace(one, properties=some)

    return apply


def folder(**changes: Any) -> Apply:
    def apply(one: Survey) -> Survey:
        meta = {**one.folders[0].meta, **changes.get("meta", {})}
        first = replace(one.folders[0], **{**changes, "meta": meta})
        return replace(one, folders=(first, *one.folders[1:]))

    return apply


def marked(offset: int, epoch: int = 1) -> Apply:
    """A ``/migration`` that controller 3000 wrote."""
    values = {
        "version": 0,
        "kraft_controller_id": 3000,
        "kraft_controller_epoch": epoch,
        "kraft_metadata_offset": offset,
        "kraft_metadata_epoch": epoch,
    }
    return put("/migration", js(values))


def claimed(node_id: int | None = None) -> Apply:
    """A KRaft controller holds ``/controller``: one of the cluster's own if none is named."""

    def apply(one: Survey) -> Survey:
        who = min(one.controller_ids) if node_id is None else node_id
        holder = {"version": 2, "brokerid": who, "timestamp": "1", "kraftControllerEpoch": 1}
        return then(put("/controller", js(holder)), put("/controller_epoch", b"8"))(one)

    return apply


def a_controllers_id(one: Survey) -> Survey:
    return broker({"broker.id": str(min(one.controller_ids))})(one)


def shared_topic_id(one: Survey) -> Survey:
    found = one.json(a_topic(one))
    return put("/brokers/topics/twin", js({**found, "partitions": {"0": [0]}}))(one)


def wiped(one: Survey) -> Survey:
    bare = drop("/brokers/topics", "/config/topics")(then(claimed(), marked(294, 2))(one))
    nodes = with_parents({**bare.nodes, "/brokers/topics": DumpedZnode(None, child_changes=14)})
    return replace(bare, nodes=nodes)


def fewer_targets(one: Survey) -> Survey:
    doubled = replace(one.targets[0], name="copy")
    return replace(one, targets=(*one.targets, doubled))


def no_authorizer(one: Survey) -> Survey:
    """No controller has one."""
    files = [
        replace(x, values={k: v for k, v in x.values.items() if k != "authorizer.class.name"})
        if x.is_controller
        else x
        for x in one.properties
    ]
    return replace(one, properties=files)


def broker_alone(changes: Mapping[str, str | None]) -> Apply:
    """A broker without a target file has the keys."""

    def apply(one: Survey) -> Survey:
        changed = broker(changes)(one)
        (mine,) = (x for x, was in zip(changed.properties, one.properties, strict=True) if x != was)
        targets = [x for x in one.targets if x.node_id != mine.node_id]
        return replace(changed, targets=targets)

    return apply


def with_protocols(file: Properties, changed: Mapping[str, str]) -> dict[str, str]:
    """A map of all protocols that the file has, with some changed."""
    names = {**file.protocols, **changed}
    return {"listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in names.items())}


def mapped(name: str, changes: Mapping[str, str]) -> Apply:
    """A controller's file knows a listener of that name, and has the keys."""

    def apply(one: Survey) -> Survey:
        (first, *_) = (x for x in one.properties if x.is_controller)
        return controller({**with_protocols(first, {name: "PLAINTEXT"}), **changes})(one)

    return apply


def other_protocol(one: Survey) -> Survey:
    """A controller's file has another protocol for the listener between brokers."""
    (first, *_) = (x for x in one.properties if x.is_controller)
    name = first.inter_broker_listener
    other = "SSL" if first.protocols[name] == "PLAINTEXT" else "PLAINTEXT"
    named = {"inter.broker.listener.name": name, "security.inter.broker.protocol": None}
    return controller({**with_protocols(first, {name: other}), **named})(one)


def other_protocol_of_controllers(one: Survey) -> Survey:
    (first, *_) = one.targets
    name = first.names("controller.listener.names")[0]
    other = "SSL" if first.protocols.get(name) == "PLAINTEXT" else "PLAINTEXT"
    return target(with_protocols(first, {name: other}))(one)


def by_sasl(changes: Mapping[str, str]) -> Apply:
    """The controllers' listener accepts PLAIN; only the last of the nodes has the changes alone."""

    def apply(one: Survey) -> Survey:
        def moved(file: Properties, mechanism: Mapping[str, str]) -> Properties:
            names = dict.fromkeys(file.names("controller.listener.names"), "SASL_PLAINTEXT")
            own = {**file.values, "sasl.enabled.mechanisms": "PLAIN"}
            own.pop("sasl.mechanism.controller.protocol", None)
            return replace(file, values={**own, **with_protocols(file, names), **mechanism})

        plain = {"sasl.mechanism.controller.protocol": "PLAIN"}
        *most, last = one.targets
        targets = [*(moved(x, plain) for x in most), moved(last, changes)]
        return replace(one, properties=[moved(x, plain) for x in one.properties], targets=targets)

    return apply


def voters_by_scram(one: Survey) -> Survey:
    """Several voters, which log in to each other by SCRAM; nobody else does."""
    told = by_scram(one)
    (mine, *_) = [x for x in told.properties if x.is_controller]
    more = {"controller.quorum.voters": "3000@c0:9093,3001@c1:9093,3002@c2:9093"}
    changed = replace(mine, values={**mine.values, **more})
    files = [
        changed if x is mine else y for x, y in zip(told.properties, one.properties, strict=True)
    ]
    return replace(one, properties=files)


def by_scram(one: Survey) -> Survey:
    """All log in to the controllers by SCRAM, and no log has a user."""

    def moved(file: Properties) -> Properties:
        names = dict.fromkeys(file.names("controller.listener.names"), "SASL_PLAINTEXT")
        listeners = [f"listener.name.{name.lower()}.sasl.enabled.mechanisms" for name in names]
        own = dict.fromkeys(listeners, "SCRAM-SHA-512")
        own["sasl.mechanism.controller.protocol"] = "SCRAM-SHA-512"
        return replace(file, values={**file.values, **with_protocols(file, names), **own})

    return replace(
        one,
        properties=[x if x.is_untouched else moved(x) for x in one.properties],
        targets=[moved(x) for x in one.targets],
    )


W = Severity.WARNING
VOTERS, SERVERS = "controller.quorum.voters", "controller.quorum.bootstrap.servers"
ADDRESS = "3000@10.9.9.9:9093"
CONNECT, BETWEEN = "zookeeper.connect", "inter.broker.listener.name"
AUTHORIZER, MAP = "authorizer.class.name", "listener.security.protocol.map"
ENCODER = "password.encoder.secret"
NAMES = "controller.listener.names"
MIGRATE = "zookeeper.metadata.migration.enable"
VOTER = "3000@c3000.example.com:9093"
ELSEWHERE = "3000@c3000.example.com:19093"


def rolled_back() -> bytes:
    return own.encode(own.OwnZnode(3000, 2, 9, 0, -1, -1, writer=own.ROLLED_BACK))


CHANGES: tuple[Change, ...] = (
    Change("B01", "null /migration", put("/migration", None)),
    Change("B01", "malformed /migration", put("/migration", b"{")),
    Change("B02", "stale /migration", marked(247)),
    Change("B02", "stale /migration, claimed again", then(claimed(), marked(247))),
    Change("B02", "marked by a rollback", put(own.PATH, rolled_back())),
    Change("B03", "foreign quorum", then(claimed(4000), marked(247))),
    Change("B04", "no cluster id", drop("/cluster")),
    Change("B04", "folder of another cluster", folder(meta={"cluster.id": "A" * 22})),
    Change("B04", "another cluster's broker", meta_of(lambda x: True, cluster_id="A" * 22)),
    Change("B05", "broker with a controller's id", a_controllers_id),
    Change("B05", "two brokers with one id", broker({"broker.id": "1"})),
    Change("B06", "no topic_id", merge(a_topic, topic_id=None)),
    Change("B06", "one topic_id twice", shared_topic_id),
    Change("B07", "malformed state", at_topic("/partitions/0/state", b"{")),
    Change("B07", "malformed config", at_config(b"oops")),
    Change("B07", "nested too deeply", at_config(b'{"config":{},"x":' + b"[" * 100_000)),
    Change("B07", "a registration without data", put("/brokers/ids/1", None)),
    Change("B07", "a registration that is no object", put("/brokers/ids/1", b"[]")),
    Change("B07", "a malformed feature", put("/feature", b"{")),
    Change(
        "B08",
        "encoded password",
        put(
            "/config/brokers/1",
            config({"ssl.key.password": "passwordLength:3,encryptedPassword:x"}),
        ),
    ),
    Change("B10", "old registration", merge(lambda _: "/brokers/ids/1", version=4)),
    Change("B10", "replica on a lost broker", merge(a_topic, partitions={"0": [0, 77]})),
    Change("B10", "configs of a lost broker", put("/config/brokers/77", config({}))),
    Change(
        "B10",
        "a registration left by hand",
        lambda one: put("/brokers/ids/1", one.data("/brokers/ids/1"), ephemeral=False)(one),
        Severity.INFO,
    ),
    Change("B10", "a registration of nobody", put("/brokers/ids/one", b"{}")),
    Change("B11", "old protocol", broker({"inter.broker.protocol.version": "2.8"})),
    Change(
        "B11",
        "two folders by the older name",
        broker({"inter.broker.protocol.version": "3.6", "log.dirs": None, "log.dir": "/a,/b"}),
    ),
    Change(
        "B11",
        "a controllers' listener advertised",
        broker(
            {
                "inter.broker.protocol.version": "3.8",
                NAMES: "CONTROLLER",
                "advertised.listeners": "CONTROLLER://b:9093",
            }
        ),
        W,
    ),
    Change("B11", "flag without voters", broker({MIGRATE: "true", VOTERS: None, SERVERS: None})),
    Change("B11", "voters without flag", broker({MIGRATE: None, VOTERS: ELSEWHERE})),
    Change("B12", "no flag", controller({MIGRATE: None})),
    Change("B12", "combined", controller({"process.roles": "broker,controller"})),
    Change("B12", "no ZooKeeper", controller({"zookeeper.connect": None})),
    Change("B13", "claimed, nothing copied", then(claimed(), marked(-1))),
    Change(
        "B13",
        "finalised",
        then(
            claimed(),
            marked(758),
            drop("/brokers/ids/"),
            folder(state=MigrationState.POST_MIGRATION),
        ),
    ),
    Change("B14", "emptied", wiped),
    Change("B15", "another level", folder(bootstrap_level=16)),
    Change("B15", "too low a level", folder(bootstrap_level=7)),
    Change("B15", "log of before a rollback", folder(level=21, end_offset=99, state=1)),
    Change("B15", "started as pure KRaft", folder(level=21, end_offset=99)),
    Change(
        "B15",
        "never formatted",
        lambda one: replace(one, folders=(replace(one.folders[0], meta={}), *one.folders[1:])),
    ),
    Change(
        "B15",
        "other voters",
        then(controller({VOTERS: VOTER}), folder(voters=frozenset({3000, 9}))),
    ),
    Change("B15", "folder of nobody", folder(meta={"node.id": "77"})),
    Change("B16", "another port", broker({VOTERS: ELSEWHERE, SERVERS: None})),
    Change(
        "B16", "an address for a name", target({VOTERS: "3000@10.9.9.9:9093", SERVERS: None}), W
    ),
    Change("B16", "another host", target({VOTERS: "3000@elsewhere:9093", SERVERS: None})),
    Change("B16", "servers elsewhere", target({SERVERS: "elsewhere:9093"})),
    Change("B16", "malformed voters", controller({VOTERS: "c3000:9093"})),
    Change("B17", "AclAuthorizer", target({"authorizer.class.name": OLD_ACL})),
    Change("B17", "one id twice", fewer_targets),
    Change("B17", "id of no broker", target({"node.id": "42"})),
    Change("B17", "two ids", target({"broker.id": "42"})),
    Change("B17", "one port twice", target({"listeners": "A://:1,B://:1"})),
    Change(
        "B17",
        "both names between brokers",
        target(
            {
                "inter.broker.listener.name": "INTERNAL",
                "security.inter.broker.protocol": "PLAINTEXT",
            }
        ),
    ),
    Change("B17", "no roles", target({"process.roles": None})),
    Change("B17", "no controllers", target({VOTERS: None, SERVERS: None})),
    Change("B17", "no listener names", target({"controller.listener.names": None})),
    Change("B17", "controller's listener", target({"listeners": "CONTROLLER://:9093"})),
    Change("B17", "unmapped listener", target({"controller.listener.names": "QUORUM"})),
    Change("B17", "inter broker listener", target({"inter.broker.listener.name": "NONE"})),
    Change("B17", "control plane", target({"control.plane.listener.name": "CONTROLLER"})),
    Change(
        "B18", "folder of another broker", meta_of(lambda x: x.is_zookeeper_broker, broker_id="9")
    ),
    Change(
        "B18",
        "replaced node",
        meta_of(lambda x: x.is_zookeeper_broker, version="1", node_id="0"),
        W,
    ),
    Change(
        "B18",
        "controller's folder of ZooKeeper mode",
        meta_of(lambda x: x.is_controller, version="0"),
    ),
    Change("B18", "directory id", meta_of(lambda x: True, directory_id="none")),
    Change("B18", "cluster id in words", put("/cluster/id", js({"version": "1", "id": "mine"}))),
    Change(
        "B19",
        "not a super user",
        controller(
            {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:nobody",
                "allow.everyone.if.no.acl.found": None,
            }
        ),
    ),
    Change(
        "W01",
        "pending deletion",
        lambda one: put(a_topic(one).replace("/brokers/topics", "/admin/delete_topics"), None)(one),
        W,
    ),
    Change("W01", "pending reassignment", put("/admin/reassign_partitions", b"{}"), W),
    Change("W02", "no leader", merge(a_state, leader=-1), W),
    Change("W02", "a replica twice", twice_on_its_leader, W),
    Change("W02", "a member of the ISR twice", merge(a_state, isr=[1, 1]), W),
    Change("W03", "reassignment", merge(a_topic, adding_replicas={"0": [1]}), W),
    Change(
        "W03",
        "throttles that nobody needs",
        then(
            put("/config/brokers/1", config({"leader.replication.throttled.rate": "1"})),
            at_config(config({"leader.replication.throttled.replicas": "*"})),
        ),
        W,
    ),
    Change("B26", "a certificate with another name", probed(ListenerTrouble.CERTIFICATE)),
    Change("B26", "nothing listens at a broker's listener", probed(ListenerTrouble.REFUSED), W),
    Change("B26", "a certificate that ends soon", probed(None), W),
    Change("W24", "a shrunk ISR", lambda one: merge(a_state, isr=[leader_of(one)])(one), W),
    Change("W24", "one replica", with_one_replica, W),
    Change("W24", "no broker to spare", needing_all_replicas, W),
    Change("W26", "a key that one file lacks", but_the_first, W),
    Change("W24", "no controlled shutdown", broker({"controlled.shutdown.enable": "false"}), W),
    Change("W25", "no partition.metadata", holding(""), W),
    Change("W25", "a partition.metadata that was cut", holding(None, malformed=("orders-0",))),
    Change("W25", "the id of another topic", holding("XlPz6HQHU9GfpmrI4Ebriw")),
    Change("W25", "a folder of no topic", holding("", "ancient-0"), W),
    Change("W25", "put aside", holding(None, others=("orders-0.12ab-stray",)), W),
    Change("W25", "a metadata log of before", holding(None, quorum_state=b'{"leaderEpoch": 5}'), W),
    Change("W04", "no /controller_epoch", put("/controller_epoch", b""), W),
    Change("W04", "state ahead", merge(a_state, controller_epoch=99), W),
    Change("W04", "quorum ahead", folder(election_epoch=99), W),
    Change(
        "W06",
        "SCRAM of the default",
        put("/config/users/<default>", config({"SCRAM-SHA-256": "x"})),
        W,
    ),
    Change("W07", "unknown config", at_config(config({"no.such": "1"})), W),
    Change("W07", "removed config", at_config(config({"message.format.version": "2.8"})), W),
    Change(
        "W07",
        "advertised dynamically",
        put("/config/brokers/1", config({"advertised.listeners": "PLAINTEXT://x:9092"})),
        W,
    ),
    Change("W08", "config of no topic", put("/config/topics/gone", config({})), W),
    Change(
        "W09",
        "colliding names",
        lambda one: then(
            put("/brokers/topics/a.b", js({**one.json(a_topic(one)), "topic_id": "B" * 21 + "Q"})),
            put("/brokers/topics/a_b", js({**one.json(a_topic(one)), "topic_id": "C" * 21 + "Q"})),
        )(one),
        W,
    ),
    Change("W10", "another ensemble", broker({"zookeeper.connect": "other:2181"}), W),
    Change("B20", "another chroot", broker({"zookeeper.connect": "zk1:2181/other"})),
    Change("B20", "controllers with another chroot", controller({CONNECT: "zk1:2181/other"})),
    Change("W11", "custom authorizer", target({"authorizer.class.name": "com.me.Mine"}), W),
    Change("W11", "policy", controller({"create.topic.policy.class.name": "com.me.Policy"}), W),
    Change("W12", "large znode", at_config(config({"retention.ms": "1" * 600_000})), W),
    Change("W13", "low protocol", broker({"inter.broker.protocol.version": "3.5"}), W),
    Change(
        "W14",
        "no authorizer on a controller",
        then(broker({AUTHORIZER: OLD_ACL}), no_authorizer),
        W,
    ),
    Change(
        "W14",
        "a control plane listener",
        broker_alone({"control.plane.listener.name": "CONTROLLER"}),
        W,
    ),
    Change("B12", "AclAuthorizer on a controller", controller({AUTHORIZER: OLD_ACL})),
    Change("B21", "between brokers", controller({BETWEEN: "NONE"})),
    Change("B21", "a listener that no broker has", mapped("OTHER", {BETWEEN: "OTHER"})),
    Change("B21", "another protocol between brokers", other_protocol),
    Change("B21", "a broker's listener without protocol", broker({BETWEEN: "NONE"})),
    Change(
        "B21",
        "both names between brokers",
        broker({BETWEEN: "A", "security.inter.broker.protocol": "SSL"}),
    ),
    Change("B07", "a feature of a later version", put("/feature", js({"version": 3, "status": 1}))),
    Change("B07", "a feature of no status", put("/feature", js({"version": 2, "features": {}}))),
    Change("B22", "another protocol of the controllers", other_protocol_of_controllers),
    Change("B22", "no mechanism", by_sasl({})),
    Change("B22", "users of SCRAM before the copy", by_scram),
    Change("B22", "voters that log in to each other by SCRAM", voters_by_scram),
    Change("W23", "sessions without an end", by_scram, Severity.INFO),
    Change(
        "B22", "another mechanism", by_sasl({"sasl.mechanism.controller.protocol": "SCRAM-SHA-256"})
    ),
    Change(
        "W15",
        "another address",
        target(
            {
                "listeners": "INTERNAL://:1,PLAINTEXT://:2",
                "advertised.listeners": "INTERNAL://elsewhere:1,PLAINTEXT://elsewhere:2",
            }
        ),
        W,
    ),
    Change("W15", "another rack", target({"broker.rack": "moved"}), W),
    Change("W15", "other principals", target({"principal.builder.class": "a.B"}), W),
    Change("W16", "Burrow", put("/burrow/notifier", b""), W),
    Change("W16", "CMAK", put("/kafka-manager/configs/one", b"{}"), W),
    Change("W16", "a tool nobody knows", put("/our-tool", b"x"), W),
    Change("W17", "old consumer", put("/consumers/g/offsets/t/0", b"17"), W),
    Change("W17", "connected old consumer", put("/consumers/g/ids/c1", b"{}", ephemeral=True), W),
    Change(
        "W18",
        "small segments",
        then(
            at_config(config({"segment.bytes": "16384"})),
            lambda one: replace(one, target_release="4.1"),
        ),
        W,
    ),
    Change(
        "W18",
        "upgraded before finalising",
        then(claimed(), marked(9), lambda one: replace(one, target_release="4.0")),
    ),
    Change(
        "W18",
        "a default of 3.9 written out",
        then(
            target({"remote.log.manager.copier.thread.pool.size": "-1"}),
            lambda one: replace(one, target_release="4.0"),
        ),
        W,
    ),
    Change(
        "W18",
        "removed property",
        then(
            target({"log.message.format.version": "2.8"}),
            lambda one: replace(one, target_release="4.x"),
        ),
        W,
    ),
    Change(
        "B13",
        "finalised with brokers left behind",
        then(claimed(), marked(758), folder(state=MigrationState.POST_MIGRATION)),
    ),
)
