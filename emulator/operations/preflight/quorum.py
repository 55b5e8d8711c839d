"""Rules on the quorum: what the controllers' folders hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Final

from emulator.config.java_text import trim
from emulator.config.listeners import ANY_ADDRESS, HostPort, voter_elsewhere
from emulator.metadata.metadata_version import VERSIONS
from emulator.metadata.migration_state import MigrationState
from emulator.operations.preflight.controller_folder import ControllerFolder
from emulator.operations.preflight.engine import FindingOf, NotRun, Outcome, Severity, listed, rule
from emulator.operations.preflight.identities import is_uuid
from emulator.operations.preflight.node_file import (
    BOOTSTRAP,
    IBP,
    NAMES,
    VOTERS,
    Properties,
    number,
    same_host,
)
from emulator.operations.preflight.stage import standing
from emulator.operations.preflight.survey import Survey

# Rules on where the nodes look for the controllers: voters, bootstrap servers, listeners.

_ADDRESS: Final = re.compile(r"[^@]*?\[?[0-9a-zA-Z\-%._:]*\]?:[0-9]+")
"""An address as Kafka finds its host and its port (Utils.HOST_PORT_PATTERN)."""
_B16: Final = FindingOf("B16", "KIP-866, Configurations")


@rule(
    "B16",
    "every node looks for the controllers where they are",
    "The brokers' controller.quorum.voters named another port than the controllers'. The "
    "brokers never registered, and nothing but their logs said why.",
)
def addresses(survey: Survey) -> Iterator[Outcome]:
    """Voters and bootstrap servers of every file against the controllers' own files."""
    controllers = [one for one in survey.all_files if one.is_controller]
    for one in survey.all_files:
        filled_in = [key for key in (VOTERS, BOOTSTRAP) if one.provides(key)]
        for key in filled_in:
            why = f"{one.name} takes {key} from a config provider, which is not asked here"
            yield NotRun("B16", why)
        if doubled := _doubled(one):
            yield from doubled
        elif VOTERS not in filled_in and _malformed(one, VOTERS):
            yield _B16(
                one.at(VOTERS),
                f"{one.get(VOTERS)}: not a list of id@host:port",
                "the node does not start",
                "write it as id@host:port,…",
            )
        if BOOTSTRAP not in filled_in and _malformed(one, BOOTSTRAP):
            yield _B16(
                one.at(BOOTSTRAP),
                f"{one.get(BOOTSTRAP)}: not a list of host:port",
                "the node does not start",
                "write it as host:port,…",
            )
    for one in survey.all_files:
        yield from _one_address(one)
    if not controllers:
        if any(one.finds_controllers for one in survey.all_files):
            yield NotRun("B16", "no controller's server.properties given: use -c")
        return
    for one in controllers:
        yield from _own_port(one)
        yield from _own_host(one, controllers)
    reachable = {
        one.node_id: one.controller_addresses for one in controllers if one.node_id is not None
    }
    for one in survey.all_files:
        yield from _voters(one, controllers, reachable)
        yield from _servers(one, reachable)


def _doubled(one: Properties) -> list[Outcome]:
    """Ids that the voters name twice: Kafka takes the last address of such an id."""
    by_node_id: dict[str, list[str]] = {}
    for entry in one.names(VOTERS):
        node_id, at, address = entry.partition("@")
        if not at or not node_id.isdigit() or not _ADDRESS.fullmatch(address):
            return []
        by_node_id.setdefault(node_id, []).append(address)
    return [
        _B16(
            one.at(VOTERS),
            f"{node_id} is named {len(some)} times: {listed(some)}",
            f"Kafka takes {some[-1]}, the last, and no other; kraft-bridge does not start",
            "name each controller once",
            None if len(set(some)) > 1 else Severity.WARNING,
        )
        for node_id, some in by_node_id.items()
        if len(some) > 1
    ]


def _malformed(one: Properties, key: str) -> bool:
    """Whether Kafka refuses an entry; also one that we can read: two without a comma between."""
    voters, text = key == VOTERS, one.get(key)
    if (one.voter_addresses if voters else one.bootstrap_servers) is None:
        return True
    entries = [trim(part) for part in text.split(",")] if text else []
    # Kafka takes the part of a server that is behind the last odd character.
    addresses = [part.partition("@")[2] if voters else part.rpartition("@")[2] for part in entries]
    return not all(_ADDRESS.fullmatch(there) for there in addresses)


def _one_address(one: Properties) -> Iterator[Outcome]:
    seen: dict[tuple[str, int], int] = {}
    for node_id, there in sorted((one.voter_addresses or {}).items()):
        other = seen.setdefault((there.host.lower(), there.port), node_id)
        if other != node_id:
            yield _B16(
                one.at(VOTERS),
                f"{node_id} and {other} are both at {there}",
                "one of the two is not there: its votes are lost, and nobody finds it",
                "write the address of each controller",
            )


def _own_port(one: Properties) -> Iterator[Outcome]:
    own = (one.voter_addresses or {}).get(-1 if one.node_id is None else one.node_id)
    names = one.names(NAMES)
    listeners = [*one.listeners(), *one.listeners("advertised.listeners")]
    if one.node_id is not None and (why := voter_elsewhere(one.node_id, own, listeners, names)):
        yield _B16(
            one.at(VOTERS),
            why,
            "no other node reaches it there",
            "write the port of its controller listener",
        )


def _own_host(one: Properties, controllers: list[Properties]) -> Iterator[Outcome]:
    """Whether the address of one controller in the voters is where another one listens."""
    own = (one.voter_addresses or {}).get(-1 if one.node_id is None else one.node_id)
    if own is None or _binds(one, own):
        return
    for other in controllers:
        if other.node_id != one.node_id and _binds(other, own):
            yield _B16(
                one.at(VOTERS),
                f"{one.node_id}@{own}, where {other.name} listens, controller {other.node_id}",
                "each of the two is taken for the other: no leader is elected",
                "write the address of each controller",
            )
            return


def _binds(one: Properties, there: HostPort) -> bool:
    names = one.names(NAMES)
    return any(
        x.name in names and x.host not in ANY_ADDRESS and _same(there, HostPort(x.host, x.port))
        for x in one.listeners()
    )


def _voters(
    one: Properties,
    controllers: list[Properties],
    reachable: Mapping[int, tuple[HostPort, ...]],
) -> Iterator[Outcome]:
    mine = one.voter_addresses
    if not mine:
        return
    for other in controllers:
        theirs = other.voter_addresses
        if theirs and other is not one and set(theirs) != set(mine):
            yield _B16(
                one.at(VOTERS),
                f"names {_ids(mine)}, and {other.name} names {_ids(theirs)}",
                "the node follows another quorum, or cannot find its leader",
                "write the same voters into every file",
            )
            return
    for node_id, address in sorted(mine.items()):
        known = reachable.get(node_id)
        if not known or any(_same(address, there) for there in known):
            continue
        maybe = any(_may_be_same(address, there) for there in known)
        yield _B16(
            one.at(VOTERS),
            f"{node_id}@{address}, and controller {node_id} says that it is at "
            f"{', '.join(dict.fromkeys(map(str, known)))}",
            "the node does not find this controller: it never registers, or the quorum has no "
            "majority",
            "write the same voters into every file",
            Severity.WARNING if maybe else None,
        )


def _servers(one: Properties, reachable: Mapping[int, tuple[HostPort, ...]]) -> Iterator[Outcome]:
    known = [there for some in reachable.values() for there in some]
    for server in one.bootstrap_servers or ():
        if known and not any(_same(server, there) for there in known):
            yield _B16(
                one.at(BOOTSTRAP),
                f"{server}, and the controllers say that they are at "
                f"{', '.join(dict.fromkeys(map(str, known)))}",
                "if no server of the list is a controller the node never finds the quorum",
                "write the addresses of the controllers",
            )


def _same(one: HostPort, other: HostPort) -> bool:
    """One address; a controller that binds every address has no host to compare."""
    if one.port != other.port:
        return False
    return other.host in ANY_ADDRESS or same_host(one.host, other.host)


def _may_be_same(one: HostPort, other: HostPort) -> bool:
    """Whether one is a name and the other an address, on one port: only DNS knows."""
    return one.port == other.port and _is_address(one.host) != _is_address(other.host)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _ids(voters: Mapping[int, HostPort]) -> str:
    return ", ".join(map(str, sorted(voters)))


MIGRATION_LEVEL: Final = 8
TRANSACTION_LEVEL: Final = 13
KRAFT_META: Final = 1
_B15: Final = FindingOf("B15", "KIP-866, Preparing the Cluster")


def level_name(level: int) -> str:
    """A level with the version it is of, as far as Kafka 3.9 knows it.

    >>> level_name(21), level_name(99)
    ('21 (3.9-IV0)', '99')
    """
    return f"{level} ({VERSIONS[level].name})" if level in VERSIONS else str(level)


@rule(
    "B15",
    "controllers' folders can migrate this cluster",
    "Controllers were formatted without --release-version: they began at the newest "
    "metadata.version, and the brokers were refused. Others were started once without the "
    "migration flag, and refuse to migrate for ever.",
)
def folders(survey: Survey) -> Iterator[Outcome]:
    """metadata.version, migration state, ids and voters in the folders of the controllers."""
    if not survey.folders:
        yield NotRun(
            "B15", f"no folder of a controller given: use --controller-dir{_format_with(survey)}"
        )
        return
    yield from _begins_with(survey)
    seen: dict[int, str] = {}
    for one in survey.folders:
        if not one.meta:
            yield _B15(
                one.name,
                "no meta.properties: it was never formatted",
                "a controller does not start on it",
                "kraft-bridge format, with the cluster id of /cluster/id",
            )
            continue
        if one.problem:
            yield _B15(
                one.name,
                one.problem,
                "the controller does not start, or starts without a part of its log",
                "restore an undamaged copy, or format an empty folder",
            )
        if number(trim(one.meta.get("version", ""))) != KRAFT_META:
            yield _B15(
                one.name,
                f"meta.properties has version {one.meta.get('version', 'none')}, a controller's "
                "has 1",
                "the controller does not start",
                "format an empty folder: kraft-bridge format",
            )
        directory = one.meta.get("directory.id", "")
        if "directory.id" in one.meta and not is_uuid(directory):
            yield _B15(
                one.name,
                f"directory.id {directory} in meta.properties is no UUID",
                "the controller does not start",
                "restore the file, or format an empty folder",
            )
        yield from _identity(survey, one, seen)
        yield from _levels(survey, one)
        yield from _state(one)
        yield from _migrated(survey, one)
        if one.uncommitted:
            yield _B15(
                one.name,
                f"the last {one.uncommitted} of its records are not known to be committed",
                "the next leader may drop them, so they are not judged here",
                "ask the leader: kraft-bridge status",
                Severity.INFO,
            )


def _begins_with(survey: Survey) -> Iterator[Outcome]:
    """Folders of one quorum that was never started, formatted for different levels."""
    made = [one for one in survey.folders if one.level is None and one.bootstrap_level is not None]
    first = made[0] if made and not any(one.level for one in survey.folders) else None
    for one in made if first is not None else ():
        if first is not None and one.bootstrap_level != first.bootstrap_level:
            yield _B15(
                one.name,
                f"metadata.version {level_name(one.bootstrap_level or 0)} in bootstrap.checkpoint, "
                f"and {level_name(first.bootstrap_level or 0)} in that of {first.name}",
                "the quorum begins with that of its first leader, whichever it is: brokers of the "
                "other are refused",
                "format all with one --release-version, the brokers' inter.broker.protocol.version",
                Severity.WARNING,
            )


def _format_with(survey: Survey) -> str:
    """What a controller's folder is to be formatted with; empty if no broker's file is given."""
    protocols = {file.protocol for file in survey.brokers if file.protocol is not None}
    if any(one.level < MIGRATION_LEVEL for one in protocols):
        return f". First raise the {IBP} of every broker to 3.4 or later"
    if len(protocols) == 1:
        (one,) = protocols
        return f". Format each with -r {one.name}: brokers have {IBP}={one.name}"
    if not survey.brokers:
        return ""
    return f". Format each with -r VERSION, the {IBP} of the brokers, one for all"


def _identity(survey: Survey, one: ControllerFolder, seen: dict[int, str]) -> Iterator[Outcome]:
    files = {file.node_id: file for file in survey.all_files if file.is_controller}
    node_id = one.node_id
    if node_id is None or (files and node_id not in files):
        ids = ", ".join(str(x) for x in sorted(x for x in files if x is not None))
        yield _B15(
            one.name,
            f"node.id {one.meta.get('node.id', 'missing')}, and the controllers' files have "
            f"{ids or 'none'}",
            "no controller starts with this folder",
            "give the file of this controller too, or format the folder with its node.id",
        )
        return
    if node_id in seen:
        yield _B15(
            one.name,
            f"node.id {node_id}, as {seen[node_id]} has",
            "two controllers with one id depose each other",
            "format one of them with another node.id",
        )
    seen.setdefault(node_id, one.name)
    file = files.get(node_id)
    if file is not None and file.voters and one.voters and file.voters != one.voters:
        yield _B15(
            one.name,
            f"quorum-state was written for the voters {sorted(one.voters)}, and {file.name} names "
            f"{sorted(file.voters)}",
            "the controller does not start",
            f"write the voters of the folder into {VOTERS}, or format all controllers anew",
        )
    if file is not None and file.get(BOOTSTRAP) and not file.get(VOTERS) and not one.dynamic:
        yield _B15(
            one.name,
            f"formatted for the voters of {VOTERS}, and {file.name} has {BOOTSTRAP} only",
            "the quorum has no voter: nobody is elected, and the controller serves nobody",
            f"write {VOTERS} into the file, or format the folder with --standalone or "
            "--initial-controllers",
        )
    if one.dynamic:
        yield _B15(
            one.name,
            "formatted for a dynamic quorum (--standalone or --initial-controllers)",
            "Kafka's controllers start on it; kraft-bridge does not yet",
            f"for kraft-bridge: format without these options, with {VOTERS}",
            Severity.INFO,
        )


def _levels(survey: Survey, one: ControllerFolder) -> Iterator[Outcome]:
    level = one.metadata_level
    if level is None:
        if not one.end_offset:
            yield NotRun("B15", f"{one.name} names no metadata.version: no bootstrap.checkpoint")
        return
    where = "its log" if one.level is not None else "bootstrap.checkpoint"
    if level < MIGRATION_LEVEL:
        yield _B15(
            one.name,
            f"metadata.version {level_name(level)} in {where}; a migration needs 8 (3.4-IV0)",
            "the controller refuses to migrate",
            "format it with --release-version of the brokers' inter.broker.protocol.version",
        )
    versions = {file.protocol for file in survey.brokers if file.protocol is not None}
    for version in sorted(versions, key=lambda version: version.level):
        if version.level != level:
            yield _B15(
                one.name,
                f"metadata.version {level_name(level)} in {where}; brokers have {IBP}="
                f"{version.name} ({version.level})",
                "every registration of those brokers is refused with UNSUPPORTED_VERSION, and the "
                "migration never starts",
                f"format the controllers with --release-version {version.name}, or set {IBP} on "
                "the brokers to the controllers' version",
            )
    if not versions:
        yield NotRun("B15", f"no broker's file says {IBP}: {one.name} has {level_name(level)}")


def _state(one: ControllerFolder) -> Iterator[Outcome]:
    begun = one.level is not None or one.end_offset > 0
    level = one.level or 0
    if begun and one.state == MigrationState.NONE and (level >= TRANSACTION_LEVEL or one.holds):
        yield _B15(
            one.name,
            "its log began without zookeeper.metadata.migration.enable: a pure KRaft cluster"
            + (f" with {one.holds} topics and brokers" if one.holds else ""),
            "it refuses to start with the migration switched on, and can never migrate",
            "stop the controllers and format them anew, then start them with the migration "
            "switched on",
        )


def _migrated(survey: Survey, one: ControllerFolder) -> Iterator[Outcome]:
    now = standing(survey)
    if one.state == MigrationState.MIGRATION and not now.in_kraft and not now.unreadable:
        yield _B15(
            one.name,
            f"its log has migrated already, and {now.text}",
            "once started it writes its old metadata over ZooKeeper: what was changed since is "
            "lost",
            "after a rollback format the controllers anew, then kraft-bridge rollback --clear "
            "--yes",
        )
