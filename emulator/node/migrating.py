"""The part of a node that has to do with ZooKeeper, by its configuration and its log."""

from __future__ import annotations

import random
from collections.abc import Callable

from emulator.config.load import Config
from emulator.controller.machine import Controller
from emulator.metadata.migration_state import MigrationState
from emulator.migration.driver import MigrationDriver
from emulator.migration.settings import Settings
from emulator.migration.side import MigrationSide
from emulator.migration.telling.channels import Channels
from emulator.node.assembly import zk_client
from emulator.node.finalising import Finalising
from emulator.node.peers import NoPeers, Peers
from emulator.node.voter_flags import VoterFlags
from emulator.raft.machine import Raft


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
    return MigrationSide(zk, driver, lambda: controller.stable)


_FINAL = MigrationState.POST_MIGRATION
