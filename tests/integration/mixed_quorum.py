"""A quorum of three static voters: two controllers of Kafka, and one of ours between them."""

from __future__ import annotations

import contextlib
import functools
import shutil
from pathlib import Path
from typing import TypeAlias

from bench.chaos.quorum import described
from emulator.io.kafka_client import Connection
from emulator.raft.layout import TOPIC
from emulator.raft.recovery import scan
from emulator.servers.bridge import Bridge
from emulator.servers.kafka import KraftController
from emulator.servers.ports import HOST, free_ports
from emulator.servers.waiting import PATIENCE_S, wait_for
from tests.kit.requests import quota
from wire import messages as m
from wire.errors import ErrorCode

RELEASE = "3.9.2"
CLUSTER = "5L6g3nShT-eMCtK--X86sw"
OURS = 3001
Voter: TypeAlias = Bridge | KraftController


class MixedQuorum:
    """Three voters with folders of their own; each can be killed, stopped and started again."""

    def __init__(self, folder: Path, **properties: object) -> None:
        ids = (3000, OURS, 3002)
        self.ports = dict(zip(ids, free_ports(3), strict=True))
        text = ",".join(f"{each}@{HOST}:{port}" for each, port in self.ports.items())
        self.nodes: dict[int, Voter] = {}
        for each, port in self.ports.items():
            more = {"node.id": each, "controller.quorum.voters": text, **properties}
            home = folder / str(each)
            if each == OURS:
                self.nodes[each] = Bridge(home, None, port=port, properties=more)
            else:
                self.nodes[each] = KraftController(
                    RELEASE, home, None, CLUSTER, port=port, properties=more
                )
        ours = self.nodes[OURS]
        assert isinstance(ours, Bridge)
        ours.format(CLUSTER)
        self.changes = 0

    def start(self, *ids: int) -> None:
        for each in ids or self.nodes:
            self.nodes[each].start()
        for each in ids or self.nodes:
            self.nodes[each].wait_started()

    def kill(self) -> None:
        for node in self.nodes.values():
            node.kill()

    # what the voters say

    def leader(self, *among: int, timeout_s: float = PATIENCE_S) -> int:
        """Wait for a leader that has committed something in its epoch; its id."""
        found: list[int] = []

        def leads() -> bool:
            for each in among or self.nodes:
                if self.nodes[each].alive and described(self.ports[each]) is not None:
                    found.append(each)
                    return True
            return False

        wait_for(f"a leader among {among or 'all'}", leads, timeout_s)
        return found[-1]

    def change(self, leader: int, count: int) -> None:
        """Commit records through the leader, one after the other.

        It may lead the log some milliseconds before it is active as a controller.
        """
        with contextlib.closing(Connection(HOST, self.ports[leader], 30)) as connection:
            for _ in range(count):
                self.changes += 1
                request = quota(1e6, f"user-{self.changes}")
                wait_for("an active controller", functools.partial(_changed, connection, request))

    # what they hold

    def folder(self, node_id: int) -> Path:
        """The folder of a voter's metadata log."""
        return self.nodes[node_id].data / f"{TOPIC}-0"

    def batches(self, node_id: int) -> dict[int, bytes]:
        """Base offset -> bytes of each batch in a voter's log."""
        found: dict[int, bytes] = {}
        for path in sorted(self.folder(node_id).glob("*.log")):
            scanned = scan(path.read_bytes(), int(path.stem))
            found |= {batch.base_offset: batch.data for batch in scanned.batches}
        return found

    def snapshots(self, node_id: int) -> dict[str, bytes]:
        """Name -> bytes of the snapshots of a voter."""
        return {path.name: path.read_bytes() for path in self.folder(node_id).glob("*.checkpoint")}

    def wait_equal(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until all logs reach an offset that none has reached yet; they must be equal."""
        goal = max(max(self.batches(each), default=0) for each in self.nodes) + 1

        def reached() -> bool:
            return all(max(self.batches(each), default=0) >= goal for each in self.nodes)

        wait_for(f"batches beyond {goal} on all voters", reached, timeout_s)
        whole: dict[int, bytes] = {}
        for each in self.nodes:
            for offset, data in self.batches(each).items():
                assert whole.setdefault(offset, data) == data, f"node {each}, offset {offset}"

    def empty(self, node_id: int) -> None:
        """The metadata log of a voter that is down is lost."""
        assert not self.nodes[node_id].alive
        shutil.rmtree(self.folder(node_id))


def _changed(connection: Connection, request: m.AlterClientQuotasRequest) -> bool:
    """Whether a change is committed; False from a controller that is not active."""
    answer = connection.call(request)
    (entry,) = answer.entries
    assert entry.error_code in {0, ErrorCode.NOT_CONTROLLER}, answer
    return entry.error_code == 0
