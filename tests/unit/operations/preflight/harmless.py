"""Changes that spoil nothing: what an operator may write too, and what old clusters hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from emulator.operations.preflight.endpoints import listening
from emulator.operations.preflight.node_file import DEFAULT_BUILDER, Properties
from emulator.operations.preflight.survey import Survey
from tests.unit.operations.preflight.access_changes import an_acl
from tests.unit.operations.preflight.changes import (
    BETWEEN,
    CONNECT,
    MAP,
    VOTERS,
    Apply,
    a_state,
    a_topic,
    at_config,
    put,
    then,
)
from tests.unit.operations.preflight.clean import config, js
from tests.unit.operations.preflight.file_changes import ADVERTISED, EARLY, LISTENERS, mapped, told

Edit = Callable[[Properties], Mapping[str, str]]


def every(edit: Edit, chosen: Callable[[Properties], bool] = lambda one: True) -> Apply:
    """Changes of each present and target file for which ``chosen`` holds."""

    def apply(one: Survey) -> Survey:
        def changed(x: Properties) -> Properties:
            return replace(x, values={**x.values, **edit(x)}) if chosen(x) else x

        return replace(
            one,
            properties=[changed(x) for x in one.properties],
            targets=[changed(x) for x in one.targets],
        )

    return apply


def keyed(one: Properties) -> bool:
    return "delegation.token.secret.key" in one.values


def is_controller(one: Properties) -> bool:
    return one.is_controller


def is_broker(one: Properties) -> bool:
    return not one.is_controller


def with_plugins(one: Properties) -> Mapping[str, str]:
    return {
        "advertised.host.name": "old",
        "confluent.license": "x",
        "cruise.control.metrics.topic": "metrics",
        "jute.maxbuffer": "4194304",
        "listener.name.other.ssl.keystore.location": "/etc/other.jks",
        "my.interceptor.list": "a",
        "port": "9092",
        "quota.producer.default": "1",
        "rsm.config.bucket": "b",
        "zookeeper.sync.time.ms": "2000",
    }


def at_all_addresses(one: Properties) -> Mapping[str, str]:
    return {LISTENERS: ",".join(f"{end.name}://0.0.0.0:{end.port}" for end in listening(one))}


def as_in_compose(one: Properties) -> Mapping[str, str]:
    """Containers that listen on one port each, and are mapped to ports of one host."""
    if "127.0.0.1" in one.get(LISTENERS):
        return {}  # they are on one machine
    port = 29_092 + (one.node_id or 0)
    return {
        LISTENERS: f"{one.get(LISTENERS)},HOST://0.0.0.0:29092",
        ADVERTISED: f"{told(one)},HOST://localhost:{port}",
        **mapped(one, "HOST"),
        "log.dirs": "/var/lib/kafka",
    }


def spaced(key: str) -> Edit:
    return lambda one: {key: one.get(key).replace(",", " , ")} if one.get(key) else {}


def small_names(one: Properties) -> Mapping[str, str]:
    """Names of listeners in small letters, but for those of the controllers."""
    listeners = ",".join(f"{end.name.lower()}://{end.host}:{end.port}" for end in listening(one))
    return {LISTENERS: listeners, BETWEEN: one.inter_broker_listener.lower(), **mapped(one)}


def both_families(one: Properties) -> Mapping[str, str]:
    port = 17_000 + (one.node_id or 0)
    more = f"FOUR://127.0.0.1:{port},SIX://[::1]:{port}"
    return {
        LISTENERS: f"{one.get(LISTENERS)},{more}",
        ADVERTISED: told(one),
        **mapped(one, "FOUR", "SIX"),
    }


PROVIDERS = {"config.providers": "file, env"}


def filled_in(one: Properties) -> Mapping[str, str]:
    return {
        ADVERTISED: "${env:ADVERTISED}",
        "num.partitions": "${file:/etc/kafka:partitions}",
        **PROVIDERS,
    }


def an_old_topic(one: Survey) -> Survey:
    """Of a controller of 2.8: without the keys that came later."""
    held = sorted(one.live_brokers)
    nodes: Mapping[str, bytes | None] = {
        "/brokers/topics/old": js(
            {"version": 2, "partitions": {"0": held}, "topic_id": "AAAAAAAAAAAAAAAAAAAABQ"}
        ),
        "/brokers/topics/old/partitions/0/state": js(
            {"version": 1, "leader": held[0], "leader_epoch": 0, "controller_epoch": 0, "isr": held}
        ),
        "/config/topics/old": config({}),
    }
    return then(*(put(path, data) for path, data in nodes.items()))(one)


def acls_here(one: Properties) -> Mapping[str, str]:
    """The ACLs' own connect string: the same chroot, and servers of the same ensemble."""
    servers, slash, chroot = one.get(CONNECT).partition("/")
    turned = ",".join(reversed(servers.replace(":2181", "").split(",")))
    return {"authorizer.zookeeper.url": f"another-of-them:2181,{turned}{slash}{chroot}"}


HARMLESS: Mapping[str, Apply] = {
    "ACLs in the same tree, written in another way": every(
        acls_here, lambda one: one.is_zookeeper_broker
    ),
    "keys of plug-ins and of old releases": every(with_plugins),
    "controllers listen on every address": every(at_all_addresses, is_controller),
    "containers on one host": every(as_in_compose, is_broker),
    "blanks beside commas": then(*(every(spaced(key)) for key in (LISTENERS, VOTERS, MAP))),
    "a comma at the end": every(lambda one: {LISTENERS: f"{one.get(LISTENERS)},"}),
    "names in small letters": every(small_names, is_broker),
    "one port in both families": every(both_families, is_broker),
    "protocols in small letters": every(
        lambda one: {MAP: mapped(one)[MAP].replace("PLAINTEXT,", "plaintext,")}
    ),
    "values of a config provider": every(filled_in, lambda one: one.is_zookeeper_broker),
    "a folder that log.dirs replaces": every(
        lambda one: {"log.dir": "/a/of-before", "log.dirs": f"/a/{one.node_id}"}, is_broker
    ),
    "folders of the environment": every(
        lambda _one: {"log.dirs": "${env:FOLDERS}", **PROVIDERS}, is_broker
    ),
    "both ids, alike": every(
        lambda one: {"node.id": str(one.node_id), "broker.id": str(one.node_id)}
    ),
    "both ids, in other digits": every(
        lambda one: {"node.id": f"+{one.node_id}", "broker.id": f"0{one.node_id}"}
    ),
    "early start of the controllers' listener": every(
        lambda one: {EARLY: one.names("controller.listener.names")[0]}, is_controller
    ),
    "booleans in capitals": every(lambda one: {"auto.create.topics.enable": "FALSE"}),
    "a number with a sign": every(lambda one: {"num.io.threads": "+08"}),
    "replicas in other words": every(
        lambda one: {"default.replication.factor": "+3 " if is_controller(one) else " 03"}
    ),
    "a default that only some write": every(
        lambda one: {"unclean.leader.election.enable": "False", "delete.topic.enable": "TRUE"},
        is_controller,
    ),
    "more replicas on the controllers": every(
        lambda one: {"default.replication.factor": "5" if is_controller(one) else "3"}
    ),
    "secrets of a provider": every(
        lambda one: {
            "delegation.token.secret.key": f"${{file:/etc/{one.node_id}:key}}",
            **PROVIDERS,
        }
    ),
    "a secret by its older name": every(
        lambda one: {"delegation.token.master.key": "x"}, lambda one: not keyed(one)
    ),
    "replicas alike on all": every(lambda one: {"default.replication.factor": "3"}),
    "a slash for the root": every(
        lambda one: {CONNECT: f"{one.get(CONNECT)}/"} if "/" not in one.get(CONNECT) else {},
        lambda one: bool(one.get(CONNECT)),
    ),
    "two folders": every(
        lambda one: {"log.dirs": f"/a/{one.node_id},/b/{one.node_id}"},
        lambda one: is_broker(one) and one.get("inter.broker.protocol.version") != "3.4",
    ),
    "folders written in another way": then(
        every(lambda one: {"log.dirs": f"/a/{one.node_id}"}, is_broker),
        every(
            lambda one: {"log.dirs": f"/a//x/../{one.node_id}/"},
            lambda one: one.is_zookeeper_broker,
        ),
    ),
    "Kafka's own class of principals": every(
        lambda one: {"principal.builder.class": DEFAULT_BUILDER}, is_broker
    ),
    "sessions that end": every(lambda one: {"connections.max.reauth.ms": "3600000"}),
    "an old topic": an_old_topic,
    "configs of a broker that is there": put("/config/brokers/1", config({})),
    "a registration as brokers make it": lambda one: put(
        "/brokers/ids/1", one.data("/brokers/ids/1"), ephemeral=True
    )(one),
    "an empty config": at_config(config({})),
    "consumers closed to others": put("/consumers", None, acl=((31, "sasl", "old"),)),
    "a note beside a topic": lambda one: put(f"{a_topic(one)}/note", b"mine")(one),
    "a note below a state": lambda one: put(f"{a_state(one)}/note", b"mine")(one),
    "a note below a config": lambda one: put(
        f"{a_topic(one).replace('/brokers/', '/config/')}/note", b"mine"
    )(one),
    "another tool's closed znodes": then(
        put("/brokers/topics_of_a_tool", None, acl=((31, "sasl", "tool"),)),
        put("/config/changes", None, acl=((31, "world", "anyone"),)),
    ),
    "permissions in two entries": put(
        "/config/topics", None, acl=((1 | 2 | 4, "world", "anyone"), (8 | 16, "world", "anyone"))
    ),
    "a state that can only be set": lambda one: put(
        a_state(one), one.data(a_state(one)), acl=((1 | 2, "world", "anyone"),)
    )(one),
    "an ACL in capitals": put(
        "/kafka-acl/TransactionalId/x", an_acl(operation="DESCRIBECONFIGS", permissionType="DENY")
    ),
    "an ACL of every resource": put(
        "/kafka-acl/DelegationToken/*", an_acl(operation="CreateTokens", principal="Group:x")
    ),
    "an empty ACL": put("/kafka-acl/Topic/none", js({"version": 1, "acls": []})),
}
