"""``server.properties`` of brokers and controllers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emulator.preflight.engine import NotRun, Outcome, finding, rule
from emulator.preflight.survey import Properties, Survey

ENABLE: Final = "zookeeper.metadata.migration.enable"
IBP: Final = "inter.broker.protocol.version"
MIGRATION_LEVEL: Final = 8
TRANSACTION_LEVEL: Final = 13
DIRECTORY_LEVEL: Final = 17
OLD_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
NEW_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
KAFKA_AUTHORIZERS: Final = frozenset({OLD_AUTHORIZER, NEW_AUTHORIZER})


def _none(code: str, survey: Survey) -> Iterator[Outcome]:
    if not survey.properties:
        yield NotRun(code, "no server.properties given: use -c")


def _level(one: Properties) -> int | None:
    return one.protocol.level if one.protocol else None


@rule("B11", "brokers are set up to migrate")
def broker_settings(survey: Survey) -> Iterator[Outcome]:
    """Settings that a ZooKeeper-mode broker needs to register with the controllers."""
    yield from _none("B11", survey)
    for one in survey.brokers:
        level = _level(one)
        if one.get(IBP) and (level is None or level < MIGRATION_LEVEL):
            yield _setting(
                "B11",
                one,
                IBP,
                f"{one.get(IBP)}: a migration needs 3.4 at least",
                "the broker does not start with the migration switched on",
                "set it to the release the brokers run, and roll them",
            )
        if not one.flag(ENABLE):
            yield _setting(
                "B11",
                one,
                ENABLE,
                "not true",
                "the broker never registers with the controllers, which wait for it",
                f"set {ENABLE}=true",
            )
        for key in ("controller.quorum.voters", "controller.listener.names"):
            if not one.get(key):
                yield _setting(
                    "B11",
                    one,
                    key,
                    "missing",
                    "the broker cannot find the controllers, or does not start",
                    f"set {key} as on the controllers",
                )
        if one.node_id is None and one.get("broker.id.generation.enable", "true") != "false":
            yield _setting(
                "B11",
                one,
                "broker.id.generation.enable",
                "the broker's id is made up by ZooKeeper",
                "the broker does not start with the migration switched on",
                "write broker.id into server.properties, and broker.id.generation.enable=false",
            )
        directories = len(one.names("log.dirs"))
        if directories > 1 and level is not None and level < DIRECTORY_LEVEL:
            yield _setting(
                "B11",
                one,
                "log.dirs",
                f"{directories} folders with {IBP}={one.get(IBP)}",
                "a broker of 3.5 or later does not start with the migration switched on",
                f"raise {IBP} to 3.7 or above",
            )


@rule("B12", "controllers are set up to migrate")
def controller_settings(survey: Survey) -> Iterator[Outcome]:
    """Settings that a controller needs, and roles that cannot be a migration target."""
    yield from _none("B12", survey)
    for one in survey.properties:
        if {"broker", "controller"} <= set(one.names("process.roles")):
            yield _setting(
                "B12",
                one,
                "process.roles",
                one.get("process.roles"),
                "a combined node cannot take part in a migration",
                "use nodes of their own: process.roles=controller",
            )
    for one in survey.controllers:
        for key in ("zookeeper.connect", "controller.quorum.voters", "controller.listener.names"):
            if not one.get(key):
                yield _setting(
                    "B12", one, key, "missing", "the controller does not start", f"set {key}"
                )
        if not one.flag(ENABLE):
            yield _setting(
                "B12",
                one,
                ENABLE,
                "not true",
                "the controllers start as a cluster of their own and can never migrate this one",
                f"set {ENABLE}=true before the first start",
            )
        if one.node_id is not None and one.voters and one.node_id not in one.voters:
            yield _setting(
                "B12",
                one,
                "node.id",
                f"{one.node_id} is not in controller.quorum.voters",
                "the controller does not start",
                "add it",
            )


@rule("W11", "no class of one's own decides")
def own_classes(survey: Survey) -> Iterator[Outcome]:
    """Authorizers and policies that a controller does not run, or runs differently."""
    yield from _none("W11", survey)
    for one in survey.properties:
        authorizer = one.get("authorizer.class.name")
        if authorizer and authorizer not in KAFKA_AUTHORIZERS:
            yield _setting(
                "W11",
                one,
                "authorizer.class.name",
                authorizer,
                "only ACLs as AclAuthorizer stores them are copied",
                "ask its maker how it migrates",
            )
        for key in ("alter.config.policy.class.name", "create.topic.policy.class.name"):
            if one.get(key):
                yield _setting(
                    "W11",
                    one,
                    key,
                    one.get(key),
                    "policies run on the controller in KRaft, and see other input for APPEND and "
                    "SUBTRACT; kraft-bridge runs none",
                    "install it on the controllers",
                )


@rule("W13", "brokers run a good version for this")
def good_version(survey: Survey) -> Iterator[Outcome]:
    """An inter.broker.protocol.version that migrates without a transaction, or an unset one."""
    yield from _none("W13", survey)
    for one in survey.brokers:
        level = _level(one)
        if not one.get(IBP):
            yield _setting(
                "W13",
                one,
                IBP,
                "not set: the newest the release knows",
                "it must equal the controllers' metadata.version",
                "set it",
            )
        elif level is not None and MIGRATION_LEVEL <= level < TRANSACTION_LEVEL:
            yield _setting(
                "W13",
                one,
                IBP,
                f"{one.get(IBP)}: below 3.6-IV1 the copy is no transaction",
                "a copy that is cut off leaves records behind, which have to be taken back",
                "3.9 is advised",
            )
    told = {one.get(IBP) for one in survey.brokers} - {""}
    if len({_level(one) for one in survey.brokers if one.get(IBP)}) > 1:
        yield finding(
            "W13",
            IBP,
            f"brokers disagree: {', '.join(sorted(told))}",
            "those that differ from the controllers' metadata.version are refused",
            "set one value on all brokers",
            "KIP-866, Preparing the Cluster",
        )


@rule("W14", "listeners and authorizers fit the phase")
def listeners(survey: Survey) -> Iterator[Outcome]:
    """Protocols of controller listeners, the listener between brokers, ACLs on the controllers."""
    yield from _none("W14", survey)
    for one in survey.properties:
        mapped = {part.partition(":")[0] for part in one.names("listener.security.protocol.map")}
        for name in one.names("controller.listener.names"):
            if name not in mapped and name not in {
                "PLAINTEXT",
                "SSL",
                "SASL_PLAINTEXT",
                "SASL_SSL",
            }:
                yield _setting(
                    "W14",
                    one,
                    "listener.security.protocol.map",
                    f"says nothing of {name}",
                    "the node takes PLAINTEXT for it, or does not start",
                    f"add {name}:PLAINTEXT, or its real protocol",
                )
        if one.get("control.plane.listener.name"):
            yield _setting(
                "W14",
                one,
                "control.plane.listener.name",
                one.get("control.plane.listener.name"),
                "KRaft has no such listener",
                "remove it before the brokers become KRaft brokers",
            )
    between = {one.get("inter.broker.listener.name") for one in survey.brokers} - {""}
    for one in survey.controllers:
        told = one.get("inter.broker.listener.name")
        if between and told not in between:
            yield _setting(
                "W14",
                one,
                "inter.broker.listener.name",
                f"{told or 'not set'}; the brokers have {', '.join(sorted(between))}",
                "the controller looks for another listener of the brokers and reaches none",
                "set it as on the brokers",
            )
        if one.get("authorizer.class.name") == OLD_AUTHORIZER:
            yield _setting(
                "W14",
                one,
                "authorizer.class.name",
                "AclAuthorizer on a controller",
                "it keeps its ACLs in ZooKeeper; the controller does not start",
                f"use {NEW_AUTHORIZER}",
            )
    enforced = [one.name for one in survey.brokers if one.get("authorizer.class.name")]
    for one in survey.controllers:
        if enforced and not one.get("authorizer.class.name"):
            yield _setting(
                "W14",
                one,
                "authorizer.class.name",
                f"not set, but on {enforced[0]}",
                "CreateAcls and DeleteAcls are refused during the migration, and everybody may do "
                "what the controller decides",
                f"set {NEW_AUTHORIZER} and super.users",
            )


def _setting(  # noqa: PLR0917 - the columns of the report
    code: str, one: Properties, key: str, fact: str, consequence: str, remedy: str
) -> Outcome:
    return finding(code, f"{one.name}: {key}", fact, consequence, remedy, "KIP-866, Configurations")
