"""What the write-behind can be doing, as a table from which guard and diagram are both made.

``migration/states.py`` does the same for the driver's states, which are Kafka's; these modes are
ours. Where a row lists the mode itself, the mode is entered anew: the connection is lost once more
while the chain is to be read back, or the chain has to be read back once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from types import MappingProxyType
from typing import Final


class Mode(Enum):
    """What the write-behind is doing; the values stand in ``status --json``."""

    STOPPED = "stopped"
    """Not the active controller, or no claim yet."""
    STARTING = "starting"
    """The chain's first multi, which carries no data, is on its way or has to be sent."""
    CLAIMED = "claimed"
    """The chain is ours; nothing is written before the copy is complete."""
    RECONCILING = "reconciling"
    """The whole tree is being read; the comparison with the image follows."""
    RUNNING = "running"
    """Committed changes are written."""
    DOUBT = "doubt"
    """The connection is lost: nothing is sent until the old session is fenced."""
    SETTLING = "settling"
    """Nothing of ours can be applied any more, or soon: the chain is read back."""
    POISONED = "poisoned"
    """ZooKeeper refuses a znode for good: tried again with back-off."""
    DEPOSED = "deposed"
    """The claim is no longer ours: nothing is written until the next term."""


_ANY_DOUBT: Final = frozenset({Mode.STOPPED, Mode.DOUBT, Mode.SETTLING})
"""What may follow any mode in which the claim is ours."""

NEXT: Final[Mapping[Mode, AbstractSet[Mode]]] = MappingProxyType(
    {
        Mode.STOPPED: frozenset({Mode.STOPPED, Mode.STARTING}),
        Mode.STARTING: _ANY_DOUBT | {Mode.CLAIMED},
        Mode.CLAIMED: _ANY_DOUBT | {Mode.RECONCILING},
        Mode.RECONCILING: _ANY_DOUBT | {Mode.RUNNING, Mode.POISONED},
        Mode.RUNNING: _ANY_DOUBT | {Mode.RECONCILING, Mode.POISONED},
        Mode.DOUBT: _ANY_DOUBT,
        Mode.SETTLING: _ANY_DOUBT
        | {
            Mode.STARTING,
            Mode.CLAIMED,
            Mode.RECONCILING,
            Mode.RUNNING,
            Mode.POISONED,
            Mode.DEPOSED,
        },
        Mode.POISONED: _ANY_DOUBT,
        Mode.DEPOSED: frozenset({Mode.STOPPED}),
    }
)
"""Mode -> the modes that may follow it. A change not listed here is a bug and stops the node."""

ORDERLY: Final = frozenset({Mode.STARTING, Mode.CLAIMED, Mode.RECONCILING, Mode.RUNNING})
"""Modes that a doubt interrupts and that are gone back to after it."""


def check_mode(before: Mode, after: Mode) -> None:
    """Assert that the table allows a change.

    Raises:
        AssertionError: the change is not in :data:`NEXT`.

    >>> check_mode(Mode.STARTING, Mode.CLAIMED)
    """
    assert after in NEXT[before], f"the write-behind cannot go from {before.value} to {after.value}"


def mermaid() -> str:
    """Draw :data:`NEXT` as a Mermaid state diagram, one edge per line, in the order of declaration.

    That every mode may end in STOPPED is not drawn, nor a mode that follows itself.

    >>> mermaid().splitlines()[:3]
    ['stateDiagram-v2', '    [*] --> stopped', '    stopped --> starting']
    """
    lines = ["stateDiagram-v2", f"    [*] --> {Mode.STOPPED.value}"]
    for before in Mode:
        lines += [
            f"    {before.value} --> {after.value}"
            for after in Mode
            if after in NEXT[before] and after not in (Mode.STOPPED, before)
        ]
    return "\n".join(lines) + "\n"
