"""The tree that a simulated migration finds: a new cluster's, or what an earlier one has left."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from emulator.metadata.metadata_version import Feature, MetadataVersion
from emulator.simulation import zookeeper_mode
from emulator.simulation.scenario import Scenario
from emulator.simulation.scheduler import EPOCH_MS
from emulator.simulation.zookeeper_tree import ServerTree


def fill(tree: ServerTree, seed: int, scenario: Scenario, before: ServerTree | None) -> None:
    """Make the znodes of a cluster in ZooKeeper mode, or take over those of another tree."""
    if before is not None:
        _inherit(tree, before)
        return
    zookeeper_mode.fill(
        tree,
        Random(f"tree {seed}"),
        brokers=scenario.brokers,
        topics=scenario.topics,
        now_ms=EPOCH_MS,
    )
    if scenario.client_changes_every_ms:
        scram = MetadataVersion.from_ibp(scenario.metadata_version).supports(Feature.SCRAM)
        zookeeper_mode.fill_client_entities(tree, scram=scram)


def _inherit(tree: ServerTree, before: ServerTree) -> None:
    """Take over every znode of another tree, but those of sessions: every session is over."""
    for path, node in before.nodes.items():
        tree.nodes[path] = replace(node, children=set(node.children))
    tree.zxid = before.zxid
    for owner in {node.ephemeral_owner for node in before.nodes.values()} - {0}:
        tree.end_session(owner)
