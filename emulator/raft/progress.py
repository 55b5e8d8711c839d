"""What a leader knows of the other voters: how far their logs are, and when they fetched.

Source: LeaderState, Kafka 3.9; KIP-595, check quorum of 3.7 (KAFKA-15489).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
        self._since_ms = now_ms
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

        >>> Progress([2, 3], 0).majority_end(7)
        -1
        """
        ends = sorted([own_end, *(each.end_offset for each in self.voters.values())], reverse=True)
        return ends[len(ends) // 2]

    def majority_contact_ms(self) -> int | None:
        """The last contact with a majority, leader included; None in a quorum of one."""
        needed = (len(self.voters) + 1) // 2
        if needed == 0:
            return None
        return sorted(self._contact_ms.values(), reverse=True)[needed - 1]

    def successors(self) -> list[int]:
        """The other voters, the one with the longest log first."""
        return sorted(self.voters, key=lambda each: (-self.voters[each].end_offset, each))
