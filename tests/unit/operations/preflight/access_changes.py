"""Changes of what callers and nodes may do: ACLs of Kafka and of ZooKeeper, secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.survey import Survey
from tests.unit.operations.preflight.changes import (
    Apply,
    Change,
    W,
    a_state,
    broker,
    controller,
    put,
    target,
    then,
    with_protocols,
)
from tests.unit.operations.preflight.clean import PLAIN_LOGIN, js


def controller_to_come(changes: Mapping[str, str | None]) -> Apply:
    """A target file of the first controller, with other keys than its present one."""

    def apply(one: Survey) -> Survey:
        first = next(x for x in one.properties if x.is_controller)
        values = {k: v for k, v in {**first.values, **changes}.items() if v is not None}
        return replace(one, targets=(*one.targets, replace(first, name="to come", values=values)))

    return apply


def without_secrets(one: Survey) -> Survey:
    """No file has a secret of tokens."""

    def changed(x: Properties) -> Properties:
        kept = {k: v for k, v in x.values.items() if not k.startswith("delegation.token.")}
        return replace(x, values=kept)

    return replace(
        one,
        properties=[changed(x) for x in one.properties],
        targets=[changed(x) for x in one.targets],
    )


def an_acl(version: int = 1, **changes: str | None) -> bytes:
    """The data of a resource with one entry; None leaves a key out."""
    entry: dict[str, str | None] = {
        "principal": "User:a",
        "operation": "Read",
        "permissionType": "Allow",
        "host": "*",
        **changes,
    }
    kept = {key: value for key, value in entry.items() if value is not None}
    return js({"version": version, "acls": [kept]})


def by_plain(nodes: str, controllers: str) -> Apply:
    """All log in to the controllers by PLAIN, with these options of the login modules."""

    def apply(one: Survey) -> Survey:
        def moved(x: Properties) -> Properties:
            names = dict.fromkeys(x.names("controller.listener.names"), "SASL_PLAINTEXT")
            own = {"sasl.mechanism.controller.protocol": "PLAIN"}
            for name in names:
                prefix = f"listener.name.{name.lower()}."
                options = controllers if x.is_controller else nodes
                own[f"{prefix}sasl.enabled.mechanisms"] = "PLAIN"
                own[f"{prefix}plain.sasl.jaas.config"] = f"{PLAIN_LOGIN} required {options};"
            return replace(x, values={**x.values, **with_protocols(x, names), **own})

        return replace(
            one,
            properties=[x if x.is_untouched else moved(x) for x in one.properties],
            targets=[moved(x) for x in one.targets],
        )

    return apply


def with_certificates(one: Survey) -> Survey:
    """The controllers ask for certificates, and the nodes have none."""

    def changed(x: Properties) -> Properties:
        names = x.names("controller.listener.names")
        more = {f"listener.name.{name.lower()}.ssl.client.auth": "required" for name in names}
        kept = {k: v for k, v in x.values.items() if "keystore" not in k}
        return replace(x, values={**kept, **with_protocols(x, dict.fromkeys(names, "SSL")), **more})

    return replace(
        one,
        properties=[x if x.is_untouched else changed(x) for x in one.properties],
        targets=[changed(x) for x in one.targets],
    )


OF_CONTROLLERS = 'username="c" password="c-secret" user_c="c-secret" user_b="b-secret"'

ACCESS_CHANGES: tuple[Change, ...] = (
    Change("B22", "a user that the controllers lack", by_plain('username="x"', OF_CONTROLLERS)),
    Change(
        "B22",
        "another password",
        by_plain('username="b" password="old"', OF_CONTROLLERS),
    ),
    Change("B22", "no certificate", with_certificates),
    Change(
        "W05",
        "ACLs in another tree",
        broker(
            {
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "authorizer.zookeeper.url": "zk1:2181,zk2:2181/acls",
            }
        ),
    ),
    Change(
        "W05",
        "ACLs in servers that are addresses",
        lambda one: broker(
            {
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "authorizer.zookeeper.url": f"10.9.8.7:2181/{one.chroot.strip('/')}",
            }
        )(one),
        W,
    ),
    Change(
        "W05",
        "ACLs in another ensemble",
        broker(
            {
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "authorizer.zookeeper.url": "of-the-acls:2181",
            }
        ),
    ),
    Change(
        "B09",
        "closed to the controller",
        put("/config/topics", None, acl=((31, "sasl", "other"), (1, "world", "anyone"))),
    ),
    Change(
        "B09",
        "closed to deletions",
        put("/brokers/topics", None, acl=((31 & ~8, "world", "anyone"), (8, "sasl", "other"))),
    ),
    Change(
        "B09",
        "a state that can be read only",
        lambda one: put(a_state(one), one.data(a_state(one)), acl=((1, "world", "anyone"),))(one),
    ),
    Change("W05", "a type in small letters", put("/kafka-acl/topic/x", an_acl()), W),
    Change("W05", "a type in capitals", put("/kafka-acl/TRANSACTIONAL_ID/x", an_acl()), W),
    Change("W05", "no type", put("/kafka-acl/Any/x", an_acl()), W),
    Change(
        "W05", "another kind of pattern", put("/kafka-acl-extended/literal/Topic/x", an_acl()), W
    ),
    Change("W05", "a name with a slash", put("/kafka-acl/Topic/a/b", an_acl()), W),
    Change("W05", "no permission", put("/kafka-acl/Topic/x", an_acl(permissionType="allow")), W),
    Change("W05", "no host", put("/kafka-acl/Topic/x", an_acl(host=None)), W),
    Change("W05", "no principal", put("/kafka-acl/Topic/x", an_acl(principal="alice")), W),
    Change("W05", "any operation", put("/kafka-acl/Topic/x", an_acl(operation="Any")), W),
    Change("W05", "a later version", put("/kafka-acl/Topic/x", an_acl(version=2)), W),
    Change(
        "W05",
        "strange operation",
        put("/kafka-acl/Topic/x", an_acl(operation="Fly")),
        W,
    ),
    Change(
        "W19",
        "another secret",
        then(
            broker({"delegation.token.secret.key": "a"}),
            controller({"delegation.token.secret.key": "b"}),
        ),
        W,
    ),
    Change(
        "W19",
        "no secret on a target",
        then(
            broker({"delegation.token.secret.key": "a"}),
            target({"delegation.token.secret.key": None}),
        ),
        W,
    ),
    Change(
        "W19",
        "no secret on a controller to come",
        then(
            broker({"delegation.token.secret.key": "a"}),
            controller({"delegation.token.secret.key": "a"}),
            controller_to_come({"delegation.token.secret.key": None}),
        ),
        W,
    ),
    Change(
        "W19",
        "tokens, and no secret anywhere",
        then(
            without_secrets,
            put("/delegation_token/tokens/a", js({"version": 3, "tokenId": "a"})),
        ),
        W,
    ),
    Change(
        "W19",
        "another secret of passwords",
        then(
            broker({"password.encoder.secret": "a"}), controller({"password.encoder.secret": "b"})
        ),
        W,
    ),
)
