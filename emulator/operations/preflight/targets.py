"""Rules on target files: what the nodes will have once they are KRaft brokers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from posixpath import normpath
from typing import Final

from emulator.config.authorizer import STANDARD
from emulator.config.java_text import whole
from emulator.config.listeners import Listener
from emulator.operations.preflight.endpoints import (
    ADVERTISED,
    LISTENERS,
    advertised,
    between,
    controller_names,
    hidden,
    listening,
    parsed,
    problems,
    unmapped,
)
from emulator.operations.preflight.engine import FindingOf, NotRun, Outcome, Severity, listed, rule
from emulator.operations.preflight.node_file import (
    AUTHORIZER,
    BOOTSTRAP,
    BUILDER,
    CONTROL_PLANE,
    ENABLE,
    IBP,
    MECHANISMS,
    NAMES,
    VOTERS,
    Properties,
    number,
)
from emulator.operations.preflight.survey import Survey

ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
ACL_AUTHORIZERS: Final = frozenset({ACL_AUTHORIZER, "kafka.security.auth.SimpleAclAuthorizer"})
"""Kafka's authorizers that keep ACLs in ZooKeeper."""
_B17: Final = FindingOf("B17", "KIP-866, Migrating Brokers to KRaft")
_KEEP: Final = "none, if it is meant; else write what the node has now"
_W15: Final = FindingOf("W15", "KIP-866, Migrating Brokers to KRaft")


@rule(
    "B17",
    "target files start a KRaft broker",
    "After the roll the brokers did not start: AclAuthorizer, which needs ZooKeeper, was still "
    "in their files; on others the id, the roles or the listeners did not fit.",
)
def target_files(survey: Survey) -> Iterator[Outcome]:
    """What Kafka refuses in the file of a KRaft broker, and ids that do not fit the cluster."""
    if not survey.targets and not survey.kraft_brokers:
        yield NotRun("B17", "no target file given: use --target")
        return
    for one in survey.targets:
        if one.is_zookeeper_broker and not one.flag(ENABLE):
            yield _B17(
                one.at("process.roles"),
                "missing",
                "the node starts as a ZooKeeper-mode broker again",
                "set process.roles=broker (or controller)",
            )
    for one in survey.kraft_brokers:
        yield from _role(one)
        yield from _quorum(one)
        yield from _listeners(one)
        yield from _authorizer(survey, one)
        yield from _metadata_folder(survey, one)
        yield from _new_folders(survey, one)
        yield from _left(one)
    yield from _ids(survey)


def _role(one: Properties) -> Iterator[Outcome]:
    if one.provides("node.id") or one.provides("broker.id"):
        yield NotRun("B17", f"{one.name} takes its id from a config provider")
    elif one.node_id is None:
        yield _B17(
            one.at("node.id"),
            f"{one.get('node.id')!r} is no id" if one.get("node.id") else "missing",
            "the node does not start",
            "set it to its broker.id",
        )
    elif one.get("broker.id") and number(one.get("broker.id")) != one.node_id:
        yield _B17(
            one.at("node.id"),
            f"{one.get('node.id')}, and broker.id={one.get('broker.id')}",
            "the node does not start: both must be equal",
            "set node.id to its broker.id",
        )


def _quorum(one: Properties) -> Iterator[Outcome]:
    if not one.finds_controllers:
        yield _B17(
            one.at(VOTERS),
            f"missing, and so is {BOOTSTRAP}",
            "the node does not start",
            f"set {VOTERS} as on the controllers",
        )
    if not one.names(NAMES):
        yield _B17(
            one.at(NAMES),
            "missing",
            "the node does not start",
            f"set {NAMES} as on the controllers",
        )
    if one.node_id is not None and one.node_id in one.voters:
        yield _B17(
            one.at(VOTERS),
            f"names node {one.node_id} itself, which is a broker",
            "the node does not start",
            "name the controllers only",
        )


def _listeners(one: Properties) -> Iterator[Outcome]:
    for found in (*problems(one), *between(one), *unmapped(one)):
        yield _B17(one.at(found.key), found.fact, "the node does not start", found.remedy)
    names, ends = set(controller_names(one)), parsed(one.get(ADVERTISED))[0]
    for name in sorted(names & {end.name for end in listening(one)}):
        yield _B17(
            one.at(LISTENERS),
            f"{name} is a listener of controllers",
            "the node does not start: it has process.roles=broker only",
            f"remove {name} from {LISTENERS}",
        )
    for name in sorted(names & {end.name for end in ends}):
        yield _B17(
            one.at(ADVERTISED),
            f"{name} is a listener of controllers",
            "a node before 3.9 does not start with it; since 3.9 it has no effect",
            f"remove {name} from {ADVERTISED}",
            Severity.WARNING,
        )
    if CONTROL_PLANE in one.values:
        yield _B17(
            one.at(CONTROL_PLANE),
            one.get(CONTROL_PLANE),
            "the node does not start: KRaft has no such listener",
            "remove it",
        )


def _authorizer(survey: Survey, one: Properties) -> Iterator[Outcome]:
    name = one.get(AUTHORIZER)
    if name in ACL_AUTHORIZERS:
        yield _B17(
            one.at(AUTHORIZER),
            name,
            "the node does not start: this authorizer keeps its ACLs in ZooKeeper",
            f"set {AUTHORIZER}={STANDARD}",
        )
    enforced = next((x for x in survey.brokers if x.get(AUTHORIZER)), None)
    if not name and enforced is not None:
        yield _B17(
            one.at(AUTHORIZER),
            f"not set, but on {enforced.name}",
            "the broker lets everybody do everything: no ACL is looked at",
            f"set {AUTHORIZER}={STANDARD} and super.users",
        )


def _metadata_folder(survey: Survey, one: Properties) -> Iterator[Outcome]:
    """Whether the metadata log of before lies in a folder where Kafka expects none."""
    before = next((x for x in survey.brokers if x.node_id == one.node_id is not None), None)
    if before is None:
        return
    old, new = _metadata_log(before), _metadata_log(one)
    if old and new and old != new and old in one.folders:
        yield _B17(
            one.at("metadata.log.dir" if one.get("metadata.log.dir") else "log.dirs"),
            f"the metadata log is to be in {new}, and {before.name} has it in {old}",
            f"the node does not start: it finds __cluster_metadata-0 in {old}, where none may be",
            f"write metadata.log.dir={old}, or name {old} first in log.dirs",
        )


def _new_folders(survey: Survey, one: Properties) -> Iterator[Outcome]:
    """Folders that the node does not have yet (KafkaRaftServer.initializeLogDirs)."""
    before = next((x for x in survey.brokers if x.node_id == one.node_id is not None), None)
    if before is None or not before.folders:
        return
    fresh = [x for x in one.folders if x not in before.folders and x not in one.metas]
    if fresh:
        yield _B17(
            one.at("log.dirs"),
            f"{', '.join(fresh)}: not among the folders of {before.name}",
            "a KRaft broker does not start on a folder without meta.properties; one in ZooKeeper "
            "mode writes it",
            "add the folder before the roll, or copy meta.properties from another folder into it, "
            "without the line directory.id",
            Severity.WARNING,
        )


def _metadata_log(one: Properties) -> str:
    """The folder of a node's metadata log; empty if its file does not name one."""
    return normpath(one.log_dir) if one.log_dir else ""


def _left(one: Properties) -> Iterator[Outcome]:
    if one.flag(ENABLE):
        connected = bool(one.get("zookeeper.connect"))
        yield _B17(
            one.at(ENABLE),
            "true on a KRaft broker",
            "without effect" if connected else "the node does not start: no zookeeper.connect",
            "remove it; controllers keep it until the migration is finalised",
            Severity.WARNING if connected else None,
        )
    for key in ("zookeeper.connect", IBP):
        if one.get(key):
            yield _B17(
                one.at(key),
                one.get(key),
                "without effect on a KRaft broker",
                "remove it",
                Severity.INFO,
            )


def is_rolled(present: Properties, target: Properties) -> bool:
    """Whether two files of KRaft brokers are of one node that is in KRaft mode already.

    In the middle of a roll a node's present file is its target file, or nearly.
    """
    if present.node_id != target.node_id or not present.is_kraft_broker:
        return False
    ends = ({(end.host, end.port) for end in advertised(x)} for x in (present, target))
    return set(present.folders) == set(target.folders) or bool(set.intersection(*ends))


def _ids(survey: Survey) -> Iterator[Outcome]:
    targets = [one for one in survey.kraft_brokers if one.node_id is not None]
    seen: dict[int, Properties] = {}
    later: dict[int, Properties] = {}
    present = {one.node_id for one in survey.brokers} - {None}
    known = survey.live_brokers | present | survey.assigned
    for one in targets:
        assert one.node_id is not None
        if one in survey.targets:
            other = later.setdefault(one.node_id, one)
            if other is one and not is_rolled(now := seen.get(one.node_id, one), one):
                other = now
        else:
            other = seen.setdefault(one.node_id, one)
        if other is not one:
            yield _B17(
                one.at("node.id"),
                f"{one.node_id}, as {other.name} has",
                "the second of the two is refused with DUPLICATE_BROKER_REGISTRATION",
                "give each node the id that it has now",
            )
        if known and one.node_id not in known:
            yield _B17(
                one.at("node.id"),
                f"{one.node_id}; the brokers of this cluster are "
                f"{', '.join(str(x) for x in sorted(x for x in known if x is not None))}",
                "it joins as a new broker, and the one whose file this is stays away with all its "
                "replicas",
                "set node.id to the broker.id that the node has now",
            )
    given = {one.node_id for one in targets}
    for one in survey.brokers if survey.targets and targets else ():
        if one.node_id is not None and one.node_id not in given:
            yield NotRun("B17", f"no target file for broker {one.node_id} ({one.name})")


@rule(
    "W15",
    "a node serves its clients as before",
    "A broker came back as a KRaft broker without one of its listeners, or with another "
    "advertised name, and was not reached.",
)
def kept_addresses(survey: Survey) -> Iterator[Outcome]:
    """A target against the file the node has now: listeners, logins, rack, folders, retention."""
    now = {one.node_id: one for one in survey.brokers if one.node_id is not None}
    for one in survey.kraft_brokers:
        before = now.get(one.node_id) if one.node_id is not None else None
        if before is None:
            continue
        yield from _addresses(before, one)
        yield from _callers(before, one)
        yield from _limits(survey, before, one)
        if one.get("broker.rack") != before.get("broker.rack"):
            yield _W15(
                one.at("broker.rack"),
                f"{one.get('broker.rack') or 'not set'}; {before.name} has "
                f"{before.get('broker.rack') or 'none'}",
                "replicas are placed, and consumers fetch, by another rack than before",
                _KEEP,
            )
        folders = [set(x.folders) for x in (before, one)]
        if folders[0] and not folders[0] <= folders[1]:
            missing = ", ".join(sorted(folders[0] - folders[1]))
            yield _W15(
                one.at("log.dirs"),
                f"{missing} of {before.name} is missing",
                "the replicas there are gone from this broker, which fetches them all again",
                _KEEP,
            )


def _addresses(before: Properties, one: Properties) -> Iterator[Outcome]:
    if keys := {*hidden(before), *hidden(one)}:
        names = f"{before.name} and {one.name}"
        yield NotRun("W15", f"{listed(sorted(keys))} of {names}: a config provider is not asked")
        return
    old = {x.name.upper(): x for x in _advertised(before)}
    new = {x.name.upper(): x for x in _advertised(one)}
    for name in sorted(old):
        if name in new and (new[name].host, new[name].port, new[name].security_protocol) == (
            old[name].host,
            old[name].port,
            old[name].security_protocol,
        ):
            continue
        what = (
            "is gone"
            if name not in new
            else (f"is {new[name].security_protocol} at {new[name].host}:{new[name].port}")
        )
        yield _W15(
            one.at("advertised.listeners"),
            f"{name} {what}; {before.name} has {old[name].security_protocol} at "
            f"{old[name].host}:{old[name].port}",
            "clients and brokers that know the old address cannot reach the node",
            _KEEP,
        )


def _advertised(one: Properties) -> list[Listener]:
    names = {*one.names(NAMES), one.get(CONTROL_PLANE).upper()}
    listeners = {x.name: x for x in (*one.listeners(), *one.listeners("advertised.listeners"))}
    return [x for x in listeners.values() if x.name.upper() not in names]


_STORES: Final = {
    "keystore": ("ssl.keystore.location", "ssl.keystore.certificate.chain"),
    "truststore": ("ssl.truststore.location", "ssl.truststore.certificates"),
}
"""Where Kafka has each from: a file, or the property itself."""
_NAMED: Final = {
    "ssl.client.auth": ("none", "SSL"),
    "ssl.principal.mapping.rules": ("DEFAULT", "SSL"),
    "sasl.kerberos.principal.to.local.rules": ("DEFAULT", "SASL_"),
}
"""Whether and as whom a client is known: the default, and in which protocols."""


def _callers(before: Properties, one: Properties) -> Iterator[Outcome]:
    """Whether clients that get in now get in, as the same users, on the listeners that stay."""
    if hidden(before) or hidden(one):
        return  # W15 says so of its addresses
    hides = one.provides(BUILDER) or before.provides(BUILDER)
    if one.principal_builder != before.principal_builder and not hides:
        yield _W15(
            one.at(BUILDER),
            f"{one.get(BUILDER) or 'not set'}; {before.name} has {before.get(BUILDER) or 'none'}",
            "clients are other users than before: ACLs and quotas do not fit them",
            _KEEP,
        )
    old = {x.name.upper(): x.security_protocol for x in _advertised(before)}
    for end in _advertised(one):
        name, protocol = end.name.upper(), end.security_protocol
        if old.get(name) == protocol:
            yield from _of_listener(before, one, name, protocol)


def _of_listener(
    before: Properties, one: Properties, name: str, protocol: str
) -> Iterator[Outcome]:
    prefix = f"listener.name.{name.lower()}."
    if "SASL" in protocol and not one.provides(f"{prefix}{MECHANISMS}"):
        lost = [x for x in before.mechanisms(name) if x not in one.mechanisms(name)]
        if lost and not before.provides(f"{prefix}{MECHANISMS}"):
            yield _W15(
                one.at(MECHANISMS),
                f"{name} does not take {listed(lost)} any more; {before.name} does",
                "clients that log in so are refused",
                _KEEP,
            )
    for store, keys in _STORES.items() if "SSL" in protocol else ():
        mine, theirs = (any(_either(x, prefix, key) for key in keys) for x in (one, before))
        if theirs and not mine and not _either(one, prefix, "ssl.engine.factory.class"):
            yield _W15(
                one.at(keys[0]),
                f"{name} has no {store}; {before.name} has one",
                "no client gets in by TLS"
                if store == "keystore"
                else "clients' certificates, and those of other nodes, are not trusted",
                f"write ssl.{store}.* as it is now",
            )
    for key, (default, kind) in _NAMED.items():
        mine_now, was = (_either(x, prefix, key) or default for x in (one, before))
        if key == "ssl.client.auth":
            mine_now, was = mine_now.lower(), was.lower()
        if kind in protocol and mine_now != was and "${" not in f"{mine_now}{was}":
            yield _W15(
                one.at(key),
                f"{mine_now} on {name}; {before.name} has {was}",
                "clients are refused, or let in without a certificate, that were not before"
                if key == "ssl.client.auth"
                else "clients are other users than before: ACLs and quotas do not fit them",
                _KEEP,
            )


def _either(one: Properties, prefix: str, key: str) -> str:
    """A listener's own value, or else that of all."""
    return one.get(f"{prefix}{key}") or one.get(key)


_HOUR_MS: Final = 3_600_000
_AGE: Final = (
    ("log.retention.ms", 1),
    ("log.retention.minutes", 60_000),
    ("log.retention.hours", _HOUR_MS),
)
"""How long records are kept: the first that is set counts; its unit in milliseconds."""
_LEAST: Final = {
    "log.retention.bytes": (-1, "older records of larger partitions are deleted"),
    "offsets.retention.minutes": (10_080, "offsets of groups that rest so long are deleted"),
    "message.max.bytes": (1_048_588, "producers of larger batches are refused"),
}
"""Properties of which less than now costs something; their defaults. Below 0: no limit."""


def _limits(survey: Survey, before: Properties, one: Properties) -> Iterator[Outcome]:
    """Whether what is kept, and taken, now is so in KRaft mode; dynamic values stay."""
    dynamic = {
        key
        for name in (one.node_id, "<default>")
        for key in survey.config(f"/config/brokers/{name}")
    }
    if not dynamic & {key for key, _ in _AGE}:
        (key, mine), (_, was) = _age(one), _age(before)
        if mine is not None and was is not None and mine < was:
            yield _W15(
                one.at(key),
                f"{mine / _HOUR_MS:g} h; {before.name} has "
                f"{'no limit' if was == math.inf else f'{was / _HOUR_MS:g} h'}",
                "records that are older are deleted soon after the restart, but for topics with a "
                "retention of their own",
                _KEEP,
            )
    for key, (default, cost) in _LEAST.items():
        now, past = (_limit(x, key, default) for x in (one, before))
        if key not in dynamic and now is not None and past is not None and now < past:
            said = one.get(key) or f"not set, so {default}"
            yield _W15(
                one.at(key), f"{said}; {before.name} has {before.get(key) or default}", cost, _KEEP
            )
    key = "log.cleanup.policy"
    kept, policy = ({*x.names(key)} or {"delete"} for x in (before, one))
    if kept != policy and key not in dynamic and not (one.provides(key) or before.provides(key)):
        yield _W15(
            one.at(key),
            f"{listed(sorted(policy))}; {before.name} has {listed(sorted(kept))}",
            "records are deleted, or kept, by another rule than before, but for topics with a "
            "policy of their own",
            _KEEP,
        )


def _age(one: Properties) -> tuple[str, float | None]:
    """The property that says how long records are kept, and milliseconds; None: not known."""
    key, unit = next(((key, unit) for key, unit in _AGE if one.get(key)), _AGE[-1])
    found = _limit(one, key, 168)
    return key, None if found is None else found * unit


def _limit(one: Properties, key: str, default: int) -> float | None:
    """A number; infinite below 0; None if it is none (B25 says so) or not known here."""
    if one.provides(key):
        return None
    try:
        found = whole(one.get(key)) if one.get(key) else default
    except ValueError:
        return None
    return math.inf if found < 0 else found
