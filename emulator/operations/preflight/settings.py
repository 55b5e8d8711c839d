"""``server.properties`` of brokers and controllers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from emulator.config.authorizer import ALLOW_EVERYONE, STANDARD, SUPER_USERS
from emulator.config.java_text import same, whole
from emulator.config.load import ConfigError, load
from emulator.config.sasl import REAUTHENTICATION, SCRAM, prefix_of
from emulator.config.words import several
from emulator.metadata.metadata_version import LATEST
from emulator.operations.preflight.endpoints import (
    ADVERTISED,
    controller_names,
    listening,
    parsed,
    unmapped,
)
from emulator.operations.preflight.engine import (
    FindingOf,
    NotRun,
    Outcome,
    Severity,
    finding,
    listed,
    named,
    rule,
)
from emulator.operations.preflight.identities import principal_of, super_users
from emulator.operations.preflight.kafka_values import BOOLEANS, why_refused
from emulator.operations.preflight.node_file import (
    AUTHORIZER,
    BOOTSTRAP,
    BUILDER,
    CONNECT,
    CONTROL_PLANE,
    ENABLE,
    IBP,
    NAMES,
    ROLES,
    VOTERS,
    Properties,
    number,
)
from emulator.operations.preflight.stage import MigrationStage, standing
from emulator.operations.preflight.survey import Survey
from emulator.operations.preflight.targets import ACL_AUTHORIZER, ACL_AUTHORIZERS

# Rule on how long a login lasts where the credential behind it can change.

_W23: Final = FindingOf("W23", "KIP-368")


@rule(
    "W23",
    "a changed password ends old sessions",
    "A password of SCRAM had leaked and was changed. Connections that had logged in with the "
    "old one were served for days.",
)
def lasting_sessions(survey: Survey) -> Iterator[Outcome]:
    """Listeners with SCRAM where `connections.max.reauth.ms` is not set."""
    for one in survey.all_files:
        lasting = {
            listener.name: named
            for listener in one.listeners()
            if listener.security_protocol.startswith("SASL_")
            and (named := _lasting(one, listener.name))
        }
        if not lasting:
            continue
        yield _W23(
            one.at(REAUTHENTICATION),
            f"not set for {listed(lasting)}, where users log in by "
            + listed(dict.fromkeys(x for named in lasting.values() for x in named)),
            "a connection goes on for as long as it is open after its user's password was changed; "
            "on a node of Kafka's also after the user was deleted",
            f"set {REAUTHENTICATION}, such as 3600000: clients from 2.2 on log in again by then",
            Severity.INFO,
        )


def _lasting(one: Properties, listener: str) -> list[str]:
    """Mechanisms of SCRAM on a listener whose sessions have no end."""
    prefix = prefix_of(listener)
    return [
        mechanism
        for mechanism in one.mechanisms(listener)
        if mechanism in SCRAM and _endless(one, (f"{prefix}{mechanism.lower()}.", prefix, ""))
    ]


def _endless(one: Properties, prefixes: tuple[str, ...]) -> bool:
    """Whether the first of the prefixes that has a value has none above 0."""
    keys = [f"{each}{REAUTHENTICATION}" for each in prefixes]
    key = next((each for each in keys if one.get(each)), None)
    if key is None:
        return True
    if one.provides(key):
        return False
    try:
        return whole(one.get(key)) <= 0
    except ValueError:
        return False  # B25 says so


MIGRATION_LEVEL: Final = 8
TRANSACTION_LEVEL: Final = 13
DIRECTORY_LEVEL: Final = 17
AUTHORIZER_LEVEL: Final = 9
"""3.5-IV0; 3.4 does not start with an authorizer and the migration switched on (KAFKA-15098)."""
BOOTSTRAP_LEVEL: Final = 21
"""3.9-IV0: releases before 3.9 do not know controller.quorum.bootstrap.servers."""
_OLD: Final = re.compile(r"(0\.(8|9|10|11)(\.[0-9]+)?|1\.[01]|2\.[0-8])(\.[0-9]+)?(-IV[0-9])?")
"""Versions of before metadata.version that Kafka 3.9 still reads."""
RESERVED: Final = 1_000
"""Default of reserved.broker.max.id."""
CONFLUENTS: Final = "io.confluent."
"""Classes of Confluent Server, whose own controllers migrate what they store."""
KAFKA_AUTHORIZERS: Final = frozenset({*ACL_AUTHORIZERS, STANDARD})
_B11, _B12, _W11, _W13, _W14 = (
    FindingOf(code, "KIP-866, Configurations") for code in ("B11", "B12", "W11", "W13", "W14")
)


def _none(code: str, survey: Survey) -> Iterator[Outcome]:
    if not survey.properties:
        yield NotRun(code, "no server.properties given: use -c")


def _level(one: Properties) -> int | None:
    return one.protocol.level if one.protocol else None


@rule(
    "B11",
    "brokers are set up to migrate",
    "Brokers were restarted for the migration with one of its properties missing. They ran on "
    "in ZooKeeper mode and never registered.",
)
def broker_settings(survey: Survey) -> Iterator[Outcome]:
    """Settings that a ZooKeeper-mode broker needs to start and to register with the controllers."""
    yield from _none("B11", survey)
    targets = [one for one in survey.targets if one.is_zookeeper_broker and one.flag(ENABLE)]
    given = {one.node_id for one in targets}
    begun = [one.name for one in survey.brokers if one.flag(ENABLE)]
    for one in (*survey.brokers, *targets):
        if not one.is_untouched:
            yield from _begun(one)
        elif one.node_id not in given or begun:
            yield _B11(
                one.at(ENABLE),
                f"not set, nor are {VOTERS} and {NAMES}: the broker as it was before"
                + (f"; {begun[0]} has them" if begun else ""),
                "the migration waits until every broker has registered with the controllers",
                "once the controllers run, add them, and restart the brokers one by one",
                Severity.WARNING if begun else Severity.INFO,
            )
        yield from _broker_id(one)
        yield from _versions(one)
        yield from _own_authorizer(one)
        for found in unmapped(one):
            yield _B11(one.at(found.key), found.fact, "the broker does not start", found.remedy)
    others = sorted(survey.live_brokers - {one.node_id for one in survey.all_files})
    if survey.brokers and others:
        yield NotRun("B11", f"no file of {named('broker', others)} given, which is not looked at")


def _versions(one: Properties) -> Iterator[Outcome]:
    """What inter.broker.protocol.version allows."""
    level = _level(one)
    if one.provides(IBP):
        why = f"{one.name} takes {IBP} from a config provider, which is not asked here"
        yield NotRun("B11", why)
        return
    if one.get(IBP) and (level is None or level < MIGRATION_LEVEL):
        yield _B11(
            one.at(IBP),
            f"{one.get(IBP)}: a migration needs 3.4 at least",
            "the broker does not start with the migration switched on"
            if level is not None or _OLD.fullmatch(one.get(IBP))
            else "the broker does not start: Kafka knows no such version",
            "set it to the release the brokers run, and roll them",
        )
    if level is not None and level < BOOTSTRAP_LEVEL and one.get(BOOTSTRAP) and not one.get(VOTERS):
        yield _B11(
            one.at(BOOTSTRAP),
            f"set instead of {VOTERS}, with {IBP}={one.get(IBP)}",
            "a broker before 3.9 does not know it: it finds no controllers, or does not start",
            f"set {VOTERS} as on the controllers",
            Severity.WARNING,
        )
    in_both = {end.name for end in parsed(one.get(ADVERTISED))[0]} & set(controller_names(one))
    in_both -= {end.name for end in listening(one)}  # older releases take it, and advertise it
    if in_both and level is not None and level < BOOTSTRAP_LEVEL:
        yield _B11(
            one.at(ADVERTISED),
            f"{listed(sorted(in_both))} is a listener of controllers",
            "a broker before 3.9 does not start with it; since 3.9 it has no effect",
            f"remove it from {ADVERTISED}",
            Severity.WARNING,
        )
    key = "log.dirs" if "log.dirs" in one.values else "log.dir"
    directories = len(one.names(key))
    if directories > 1 and level is not None and level < DIRECTORY_LEVEL:
        yield _B11(
            one.at(key),
            f"{directories} folders with {IBP}={one.get(IBP)}",
            "a broker of 3.5 or later does not start with the migration switched on",
            f"raise {IBP} to 3.7 or above",
        )


def _broker_id(one: Properties) -> Iterator[Outcome]:
    written = one.get("node.id") or one.get("broker.id")
    key, node_id = "broker.id.generation.enable", one.node_id
    generated = one.get(key, "true").lower() != "false"
    limit = number(one.get("reserved.broker.max.id"))
    limit = RESERVED if limit is None else limit
    if one.provides("node.id" if one.get("node.id") else "broker.id"):
        return  # B23 says so
    if node_id is None and written not in {"", "-1"}:
        yield _B11(
            one.at("node.id" if one.get("node.id") else "broker.id"),
            f"{written!r} is no id",
            "the broker does not start",
            "write the id that the broker has now, in digits",
        )
    elif node_id is None:
        yield _B11(
            one.at(key if generated else "broker.id"),
            "the broker's id is generated by ZooKeeper"
            if generated
            else f"missing, and {key} is false",
            "the broker does not start with the migration switched on",
            f"write broker.id into server.properties, and {key}=false",
        )
    elif generated and node_id > limit:
        yield _B11(
            one.at("broker.id"),
            f"{node_id} is above reserved.broker.max.id ({limit}), and {key} is not false",
            "the broker does not start",
            f"set {key}=false",
        )


def _own_authorizer(one: Properties) -> Iterator[Outcome]:
    """Which authorizer a ZooKeeper-mode broker can have."""
    name = one.get(AUTHORIZER)
    if name == STANDARD:
        yield _B11(
            one.at(AUTHORIZER),
            f"{name} in ZooKeeper mode",
            "it waits for the ACLs of a KRaft log, which a ZooKeeper-mode broker does not read: "
            "the broker never opens its listeners",
            f"keep {ACL_AUTHORIZER} until the broker is a KRaft broker",
        )
    level = _level(one)
    if name and one.flag(ENABLE) and level is not None and level < AUTHORIZER_LEVEL:
        yield _B11(
            one.at(AUTHORIZER),
            f"set, with {IBP}={one.get(IBP)}",
            "a broker before 3.5.1 does not start with an authorizer and the migration switched on",
            "run brokers of 3.5.1 or later (KAFKA-15098)",
            Severity.WARNING,
        )


def _begun(one: Properties) -> Iterator[Outcome]:
    """What is missing on a broker to which something of a migration was added."""
    lost = (
        "the broker does not start"
        if one.flag(ENABLE)
        else "the broker cannot find the controllers, or does not start"
    )
    if not one.flag(ENABLE):
        yield _B11(
            one.at(ENABLE),
            "not true",
            f"the broker does not start: without it {NAMES} may not be set"
            if one.names(NAMES)
            else "the broker never registers with the controllers, which wait for it",
            f"set {ENABLE}=true",
        )
    if not one.finds_controllers:
        yield _B11(
            one.at(VOTERS),
            f"missing, and so is {BOOTSTRAP}",
            lost,
            f"set {VOTERS} as on the controllers",
        )
    if not one.names(NAMES):
        yield _B11(
            one.at(NAMES),
            "missing",
            lost,
            f"set {NAMES} as on the controllers",
        )


@rule(
    "B12",
    "controllers are set up to migrate",
    "Controllers were started once without the migration flag and began a new, empty cluster, "
    "or were combined with brokers in one process.",
)
def controller_settings(survey: Survey) -> Iterator[Outcome]:
    """Settings that a controller needs, and roles that cannot be a migration target."""
    yield from _none("B12", survey)
    for one in survey.all_files:
        if {"broker", "controller"} <= set(one.names(ROLES)):
            yield _B12(
                one.at(ROLES),
                one.get(ROLES),
                "a combined node cannot take part in a migration",
                "use separate nodes with process.roles=controller",
            )
    yield from _even(survey)
    for one in survey.all_files:
        if not one.is_controller:
            continue
        yield from _controller(one)
        if one in survey.targets and not one.flag(ENABLE):
            yield NotRun("B12", f"{one.name} has no {ENABLE}=true: a file for after the migration")
        else:
            yield from _migrating(survey, one)


def _even(survey: Survey) -> Iterator[Outcome]:
    """An even number of voters: one more of them to fail, and no more that may."""
    first: dict[int, Properties] = {}
    for one in survey.all_files if survey.properties else ():
        if one.is_controller:
            first.setdefault(len(one.voters), one)
    for count, one in first.items():
        if count and count % 2 == 0:
            yield _B12(
                one.at(VOTERS),
                f"{count} voters, an even number",
                f"as many may fail as of {count - 1}: {several(count // 2 - 1, 'controller')}"
                if count > 2
                else "none of the two may fail: a majority of two is both",
                f"use {count + 1} controllers, or {count - 1}",
                Severity.WARNING,
            )


def _controller(one: Properties) -> Iterator[Outcome]:
    """What every controller needs to start."""
    for key in (VOTERS, NAMES):
        if not one.get(key) and not (key == VOTERS and one.get(BOOTSTRAP)):
            yield _B12(one.at(key), "missing", "the controller does not start", f"set {key}")
    for found in unmapped(one):
        yield _B12(one.at(found.key), found.fact, "the controller does not start", found.remedy)
    if one.get(AUTHORIZER) in ACL_AUTHORIZERS:
        yield _B12(
            one.at(AUTHORIZER),
            f"{one.get(AUTHORIZER).rpartition('.')[2]} on a controller",
            "it keeps its ACLs in ZooKeeper; the controller does not start",
            f"use {STANDARD}",
        )
    if one.node_id is not None and one.voters and one.node_id not in one.voters:
        yield _B12(
            one.at("node.id"),
            f"{one.node_id} is not in controller.quorum.voters",
            "the controller does not start",
            "add it",
        )


def _migrating(survey: Survey, one: Properties) -> Iterator[Outcome]:
    """What a controller needs for a migration besides."""
    now = standing(survey).stage
    if not one.flag(ENABLE) and now in {MigrationStage.DUAL_WRITE, MigrationStage.FINALISED}:
        yield from _ours(one)
        left = survey.live_brokers | {x.node_id for x in survey.brokers if x.node_id is not None}
        yield _ending(one, left if now is MigrationStage.DUAL_WRITE else ())
        return
    if not one.get(CONNECT):
        yield _B12(one.at(CONNECT), "missing", "the controller does not start", f"set {CONNECT}")
    yield from _ours(one)
    if not one.flag(ENABLE):
        yield _B12(
            one.at(ENABLE),
            "not true",
            "the controllers start a new cluster and can never migrate this one",
            f"set {ENABLE}=true before the first start",
        )


def _ending(one: Properties, left: Collection[int]) -> Outcome:
    """A controller's file for after the migration; ``left``: brokers in ZooKeeper mode."""
    if left:
        return _B12(
            one.at(ENABLE),
            f"not true, and {named('broker', sorted(left))} in ZooKeeper mode",
            "once this controller leads, Kafka's ends the migration, and those brokers see no "
            "change any more; kraft-bridge refuses them, and all callers",
            f"set {ENABLE}=true until every broker is in KRaft mode",
        )
    return _B12(
        one.at(ENABLE),
        "not true: a file for after the migration",
        "the roll that ends it has begun: Kafka's controllers end it as soon as one with such a "
        "file leads, kraft-bridge once all have it, and then there is no way back",
        "none, if it is to end; else set it",
        Severity.INFO,
    )


def _ours(one: Properties) -> Iterator[Outcome]:
    """What kraft-bridge controller refuses: some that Kafka's controllers take."""
    try:
        load(one.values)
    except ConfigError as error:
        yield _B12(
            one.at("kraft-bridge controller"),
            "; ".join(error.problems),
            "Kafka's controllers may start with this file; kraft-bridge controller does not",
            "none for Kafka's controllers; else change what it names",
            Severity.INFO,
        )


@rule(
    "W11",
    "no custom class is needed",
    "A custom policy refused changes in ZooKeeper mode, on the brokers. On the controllers "
    "the class was missing, and every change was accepted.",
)
def own_classes(survey: Survey) -> Iterator[Outcome]:
    """Authorizers and policies that a controller does not run, or runs differently."""
    yield from _none("W11", survey)
    for one in survey.all_files:
        authorizer = one.get(AUTHORIZER)
        if authorizer and authorizer not in KAFKA_AUTHORIZERS:
            yield _W11(
                one.at(AUTHORIZER),
                authorizer,
                "only ACLs as AclAuthorizer stores them are copied",
                "ask its vendor how to migrate",
                Severity.INFO if authorizer.startswith(CONFLUENTS) else None,
            )
        for key in ("alter.config.policy.class.name", "create.topic.policy.class.name"):
            if one.get(key):
                yield _W11(
                    one.at(key),
                    one.get(key),
                    "policies run on the controller in KRaft, and see other input for APPEND and "
                    "SUBTRACT; kraft-bridge runs none",
                    "install it on the controllers",
                )


@rule(
    "W13",
    "brokers run a recommended version",
    "Brokers had different values of inter.broker.protocol.version. Those that the controllers' "
    "metadata.version did not fit were refused.",
)
def good_version(survey: Survey) -> Iterator[Outcome]:
    """An inter.broker.protocol.version that migrates without a transaction, or an unset one."""
    yield from _none("W13", survey)
    # Only a release that is the last in ZooKeeper mode can have 3.9, and has it by default.
    older = [x for x in survey.brokers if x.protocol and x.protocol.level < LATEST.level]
    for one in survey.brokers:
        level = _level(one)
        if not one.get(IBP):
            yield _W13(
                one.at(IBP),
                "not set: the newest the release knows"
                + (f"; {older[0].name} has {older[0].get(IBP)}" if older else ""),
                "it must equal the controllers' metadata.version",
                f"set it to {older[0].get(IBP)} too"
                if older
                else "nothing to do while all brokers run the same release; else set one value on "
                "all of them",
                None if older else Severity.INFO,
            )
        elif level is not None and MIGRATION_LEVEL <= level < TRANSACTION_LEVEL:
            yield _W13(
                one.at(IBP),
                f"{one.get(IBP)}: below 3.6-IV1 the copy is not one transaction",
                "an interrupted copy leaves records, which must be removed",
                "3.9 is advised",
            )
    protocols = {one.get(IBP) for one in survey.brokers} - {""}
    if len({_level(one) for one in survey.brokers if one.get(IBP)}) > 1:
        yield finding(
            "W13",
            IBP,
            f"brokers disagree: {', '.join(sorted(protocols))}",
            "those that differ from the controllers' metadata.version are refused",
            "set one value on all brokers",
            "KIP-866, Preparing the Cluster",
        )


@rule(
    "W14",
    "listeners and authorizers fit the phase",
    "The brokers enforced ACLs, and the controllers had no authorizer: they let everybody do "
    "what they decide, and refused changes of ACLs.",
)
def listeners(survey: Survey) -> Iterator[Outcome]:
    """ACLs on the controllers as on the brokers, and listeners that KRaft has not."""
    yield from _none("W14", survey)
    given = {one.node_id for one in survey.targets}
    for one in survey.properties:
        if one.is_kraft_broker:
            continue  # B17 looks at it
        if one.get(CONTROL_PLANE):
            yield _W14(
                one.at(CONTROL_PLANE),
                one.get(CONTROL_PLANE),
                "KRaft has no such listener",
                "remove it before the brokers become KRaft brokers",
                Severity.INFO if one.node_id in given else None,
            )
    enforced = [one.name for one in survey.brokers if one.get(AUTHORIZER)]
    for one in survey.controllers:
        if enforced and not one.get(AUTHORIZER):
            yield _W14(
                one.at(AUTHORIZER),
                f"not set, but on {enforced[0]}",
                "CreateAcls and DeleteAcls are refused during the migration, and everybody may do "
                "what the controller decides",
                f"set {STANDARD} and super.users",
            )


# W21: what a controller decides by its own file, and a broker decided before.
#
# Values are compared by what they mean to Kafka: ` 3` and `3`, `TRUE` and `true`, a default
# that is written and one that is not are the same.

_W21: Final = FindingOf("W21", "KIP-500")
Meaning: TypeAlias = int | bool


@dataclass(frozen=True, slots=True)
class _Decision:
    """A property of the node that is the controller. ``what``: what it decides, before its value.

    ``grave``: records can be lost by a change to less, or to true.
    """

    key: str
    default: str
    what: str
    grave: bool = False


_DECISIONS: Final = (
    _Decision(
        "default.replication.factor",
        "1",
        "topics made without a number of replicas get",
        grave=True,
    ),
    _Decision("num.partitions", "1", "topics made without a number of partitions get"),
    _Decision("delete.topic.enable", "true", "the deletion of topics is allowed:"),
    _Decision(
        "unclean.leader.election.enable", "false", "unclean elections are allowed:", grave=True
    ),
    _Decision("auto.leader.rebalance.enable", "true", "preferred leaders are restored:"),
    _Decision(
        "leader.imbalance.check.interval.seconds",
        "300",
        "preferred leaders are restored after, in seconds,",
    ),
    _Decision(
        "delegation.token.max.lifetime.ms", "604800000", "delegation tokens live, in ms, at most"
    ),
    _Decision(
        "delegation.token.expiry.time.ms", "86400000", "delegation tokens are renewed for, in ms,"
    ),
)


@rule(
    "W21",
    "the controllers decide as the brokers did",
    "default.replication.factor stood in the brokers' files only. Topics that the controllers "
    "created had one replica, and a lost disk lost them.",
)
def decided(survey: Survey) -> Iterator[Outcome]:
    """Properties that a controller reads in KRaft mode, and a broker read before."""
    for decision in _DECISIONS if survey.brokers else ():
        for one in survey.controllers:
            yield from _compared(survey, one, decision)
    for one in survey.controllers:
        yield from _principals(survey, one)
    for one in (*survey.controllers, *survey.kraft_brokers):
        yield from _super_users(survey, one)
        yield from _everybody(survey, one)


def _compared(survey: Survey, one: Properties, decision: _Decision) -> Iterator[Outcome]:
    key = decision.key
    for file in (one, *survey.brokers):
        if file.provides(key):
            why = f"{file.name} takes {key} from a config provider, which is not asked here"
            yield NotRun("W21", why)
    after = _meaning(one, decision)
    before = [
        (x, meaning) for x in survey.brokers if (meaning := _meaning(x, decision)) is not None
    ]
    others = [(x, meaning) for x, meaning in before if meaning != after]
    if after is None or not others:
        return
    worse = [(x, meaning) for x, meaning in others if _is_worse(after, meaning)]
    file, value = (worse or others)[0]
    theirs = f"the brokers have {_shown(value)}"
    if len({meaning for _, meaning in before}) > 1:
        theirs = f"{file.name} has {_shown(value)}, and not every broker the same"
    mine = one.get(key) if key in one.values else f"not set, so {decision.default}"
    yield _W21(
        one.at(key),
        f"{mine}; {theirs}",
        f"in KRaft mode the controller decides: {decision.what} {_shown(after)}",
        "set it on the controllers as on the brokers, unless the change is meant",
        None if decision.grave and worse else Severity.INFO,
    )


def _meaning(one: Properties, decision: _Decision) -> Meaning | None:
    """What Kafka reads; None if that is not known, or nothing that Kafka takes (B25)."""
    key = decision.key
    text = one.get(key) if key in one.values else decision.default
    if one.provides(key) or why_refused(key, text):
        return None
    return same(text, "true") if key in BOOLEANS else whole(text)


def _is_worse(after: Meaning, before: Meaning) -> bool:
    """Whether records are less safe: fewer replicas, or unclean elections."""
    return after is True if isinstance(after, bool) else after < before


def _shown(value: Meaning) -> str:
    return str(value).lower()


def _principals(survey: Survey, one: Properties) -> Iterator[Outcome]:
    """The broker writes the caller's principal, and the controller reads it, with one class."""
    other = next((x for x in survey.brokers if x.principal_builder != one.principal_builder), None)
    if other is not None and not other.provides(BUILDER) and not one.provides(BUILDER):
        yield _W21(
            one.at(BUILDER),
            f"{one.get(BUILDER) or 'not set'}; {other.name} has {other.get(BUILDER) or 'none'}",
            "the controller cannot tell who asks: requests that brokers pass on to it are refused",
            "set it on the controllers as on the brokers; the class must be a KafkaPrincipalSerde",
        )


def _before(survey: Survey, one: Properties) -> list[Properties]:
    """Brokers' files with an authorizer: of the node itself, or of all if it is a controller."""
    files = [x for x in survey.brokers if x.get(AUTHORIZER)]
    return files if one.is_controller else [x for x in files if x.node_id == one.node_id]


def _super_users(survey: Survey, one: Properties) -> Iterator[Outcome]:
    """Principals that may do everything now, and will not."""
    if one.get(AUTHORIZER) != STANDARD or one.provides(SUPER_USERS):
        return
    for other in _before(survey, one):
        if other.provides(SUPER_USERS):
            continue
        # Between brokers: as whom the controllers see them, B19 looks at.
        broker = principal_of(other, other.inter_broker_listener, between_brokers=True)
        lacking = super_users(other) - super_users(one) - {broker}
        if lacking:
            yield _W21(
                one.at(SUPER_USERS),
                f"lacks {listed(sorted(lacking))}, which {other.name} has",
                "what they ask the controllers for is refused unless an ACL allows it: topics, "
                "configs, ACLs"
                if one.is_controller
                else "what they ask this broker for is refused unless an ACL allows it",
                "add them, unless they are to lose their rights",
            )
            return


def _everybody(survey: Survey, one: Properties) -> Iterator[Outcome]:
    """What callers may do where no ACL is."""
    if one.get(AUTHORIZER) != STANDARD or one.provides(ALLOW_EVERYONE):
        return
    mine = one.flag(ALLOW_EVERYONE)
    other = next(
        (
            x
            for x in _before(survey, one)
            if x.flag(ALLOW_EVERYONE) != mine and not x.provides(ALLOW_EVERYONE)
        ),
        None,
    )
    if other is not None:
        yield _W21(
            one.at(ALLOW_EVERYONE),
            f"{one.get(ALLOW_EVERYONE) or 'not set'}; {other.name} has "
            f"{other.get(ALLOW_EVERYONE) or 'none'}",
            "where no ACL is, everybody is let in, and nobody was before"
            if mine
            else "where no ACL is, nobody is let in, and everybody was before",
            "set it as on the brokers, unless the change is meant",
        )
