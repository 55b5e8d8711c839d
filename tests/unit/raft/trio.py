"""Voters of one quorum in memory, with a network that loses, delays and repeats messages.

Time is virtual. Everything that happens follows from the seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from emulator.raft import Raft, RaftConfig
from emulator.raft.asking import Ask
from emulator.raft.layout import VOTER_STATE
from emulator.raft.log import LogBatch
from emulator.raft.quorum_state import NEW_QUORUM
from emulator.seam import Effect, Log
from tests.unit.raft.world import CLUSTER, Disk
from wire.codec import decode, encode
from wire.schema import spec

VERSION = {1: 17, 52: 1, 53: 1, 54: 1, 59: 1}


class Node:
    """One voter of a new quorum; ``raft`` is None while it is down."""

    def __init__(self, node_id: int) -> None:
        self.id = node_id
        self.disk = Disk({VOTER_STATE: NEW_QUORUM})
        self.raft: Raft | None = None
        self.paused_ms = 0
        """Until when it is stopped as by SIGSTOP: nothing is lost, and nothing is done."""
        self.life = 0
        self.pending_syncs = self.pending_writes = 0

    @property
    def batches(self) -> list[LogBatch]:
        """The whole log."""
        assert self.raft is not None
        log = self.raft.replica.log
        return list(log.batches(log.start_offset, log.end_offset))


class Trio:
    """Three voters, or as many as ``ids`` says.

    ``loss`` and ``twice`` are probabilities per message, ``delay_ms`` and ``sync_ms`` upper bounds.
    ``heard`` takes a line for each thing that a reader of a story wants to know.
    """

    def __init__(
        self,
        seed: int = 0,
        ids: tuple[int, ...] = (1, 2, 3),
        *,
        heard: Callable[[str], None] = lambda line: None,
        **changes: Any,
    ) -> None:
        self.rng = Random(seed)
        self.now = 1_000_000
        self.loss = self.twice = 0.0
        self.delay_ms = 0
        self.sync_ms = 0
        self.write_ms = 0
        """A large file takes so long, besides up to three times ``sync_ms``."""
        self.nodes = {each: Node(each) for each in ids}
        self.cut: set[tuple[int, int]] = set()
        """(from, to) pairs between which nothing passes."""
        self.heard = heard
        self.inspect: Callable[[Node, list[Effect]], None] = lambda node, effects: None
        """Called before effects are performed."""
        self.log: list[tuple[int, Log]] = []
        self._changes = changes
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.versions: dict[int, int] | None = None
        """API key -> version in which each message crosses the network as bytes; None: as it is."""
        self._seen: dict[int, object] = {}
        self._open: dict[int, Ask] = {}
        """Requests without an outcome; each is held, so that its id is its own."""

    def config(self, node_id: int) -> RaftConfig:
        voters = {each: (f"host-{each}", 9000 + each) for each in self.nodes}
        return RaftConfig(
            **{"node_id": node_id, "cluster_id": CLUSTER, "voters": voters, **self._changes}
        )

    # life of a node

    def start(self, *ids: int) -> Trio:
        """Start nodes, all by default."""
        for node_id in ids or self.nodes:
            node = self.nodes[node_id]
            assert node.raft is None
            node.life += 1
            node.pending_syncs = node.pending_writes = 0
            node.raft = Raft(
                self.config(node_id), node.disk.files, Random(self.rng.random()), self.now
            )
            self.perform(node, node.raft.start(self.now))
        return self

    def crash(self, node_id: int, kept: int = 0) -> None:
        """Kill a node; of what was not synced only ``kept`` bytes per file reach the disk."""
        node = self.nodes[node_id]
        node.raft = None
        node.disk = Disk(node.disk.crashed(kept))
        node.paused_ms = 0
        self.note(node_id, "down")

    def empty(self, node_id: int) -> None:
        """The folder of a node that is down is lost; it is formatted, but for no new quorum."""
        self.nodes[node_id].disk = Disk()

    def pause(self, node_id: int, ms: int) -> None:
        """Stop a process for a while."""
        self.nodes[node_id].paused_ms = self.now + ms

    # time

    def run(self, ms: int) -> None:
        """Let time pass."""
        end = self.now + ms
        while True:
            due = [self._queue[0][0]] if self._queue else []
            for node in self.up():
                assert node.raft is not None
                if node.raft.deadline_ms is not None:
                    due.append(max(self.now, node.raft.deadline_ms, node.paused_ms))
            if not due or min(due) > end:
                break
            self.now = max(self.now, min(due))
            while self._queue and self._queue[0][0] <= self.now:
                heapq.heappop(self._queue)[2]()
            for node in self.up():
                assert node.raft is not None
                deadline = node.raft.deadline_ms
                if deadline is not None and max(deadline, node.paused_ms) <= self.now:
                    self.perform(node, node.raft.tick(self.now))
        self.now = end

    def up(self) -> Iterator[Node]:
        return (node for node in self.nodes.values() if node.raft is not None)

    def later(self, ms: int, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now + ms, self._count, what))

    def at(self, node: Node, ms: int, what: Callable[[], None]) -> None:
        """Do something at a node; if its process is stopped then, as soon as it goes on."""

        def when_awake() -> None:
            if node.paused_ms > self.now:
                self.later(node.paused_ms - self.now, when_awake)
            else:
                what()

        self.later(ms, when_awake)

    # what machines want

    def perform(self, node: Node, effects: list[Effect]) -> None:
        """Perform effects; then send replies and requests, as the shell does."""
        raft = node.raft
        assert raft is not None
        effects = [*effects, *raft.take_effects()]
        before = len(node.disk.log)
        self.inspect(node, effects)
        node.disk.apply(effects)
        self.log += [(node.id, line) for line in node.disk.log[before:]]
        if node.disk.halt is not None:
            self.crash(node.id)
            return
        life = node.life
        for _ in range(len(node.disk.tokens) - node.pending_syncs):
            node.pending_syncs += 1
            self.at(node, self.some(self.sync_ms), lambda: self.synced(node, life))
        for _ in range(len(node.disk.writing) - node.pending_writes):
            node.pending_writes += 1
            ms = self.write_ms + self.some(3 * self.sync_ms)
            self.at(node, ms, lambda: self.written(node, life))
        self.tell_state(node)
        for reply in raft.take_replies():
            self.send_answer(node, reply.ticket, reply.message)
        for ask in raft.take_asks():
            self.send(node, ask)

    def synced(self, node: Node, life: int) -> None:
        if node.raft is not None and node.life == life:
            node.pending_syncs -= 1
            self.perform(node, node.raft.synced(node.disk.sync(), self.now))

    def snapshot(self, node: Node, end_offset: int, epoch: int, values: list[bytes]) -> None:
        """Write a snapshot at once."""
        assert node.raft is not None
        self.perform(node, node.raft.snapshot(end_offset, epoch, values, 0))
        while node.raft.snapshotting:
            self.perform(node, node.raft.tick(self.now))
            self.written(node, node.life)

    def written(self, node: Node, life: int) -> None:
        """The oldest large file is done, unless that is known."""
        if node.raft is not None and node.life == life and node.disk.writing:
            node.pending_writes -= 1
            self.perform(node, node.raft.written(node.disk.write(), self.now))

    def send(self, node: Node, ask: Ask) -> None:
        life = node.life
        self.note(node.id, f"-> {ask.node_id} {described(ask.message)}")

        def nothing() -> None:
            if node.raft is not None and node.life == life and id(ask) in self._open:
                del self._open[id(ask)]
                self.perform(node, node.raft.unanswered(ask, self.now))

        self._open[id(ask)] = ask
        target = self.nodes[ask.node_id]
        down = target.raft is None
        self.at(node, 1 if down else self.config(node.id).times.request_ms, nothing)
        if down or self.lost(node.id, ask.node_id):
            return
        for _ in range(1 + (self.rng.random() < self.twice)):
            self.at(target, self.some(self.delay_ms), lambda: self.arrive(node, life, ask))

    def arrive(self, sender: Node, life: int, ask: Ask) -> None:
        node = self.nodes[ask.node_id]
        if node.raft is None:
            return
        _, key = type(ask.message), spec(type(ask.message)).key
        assert key is not None
        ticket: Any = (sender, life, ask)
        version = (self.versions or VERSION)[key]
        node.raft.request(self.crossed(ask.message, version), version, self.now, ticket)
        self.perform(node, [])

    def send_answer(self, node: Node, ticket: Any, message: Any) -> None:
        sender, life, ask = ticket
        key = spec(type(ask.message)).key
        assert key is not None
        message = self.crossed(message, (self.versions or VERSION)[key])
        self.note(node.id, f"=> {sender.id} {described(message)}")
        if self.lost(node.id, sender.id):
            return

        def arrived() -> None:
            late = self._open.pop(id(ask), None) is None and not self.twice
            if sender.raft is not None and sender.life == life and not late:
                self.perform(sender, sender.raft.answered(ask, message, self.now))

        self.at(sender, self.some(self.delay_ms), arrived)

    def crossed(self, message: Any, version: int) -> Any:
        """What arrives of a message."""
        if self.versions is None:
            return message
        return decode(type(message), version, encode(message, version))

    def lost(self, source: int, target: int) -> bool:
        return (source, target) in self.cut or self.rng.random() < self.loss

    def some(self, bound: int) -> int:
        return self.rng.randint(0, bound)

    # what a test does and asks

    def isolate(self, node_id: int) -> None:
        for other in self.nodes:
            self.cut |= {(node_id, other), (other, node_id)}

    def heal(self) -> None:
        self.cut.clear()

    @property
    def leaders(self) -> list[Node]:
        """Those that believe that they lead."""
        return [node for node in self.up() if node.raft is not None and node.raft.is_leader]

    @property
    def leader(self) -> Node:
        """The leader of the newest epoch."""
        return max(self.leaders, key=lambda node: node.raft.leader_epoch if node.raft else 0)

    def append(self, node: Node, *values: bytes) -> int:
        assert node.raft is not None
        offset = node.raft.append(values, self.now)
        self.perform(node, node.raft.flush(self.now))
        return offset

    def note(self, node_id: int, what: str) -> None:
        self.heard(f"{node_id} {what}")

    def tell_state(self, node: Node) -> None:
        raft = node.raft
        assert raft is not None
        quorum = raft.replica.quorum
        voted = f", voted {quorum.election.voted_id}" if quorum.election.voted_id >= 0 else ""
        state = (
            f"{quorum.state.value} epoch {quorum.epoch}, leader {quorum.leader_id}{voted}; "
            f"end {raft.log_end_offset}, high watermark {raft.high_watermark}"
        )
        if self._seen.get(node.id) != state:
            self._seen[node.id] = state
            self.note(node.id, f"is {state}")


def described(message: Any) -> str:
    """A message in a few words."""
    name = type(message).__name__
    if message.error_code if hasattr(message, "error_code") else 0:
        return f"{name} error {message.error_code}"
    topics = getattr(message, "topics", None) or getattr(message, "responses", None) or []
    if not topics or not topics[0].partitions:
        return name
    one = topics[0].partitions[0]
    match name:
        case "VoteRequest":
            end = f"({one.last_offset_epoch}, {one.last_offset})"
            return f"Vote epoch {one.candidate_epoch} log end {end}"
        case "VoteResponse":
            return f"{'granted' if one.vote_granted else 'refused'}{_told(one)}"
        case "BeginQuorumEpochRequest":
            return f"BeginQuorumEpoch epoch {one.leader_epoch}"
        case "EndQuorumEpochRequest":
            named = [each.candidate_id for each in one.preferred_candidates]
            return f"EndQuorumEpoch epoch {one.leader_epoch} successors {named}"
        case "FetchRequest":
            at = f"({one.last_fetched_epoch}, {one.fetch_offset})"
            return f"Fetch epoch {one.current_leader_epoch} at {at}"
        case "FetchResponse":
            if one.error_code:
                return f"error {one.error_code}{_leader(one.current_leader)}"
            if one.diverging_epoch.epoch >= 0:
                return f"diverging ({one.diverging_epoch.epoch}, {one.diverging_epoch.end_offset})"
            if one.snapshot_id.end_offset >= 0:
                return f"snapshot ({one.snapshot_id.epoch}, {one.snapshot_id.end_offset})"
            return f"{len(one.records or b'')} bytes, high watermark {one.high_watermark}"
        case "FetchSnapshotRequest":
            return f"FetchSnapshot {one.snapshot_id.end_offset} from byte {one.position}"
        case "FetchSnapshotResponse":
            return (
                f"{len(one.unaligned_records or b'')} of {one.size} bytes, error {one.error_code}"
            )
        case _:
            return f"{name.removesuffix('Response')} answered{_told(one)}"


def _told(one: Any) -> str:
    error = f", error {one.error_code}" if one.error_code else ""
    return f"{error}, leader {one.leader_id} epoch {one.leader_epoch}"


def _leader(one: Any) -> str:
    return f", leader {one.leader_id} epoch {one.leader_epoch}"
