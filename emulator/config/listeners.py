"""Listeners, advertised listeners and voters.

Source: KafkaConfig, SocketServerConfigs, QuorumConfig, Kafka 3.9.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from emulator.config.reading import integer, name_list

ANY_ADDRESS: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound
SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

SASL_PROTOCOLS: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
TLS_PROTOCOLS: Final = frozenset({"SSL", "SASL_SSL"})
METRICS_PORT: Final = "kraftbridge.metrics.port"
METRICS_HOSTS: Final = "kraftbridge.metrics.hosts"


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host name or address with its port.

    >>> str(HostPort("::1", 9092))
    '[::1]:9092'
    """

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


USUAL: Final = HostPort("127.0.0.1", 9404)
"""Where metrics and status of a controller are if its configuration has no port for them; if that
one is taken, at a free port of the same host."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One entry of ``listeners``: where a named listener binds, and its security protocol."""

    name: str
    host: str
    port: int
    security_protocol: str


def url_of(host: str, port: int) -> str:
    """The HTTP address of what is bound there; of what is bound everywhere, on this machine.

    >>> url_of("::1", 9404), url_of("", 9404), url_of("::", 9404)
    ('http://[::1]:9404', 'http://127.0.0.1:9404', 'http://[::1]:9404')
    """
    here = "::1" if host == "::" else "127.0.0.1"
    return f"http://{HostPort(here if host in ANY_ADDRESS else host, port)}"


def metrics_port(text: str) -> int:
    """Parse ``kraftbridge.metrics.port``; -1, also of an empty text: no port is opened.

    Raises:
        ValueError: no port.
    """
    return integer(-1, 65_535)(text) if text else -1


def metrics_hosts(text: str) -> tuple[str, ...]:
    """Parse ``kraftbridge.metrics.hosts``: names and addresses, without ports.

    Raises:
        ValueError: an entry is something else.

    >>> metrics_hosts("kafka1.example.com, 10.0.0.5, ::1")
    ('kafka1.example.com', '10.0.0.5', '::1')
    """
    names = name_list(text)
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9_]([\w.-]*\w)?\.?", name, re.ASCII):
            try:
                ipaddress.ip_address(name)
            except ValueError:
                raise ValueError(f"{name!r} is not the name or address of a host") from None
    return names


def host_fault(host: str) -> str | None:
    """Why no connection to such a host is possible; None if it can be tried.

    A name that cannot be written as DNS labels raises UnicodeError in every resolver of Python: an
    empty label, one above 63 bytes, or characters that no label has. An empty text is accepted: a
    resolver answers that there is no such host. IP addresses are accepted.

    >>> host_fault("broker-1.example")
    >>> host_fault("a..b")
    'it is not a host name: a label is empty, longer than 63 bytes or not of DNS characters'
    """
    if "\0" in host:
        return "it contains a NUL character"
    try:
        host.encode("idna")
    except UnicodeError:
        return (
            "it is not a host name: a label is empty, longer than 63 bytes or not of DNS characters"
        )
    return None


def host_port(text: str) -> HostPort:
    """Parse ``host:port`` (IPv6 in brackets).

    Raises:
        ValueError: no port, or a port outside 0-65535.

    >>> host_port("zk1:2181")
    HostPort(host='zk1', port=2181)
    """
    host, colon, port = text.rpartition(":")
    if not colon or not _digits(port):
        raise ValueError(f"{text!r} is not host:port")
    if len(port.lstrip("0")) > 5 or int(port) > 65_535:
        raise ValueError(f"{text!r}: a port is 0 to 65535")
    return HostPort(host.strip("[]"), int(port))


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def voters_of(text: str) -> dict[int, HostPort]:
    """Parse ``controller.quorum.voters``: node id -> address.

    Raises:
        ValueError: an entry is not ``id@host:port``, or an id appears twice.

    >>> voters_of("1@a:9093")
    {1: HostPort(host='a', port=9093)}
    """
    voters: dict[int, HostPort] = {}
    for part in name_list(text):
        node, at, address = part.partition("@")
        if not at or not _digits(node):
            raise ValueError(f"{part!r} is not id@host:port")
        if int(node) in voters:
            raise ValueError(f"voter {node} is listed twice")
        voters[int(node)] = host_port(address)
        if not voters[int(node)].host:
            raise ValueError(f"{part!r} names no host")
    return voters


def protocol_map(text: str) -> dict[str, str]:
    """Parse ``listener.security.protocol.map``: listener name -> security protocol.

    Raises:
        ValueError: an entry is not ``NAME:PROTOCOL`` with a protocol that Kafka knows.
    """
    result: dict[str, str] = {}
    for part in name_list(text):
        name, colon, protocol = part.partition(":")
        if not colon or protocol not in SECURITY_PROTOCOLS:
            raise ValueError(f"{part!r} is not NAME:PROTOCOL with a known protocol")
        result[name] = protocol
    return result


def implied_protocols(controllers: Sequence[str], listeners: str) -> dict[str, str]:
    """What Kafka takes in KRaft mode for ``listener.security.protocol.map`` if a file has none.

    Controller listeners are PLAINTEXT, unless a listener is of another protocol.

    Args:
        controllers: ``controller.listener.names``.
        listeners: the text of ``listeners``.

    Source: KafkaConfig.effectiveListenerSecurityProtocolMap, Kafka 3.9.

    >>> implied_protocols(["CONTROLLER"], "CONTROLLER://:9093")
    {'CONTROLLER': 'PLAINTEXT'}
    >>> implied_protocols(["CONTROLLER"], "CONTROLLER://:9093,SSL://:9092")
    {}
    """
    named = (one.partition("://")[0].upper() for one in name_list(listeners))
    if {*controllers, *named} & (set(SECURITY_PROTOCOLS) - {"PLAINTEXT"}):
        return {}
    return dict.fromkeys(controllers, "PLAINTEXT")


def listeners_of(text: str, protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    """Parse ``listeners``; a name that is not in ``protocols`` is its own security protocol.

    Raises:
        ValueError: an entry is not ``NAME://host:port``, or a name appears twice.
    """
    result = []
    for part in name_list(text):
        name, sep, address = part.partition("://")
        if not sep:
            raise ValueError(f"{part!r} is not NAME://host:port")
        where = host_port(address)
        result.append(Listener(name, where.host, where.port, protocols.get(name, name)))
    if len({x.name for x in result}) != len(result):
        raise ValueError("a listener name is used twice")
    return tuple(result)


def advertised_of(
    listeners: Sequence[Listener], given: Sequence[Listener], voter: HostPort | None
) -> tuple[Listener, ...]:
    """The advertised listeners: those in ``given``, else the bound address.

    A listener that binds every address is advertised at the host of ``voter``, which is this
    node's entry in ``controller.quorum.voters``.
    """
    names = {one.name for one in given}
    advertised = (*given, *(one for one in listeners if one.name not in names))
    return tuple(
        replace(one, host=voter.host) if voter and one.host in ANY_ADDRESS else one
        for one in advertised
    )


def voter_elsewhere(
    node_id: int, own: HostPort | None, listening: Sequence[Listener], names: Sequence[str]
) -> str:
    """What is wrong with a controller's own entry in the voters; empty if its port is bound.

    Args:
        node_id: of the controller.
        own: its entry; None if it has none.
        listening: its listeners, and those that it advertises.
        names: its controller listeners.
    """
    ports = {one.port for one in listening if one.name in names}
    if own is None or not ports or own.port in ports or 0 in ports:
        return ""
    return (
        f"{node_id}@{own}, and this controller listens on port {', '.join(map(str, sorted(ports)))}"
    )


def tls_profile(listener: str) -> str:
    """The name of the TLS settings of a listener, of its server and of its clients."""
    return f"listener {listener}"
