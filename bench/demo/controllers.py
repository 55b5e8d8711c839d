"""Three controllers of kraft-bridge; one of them leads, and the leader changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from bench.judge.stores import dump_log
from emulator.servers.bridge import Bridge
from emulator.servers.kafka import ibp
from emulator.servers.ports import HOST, free_ports
from emulator.servers.waiting import PATIENCE_S, wait_for

IDS: Final = (3000, 3001, 3002)
FOLLOWS: Final = frozenset({"UNINITIALIZED", "INACTIVE"})
"""States of the migration driver of a controller that does not lead."""
Status = dict[str, Any]


class Controllers:
    """Their processes; each keeps its folder over kill and start.

    Args:
        folder: of the folders of all.
        zk: connect string.
        release: Kafka release of the brokers.
        properties: more properties of each.
        ids: their node ids.
    """

    def __init__(
        self,
        folder: Path,
        zk: str,
        release: str,
        properties: Mapping[str, object],
        ids: Sequence[int] = IDS,
    ) -> None:
        ports = dict(zip(ids, free_ports(len(ids)), strict=True))
        self.voters = ",".join(f"{each}@{HOST}:{port}" for each, port in ports.items())
        """For controller.quorum.voters."""
        more = {**properties, "controller.quorum.voters": self.voters}
        self.nodes = {
            each: Bridge(
                folder / f"controller-{each}",
                zk,
                release=release,
                port=port,
                properties={**more, "node.id": each},
            )
            for each, port in ports.items()
        }
        self._leader = ids[0]

    @property
    def leader(self) -> int:
        """Node id of the leader when `status` was last answered."""
        return self._leader

    @property
    def port(self) -> int:
        """Where one of them listens."""
        return next(iter(self.nodes.values())).port

    def format(self, cluster_id: str) -> None:
        """Format the folders of a new quorum; one that is formatted is left as it is.

        Raises:
            ProcessError: one of them failed.
        """
        for node in self.nodes.values():
            if not (node.data / "meta.properties").exists():
                node.format(cluster_id, ibp(node.release), new_quorum=True, compared=True)

    def start(self, cluster_id: str) -> None:
        """Format what is not formatted yet, start all, and wait until each answers.

        Raises:
            ProcessError: one of them failed.
        """
        self.format(cluster_id)
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            node.wait_started(PATIENCE_S)

    def status(self) -> Status | None:
        """``/status`` of the one that leads; while none does, of one that answers, if any."""
        others = [each for each in self.nodes if each != self._leader]
        found: Status | None = None
        for each in (self._leader, *others):
            answer = self.nodes[each].status() if self.nodes[each].alive else None
            if answer is not None and answer["migration"]["driver_state"] not in FOLLOWS:
                self._leader = each
                return answer
            found = found or answer
        return found

    def wait_status(
        self, what: str, ready: Callable[[Status], bool], timeout_s: float = PATIENCE_S
    ) -> Status:
        """Wait until the status of the leader is as wanted, and return it.

        Raises:
            TimeoutError: the time is over.
        """

        def asked() -> Status | None:
            status = self.status()
            return status if status is not None and ready(status) else None

        found = wait_for(what, asked, timeout_s)
        assert found is not None
        return found

    def wait_dual_write(self) -> Status:
        """Wait until the leader is in DUAL_WRITE.

        Raises:
            TimeoutError: the time is over.
        """
        return self.wait_status(
            "dual write", lambda status: bool(status["migration"]["driver_state"] == "DUAL_WRITE")
        )

    def wait_drained(self) -> Status:
        """Wait until ZooKeeper holds every committed record.

        Raises:
            TimeoutError: the time is over.
        """
        return self.wait_status(
            "lag 0", lambda status: bool(status["migration"]["lag"]["records"] == 0)
        )

    def replace(self) -> tuple[int, int, float]:
        """SIGKILL to the leader; wait until another one writes, and start the killed one again.

        Returns:
            The old leader, the new leader, and the seconds between the kill and the new leader.

        Raises:
            ProcessError: it does not start again.
            TimeoutError: no other controller became leader, or the killed one did not catch up.
        """
        self.wait_dual_write()
        old = self._leader
        begin = time.monotonic()
        self.nodes[old].kill()
        self.wait_dual_write()
        new, took_s = self._leader, time.monotonic() - begin
        self.nodes[old].start().wait_started(PATIENCE_S)
        self.wait_level()
        return old, new, took_s

    def wait_level(self) -> None:
        """Wait until each that runs has what is committed now.

        Raises:
            ProcessError: one of them does not get there.
            TimeoutError: none leads.
        """
        end = self.wait_dual_write()["offsets"]["high_watermark"]
        for node in [one for one in self.nodes.values() if one.alive]:
            node.wait_status(
                "the log of the others",
                lambda status: bool(status["offsets"]["high_watermark"] >= end),
                PATIENCE_S,
            )

    def stop(self, timeout_s: float) -> list[int | None]:
        """SIGTERM to all at once; their exit codes."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            return list(pool.map(lambda node: node.stop(timeout_s), self.nodes.values()))

    def records(self, node_id: int | None = None) -> list[dict[str, Any]]:
        """The log of one, of the leader if none is named, as ``kafka-dump-log`` prints it.

        Raises:
            CalledProcessError: Kafka's tool cannot read it.
        """
        return dump_log(self.nodes[self._leader if node_id is None else node_id].data)
