"""The znodes of ZooKeeper-mode brokers: the persistent paths, and one id for each broker."""

from __future__ import annotations

import json
import time
from typing import Final

from kazoo.client import KazooClient

from bench.rig.ports import HOST

LISTENER: Final = "INTERNAL"
"""The only one of a stand-in broker."""

PERSISTENT: Final = (
    "/admin",
    "/admin/delete_topics",
    "/brokers",
    "/brokers/ids",
    "/brokers/seqid",
    "/brokers/topics",
    "/cluster",
    "/config",
    "/config/brokers",
    "/config/changes",
    "/config/clients",
    "/config/ips",
    "/config/topics",
    "/config/users",
    "/consumers",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
)
"""Paths that the first broker of a cluster creates, parents first, all without data.

Source: ZkData.PersistentZkPaths, Kafka 3.9."""


def seed(client: KazooClient, cluster_id: str) -> None:
    """Create the znodes of a ZooKeeper-mode cluster without topics.

    Args:
        client: connected; below its chroot there is nothing.
        cluster_id: base64url.
    """
    for path in PERSISTENT:
        client.create(path, None)
    client.create("/controller_epoch", b"1")
    identity = json.dumps({"version": "1", "id": cluster_id}).encode()
    client.create("/cluster/id", identity)


def announce(client: KazooClient, broker_id: int, port: int) -> None:
    """Create the ephemeral znode of one broker, version 5 as Kafka 2.7 and later write it."""
    address = f"{LISTENER}://{HOST}:{port}"
    body = {
        "features": {},
        "listener_security_protocol_map": {LISTENER: "PLAINTEXT"},
        "endpoints": [address],
        "jmx_port": -1,
        "port": -1,
        "host": None,
        "version": 5,
        "timestamp": str(time.time_ns() // 1_000_000),
    }
    client.create(f"/brokers/ids/{broker_id}", json.dumps(body).encode(), ephemeral=True)
