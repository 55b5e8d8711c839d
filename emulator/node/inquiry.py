"""What the other voters say of themselves, and what the leader says of them.

They are asked every few seconds. ApiVersions tells what a voter supports, and whether it has a
migration configured (the tag ZkMigrationReady, from 3.5 on). Below metadata.version 3.7-IV0 nothing
else does. DescribeQuorum tells how far the leader knows each voter to be; a leader knows it itself.

Source: QuorumFeatures.reasonAllControllersZkMigrationNotReady, Kafka 3.9; KIP-866, KIP-919.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from emulator.controller.registry import METADATA_VERSION_MAX, process_of, tells_readiness
from emulator.metadata.metadata_version import FEATURE_NAME
from emulator.raft.asking import Ask
from emulator.raft.layout import TOPIC
from emulator.raft.machine import Raft
from emulator.raft.quorum_state import NONE
from wire import messages as m
from wire.errors import ErrorCode, named

EVERY_MS: Final = 5_000
"""Between two questions to a voter that answers."""
LEADER_FIRST_MS: Final = 200
"""From the begin of a term to its first questions: who has just resigned may be on its way out, and
cannot lead whatever it says of its flag."""
RETRY_MS: Final = 1_000
"""The same to one that does not."""
LAST_MS: Final = 253_402_300_800_000
"""The year 10000: a time from there on is none."""
INQUIRIES: Final = (m.ApiVersionsRequest, m.DescribeQuorumRequest)
"""The questions."""
_RELEASES: Final = {level: release for release, level in METADATA_VERSION_MAX.items()}


@dataclass(slots=True)
class VoterAnswer:
    """What one other voter said of itself. Times are milliseconds since the Unix epoch."""

    answered_ms: int | None = None
    """When it answered last."""
    failure: str = ""
    """Why the last question got no answer; empty if it got one, or none was asked."""
    levels: tuple[int, int] | None = None
    """Lowest and highest metadata.version that it supports; None if it did not say."""
    migrating: bool = False
    """Whether it said that it has a migration configured."""
    process: str = ""
    """The process that answered at its address last; empty if it named none, or did not answer."""
    process_asked_ms: int = -1
    """When the question was asked that it answered last."""
    asked_ms: int = -1
    """When it was asked for the last time, and has answered or not."""
    epoch: int = -1
    """Our leader epoch when it was asked for the last time, and has answered or not."""

    def introduced(self, answer: m.ApiVersionsResponse, now_ms: int) -> None:
        """It has answered ApiVersions."""
        self.answered_ms, self.failure = now_ms, ""
        self.migrating = answer.zk_migration_ready
        offered = (
            (one.min_version, one.max_version)
            for one in answer.supported_features
            if one.name == FEATURE_NAME
        )
        self.levels = next(offered, None)
        self.process = process_of(answer)

    def not_migrating(self, release: str) -> str:
        """Why it does not allow a migration to begin; empty if it does, or if it is not asked.

        Once a voter has said that it has one configured, its death does not take that back, as that
        of a registered one does not.

        Args:
            release: of the voter that asks; 3.4 does not ask.
        """
        if self.migrating or not tells_readiness(release):
            return ""
        if self.answered_ms is None:
            return f"it has not answered yet: {self.failure or 'it was just asked'}"
        own = release_of(self.levels)
        if own is not None and not tells_readiness(own):
            return f"its release, {own}, does not say whether it has a migration configured"
        return "it has no migration configured (zookeeper.metadata.migration.enable)"


class VoterPosition(NamedTuple):
    """How far the leader knows one voter to be; -1 for what it does not know."""

    end_offset: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1


@dataclass(frozen=True, slots=True)
class LeaderAccount:
    """What a leader told of the voters."""

    leader_id: int
    epoch: int
    at_ms: int
    high_watermark: int
    voters: dict[int, VoterPosition]

    @property
    def told_ms(self) -> int:
        """When it was told by the leader's clock, which all times of voters are by."""
        own = self.voters.get(self.leader_id, VoterPosition()).last_fetch_ms
        return self.at_ms if own < 0 else own


class VoterInquiry:
    """Decides whom to ask what; another layer sends.

    Args:
        raft: says who leads.
        others: ids of the other voters.
    """

    def __init__(self, raft: Raft, others: Iterable[int]) -> None:
        self.voters = {each: VoterAnswer() for each in sorted(others)}
        self.account: LeaderAccount | None = None
        """What the leader told last."""
        self.account_failure = ""
        """Why the leader told nothing when it was asked last; empty if it did."""
        self._raft = raft
        self._asked: dict[int, Ask] = {}
        """The question that each voter has not answered yet."""
        self._due_ms = dict.fromkeys(self.voters, 0)
        self._asked_ms = dict.fromkeys(self.voters, -1)
        self._describes = False
        """Whether the leader is to be asked for the others."""
        self._again: set[int] = set()
        """Voters that are to be asked once more at once."""
        self._known = (NONE, -1)
        """Leader and epoch when it was asked last."""

    @property
    def deadline_ms(self) -> int | None:
        """When ``poll`` has something to ask; 0: at once."""
        if self._changed or self._describes:
            return 0
        free = {each: due for each, due in self._due_ms.items() if each not in self._asked}
        return 0 if free.keys() & self._again else min(free.values(), default=None)

    def poll(self, now_ms: int) -> list[Ask]:
        """The questions that are due, at most one to each voter at a time."""
        asks: list[Ask] = []
        if self._changed:
            self._known = self._raft.leader_id, self._raft.leader_epoch
            own = self._raft.leader_id == self._raft.config.node_id
            first_ms = LEADER_FIRST_MS if own else 0
            self._due_ms = dict.fromkeys(self.voters, now_ms + first_ms)
        if self._describes:
            self._describes = False
            leader_id = self._raft.leader_id
            if leader_id in self.voters and leader_id not in self._asked:
                asks.append(Ask(leader_id, self._raft.leader_epoch, _describe()))
                self._asked[leader_id] = asks[-1]
        for voter, due_ms in self._due_ms.items():
            due = due_ms <= now_ms or voter in self._again
            if due and voter not in self._asked:
                ask = Ask(voter, self._raft.leader_epoch, _who_are_you())
                asks.append(ask)
                self._asked[voter], self._asked_ms[voter] = ask, now_ms
                self._again.discard(voter)
        return asks

    def ask_again(self, voter: int) -> None:
        """Ask a voter who it is as soon as it has answered what it was asked before."""
        self._again.add(voter)

    def answered(self, ask: Ask, message: object, why: str, now_ms: int) -> None:
        """Take an answer; ``message`` is None if there is none, and ``why`` says why."""
        voter = ask.node_id
        del self._asked[voter]
        if isinstance(ask.message, m.DescribeQuorumRequest):
            self._described(ask, message, why, now_ms)
            return
        known = self.voters[voter]
        known.epoch, known.process, known.asked_ms = ask.epoch, "", self._asked_ms[voter]
        match message:
            case m.ApiVersionsResponse(error_code=0):
                known.introduced(message, now_ms)
                known.process_asked_ms = self._asked_ms[voter]
                if ask.epoch == self._raft.leader_epoch:
                    self._due_ms[voter] = now_ms + EVERY_MS
                self._describes |= voter == self._raft.leader_id
                return
            case m.ApiVersionsResponse(error_code=code):
                known.failure = named(code)
            case _:
                known.failure = why or "no answer"
        if ask.epoch == self._raft.leader_epoch:
            self._due_ms[voter] = now_ms + RETRY_MS

    @property
    def _changed(self) -> bool:
        return self._known != (self._raft.leader_id, self._raft.leader_epoch)

    def _described(self, ask: Ask, message: object, why: str, now_ms: int) -> None:
        if not isinstance(message, m.DescribeQuorumResponse):
            self.account_failure = why or "no answer"
            return
        found = [each for topic in message.topics for each in topic.partitions][:1]
        code = message.error_code or (found[0].error_code if found else ErrorCode.INVALID_REQUEST)
        if code:
            self.account_failure = named(code)
            return
        self.account_failure = ""
        partition = found[0]
        if partition.high_watermark < 0:
            # A leader in its first moments: it knows little of the others.
            self._due_ms[ask.node_id] = now_ms + RETRY_MS
        self.account = LeaderAccount(
            ask.node_id,
            partition.leader_epoch,
            now_ms,
            partition.high_watermark,
            {
                one.replica_id: VoterPosition(
                    one.log_end_offset,
                    _possible(one.last_fetch_timestamp),
                    _possible(one.last_caught_up_timestamp),
                )
                for one in partition.current_voters
                if one.replica_id in self._raft.config.voters
            },
        )


def _possible(time_ms: int) -> int:
    """A time that a calendar has; else -1, unknown."""
    return time_ms if time_ms < LAST_MS else -1


def release_of(levels: tuple[int, int] | None) -> str | None:
    """The Kafka release that supports these levels at most; None if it is none of 3.4 to 3.9.

    >>> release_of((1, 21)), release_of((7, 25)), release_of(None)
    ('3.9', None, None)
    """
    return None if levels is None else _RELEASES.get(levels[1])


def _who_are_you() -> m.ApiVersionsRequest:
    return m.ApiVersionsRequest(client_software_name="kraft-bridge", client_software_version="1")


def _describe() -> m.DescribeQuorumRequest:
    kind = m.DescribeQuorumRequest
    partition = kind.PartitionData(partition_index=0)
    return kind(topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])])
