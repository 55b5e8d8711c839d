"""Rules on what concerns callers: access control entries, quotas, credentials, secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emulator.config.java_text import trim
from emulator.config.words import several
from emulator.operations.preflight.engine import NotRun, Outcome, Severity, finding, rule
from emulator.operations.preflight.node_file import AUTHORIZER, CONNECT, Properties
from emulator.operations.preflight.survey import Survey
from emulator.operations.preflight.targets import ACL_AUTHORIZERS
from emulator.znodes.acls import LITERAL, PREFIXED, parse, resource_of
from emulator.znodes.tree import ZnodeError

ACL_CONNECT: Final = "authorizer.zookeeper.url"
ACL_BACKLOG_MANY: Final = 1_000
ACL_RELEASES: Final = ("3.5", "3.6")
"""Kafka releases that CVE-2024-27309 affects."""
DEFAULT_ENTITY: Final = "<default>"

SECRETS: Final = (
    ("delegation.token.secret.key", "delegation.token.master.key", True),
    ("password.encoder.secret", "password.encoder.secret", False),
)
"""Property, its older name, and whether every node needs it once one has it."""


@rule(
    "W05",
    "ACLs have the same effect in the target release",
    "Kafka 3.5 and 3.6 lost access rules when one rule of a resource was removed during the "
    "migration: principals that had been denied were let in (CVE-2024-27309).",
)
def acls(survey: Survey) -> Iterator[Outcome]:
    """Entries unknown to the target, handled wrongly by some releases, or in another tree."""
    releases = [one.get("kraftbridge.release") for one in survey.controllers]
    releases += [one.get("inter.broker.protocol.version") for one in survey.brokers]
    releases = [one for one in releases if one.startswith(ACL_RELEASES)]
    # The protocol is lower than the release while brokers are being upgraded.
    affected = Severity.WARNING if releases else None
    if releases and not any(
        one.get("kraftbridge.release") in releases for one in survey.controllers
    ):
        affected = Severity.INFO
    for one in survey.brokers:
        yield from _elsewhere(one)
    prefixed = 0
    for root in ("/kafka-acl", "/kafka-acl-extended"):
        for path, node in survey.below(root):
            if not node.data:
                continue
            if resource_of(path) is None:
                yield _unread(path)
            else:
                prefixed += root == "/kafka-acl-extended"
                yield from _acl_entries(survey, path, affected)
    if prefixed:
        yield finding(
            "W05",
            "/kafka-acl-extended",
            f"{several(prefixed, 'resource')} with prefixed ACLs",
            "copied; brokers older than 2.0 do not look at them",
            "none",
            "KIP-290",
            Severity.INFO,
        )
    for root in ("/kafka-acl-changes", "/kafka-acl-extended-changes"):
        count = len(survey.children(root))
        if count >= ACL_BACKLOG_MANY:
            yield finding(
                "W05",
                root,
                several(count, "notification"),
                "brokers read them all when they start; they should be deleted after 15 minutes",
                "find out why no broker removes them",
                "ZkNodeChangeNotificationListener",
            )


def _elsewhere(one: Properties) -> Iterator[Outcome]:
    """ACLs in another tree than the one that is migrated (AclAuthorizer's own connect string)."""
    acl_connect = one.get(ACL_CONNECT)
    if one.get(AUTHORIZER) not in ACL_AUTHORIZERS or not acl_connect:
        return
    if one.provides(ACL_CONNECT) or one.provides(CONNECT):
        why = f"{one.name} takes {ACL_CONNECT} or {CONNECT} from a config provider"
        yield NotRun("W05", f"{why}, which is not asked here")
    elif not _one_tree(acl_connect, one.get(CONNECT)):
        yield finding(
            "W05",
            one.at(ACL_CONNECT),
            f"{acl_connect}: the ACLs are in another tree than that of {CONNECT}",
            "the migration copies none of them: once the brokers are KRaft brokers, what these "
            "ACLs allow is refused, and what they deny may be allowed",
            f"make the ACLs in the tree of {CONNECT} too, and remove {ACL_CONNECT}",
            "AclAuthorizer.configure",
            Severity.WARNING
            if _maybe_one_tree(acl_connect, one.get(CONNECT))
            else Severity.BLOCKER,
        )


def _one_tree(one: str, other: str) -> bool:
    """Whether two connect strings lead to the same tree: one chroot, and a server in common.

    >>> _one_tree("zk1,zk2:2181/k/", "zk3, zk1:2181/k"), _one_tree("zk1/k", "zk1")
    (True, False)
    """
    (servers, path), (others, other_path) = _servers_of(one), _servers_of(other)
    return path == other_path and bool(servers & others)


def _maybe_one_tree(one: str, other: str) -> bool:
    """Whether only DNS knows: one chroot, and here addresses where there are names.

    >>> _maybe_one_tree("10.0.0.1:2181/k", "zk1/k"), _maybe_one_tree("zk2", "zk1")
    (True, False)
    """
    (servers, path), (others, other_path) = _servers_of(one), _servers_of(other)
    numbers = [
        all(x.rpartition(":")[0].replace(".", "").isdigit() for x in y) for y in (servers, others)
    ]
    return path == other_path and numbers[0] != numbers[1]


def _servers_of(connect: str) -> tuple[frozenset[str], str]:
    """Servers, each with its port, and the chroot."""
    servers, _, path = connect.partition("/")
    named = (trim(part).lower() for part in servers.split(",") if trim(part))
    return frozenset(x if ":" in x else f"{x}:2181" for x in named), path.strip("/")


def _unread(path: str) -> Outcome:
    """A znode below the roots of ACLs where no broker and no controller looks for entries."""
    return finding(
        "W05",
        path,
        f"is not where Kafka looks for ACLs: {LITERAL}/TYPE/NAME or {PREFIXED}/TYPE/NAME, with a "
        "type written as in TransactionalId",
        "not copied, and without effect now: what it allows or denies is allowed or denied nobody",
        "delete the znode, and make the ACL with kafka-acls if it is meant",
        "ZkAclStore, SecurityUtils.resourceType",
    )


def _acl_entries(survey: Survey, path: str, affected: Severity | None) -> Iterator[Outcome]:
    entries = survey.entries(path)
    try:
        parse(path, survey.data(path))
    except ZnodeError as error:
        yield finding(
            "W05",
            path,
            f"an entry is unknown to Kafka 3.9: {error.why}",
            "refused by the copy; a broker with AclAuthorizer does not start with it",
            "remove the entry",
            "AclEntry.fromBytes",
        )
    denies = any(entry.get("permissionType") in ("Deny", "DENY") for entry in entries)
    if affected is not None and (denies or len(entries) > 2):
        yield finding(
            "W05",
            path,
            f"{several(len(entries), 'entry', 'entries')}{', some of them Deny' if denies else ''}",
            "after one is removed during the migration, Kafka up to 3.6.1 may ignore the others",
            "run controllers and brokers of 3.6.2 or later",
            "CVE-2024-27309",
            affected,
        )


@rule(
    "W06",
    "users, clients and addresses are distinct",
    "Quotas and credentials of one user are in one znode. Kafka releases before 3.5 lost "
    "one kind when the other was written during the migration.",
)
def entities(survey: Survey) -> Iterator[Outcome]:
    """Quotas and credentials on one user, defaults, quotas of addresses."""
    for name in survey.children("/config/users"):
        path = f"/config/users/{name}"
        keys = survey.config(path)
        scram = sorted(key for key in keys if key.startswith("SCRAM-"))
        if scram and len(keys) > len(scram):
            yield finding(
                "W06",
                path,
                f"holds {', '.join(scram)} beside quotas",
                "one znode, two kinds of records: both are copied",
                "none",
                "KAFKA-14970",
                Severity.INFO,
            )
        if scram and name == DEFAULT_ENTITY:
            yield finding(
                "W06",
                path,
                f"{', '.join(scram)} of the default user",
                "nobody can log in as the default user; Kafka would make a user of that name",
                "remove the credential",
                "ZkConfigMigrationClient",
            )
    for root in ("/config/users", "/config/clients", "/config/ips"):
        for path, node in survey.below(root):
            if node.data and path.endswith(DEFAULT_ENTITY) and survey.config(path):
                yield finding(
                    "W06",
                    path,
                    "a default",
                    "copied; it limits every client without a quota of its own",
                    "none",
                    "KIP-546",
                    Severity.INFO,
                )
    for name in survey.children("/config/ips"):
        if survey.config(f"/config/ips/{name}"):
            yield finding(
                "W06",
                f"/config/ips/{name}",
                "a quota of an address",
                "in Kafka's dual write its removal does not reach ZooKeeper",
                "none with kraft-bridge",
                "KIP-612",
                Severity.INFO,
            )


@rule(
    "W19",
    "secrets are the same on all nodes",
    "The controllers had another delegation.token.secret.key than the brokers, or none: tokens "
    "of before could not be used once they answered.",
)
def secrets(survey: Survey) -> Iterator[Outcome]:
    """The secrets of tokens and of encoded passwords, in the files of brokers and controllers."""
    for key, older, of_tokens in SECRETS:
        for one in survey.all_files:
            if any(one.provides(x) for x in {key, older}):
                why = f"{one.name} takes {key} from a config provider, which is not asked here"
                yield NotRun("W19", why)
        known = next((x for x in survey.brokers if _secret(x, key, older)), None)
        if known is not None:
            yield from _as_on(survey, known, key, older, of_tokens=of_tokens)
        elif of_tokens and survey.children("/delegation_token/tokens"):
            for one in survey.controllers:
                if _secret(one, key, older) == "":
                    yield finding(
                        "W19",
                        one.at(key),
                        "not set, and there are tokens in /delegation_token/tokens",
                        "tokens of before cannot be used, and no new ones can be asked for",
                        "set it as it was when the tokens were made",
                        "KIP-866, Configurations",
                    )


def _as_on(
    survey: Survey, known: Properties, key: str, older: str, *, of_tokens: bool
) -> Iterator[Outcome]:
    """Files that have another secret than a broker's."""
    secret = _secret(known, key, older)
    controllers = [one for one in survey.all_files if one.is_controller]
    if of_tokens:
        others = [*survey.brokers, *controllers, *survey.kraft_brokers]
    else:
        # B08 says where it is needed; a KRaft broker needs it no more.
        others = [*survey.brokers, *(one for one in controllers if _secret(one, key, older))]
    for one in others:
        mine = _secret(one, key, older)
        if mine is None or mine == secret:
            continue
        yield finding(
            "W19",
            one.at(key),
            f"{'another' if mine else 'not set'}; {known.name} has one",
            "tokens of before cannot be used there, and no new ones can be asked for"
            if of_tokens
            else "passwords that are encoded with one secret cannot be decoded with the other",
            "set the same on all nodes",
            "KIP-866, Configurations",
        )


def _secret(one: Properties, key: str, older: str) -> str | None:
    """A secret of a file, empty if it has none; None if a config provider fills it in.

    Kafka takes the older name only if there is no other.
    """
    name = key if key in one.values else older
    return None if one.provides(name) else one.get(name)
