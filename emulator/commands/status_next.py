"""What ``status --wait`` takes, and in which order the phases come."""

from __future__ import annotations

from typing import Any, Final

from emulator.migration.phases import OLDER_NAMES, WAIT_FOR

ORDER: Final = (
    "not migrating",
    "pre-migration",
    "copying",
    "hybrid",
    "dual write",
    "finalising",
    "finalised",
)
"""The words of ``migration.phase`` that a migration goes through, in that order."""
BEFORE: Final = ("not migrating", "pre-migration", "claiming")
"""Phases in which a reason that is fatal keeps the migration from going on."""
STUCK: Final = ("refused", "deposed")
"""Phases that waiting alone does not end."""


def phase_of(found: dict[str, Any]) -> str:
    """The phase in a ``/status`` of a controller; ``not migrating`` without a migration."""
    migration, finalisation = found.get("migration"), found.get("finalisation")
    if migration is not None:
        return str(migration["phase"])
    if finalisation is None:
        return "not migrating"
    return "finalised" if finalisation["state"] == "finalised" else "finalising"


def reached(phase: str, wanted: str) -> bool:
    """Whether a phase is the wanted one, or a later one.

    >>> reached("dual write", "hybrid"), reached("claiming", "pre-migration")
    (True, False)
    """
    return phase in ORDER and ORDER.index(phase) >= ORDER.index(wanted)


def waited_for(name: str) -> tuple[str, str]:
    """What a value of ``--wait`` stands for in :data:`ORDER`, and a hint if it has another name.

    Raises:
        ValueError: it has no such value.

    >>> waited_for("all-brokers-in-kraft"), waited_for("HYBRID")
    (('dual write', ''), ('hybrid', 'hybrid is called dual-write-begun now'))
    """
    name = name.lower()
    if name in WAIT_FOR:
        return WAIT_FOR[name], ""
    if name not in OLDER_NAMES:
        raise ValueError(f"one of {', '.join(WAIT_FOR)}")
    now = OLDER_NAMES[name]
    hint = (
        f"{name} is called {now} now"
        if now
        else f"{name} is an older name; now: {', '.join(WAIT_FOR)}"
    )
    return name if name == "pre-migration" else name.replace("-", " "), hint


def brokers_first(finalisation: dict[str, Any]) -> bool:
    """Whether the end is far: the leader has the flag, and brokers are in ZooKeeper mode."""
    whys = {one["why"] for one in finalisation["missing"]}
    return finalisation["state"] == "migrating" and "zookeeper_broker" in whys
