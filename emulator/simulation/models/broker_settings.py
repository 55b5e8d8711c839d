"""How the simulated brokers are configured."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from emulator.broker.kraft.side import BrokerIdentity
from emulator.broker.zookeeper.side import ZooKeeperIdentity
from emulator.config.broker import BrokerConfig, load_broker
from emulator.simulation.models import zookeeper_mode
from emulator.simulation.models.network import Address
from emulator.simulation.scenarios import settings
from emulator.simulation.scenarios.scenario import Scenario

PORT: Final = 9092
HEARTBEAT_MS: Final = 700
REQUEST_MS: Final = 8_000
"""How long a broker waits for an answer, and for a controller to pass a request on to."""
SESSION_MS: Final = 6_000
CONNECTION_MS: Final = 60_000
"""No broker gives ZooKeeper up: the longest fault is shorter."""
REGISTRATION_MS: Final = 600_000
"""No broker gives its registration up either."""

RELEASE: Final = "kraftbridge.release"
NOTHING_WRONG: Final[Mapping[str, str]] = MappingProxyType({})


def host_of(broker_id: int) -> str:
    """Where a broker listens."""
    return f"broker-{broker_id}"


def address_of(broker_id: int) -> Address:
    """Where clients reach a broker."""
    return host_of(broker_id), PORT


def configured(
    scenario: Scenario, broker_id: int, *, kraft: bool, wrong: Mapping[str, str] = NOTHING_WRONG
) -> BrokerConfig:
    """A broker in KRaft mode, or in ZooKeeper mode with migration.

    Args:
        scenario: of the run.
        broker_id: of the broker.
        kraft: its mode.
        wrong: what somebody has written into its properties.
    """
    common = {
        "listeners": f"PLAINTEXT://{host_of(broker_id)}:{PORT}",
        "log.dirs": "/data",
        "controller.quorum.voters": settings.voters_text(scenario),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "broker.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "broker.session.timeout.ms": str(settings.BROKER_SESSION_MS),
        "request.timeout.ms": str(REQUEST_MS),
        "controller.quorum.request.timeout.ms": str(REQUEST_MS),
        "initial.broker.registration.timeout.ms": str(REGISTRATION_MS),
        "kraftbridge.release": scenario.broker_release,
    }
    in_zookeeper_mode = {
        "broker.id": str(broker_id),
        "zookeeper.connect": "zookeeper:2181",
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        "zookeeper.connection.timeout.ms": str(CONNECTION_MS),
        "zookeeper.metadata.migration.enable": "true",
        "inter.broker.protocol.version": scenario.metadata_version,
    }
    in_kraft_mode = {"process.roles": "broker", "node.id": str(broker_id)}
    # A release is what makes a broker in KRaft mode wrong, a level one in ZooKeeper mode.
    odd = {key: value for key, value in wrong.items() if (key == RELEASE) == kraft}
    config, _ = load_broker(
        common | (in_kraft_mode if kraft else in_zookeeper_mode) | odd, host_of(broker_id)
    )
    return config


def identity(broker_id: int, incarnation_id: bytes) -> BrokerIdentity:
    """The contents of a broker's folders, and the identity of this life."""
    directory = (broker_id + 1_000).to_bytes(16, "big")
    return BrokerIdentity(zookeeper_mode.CLUSTER_ID, incarnation_id, (directory,), directory)


def zookeeper_identity(broker_id: int, incarnation_id: bytes) -> ZooKeeperIdentity:
    """The same of a broker in ZooKeeper mode."""
    known = identity(broker_id, incarnation_id)
    return ZooKeeperIdentity(
        known.cluster_id,
        known.cluster_id,
        known.incarnation_id,
        known.log_dirs,
        known.metadata_directory_id,
    )
