"""The login to a secured ZooKeeper, and the ACLs of the znodes we create.

Names are Kafka's where Kafka has a property. Kafka gets its SASL login from a system property of
the JVM, which a properties file cannot hold: therefore ``kraftbridge.zookeeper.*``. Source:
ZkConfigs, KafkaZkClient.createZkClient, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from emulator.config import jaas
from emulator.config.java_text import boolean, trim
from emulator.config.listeners import HostPort, host_port
from emulator.config.reading import PropertyReader, name_list
from emulator.config.tls import SSL, TlsSettings, zookeeper_tls

TLS = "zookeeper"
"""Name of the TLS settings that the shell uses for these connections."""

ZOOKEEPER_PORT: Final = 2181
CHROOTS: Final = "the chroot is written once, after the last server"
JAAS: Final = "kraftbridge.zookeeper.jaas.config"
"""The text of a JAAS file; the command line also takes its path and reads it."""
JAAS_SECTION: Final = "kraftbridge.zookeeper.sasl.clientconfig"
"""The section to use: ZooKeeper's own ``zookeeper.sasl.clientconfig``, default ``Client``."""
DIGEST: Final = "kraftbridge.zookeeper.digest"
"""``user:password``, added to the session by ``addauth digest``."""
DIGEST_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
KEYS: Final = frozenset(
    {JAAS, JAAS_SECTION, DIGEST, "zookeeper.set.acl", "zookeeper.clientCnxnSocket"}
)


@dataclass(frozen=True, slots=True)
class ZooKeeperLogin:
    """A user and a password that is never shown."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ZooKeeperSecurity:
    """Our ZooKeeper identities, and whether the znodes we create get ACLs."""

    set_acl: bool = False
    sasl: ZooKeeperLogin | None = None
    digest: ZooKeeperLogin | None = None
    tls: TlsSettings | None = None

    @property
    def identities(self) -> tuple[str, ...]:
        """Our identities for a log line; of a certificate only that there is one."""
        named = (("sasl", self.sasl), ("digest", self.digest))
        known = tuple(f"{scheme}:{login.username}" for scheme, login in named if login)
        return (*known, "x509") if self.tls is not None and self.tls.keystore else known


OPEN: Final = ZooKeeperSecurity()
"""No identity, and no ACLs on created znodes."""


def identity(scheme: str, name: str) -> str:
    """An identity as it is compared and shown: of a digest the user alone.

    >>> identity("sasl", "kafka"), identity("digest", "kafka:secret")
    ('sasl:kafka', 'digest:kafka')
    """
    return f"{scheme}:{name.partition(':')[0] if scheme == 'digest' else name}"


def read(raw: Mapping[str, str]) -> tuple[ZooKeeperSecurity, list[str]]:
    """Read the properties; the second value has one sentence for each problem."""
    reader = PropertyReader(raw)
    set_acl = reader.take("zookeeper.set.acl", boolean, False)
    tls = zookeeper_tls(reader) if reader.take(SSL + "client.enable", boolean, False) else None
    security = ZooKeeperSecurity(set_acl, _sasl(reader), _digest(reader), tls)
    return security, reader.problems


def owner_missing(security: ZooKeeperSecurity) -> list[str]:
    """Refuse ``zookeeper.set.acl`` without an identity, as Kafka does when it connects.

    A digest identity does not count: brokers cannot have one, so the ACLs would exclude them.
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


def _sasl(reader: PropertyReader) -> ZooKeeperLogin | None:
    text = trim(reader.raw.get(JAAS, ""))
    if not text:
        return None
    section = trim(reader.raw.get(JAAS_SECTION, "")) or "Client"
    try:
        return _login(jaas.parse(text).get(section, ()), section)
    except ValueError as error:
        reader.problems.append(f"{JAAS}: {error}")
        return None


def _login(modules: Sequence[jaas.LoginModule], section: str) -> ZooKeeperLogin:
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
    return ZooKeeperLogin(module.options["username"], module.options["password"])


def _digest(reader: PropertyReader) -> ZooKeeperLogin | None:
    text = trim(reader.raw.get(DIGEST, ""))
    if not text:
        return None
    username, colon, password = text.partition(":")
    if not username or not colon or not password:
        reader.problems.append(f"{DIGEST}: not user:password")
        return None
    return ZooKeeperLogin(username, password)


def connect_string(text: str) -> tuple[tuple[HostPort, ...], str]:
    """Parse ``zookeeper.connect``: the servers, and the chroot (empty, or with a leading slash).

    As ZooKeeper's ConnectStringParser: a server without a port is at 2181.

    Raises:
        ValueError: no server, an address that is not ``host:port``, or a chroot after each server.
    """
    hosts, slash, chroot = text.partition("/")
    servers = tuple(
        host_port(part if ":" in part.rpartition("]")[2] else f"{part}:{ZOOKEEPER_PORT}")
        for part in name_list(hosts)
    )
    if not servers:
        raise ValueError("no server named")
    if "," in chroot or ":" in chroot:
        raise ValueError(CHROOTS)
    return servers, f"/{chroot.strip('/')}" if slash and chroot.strip("/") else ""
