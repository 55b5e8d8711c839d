"""Changes of properties files with which Kafka does not start, or which two nodes cannot share.

``tests/conformance/test_files_that_kafka_refuses.py`` asks Kafka whether each of B23 is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from emulator.operations.preflight.endpoints import advertised, listening
from emulator.operations.preflight.engine import Severity
from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.survey import Survey
from tests.unit.operations.preflight.changes import (
    AUTHORIZER,
    BETWEEN,
    CONNECT,
    MAP,
    MIGRATE,
    SERVERS,
    VOTERS,
    Apply,
    Change,
    W,
    a_topic,
    at_config,
    broker,
    controller,
    drop,
    edited,
    put,
    target,
    then,
)
from tests.unit.operations.preflight.clean import ACL, OLD_ACL, config, js

ROLES, LISTENERS, ADVERTISED = "process.roles", "listeners", "advertised.listeners"
NAMES, EARLY = "controller.listener.names", "early.start.listeners"
PLANE = "control.plane.listener.name"
Edit = Callable[[Properties], Mapping[str, str | None]]


def rewritten(files: str, chosen: Callable[[Properties], bool], edit: Edit) -> Apply:
    """Changes of the first file for which ``chosen`` holds, made from what it has."""

    def apply(one: Survey) -> Survey:
        file = next(file for file in getattr(one, files) if chosen(file))
        return edited(files, lambda other: other is file, edit(file))(one)

    return apply


def of_broker(edit: Edit) -> Apply:
    return rewritten("properties", lambda one: one.is_zookeeper_broker, edit)


def of_controller(edit: Edit) -> Apply:
    return rewritten("properties", lambda one: one.is_controller, edit)


def of_target(edit: Edit) -> Apply:
    return rewritten("targets", lambda one: one.is_kraft_broker, edit)


def entries(one: Properties, key: str = LISTENERS) -> list[str]:
    return one.get(key).split(",")


def told(one: Properties) -> str:
    """What it advertises, written out."""
    return ",".join(f"{end.name}://{end.host or 'kafka'}:{end.port}" for end in advertised(one))


def listener_twice(one: Properties) -> Mapping[str, str]:
    return {LISTENERS: f"{one.get(LISTENERS)},{listening(one)[-1].name}://:7"}


def advertised_twice(one: Properties) -> Mapping[str, str]:
    return {ADVERTISED: f"{told(one)},{advertised(one)[-1].name}://elsewhere:7"}


def same_port(one: Properties) -> Mapping[str, str]:
    port = listening(one)[0].port
    return {LISTENERS: f"{one.get(LISTENERS)},SECOND://:{port}", **mapped(one, "SECOND")}


def mapped(one: Properties, *names: str) -> dict[str, str]:
    """The map of protocols, with more names."""
    told = {**one.protocols, **dict.fromkeys(names, "PLAINTEXT")}
    return {MAP: ",".join(f"{name}:{protocol}" for name, protocol in told.items())}


def at_zeros(one: Properties) -> Mapping[str, str]:
    """Every listener is advertised at 0.0.0.0."""
    ends = advertised(one)
    return {ADVERTISED: ",".join(f"{end.name}://0.0.0.0:{end.port}" for end in ends)}


def listens_at_zeros(one: Properties) -> Mapping[str, str | None]:
    """It listens on 0.0.0.0 and advertises nothing else."""
    ends = advertised(one)
    listeners = ",".join(f"{end.name}://0.0.0.0:{end.port}" for end in ends)
    return {LISTENERS: listeners, ADVERTISED: None, PLANE: None}


def another_listener(one: Properties) -> Mapping[str, str]:
    return {LISTENERS: f"{one.get(LISTENERS)},PLAINTEXT://:19092", **mapped(one, "PLAINTEXT")}


def lower(key: str) -> Edit:
    return lambda one: {key: one.get(key).lower()}


def as_another(one: Survey) -> Survey:
    """The second broker advertises what the first does."""
    first, second, *_ = (x for x in one.properties if x.is_zookeeper_broker)
    return edited("properties", lambda x: x is second, {ADVERTISED: told(first)})(one)


def on_one_machine(key: str, value: str) -> Apply:
    """Two brokers listen on loopback addresses, and both have the value."""

    def apply(one: Survey) -> Survey:
        first, second, *_ = (x for x in one.properties if x.is_zookeeper_broker)
        for file, port in ((first, 17_001), (second, 17_002)):
            local = {
                LISTENERS: f"{file.inter_broker_listener}://127.0.0.1:{port}",
                ADVERTISED: None,
                PLANE: None,
                key: value.replace("{inter}", file.inter_broker_listener),
            }
            name = file.name
            one = edited("properties", lambda x, name=name: x.name == name, local)(one)
        return one

    return apply


def all_brokers(changes: Mapping[str, str | None]) -> Apply:
    def apply(one: Survey) -> Survey:
        def changed(x: Properties) -> Properties:
            values = {k: v for k, v in {**x.values, **changes}.items() if v is not None}
            return replace(x, values=values) if x.is_zookeeper_broker else x

        return replace(one, properties=[changed(x) for x in one.properties])

    return apply


def guarded(of_brokers: Mapping[str, str], of_controllers: Mapping[str, str]) -> Apply:
    """Brokers and controllers have an authorizer, and the keys."""

    def apply(one: Survey) -> Survey:
        def changed(x: Properties) -> Properties:
            keys = {AUTHORIZER: ACL, **of_controllers} if x.is_controller else {}
            if x.is_zookeeper_broker:
                keys = {AUTHORIZER: OLD_ACL, **of_brokers}
            gone = ("super.users", "allow.everyone") if keys else ()
            kept = (
                {k: v for k, v in x.values.items() if not k.startswith(gone)} if gone else x.values
            )
            return replace(x, values={**kept, **keys})

        return replace(one, properties=[changed(x) for x in one.properties])

    return apply


def untouched(one: Survey) -> Survey:
    """The first broker is as it was before the migration, and the others are not."""
    others = all_brokers({MIGRATE: "true", NAMES: "CONTROLLER", VOTERS: voters(one)})(one)
    return broker({MIGRATE: None, NAMES: None, VOTERS: None, SERVERS: None})(others)


def voters(one: Survey) -> str:
    return ",".join(f"{x}@c{x}.example.com:9093" for x in sorted(one.controller_ids))


def guarded_controllers(one: Survey) -> Survey:
    """The controllers' listener has a login of its own, which no authorizer lets in."""

    def changed(x: Properties) -> Properties:
        login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}";'
        name = x.names(NAMES)[0]
        user = "quorum" if x.is_controller else "node"
        names = {**x.protocols, name: "SASL_PLAINTEXT"}
        own = {
            MAP: ",".join(f"{k}:{v}" for k, v in names.items()),
            "sasl.mechanism.controller.protocol": "PLAIN",
            f"listener.name.{name.lower()}.sasl.enabled.mechanisms": "PLAIN",
            f"listener.name.{name.lower()}.plain.sasl.jaas.config": login.format(user),
        }
        own |= {AUTHORIZER: ACL, "super.users": "User:node"} if x.is_controller else {}
        return replace(x, values={**x.values, **own})

    touched = [x if x.is_untouched else changed(x) for x in one.properties]
    return replace(one, properties=touched, targets=[changed(x) for x in one.targets])


def moved_metadata(one: Survey) -> Survey:
    """The target's first folder is the second of the broker's, so its metadata log is elsewhere."""
    before = broker({"log.dirs": "/one,/two"})(one)
    (mine, *_) = (x for x in before.properties if x.is_zookeeper_broker)
    files = [
        replace(x, values={**x.values, "log.dirs": "/two,/one"}) if x.node_id == mine.node_id else x
        for x in before.targets
    ]
    return replace(before, targets=files)


def exchanged(one: Survey) -> Survey:
    """A second controller listens where the voters say that the first is."""
    first = next(x for x in one.properties if x.is_controller)
    second = replace(first, name="second", values={**first.values, "node.id": "9999"})
    names = first.names(NAMES)[0]
    told = {VOTERS: f"{first.node_id}@10.0.0.1:9093,9999@10.0.0.2:9093", SERVERS: None}
    files = [x for x in one.properties if x is not first]
    for file, host in ((first, "10.0.0.2"), (second, "10.0.0.1")):
        values = {**file.values, **told, LISTENERS: f"{names}://{host}:9093"}
        kept = {key: value for key, value in values.items() if value is not None}
        files.append(replace(file, values=kept))
    return replace(one, properties=files)


FILE_CHANGES: tuple[Change, ...] = (
    Change("B23", "a misspelt role", controller({ROLES: "contoller"})),
    Change("B23", "a role in capitals", controller({ROLES: "Controller"})),
    Change("B23", "a role with a comment", target({ROLES: "broker # soon"})),
    Change("B23", "an unknown role", target({ROLES: "observer"})),
    Change("B23", "a role twice", controller({ROLES: "controller,controller"})),
    Change("B23", "a controller without an id", controller({"node.id": None})),
    Change("B23", "a controller's id in words", controller({"node.id": "first"})),
    Change("B23", "two ids of a controller", controller({"broker.id": "77"})),
    Change("B23", "two ids of a broker", broker({"node.id": "77"})),
    Change("B23", "the listener of no controller", controller({LISTENERS: "PLAINTEXT://:9092"})),
    Change("B23", "no listeners of a controller", controller({LISTENERS: None})),
    Change("B23", "another listener of a controller", of_controller(another_listener)),
    Change("B12", "a name in small letters", of_controller(lower(NAMES))),
    Change("B23", "a controller's listener twice", of_controller(listener_twice)),
    Change("B23", "a controller's port twice", of_controller(same_port)),
    Change(
        "B21",
        "between brokers on the controllers' listener",
        of_controller(
            lambda one: {BETWEEN: one.names(NAMES)[0], "security.inter.broker.protocol": None}
        ),
    ),
    Change("B23", "a control plane on a controller", controller({PLANE: "CONTROLLER"})),
    Change("B23", "a broker's listener twice", of_broker(listener_twice)),
    Change("B23", "an advertised name twice", of_broker(advertised_twice)),
    Change("B23", "a broker's port twice", of_broker(same_port)),
    Change("B23", "advertised at zeros", of_broker(at_zeros)),
    Change("B23", "listens at zeros, advertises nothing", of_broker(listens_at_zeros)),
    Change(
        "B23", "no port", of_broker(lambda one: {LISTENERS: entries(one)[0].rpartition(":")[0]})
    ),
    Change("B23", "a port too high", of_broker(lambda one: {LISTENERS: f"{entries(one)[0]}0"})),
    Change(
        "B23",
        "advertised, not listened",
        of_broker(
            lambda one: {ADVERTISED: f"{told(one)},MORE://elsewhere:7", **mapped(one, "MORE")}
        ),
    ),
    Change(
        "B23",
        "no protocol",
        of_broker(
            lambda one: {LISTENERS: f"{one.get(LISTENERS)},MORE://:7", MAP: mapped(one)[MAP]}
        ),
    ),
    Change(
        "B23",
        "a misspelt protocol",
        of_broker(lambda one: {MAP: f"{mapped(one)[MAP]},MORE:PLAINTXT"}),
    ),
    Change("B23", "an unknown early listener", broker({EARLY: "NONE"})),
    Change(
        "B23",
        "an early listener in small letters",
        of_controller(lambda one: {EARLY: one.names(NAMES)[0].lower()}),
    ),
    Change("B23", "no ZooKeeper", broker({CONNECT: None})),
    Change("B23", "an empty ZooKeeper", broker({CONNECT: ""})),
    Change("B23", "a chroot after each server", broker({CONNECT: "zk1:2181/k,zk2:2181/k"})),
    Change("B23", "a chroot with a slash at its end", controller({CONNECT: "zk1:2181/kafka/"})),
    Change("B23", "servers with a semicolon", controller({CONNECT: "zk1:2181;zk2:2181"})),
    Change("B23", "a ZooKeeper without a port number", broker({CONNECT: "zk1:port"})),
    Change("B23", "a control plane that nobody advertises", broker({PLANE: "NONE"})),
    Change(
        "B23",
        "the control plane between brokers",
        of_broker(lambda one: {PLANE: one.inter_broker_listener}),
    ),
    Change("B23", "no folder", broker({"log.dirs": ""})),
    Change(
        "B23",
        "a super user without a type",
        controller({AUTHORIZER: ACL, "super.users": "admin;User:broker;User:ANONYMOUS"}),
    ),
    Change("B17", "a target's listener twice", of_target(listener_twice)),
    Change("B17", "a target advertised at zeros", of_target(at_zeros)),
    Change("B17", "a target that listens at zeros", of_target(listens_at_zeros)),
    Change("B17", "a target's unknown early listener", target({EARLY: "NONE"})),
    Change(
        "B17",
        "a target advertises a controllers' listener",
        of_target(lambda one: {ADVERTISED: f"{told(one)},{one.names(NAMES)[0]}://x:1"}),
        W,
    ),
    Change(
        "B17",
        "a target's mechanism",
        of_target(
            lambda one: {
                MAP: ",".join(
                    f"{k}:{v}"
                    for k, v in {
                        **one.protocols,
                        one.inter_broker_listener: "SASL_PLAINTEXT",
                    }.items()
                ),
                BETWEEN: one.inter_broker_listener,
                "security.inter.broker.protocol": None,
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.enabled.mechanisms": "GSSAPI",
            }
        ),
    ),
    Change("B17", "the metadata log elsewhere", moved_metadata),
    Change(
        "B21",
        "a default listener between brokers",
        broker(
            {
                LISTENERS: None,
                ADVERTISED: None,
                BETWEEN: None,
                "security.inter.broker.protocol": "SASL_SSL",
            }
        ),
    ),
    Change("B11", "a StandardAuthorizer", broker({AUTHORIZER: ACL})),
    Change("B11", "an id above the reserved ones", broker({"broker.id": "1001", "node.id": None})),
    Change(
        "B11",
        "no id, and none generated",
        broker({"broker.id": None, "node.id": None, "broker.id.generation.enable": "false"}),
    ),
    Change("B11", "one broker left out", untouched, W),
    Change(
        "B11",
        "a name in small letters",
        of_broker(lambda one: {NAMES: "controller", MIGRATE: "true", **mapped(one, "CONTROLLER")}),
    ),
    Change(
        "B12",
        "SimpleAclAuthorizer",
        controller({AUTHORIZER: "kafka.security.auth.SimpleAclAuthorizer"}),
    ),
    Change(
        "B16",
        "two voters at one address",
        controller({VOTERS: "3000@c3000.example.com:9093,9@c3000.example.com:9093", SERVERS: None}),
    ),
    Change("B19", "the controllers themselves", guarded_controllers),
    Change(
        "B15",
        "no voter anywhere",
        lambda one: then(controller({VOTERS: None, SERVERS: "c3000.example.com:9093"}))(
            replace(one, folders=tuple(replace(x, dynamic=False) for x in one.folders))
        ),
    ),
    Change(
        "B18",
        "meta.properties without a version",
        lambda one: replace(
            one,
            properties=[
                replace(x, meta={k: v for k, v in x.meta.items() if k != "version"})
                for x in one.properties
            ],
        ),
    ),
    Change(
        "B18",
        "a controller's meta.properties without an id",
        lambda one: replace(
            one,
            properties=[
                replace(x, meta={k: v for k, v in x.meta.items() if k != "node.id"})
                if x.is_controller
                else x
                for x in one.properties
            ],
        ),
    ),
    Change("B10", "an id of no broker", broker({"broker.id": "77", "node.id": None}), W),
    Change("B16", "addresses of voters exchanged", exchanged),
    Change("B24", "another's advertised address", as_another),
    Change("B24", "one folder on one machine", on_one_machine("log.dirs", "/var/kafka")),
    Change("B24", "one port on one machine", on_one_machine(LISTENERS, "{inter}://127.0.0.1:7")),
    Change(
        "B24",
        "the address of a live broker",
        lambda one: of_broker(
            lambda file: {
                ADVERTISED: next(
                    x for y in sorted(one.live_brokers - {file.node_id}) for x in one.endpoints(y)
                )
            }
        )(one),
    ),
    Change("B25", "a comment behind a number", broker({"num.partitions": "3 # as before"})),
    Change("B25", "a variable of no provider", broker({"num.partitions": "${env:PARTITIONS}"})),
    Change("B25", "a variable of a shell", controller({"num.io.threads": "${THREADS}"})),
    Change("B25", "a folder of no provider", broker({"log.dirs": "/data/${env:HOSTNAME}"}), W),
    Change(
        "B25",
        "a metadata log of small segments",
        controller({"metadata.log.segment.bytes": "1048576"}),
    ),
    Change("B25", "a no-break space", broker({"num.partitions": "3\u00a0"})),
    Change("B23", "a folder twice", broker({"log.dirs": "/data/a,/data/b/../a/"})),
    Change("B25", "a unit", target({"log.retention.hours": "7d"})),
    Change("B25", "a boolean in words", controller({"delete.topic.enable": "yes"})),
    Change("B25", "a misspelt boolean", controller({MIGRATE: "ture"})),
    Change("B25", "a number too low", target({"log.segment.bytes": "1"})),
    Change("B25", "no number", broker({"log.retention.ms": ""})),
    Change("B25", "no time at all", broker({"log.retention.hours": "0"})),
    Change("B25", "a wait longer than the lag", target({"replica.lag.time.max.ms": "100"})),
    Change("B25", "an unknown policy", broker({"log.cleanup.policy": "remove"})),
    Change("B25", "an unknown version", target({"inter.broker.protocol.version": "3.10"})),
    Change(
        "B14",
        "no /brokers/topics",
        drop("/brokers/topics", "/config/topics"),
    ),
    Change("W07", "a value of another type", at_config(config({"retention.ms": "7d"})), W),
    Change("W07", "an unknown policy", at_config(config({"cleanup.policy": "remove"})), W),
    Change(
        "W09",
        "the metadata log's name",
        lambda one: put(
            "/brokers/topics/__cluster_metadata",
            js({**one.json(a_topic(one)), "topic_id": "D" * 21 + "Q"}),
        )(one),
        Severity.BLOCKER,
    ),
    Change(
        "B22",
        "another name of the controllers' listener",
        lambda one: edited(
            "targets",
            lambda x: x.is_kraft_broker,
            {
                VOTERS: None,
                SERVERS: "c3000.example.com:9093",
                NAMES: "QUORUM",
                **mapped(one.targets[0], "QUORUM"),
            },
        )(one),
    ),
    Change(
        "W20",
        "a misspelt flag",
        then(controller({MIGRATE: None}), controller({f"{MIGRATE}d": "true"})),
        W,
    ),
    Change("W20", "a misspelt key", target({"log.retention.hour": "7"}), W),
    Change("W20", "a key in capitals", broker({"Num.partitions": "1"}), W),
    Change(
        "W21",
        "fewer replicas",
        then(
            all_brokers({"default.replication.factor": "3"}),
            controller({"default.replication.factor": "1"}),
        ),
        W,
    ),
    Change(
        "W21",
        "fewer replicas by default",
        then(
            all_brokers({"default.replication.factor": " 3"}),
            controller({"default.replication.factor": None}),
        ),
        W,
    ),
    Change(
        "W21",
        "fewer replicas than on some brokers",
        then(
            all_brokers({"default.replication.factor": "2"}),
            broker({"default.replication.factor": "3"}),
            controller({"default.replication.factor": "+2"}),
        ),
        W,
    ),
    Change(
        "W21",
        "unclean elections, which no broker names",
        then(
            all_brokers({"unclean.leader.election.enable": None}),
            controller({"unclean.leader.election.enable": "TRUE"}),
        ),
        W,
    ),
    Change(
        "W21",
        "a super user of the brokers alone",
        guarded({"super.users": "User:root;User:boss"}, {"super.users": "User:root"}),
        W,
    ),
    Change(
        "W21",
        "everybody on the brokers alone",
        guarded(
            {"super.users": "User:root", "allow.everyone.if.no.acl.found": "true"},
            {"super.users": "User:root"},
        ),
        W,
    ),
    Change(
        "W21",
        "a class that names principals",
        all_brokers({"principal.builder.class": "com.me.Names"}),
        W,
    ),
    Change(
        "W21",
        "unclean elections",
        then(
            all_brokers({"unclean.leader.election.enable": "false"}),
            controller({"unclean.leader.election.enable": "true"}),
        ),
        W,
    ),
    Change(
        "W22",
        "no TLS to ZooKeeper",
        then(
            all_brokers({"zookeeper.ssl.client.enable": "true", CONNECT: "zk1:2182"}),
            controller({"zookeeper.ssl.client.enable": None, CONNECT: "zk1:2182"}),
        ),
        Severity.BLOCKER,
    ),
    Change(
        "W22",
        "open znodes",
        then(all_brokers({"zookeeper.set.acl": "true"}), controller({"zookeeper.set.acl": None})),
        W,
    ),
)
