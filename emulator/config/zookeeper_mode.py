"""The properties of a broker in ZooKeeper mode, with and without migration.

Source: KafkaConfig.validateValues, ZkConfigs, Kafka 3.4-3.9. One rule is ours: an
``inter.broker.protocol.version`` below 2.7, which Kafka accepts, is refused. Such a broker
registers in an older form, and changes ISRs in ZooKeeper itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from emulator.config import zookeeper
from emulator.config.java_text import boolean, split
from emulator.config.listeners import HostPort
from emulator.config.passwords import PasswordSettings
from emulator.config.reading import PropertyReader, integer
from emulator.config.zookeeper import ZooKeeperSecurity

# The versions that ``inter.broker.protocol.version`` and ``message.format.version`` may be.
#
# Source: MetadataVersion.fromVersionString, Kafka 3.4-3.9.

_TO_3_4: Final = """
0.8.0 0.8.1 0.8.2 0.9.0 0.10.0 0.10.0-IV0 0.10.0-IV1 0.10.1 0.10.1-IV0 0.10.1-IV1 0.10.1-IV2
0.10.2 0.10.2-IV0 0.11.0 0.11.0-IV0 0.11.0-IV1 0.11.0-IV2 1.0 1.0-IV0 1.1 1.1-IV0 2.0 2.0-IV0
2.0-IV1 2.1 2.1-IV0 2.1-IV1 2.1-IV2 2.2 2.2-IV0 2.2-IV1 2.3 2.3-IV0 2.3-IV1 2.4 2.4-IV0 2.4-IV1
2.5 2.5-IV0 2.6 2.6-IV0 2.7 2.7-IV0 2.7-IV1 2.7-IV2 2.8 2.8-IV0 2.8-IV1 3.0 3.0-IV0 3.0-IV1 3.1
3.1-IV0 3.2 3.2-IV0 3.3 3.3-IV0 3.3-IV1 3.3-IV2 3.3-IV3 3.4 3.4-IV0
"""
_LATER: Final = {
    "3.5": "3.5 3.5-IV0 3.5-IV1 3.5-IV2",
    "3.6": "3.6 3.6-IV0 3.6-IV1 3.6-IV2",
    "3.7": "3.7 3.7-IV0 3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4",
    "3.8": "3.8 3.8-IV0",
    "3.9": "3.9 3.9-IV0 4.0-IV0 4.0-IV1",
}
_SINCE: Final = {
    name: release
    for release, names in (("3.4", _TO_3_4), *_LATER.items())
    for name in names.split()
}
"""Version -> the first of the bridge releases that knows it."""


def known(text: str, release: str = "3.9") -> str:
    """The version that a text means: digits behind the release are without meaning.

    Raises:
        ValueError: that release of Kafka does not know it.

    >>> known("3.4.1"), known("0.10.2.1"), known("3.7-IV4")
    ('3.4', '0.10.2', '3.7-IV4')
    """
    parts, size = split(text, "."), 3 if text.startswith("0.") else 2
    name = ".".join(parts[:size]) if len(parts) > size else text
    # The releases are compared as texts: each has one digit behind its point.
    if _SINCE.get(name, "9") > release:
        raise ValueError("not a version such as 3.9 or 3.4-IV0")
    return name


IBP: Final = "inter.broker.protocol.version"
CONNECT: Final = "zookeeper.connect"
MIGRATION: Final = "zookeeper.metadata.migration.enable"
KEYS: Final = (
    "zookeeper.metadata.migration.enable, controller.quorum.voters and controller.listener.names"
)
"""What a broker in ZooKeeper mode has for the migration alone."""
IBP_MIN: Final = (2, 7)
MIGRATION_IBP_MIN: Final = (3, 4)
_IBP: Final = re.compile(r"([1-9])\.([0-9])(?:-IV([0-9]))?")
_SEVERAL_DIRS_FROM: Final = ((3, 7), 2)
"""inter.broker.protocol.version from which a migrating broker may have several log.dirs."""
_SEVERAL_DIRS_NOT: Final = ("3.5", "3.6")
"""Releases whose migrating brokers may not; 3.4 does not look."""


@dataclass(frozen=True, slots=True)
class InterBrokerProtocol:
    """An ``inter.broker.protocol.version``: ``text`` as given, (major, minor), and the IV.

    ``iv`` None: the newest of that release.
    """

    text: str
    release: tuple[int, int]
    iv: int | None = None

    @property
    def forwards(self) -> bool:
        """Whether a broker at this level forwards requests (I23): from 3.4 on."""
        return self.release >= MIGRATION_IBP_MIN

    def reaches(self, release: tuple[int, int], iv: int) -> bool:
        """Whether it is at least that version.

        >>> protocol("3.7-IV1").reaches((3, 7), 2), protocol("3.7").reaches((3, 7), 2)
        (False, True)
        """
        return self.release > release or (
            self.release == release and (self.iv is None or self.iv >= iv)
        )


def protocol(text: str) -> InterBrokerProtocol:
    """Parse an ``inter.broker.protocol.version``; digits after the second are without meaning.

    Raises:
        ValueError: it is none, or below 2.7.

    >>> protocol("3.4-IV0").release, protocol("2.8.1").release
    ((3, 4), (2, 8))
    """
    match = _IBP.fullmatch(known(text))
    if match is None:
        raise ValueError("below 2.7, which is not emulated")
    release = (int(match[1]), int(match[2]))
    if release < IBP_MIN:
        raise ValueError("below 2.7, which is not emulated")
    return InterBrokerProtocol(text, release, None if match[3] is None else int(match[3]))


@dataclass(frozen=True, slots=True)
class ZooKeeperMode:
    """How a broker in ZooKeeper mode reaches ZooKeeper, and whether it migrates. Times in ms."""

    servers: tuple[HostPort, ...]
    chroot: str
    session_timeout_ms: int
    connection_timeout_ms: int
    max_in_flight_requests: int
    security: ZooKeeperSecurity
    migration: bool
    inter_broker_protocol: InterBrokerProtocol
    passwords: PasswordSettings
    shutdown_retries: int
    """controlled.shutdown.max.retries"""
    shutdown_backoff_ms: int
    """controlled.shutdown.retry.backoff.ms"""

    @property
    def forwards(self) -> bool:
        """Whether requests of clients are forwarded once a controller is known."""
        return self.migration and self.inter_broker_protocol.forwards


def read(r: PropertyReader, release: str) -> ZooKeeperMode:
    """Read the properties; problems are collected in the reader.

    Args:
        r: the properties, without ``process.roles``.
        release: the emulated Kafka release, whose newest protocol is the default.
    """
    nowhere: tuple[tuple[HostPort, ...], str] = ((), "")
    servers, chroot = r.need(CONNECT, zookeeper.connect_string, nowhere)
    session_ms = r.take("zookeeper.session.timeout.ms", integer(1), 18_000)
    security, wrong = zookeeper.read(r.raw)
    r.problems += [*wrong, *zookeeper.owner_missing(security)]
    r.used |= zookeeper.KEYS
    mode = ZooKeeperMode(
        servers=servers,
        chroot=chroot,
        session_timeout_ms=session_ms,
        connection_timeout_ms=r.take("zookeeper.connection.timeout.ms", integer(1), session_ms),
        max_in_flight_requests=r.take("zookeeper.max.in.flight.requests", integer(1), 10),
        security=security,
        migration=r.take(MIGRATION, boolean, False),
        inter_broker_protocol=r.take(IBP, protocol, protocol(release)),
        passwords=PasswordSettings.read(r),
        shutdown_retries=r.take("controlled.shutdown.max.retries", integer(1), 3),
        shutdown_backoff_ms=r.take("controlled.shutdown.retry.backoff.ms", integer(1), 5_000),
    )
    if mode.inter_broker_protocol.release > protocol(release).release:
        r.problems.append(
            f"{IBP}={mode.inter_broker_protocol.text}: a broker of release {release} does not "
            "know it (kraftbridge.release)"
        )
    return mode


def problems(
    mode: ZooKeeperMode,
    release: str,
    controller_listener_names: tuple[str, ...],
    bootstrap: tuple[HostPort, ...],
    log_dirs: tuple[str, ...],
) -> list[str]:
    """What Kafka refuses of a broker in ZooKeeper mode; one sentence each."""
    if not mode.migration:
        if not controller_listener_names:
            return []
        return [f"controller.listener.names must be empty without process.roles and {MIGRATION}"]
    found = []
    ibp = mode.inter_broker_protocol
    if not bootstrap:
        found.append(
            "controller.quorum.voters or controller.quorum.bootstrap.servers is required with "
            f"{MIGRATION}=true"
        )
    if not controller_listener_names:
        found.append(f"controller.listener.names is required with {MIGRATION}=true")
    if ibp.release < MIGRATION_IBP_MIN:
        found.append(f"{IBP}={ibp.text}: {MIGRATION}=true needs 3.4 or higher")
    several = len(log_dirs) > 1
    if several and release in _SEVERAL_DIRS_NOT:
        found.append(f"log.dirs: a migrating broker of release {release} has one directory only")
    elif several and release > _SEVERAL_DIRS_NOT[-1] and not ibp.reaches(*_SEVERAL_DIRS_FROM):
        found.append(
            f"log.dirs: several directories of a migrating broker need {IBP} 3.7-IV2 or higher"
        )
    return found
