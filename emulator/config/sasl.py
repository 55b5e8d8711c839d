"""SASL on our own listeners, and our login to other nodes, by Kafka's names.

Everything about a listener is read under its prefix ``listener.name.<name in lower case>.``, the
login modules only there, as in Kafka. A JAAS file of the JVM is not read. Passwords are in no text
that is made here. Source: JaasContext, SaslChannelBuilder, BrokerSecurityConfigs, Kafka 3.9;
KIP-12, KIP-84, KIP-86, KIP-103.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from emulator.config import jaas
from emulator.config.java_text import trim
from emulator.config.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS, Listener, tls_profile
from emulator.config.reading import PropertyReader, integer, name_list

PLAIN: Final = "PLAIN"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = (PLAIN, *SCRAM)
ENABLED: Final = "sasl.enabled.mechanisms"
CONTROLLER_MECHANISM: Final = "sasl.mechanism.controller.protocol"
INTER_BROKER_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
REAUTHENTICATION: Final = "connections.max.reauth.ms"
FAILURE_DELAY: Final = "connection.failed.authentication.delay.ms"
_DEFAULT: Final = "GSSAPI"
_LONG: Final = integer(-(1 << 63), (1 << 63) - 1)
_SECURITY: Final = "org.apache.kafka.common.security"
_PLAIN_MODULE: Final = f"{_SECURITY}.plain.PlainLoginModule"
_SCRAM_MODULE: Final = f"{_SECURITY}.scram.ScramLoginModule"
_MODULES: Final = {PLAIN: _PLAIN_MODULE, **dict.fromkeys(SCRAM, _SCRAM_MODULE)}
_USER: Final = "user_"
_CLASSES: Final = (
    "sasl.server.callback.handler.class",
    "sasl.login.class",
    "sasl.login.callback.handler.class",
)


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """How this node logs in to another one; the password is never shown."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SaslListener:
    """What a listener accepts. ``users``: names and passwords for PLAIN.

    ``session_ms``: mechanism -> time after which a client must have logged in again; absent: none.
    """

    mechanisms: tuple[str, ...]
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    session_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """The listeners that need a login, by name, and the limits of a login."""

    listeners: Mapping[str, SaslListener] = field(default_factory=dict)
    receive_bytes_max: int = 524_288
    """Of one request before the login is complete."""
    failure_delay_ms: int = 100
    """A login that failed is answered, and its connection closed, after this time."""

    @classmethod
    def read(cls, r: PropertyReader, listeners: Iterable[Listener], idle_ms: int) -> SaslSettings:
        """Read the properties of our listeners; problems are collected in the reader.

        Args:
            r: the properties.
            listeners: ours; those without SASL are left out.
            idle_ms: how long a connection may be idle; negative: no limit.
        """
        plain = cls()
        delay_ms = r.take(FAILURE_DELAY, integer(0), plain.failure_delay_ms)
        if 0 <= idle_ms <= delay_ms and FAILURE_DELAY in r.raw:
            r.problems.append(
                f"{FAILURE_DELAY}={delay_ms}: must be less than connections.max.idle.ms={idle_ms}"
            )
        return cls(
            {x.name: _listener(r, x) for x in listeners if x.security_protocol in SASL_PROTOCOLS},
            r.take("sasl.server.max.receive.size", integer(1), plain.receive_bytes_max),
            delay_ms,
        )


@dataclass(frozen=True, slots=True)
class PeerAccess:
    """How connections to a listener of other nodes are secured.

    ``login`` None: there is none. ``tls``: name of the settings of TLS; empty: plain text.
    """

    login: SaslLogin | None = None
    tls: str = ""


OPEN_ACCESS: Final = PeerAccess()
"""Plain text without a login."""


def access_to(r: PropertyReader, listener: str, protocol: str, mechanism_key: str) -> PeerAccess:
    """How we connect to a listener of other nodes; problems are collected.

    Args:
        r: the properties.
        listener: name of the listener.
        protocol: its security protocol.
        mechanism_key: the property that names the mechanism of our login.
    """
    mechanism = r.take(mechanism_key, str, _DEFAULT)
    tls = tls_profile(listener) if protocol in TLS_PROTOCOLS else ""
    if protocol not in SASL_PROTOCOLS:
        return PeerAccess(tls=tls)
    if mechanism not in MECHANISMS:
        r.problems.append(
            f"{mechanism_key}={mechanism}: not supported for the login to listener {listener}; "
            f"{', '.join(MECHANISMS)} are"
        )
        return PeerAccess(tls=tls)
    return PeerAccess(_login(r, listener, mechanism), tls)


def refuse_scram_of_voters(r: PropertyReader, access: PeerAccess) -> None:
    """Refuse voters that log in to each other by SCRAM: without a leader they know no user."""
    if access.login is not None and access.login.mechanism in SCRAM:
        r.problems.append(
            f"{CONTROLLER_MECHANISM}={access.login.mechanism}: several voters cannot log in to "
            "each other by SCRAM. A voter knows its users from a leader only, and votes before "
            f"there is one: after all were down, nobody would be elected. {PLAIN} and certificates "
            "are possible; brokers may log in by SCRAM"
        )


def _login(r: PropertyReader, listener: str, mechanism: str) -> SaslLogin | None:
    module = _module(r, listener, mechanism)
    if module is None:
        return None
    missing = [name for name in ("username", "password") if not module.options.get(name)]
    if missing:
        r.problems.append(
            f"{jaas_key(listener, mechanism)}: the login to listener {listener} needs "
            + " and ".join(missing)
        )
        return None
    return SaslLogin(mechanism, module.options["username"], module.options["password"])


def jaas_key(listener: str, mechanism: str) -> str:
    """The property with the login module of a listener.

    >>> jaas_key("CONTROLLER", "PLAIN")
    'listener.name.controller.plain.sasl.jaas.config'
    """
    return f"{prefix_of(listener)}{mechanism.lower()}.sasl.jaas.config"


def prefix_of(listener: str) -> str:
    """What a property of one listener begins with."""
    return f"listener.name.{listener.lower()}."


def _listener(r: PropertyReader, listener: Listener) -> SaslListener:
    prefix = prefix_of(listener.name)
    r.used |= {ENABLED, prefix + ENABLED}
    key = prefix + ENABLED if prefix + ENABLED in r.raw else ENABLED
    mechanisms = tuple(dict.fromkeys(name_list(r.take(key, str, _DEFAULT))))
    wrong = [one for one in mechanisms if one not in MECHANISMS]
    if wrong or not mechanisms:
        r.problems.append(
            f"{key}={','.join(mechanisms)}: not supported on listener {listener.name}; "
            f"{', '.join(MECHANISMS)} are"
        )
    users: dict[str, str] = {}
    for mechanism in mechanisms:
        if mechanism in MECHANISMS:
            module = _module(r, listener.name, mechanism)
            if module is not None and mechanism == PLAIN:
                users = _users(r, listener.name, module)
        _refuse_unsupported(r, prefix, mechanism)
    session_ms = {one: _session_ms(r, prefix, one) for one in mechanisms}
    return SaslListener(mechanisms, users, {one: ms for one, ms in session_ms.items() if ms > 0})


def _session_ms(r: PropertyReader, prefix: str, mechanism: str) -> int:
    """``connections.max.reauth.ms`` of a mechanism on a listener; 0: sessions have no end."""
    found = 0
    for own in ("", prefix, f"{prefix}{mechanism.lower()}."):
        key = own + REAUTHENTICATION
        r.used.add(key)
        if key not in r.raw:
            continue
        try:
            found = _LONG(trim(r.raw[key]))
        except ValueError as error:
            # Once, though it may be of several mechanisms and listeners.
            text = f"{key}={r.raw[key]}: {error}"
            if text not in r.problems:
                r.problems.append(text)
    return found


def _users(r: PropertyReader, listener: str, module: jaas.LoginModule) -> dict[str, str]:
    found = {
        name.removeprefix(_USER): password
        for name, password in module.options.items()
        if name.startswith(_USER)
    }
    if "" in found or "" in found.values():
        r.problems.append(f"{jaas_key(listener, PLAIN)}: a user without a name or a password")
    return found


def _module(r: PropertyReader, listener: str, mechanism: str) -> jaas.LoginModule | None:
    """The one login module of a mechanism; None after a problem."""
    key = jaas_key(listener, mechanism)
    r.used.add(key)
    text, wanted = trim(r.raw.get(key, "")), _MODULES[mechanism]
    example = f'{wanted} required username="..." password="...";'
    if not text:
        why = f"{key} is required, such as {example}; a JAAS file of the JVM is not read"
        if why not in r.problems:
            r.problems.append(why)
        return None
    try:
        text.encode()  # half of a character, as \ud800 in a file, can be in no login
        module = jaas.one_module(text)
    except ValueError:
        # The parser's error may hold a part of a password that is not in quotation marks.
        r.problems.append(f"{key}: not one login module, such as {example}")
        return None
    if module.name != wanted:
        r.problems.append(f"{key}: the module of {mechanism} must be {wanted}")
        return None
    return module


def _refuse_unsupported(r: PropertyReader, prefix: str, mechanism: str) -> None:
    of_mechanism = f"{prefix}{mechanism.lower()}."
    for name in _CLASSES:
        value = trim(r.raw.get(of_mechanism + name, ""))
        if value:
            r.problems.append(f"{of_mechanism}{name}={value}: Java classes are not run")
