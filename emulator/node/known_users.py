"""Whether a voter knows which users of SCRAM and which delegation tokens there are.

After a start it knows those of its newest snapshot, and what its log says may not be committed: a
user that was deleted since then would get in. So nobody logs in by either until the log has reached
what a leader said to be committed, and is replayed that far; nor from the moment on when the leader
no longer has the records that follow ours, until its snapshot is loaded and those behind it.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.controller.credentials import ImageCredentials
from emulator.metadata.history import History
from emulator.metadata.image import Image
from emulator.raft.machine import Raft


class KnownUsers:
    """See the module's docstring."""

    def __init__(self, raft: Raft, history: History) -> None:
        self.known = False
        self._raft = raft
        self._history = history

    def store(self, image: Callable[[], Image], token_secret: str | None) -> ImageCredentials:
        """Users and tokens of an image, for logins; see there."""
        return ImageCredentials(image, token_secret, lambda: self.known)

    def look(self) -> None:
        """Look at the log: after each event, and before the next login."""
        raft = self._raft
        if raft.outrun:
            self.known = False
        elif not self.known and raft.caught_up:
            # A new epoch, or a moment behind its leader, changes nothing.
            self.known = self._history.committed.offset + 1 >= raft.high_watermark
