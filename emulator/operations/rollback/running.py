"""Whether a controller runs, by the lock of its folder and by its address.

Neither is enough. A lock is not seen on a network file system, and the folder given may be a copy,
also one at the path that the controller's own file names; an address may be one that this machine
does not reach.
"""

from __future__ import annotations

from enum import Enum


class Reached(Enum):
    """What came of connecting to a controller's address."""

    YES = "accepts connections"
    REFUSED = "refuses connections"
    NONE = "nothing is known"
    NO_ADDRESS = "no file names an address"


def runs(held: bool | None, answer: Reached, *, own: bool) -> bool | None:
    """Whether a controller runs; None: not known.

    What is not known decides nothing, so only a controller that is seen to be gone counts as ended.

    Args:
        held: whether somebody holds the lock of its folder; None: not known, or no folder.
        answer: of its address.
        own: whether the folder is known to be the controller's own, and no copy.
    """
    if held or answer is Reached.YES:
        return True
    if answer is Reached.REFUSED:
        return False
    return False if held is False and own else None
