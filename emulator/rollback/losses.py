"""What would be lost by going back: changes that ZooKeeper lacks, as findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emulator.migration.zk_tree import migration
from emulator.preflight.engine import Finding, Severity, finding
from emulator.rollback.phases import RollbackPhase
from emulator.rollback.situation import Situation

LOSSES: Final = frozenset({"R05", "R06"})
"""Codes of blockers that somebody may accept."""
NAMED_MAX: Final = 20
"""Differing znodes that are named one by one; ``zk diff`` names all."""


def losses(seen: Situation, phase: RollbackPhase) -> Iterator[Finding]:
    """R05: what the controllers say that ZooKeeper lacks; R06: how it differs from a log."""
    if phase is RollbackPhase.DUAL_WRITE:
        if seen.running:
            yield from _lag(seen)
        elif seen.differences is None:
            yield finding(
                "R06",
                migration.PATH,
                f"not compared with a log: {seen.not_compared or 'no folder was given'}",
                "changes that were acknowledged may be missing in ZooKeeper",
                "give --log-dir of each controller, on the machine where it is; if the controllers "
                "can be started, start them and stop them in order: they write what is missing",
                "KIP-866, Rollback to ZK",
                Severity.BLOCKER,
            )
    if phase is RollbackPhase.FINALISED or (phase is RollbackPhase.DUAL_WRITE and not seen.running):
        yield from _different(seen, phase)


def _lag(seen: Situation) -> Iterator[Finding]:
    leader = seen.leader
    told = {} if leader is None else leader.migration
    if not told:
        yield finding(
            "R05",
            migration.PATH,
            "no controller says that it leads",
            "what ZooKeeper lacks is known only when they have ended and their logs are read"
            if seen.checked_at_the_end
            else "it is not known what ZooKeeper lacks",
            "see kraft-bridge status of each controller, which needs kraftbridge.metrics.port; "
            "wait until one leads",
            "",
            Severity.WARNING if seen.checked_at_the_end else Severity.BLOCKER,
        )
        return
    lag = told.get("lag") or {}
    behind = lag.get("records_without_no_ops")
    if behind is None:
        phase, why = told.get("phase"), told.get("deposed_because")
        yield finding(
            "R05",
            migration.PATH,
            f"the controllers are in phase {phase}" + (f": {why}" if why else ""),
            "the stores were not compared in this term: it is not known what ZooKeeper lacks",
            "wait until they are, or do what status waits for",
            "",
            Severity.BLOCKER,
        )
    elif behind:
        yield finding(
            "R05",
            migration.PATH,
            f"{behind} changes are not in ZooKeeper yet",
            "they are written before the controllers end",
            "",
            "",
            Severity.INFO,
        )
    for one in told.get("poisoned") or ():
        yield finding(
            "R05",
            str(one.get("znode")),
            f"ZooKeeper refuses it: {one.get('cause')}",
            "brokers in ZooKeeper mode would have its old content, "
            + ("of this znode alone" if one.get("skipped") else "and of all that was to follow it"),
            str(one.get("remedy")),
            "",
            Severity.BLOCKER,
        )
    for one in told.get("left_out") or ():
        yield finding(
            "R05",
            str(one.get("znode")),
            f"no znode can have this name: {one.get('reason')}",
            "these access control entries are lost",
            "note them down, and delete them if they are not needed",
            "",
            Severity.WARNING,
        )


def _different(seen: Situation, phase: RollbackPhase) -> Iterator[Finding]:
    found = seen.differences or ()
    final = phase is RollbackPhase.FINALISED
    for one in found[:NAMED_MAX]:
        yield finding(
            "R06",
            one.path,
            f"{one.kind} in ZooKeeper",
            "would be lost: the log has it otherwise",
            ""
            if final
            else "start the controllers and stop them in order: they write what is missing; or "
            "kraft-bridge zk reconcile --log-dir, with the newest log",
            "",
            Severity.BLOCKER,
        )
    if len(found) > NAMED_MAX:
        yield finding(
            "R06",
            "/",
            f"{len(found) - NAMED_MAX} more znodes differ, {len(found)} in all",
            "",
            "kraft-bridge zk diff names each",
            "",
            Severity.BLOCKER,
        )
