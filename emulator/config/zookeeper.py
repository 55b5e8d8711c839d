"""How to log in to a secured ZooKeeper, and which ACLs what we create there gets.

Names are Kafka's where Kafka has a property. How to log in by SASL it is told through a system
property of the JVM, which no properties file can hold: hence ``kraftbridge.zookeeper.*``.
Source: ZkConfigs, KafkaZkClient.createZkClient, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from emulator.config import jaas

JAAS: Final = "kraftbridge.zookeeper.jaas.config"
"""The text of a JAAS file; the command line also takes its path and reads it."""
JAAS_SECTION: Final = "kraftbridge.zookeeper.sasl.clientconfig"
"""Which section is ours: ZooKeeper's own ``zookeeper.sasl.clientconfig``, as default ``Client``."""
DIGEST: Final = "kraftbridge.zookeeper.digest"
"""``user:password``, added to the session by ``addauth digest``."""
DIGEST_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
PROTOCOLS: Final = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
_TYPE_OF: Final = {".pem": "PEM", ".p12": "PKCS12", ".pfx": "PKCS12", ".jks": "JKS"}
_SSL: Final = "zookeeper.ssl."
KEYS: Final = frozenset(
    {JAAS, JAAS_SECTION, DIGEST, "zookeeper.set.acl", "zookeeper.clientCnxnSocket"}
)


@dataclass(frozen=True, slots=True)
class Login:
    """A user and a password that is never shown."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Store:
    """A file of keys or certificates. ``kind``: PEM or PKCS12."""

    location: str
    password: str | None = field(repr=False)
    kind: str


@dataclass(frozen=True, slots=True)
class ZooKeeperTls:
    """Properties ``zookeeper.ssl.*``; without a truststore the system's certificates count."""

    keystore: Store | None = None
    truststore: Store | None = None
    protocols: tuple[str, ...] = ("TLSv1.2",)
    cipher_suites: tuple[str, ...] = ()
    """Java's names; empty: whatever both sides like."""
    verify_host: bool = True


@dataclass(frozen=True, slots=True)
class ZooKeeperSecurity:
    """Who we are to ZooKeeper, and whether what we create is protected."""

    set_acl: bool = False
    sasl: Login | None = None
    digest: Login | None = None
    tls: ZooKeeperTls | None = None

    @property
    def identities(self) -> tuple[str, ...]:
        """As whom we log in, for a log line; of a certificate only that there is one."""
        named = (("sasl", self.sasl), ("digest", self.digest))
        known = tuple(f"{scheme}:{login.username}" for scheme, login in named if login)
        return (*known, "x509") if self.tls is not None and self.tls.keystore else known


OPEN: Final = ZooKeeperSecurity()
"""Nobody in particular, and everything open to everybody."""


def read(raw: Mapping[str, str]) -> tuple[ZooKeeperSecurity, list[str]]:
    """Read the properties; the second value holds a sentence for each that is wrong."""
    problems: list[str] = []
    set_acl = _flag(raw, "zookeeper.set.acl", problems)
    tls = _tls(raw, problems) if _flag(raw, _SSL + "client.enable", problems) else None
    security = ZooKeeperSecurity(set_acl, _sasl(raw, problems), _digest(raw, problems), tls)
    return security, problems


def owner_missing(security: ZooKeeperSecurity) -> list[str]:
    """Refuse ACLs for nobody, as Kafka does when it connects.

    A digest does not count: no broker can have one, and would be kept out of what we create.
    """
    certified = security.tls is not None and security.tls.keystore is not None
    if not security.set_acl or security.sasl is not None or certified:
        return []
    text = (
        "zookeeper.set.acl is true, but ZooKeeper client TLS configuration identifying at least "
        "zookeeper.ssl.client.enable, zookeeper.clientCnxnSocket, and "
        "zookeeper.ssl.keystore.location was not present and the verification of the JAAS login "
        f"file failed: set {JAAS}"
    )
    return [text]


def _flag(raw: Mapping[str, str], key: str, problems: list[str]) -> bool:
    text = raw.get(key, "false").strip().lower()
    if text not in {"true", "false"}:
        problems.append(f"{key}={raw[key]}: must be true or false")
    return text == "true"


def _sasl(raw: Mapping[str, str], problems: list[str]) -> Login | None:
    text = raw.get(JAAS, "").strip()
    if not text:
        return None
    section = raw.get(JAAS_SECTION, "").strip() or "Client"
    try:
        return _login(jaas.parse(text).get(section, ()), section)
    except ValueError as error:
        problems.append(f"{JAAS}: {error}")
        return None


def _login(modules: Sequence[jaas.LoginModule], section: str) -> Login:
    if not modules:
        raise ValueError(f"no section {section}")
    module = modules[0]
    if module.name != DIGEST_MODULE:
        raise ValueError(
            f"{section}: {module.name} is not supported, only {DIGEST_MODULE} (DIGEST-MD5)"
        )
    missing = [key for key in ("username", "password") if not module.options.get(key)]
    if missing:
        raise ValueError(f"{section}: {DIGEST_MODULE} needs {' and '.join(missing)}")
    return Login(module.options["username"], module.options["password"])


def _digest(raw: Mapping[str, str], problems: list[str]) -> Login | None:
    text = raw.get(DIGEST, "").strip()
    if not text:
        return None
    username, colon, password = text.partition(":")
    if not username or not colon or not password:
        problems.append(f"{DIGEST}: not user:password")
        return None
    return Login(username, password)


def _tls(raw: Mapping[str, str], problems: list[str]) -> ZooKeeperTls:
    if raw.get("zookeeper.clientCnxnSocket", "").strip() != NETTY:
        problems.append(
            f"zookeeper.ssl.client.enable=true needs zookeeper.clientCnxnSocket={NETTY}: without "
            "it Kafka's brokers connect in plain text"
        )
    for key in ("crl.enable", "ocsp.enable"):
        if _flag(raw, _SSL + key, problems):
            problems.append(f"{_SSL}{key}=true is not supported yet: revocation is not checked")
    protocol = raw.get(_SSL + "protocol", "").strip() or "TLSv1.2"
    protocols = _names(raw, _SSL + "enabled.protocols") or (protocol,)
    problems += [
        f"{_SSL}protocol: {one} is not one of {', '.join(PROTOCOLS)}"
        for one in protocols
        if one not in PROTOCOLS
    ]
    known = sorted(PROTOCOLS.index(one) for one in set(protocols) & set(PROTOCOLS))
    if known and known[-1] - known[0] >= len(known):
        problems.append(f"{_SSL}enabled.protocols: a version between two others cannot be left out")
    algorithm = raw.get(_SSL + "endpoint.identification.algorithm", "HTTPS").strip()
    if algorithm.upper() not in {"HTTPS", ""}:
        problems.append(
            f"{_SSL}endpoint.identification.algorithm={algorithm}: must be HTTPS or empty"
        )
    return ZooKeeperTls(
        keystore=_store(raw, "keystore", problems),
        truststore=_store(raw, "truststore", problems),
        protocols=protocols,
        cipher_suites=_names(raw, _SSL + "cipher.suites"),
        verify_host=bool(algorithm),
    )


def _names(raw: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in raw.get(key, "").split(",") if part.strip())


def _store(raw: Mapping[str, str], which: str, problems: list[str]) -> Store | None:
    """One store; its type is told by the file's name if by nothing else, as in ZooKeeper."""
    key = f"{_SSL}{which}"
    location = raw.get(f"{key}.location", "").strip()
    if not location:
        return None
    dot = location.rfind(".")
    told = raw.get(f"{key}.type", "").strip().upper()
    kind = told or _TYPE_OF.get(location[dot:].lower() if dot >= 0 else "", "")
    if kind not in {"PEM", "PKCS12"}:
        problems.append(
            f"{key}.type: {kind or 'the type of ' + location} is not supported; make it PEM or "
            "PKCS12 (keytool -importkeystore -deststoretype PKCS12) and say so in this property"
        )
    return Store(location, raw.get(f"{key}.password"), kind)
