"""The servers of ``compose/migration.yaml``: names, ports, modes, and their properties."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Final

RELEASE: Final = "3.9.2"
ZOOKEEPER: Final = "zookeeper"
ZOOKEEPER_PORT: Final = 12181
PROMETHEUS: Final = "prometheus"
PROMETHEUS_PORT: Final = 19090
BROKERS: Final = {1: 19092, 2: 19192, 3: 19292}
"""Broker id -> port of its listener CLIENT; INTERNAL is one below."""
CONTROLLERS: Final = {3000: 19093, 3001: 19193, 3002: 19293}
"""Controller's node id -> port; that of ``/status`` is 311 above."""
_METRICS: Final = 311
PORTS: Final = {
    "migration": sorted(
        {ZOOKEEPER_PORT, PROMETHEUS_PORT}
        | {port - less for port in BROKERS.values() for less in (0, 1)}
        | {port + more for port in CONTROLLERS.values() for more in (0, _METRICS)}
    ),
    "analysis": [17077, 17078, 17079, 18080, 18081, 18082],
}
"""Story -> the ports that its servers listen on."""
_PROTOCOLS: Final = "INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT"
Properties = dict[str, object]


class ServerMode(StrEnum):
    """How a server is to run."""

    STOPPED = "stopped"
    ZOOKEEPER = "zookeeper"
    """A broker without migration."""
    MIGRATING = "migrating"
    """With ``zookeeper.metadata.migration.enable``."""
    KRAFT = "kraft"
    """A broker in KRaft mode; a controller without the flag."""


def broker_name(number: int) -> str:
    """Host name and service: ``broker-1``."""
    return f"broker-{number}"


def controller_name(number: int) -> str:
    """Host name and service: ``controller-3000``."""
    return f"controller-{number}"


def bootstrap(number: int) -> str:
    """``host:port`` of a broker for clients."""
    return f"{broker_name(number)}:{BROKERS[number]}"


def zookeeper_hosts() -> str:
    """For ``zookeeper.connect``."""
    return f"{ZOOKEEPER}:{ZOOKEEPER_PORT}"


def url(number: int, host: str = "") -> str:
    """Where a controller answers ``/status`` and shows its live page.

    Args:
        number: its node id.
        host: by which it is asked; its own name, which only containers know, if empty.
    """
    return f"http://{host or controller_name(number)}:{CONTROLLERS[number] + _METRICS}"


def prometheus_url(host: str = PROMETHEUS) -> str:
    """Where Prometheus answers."""
    return f"http://{host}:{PROMETHEUS_PORT}"


def prometheus(rules: str) -> str:
    """The configuration of Prometheus: it asks each controller every 5 s. JSON, which is YAML too.

    Args:
        rules: file with the alert rules.
    """
    targets = [url(each).removeprefix("http://") for each in CONTROLLERS]
    return json.dumps(
        {
            "global": {"scrape_interval": "5s", "evaluation_interval": "5s"},
            "rule_files": [rules],
            "scrape_configs": [
                {"job_name": "kraft-bridge", "static_configs": [{"targets": targets}]}
            ],
        }
    )


def voters() -> str:
    """For ``controller.quorum.voters``.

    >>> voters().split(",")[0]
    '3000@controller-3000:19093'
    """
    return ",".join(f"{each}@{controller_name(each)}:{port}" for each, port in CONTROLLERS.items())


def _common() -> Properties:
    return {
        "listener.security.protocol.map": _PROTOCOLS,
        "inter.broker.listener.name": "INTERNAL",
    }


def _quorum() -> Properties:
    return {"controller.quorum.voters": voters(), "controller.listener.names": "CONTROLLER"}


def broker(number: int, wanted: ServerMode, folder: str) -> Properties:
    """The ``server.properties`` of a broker.

    Args:
        number: its id.
        wanted: its mode, not stopped.
        folder: ``log.dirs``.
    """
    name, port = broker_name(number), BROKERS[number]
    found = _common() | {
        "listeners": f"INTERNAL://{name}:{port - 1},CLIENT://{name}:{port}",
        "log.dirs": folder,
        "num.network.threads": 1,
        "num.io.threads": 2,
        "offsets.topic.num.partitions": 4,
        "offsets.topic.replication.factor": len(BROKERS),
        "transaction.state.log.num.partitions": 4,
        "transaction.state.log.replication.factor": len(BROKERS),
        "group.initial.rebalance.delay.ms": 0,
        "auto.create.topics.enable": "false",
        "controlled.shutdown.retry.backoff.ms": 300,
    }
    if wanted is ServerMode.KRAFT:
        return found | _quorum() | {"process.roles": "broker", "node.id": number}
    found |= {
        "broker.id": number,
        "zookeeper.connect": zookeeper_hosts(),
        "zookeeper.session.timeout.ms": 6000,
        "inter.broker.protocol.version": RELEASE.rpartition(".")[0],
    }
    if wanted is ServerMode.MIGRATING:
        found |= _quorum() | {"zookeeper.metadata.migration.enable": "true"}
    return found


def controller(
    number: int, wanted: ServerMode, folder: str, trace: str = "", run_id: str = ""
) -> Properties:
    """The ``server.properties`` of a controller.

    Args:
        number: its node id.
        wanted: with or without the flag, not stopped.
        folder: ``log.dirs``.
        trace: folder for a trace; none if empty.
        run_id: of the trace.
    """
    name, port = controller_name(number), CONTROLLERS[number]
    found = _common() | _quorum()
    found |= {
        "process.roles": "controller",
        "node.id": number,
        "listeners": f"CONTROLLER://{name}:{port}",
        "log.dirs": folder,
        "kraftbridge.release": RELEASE.rpartition(".")[0],
        "kraftbridge.metrics.port": port + _METRICS,
    }
    if trace:
        found |= {"kraftbridge.trace.dir": trace, "kraftbridge.trace.run.id": run_id}
    if wanted is ServerMode.MIGRATING:
        found |= {
            "zookeeper.connect": zookeeper_hosts(),
            "zookeeper.metadata.migration.enable": "true",
        }
    return found
