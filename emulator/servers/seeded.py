"""What ZooKeeper-mode brokers leave in ZooKeeper before there is a topic; their cluster's id."""

from __future__ import annotations

import json
from typing import Final

from kazoo.client import KazooClient

from emulator.servers.warming import connected

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


def cluster_id(hosts: str) -> str:
    """``/cluster/id``, which the first broker of a cluster has written.

    Args:
        hosts: of a ZooKeeper, ``host:port``.
    """
    with connected(hosts) as client:
        data, _ = client.get("/cluster/id")
        return str(json.loads(data)["id"])
