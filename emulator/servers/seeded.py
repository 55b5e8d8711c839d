"""What ZooKeeper-mode brokers leave in ZooKeeper before there is a topic; their cluster's id."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Final

from kazoo.client import KazooClient

from emulator.servers.waiting import PATIENCE_S

# Writes that make a ZooKeeper server's JIT compiler run before it is measured.

WARM_UP: Final = "/warm-up"
"""What warmed up the server lies below it."""
_MULTIS: Final = 40
_MULTI_OPS: Final = 250


@contextlib.contextmanager
def connected(hosts: str) -> Iterator[KazooClient]:
    """A client with a session of 60 s, which waits for a server that is slow."""
    client = KazooClient(hosts=hosts, timeout=60)
    client.start(timeout=PATIENCE_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def warm(client: KazooClient, singles: int = 2_000) -> None:
    """Write to it until its compiler has run: ``singles`` creations, then 40 multis of 250."""
    client.create(WARM_UP, b"")
    for pending in [
        client.create_async(f"{WARM_UP}/s{number}", b"x" * 100) for number in range(singles)
    ]:
        pending.get(timeout=60)
    for multi in range(_MULTIS):
        transaction = client.transaction()
        for number in range(_MULTI_OPS):
            transaction.create(f"{WARM_UP}/m{multi}-{number}", b"x" * 100)
        transaction.commit()


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
