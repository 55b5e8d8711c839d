"""Rules on where the nodes look for the controllers: voters, bootstrap servers, listeners."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Final

from emulator.config.java_text import trim
from emulator.config.listeners import ANY_ADDRESS, HostPort
from emulator.operations.preflight.engine import FindingOf, NotRun, Outcome, Severity, rule
from emulator.operations.preflight.node_file import BOOTSTRAP, NAMES, VOTERS, Properties, same_host
from emulator.operations.preflight.survey import Survey
from emulator.operations.preflight.words import listed

_ADDRESS: Final = re.compile(r"[^@]*?\[?[0-9a-zA-Z\-%._:]*\]?:[0-9]+")
"""An address as Kafka finds its host and its port (Utils.HOST_PORT_PATTERN)."""
_B16: Final = FindingOf("B16", "KIP-866, Configurations")


@rule(
    "B16",
    "every node looks for the controllers where they are",
    "The brokers' controller.quorum.voters named another port than the controllers listened on. "
    "The brokers ran on, never registered, and nothing but their logs said why.",
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
    ports = {listener.port for listener in listeners if listener.name in names}
    if own is not None and ports and own.port not in ports:
        yield _B16(
            one.at(VOTERS),
            f"{one.node_id}@{own}, and this controller listens on port "
            f"{', '.join(map(str, sorted(ports)))}",
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
