"""Certificates and protocols of TLS connections, by the names of ``zookeeper.ssl.*``.

Source: ZKConfig and X509Util of ZooKeeper 3.8; KafkaConfig ``zookeeper.ssl.*``, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from emulator.config.reading import PropertyReader, boolean, name_list

NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
PROTOCOLS: Final = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
SSL: Final = "zookeeper.ssl."
_TYPE_OF: Final[Mapping[str, str]] = {
    ".pem": "PEM",
    ".p12": "PKCS12",
    ".pfx": "PKCS12",
    ".jks": "JKS",
}


@dataclass(frozen=True, slots=True)
class Store:
    """A file of keys or certificates. ``kind``: PEM or PKCS12."""

    location: str
    password: str | None = field(repr=False)
    kind: str


@dataclass(frozen=True, slots=True)
class ZooKeeperTls:
    """Properties ``zookeeper.ssl.*``; no truststore: the system's certificates are trusted."""

    keystore: Store | None = None
    truststore: Store | None = None
    protocols: tuple[str, ...] = ("TLSv1.2",)
    cipher_suites: tuple[str, ...] = ()
    """Java's names; empty: the default suites."""
    verify_host: bool = True


def zookeeper_tls(reader: PropertyReader) -> ZooKeeperTls:
    """Read ``zookeeper.ssl.*``; problems are collected in the reader."""
    if reader.raw.get("zookeeper.clientCnxnSocket", "").strip() != NETTY:
        reader.problems.append(
            f"zookeeper.ssl.client.enable=true needs zookeeper.clientCnxnSocket={NETTY}: without "
            "it Kafka's brokers connect in plain text"
        )
    for key in ("crl.enable", "ocsp.enable"):
        if reader.take(SSL + key, boolean, False):
            reader.problems.append(
                f"{SSL}{key}=true is not supported yet: revocation is not checked"
            )
    protocol = reader.raw.get(SSL + "protocol", "").strip() or "TLSv1.2"
    protocols = reader.take(SSL + "enabled.protocols", name_list, tuple[str, ...]()) or (protocol,)
    reader.problems += [
        f"{SSL}protocol: {one} is not one of {', '.join(PROTOCOLS)}"
        for one in protocols
        if one not in PROTOCOLS
    ]
    known = sorted(PROTOCOLS.index(one) for one in set(protocols) & set(PROTOCOLS))
    if known and known[-1] - known[0] >= len(known):
        reader.problems.append(
            f"{SSL}enabled.protocols: a version between two others cannot be left out"
        )
    algorithm = reader.raw.get(SSL + "endpoint.identification.algorithm", "HTTPS").strip()
    if algorithm.upper() not in {"HTTPS", ""}:
        reader.problems.append(
            f"{SSL}endpoint.identification.algorithm={algorithm}: must be HTTPS or empty"
        )
    return ZooKeeperTls(
        keystore=_store(reader, "keystore"),
        truststore=_store(reader, "truststore"),
        protocols=protocols,
        cipher_suites=reader.take(SSL + "cipher.suites", name_list, tuple[str, ...]()),
        verify_host=bool(algorithm),
    )


def _store(reader: PropertyReader, which: str) -> Store | None:
    """One store; without a type property the file name decides, as in ZooKeeper."""
    key = f"{SSL}{which}"
    location = reader.raw.get(f"{key}.location", "").strip()
    if not location:
        return None
    dot = location.rfind(".")
    told = reader.raw.get(f"{key}.type", "").strip().upper()
    kind = told or _TYPE_OF.get(location[dot:].lower() if dot >= 0 else "", "")
    if kind not in {"PEM", "PKCS12"}:
        reader.problems.append(
            f"{key}.type: {kind or 'the type of ' + location} is not supported; make it PEM or "
            "PKCS12 (keytool -importkeystore -deststoretype PKCS12) and say so in this property"
        )
    return Store(location, reader.raw.get(f"{key}.password"), kind)
