"""Certificates and protocols of TLS connections: ``zookeeper.ssl.*``, and ``ssl.*`` of listeners.

Source: ZKConfig and X509Util of ZooKeeper 3.8; KafkaConfig ``zookeeper.ssl.*``, SslConfigs,
DefaultSslEngineFactory, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from emulator.config.java_text import boolean, trim
from emulator.config.reading import PropertyReader, name_list

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
class TlsSettings:
    """One side of a connection; no truststore: the system's certificates are trusted.

    ``prefix``: of the properties, for errors. ``client_auth``: none, requested or required, of
    clients that connect to us.
    """

    keystore: Store | None = None
    truststore: Store | None = None
    protocols: tuple[str, ...] = ("TLSv1.2",)
    cipher_suites: tuple[str, ...] = ()
    """Java's names; empty: the default suites."""
    verify_host: bool = True
    prefix: str = SSL
    client_auth: str = "none"


def zookeeper_tls(reader: PropertyReader) -> TlsSettings:
    """Read ``zookeeper.ssl.*``; problems are collected in the reader."""
    if trim(reader.raw.get("zookeeper.clientCnxnSocket", "")) != NETTY:
        reader.problems.append(
            f"zookeeper.ssl.client.enable=true needs zookeeper.clientCnxnSocket={NETTY}: without "
            "it Kafka's brokers connect in plain text"
        )
    for key in ("crl.enable", "ocsp.enable"):
        if reader.take(SSL + key, boolean, False):
            reader.problems.append(
                f"{SSL}{key}=true is not supported yet: revocation is not checked"
            )
    protocol = trim(reader.raw.get(SSL + "protocol", "")) or "TLSv1.2"
    protocols = reader.take(SSL + "enabled.protocols", name_list, tuple[str, ...]()) or (protocol,)
    reader.problems += protocol_problems(SSL, protocols)
    algorithm = trim(reader.raw.get(SSL + "endpoint.identification.algorithm", "HTTPS"))
    reader.problems += algorithm_problems(SSL, algorithm)
    return TlsSettings(
        keystore=_store(reader, "keystore"),
        truststore=_store(reader, "truststore"),
        protocols=protocols,
        cipher_suites=reader.take(SSL + "cipher.suites", name_list, tuple[str, ...]()),
        verify_host=bool(algorithm),
    )


def protocol_problems(prefix: str, protocols: Sequence[str]) -> list[str]:
    """What is wrong with a list of versions of TLS; one sentence each."""
    problems = [
        f"{prefix}protocol: {one} is not one of {', '.join(PROTOCOLS)}"
        for one in protocols
        if one not in PROTOCOLS
    ]
    known = sorted(PROTOCOLS.index(one) for one in set(protocols) & set(PROTOCOLS))
    if known and known[-1] - known[0] >= len(known):
        problems.append(
            f"{prefix}enabled.protocols: a version between two others cannot be left out"
        )
    return problems


def algorithm_problems(prefix: str, algorithm: str) -> list[str]:
    """What is wrong with an ``endpoint.identification.algorithm``."""
    if algorithm.upper() in {"HTTPS", ""}:
        return []
    return [f"{prefix}endpoint.identification.algorithm={algorithm}: must be HTTPS or empty"]


def kind_of(location: str, configured: str) -> str:
    """The type of a store: the configured one, else by the name of the file; empty if unknown."""
    dot = location.rfind(".")
    return configured.upper() or _TYPE_OF.get(location[dot:].lower() if dot >= 0 else "", "")


def kind_problems(key: str, location: str, kind: str) -> list[str]:
    """What is wrong with the type of a store; ``key``: its property."""
    if kind in {"PEM", "PKCS12"}:
        return []
    what = kind or f"the type of {location}"
    how = "make it PEM or PKCS12 (keytool -importkeystore -deststoretype PKCS12)"
    return [f"{key}: {what} is not supported; {how} and say so in this property"]


def _store(reader: PropertyReader, which: str) -> Store | None:
    """One store; without a type property the file name decides, as in ZooKeeper."""
    key = f"{SSL}{which}"
    location = trim(reader.raw.get(f"{key}.location", ""))
    if not location:
        return None
    kind = kind_of(location, trim(reader.raw.get(f"{key}.type", "")))
    reader.problems += kind_problems(f"{key}.type", location, kind)
    return Store(location, reader.raw.get(f"{key}.password"), kind)
