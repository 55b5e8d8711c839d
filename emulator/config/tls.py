"""Certificates and protocols of TLS connections: ``zookeeper.ssl.*``, and ``ssl.*`` of listeners.

Source: ZKConfig and X509Util of ZooKeeper 3.8; KafkaConfig ``zookeeper.ssl.*``, SslConfigs,
DefaultSslEngineFactory, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from emulator.config.java_text import boolean, trim
from emulator.config.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS, Listener, tls_profile
from emulator.config.reading import PropertyReader, name_list
from emulator.config.sasl import prefix_of

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


# TLS of our own listeners, and of connections to those of other nodes, by Kafka's ``ssl.*``.
#
# A property with the prefix of the listener wins over the one without. A node that connects to a
# listener uses the properties of that listener too, as in Kafka. Source: SslConfigs, SslFactory,
# DefaultSslEngineFactory, ChannelBuilders, Kafka 3.9; KIP-103, KIP-651, KIP-684.

_SSL: Final = "ssl."
_PROTOCOLS: Final = "TLSv1.2,TLSv1.3"
_CLIENT_AUTH: Final = ("none", "requested", "required")
_INLINE: Final = ("keystore.key", "keystore.certificate.chain", "truststore.certificates")
_NO_EFFECT: Final = ("engine.factory.class", "provider")
_RULES: Final = "principal.mapping.rules"


def all_tls(
    r: PropertyReader, listeners: Iterable[Listener], peers: Mapping[str, str]
) -> dict[str, TlsSettings]:
    """The settings of every listener with TLS, by :func:`tls_profile`; problems are collected.

    Args:
        r: the properties.
        listeners: ours.
        peers: listeners of other nodes to which we connect, and their security protocols.
    """
    found = {
        tls_profile(name): listener_tls(r, name, serves=False)
        for name, protocol in peers.items()
        if protocol in TLS_PROTOCOLS
    }
    return found | {
        tls_profile(one.name): listener_tls(
            r, one.name, serves=True, with_sasl=one.security_protocol in SASL_PROTOCOLS
        )
        for one in listeners
        if one.security_protocol in TLS_PROTOCOLS
    }


def listener_tls(
    r: PropertyReader, listener: str, *, serves: bool, with_sasl: bool = False
) -> TlsSettings:
    """Read the properties of one listener; problems are collected in the reader.

    Args:
        r: the properties.
        listener: its name.
        serves: whether it is ours, and needs a certificate.
        with_sasl: whether its clients log in by SASL: then ``ssl.client.auth`` counts with the
            prefix of the listener only.
    """
    of = _OneListener(r, listener)
    for name in _INLINE:
        if of.text(name):
            instead = f"{_SSL}{name.partition('.')[0]}.location"
            r.problems.append(f"{of.key(name)}: not supported; {instead} is")
    for name in _NO_EFFECT:
        if of.text(name):
            r.problems.append(f"{of.key(name)}={of.text(name)}: Java classes are not run")
    protocols = name_list(of.text("enabled.protocols", _PROTOCOLS) or _PROTOCOLS)
    r.problems += protocol_problems(_SSL, protocols)
    algorithm = of.text("endpoint.identification.algorithm", "https")
    r.problems += algorithm_problems(_SSL, algorithm)
    keystore = of.store("keystore", ("key.password", "keystore.password"))
    if serves and keystore is None:
        r.problems.append(f"{of.key('keystore.location')} is required for listener {listener}")
    return TlsSettings(
        keystore=keystore,
        truststore=of.store("truststore", ("truststore.password",) * 2),
        protocols=protocols,
        cipher_suites=name_list(of.text("cipher.suites")),
        verify_host=bool(algorithm),
        prefix=of.key("keystore.location").removesuffix("keystore.location"),
        client_auth=_client_auth(of, with_sasl=with_sasl) if serves else "none",
    )


def _client_auth(of: _OneListener, *, with_sasl: bool) -> str:
    name = "client.auth"
    asked = of.text(name, "none").lower()
    if with_sasl and not of.own(name):
        asked = "none"
    if asked not in _CLIENT_AUTH:
        of.reader.problems.append(
            f"{of.key(name)}={asked}: must be one of {', '.join(_CLIENT_AUTH)}"
        )
    rules = of.text(_RULES, "DEFAULT")
    if not with_sasl and asked != "none" and rules != "DEFAULT":
        of.reader.problems.append(f"{of.key(_RULES)}={rules}: only DEFAULT is supported")
    return asked


class _OneListener:
    """Properties below ``ssl.`` as they count for one listener."""

    def __init__(self, reader: PropertyReader, listener: str) -> None:
        self.reader = reader
        self._prefix = prefix_of(listener) + _SSL

    def own(self, name: str) -> bool:
        """Whether the listener has its own value."""
        return self._prefix + name in self.reader.raw

    def key(self, name: str) -> str:
        """The property that counts."""
        return (self._prefix if self.own(name) else _SSL) + name

    def text(self, name: str, default: str = "") -> str:
        """Its value; the reader refuses none, so a password gets into no error."""
        return self.reader.take(self.key(name), str, default)

    def store(self, which: str, password: tuple[str, str]) -> Store | None:
        """A store; ``password``: the properties with its password if it is PEM, or PKCS12."""
        location = self.text(f"{which}.location")
        if not location:
            return None
        kind = kind_of(location, self.text(f"{which}.type"))
        self.reader.problems += kind_problems(self.key(f"{which}.type"), location, kind)
        of_pem, of_pkcs12 = map(self.text, password)
        return Store(location, (of_pem if kind == "PEM" else of_pkcs12) or None, kind)
