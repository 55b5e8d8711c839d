"""Listeners as Kafka's brokers read them, and everything wrong with them.

:mod:`emulator.config.listeners` reads a file that we are to run ourselves and stops at the first
error. Here each error is one more line of a report, and an odd entry must not hide the others.
Source: EndPoint, CoreUtils.listenerListToEndPoints, KafkaConfig.controllerListenerNames, Kafka 3.9.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from emulator.config.java_text import trim
from emulator.config.listeners import SECURITY_PROTOCOLS
from emulator.operations.preflight.node_file import (
    BETWEEN,
    BETWEEN_PROTOCOL,
    BROKER_MECHANISM,
    CONTROL_PLANE,
    DEFAULT_MECHANISM,
    ENABLE,
    MECHANISMS,
    NAMES,
    PROTOCOL_MAP,
    Properties,
)

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
DEFAULT: Final = "PLAINTEXT://:9092"
PORT_MAX: Final = 65_535
UNROUTABLE: Final = "0.0.0.0"  # noqa: S104 - compared with, not bound
"""The one address that Kafka itself refuses to advertise."""
JUDGED: Final = (
    LISTENERS,
    ADVERTISED,
    PROTOCOL_MAP,
    NAMES,
    BETWEEN,
    BETWEEN_PROTOCOL,
    MECHANISMS,
    BROKER_MECHANISM,
    "early.start.listeners",
)
"""Keys that are judged together here."""
_ENTRY: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,9})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """One listener: its name in upper case, as Kafka holds it, the host as written, the port."""

    name: str
    host: str
    port: int

    @property
    def wildcard(self) -> bool:
        """Whether its host stands for every address of the machine.

        >>> ListenerAddress("A", "", 1).wildcard, ListenerAddress("A", "::", 1).wildcard
        (True, True)
        """
        try:
            return not self.host or ip_address(self.host).is_unspecified
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a node does not start with its file: the key, what is there, what to write instead."""

    key: str
    fact: str
    remedy: str


def parsed(text: str) -> tuple[list[ListenerAddress], list[str]]:
    """Endpoints of a list, and the entries that are none.

    >>> parsed("plain://:9092, C:9")
    ([ListenerAddress(name='PLAIN', host='', port=9092)], ['C:9'])
    """
    found, strange = [], []
    for entry in (trim(part) for part in text.split(",")):
        match = _ENTRY.fullmatch(entry)
        if match is not None and 0 <= int(match[3]) <= PORT_MAX:
            found.append(ListenerAddress(match[1].upper(), match[2], int(match[3])))
        elif entry:
            strange.append(entry)
    return found, strange


def listening(one: Properties) -> list[ListenerAddress]:
    """Where a node listens: the readable entries of ``listeners``, or Kafka's default."""
    return parsed(one.get(LISTENERS) if LISTENERS in one.values else DEFAULT)[0]


def controller_names(one: Properties) -> list[str]:
    """``controller.listener.names`` as Kafka splits it: blanks and case count.

    >>> controller_names(Properties("a", {"controller.listener.names": "A, b,"}))
    ['A', ' b']
    """
    names = one.get(NAMES).split(",")
    while names and not names[-1]:
        names.pop()
    return names


def advertised(one: Properties) -> list[ListenerAddress]:
    """The addresses that a broker gives its clients: ``advertised.listeners``, else its listeners.

    Without the controllers' listeners, which are given to no client. Since 3.9 a migrating broker
    goes on advertising its control plane, though controllers have that name too (KAFKA-17788).
    """
    ends = parsed(one.get(ADVERTISED))[0] if ADVERTISED in one.values else listening(one)
    names = set(controller_names(one))
    if one.is_zookeeper_broker and one.flag(ENABLE):
        names.discard(one.get(CONTROL_PLANE).upper())
    return [end for end in ends if end.name not in names]


def hidden(one: Properties) -> list[str]:
    """Keys that are filled in later, by a config provider or Strimzi: nothing is judged then."""
    return [key for key in JUDGED if one.provides(key) or one.is_template(key)]


def problems(one: Properties) -> Iterator[Problem]:
    """Everything for which Kafka does not start with these listeners, whatever the role."""
    if hidden(one):
        return
    for key in (LISTENERS, ADVERTISED):
        ends, strange = parsed(one.get(key))
        if strange:
            yield Problem(
                key,
                f"{', '.join(strange)}: not NAME://host:port",
                "write it as NAME://host:port,…",
            )
        counts = Counter(end.name for end in ends)
        for name in sorted(name for name, count in counts.items() if count > 1):
            yield Problem(
                key,
                f"{name} is named {counts[name]} times",
                "give each listener a name of its own",
            )
    names = {end.name for end in listening(one)}
    advertised_names = {end.name for end in advertised(one)}
    for name in sorted(advertised_names - names if not one.is_controller else ()):
        yield Problem(ADVERTISED, f"{name} is not in {LISTENERS}", f"add {name} to {LISTENERS}")
    yield from _ports(listening(one))
    yield from _protocols(one)
    yield from _unroutable(one)
    yield from _early(one)


def _ports(ends: Sequence[ListenerAddress]) -> Iterator[Problem]:
    for port in sorted({end.port for end in ends if end.port}):
        same = [end for end in ends if end.port == port]
        # Kafka lets one address of IPv4 and one of IPv6 share a port, and nothing else.
        families = sorted(_family(end.host) for end in same)
        if len(same) > 1 and families != [4, 6]:
            yield Problem(
                LISTENERS,
                f"port {port} is named {len(same)} times",
                "give each listener a port of its own",
            )


def _family(host: str) -> int:
    try:
        return ip_address(host).version
    except ValueError:
        return 0


def _protocols(one: Properties) -> Iterator[Problem]:
    if re.search(r"(^|,)\s*,", one.get(PROTOCOL_MAP).rstrip(", ")):
        yield Problem(PROTOCOL_MAP, "has an empty entry", "remove the comma that is too many")
    for name, protocol in one.written_protocols.items():
        if protocol not in SECURITY_PROTOCOLS:
            yield Problem(
                PROTOCOL_MAP,
                f"{name}:{protocol} names no security protocol"
                if protocol
                else f"{name} has no protocol",
                f"write {name} with one of {', '.join(SECURITY_PROTOCOLS)}",
            )
    ends = (*listening(one), *parsed(one.get(ADVERTISED))[0])
    for name in sorted({end.name for end in ends} - one.protocols.keys()):
        yield Problem(
            PROTOCOL_MAP,
            f"has no security protocol for {name}",
            f"add {name}:PLAINTEXT, or its real protocol",
        )


def _unroutable(one: Properties) -> Iterator[Problem]:
    ends = parsed(one.get(ADVERTISED))[0]
    key = ADVERTISED
    # Since 3.9.1 a controller that advertises nothing may listen on 0.0.0.0.
    if not one.is_controller and ADVERTISED not in one.values:
        key, ends = LISTENERS, advertised(one)
    for end in ends:
        if end.host == UNROUTABLE:
            yield Problem(
                key,
                f"{end.name} is advertised at {UNROUTABLE}"
                + ("" if key == ADVERTISED else f", as {ADVERTISED} is not set"),
                f"set {ADVERTISED} to an address that clients and other nodes reach",
            )


def _early(one: Properties) -> Iterator[Problem]:
    key = "early.start.listeners"
    known = {end.name for end in listening(one)}
    for name in one.names(key):
        if name not in known:
            yield Problem(
                key,
                f"{name} is not in {LISTENERS}",
                f"write names of {LISTENERS}, in upper case",
            )


def between(one: Properties) -> Iterator[Problem]:
    """Everything for which Kafka does not start with this listener between brokers.

    A controller is refused for its name, protocol and mechanism too: on it the listener is the
    brokers' one, on which it calls them.
    """
    if hidden(one):
        return
    name = one.get(BETWEEN).upper()
    if name and BETWEEN_PROTOCOL in one.values:
        yield Problem(
            BETWEEN_PROTOCOL,
            f"set beside {BETWEEN}; only one of the two may be",
            "remove it",
        )
    if BETWEEN in one.values and not name:
        yield Problem(BETWEEN, "empty", f"remove it, or name a listener of {LISTENERS}")
        return
    if name and name not in one.protocols:
        yield Problem(
            PROTOCOL_MAP,
            f"has no entry for {name}, which {BETWEEN} names",
            f"add {name} with its protocol, as on the brokers",
        )
        return
    if not one.is_controller:
        advertised_names = sorted({end.name for end in advertised(one)})
        if one.inter_broker_listener not in advertised_names:
            yield Problem(
                BETWEEN,
                f"{one.inter_broker_listener} is not among the advertised listeners "
                f"{', '.join(advertised_names) or '(none)'}",
                "name one of them",
            )
    mechanism = one.get(BROKER_MECHANISM) or DEFAULT_MECHANISM
    accepted = one.mechanisms(one.inter_broker_listener)
    if one.inter_broker_protocol.startswith("SASL_") and mechanism not in accepted:
        yield Problem(
            BROKER_MECHANISM,
            f"{mechanism} is not in {MECHANISMS} ({', '.join(accepted)})",
            f"add it to {MECHANISMS}: Kafka asks for it even on a controller, which serves no "
            "such listener"
            if one.is_controller
            else f"add it to {MECHANISMS}",
        )


def unmapped(one: Properties) -> Iterator[Problem]:
    """Controllers' listeners for which Kafka finds no protocol.

    A ZooKeeper-mode broker looks at the first only, and takes a name that is a protocol for it
    (RaftControllerNodeProvider). Kafka holds names of listeners in upper case, but takes
    ``controller.listener.names`` as it is written.
    """
    if hidden(one):
        return
    mapped = {name for name, protocol in one.protocols.items() if protocol in SECURITY_PROTOCOLS}
    names = controller_names(one)
    for name in names[:1] if one.is_zookeeper_broker else names:
        upper = name.upper()
        alone = upper in SECURITY_PROTOCOLS and not one.is_controller
        if alone and (one.is_zookeeper_broker or upper in mapped):
            continue
        if name in mapped and name == upper:
            continue
        if trim(upper) in mapped:
            yield Problem(
                NAMES,
                f"{name!r}: Kafka compares it with names in upper case without blanks, and finds "
                "none",
                f"write {trim(upper)}",
            )
        else:
            yield Problem(
                PROTOCOL_MAP,
                f"has no entry for {name}",
                f"add {name}:PLAINTEXT, or its real protocol",
            )


def of_controller(one: Properties) -> Iterator[Problem]:
    """Everything for which Kafka does not start a controller with its listeners."""
    if hidden(one):
        return
    ends, names = {end.name for end in listening(one)}, controller_names(one)
    default = "" if LISTENERS in one.values else f" ({LISTENERS} is not set)"
    for name in names:
        if name not in ends and trim(name).upper() not in ends:
            yield Problem(
                NAMES,
                f"{name} is not among {LISTENERS} {', '.join(sorted(ends))}{default}",
                f"add {name}://:9093 to {LISTENERS}, or name the listener that is there",
            )
    for name in sorted(ends - {trim(name).upper() for name in names} if names else ()):
        yield Problem(
            LISTENERS,
            f"{name} is not in {NAMES}",
            f"remove it: a controller has listeners of controllers only, and {BETWEEN} is a "
            "listener of the brokers",
        )
    for name in sorted(name for name, count in Counter(names).items() if count > 1):
        yield Problem(NAMES, f"{name} is named more than once", "name it once")
