"""The brokers of a staged cluster: a fleet in ZooKeeper mode, in an event loop of a thread."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from concurrent.futures import Future
from typing import Any

from kazoo.client import KazooClient

from emulator.io.clock import Clock
from emulator.io.fleet.fleet import BrokerFleet, FleetPlan
from emulator.io.fleet.member import FleetMember
from emulator.io.fleet.results import FleetResults
from emulator.io.fleet.settings import FleetSettings
from emulator.servers.ports import HOST
from emulator.servers.waiting import wait_for

LISTENER = "INTERNAL"
SESSION_MS = 30_000
"""Longer than any test keeps ZooKeeper away from them."""
UPDATE_METADATA = 6
_FOR_EVER_S = 1e7


class StagedBrokers:
    """Brokers 0 to ``count`` - 1, which propose no change of an ISR by themselves.

    Args:
        loop: where they run.
        zookeeper: connect string.
        controller: ``host:port``.
        cluster_id: base64url.
        count: number of brokers.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        zookeeper: str,
        controller: str,
        cluster_id: str,
        count: int,
    ) -> None:
        self.extra = {
            "controlled.shutdown.enable": "false",
            "zookeeper.session.timeout.ms": str(SESSION_MS),
        }
        """Properties of each; changed before the begin."""
        self._loop = loop
        self._addresses = controller, zookeeper
        self._cluster_id = cluster_id
        self._count = count
        self._ended = asyncio.Event()
        self._members: list[FleetMember] = []
        self._future: Future[None] | None = None

    def begin(self) -> None:
        """Start them and wait until they are registered in ZooKeeper."""
        fleet = BrokerFleet(
            FleetPlan(self._count, seconds=_FOR_EVER_S),
            FleetSettings(
                HOST,
                *self._addresses,
                self._cluster_id,
                "3.9",
                self.extra,
                LISTENER,
                manual_isrs=True,
            ),
            clock=Clock(),
            report=lambda _line: None,
            results=FleetResults(lambda _row: None, lambda: None),
            create=lambda *_: None,
        )
        self._members = fleet.members
        self._future = asyncio.run_coroutine_threadsafe(self._run(fleet), self._loop)
        wait_for("brokers in ZooKeeper", lambda: all(one.running for one in fleet.members))

    def close(self) -> None:
        """End them; nothing happens if they were not begun."""
        if self._future is not None:
            self._loop.call_soon_threadsafe(self._ended.set)
            self._future.result()

    def updates(self) -> list[int]:
        """UpdateMetadata requests that came to each."""
        nodes = (member.life.node for member in self._members)
        return [node.connections.requests_total[UPDATE_METADATA] for node in nodes]

    async def _run(self, fleet: BrokerFleet) -> None:
        running = asyncio.ensure_future(fleet.run())
        await self._ended.wait()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def announce(client: KazooClient, broker_id: int, port: int) -> None:
    """Create the ephemeral znode of a broker that is nowhere else, version 5 as Kafka writes it."""
    body: dict[str, Any] = {
        "features": {},
        "listener_security_protocol_map": {LISTENER: "PLAINTEXT"},
        "endpoints": [f"{LISTENER}://{HOST}:{port}"],
        "jmx_port": -1,
        "port": -1,
        "host": None,
        "version": 5,
        "timestamp": str(time.time_ns() // 1_000_000),
    }
    client.create(f"/brokers/ids/{broker_id}", json.dumps(body).encode(), ephemeral=True)
