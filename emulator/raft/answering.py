"""The requests of other nodes to this one, and their answers, in order.

Which there are, who may send them, and how one is refused: :mod:`emulator.net.raft_requests`. What
a request changes in this voter is written before its answer is sent: the machine sees to it.
"""

from __future__ import annotations

from typing import Final

from emulator.raft import describe_quorum, fetch_snapshot, voting
from emulator.raft.fetch import Fetches
from emulator.raft.member import Member
from emulator.seam import Reply, Ticket
from wire import messages as m

_ONLY_ASK: Final = (m.DescribeQuorumRequest, m.FetchSnapshotRequest)
"""Requests that change nothing here."""


class Answering:
    """See the module's docstring.

    Args:
        member: the voter that is asked.
    """

    def __init__(self, member: Member) -> None:
        self.moved = False
        """Whether more is durable or committed than the Fetches that wait were woken for."""
        self._member = member
        self._fetches = Fetches(member.replica, self._voter_fetched)
        self._ready: list[Reply] = []

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` is due; 0 means at once."""
        return self._fetches.deadline_ms

    def take(self) -> list[Reply]:
        """Answers that became ready since the last call."""
        ready, self._ready = self._ready, []
        return ready

    def handle(self, request: object, version: int, now_ms: int, ticket: Ticket) -> bool:
        """Answer one request, now or later; True if it may have changed something here.

        A Fetch is answered at once, or when something new is durable, or in 500 ms.
        """
        member = self._member
        response: object
        match request:
            case m.FetchRequest():
                reply = self._fetches.handle(ticket, request, version, now_ms)
                self._ready += [] if reply is None else [reply]
                return self.moved
            case m.FetchSnapshotRequest():
                response = piece = fetch_snapshot.fetch_snapshot(member.replica, request, version)
                if fetch_snapshot.is_served(piece):
                    member.election.progress.note_contact(request.replica_id, now_ms)
            case m.DescribeQuorumRequest():
                response = describe_quorum.describe_quorum(member, request, version, now_ms)
            case m.VoteRequest():
                response = voting.vote(member, request, version, now_ms)
            case m.BeginQuorumEpochRequest():
                response = voting.begin_quorum_epoch(member, request, version, now_ms)
            case m.EndQuorumEpochRequest():
                response = voting.end_quorum_epoch(member, request, version, now_ms)
            case _:
                raise AssertionError(f"no request to a voter: {request!r}")
        self._ready.append(Reply(ticket, response))
        return not isinstance(request, _ONLY_ASK)

    def wake(self, now_ms: int) -> None:
        """Wake all Fetches that wait: the leader, or what observers may read, has changed."""
        self.moved = False
        self._ready += self._fetches.wake(now_ms)

    def news(self, now_ms: int) -> None:
        """Wake those for whom there is something new, if ``moved``."""
        if self.moved:
            self.moved = False
            self._ready += self._fetches.news(now_ms)

    def tick(self, now_ms: int) -> None:
        """Answer fetches whose time is up."""
        self._ready += self._fetches.tick(now_ms)

    def _voter_fetched(self, voter_id: int, offset: int, now_ms: int) -> bool:
        moved = self._member.voter_fetched(voter_id, offset, now_ms)
        self.moved = self.moved or moved
        return moved
