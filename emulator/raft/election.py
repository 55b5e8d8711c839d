"""The elections of one voter: when it becomes a candidate, its votes, when it resigns as leader.

The states and their changes are ``quorum_state``'s. This machine decides them: events and the time
come in as calls, requests to other voters go out as ``Ask``. ``changed`` means that the content of
``quorum-state`` must be durable before any of them, and before any answer, is sent.

Differences from Kafka 3.9, which all only refuse more: requests that name a node outside the voters
change nothing; an epoch far above the own one is taken over from answers alone, since one request
with the last epoch that there is would end all elections; a voter that may have lost what it
acknowledged does not help to elect one without it (``voter_state``); and no voter is leader
or candidate while a sync of its disk does not end.

Source: KafkaRaftClient, QuorumState, LeaderState, CandidateState, Kafka 3.9; KIP-595.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from emulator.config.quorum import QuorumTimes
from emulator.raft import asking
from emulator.raft.asking import Ask, LogEnd
from emulator.raft.config import RaftConfig
from emulator.raft.quorum_state import NONE, Held, QuorumState, VoterState
from emulator.seam import Log, earliest

# What a leader knows of the other voters: how far their logs are, and when they fetched.
#
# Source: LeaderState, Kafka 3.9; KIP-595, check quorum of 3.7 (KAFKA-15489).

UNKNOWN_END = -1


@dataclass(slots=True)
class VoterProgress:
    """One other voter. Times are milliseconds since the Unix epoch, -1 for never.

    ``end_offset``: everything below is durable there, by its last Fetch.
    """

    end_offset: int = UNKNOWN_END
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    leader_end_at_fetch: int = -1


class Progress:
    """The other voters in one epoch of a leader; its own log is handed in.

    Args:
        others: ids of the other voters.
        now_ms: when the epoch began; until they fetch, it counts as their last contact.
    """

    def __init__(self, others: Iterable[int], now_ms: int) -> None:
        self.voters = {each: VoterProgress() for each in sorted(others)}
        self._contact_ms = dict.fromkeys(self.voters, now_ms)

    def fetched(self, voter_id: int, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Note a Fetch of a voter, whose log is a prefix of ours up to ``offset``."""
        voter = self.voters[voter_id]
        if offset >= leader_end_offset:
            voter.last_caught_up_ms = now_ms
        elif offset >= voter.leader_end_at_fetch > 0:
            voter.last_caught_up_ms = max(voter.last_caught_up_ms, voter.last_fetch_ms)
        voter.leader_end_at_fetch = leader_end_offset
        voter.end_offset = offset
        voter.last_fetch_ms = now_ms
        self.note_contact(voter_id, now_ms)

    def note_contact(self, voter_id: int, now_ms: int) -> None:
        """Note that a replica fetches records, or a snapshot; observers do not count."""
        if voter_id in self._contact_ms:
            self._contact_ms[voter_id] = now_ms

    def silent_since_ms(self, voter_id: int) -> int:
        """When the voter fetched last, or when the epoch began."""
        return self._contact_ms[voter_id]

    def majority_end(self, own_end: int) -> int:
        """Largest offset below which a majority has everything, the leader among them.

        Others may have more than what is durable here, ``own_end``. A snapshot of what is
        committed must not end behind the log that a crash leaves.

        >>> Progress([2, 3], 0).majority_end(7)
        -1
        """
        if not self.voters:
            return own_end
        ends = sorted((each.end_offset for each in self.voters.values()), reverse=True)
        return min(own_end, ends[(len(ends) - 1) // 2])

    def majority_contact_ms(self) -> int | None:
        """The last contact with a majority, leader included; None in a quorum of one."""
        needed = (len(self.voters) + 1) // 2
        if needed == 0:
            return None
        return sorted(self._contact_ms.values(), reverse=True)[needed - 1]

    def successors(self) -> list[int]:
        """The other voters, the one with the longest log first."""
        return sorted(self.voters, key=lambda each: (-self.voters[each].end_offset, each))


JUMP_MAX: Final = 2**16
"""A request may name an epoch so far above the own one: an election each second for 18 hours. A
voter that is further behind learns the epoch from the answers to its own requests."""
ANSWERED_MAX: Final = 2**31 - 2**24
"""The answer of a voter may name any epoch up to this one. Above it there is still one for an
election each second for half a year."""
EPOCH_LAST: Final = 2**31 - 1
LATE_MS: Final = 50
"""A turn that comes so late after it was due follows a long step of this node, or a pause."""
YIELDS: Final = 4
"""Election timeouts that a voter waits to let others be candidates first, twice each."""
_BACKOFF_BASE_MS = 100
_DOUBLINGS_MAX = 10


class QuorumElection:
    """See the module's docstring.

    Args:
        config: identity and voters.
        quorum: the state; only this object changes it.
        rng: source of the random times.
        log_end: the end of the own log, all of which is durable when it is used in a vote.
        held: whether this voter still has all that it acknowledged.
    """

    def __init__(
        self,
        config: RaftConfig,
        quorum: QuorumState,
        rng: random.Random,
        log_end: Callable[[], LogEnd],
        held: Held,
    ) -> None:
        self.config = config
        self.quorum = quorum
        self.held = held
        self.changed = False
        """Whether the election state changed; whoever writes it takes this back."""
        self.asks: list[Ask] = []
        self.log: list[Log] = []
        self.granting: set[int] = set()
        """Voters that voted for this node in this epoch."""
        self.progress = Progress((), 0)
        """Of the other voters, while this node leads."""
        self._others = frozenset(config.voters) - {config.node_id}
        self._times: QuorumTimes = config.times
        self._rng = rng
        self._log_end = log_end
        self._refusing: set[int] = set()
        self._silent: set[int] = set()
        """Voters that did not answer a request in this epoch, though they may be asked again."""
        self._backing_off = False
        self._rounds = 0
        """Elections in a row that this node did not win."""
        self.leaderless_since_ms: int | None = None
        """Since when this node knows no leader; None while it knows one."""
        self._timer_ms: int | None = None
        """Of the state: election timeout, fetch timeout, or the next BeginQuorumEpoch."""
        self._again: dict[int, int] = {}
        """Voter -> when to repeat a request that got no answer."""
        self.yielded_ms = 0
        """How much longer this node waits after a resignation: others are candidates first."""
        self._leaving = False
        self._first: Sequence[int] = ()
        """The preferred successors, whichever voter has the longest log."""
        self._compared = False
        """Whether a leader has sent its high watermark since the start."""
        self._was_late = False
        self._syncing_since_ms: int | None = None
        self._ended_in = -1
        """The last epoch whose leader sent that it resigned."""
        self._waited_in = -1
        """The last epoch in which it was logged why this node is no candidate."""

    @property
    def majority(self) -> int:
        """How many voters decide, this one among them."""
        return (len(self._others) + 1) // 2 + 1

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` is due; None in a quorum of one, which waits for no other voter."""
        if not self._others:
            return None
        lost_ms = self._lost_ms if self.quorum.is_leader else None
        timer_ms = None if self._waits_for_disk else self._timer_ms
        return earliest((timer_ms, *self._again.values(), lost_ms))

    # Time.

    def start(self, now_ms: int) -> None:
        """Begin in the state that the disk holds; a quorum of one elects itself at once."""
        self._note_leader(now_ms)
        if not self._others:
            self._start_candidacy(now_ms)
        elif self.quorum.state is VoterState.FOLLOWER:
            self._timer_ms = now_ms + self._times.fetch_ms
        else:
            self._timer_ms = self._election_timeout(now_ms)

    def tick(self, now_ms: int) -> None:
        """Become a candidate, back off, repeat requests, or resign, as is due."""
        for node_id in [each for each, due_ms in self._again.items() if due_ms <= now_ms]:
            del self._again[node_id]
            self._repeat(node_id)
        if self.quorum.is_leader and self._others and self._lost_ms <= now_ms:
            silent = self._lost_ms == self._check_quorum_ms
            no_majority = "no majority of the voters has fetched: resigning"
            self._log("warning", no_majority if silent else "the disk does not answer: resigning")
            self.resign(now_ms)
        if self._timer_ms is None or self._timer_ms > now_ms or self._waits_for_disk:
            return
        match self.quorum.state:
            case VoterState.LEADER:
                self._begin_epoch(now_ms)
            case VoterState.CANDIDATE if not self._backing_off:
                self._back_off(now_ms)
            case VoterState.FOLLOWER if self._syncing_since_ms is not None:
                # This voter asks for no records meanwhile, and its log is about to be another.
                self._timer_ms = now_ms + self._times.fetch_ms
            case VoterState.FOLLOWER if self._led and self._late(now_ms):
                self._timer_ms = now_ms + self._times.fetch_ms // 4
            case _:
                self._start_candidacy(now_ms)

    @property
    def _led(self) -> bool:
        """Whether the leader that is followed may lead on: it has not sent EndQuorumEpoch."""
        return self.quorum.state is VoterState.FOLLOWER and self._ended_in != self.quorum.epoch

    @property
    def _waits_for_disk(self) -> bool:
        """Whether this voter, if its turn comes, is a candidate as soon as its log is durable.

        The end of the log is sent to others only then. What the leader sent last is often on its
        way to the disk when it resigns. (Kafka's voter syncs before it looks at the next request.)
        """
        return self._syncing_since_ms is not None and not (self.quorum.is_leader or self._led)

    def _late(self, now_ms: int) -> bool:
        """Whether an answer may be there unread, as this turn is late; not twice in a row."""
        assert self._timer_ms is not None
        self._was_late = now_ms - self._timer_ms >= LATE_MS and not self._was_late
        return self._was_late

    def fetched(self, now_ms: int) -> None:
        """The leader answered a Fetch or a FetchSnapshot."""
        self._was_late = False
        if self._led:
            self._timer_ms = now_ms + self._times.fetch_ms

    def leader_committed(self, high_watermark: int) -> None:
        """The leader that is followed sent its high watermark; -1 if it does not know it."""
        lacks = not self._compared and high_watermark > self._log_end().offset
        self.held = self.held.followed(self.quorum.epoch, high_watermark, lacks=lacks)
        self._compared = self._compared or high_watermark > 0

    def voter_lost(self, voter_id: int, offset: int, acknowledged: int) -> None:
        """A voter that we lead fetches from below what it had acknowledged: log its id."""
        text = "a voter has lost records: its disk was emptied, or an old copy took its place"
        self._log("error", text, voter=voter_id, has=offset, acknowledged=acknowledged)

    def disk_late(self, since_ms: int | None) -> None:
        """Since when the sync of the log that is under way has not ended; None if there is none."""
        self._syncing_since_ms = since_ms

    # Votes.

    def vote_asked(self, candidate_id: int, epoch: int, end: LogEnd, now_ms: int) -> bool:
        """Decide on a Vote request of an epoch that is not below ours."""
        if candidate_id not in self._others:
            return False
        self.epoch_named(epoch, NONE, now_ms)
        if epoch != self.quorum.epoch:
            return False
        quorum = self.quorum
        grants = (
            quorum.state is VoterState.UNATTACHED
            and quorum.leader_id == NONE
            and quorum.election.voted_id in {NONE, candidate_id}
            and end >= self._log_end()
            # Of two voters the other one has all that is committed.
            and (self._others == {candidate_id} or self.held.may_elect(end))
        )
        if grants and quorum.election.voted_id == NONE:
            quorum.to_voted(candidate_id)
            self._changed()
            self._timer_ms = self._election_timeout(now_ms)
        return grants

    def vote_answered(self, ask: Ask, *, granted: bool, now_ms: int) -> None:
        """Count a vote, or a refusal, for the election that is going on."""
        if self.quorum.state is not VoterState.CANDIDATE or ask.epoch != self.quorum.epoch:
            return
        (self.granting if granted else self._refusing).add(ask.node_id)
        if len(self.granting) >= self.majority:
            self._win(now_ms)
        else:
            self._give_up_if_lost(now_ms)

    def _give_up_if_lost(self, now_ms: int) -> None:
        """Back off when the votes that may still come are too few.

        Two followers of a dead leader often time out together, and each votes for itself; without
        this both would wait for an answer of the dead one. (Kafka counts only refusals.)
        """
        against = self._refusing | (self._silent - self.granting)
        lost = len(self._others) + 1 - len(against) < self.majority
        if lost and self._refusing and not self._backing_off:
            self._back_off(now_ms)

    # Epochs that other voters name.

    def epoch_named(
        self, epoch: int, leader_id: int, now_ms: int, *, answered: bool = False
    ) -> None:
        """Take over an epoch and its leader (-1: unknown) that a voter named.

        ``answered``: in the answer to a request of this node.
        """
        quorum = self.quorum
        if epoch < quorum.epoch or (leader_id != NONE and leader_id not in self.config.voters):
            return
        if epoch - quorum.epoch > JUMP_MAX and not (answered and epoch <= ANSWERED_MAX):
            self._log("warning", "an epoch far above the own one is not taken over", named=epoch)
            return
        if leader_id == self.config.node_id:
            if epoch > quorum.epoch:
                # It is known to have led this epoch, and may not vote in it for another.
                self._leave_epoch(now_ms, lambda: quorum.to_resigned(epoch))
        elif leader_id != NONE and (epoch > quorum.epoch or quorum.leader_id == NONE):
            self._leave_epoch(now_ms, lambda: quorum.to_follower(epoch, leader_id))
            self._timer_ms = now_ms + self._times.fetch_ms
            self._rounds = 0
        elif epoch > quorum.epoch:
            # The election timeout runs on: else a voter whose log is too short, and that is a
            # candidate again and again, would keep all others from being one.
            waiting_ms = None if quorum.is_leader else self._timer_ms
            self._leave_epoch(now_ms, lambda: quorum.to_unattached(epoch))
            self._timer_ms = waiting_ms or self._timer_ms
        elif leader_id not in {NONE, quorum.leader_id}:
            self._log("error", "another leader is named for this epoch", named=leader_id)

    def ended(self, leader_id: int, epoch: int, successors: Sequence[int], now_ms: int) -> None:
        """The leader resigned (EndQuorumEpoch): become a candidate, by the order of successors."""
        self.epoch_named(epoch, leader_id, now_ms)
        quorum = self.quorum
        following = quorum.state is VoterState.FOLLOWER and quorum.leader_id == leader_id
        if not following or epoch != quorum.epoch:
            return
        most = self._times.backoff_max_ms
        wait_ms = most
        if self.config.node_id in successors:
            place = successors.index(self.config.node_id)
            step = most >> min(len(successors) - 1, _DOUBLINGS_MAX)
            wait_ms = min(most, step << min(place - 1, _DOUBLINGS_MAX)) if place else 0
        self._ended_in = epoch
        self._timer_ms = now_ms + wait_ms + self.yielded_ms

    def unanswered(self, ask: Ask, now_ms: int) -> None:
        """A request got no answer: repeat it soon, if it still matters."""
        wanted = {VoterState.CANDIDATE, VoterState.RESIGNED}
        if ask.epoch == self.quorum.epoch and self.quorum.state in wanted:
            self._again[ask.node_id] = now_ms + self._times.retry_ms
            self._silent.add(ask.node_id)
            if self.quorum.state is VoterState.CANDIDATE:
                self._give_up_if_lost(now_ms)

    # Leadership.

    def resign(self, now_ms: int, first: Sequence[int] = ()) -> None:
        """Resign as leader and send it to the others, best successor first, ``first`` before it."""
        if not self.quorum.is_leader:
            return
        self._first = first
        self._leave_epoch(now_ms, lambda: self.quorum.to_resigned(self.quorum.epoch))
        if self._timer_ms is not None:
            self._timer_ms += self.yielded_ms
        for node_id in sorted(self._others):
            self._repeat(node_id)

    def leave(self, now_ms: int, first: Sequence[int] = ()) -> None:
        """Begin to stop: resign if leader, and be no candidate any more."""
        self._leaving = True
        self.resign(now_ms, first)
        self._timer_ms = None

    # Inside.

    @property
    def _check_quorum_ms(self) -> int:
        contact_ms = self.progress.majority_contact_ms()
        assert contact_ms is not None, "there are other voters"
        return contact_ms + self._times.check_quorum_ms

    @property
    def _lost_ms(self) -> int:
        """When a leader without contact to a majority or its disk has to resign."""
        lost_ms = self._check_quorum_ms
        if self._syncing_since_ms is not None:
            lost_ms = min(lost_ms, self._syncing_since_ms + self._times.check_quorum_ms)
        return lost_ms

    def _election_timeout(self, now_ms: int) -> int:
        return now_ms + self._times.election_ms + self._rng.randrange(self._times.election_ms)

    def _start_candidacy(self, now_ms: int) -> None:
        if self._leaving:
            self._timer_ms = None
            return
        why = self._hindrance
        if why is not None and self._waited_in != self.quorum.epoch:
            self._waited_in = self.quorum.epoch
            self._log("warning", why)
        if why is not None:
            self._timer_ms = self._election_timeout(now_ms)
            return
        self._leave_epoch(now_ms, self.quorum.to_candidate)
        self._rounds += 1
        self.granting = {self.config.node_id}
        for node_id in sorted(self._others):
            self._repeat(node_id)
        if len(self.granting) >= self.majority:
            self._win(now_ms)

    @property
    def _hindrance(self) -> str | None:
        """Why this voter must not be elected; None if it may be."""
        if self.quorum.epoch >= EPOCH_LAST:
            return "not a candidate: there is no later epoch"
        return self.held.hindrance

    def _win(self, now_ms: int) -> None:
        self._leave_epoch(now_ms, self.quorum.to_leader)
        self._rounds = 0
        self.progress = Progress(self._others, now_ms)
        self._begin_epoch(now_ms)

    def _begin_epoch(self, now_ms: int) -> None:
        """Send BeginQuorumEpoch to voters that do not fetch; again, as one may have restarted."""
        every_ms = self._times.fetch_ms // 2
        self._timer_ms = now_ms + every_ms if self._others else None
        for node_id in sorted(self._others):
            silent_ms = now_ms - self.progress.silent_since_ms(node_id)
            if silent_ms == 0 or silent_ms >= every_ms:
                ask = asking.begin_quorum_epoch(self.config, node_id, self.quorum.epoch)
                self.asks.append(ask)

    def _back_off(self, now_ms: int) -> None:
        self._backing_off = True
        bound = min(
            self._times.backoff_max_ms, _BACKOFF_BASE_MS << min(self._rounds, _DOUBLINGS_MAX)
        )
        self._timer_ms = now_ms + self._rng.randrange(bound)

    def _repeat(self, node_id: int) -> None:
        """Ask a voter what the state is about."""
        epoch = self.quorum.epoch
        if self.quorum.state is VoterState.CANDIDATE and node_id not in self.granting:
            self.asks.append(asking.vote(self.config, node_id, epoch, self._log_end()))
        elif self.quorum.state is VoterState.RESIGNED:
            successors = sorted(self.progress.successors(), key=lambda x: x not in self._first)
            self.asks.append(asking.end_quorum_epoch(self.config, node_id, epoch, successors))

    def _leave_epoch(self, now_ms: int, enter: Callable[[], None]) -> None:
        """Change the state; what belonged to the one before is forgotten."""
        enter()
        self._note_leader(now_ms)
        self._again.clear()
        self._refusing, self._silent = set(), set()
        self._backing_off = False
        if self.quorum.state is not VoterState.LEADER:
            self.granting = set()
        self._timer_ms = None if self._leaving else self._election_timeout(now_ms)
        self._changed()
        self._log("info", "election state")

    def _note_leader(self, now_ms: int) -> None:
        if self.quorum.state in {VoterState.LEADER, VoterState.FOLLOWER}:
            self.leaderless_since_ms = None
        elif self.leaderless_since_ms is None:
            self.leaderless_since_ms = now_ms

    def _changed(self) -> None:
        self.changed = True

    def _log(self, level: str, event: str, **more: object) -> None:
        fields: dict[str, object] = {
            "state": self.quorum.state.value,
            "epoch": self.quorum.epoch,
            "leader": self.quorum.leader_id,
            **more,
        }
        self.log.append(Log(level, event, fields))
