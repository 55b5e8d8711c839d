"""Whether a voter still holds every record that it acknowledged: ``voter-state``. Not in Kafka.

A majority that elects is safe only if each voter in it has all that it acknowledged. An empty log
is right on a voter of a new quorum, and wrong on one whose disk was lost; the log alone cannot tell
which. So a file records it. The file is replaced, never deleted, since a deletion is not synced.

| content | written | votes for | may be candidate |
|---|---|---|---|
| ``new`` | by ``format --new-quorum``; when all that was here is truncated | as Raft | yes |
| ``whole`` | before the first record here is acknowledged | as Raft | yes |
| ``unknown`` | when a start finds an empty log without ``new`` | no voter | no |
| ``behind`` | when the first leader since the start has more | candidates that have it | no |

No file means ``whole`` if there is a log. ``behind`` holds the leader's epoch and the end offset of
what is committed: a log has that if it ends in that epoch or a later one, and not below the offset.
``unknown`` and ``behind`` end when everything is here that a leader knows to be committed.

``behind`` follows on each start with less than is committed, since an old copy of the disk looks
like one that was down for a while. For the latter it changes nothing: what is committed without it
is in the logs of a majority without it.

Why ``behind`` is enough: from the answer that names the offset on, the leader counts this voter by
what its new disk has. So whatever it had acknowledged and what is committed is below that offset.
A log that ends in the leader's epoch at or above the offset has all of that, and the leader of a
later epoch was elected by voters that have it.

Of two voters the other one has everything that is committed, so it gets the vote in any case.
"""

from __future__ import annotations

import enum
import re
from typing import Final, NamedTuple

from emulator.raft.asking import LogEnd

_TEXT: Final = re.compile(rb"0\n(?:(new|whole|unknown)|behind (\d{1,10}) (\d{1,19}))\n")


class Holding(enum.Enum):
    """How much of what a voter acknowledged it holds."""

    NEW = "new"
    """It acknowledged nothing that can be committed."""
    WHOLE = "whole"
    UNKNOWN = "unknown"
    BEHIND = "behind"
    """Not all; a leader has sent how far a log must reach to have the rest."""


_WAITING: Final = {
    Holding.UNKNOWN: (
        "not a candidate: records that this voter acknowledged may be lost. The log is empty, but "
        "was not formatted for a new quorum, or the file voter-state cannot be read. Waiting for a "
        "leader. If the quorum is new, stop this node and run kraft-bridge format --new-quorum "
        "--ignore-formatted"
    ),
    Holding.BEHIND: (
        "not a candidate: records that were committed are missing here; waiting for a leader"
    ),
}


class Held(NamedTuple):
    """The state of one voter; ``least`` is that end of a log, with BEHIND."""

    holding: Holding
    least: LogEnd = LogEnd(0, 0)

    @property
    def may_be_elected(self) -> bool:
        """Whether this voter may be elected by those whose log is not longer."""
        return self.hindrance is None

    @property
    def hindrance(self) -> str | None:
        """Why this voter may not be a candidate; None if it may."""
        return _WAITING.get(self.holding)

    def may_elect(self, end: LogEnd) -> bool:
        """Whether what may be lost here is in a log with that end."""
        match self.holding:
            case Holding.UNKNOWN:
                return False
            case Holding.BEHIND:
                return end.epoch >= self.least.epoch and end.offset >= self.least.offset
            case _:
                return True

    def followed(self, epoch: int, high_watermark: int, *, lacks: bool) -> Held:
        """A leader of this epoch sent its high watermark.

        Args:
            epoch: the leader's.
            high_watermark: everything below is committed; -1 if the leader does not know it.
            lacks: it is the first since the start, and our log does not reach it.

        >>> Held(Holding.UNKNOWN).followed(3, 10, lacks=True)
        Held(holding=<Holding.BEHIND: 'behind'>, least=LogEnd(epoch=3, offset=10))
        """
        if high_watermark <= 0 or not (lacks or self.holding is Holding.UNKNOWN):
            return self
        return Held(Holding.BEHIND, LogEnd(epoch, high_watermark))

    def settled(self, *, empty: bool, caught_up: bool) -> Held:
        """What the state is now.

        Args:
            empty: no record is durable here.
            caught_up: the durable log reaches the high watermark that a leader sent, and the
                leader's log goes on where ours ends.
        """
        if self.may_be_elected:
            return Held(Holding.NEW if empty else Holding.WHOLE)
        return Held(Holding.WHOLE) if caught_up and not empty else self

    def render(self) -> bytes:
        r"""Content of the file: a version, then the state.

        >>> Held(Holding.BEHIND, LogEnd(3, 10)).render()
        b'0\nbehind 3 10\n'
        """
        more = f" {self.least.epoch} {self.least.offset}" if self.holding is Holding.BEHIND else ""
        return f"0\n{self.holding.value}{more}\n".encode()


NEW_QUORUM: Final = Held(Holding.NEW).render()
"""What ``format --new-quorum`` writes."""


def remembered(data: bytes | None, *, empty: bool) -> Held:
    """The state at a start.

    Args:
        data: content of the file, None if there is none. Anything else in it counts as unknown.
        empty: recovery found no record.
    """
    found = None if data is None else _TEXT.fullmatch(data)
    if data is None:
        holding = Holding.WHOLE
    elif found is None:
        holding = Holding.UNKNOWN
    elif found[1] is None:
        return Held(Holding.BEHIND, LogEnd(int(found[2]), int(found[3])))
    else:
        holding = Holding(found[1].decode())
    if holding is Holding.WHOLE and empty:
        holding = Holding.UNKNOWN
    return Held(holding).settled(empty=empty, caught_up=False)
