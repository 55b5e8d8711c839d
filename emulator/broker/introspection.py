"""``/status`` and ``/metrics`` of a broker. Reads the machines' plain numbers, changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from emulator.broker.lifecycle import LifeState
from emulator.broker.machine import BrokerNode
from emulator.broker.zookeeper.part import ZooKeeperPart
from emulator.broker.zookeeper.side import ZooKeeperSide
from emulator.config.listeners import HostPort
from emulator.trace import broker_metrics as metric
from emulator.trace import metrics as common
from emulator.trace.exposition import one_label
from emulator.trace.metric import Metric
from wire.schema import api_name

STATUS_SCHEMA: Final = "broker-status/2"
"""Version of the JSON of ``/status``; raised when a field changes its meaning or goes away."""
METADATA_TYPE: Final[Mapping[str, int]] = {"zk": 1, "kraft": 2}
STATE_NUMBER: Final[Mapping[LifeState, int]] = {
    LifeState.NOT_RUNNING: 0,
    LifeState.STARTING: 1,
    LifeState.RECOVERY: 2,
    LifeState.RUNNING: 3,
    LifeState.PENDING_CONTROLLED_SHUTDOWN: 6,
    LifeState.SHUTTING_DOWN: 7,
}


def status(node: BrokerNode, log_lines_lost: int = 0) -> dict[str, Any]:
    """The JSON object behind ``/status``; ``log_lines_lost``: of the process."""
    side, config = node.side, node.config
    controller = side.controller()
    image = side.cluster.image
    return {
        "schema": STATUS_SCHEMA,
        "role": "broker",
        "node_id": config.node_id,
        "cluster_id": side.cluster.cluster_id,
        "release": config.release,
        "mode": side.mode,
        "state": side.state.value,
        "broker_epoch": side.broker_epoch,
        "controller": None
        if controller is None
        else str(HostPort(controller.host, controller.port)),
        "metadata_offset": image.offset,
        "topics": len(image.topics),
        "forwarding": side.forwards,
        "forwarded_requests_waiting": node.forwarding.outstanding,
        "log_lines_lost": log_lines_lost,
        **({"zookeeper": _zookeeper(side.zookeeper)} if isinstance(side, ZooKeeperSide) else {}),
    }


def _zookeeper(part: ZooKeeperPart) -> dict[str, Any]:
    """What a broker in ZooKeeper mode knows of ZooKeeper; ``controller`` holds ``/controller``."""
    holder = part.controller.holder
    return {
        "server": part.zk.server,
        "connected": part.zk.connected,
        "znode_epoch": part.znode.epoch,
        "controller": None
        if holder is None
        else {
            "id": holder.broker_id,
            "kraft_epoch": holder.kraft_epoch,
            "zookeeper_epoch": part.controller.epoch,
        },
    }


def not_ready_because(node: BrokerNode) -> str:
    """Why this broker is not ready for traffic; empty if it is ready."""
    return "" if node.side.running else f"not running yet: {node.side.state.value}"


def metrics(node: BrokerNode, now_ms: int) -> dict[Metric, Any]:
    """All metrics that this broker has values for."""
    counts = node.forwarding.counts
    return {
        metric.BROKER_METADATA_TYPE: METADATA_TYPE[node.side.mode],
        metric.BROKER_STATE: STATE_NUMBER[node.side.state],
        metric.APPLIED_OFFSET: node.side.cluster.image.offset,
        metric.CLIENT_FORWARDING_COUNT: len(counts.waiting),
        metric.CLIENT_FORWARDING_RATE: counts.clients_rate.per_second(now_ms),
        metric.MESSAGES_REDIRECTED: counts.envelopes_total,
        metric.MESSAGES_REDIRECTED_RATE: counts.envelopes_rate.per_second(now_ms),
        metric.FORWARDING_AUTHORIZATION_FAILURES: counts.refused_total,
        metric.FORWARDING_QUEUE_LENGTH: node.forwarding.outstanding,
        metric.CLIENT_SOFTWARE: node.clients.counted(node.connections.open_count),
        common.REQUESTS: {
            (api_name(key), "no"): count
            for key, count in sorted(node.connections.requests_total.items())
        },
        common.REQUEST_FAILURES: {
            (api_name(key), error, place): count
            for (key, error, place), count in sorted(node.failures.total.items())
        },
        common.CONNECTIONS: one_label(node.connections.open_by_listener),
        common.CONNECTIONS_ACCEPTED: one_label(node.connections.accepted_total),
        common.CONNECTIONS_REFUSED: {
            ("invalid",): node.connections.refused_total,
            ("limit",): node.connections.turned_away_total,
            ("idle",): node.connections.idle_total,
        },
    }
