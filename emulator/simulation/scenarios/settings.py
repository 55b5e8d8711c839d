"""How a simulated controller is configured and formatted."""

from __future__ import annotations

from typing import Final

from emulator.config.load import Config
from emulator.config.load import load as load_config
from emulator.metadata.metadata_version import MetadataVersion
from emulator.net.faults.fault import Fault
from emulator.net.faults.script import FaultScript
from emulator.raft import layout
from emulator.raft.format import (
    MetaProperties,
    render_bootstrap_checkpoint,
    render_meta_properties,
)
from emulator.raft.quorum_state import NEW_QUORUM
from emulator.simulation.models import zookeeper_mode
from emulator.simulation.models.network import Address
from emulator.simulation.models.scheduler import EPOCH_MS
from emulator.simulation.scenarios.scenario import Scenario
from wire import records as r
from wire.record_serde import encode_record
from wire.text import uuid_from_text

FIRST_ID: Final = 3000
"""The id of the first controller; those of the others follow without a gap."""
PORT: Final = 9093
SESSION_MS: Final = 6_000
BROKER_SESSION_MS: Final = 3_000
AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:alice",
}


def voters(scenario: Scenario) -> dict[int, Address]:
    """The controllers of a run, and where they listen.

    >>> voters(Scenario())
    {3000: ('controller', 9093)}
    """
    if scenario.controllers == 1:
        return {FIRST_ID: ("controller", PORT)}
    ids = range(FIRST_ID, FIRST_ID + scenario.controllers)
    return {node_id: (f"controller-{node_id}", PORT) for node_id in ids}


def voters_text(scenario: Scenario) -> str:
    """``controller.quorum.voters``, of controllers and brokers."""
    known = voters(scenario).items()
    return ",".join(f"{node_id}@{host}:{port}" for node_id, (host, port) in known)


def identity(node_id: int = FIRST_ID) -> MetaProperties:
    """What ``meta.properties`` says."""
    first = int.from_bytes(uuid_from_text("AAAAAAAAAAAAAAAAAAAAfw"), "big")
    directory = (first + node_id - FIRST_ID).to_bytes(16, "big")
    return MetaProperties(zookeeper_mode.CLUSTER_ID, node_id, directory)


def formatted(
    scenario: Scenario, node_id: int = FIRST_ID, *, new_quorum: bool = False
) -> dict[str, bytes]:
    """The folder of a controller that was formatted; ``new_quorum``: of which none ever ran."""
    level = MetadataVersion.from_ibp(scenario.metadata_version).level
    record = r.FeatureLevelRecord(name="metadata.version", feature_level=level)
    new = {layout.VOTER_STATE: NEW_QUORUM} if new_quorum and scenario.controllers > 1 else {}
    return {
        layout.META_PROPERTIES: render_meta_properties(identity(node_id)),
        layout.BOOTSTRAP_CHECKPOINT: render_bootstrap_checkpoint(
            [encode_record(record, 0)], EPOCH_MS
        ),
        **new,
    }


def refusals(seed: int, scenario: Scenario) -> FaultScript | None:
    """What refuses Envelopes as an authorizer does that does not trust brokers."""
    if not scenario.envelope_refusals:
        return None
    script = FaultScript()
    script.add(
        Fault(
            api="Envelope",
            error="CLUSTER_AUTHORIZATION_FAILED",
            probability=scenario.envelope_refusals,
            seed=seed,
            may_miss=True,
        )
    )
    return script


def configured(scenario: Scenario, node_id: int = FIRST_ID, *, flag: bool = True) -> Config:
    """The configuration of one controller of a run; ``flag``: that of the migration is on."""
    host, port = voters(scenario)[node_id]
    tokens = {"delegation.token.secret.key": "secret"} if scenario.token_changes_every_ms else {}
    config, _ = load_config(
        {
            "process.roles": "controller",
            "node.id": str(node_id),
            "controller.quorum.voters": voters_text(scenario),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://{host}:{port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": "/data",
            "broker.session.timeout.ms": str(BROKER_SESSION_MS),
            "metadata.log.max.snapshot.interval.ms": str(scenario.snapshot_interval_ms),
            **(_zookeeper(scenario) if scenario.migration and flag else {}),
            **({"kraftbridge.finalise.hold": "true"} if scenario.hold else {}),
            **(AUTHORIZER if scenario.acl_changes_every_ms else {}),
            **tokens,
        }
    )
    return config


def _zookeeper(scenario: Scenario) -> dict[str, str]:
    """What makes a controller the target of a migration."""
    return {
        "zookeeper.metadata.migration.enable": "true",
        "zookeeper.connect": "zookeeper:2181",
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        "zookeeper.metadata.migration.min.batch.size": str(scenario.batch_size),
        "kraftbridge.zk.write.behind.max.records": str(scenario.bound),
        "kraftbridge.zk.write.behind.multi.ops": str(scenario.multi_ops),
    }
