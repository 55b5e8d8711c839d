"""What a voter may have lost: a small file that outlives restarts. Not in Kafka.

A voter with an empty log may be new, or its disk was lost with records that it had acknowledged.
While it is ``joining`` it does not help to elect a leader that may lack those records. It ends when
everything is here that a leader knows to be committed, or when it is clear that the log began with
an election in which this voter took part.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_TEXT: Final = re.compile(
    rb"joining=(true|false)\nrecords=(true|false)\nvoted=((?:\d{1,10}:\d{1,10} ?)*)\n"
)
VOTES_KEPT: Final = 16


class Lack(NamedTuple):
    """What is remembered.

    ``joining``: records may have been lost here. ``records``: another voter is known to have had
    some. ``voted``: the epochs in which this voter, without any record, gave its vote to a
    candidate without any, and the candidates.
    """

    joining: bool
    records: bool
    voted: tuple[tuple[int, int], ...] = ()

    def with_vote(self, epoch: int, candidate_id: int) -> Lack:
        """The same with one more vote; of very many the oldest is forgotten."""
        return self._replace(voted=(*self.voted, (epoch, candidate_id))[-VOTES_KEPT:])


def remembered(data: bytes | None, *, empty: bool) -> Lack:
    """What a file says, or None if there is no file; ``empty``: the log has no record.

    An unreadable file counts as one that says the worst.

    >>> remembered(None, empty=True)
    Lack(joining=True, records=False, voted=())
    """
    if data is None:
        return Lack(joining=empty, records=not empty)
    found = _TEXT.fullmatch(data)
    if found is None:
        return Lack(joining=True, records=True)
    pairs = (each.split(b":") for each in found[3].split())
    voted = tuple((int(epoch), int(candidate_id)) for epoch, candidate_id in pairs)
    return Lack(found[1] == b"true", not empty or found[2] == b"true", voted)


def text(lack: Lack, *, empty: bool) -> bytes | None:
    r"""Content of the file; None: there is to be none, as nothing is lacking.

    >>> text(Lack(joining=True, records=False), empty=True)
    b'joining=true\nrecords=false\nvoted=\n'
    """
    if not lack.joining and not empty:
        return None
    joining, records = str(lack.joining).lower(), str(lack.records).lower()
    voted = " ".join(f"{epoch}:{candidate_id}" for epoch, candidate_id in lack.voted)
    return f"joining={joining}\nrecords={records}\nvoted={voted}\n".encode()
