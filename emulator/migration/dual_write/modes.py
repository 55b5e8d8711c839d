"""The modes of the write-behind as a table, used by the guard and for the diagram.

``migration/states.py`` does the same for the driver's states, which are Kafka's; these modes are
not in Kafka. A row that ends in its own mode means that the mode is entered again: the connection
is lost again before the chain is read back, or the chain must be read back again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from emulator.migration.states import drawn
from emulator.seam import state_after


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


class ModeEvent(Enum):
    """Why the mode changes."""

    CLAIM_MADE = "claim made"
    LEADERSHIP_LOST = "leadership lost"
    """Also before the next claim: what was known of the chain is dropped."""
    FIRST_MULTI_APPLIED = "first multi applied"
    """The multi without data was acknowledged, or is found in the chain."""
    COPY_COMPLETE = "copy complete"
    """The log has what was in ZooKeeper: from now on ZooKeeper follows the log."""
    COMPARISON_DUE = "comparison due"
    """Somebody asked for a comparison, or znodes that are left out are tried again."""
    TREE_READ = "tree read"
    DISCONNECTED = "disconnected"
    """There is no session, whatever else has happened."""
    SESSION_OPENED = "session opened"
    """The old session is fenced."""
    MULTI_REFUSED = "multi refused"
    MULTI_UNANSWERED = "multi unanswered"
    READ_UNANSWERED = "read unanswered"
    """A request that reads the tree, or the chain, was lost."""
    CHECK_ASKED = "check asked"
    """Somebody asked whether the claim is still ours."""
    RETRY_DUE = "retry due"
    ZNODE_REFUSED = "znode refused"
    """ZooKeeper refuses an operation on a znode permanently."""
    ZNODE_SKIPPED = "znode skipped"
    """So it does, and the operation is left out, or its znode is to be compared again."""
    UNREADABLE = "unreadable"
    """ZooKeeper refuses to read a znode."""
    CLAIM_LOST = "claim lost"
    CHAIN_READ_BACK = "chain read back"
    """The claim is ours, and nobody else has written our znodes."""
    FOREIGN_WRITE = "foreign write"
    """The claim is ours, but another client has written one of our znodes."""


_M, _E = Mode, ModeEvent
NEXT: Final[Mapping[tuple[Mode, ModeEvent], Mode]] = MappingProxyType(
    {
        **{(mode, _E.LEADERSHIP_LOST): _M.STOPPED for mode in Mode},
        (_M.STOPPED, _E.CLAIM_MADE): _M.STARTING,
        (_M.STARTING, _E.FIRST_MULTI_APPLIED): _M.CLAIMED,
        (_M.STARTING, _E.MULTI_REFUSED): _M.SETTLING,
        (_M.STARTING, _E.MULTI_UNANSWERED): _M.SETTLING,
        (_M.STARTING, _E.DISCONNECTED): _M.DOUBT,
        (_M.CLAIMED, _E.COPY_COMPLETE): _M.RECONCILING,
        (_M.CLAIMED, _E.CHECK_ASKED): _M.SETTLING,
        (_M.CLAIMED, _E.DISCONNECTED): _M.DOUBT,
        (_M.RECONCILING, _E.TREE_READ): _M.RUNNING,
        (_M.RECONCILING, _E.UNREADABLE): _M.POISONED,
        (_M.RECONCILING, _E.READ_UNANSWERED): _M.SETTLING,
        (_M.RECONCILING, _E.DISCONNECTED): _M.DOUBT,
        (_M.RUNNING, _E.COMPARISON_DUE): _M.RECONCILING,
        (_M.RUNNING, _E.ZNODE_SKIPPED): _M.RECONCILING,
        (_M.RUNNING, _E.ZNODE_REFUSED): _M.POISONED,
        (_M.RUNNING, _E.MULTI_REFUSED): _M.SETTLING,
        (_M.RUNNING, _E.MULTI_UNANSWERED): _M.SETTLING,
        (_M.RUNNING, _E.CHECK_ASKED): _M.SETTLING,
        (_M.RUNNING, _E.DISCONNECTED): _M.DOUBT,
        (_M.DOUBT, _E.SESSION_OPENED): _M.SETTLING,
        (_M.DOUBT, _E.DISCONNECTED): _M.DOUBT,
        (_M.SETTLING, _E.MULTI_REFUSED): _M.SETTLING,
        (_M.SETTLING, _E.MULTI_UNANSWERED): _M.SETTLING,
        (_M.SETTLING, _E.READ_UNANSWERED): _M.SETTLING,
        (_M.SETTLING, _E.DISCONNECTED): _M.DOUBT,
        (_M.SETTLING, _E.ZNODE_REFUSED): _M.POISONED,
        (_M.SETTLING, _E.ZNODE_SKIPPED): _M.RECONCILING,
        (_M.SETTLING, _E.UNREADABLE): _M.POISONED,
        (_M.SETTLING, _E.CLAIM_LOST): _M.DEPOSED,
        (_M.POISONED, _E.RETRY_DUE): _M.SETTLING,
        (_M.POISONED, _E.DISCONNECTED): _M.DOUBT,
    }
)
"""Mode and event -> the mode after it. An event in any other mode is a bug and stops the node."""

RESUMED: Final[Mapping[tuple[Mode, ModeEvent], Mode]] = MappingProxyType(
    {
        (_M.STARTING, _E.CHAIN_READ_BACK): _M.STARTING,
        (_M.STARTING, _E.FIRST_MULTI_APPLIED): _M.CLAIMED,
        (_M.STARTING, _E.FOREIGN_WRITE): _M.STARTING,
        (_M.CLAIMED, _E.CHAIN_READ_BACK): _M.CLAIMED,
        (_M.CLAIMED, _E.FOREIGN_WRITE): _M.STARTING,
        (_M.RECONCILING, _E.CHAIN_READ_BACK): _M.RECONCILING,
        (_M.RECONCILING, _E.FOREIGN_WRITE): _M.RECONCILING,
        (_M.RUNNING, _E.CHAIN_READ_BACK): _M.RUNNING,
        (_M.RUNNING, _E.FOREIGN_WRITE): _M.RECONCILING,
    }
)
"""The mode that was interrupted, and what reading the chain back found -> the mode after SETTLING.

Those that are interrupted are the keys; a second interruption does not change which it was.
"""

ORDERLY: Final = frozenset(mode for mode, _ in RESUMED)
"""Modes that a doubt interrupts and that continue after it."""


def after(mode: Mode, event: ModeEvent, interrupted: Mode) -> Mode:
    """The mode after an event.

    Args:
        mode: before it.
        event: what has happened.
        interrupted: one of :data:`ORDERLY`, the last that was; used in SETTLING.

    Raises:
        AssertionError: neither :data:`RESUMED` nor :data:`NEXT` has such a row.

    >>> after(Mode.SETTLING, ModeEvent.FOREIGN_WRITE, Mode.RUNNING)
    <Mode.RECONCILING: 'reconciling'>
    """
    found = RESUMED.get((interrupted, event)) if mode is Mode.SETTLING else None
    return state_after(NEXT, mode, event) if found is None else found


def interruption(mode: Mode, event: ModeEvent, earlier: Mode) -> Mode:
    """The mode that goes on after an interruption: the last of :data:`ORDERLY`.

    Units that a refused znode has stopped are not made again: the whole tree is compared instead.

    Args:
        mode: before the event.
        event: what has happened.
        earlier: the same before it.

    >>> interruption(Mode.SETTLING, ModeEvent.ZNODE_REFUSED, Mode.RUNNING)
    <Mode.RECONCILING: 'reconciling'>
    """
    found = mode if mode in ORDERLY else earlier
    refused = event is ModeEvent.ZNODE_REFUSED and found is Mode.RUNNING
    return Mode.RECONCILING if refused else found


def mermaid() -> str:
    """Draw both tables as a Mermaid state diagram.

    Rows to STOPPED, which every mode has, and from a mode to itself are not drawn.

    >>> mermaid().splitlines()[:3]
    ['stateDiagram-v2', '    [*] --> stopped', '    stopped --> starting: claim made']
    """
    rows = [(mode, then, event.value) for (mode, event), then in NEXT.items()]
    rows += [
        (Mode.SETTLING, then, f"{event.value} (was {interrupted.value})")
        for (interrupted, event), then in RESUMED.items()
    ]
    return drawn(
        Mode.STOPPED.value,
        (
            (before.value, then.value, event)
            for before, then, event in rows
            if then not in {Mode.STOPPED, before}
        ),
    )
