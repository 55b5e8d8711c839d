"""Asks the leader of the controllers' quorum for the metadata log, as an observer.

Source: KafkaRaftClient as an observer, Kafka 3.9; KIP-595, KIP-630.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Final

from typing_extensions import override

from emulator.broker.kraft.followed import FETCH_WAIT_MS, FollowedMetadata
from emulator.broker.kraft.quorum import KnownQuorum, LeaderAndEpoch
from emulator.broker.lifecycle import HINTS, BrokerPart
from emulator.config.listeners import HostPort
from emulator.metadata.errors import ReplayError
from emulator.net.channel import (
    Answered,
    Broken,
    ChannelConfig,
    Opened,
    OutboundChannel,
    Turn,
    Unanswered,
)
from emulator.net.greeting import NoCommonVersionError, common, declared
from emulator.raft.layout import RecoveryError
from emulator.seam import Effect, Event, Log, earliest
from wire import messages as m
from wire.errors import DecodeError, ErrorCode, named
from wire.releases import Ranges

BACKOFF_MS: Final = 20
"""Pause after an answer that gave nothing (controller.quorum.retry.backoff.ms)."""
REFUSED_MS: Final = 1_000
"""Pause after an answer that no repetition changes soon."""
LOGGED_MAX: Final = 20
"""Different warnings without an answer in between; more are not logged."""
LOWEST: Final[Mapping[type, int]] = {m.FetchRequest: 12}
"""The first version with what a follower of the quorum needs: the epoch it has read."""
NOT_LEADER: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


class LogObserver(BrokerPart):
    """``broken`` says why the log cannot be followed any more; empty while it can.

    Args:
        log: what was read; it is continued.
        quorum: whom to ask; it is updated.
        spoken: API key -> versions that this broker's release can send.
        config: of the connections, each of which is made once.
        new_conn: allocates connection ids.
    """

    def __init__(
        self,
        log: FollowedMetadata,
        quorum: KnownQuorum,
        spoken: Ranges,
        config: ChannelConfig,
        new_conn: Callable[[], int],
    ) -> None:
        assert config.retry_ms is None, "another connection may be to another node"
        self.broken = ""
        self.refusal = ""
        """The error of the last answer, if it refuses this follower."""
        self.of_another_cluster = False
        """Whether the last answer of each configured controller named another cluster."""
        self._foreign: set[HostPort] = set()
        self.log = log
        self.quorum = quorum
        self._spoken = spoken
        self._config = config
        self._new_conn = new_conn
        self._correlation_ids = count(1)
        self._channel: OutboundChannel[None] | None = None
        self._asked_ms = 0
        self._due_ms: int | None = None
        """When to ask; None while a request is in flight, and before the start."""
        self._effects: list[Effect] = []
        self._logged: set[tuple[str, str]] = set()
        """Lines logged since the last answer; with several nodes causes take turns."""

    @property
    @override
    def deadline_ms(self) -> int | None:
        if self.log.behind:
            return 0
        deadlines = [self._due_ms]
        if self._channel is not None:
            deadlines.append(self._channel.deadline_ms)
        return earliest(deadlines)

    @override
    def start(self, now_ms: int) -> None:
        self._due_ms = now_ms

    @override
    def handle(self, event: Event, now_ms: int) -> None:
        if self._channel is not None:
            self._turns(self._channel.handle(event, now_ms), now_ms)

    @override
    def tick(self, now_ms: int) -> None:
        if self._channel is not None:
            self._turns(self._channel.tick(now_ms), now_ms)
        if self.log.behind:
            self._apply(now_ms)
        if self.log.behind:
            return  # what comes next is asked for when this is applied
        if self._due_ms is None or self._due_ms > now_ms or self.broken:
            return
        leader = self.quorum.leader
        if leader is not None and leader != self._address:
            self._disconnect()
        self._due_ms = None
        if self._channel is None:
            self._connect(now_ms)
        else:
            self._ask(now_ms)

    @override
    def effects(self, now_ms: int) -> list[Effect]:
        effects, self._effects = self._effects, []
        if self._channel is not None:
            effects += self._channel.effects(now_ms)
        return effects

    @override
    def close(self) -> None:
        self._due_ms = None
        self._disconnect()

    # ---------------------------------------------------------------- the connection
    @property
    def _address(self) -> HostPort | None:
        return None if self._channel is None else HostPort(*self._channel.address)

    def _connect(self, now_ms: int) -> None:
        node = self.quorum.someone()
        self._channel = OutboundChannel(
            (node.host, node.port), self._config, self._new_conn, self._correlation_ids
        )
        self._channel.dial(now_ms)

    def _disconnect(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._effects += self._channel.effects(None)
            self._channel = None

    def _turns(self, turns: list[Turn[None]], now_ms: int) -> None:
        for turn in turns:
            match turn:
                case Opened():
                    self._ask(now_ms)
                case Answered(message=message):
                    self._due_ms = now_ms + self._answered(message, now_ms)
                case Unanswered():
                    """Its connection is reported as broken next."""
                case Broken(why=why):
                    self._lost(why)
                    self._look_elsewhere(now_ms + BACKOFF_MS)

    def _look_elsewhere(self, due_ms: int) -> None:
        self.quorum.lost(self._address)
        self._disconnect()
        self._due_ms = due_ms

    def _lost(self, why: str) -> None:
        reached = self.log.high_watermark >= 0
        event = "lost the leader of the metadata log" if reached else "no controller is reached yet"
        self._log_once("warning", event, f"{self._address}: {why}")

    def _log_once(self, level: str, event: str, why: str, hint: str = "") -> None:
        """One line for one cause until there is an answer: it may repeat many times a second."""
        if (event, why) not in self._logged and len(self._logged) < LOGGED_MAX:
            self._logged.add((event, why))
            fields: dict[str, object] = {"why": why, "hint": hint} if hint else {"why": why}
            self._effects.append(Log(level, event, fields))

    # ---------------------------------------------------------------- requests and answers
    def _ask(self, now_ms: int) -> None:
        assert self._channel is not None
        request = self.log.request(self.quorum.epoch)
        _, key = declared(type(request))
        low, high = self._spoken[key]
        offered = self._channel.offered
        if offered is not None:
            other_low, other_high = offered.get(key, (0, -1))
            low, high = max(low, other_low), min(high, other_high)
        try:
            version = common({key: (low, high)}, type(request), LOWEST.get(type(request), 0))
        except NoCommonVersionError as error:
            self._log_once(
                "warning", "no common version of a request with a controller", str(error)
            )
            self._look_elsewhere(now_ms + REFUSED_MS)
            return
        self._due_ms = None
        self._asked_ms = now_ms
        self._channel.put(request, None, version)

    def _answered(self, message: object, now_ms: int) -> int:
        """Take an answer; returns the pause before the next request, in milliseconds."""
        had = self.log.progress
        try:
            match message:
                case m.FetchResponse(error_code=0, responses=[topic]) if topic.partitions:
                    partition = topic.partitions[0]
                    if not self._learn_leader(message, partition.current_leader):
                        return BACKOFF_MS
                    if partition.error_code:
                        return self._refused(partition.error_code)
                    self._accepted()
                    self.quorum.answered(self._address)
                    self.log.fetched(partition)
                    self._logged.clear()
                case m.FetchSnapshotResponse(error_code=0, topics=[topic]) if topic.partitions:
                    piece = topic.partitions[0]
                    if not self._learn_leader(message, piece.current_leader):
                        return BACKOFF_MS
                    if piece.error_code not in {0, ErrorCode.SNAPSHOT_NOT_FOUND}:
                        return self._refused(piece.error_code)
                    self.log.downloaded(piece)
                case m.FetchResponse(error_code=code) | m.FetchSnapshotResponse(error_code=code):
                    return self._refused(code)
                case _:
                    raise AssertionError(f"no request has this answer: {message!r}")
        except (DecodeError, RecoveryError, ReplayError) as error:
            return self._unfit(error)
        # A leader waits before it answers that there is nothing new.
        early = now_ms - self._asked_ms < FETCH_WAIT_MS // 2
        return BACKOFF_MS if early and self.log.progress <= had else 0

    def _apply(self, now_ms: int) -> None:
        """The next slice of an answer that holds much."""
        try:
            self.log.go_on()
        except (DecodeError, RecoveryError, ReplayError) as error:
            self._due_ms = now_ms + self._unfit(error)

    def _unfit(self, error: Exception) -> int:
        """An answer that is none, or the end; returns the pause."""
        if isinstance(error, ReplayError):
            self.broken = f"the metadata log cannot be applied: {error}"
            return BACKOFF_MS
        self._log_once("warning", "a controller sent an invalid response", str(error))
        self.log.forget_unfinished()
        return REFUSED_MS

    def _learn_leader(
        self,
        message: m.FetchResponse | m.FetchSnapshotResponse,
        leader: m.FetchResponse.LeaderIdAndEpoch | m.FetchSnapshotResponse.LeaderIdAndEpoch,
    ) -> bool:
        """Learn the leader; False if the answer is of an epoch that is over."""
        if leader.leader_epoch < self.quorum.epoch:
            return False
        nodes = ((one.node_id, HostPort(one.host, one.port)) for one in message.node_endpoints)
        self.quorum.take_leader(LeaderAndEpoch(leader.leader_id, leader.leader_epoch), nodes)
        return True

    def _refused(self, code: int) -> int:
        if code in NOT_LEADER:
            leader = self.quorum.leader
            fenced = code == ErrorCode.FENCED_LEADER_EPOCH
            if leader is None or (leader == self._address and not fenced):
                # The node does not lead, and names no leader: ask another node.
                self.quorum.lost(self._address)
                self._disconnect()
            return BACKOFF_MS
        self.refusal = named(code)
        foreign = code == ErrorCode.INCONSISTENT_CLUSTER_ID
        hint = HINTS[code] if foreign else ""
        self._log_once("warning", "a controller refuses Fetch requests", self.refusal, hint)
        if foreign:
            self._is_foreign()
        return REFUSED_MS

    def _accepted(self) -> None:
        self.refusal = ""
        self._foreign.clear()
        self.of_another_cluster = False

    def _is_foreign(self) -> None:
        """Ask another node, if there is any: the one that answered never accepts us."""
        if self._address is not None:
            self._foreign.add(self._address)
        self.of_another_cluster = self._foreign.issuperset(self.quorum.bootstrap)
        self.quorum.lost(self._address)
        self._disconnect()
