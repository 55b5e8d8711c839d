"""A made dump of a cluster in ZooKeeper mode, of any size."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any, Final

from emulator.servers.seeded import PERSISTENT

CLUSTER_ID: Final = "cmVoZWFyc2FsLW1hZGUtMQ"
REPLICAS: Final = 3
_CONFIGURED: Final = 10
"""One of so many topics has a config of its own."""


def document(topics: int, partitions: int, brokers: int) -> dict[str, Any]:
    """What ``zk dump`` would print of it.

    Args:
        topics: named ``orders-0000`` and so on.
        partitions: of each, with three replicas or as many as there are brokers.
        brokers: with ids from 1, in three racks, with the listeners INTERNAL and CLIENT.
    """
    nodes: dict[str, dict[str, Any]] = {}

    def put(path: str, value: object = None, *, ephemeral: bool = False) -> None:
        text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        owner = 72_057_594_037_927_936 if ephemeral else 0
        nodes[path] = {
            "version": 0,
            "ephemeral": ephemeral,
            "ephemeralOwner": owner,
            "acl": [[31, "world", "anyone"]],
            **({"null": True} if value is None else {"text": text}),
        }

    for path in PERSISTENT:
        put(path)
    put("/cluster/id", {"version": "1", "id": CLUSTER_ID})
    put("/controller_epoch", "1")
    held = {"version": 2, "brokerid": 1, "timestamp": "1", "kraftControllerEpoch": -1}
    put("/controller", held, ephemeral=True)
    block = {"version": 1, "broker": 1, "block_start": "0", "block_end": "999"}
    put("/latest_producer_id_block", block)
    put("/config/users/alice", {"version": 1, "config": {"producer_byte_rate": "1048576"}})
    for number in range(1, brokers + 1):
        put(f"/brokers/ids/{number}", _registration(number), ephemeral=True)
    for number in range(topics):
        _topic(put, number, partitions, brokers)
    return {"note": "made", "time": 0.0, "count": len(nodes), "nodes": nodes}


def _registration(number: int) -> dict[str, Any]:
    host = f"broker-{number}.example"
    return {
        "features": {},
        "listener_security_protocol_map": {"INTERNAL": "SASL_SSL", "CLIENT": "SSL"},
        "endpoints": [f"INTERNAL://{host}:9091", f"CLIENT://{host}:9092"],
        "rack": f"r{number % 3}",
        "jmx_port": -1,
        "port": -1,
        "host": None,
        "version": 5,
        "timestamp": "1",
    }


def _topic(put: Any, number: int, partitions: int, brokers: int) -> None:
    name = f"orders-{number:04d}"
    digest = hashlib.sha256(name.encode()).digest()[:16]
    replicas = {
        str(index): [
            1 + (number + index + copy) % brokers for copy in range(min(REPLICAS, brokers))
        ]
        for index in range(partitions)
    }
    body = {
        "removing_replicas": {},
        "partitions": replicas,
        "topic_id": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "adding_replicas": {},
        "version": 3,
    }
    put(f"/brokers/topics/{name}", body)
    configured = number % _CONFIGURED == 0
    config = {"retention.ms": "86400000"} if configured else {}
    put(f"/config/topics/{name}", {"version": 1, "config": config})
    put(f"/brokers/topics/{name}/partitions")
    for index, ids in replicas.items():
        put(f"/brokers/topics/{name}/partitions/{index}")
        state = {
            "controller_epoch": 1,
            "leader": ids[0],
            "version": 1,
            "leader_epoch": 0,
            "isr": ids,
        }
        put(f"/brokers/topics/{name}/partitions/{index}/state", state)
