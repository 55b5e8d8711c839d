"""Settings of each machine of a node, from the configuration and the folder's identity."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from emulator.config.listeners import SECURITY_PROTOCOLS
from emulator.config.load import KAFKAS, Config
from emulator.controller.context import ControllerConfig, ControllerEndpoint
from emulator.controller.machine import Controller
from emulator.controller.registry import advertised, entries_max, refused
from emulator.controller.rules.authorizer import StandardAuthorizer
from emulator.metadata.history import History
from emulator.metadata.metadata_version import FEATURE_NAME, MINIMUM
from emulator.metadata.migration_state import MigrationState
from emulator.migration.driver import MigrationDriver
from emulator.migration.dual_write.chain import room_for_one
from emulator.migration.propagation.channels import Channels
from emulator.migration.settings import Settings
from emulator.migration.side import MigrationSide
from emulator.migration.sizes import ZnodeSizes
from emulator.net.accepted import Connections
from emulator.net.faults.connections import accepting
from emulator.net.faults.script import FaultScript
from emulator.net.population import Population
from emulator.net.raft_requests import RAFT_REQUESTS
from emulator.net.scram import CredentialStore
from emulator.node.finalising import Finalising, VoterFlags
from emulator.node.peers import NoPeers, Peers
from emulator.raft.config import RaftConfig
from emulator.raft.format import MetaProperties, parse_bootstrap_checkpoint
from emulator.raft.machine import Raft
from emulator.znodes.entities import entities
from emulator.znodes.passwords import Passwords
from emulator.zookeeper import acl
from emulator.zookeeper.client import ZkClient
from wire import records as r
from wire.record_serde import decode_record

HANDSHAKE_MS_MAX: Final = 3_000
"""A starting ZooKeeper may never answer the connect request: connect again after this."""
URGENT: Final = frozenset({*RAFT_REQUESTS, 62, 63})
"""API keys of what keeps the quorum and the brokers; also BrokerRegistration, BrokerHeartbeat."""


def zk_client(config: Config, new_conn: Callable[[], int], rng: random.Random) -> ZkClient:
    """A client of the configured ensemble, not connected yet."""
    return ZkClient(
        [(server.host, server.port) for server in config.zookeeper_servers],
        config.zookeeper_chroot,
        config.zookeeper_session_timeout_ms,
        min(config.zookeeper_connection_timeout_ms, HANDSHAKE_MS_MAX),
        new_conn,
        rng,
        max_in_flight=config.zookeeper_max_in_flight_requests,
        security=config.zookeeper_security,
    )


def raft_config(config: Config, identity: MetaProperties) -> RaftConfig:
    """Identity, quorum and bounds of the Raft machine."""
    return RaftConfig(
        node_id=config.node_id,
        cluster_id=identity.cluster_id,
        voters={
            node: (
                config.advertised_controller_listener.host,
                config.advertised_controller_listener.port,
            )
            if node == config.node_id
            else (address.host, address.port)
            for node, address in config.voters.items()
        },
        listener_name=config.controller_listener_names[0],
        directory_id=identity.directory_id or bytes(16),
        release=config.release,
        segment_bytes=config.segment_bytes,
        times=config.times,
    )


def accepted_connections(
    config: Config,
    stamp: Callable[[], int],
    descriptors: int,
    faults: FaultScript | None,
    store: CredentialStore,
) -> Connections:
    """The connections of brokers, clients and other voters to this node.

    Args:
        config: of the node.
        stamp: monotonic nanoseconds.
        descriptors: number of accepted connections with file descriptors.
        faults: strikes requests; None: nothing does.
        store: the credentials of those who log in.
    """
    made = accepting(
        advertised(config.release),
        config.socket_request_max_bytes,
        stamp,
        Population(config.connections, descriptors),
        script=faults,
        refuse=refused,
        sasl=config.sasl,
        store=store,
    )
    made.bodies.entries_max = entries_max(config.release)
    made.urgent = URGENT
    return made


def controller_config(
    config: Config, identity: MetaProperties, files: Mapping[str, bytes], rng: random.Random
) -> ControllerConfig:
    """Settings of the controller, and the metadata.version of an empty log."""
    level, more = MINIMUM.level, []
    for value in parse_bootstrap_checkpoint(files):
        record, _version = decode_record(value)
        if isinstance(record, r.FeatureLevelRecord) and record.name == FEATURE_NAME:
            level = record.feature_level
        else:
            more.append(record)
    return ControllerConfig(
        node_id=config.node_id,
        cluster_id=identity.cluster_id,
        release=config.release,
        metadata_version=level,
        bootstrap_records=tuple(more),
        migration_enabled=config.migration_enabled,
        incarnation_id=rng.randbytes(16),
        listeners=tuple(
            ControllerEndpoint(x.name, x.host, x.port, SECURITY_PROTOCOLS[x.security_protocol])
            for x in config.advertised
            if x.name in config.controller_listener_names
        ),
        inter_broker_listener_name=config.inter_broker_listener_name,
        voters=frozenset(config.voters),
        broker_session_timeout_ms=config.broker_session_timeout_ms,
        broker_heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
        metadata_max_idle_interval_ms=config.metadata_max_idle_interval_ms,
        num_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        delete_topic_enable=config.delete_topic_enable,
        auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
        leader_imbalance_check_interval_seconds=config.leader_imbalance_check_interval_seconds,
        tokens=config.tokens,
        mutation_quota=config.mutation_quota,
        properties=config.static,
        authorizer=_authorizer(config),
        znodes=_znodes(config) if config.migration_enabled else None,
        finalises_at_once=config.finalise_by == KAFKAS,
    )


def _znodes(config: Config) -> ZnodeSizes:
    """The sizes of znodes written with this configuration."""
    set_acl = config.zookeeper_security.set_acl
    op_size = partial(acl.op_size, chroot=config.zookeeper_chroot, set_acl=set_acl)
    classes = entities(Passwords(config.passwords))
    return ZnodeSizes(classes, op_size, room_for_one(op_size))


def _authorizer(config: Config) -> StandardAuthorizer | None:
    settings = config.authorizer
    if settings is None:
        return None
    return StandardAuthorizer(settings.super_users, settings.allow_everyone_if_no_acl_found)


# The part of a node that has to do with ZooKeeper, by its configuration and its log.


def migration_of(  # noqa: PLR0917  # the machines of a node, and where its randomness comes from
    config: Config,
    raft: Raft,
    controller: Controller,
    peers: Peers | NoPeers,
    new_conn: Callable[[], int],
    rng: random.Random,
    stamp: Callable[[], int],
) -> MigrationSide | Finalising:
    """A migration with ZooKeeper, or what ends it.

    Without the flag there is no ZooKeeper; nor is there one if the log is final already, whatever
    the flag says.
    """
    if not config.migration_enabled or controller.tip.migration_state is _FINAL:
        flags = VoterFlags(raft, peers.inquiry)
        return Finalising(controller, flags, hold=config.finalise_hold)
    settings = controller.config
    own = Settings.of(config, settings.cluster_id, settings.incarnation_id)
    zk = zk_client(config, new_conn, rng)
    channels = Channels(config.node_id, new_conn, config.inter_broker_access)
    driver = MigrationDriver(own, zk, controller, raft, channels, stamp)
    driver.why_not_ready = peers.why_not_migrating
    return MigrationSide(zk, driver, controller.history)


_FINAL = MigrationState.POST_MIGRATION


class Machines(NamedTuple):
    """The machines of one node; ``history`` is the metadata that they use."""

    raft: Raft
    history: History
    controller: Controller
    connections: Connections
    migration: MigrationSide | Finalising
    peers: Peers | NoPeers
