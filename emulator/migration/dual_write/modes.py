"""The modes of the write-behind as a table, used by the guard and for the diagram.

``migration/states.py`` does the same for the driver's states, which are Kafka's; these modes are
not in Kafka. A row that lists its own mode means that the mode is entered again: the connection is
lost again before the chain is read back, or the chain must be read back again.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from types import MappingProxyType
from typing import Final


class Mode(Enum):
    """A mode of the write-behind; ``status --json`` shows the values."""

    STOPPED = "stopped"
    """Not the active controller, or no claim yet."""
    STARTING = "starting"
    """The chain's first multi, which carries no data, is in flight or must be sent."""
    CLAIMED = "claimed"
    """The chain is ours; nothing is written before the copy is complete."""
    RECONCILING = "reconciling"
    """The whole tree is being read; the comparison with the image follows."""
    RUNNING = "running"
    """Committed changes are written."""
    DOUBT = "doubt"
    """The connection is lost: nothing is sent until the old session is fenced."""
    SETTLING = "settling"
    """No multi of ours is in flight any more, or soon: the chain is read back."""
    POISONED = "poisoned"
    """ZooKeeper refuses a znode permanently: it is retried with back-off."""
    DEPOSED = "deposed"
    """The claim is lost: nothing is written until the next term."""


_ANY_DOUBT: Final = frozenset({Mode.STOPPED, Mode.DOUBT, Mode.SETTLING})
"""Modes that may follow any mode in which we hold the claim."""

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
"""Modes that a doubt interrupts and that continue after it."""


def check_mode(before: Mode, after: Mode) -> None:
    """Assert that the table allows a change.

    Raises:
        AssertionError: the change is not in :data:`NEXT`.

    >>> check_mode(Mode.STARTING, Mode.CLAIMED)
    """
    assert after in NEXT[before], f"the write-behind cannot go from {before.value} to {after.value}"


def mermaid() -> str:
    """Draw :data:`NEXT` as a Mermaid state diagram, one edge per line, in the order of declaration.

    Changes to STOPPED, which every mode allows, and from a mode to itself are not drawn.

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
