"""A world that says what it does, for transcripts: multis to ZooKeeper, log lines, states.

Reads, and znodes that are made before anything is claimed, are left out.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from emulator.seam import Effect, Log
from emulator.znodes import migration, own
from emulator.zookeeper.ops import Check, Create, Delete, Multi, SetData, ZkOp
from tests.unit.migration.stories import restart
from tests.unit.migration.world import World, checks, differences

KINDS = {Check: "check", Create: "create", Delete: "delete", SetData: "set"}
LEFT_OUT = {"server", "session", "timeout_ms", "as", "text"}
"""Fields of log lines that say nothing of the story."""


def said(path: str, data: bytes | None) -> str:
    """The content of a znode; of the two that the chain moves, in words."""
    if path == own.PATH:
        mine = own.parse(data)
        return (
            f"by {mine.incarnation} in epochs {mine.kraft_epoch} and {mine.zk_epoch}, multi "
            f"{mine.sequence}; offset {mine.offset} of epoch {mine.metadata_epoch}, part "
            f"{mine.part}, batch {mine.digest[:6] or 'none'}"
        )
    if path == migration.PATH:
        mark = migration.parse(data)
        return (
            f"by {mark.kraft_controller_id} in epoch {mark.kraft_controller_epoch}; offset "
            f"{mark.kraft_metadata_offset} of epoch {mark.kraft_metadata_epoch}"
        )
    return (data or b"").decode()


def op_line(op: ZkOp) -> str:
    version = getattr(op, "version", None)
    data = getattr(op, "data", None)
    at = "" if version is None else f" at version {version}"
    return f"  {KINDS[type(op)]} {op.path}{at}" + (
        "" if data is None else f": {said(op.path, data)}"
    )


class NarratedWorld(World):
    """Events by name: each method ``on_<event>`` takes the words behind it."""

    def __init__(self, **settings: Any) -> None:
        self.incarnations = count(1)
        self.lines: list[str] = []
        self.deaf_at = self.where = ""
        super().__init__(**settings)

    def act(self, event: str) -> list[str]:
        """Let an event happen; returns what came of it, and where it led to if that is new."""
        name, *words = event.split()
        self.lines = []
        getattr(self, f"on_{name}")(*words)
        behind = self.driver.write_behind
        before, self.where = self.where, f"{self.driver.state.value}, {behind.mode.value}"
        self.where += f", {behind.pipeline.in_flight} in flight"
        return self.lines if self.where == before else [*self.lines, f"= {self.where}"]

    def _spy(self) -> None:
        super()._spy()
        submit = self.zk.submit

        def spied(tag: object, request: Any, now_ms: int) -> list[Effect]:
            if isinstance(request, Multi):
                kind = "multi" if checks(request.ops) else "claim"
                self.lines.append(f"sends a {kind}")
                self.lines += map(op_line, request.ops)
                self.dropping_replies |= self.deaf_at == kind
            return submit(tag, request, now_ms)

        self.zk.submit = spied  # type: ignore[method-assign]

    def logged(self, line: Log) -> None:
        super().logged(line)
        if line.level != "debug":
            kept = (f"{k}={v}" for k, v in line.fields.items() if k not in LEFT_OUT)
            self.lines.append(f"log: {line.event} {' '.join(kept)}")

    def on_cluster(self, *brokers: str) -> None:
        self.cluster(*map(int, brokers))
        self.bootstrap()

    def on_start(self) -> None:
        self.start()

    def on_register(self, *brokers: str) -> None:
        for broker in brokers:
            self.register(int(broker))

    def on_wait(self, ms: str) -> None:
        self.advance(int(ms))

    def on_topic(self, name: str, partitions: str) -> None:
        topic_id = name.encode().ljust(16, b"-")
        self.append(*self.topic(name, topic_id, *([(1, 2)] * int(partitions))))

    def on_hold(self) -> None:
        """Requests are held on the way to ZooKeeper."""
        self.held = []

    def on_arrive(self, number: str = "all") -> None:
        """The first requests held reach ZooKeeper, the others are lost."""
        held, self.held = self.held or [], None
        for conn, data in held if number == "all" else held[: int(number)]:
            self.model.received(conn, data, self.now_ms)
            for answer in self.model.run(self.now_ms):
                self.perform(self._deliver(answer))
        self.settle()

    def on_deaf(self, at: str = "") -> None:
        """Answers are lost from now, or from the next ``claim`` on, until the connection is cut."""
        self.dropping_replies, self.deaf_at = not at, at

    def on_cut(self) -> None:
        self.deaf_at = ""
        self.cut()

    def on_touch(self) -> None:
        """Another hand writes both znodes, with what they hold."""
        for path in ("/kraft_bridge", "/migration"):
            self.put(path, self.data(path))

    def on_kill(self) -> None:
        """The process dies; the next one begins on the same folder."""
        self.zk_up = False
        restart(self)
        self.lines.clear()
        self.zk_up = True

    def on_show(self, path: str) -> None:
        node = self.model.tree.nodes[path]
        self.lines.append(f"{path} at version {node.version}: {said(path, node.data)}")

    def on_judge(self) -> None:
        found = differences(self)
        self.lines += [f"{path}: {how}" for path, how in sorted(found.items())]
        self.lines.append(f"{len(found)} differences between ZooKeeper and the log")
