"""What to do about a damaged folder of one of several voters, which has acknowledged what it held.

The only voter may start without records, or without the file that names its vote: no other voter
has them. One of several voters that did so could vote twice in one epoch, or elect a leader without
what is committed. The others have everything, so it gets the log from them, and votes for no voter
before (``voter_state.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from emulator.raft import layout
from emulator.raft.errors import RecoveryError

OF_SEVERAL: Final = (
    "nothing was changed. While the other voters have a leader, move the folder "
    f"{layout.FOLDER} of this one away and start it: it loads the log of the leader, and votes for "
    "nobody before. Do so with one voter at a time"
)


@contextmanager
def remedies(voters: int) -> Iterator[None]:
    """Name the remedy that fits the number of voters.

    Raises:
        RecoveryError: as raised within; of several voters with that remedy.
    """
    try:
        yield
    except RecoveryError as error:
        if voters == 1 or not error.remedy:
            raise
        raise RecoveryError(error.path, error.position, error.found, OF_SEVERAL) from error
