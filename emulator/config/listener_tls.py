"""TLS of our own listeners, and of connections to those of other nodes, by Kafka's ``ssl.*``.

A property with the prefix of the listener wins over the one without. A node that connects to a
listener uses the properties of that listener too, as in Kafka. Source: SslConfigs, SslFactory,
DefaultSslEngineFactory, ChannelBuilders, Kafka 3.9; KIP-103, KIP-651, KIP-684.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from emulator.config.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS, Listener, tls_profile
from emulator.config.reading import PropertyReader, name_list
from emulator.config.sasl import prefix_of
from emulator.config.tls import (
    Store,
    TlsSettings,
    algorithm_problems,
    kind_of,
    kind_problems,
    protocol_problems,
)

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
