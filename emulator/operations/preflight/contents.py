"""Rules on the content of znodes: readable, decodable, writable, known to the target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from emulator.config.passwords import is_password
from emulator.config.words import install
from emulator.config.zookeeper import identity
from emulator.migration.taking_over.preconditions import Why
from emulator.operations.preflight.engine import Finding, NotRun, Outcome, finding, rule
from emulator.operations.preflight.node_file import number
from emulator.operations.preflight.survey import REDACTED, DumpedZnode, Survey
from emulator.operations.preflight.topics import topic_ids
from emulator.znodes import controller, migration

FEATURE: Final = "/feature"
_BESIDE: Final = ("/controller", FEATURE)
"""Znodes that Kafka reads beside those that are copied."""
WRITTEN: Final = (
    "/admin/delete_topics",
    "/brokers/topics",
    "/config",
    "/controller",
    "/controller_epoch",
    "/delegation_token",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended",
    "/kafka-acl-extended-changes",
    "/latest_producer_id_block",
    "/migration",
)
"""Trees that a migration writes to."""
JUTE_MAX_BYTES: Final = 1_048_575
WRITE, CREATE, DELETE = 2, 4, 8
"""Permissions, as ZooKeeper numbers them."""
_PERMISSIONS: Final = {WRITE: "write", CREATE: "create below", DELETE: "delete below"}
_SET: Final = frozenset({"/controller", "/controller_epoch", "/latest_producer_id_block"})
"""Znodes that are only ever set, though their data may be null."""
ZNODES_MANY: Final = 800_000
CLOSED: Final = "B07"
"""The rule that reports znodes that may not be read."""
_UNCOPIED: Final = frozenset(
    one.value for one in (Why.MALFORMED_ZNODE, Why.MIGRATION_ZNODE, Why.NO_CONTROLLER_EPOCH)
)
"""Refusals of the copy that no other rule reports."""


@rule(
    "B07",
    "what is migrated can be read",
    "One znode that somebody had written by hand was no JSON. The copy failed on it, at every "
    "attempt, without naming it.",
)
def readable(survey: Survey) -> Iterator[Outcome]:
    """Everything that the copy would refuse; registrations and features that are no JSON object."""
    yield from _closed(survey)
    reported = {one.znode for one in topic_ids(survey) if isinstance(one, Finding)} | {
        migration.PATH
    }
    hidden = [one.znode for one in survey.copy.unchecked]
    for path in hidden:
        if survey.nodes[path].data == REDACTED:
            yield NotRun("B07", f"{path} was left out of the dump as a secret")
    names = [name for name in survey.children("/brokers/ids") if number(name) is not None]
    beside = [path for path in _BESIDE if path in survey.nodes]
    for path in (*(f"/brokers/ids/{name}" for name in names), *beside):
        if fact := _odd(survey.data(path)):
            reported.add(path)
            yield _unreadable(path, fact)
    if FEATURE not in reported and FEATURE in survey.nodes:
        yield from _features(survey.json(FEATURE))
    # B08 reports it for the passwords of brokers.
    part = [path for path in hidden if not path.startswith("/config/brok")]
    part = [path for path in part if survey.nodes[path].data != REDACTED]
    if part:
        yield NotRun(
            "B07",
            f"{len(part):,} znodes with secrets left out of the dump, the first {part[0]}: use "
            "--zookeeper, or a dump made with --with-secrets",
        )
    for one in survey.copy.refusals:
        if one.code == Why.METADATA_VERSION.value and one.znode != "/":
            yield finding(
                "B07",
                one.znode,
                one.reason,
                "kraft-bridge refuses the copy: there is no record that could hold it",
                "raise inter.broker.protocol.version on every broker, and metadata.version with it",
                "KIP-778",
            )
        elif one.code in _UNCOPIED and one.znode not in reported:
            missing = one.code == Why.NO_CONTROLLER_EPOCH.value
            ours = _REPAIR_EPOCH if one.znode == controller.EPOCH_PATH else _REPAIR
            yield _unreadable(one.znode, one.reason, _NEVER_ELECTED if missing else ours)


def _features(found: dict[str, Any]) -> Iterator[Outcome]:
    """A version or a status that no broker reads (FeatureZNode, Kafka 3.9)."""
    for key, known in (("version", (1, 2)), ("status", (0, 1))):
        value = found.get(key)
        if type(value) is not int or value not in known:
            yield finding(
                "B07",
                FEATURE,
                f"{key} {value if key in found else 'missing'}: "
                f"{known[0]} and {known[1]} are known",
                "a ZooKeeper-mode broker that reads it ends: none starts for the migration",
                "while all brokers are down, delete the znode: the next controller makes it anew",
                "FeatureZNode",
            )


def _closed(survey: Survey) -> Iterator[Outcome]:
    paths = sorted(survey.closed)
    more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
    if paths and survey.closed_to:
        yield finding(
            CLOSED,
            paths[0],
            f"{survey.closed_to}, as whom the controller logs in, may not read it{more}",
            "the copy fails with NoAuth, at every attempt",
            "give the controller the brokers' own ZooKeeper credentials",
            "KIP-866, Configurations",
        )
    elif paths:
        yield NotRun(
            CLOSED,
            f"{paths[0]}{more} may not be read with this login, nor what is below: give the file "
            "of a controller, with its login, as the first -c",
        )


def _odd(data: bytes | None) -> str:
    if not data:
        return "no data"
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"no JSON: {error}"
    except RecursionError:
        return "no JSON: nested too deeply"
    return "" if isinstance(found, dict) else "no JSON object"


_REPAIR: Final = "repair or delete the znode; kraft-bridge plan --dump names every refusal"
_REPAIR_EPOCH: Final = (
    "write the last epoch that the brokers know, which is in the log of each; never delete it: the "
    "next controller would begin with 1, and brokers refuse what is below the epoch they know"
)
_NEVER_ELECTED: Final = (
    "check the chroot of zookeeper.connect; if it is right, start the brokers in ZooKeeper mode: "
    "the first controller among them makes this znode"
)


def _unreadable(path: str, fact: str, remedy: str = _REPAIR) -> Outcome:
    return finding(
        "B07",
        path,
        fact,
        "kraft-bridge refuses the copy; Kafka's controller fails on it at every attempt",
        remedy,
        "KIP-866, Initial Data Migration",
    )


@rule(
    "B08",
    "encoded passwords can be decoded",
    "The controllers had no password.encoder.secret: the encoded text of passwords was copied "
    "as if it were the password, and the brokers could not open their keystores.",
)
def passwords(survey: Survey) -> Iterator[Outcome]:
    """Encoded values of dynamic broker configs need the brokers' secret on the controllers."""
    controllers = survey.controllers or survey.properties
    secret = any(one.get("password.encoder.secret") for one in controllers)
    without = [one.name for one in controllers if not one.get("password.encoder.secret")]
    for name in survey.children("/config/brokers"):
        path = f"/config/brokers/{name}"
        for key, value in sorted(survey.config(path).items()):
            if value == REDACTED.decode():
                yield NotRun("B08", f"{path}: {key} was left out of the dump as a secret")
                if survey.controllers and without and is_password(key):
                    yield _no_secret(path, f"{key} is a password", without)
            elif "encryptedPassword:" in str(value):
                yield from _encoded(survey, path, key, without, secret=secret)
    if secret and survey.decodes:
        for one in survey.copy.refusals:
            if one.code == Why.ENCODED.value:
                yield finding(
                    "B08",
                    one.znode,
                    one.reason,
                    "it cannot be copied",
                    "set password.encoder.secret on the controllers as on the brokers",
                    "KAFKA-14801",
                )


def _no_secret(path: str, fact: str, without: list[str]) -> Outcome:
    return finding(
        "B08",
        path,
        f"{fact}, and password.encoder.secret is not set in {', '.join(without)}",
        "it cannot be copied; Kafka's controller would copy the encoded text as if it were "
        "the password",
        "set password.encoder.secret on the controllers as on the brokers",
        "KAFKA-14801",
    )


def _encoded(
    survey: Survey, path: str, key: str, without: list[str], *, secret: bool
) -> Iterator[Outcome]:
    if not survey.properties:
        yield NotRun("B08", f"{path}: {key} is encoded; no server.properties given: use -c")
    elif without and (survey.controllers or not secret):
        yield _no_secret(path, f"{key} is encoded", without)
    elif not survey.decodes:
        yield NotRun(
            "B08",
            f"{path}: {key} is encoded, and cannot be decoded here; {install('passwords')}",
        )


@rule(
    "B09",
    "every znode can be written",
    "ZooKeeper's ACLs let only the brokers' user write. The controllers logged in as another "
    "user, claimed nothing and failed with NoAuth.",
)
def writable(survey: Survey) -> Iterator[Outcome]:
    """ACLs of znodes against the credentials that the controller will have."""
    shut: dict[tuple[frozenset[str], str], list[str]] = {}
    for path, node in survey.nodes.items():
        if not node.acl or not any(path == root or path.startswith(f"{root}/") for root in WRITTEN):
            continue
        needed = _needed(survey, path, node)
        able = _able(node, needed)
        if able is not None and not able & survey.identities:
            lacks = _lacking(node, needed, survey.identities)
            shut.setdefault((able, lacks), []).append(path)
    common = frozenset.intersection(*(able for able, _ in shut)) if shut else frozenset()
    if common and login_elsewhere(survey):
        yield NotRun(
            "B09",
            f"the tree belongs to {', '.join(sorted(common))}, and the login is in no file given: "
            "say it with --identity",
        )
        return
    for (able, lacks), paths in sorted(shut.items(), key=lambda one: (sorted(one[0][0]), one[1])):
        owner = ", ".join(sorted(able)) or "nobody"
        given = ", ".join(sorted(survey.identities)) or "no credentials"
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        yield finding(
            "B09",
            paths[0],
            f"{owner} may {lacks} it{more}, and the controller has {given}",
            "the claim or a later write fails with NoAuth",
            "give the controller the brokers' own ZooKeeper credentials",
            "KIP-866, Configurations",
        )


def _needed(survey: Survey, path: str, node: DumpedZnode) -> tuple[int, ...]:
    """What a dual write does to a znode: sets it, or makes and removes znodes below it."""
    if path in _SET or path.endswith("/state") or path == migration.PATH:
        return (WRITE,)
    if not node.data:
        return (CREATE, DELETE)
    return (WRITE, CREATE, DELETE) if survey.children(path) else (WRITE,)


def _able(node: DumpedZnode, needed: tuple[int, ...]) -> frozenset[str] | None:
    """Identities that may do all of it, by all entries together; None: everybody may.

    ZooKeeper asks for each permission by itself, and any entry may grant it.
    """
    granted: dict[str, int] = {}
    for permissions, scheme, name in node.acl:
        who = "" if scheme == "world" else identity(scheme, name)
        granted[who] = granted.get(who, 0) | permissions
    everybody = granted.pop("", 0)
    if all(everybody & one for one in needed):
        return None
    return frozenset(
        who for who, what in granted.items() if all((what | everybody) & one for one in needed)
    )


def _lacking(node: DumpedZnode, needed: tuple[int, ...], identities: frozenset[str]) -> str:
    """What none of the identities may do."""
    lacks = []
    for permission in needed:
        able = _able(node, (permission,))
        if able is not None and not able & identities:
            lacks.append(_PERMISSIONS[permission])
    return " and ".join(lacks)


def login_elsewhere(survey: Survey) -> bool:
    """Whether the controllers log in to ZooKeeper, by a JAAS file or certificate that is not given.

    Without a controller's file nothing is known of its login.
    """
    if survey.identities:
        return False
    keys = ("zookeeper.set.acl", "zookeeper.ssl.client.enable")
    return all(any(one.flag(key) for key in keys) for one in survey.controllers)


@rule(
    "W12",
    "no znode is too large, and there are not too many",
    "The znode of a topic with very many partitions was near ZooKeeper's limit. With the next "
    "partition ZooKeeper closed the connection, without an answer.",
)
def sizes(survey: Survey) -> Iterator[Outcome]:
    """Half of ``jute.maxbuffer`` for one znode; near a million znodes in all."""
    limits = (number(one.get("jute.maxbuffer")) for one in survey.properties)
    limit = min((one for one in limits if one is not None), default=JUTE_MAX_BYTES)
    for path, node in survey.nodes.items():
        size = len(node.data or b"")
        if size > limit // 2:
            yield finding(
                "W12",
                path,
                f"{size:,} bytes; jute.maxbuffer is {limit:,}",
                "above the limit neither brokers nor controllers can read or write it",
                "raise jute.maxbuffer on ZooKeeper, brokers and controllers",
                "ZooKeeper, jute.maxbuffer",
            )
    if len(survey.nodes) > ZNODES_MANY:
        yield finding(
            "W12",
            "/",
            f"{len(survey.nodes):,} znodes",
            "reading them all takes long, and each claim reads them all",
            "remove znodes that are not needed",
            "KIP-866, Initial Data Migration",
        )
