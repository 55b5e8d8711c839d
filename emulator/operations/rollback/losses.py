"""What would be lost by going back: changes that ZooKeeper lacks, as findings."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import Final

from emulator.migration.tree_diff import Difference
from emulator.operations.preflight.engine import Finding, Severity, finding, named
from emulator.operations.rollback import missing
from emulator.operations.rollback.phases import RollbackPhase
from emulator.operations.rollback.situation import ControllerSeen, Situation
from emulator.znodes import cluster, controller, migration, own

LOSSES: Final = frozenset({"R05", "R06"})
"""Codes of blockers that somebody may accept."""
NAMED_MAX: Final = 20
"""Differing znodes that are named one by one; ``zk diff`` names all."""

_LOST: Final = {
    "missing": "only the log has this: going back would lose it",
    "extra": "the log does not have this any more: going back would bring it back",
}
_OTHER: Final = "the log has another content: going back would lose that"
_AHEAD: Final = "ahead"
"""The kind of a difference that loses nothing: ``tree_diff.ahead``."""
ALL_AT_ONCE: Final = "stop all brokers, then start all: a broker that starts knows no epochs"


def losses(seen: Situation, phase: RollbackPhase) -> Iterator[Finding]:
    """R05: what ZooKeeper lacks by the controllers' status; R06: how it differs from a log."""
    if phase is RollbackPhase.DUAL_WRITE:
        if seen.without_flag is not None:
            yield _without_flag(seen.without_flag)
        elif seen.running:
            yield from _lag(seen)
        yield from _late(seen)
        if seen.logs_here < seen.logs_needed and (seen.running or seen.differences is not None):
            yield finding(
                "R06",
                migration.PATH,
                f"the logs of {seen.logs_here} of {seen.quorum} controllers can be read here, "
                f"{seen.logs_needed} are needed; {not_here(seen)}",
                "a change that was acknowledged may be in none of the logs that are read, and "
                "missing in ZooKeeper",
                f"run this where the folders are; or {copying(seen)}; or give up what may be "
                "missing: --accept-loss",
                "KIP-866, Rollback to ZK",
                Severity.BLOCKER,
            )
        if seen.running:
            return
        if seen.differences is None:
            yield finding(
                "R06",
                migration.PATH,
                f"not compared with a log: {seen.not_compared or 'no folder was given'}",
                "changes that were acknowledged may be missing in ZooKeeper",
                f"{copying(seen)}; if the controllers can be started, start them and run "
                "this command again: it waits until they have written what is missing",
                "KIP-866, Rollback to ZK",
                Severity.BLOCKER,
            )
    if phase is RollbackPhase.ROLLED_BACK and seen.freed_by_others:
        yield from _freed(seen)
    back = phase in {RollbackPhase.RELEASED, RollbackPhase.ROLLED_BACK}
    if back:
        yield from _too_low(seen)
    if back or (phase is RollbackPhase.DUAL_WRITE and not seen.running):
        yield from _too_high(seen)
    if phase is RollbackPhase.FINALISED or (phase is RollbackPhase.DUAL_WRITE and not seen.running):
        yield from _different(seen, phase)


def _late(seen: Situation) -> Iterator[Finding]:
    """Deletions that a broker wrote behind the copy: ``release.without_deletions``."""
    epoch = own.claimed_in(seen.mine)
    freed = not seen.held and seen.survey.data(controller.EPOCH_PATH) == str(epoch).encode()
    if not (seen.stage.complete and (seen.stage.in_kraft or freed) and seen.survey.pending):
        return
    names = sorted(seen.survey.pending)
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    yield finding(
        "R06",
        cluster.DELETE_TOPICS,
        f"a broker that did not know the KRaft controller yet wrote deletions of the topics "
        f"{', '.join(names[:NAMED_MAX])}{more}",
        "the broker that is elected would delete them, also what was created again under such a "
        "name; so they are dropped before",
        "who wants a topic deleted asks again",
        "",
        Severity.INFO,
    )


def _freed(seen: Situation) -> Iterator[Finding]:
    """What was lost when somebody deleted ``/controller`` by hand; the logs alone still show it."""
    usable = sum(not one.problem for one in seen.ends)
    if seen.running:
        names = ", ".join(one.text for one in seen.running)
        yield finding(
            "R06",
            migration.PATH,
            f"/controller was freed by somebody else, and {names} still runs",
            "what its log holds and ZooKeeper lacks is known only when it has ended",
            "stop it, and run this command again; or give up what may be missing: --accept-loss",
            "",
            Severity.BLOCKER,
        )
    elif seen.lost:
        yield finding(
            "R06",
            migration.PATH,
            f"/controller was freed by somebody else when ZooKeeper lacked "
            f"{missing.counted(seen.lost)} of the log",
            "they may have been acknowledged, and the brokers do not know them",
            "kraft-bridge zk diff --log-dir, with the newest of the folders, names the znodes, and "
            "those that a broker has written since; make again what is needed with Kafka's tools, "
            "then give up the rest: --accept-loss",
            "",
            Severity.BLOCKER,
        )
    elif usable < seen.logs_needed:
        problems = [*(one.problem for one in seen.ends if one.problem), not_here(seen)]
        yield finding(
            "R06",
            migration.PATH,
            f"/controller was freed by somebody else, and {usable} of {seen.quorum} logs can be "
            f"read here, {seen.logs_needed} are needed: {'; '.join(filter(None, problems))}",
            "it is not known whether ZooKeeper had every change then",
            "give -c of each controller, and --log-dir of copies of the folders elsewhere",
            "",
            Severity.WARNING,
        )


def _fact_and_consequence(one: Difference) -> tuple[str, str]:
    if one.kind == "version":
        return (
            f"its version, {one.version}, is below the partition epoch of the log, {one.epoch}",
            "until all were stopped at once, brokers refuse what they are told of this partition",
        )
    if one.kind == "unjudged":
        return (
            "holds passwords alone, which are not compared without password.encoder.secret",
            "whether ZooKeeper has the passwords of the log is not known",
        )
    return f"{one.kind} in ZooKeeper", _LOST.get(one.kind, _OTHER)


def _too_low(seen: Situation) -> Iterator[Finding]:
    """Versions that can be compared only now: while the cluster ran, the trees were not."""
    found = [one for one in seen.differences or () if one.kind == "version"]
    for one in found[:NAMED_MAX]:
        yield finding(
            "R06", one.path, *_fact_and_consequence(one), ALL_AT_ONCE, "", Severity.WARNING
        )
    if len(found) > NAMED_MAX:
        more = f"{len(found) - NAMED_MAX} more versions are too low, {len(found)} in all"
        yield finding("R06", "/", more, "", ALL_AT_ONCE, "", Severity.WARNING)


def _too_high(seen: Situation) -> Iterator[Finding]:
    """Versions above the partition epoch; the state itself is as the log has it."""
    ahead = [one for one in seen.differences or () if one.kind == _AHEAD]
    found = [one for one in ahead if not _written_since(seen, one.path)]
    for one in found[:NAMED_MAX]:
        leader = seen.survey.json(one.path).get("leader")
        yield finding(
            "R06",
            one.path,
            f"its version, {one.version}, is above the partition epoch of the log, {one.epoch}",
            "in ZooKeeper mode the leader of this partition gets INVALID_UPDATE_VERSION for each "
            "change of its ISR, until another leader epoch begins",
            f"once a broker is the controller, restart broker {leader}, which leads it",
            "",
            Severity.WARNING,
        )
    if len(found) > NAMED_MAX:
        more = f"{len(found) - NAMED_MAX} more versions are too high, {len(found)} in all"
        each = "restart the brokers that lead them, one by one"
        yield finding("R06", "/", more, "", each, "", Severity.WARNING)


def _written_since(seen: Situation, path: str) -> bool:
    """Whether a broker that is the controller wrote a state: its leader knows the version then.

    An ISR that shrinks and grows again is as the log has it, two versions later.
    """
    epoch, last = seen.survey.json(path).get("controller_epoch"), seen.stage.mark
    return isinstance(epoch, int) and epoch > last.kraft_controller_epoch >= 0


def not_here(seen: Situation) -> str:
    """Which logs cannot be read here, and why."""
    reasons = []
    for one in seen.controllers:
        if one.copied:
            reasons.append(f"{one.copied} is a copy made while {one.text} ran")
        elif not one.folder:
            reasons.append(f"that of {one.text} is not here")
    if seen.quorum > len(seen.controllers):
        reasons.append(f"{seen.quorum - len(seen.controllers)} more are voters, and not given")
    return ", ".join(reasons)


def copying(seen: Situation) -> str:
    """How the logs of controllers elsewhere are brought here."""
    lacking = [one for one in seen.controllers if not one.folder]
    commands = "; ".join(
        f"scp -rp {quote(f'{host}:{one.log_dir}' if one.log_dir else f'{host}:FOLDER')} "
        f"controller-{one.node_id}"
        for one in lacking
        for host in [one.address.host if one.address is not None else "HOST"]
    )
    unnamed = [one.node_id for one in lacking if not one.file]
    absent = [named("controller", unnamed)] if unnamed else []
    if seen.quorum > len(seen.controllers):
        absent.append(f"{seen.quorum - len(seen.controllers)} more")
    none = (
        f"give -c of each controller (of {' and '.join(absent)} none is given), whose file names "
    )
    return (
        (f"{none}its folder; for folders on other machines " if absent else "")
        + "wait for lag 0 (kraft-bridge status), stop every controller, copy the folders of those "
        "elsewhere to this machine once they have ended, and give --log-dir of each"
        + (f" ({commands})" if commands else "")
    )


def _without_flag(leader: ControllerSeen) -> Finding:
    return finding(
        "R05",
        migration.PATH,
        f"{leader.text} leads without zookeeper.metadata.migration.enable",
        "what was changed since it leads is in its log alone, and it refuses brokers in ZooKeeper "
        "mode",
        "before any broker is restarted: start the controllers with the flag and zookeeper.connect "
        "again, one after the other; wait for phase dual write (kraft-bridge status)",
        "KIP-866, Rollback to ZK",
        Severity.BLOCKER,
    )


def _lag(seen: Situation) -> Iterator[Finding]:
    leader = seen.leader
    migration_status = {} if leader is None else leader.migration
    if not migration_status:
        yield finding(
            "R05",
            migration.PATH,
            "; ".join(
                ["no controller shows that it leads"]
                + [one.unread for one in seen.controllers if one.unread]
            ),
            "what ZooKeeper lacks is known only when they have ended and their logs are read"
            if seen.checked_at_the_end
            else "it is not known what ZooKeeper lacks",
            "see kraft-bridge status -c FILE, with that of a controller; wait until one leads",
            "",
            Severity.WARNING if seen.checked_at_the_end else Severity.BLOCKER,
        )
        return
    lag = migration_status.get("lag") or {}
    behind = lag.get("records_without_no_ops")
    if behind is None:
        phase = "unknown" if leader is None else leader.phase
        why = migration_status.get("deposed_because")
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
    for one in migration_status.get("poisoned") or ():
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
    for one in migration_status.get("left_out") or ():
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
    found = [one for one in seen.differences or () if one.kind != _AHEAD]
    final = phase is RollbackPhase.FINALISED
    if any(_late(seen)) and not final:
        found = [one for one in found if not one.path.startswith(f"{cluster.DELETE_TOPICS}/")]
    for one in found[:NAMED_MAX]:
        unjudged = one.kind == "unjudged"
        yield finding(
            "R06",
            one.path,
            *_fact_and_consequence(one),
            "see that lag 0 was reached, or write them again once a broker is the controller"
            if unjudged
            else ""
            if final
            else "start the controllers and run this command again: it waits until they have "
            "written what is missing; or "
            "kraft-bridge zk reconcile --log-dir, with the newest log",
            "",
            Severity.WARNING if unjudged else Severity.BLOCKER,
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
