"""Rules on the identity of a node: ``meta.properties``, ids, and the principal it is seen as."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from emulator.config import jaas
from emulator.config.authorizer import ALLOW_EVERYONE, STANDARD, SUPER_USERS
from emulator.config.java_text import trim
from emulator.operations.preflight.engine import FindingOf, NotRun, Outcome, Severity, finding, rule
from emulator.operations.preflight.node_file import AUTHORIZER, ENABLE, NAMES, Properties, number
from emulator.operations.preflight.stage import standing
from emulator.operations.preflight.survey import Survey
from emulator.operations.preflight.targets import ACL_AUTHORIZERS
from wire.text import uuid_from_text

ANONYMOUS: Final = "User:ANONYMOUS"
A_SUBJECT: Final = "the subject of a certificate, or another principal that its file does not say"
CLUSTER_ACL: Final = "/kafka-acl/Cluster/kafka-cluster"
_B18: Final = FindingOf("B18", "KAFKA-20762")
_B19: Final = FindingOf("B19", "KIP-801")
_OF_A_HOST: Final = re.compile("[/@].*", re.DOTALL)


@rule(
    "B18",
    "meta.properties and ids have the form that Kafka reads",
    "A replaced node was formatted with kafka-storage: its meta.properties had version 1, and "
    "after the rollback the broker did not start.",
)
def forms(survey: Survey) -> Iterator[Outcome]:
    """Version and ids in each ``meta.properties``, and the form of the cluster id."""
    yield from _cluster_id(survey)
    directories: dict[str, str] = {}
    folders: dict[str, list[Properties]] = {}
    for one in survey.all_files:
        for folder, why in one.unread.items():
            yield NotRun("B18", f"meta.properties in {folder}, which {one.name} names: {why}")
        for folder in one.metas or ([f"of {one.name}"] if one.meta else ()):
            folders.setdefault(folder, []).append(one)
    for folder, files in folders.items():
        meta = files[0].metas.get(folder, files[0].meta)
        owner = owner_of(files, meta)
        if owner is None:
            yield NotRun(
                "B18",
                f"{folder}: {len(files)} files name it, and its meta.properties is of none of "
                "these nodes: files of other machines",
            )
            continue
        yield from _meta(owner, folder, meta)
        if "directory.id" in meta:
            yield from _directory(owner, folder, meta["directory.id"], directories)


def owner_of(files: list[Properties], meta: Mapping[str, str]) -> Properties | None:
    """Whose folder it is. Files from several machines may name one path; one is there to be read.

    None if it is of none of them.
    """
    node_id = number(meta.get("node.id") or meta.get("broker.id", ""))
    owner = next((one for one in files if one.node_id == node_id), None)
    return files[0] if owner is None and len({one.node_id for one in files}) == 1 else owner


def _directory(
    one: Properties, folder: str, directory: str, directories: dict[str, str]
) -> Iterator[Outcome]:
    if not is_uuid(directory):
        yield _B18(
            one.at("meta.properties"),
            f"directory.id {directory} in {folder} is no UUID",
            "the node does not start",
            "remove the line: the node writes a new one",
        )
    elif directories.setdefault(directory, folder) != folder:
        yield _B18(
            one.at("meta.properties"),
            f"directory.id {directory} is in {directories[directory]} and in {folder}",
            "the two folders are taken for one: replicas of one of them are lost",
            "remove the line from the copy: the node writes a new one",
        )


def _cluster_id(survey: Survey) -> Iterator[Outcome]:
    cluster_id = survey.json("/cluster/id").get("id")
    if not isinstance(cluster_id, str) or not cluster_id:
        return
    if not is_uuid(cluster_id):
        yield finding(
            "B18",
            "/cluster/id",
            f"{cluster_id} is no UUID in base64",
            "no controller can be formatted for this cluster: kafka-storage and kraft-bridge "
            "format refuse such an id",
            "while all brokers are down, give the cluster an id in that form, in /cluster/id and "
            "in each meta.properties",
            "StorageTool",
        )
    elif cluster_id.startswith("-"):
        yield finding(
            "B18",
            "/cluster/id",
            f"{cluster_id} begins with a dash",
            "a command line takes it for an option: kafka-storage fails, or formats another id",
            f"write --cluster-id={cluster_id}, with an equals sign",
            "KAFKA-15754",
            Severity.INFO,
        )


def _meta(one: Properties, folder: str, meta: Mapping[str, str]) -> Iterator[Outcome]:
    # Without a version it is 0; the others are read to the letter (MetaProperties, Kafka 3.9).
    version, where = number(trim(meta.get("version", "0"))), folder
    if version not in {0, 1}:
        yield _B18(
            one.at("meta.properties"),
            f"meta.properties in {where} has version {meta['version']}",
            "the node does not start: 0 and 1 are known",
            "restore the file",
        )
        return
    lacking = [x for x in ("node.id", "cluster.id") if version == 1 and not meta.get(x)]
    if lacking:
        yield _B18(
            one.at("meta.properties"),
            f"meta.properties in {where} has no {' and no '.join(lacking)}",
            "the node does not start",
            "restore the file",
        )
    short = [x for x in ("broker.id", "cluster.id") if version == 0 and not meta.get(x)]
    if short and not one.is_controller:
        yield _B18(
            one.at("meta.properties"),
            f"meta.properties in {where} has no {' and no '.join(short)}",
            "a broker in ZooKeeper mode takes it, and writes it whole when it starts; as a KRaft "
            "broker it does not start",
            "write the missing lines while the broker is down, or start it in ZooKeeper mode once",
            Severity.WARNING,
        )
    key = "broker.id" if version == 0 else "node.id"
    written, mine = number(meta.get(key, "")), one.node_id
    if mine is not None and written is not None and written != mine:
        yield _B18(
            one.at("meta.properties"),
            f"{key} {written} in {where}, and the file says {mine}",
            "the node does not start: the folder is another node's",
            "give the node its own folder, or its own id",
        )
    if meta.get(key) and written is None:
        yield _B18(
            one.at("meta.properties"),
            f"{key} {meta[key]!r} in {where} is no id",
            "the node does not start",
            "restore it",
        )
    if version == 1 and one.is_zookeeper_broker:
        held = one.flag(ENABLE)
        yield _B18(
            one.at("meta.properties"),
            f"meta.properties in {where} has version 1, as kafka-storage writes it",
            "the broker does not start in ZooKeeper mode once the migration is switched off: it "
            "cannot be rolled back"
            if held
            else "the broker does not start in ZooKeeper mode, which needs version 0",
            f"before a rollback write version=0 and broker.id={mine} instead of node.id",
            Severity.WARNING if held else None,
        )
    if version == 0 and one.is_controller:
        yield _B18(
            one.at("meta.properties"),
            f"meta.properties in {where} has version {meta.get('version', '0')}, a ZooKeeper-mode "
            "broker's",
            "the controller does not start",
            "format an empty folder for the controller",
        )


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID as Kafka writes it, in base64.

    >>> is_uuid("AAAAAAAAAAAAAAAAAAAAAw"), is_uuid("mine")
    (True, False)
    """
    try:
        return len(uuid_from_text(text)) == 16
    except ValueError:
        return False


@rule(
    "B19",
    "the controllers let the brokers register",
    "The brokers were not among the super users of the controllers: each registration was "
    "refused. ACLs in ZooKeeper did not help: they are copied after all have registered.",
)
def principals(survey: Survey) -> Iterator[Outcome]:
    """ClusterAction or super.users for each broker's principal, on the controllers."""
    callers = [*survey.brokers, *survey.kraft_brokers]
    # A controller's votes, fetches and registration need it as well as a broker's.
    callers += [one for one in survey.all_files if one.is_controller]
    callers = [one for one in callers if one.names(NAMES)]
    guarded = [
        one for one in survey.all_files if one.is_controller and one.get(AUTHORIZER) == STANDARD
    ]
    unknown: set[str] = set()
    for controller in guarded:
        users = super_users(controller)
        reported: set[str] = set()
        for one in callers:
            principal = principal_of(one, one.names(NAMES)[0])
            if principal is None and (not users or _no_subject(one, users)):
                principal = A_SUBJECT
            if principal is None:
                unknown.add(one.name)
            elif principal not in users | reported and not _let_in(survey, controller, principal):
                reported.add(principal)
                yield _refused(survey, controller, one, principal)
    for name in sorted(unknown):
        yield NotRun("B19", f"{name} does not say its principal on the controllers' listener")
    yield from _back(survey)


def _let_in(survey: Survey, controller: Properties, principal: str) -> bool:
    """Whether a controller lets in a caller that is no super user, before the copy and after it."""
    now = standing(survey)
    copied = now.in_kraft and now.complete
    if copied and granted_cluster_action(survey, principal):
        return True
    return _open(survey, controller, principal)


def _open(survey: Survey, one: Properties, principal: str) -> bool:
    """Whether everybody is let in where no ACL is, before the copy and after it."""
    if not one.flag(ALLOW_EVERYONE):
        return False
    return not survey.entries(CLUSTER_ACL) or granted_cluster_action(survey, principal)


def _no_subject(one: Properties, users: frozenset[str]) -> bool:
    """Whether a broker is seen by its certificate, and no super user is a certificate's subject."""
    listener = one.names(NAMES)[0]
    rules = "ssl.principal.mapping.rules"
    if one.protocols.get(listener) != "SSL" or one.principal_builder:
        return False
    if one.get(rules) or one.get(f"listener.name.{listener.lower()}.{rules}"):
        return False
    return not any("=" in user or user == ANONYMOUS for user in users)


def _refused(survey: Survey, controller: Properties, one: Properties, principal: str) -> Outcome:
    granted = granted_cluster_action(survey, principal)
    if one.is_controller:
        return _B19(
            controller.at(SUPER_USERS),
            f"does not name {principal}, as which {one.name} is seen by the controllers",
            "votes, fetches and registrations of controllers are refused with "
            "CLUSTER_AUTHORIZATION_FAILED: several elect no leader, and even one alone never "
            "registers, so the migration does not begin",
            "add the controllers' principal to super.users of every controller",
        )
    return _B19(
        controller.at(SUPER_USERS),
        f"does not name {principal}, as which {one.name} is seen"
        + (f"; {CLUSTER_ACL} lets it do ClusterAction" if granted else ""),
        "its registration is refused with CLUSTER_AUTHORIZATION_FAILED: ACLs are copied only after "
        "every broker has registered, so the migration never starts"
        if granted
        else "its registration is refused with CLUSTER_AUTHORIZATION_FAILED, and the migration "
        "never starts",
        "add the brokers' principal to super.users of every controller",
    )


def _back(survey: Survey) -> Iterator[Outcome]:
    """The controllers' requests to the brokers, which need ClusterAction there."""
    controllers = [one for one in survey.all_files if one.is_controller]
    reported: set[tuple[str, str]] = set()
    for one in survey.brokers:
        authorizer = one.get(AUTHORIZER)
        if one.is_untouched or authorizer not in ACL_AUTHORIZERS:
            continue
        for controller in controllers:
            principal = principal_of(controller, one.inter_broker_listener, between_brokers=True)
            if principal is None or principal in super_users(one) or _open(survey, one, principal):
                continue
            if granted_cluster_action(survey, principal) or (one.name, principal) in reported:
                continue
            reported.add((one.name, principal))
            yield _B19(
                one.at(SUPER_USERS),
                f"does not name {principal}, as which {controller.name} calls the brokers",
                "the broker refuses the controllers' LeaderAndIsr and UpdateMetadata requests: it "
                "never learns of a new leader",
                f"add {principal} to super.users, or allow it ClusterAction on the cluster",
            )


def super_users(one: Properties) -> frozenset[str]:
    """``super.users``, which semicolons separate."""
    return frozenset(trim(part) for part in one.get(SUPER_USERS).split(";") if trim(part))


def principal_of(one: Properties, listener: str, *, between_brokers: bool = False) -> str | None:
    """The principal of a node that connects to a listener; None if its file does not show it.

    Of TLS it is in a certificate, which is not read; of Kerberos the first part of the name.
    """
    protocol = one.protocols.get(listener, listener)
    if one.principal_builder:
        return None
    if protocol == "PLAINTEXT":
        return ANONYMOUS
    if not protocol.startswith("SASL_"):
        return None
    which = "inter.broker" if between_brokers else "controller"
    mechanism = one.get(f"sasl.mechanism.{which}.protocol") or "GSSAPI"
    prefix = f"listener.name.{listener.lower()}."
    jaas_config = (
        one.get(f"{prefix}{mechanism.lower()}.sasl.jaas.config")
        or one.get(f"{prefix}sasl.jaas.config")
        or one.get("sasl.jaas.config")
    )
    if mechanism == "OAUTHBEARER":
        return None
    try:
        options = jaas.one_module(jaas_config).options
    except ValueError:
        return None
    kerberos = mechanism == "GSSAPI"
    name = options.get("principal" if kerberos else "username", "")
    name = _OF_A_HOST.sub("", name) if kerberos else name
    return f"User:{name}" if name else None


def granted_cluster_action(survey: Survey, principal: str) -> bool:
    """Whether ACLs in ZooKeeper let a principal do ClusterAction, from any host."""
    granted = False
    for entry in survey.entries(CLUSTER_ACL):
        if str(entry.get("principal")) not in {principal, "User:*"}:
            continue
        if str(entry.get("operation")) not in {"ClusterAction", "All"}:
            continue
        if entry.get("permissionType") == "Deny":
            return False
        granted |= entry.get("host") == "*" and entry.get("permissionType") == "Allow"
    return granted
