"""``/brokers/ids``: brokers as they register themselves in ZooKeeper.

Source: kafka.zk.BrokerIdZNode, versions 1 to 5, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from emulator.metadata.brokers import Endpoint
from emulator.znodes import znode_json
from emulator.znodes.tree import ZnodeError
from emulator.znodes.znode_json import decode, number_of

ROOT: Final = "/brokers/ids"
PORT_MAX: Final = 65_535
PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class FeatureRange(msgspec.Struct, frozen=True):
    """Levels of a feature a broker supports."""

    min_version: int
    max_version: int


class ZkBroker(msgspec.Struct, frozen=True):
    """One live broker. ``epoch`` is the czxid of its znode: the broker epoch of ZooKeeper mode."""

    id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    features: dict[str, FeatureRange]


class _BrokerJson(msgspec.Struct):
    version: int
    host: str | None = None
    port: int = -1
    endpoints: list[str] = []
    listener_security_protocol_map: dict[str, str] = {}
    rack: str | None = None
    features: dict[str, FeatureRange] = {}


def parse(path: str, data: bytes | None, epoch: int = -1) -> ZkBroker:
    """Read a broker's znode. Before version 4 a listener is named as its security protocol.

    A port is 0 to 65535. Kafka looks at none here, and fails when it connects: InetSocketAddress
    throws IllegalArgumentException for others.

    Raises:
        ZnodeError: malformed, an unknown version, or an invalid endpoint.
    """
    found = decode(path, data, _BrokerJson)
    broker_id = number_of(path.rsplit("/", 1)[1])
    if not 1 <= found.version <= 5 or broker_id is None:
        raise ZnodeError(path, f"version {found.version} is unknown")
    listeners = found.listener_security_protocol_map
    endpoints: tuple[Endpoint, ...]
    if found.version == 1:
        if not 0 <= found.port <= PORT_MAX:
            raise ZnodeError(path, f"port {found.port} is not 0 to {PORT_MAX}")
        endpoints = (Endpoint("PLAINTEXT", found.host or "", found.port),)
    else:
        endpoints = tuple(_endpoint(path, text, listeners) for text in found.endpoints)
    return ZkBroker(broker_id, epoch, endpoints, found.rack, found.features)


def encode(endpoints: Sequence[Endpoint], rack: str | None, now_ms: int) -> bytes:
    """Render the znode of a broker whose inter.broker.protocol.version is 2.7 or higher.

    ``host`` and ``port`` are for clients older than any supported here: the first PLAINTEXT
    endpoint, or null and -1. No release from 3.4 to 3.9 lists features in ZooKeeper mode.

    >>> encode([Endpoint("IN", "::1", 9092, 0)], None, 1).decode()[:71]
    '{"version":5,"host":"::1","port":9092,"jmx_port":-1,"timestamp":"1","en'
    """
    names = {number: name for name, number in PROTOCOLS.items()}
    plain = next((one for one in endpoints if one.security_protocol == 0), None)
    fields: dict[str, object] = {
        "version": 5,
        "host": None if plain is None else plain.host,
        "port": -1 if plain is None else plain.port,
        "jmx_port": -1,
        "timestamp": str(now_ms),
        "endpoints": [f"{one.name}://{_in_brackets(one.host)}:{one.port}" for one in endpoints],
        "listener_security_protocol_map": {
            one.name: names[one.security_protocol] for one in endpoints
        },
        "features": {},
    }
    if rack is not None:
        fields["rack"] = rack
    return znode_json.encode(fields)


def _in_brackets(host: str) -> str:
    """An IPv6 address in brackets, as a URL has it."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _endpoint(path: str, text: str, listeners: dict[str, str]) -> Endpoint:
    name, _, rest = text.partition("://")
    protocol = listeners.get(name, name)
    try:
        parts = urlsplit(f"//{rest}")
        return Endpoint(name, parts.hostname or "", parts.port or 0, PROTOCOLS[protocol])
    except (ValueError, KeyError) as error:
        raise ZnodeError(path, f"endpoint {text!r}: {error!r}") from error
