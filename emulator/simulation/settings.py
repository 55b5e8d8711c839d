"""How a simulated controller is configured and formatted."""

from __future__ import annotations

from typing import Final

from emulator.config.load import Config
from emulator.config.load import load as load_config
from emulator.faults.fault import Fault
from emulator.faults.script import FaultScript
from emulator.metadata.metadata_version import MetadataVersion
from emulator.raft import layout
from emulator.raft.format import (
    MetaProperties,
    render_bootstrap_checkpoint,
    render_meta_properties,
)
from emulator.simulation import zookeeper_mode
from emulator.simulation.network import Address
from emulator.simulation.scenario import Scenario
from emulator.simulation.scheduler import EPOCH_MS
from wire import records as r
from wire.record_serde import encode_record
from wire.text import uuid_from_text

NODE_ID: Final = 3000
CONTROLLER: Final[Address] = ("controller", 9093)
SESSION_MS: Final = 6_000
BROKER_SESSION_MS: Final = 3_000
AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:alice",
}


def identity() -> MetaProperties:
    """What ``meta.properties`` says."""
    return MetaProperties(
        zookeeper_mode.CLUSTER_ID, NODE_ID, uuid_from_text("AAAAAAAAAAAAAAAAAAAAfw")
    )


def formatted(scenario: Scenario) -> dict[str, bytes]:
    """The folder of a controller that was never started."""
    level = MetadataVersion.from_ibp(scenario.metadata_version).level
    record = r.FeatureLevelRecord(name="metadata.version", feature_level=level)
    return {
        layout.META_PROPERTIES: render_meta_properties(identity()),
        layout.BOOTSTRAP_CHECKPOINT: render_bootstrap_checkpoint(
            [encode_record(record, 0)], EPOCH_MS
        ),
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


def configured(scenario: Scenario) -> Config:
    """The configuration of the controllers of a run."""
    tokens = {"delegation.token.secret.key": "secret"} if scenario.token_changes_every_ms else {}
    config, _ = load_config(
        {
            "process.roles": "controller",
            "node.id": str(NODE_ID),
            "controller.quorum.voters": f"{NODE_ID}@{CONTROLLER[0]}:{CONTROLLER[1]}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://{CONTROLLER[0]}:{CONTROLLER[1]}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": "/data",
            "zookeeper.metadata.migration.enable": "true",
            "zookeeper.connect": "zookeeper:2181",
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "zookeeper.metadata.migration.min.batch.size": str(scenario.batch_size),
            "broker.session.timeout.ms": str(BROKER_SESSION_MS),
            "metadata.log.max.snapshot.interval.ms": str(scenario.snapshot_interval_ms),
            "kraftbridge.zk.write.behind.max.records": str(scenario.bound),
            "kraftbridge.zk.write.behind.multi.ops": str(scenario.multi_ops),
            **(AUTHORIZER if scenario.acl_changes_every_ms else {}),
            **tokens,
        }
    )
    return config
