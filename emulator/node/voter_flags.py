"""Whether the other voters run with the migration flag, as they say themselves in this term.

ApiVersions says it of the process that runs now (``inquiry``), while a registration in the log may
be of the one before. Source: KIP-866 "Controller Migration".
"""

from __future__ import annotations

from emulator.controller.supported import tells_readiness
from emulator.node.inquiry import VoterInquiry, release_of
from emulator.raft.machine import Raft


class VoterFlags:
    """What a leader knows of the others.

    Args:
        raft: says in which epoch it leads.
        inquiry: asks them; None in a quorum of one.
    """

    def __init__(self, raft: Raft, inquiry: VoterInquiry | None) -> None:
        self._raft = raft
        self._inquiry = inquiry

    @property
    def heard(self) -> dict[int, bool | None]:
        """Voter -> whether it has the flag, by its newest answer in this epoch.

        None: it gave no answer, or its release does not say it. A voter that is missing was not
        asked yet.
        """
        if self._inquiry is None:
            return {}
        found: dict[int, bool | None] = {}
        for voter, answer in self._inquiry.voters.items():
            if answer.epoch != self._raft.leader_epoch:
                continue
            own = release_of(answer.levels)
            silent = answer.failure or (own is not None and not tells_readiness(own))
            found[voter] = None if silent else answer.migrating
        return found

    @property
    def complete(self) -> bool:
        """Whether each other voter was asked in this epoch, and answered or gave no answer."""
        return len(self.heard) == len(self._raft.config.voters) - 1

    @property
    def with_flag(self) -> list[int]:
        """The voters that run with the flag."""
        return [voter for voter, flag in self.heard.items() if flag]

    def caught_up(self, voter: int, since_ms: int) -> bool:
        """Whether a voter has had the whole log of this leader at that time, or later."""
        known = self._raft.progress.get(voter)
        return known is not None and known.last_caught_up_ms >= since_ms

    def ask_all(self) -> None:
        """Ask each other voter once more, at once."""
        if self._inquiry is not None:
            for voter in self._inquiry.voters:
                self._inquiry.ask_again(voter)

    def asked_since(self, since_ms: int) -> bool:
        """Whether each was asked then or later in this epoch; no answer is one too."""
        if self._inquiry is None:
            return True
        epoch = self._raft.leader_epoch
        return all(
            answer.epoch == epoch and answer.asked_ms >= since_ms
            for answer in self._inquiry.voters.values()
        )
