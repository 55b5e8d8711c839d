"""The effects of ``kraft-bridge rollback --yes``, in their order.

Nothing is remembered between runs: each begins with a look, and what it finds done is not done
again. So a run that was cut off after any effect is repeated as a whole.

Between the end of the last controller and the release only five znodes are read, and the ends of
the logs: the cluster has no controller meanwhile. A copy may have ended since the look: if a log
shows that, everything is looked at again. What is not as it was judged then is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from shlex import quote
from typing import Final, Protocol

from emulator.migration.phases import OperatorPhase
from emulator.migration.taking_over.claim import Found
from emulator.migration.taking_over.preconditions import Reason
from emulator.operations.preflight.engine import Finding
from emulator.operations.rollback import missing, release
from emulator.operations.rollback.checks import blocking, checks, epoch_min
from emulator.operations.rollback.losses import NAMED_MAX, losses, not_here
from emulator.operations.rollback.missing import FolderEnd
from emulator.operations.rollback.phases import RollbackPhase, phase_of
from emulator.operations.rollback.situation import ControllerSeen, Situation
from emulator.znodes import cluster, controller, migration, own
from emulator.zookeeper.ops import Delete, Multi, ReadValue

# The steps back to ZooKeeper mode, in order: the actor of each, the action, and what it costs.


class Actor(Enum):
    """The actor of a step."""

    OPERATOR = "operator"
    COMMAND = "kraft-bridge"
    BROKERS = "brokers"


@dataclass(frozen=True, slots=True)
class RollbackStep:
    """One step. ``command``: what to type, if there is one. ``done``: it was found done."""

    actor: Actor
    what: str
    cost: str
    command: str = ""
    done: bool = False


def steps(seen: Situation, phase: RollbackPhase) -> list[RollbackStep]:
    """All steps from a phase on, in order; none where there is no way, or nothing to do."""
    if phase in {RollbackPhase.FINALISED, RollbackPhase.UNKNOWN, RollbackPhase.NOT_BEGUN}:
        return []
    return [*_before(seen, phase), *_release_steps(seen, phase), *_afterwards(seen, phase)]


def _before(seen: Situation, phase: RollbackPhase) -> Iterator[RollbackStep]:
    kraft = ", ".join(map(str, seen.in_kraft_mode))
    if phase is RollbackPhase.DUAL_WRITE and seen.without_flag is not None:
        yield RollbackStep(
            Actor.OPERATOR,
            "restart the controllers with zookeeper.metadata.migration.enable=true and "
            "zookeeper.connect, one after the other; wait for phase dual write",
            "none: another controller leads meanwhile; of one alone no change is answered until it "
            "is back",
        )
    if phase is RollbackPhase.DUAL_WRITE and kraft:
        yield RollbackStep(
            Actor.OPERATOR,
            f"restart each broker that is in KRaft mode ({kraft}) in ZooKeeper mode, with "
            "zookeeper.metadata.migration.enable=true, one after the other; wait until its "
            "replicas are in sync before the next",
            "one restart of each; its partitions move to other leaders meanwhile",
        )


def _release_steps(seen: Situation, phase: RollbackPhase) -> Iterator[RollbackStep]:
    over = phase in {RollbackPhase.RELEASED, RollbackPhase.ROLLED_BACK}
    local = [one for one in seen.running if one.pid is not None and not over]
    remote = [one for one in seen.running if one.pid is None and not over]
    if over and seen.running:
        there = ", ".join(one.text for one in seen.running)
        cost = "none: no controller claims while /kraft_bridge is marked"
        yield RollbackStep(Actor.OPERATOR, f"stop {there} by SIGTERM", cost)
    if phase is RollbackPhase.DUAL_WRITE and seen.running:
        yield RollbackStep(
            Actor.COMMAND,
            "wait until nothing is missing in ZooKeeper",
            "none; changes go on",
        )
    names = ", ".join(one.text for one in seen.controllers) or "every controller"
    if remote:
        there = ", ".join(one.text for one in remote)
        yield RollbackStep(
            Actor.OPERATOR,
            f"stop {there} by SIGTERM when the command says so: it is not on this machine, or not "
            "this user's process",
            "from the end of the last controller on, no change of metadata is answered, and no "
            "leader is elected",
        )
    if local or (not remote and not (over and seen.running)):
        mine = ", ".join(one.text for one in local) or names
        cost = "no change of metadata is answered, and no leader is elected, until a broker is "
        cost += "elected; clients go on to produce and consume"
        yield RollbackStep(
            Actor.COMMAND,
            f"stop {mine} by SIGTERM, and check that nothing is missing in ZooKeeper",
            "none" if phase is RollbackPhase.PRE_MIGRATION else cost,
            done=not seen.running,
        )
    held = seen.stage.in_kraft
    yield RollbackStep(
        Actor.COMMAND,
        f"delete {controller.PATH} and mark {own.PATH}, so that no controller of the quorum claims "
        f"again; {controller.EPOCH_PATH} is kept, or raised"
        if held
        else f"mark {own.PATH}, so that no controller of the quorum claims again",
        "some milliseconds",
        done=seen.marked and not held,
    )
    if phase is not RollbackPhase.PRE_MIGRATION:
        yield RollbackStep(
            Actor.BROKERS,
            "elect one of them, in ZooKeeper mode with the migration on, as the controller",
            "less than a second, and the time in which it reads all topics from ZooKeeper",
            done=over and phase is not RollbackPhase.RELEASED,
        )


EACH_FILE: Final = "FILE_OF_EACH_CONTROLLER"
"""Where the files were not given."""


def files_of(seen: Situation) -> str:
    """How the controllers are named on a command line."""
    found = [quote(one.file) for one in seen.controllers if one.file]
    if len(found) < len(seen.controllers) or not found:
        found.append(EACH_FILE)
    return " ".join(f"-c {one}" for one in found)


def _afterwards(seen: Situation, phase: RollbackPhase) -> Iterator[RollbackStep]:
    yield RollbackStep(
        Actor.OPERATOR,
        "restart every broker without zookeeper.metadata.migration.enable, "
        "controller.quorum.voters (or .bootstrap.servers) and controller.listener.names, one after "
        "the other; a broker that was killed starts once its old znode in /brokers/ids is gone, "
        "after zookeeper.session.timeout.ms",
        "one restart of each; its partitions move to other leaders meanwhile",
    )
    yield RollbackStep(
        Actor.OPERATOR,
        "before a second attempt only: empty the controllers' folders and format them again; of "
        "brokers of 3.4 to 3.6 also delete the folder __cluster_metadata-0 in log.dirs while they "
        "are stopped, as 3.7 and later do themselves",
        "the metadata log of the first attempt; ZooKeeper has all of it",
        "; ".join(
            f"kraft-bridge format -c {quote(one)} --new-quorum"
            for one in [one.file for one in seen.controllers if one.file] or [EACH_FILE]
        ),
    )
    yield RollbackStep(
        Actor.COMMAND,
        f"before a second attempt only: delete {migration.PATH} and {own.PATH}",
        "a controller with the folder of the first attempt might then claim again: format first",
        f"kraft-bridge rollback {files_of(seen)} --clear --yes",
        done=phase is RollbackPhase.ROLLED_BACK
        and not {migration.PATH, own.PATH} & seen.survey.nodes.keys(),
    )


TRIES: Final = 10
"""Multis that are sent at most: one that another client's write has refused is made again."""
CLEARED: Final = "deleted /migration and /kraft_bridge"
MEANWHILE: Final = "meanwhile, since the cluster was looked at: run this command again"
START_AND_STOP: Final = (
    "start the controllers, and run this command again: it waits until they have written what is "
    "missing; or give --accept-loss"
)


class CourseError(Exception):
    """It cannot go on; the text says why, and what to do. What was done stays done."""


class RollbackWorld(Protocol):
    """The cluster as the course of a rollback sees it. Times are in seconds, monotonic."""

    def look(self) -> Situation:
        """Look at everything."""

    def drain(self, seen: Situation, *, forced: bool) -> None:
        """Wait until the leader says that ZooKeeper has every change.

        If it does not in time it raises CourseError; ``forced``: it says so, and returns.
        """

    def stop(self, seen: Situation) -> float | None:
        """Stop the controllers that run, wait until all have ended; when the last one did."""

    def read(self) -> Sequence[ReadValue]:
        """Read :data:`release.PATHS`, after a sync."""

    def over(self, seen: Situation) -> None:
        """Raise CourseError if a controller runs, or may run."""

    def log_ends(self, seen: Situation, found: Found) -> Sequence[FolderEnd]:
        """The end of the log in each folder that can be read here."""

    def state_moved(self, seen: Situation) -> bool:
        """Whether a log here may have another state of the migration than was seen."""

    def deletions(self) -> Sequence[str]:
        """The topics that ``/admin/delete_topics`` names."""

    def forbidden(self, multi: Multi) -> str:
        """Why ZooKeeper would not let us do this, whatever the versions; empty: it would."""

    def commit(self, multi: Multi) -> bool | None:
        """Send a multi; False: refused, as a znode is not as it was read; None: not known."""

    def elected(self) -> tuple[int, float] | None:
        """Wait until a broker holds ``/controller``: its id, and when. None: not in time."""

    def now(self) -> float:
        """The time."""

    def report(self, text: str) -> None:
        """Print for the operator what is being done."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the operator asked for; see the options of the command."""

    accept_loss: bool = False
    stopped: bool = False
    clear: bool = False


@dataclass(slots=True)
class Course:
    """What was found, and what came of it. Times are in ms; None: not measured.

    ``without_controller_ms``: from the end of the last controller to the election of a broker;
    ``ours_ms`` and ``theirs_ms``: before and after ``/controller`` was deleted.
    """

    phase: RollbackPhase
    findings: list[Finding]
    steps: list[RollbackStep]
    refused: list[Finding] = field(default_factory=list)
    did: list[str] = field(default_factory=list)
    controller: int | None = None
    ours_ms: float | None = None
    theirs_ms: float | None = None
    failed: str = ""
    seen: Situation | None = None
    """What was looked at last."""
    clear: bool = False
    """Whether ``--clear`` was given, and ``busy``: controllers that kept it from being done."""
    busy: Sequence[ControllerSeen] = ()
    flagless: str = ""
    """The word for the phase that a leader without the flag shows; empty: none leads."""

    @property
    def without_controller_ms(self) -> float | None:
        """The whole of it."""
        if self.ours_ms is None or self.theirs_ms is None:
            return None
        return self.ours_ms + self.theirs_ms


def plan(world: RollbackWorld, wanted: Wanted) -> tuple[Situation, Course]:
    """Look, judge, and list the steps; nothing is changed."""
    seen = world.look()
    phase = phase_of(seen)
    findings = checks(seen, phase, stopped=wanted.stopped)
    refused = blocking(findings, accept_loss=wanted.accept_loss)
    leader = seen.without_flag
    flagless = "" if leader is None else leader.phase_name or OperatorPhase.FINALISING.value
    found = Course(phase, findings, steps(seen, phase), refused, seen=seen, flagless=flagless)
    found.clear = wanted.clear
    return seen, found


def roll_back(world: RollbackWorld, wanted: Wanted) -> Course:
    """Go back as far as the command can; what is left to do is in the steps of the result."""
    seen, course = plan(world, wanted)
    if course.refused:
        return course
    try:
        match course.phase:
            case RollbackPhase.NOT_BEGUN:
                return course
            case RollbackPhase.PRE_MIGRATION | RollbackPhase.COPYING | RollbackPhase.DUAL_WRITE:
                lowest = epoch_min(seen)
                _permitted(world, course.phase, lowest)
                ended = _stop(world, seen, course, wanted)
                _release(world, seen, course, wanted, lowest, ended)
            case RollbackPhase.RELEASED | RollbackPhase.ROLLED_BACK:
                _release(world, seen, course, wanted, -1, None)
            case other:
                raise AssertionError(f"{other} is refused")
        after = world.look()
        course.steps, course.seen = steps(after, phase_of(after)), after
        lost = losses(after, phase_of(after))
        course.findings += [one for one in lost if one not in course.findings]
        if wanted.clear:
            _clear(world, after, course, wanted)
            if CLEARED in course.did:
                course.steps = [
                    replace(one, done=True) if _over_with(one, after) else one
                    for one in course.steps
                ]
    except CourseError as error:
        course.failed = str(error)
    return course


def _over_with(step: RollbackStep, seen: Situation) -> bool:
    """Whether a step needs not be named any more once the znodes are cleared."""
    if "kraft-bridge format" in step.command:
        return not any(one.end_offset for one in seen.survey.folders)
    return "--clear" in step.command or not seen.with_keys


def _permitted(world: RollbackWorld, phase: RollbackPhase, lowest: int) -> None:
    """Refuse before anything is stopped, if the release would be refused afterwards."""
    found = _found(world)
    _as_judged(found, phase)
    why = "" if release.done(found) else world.forbidden(release.multi(found, lowest))
    late = world.deletions() if not why and phase is RollbackPhase.DUAL_WRITE else ()
    if some := release.without_deletions(found, late):
        refused = world.forbidden(some[0])
        why = f"{cluster.DELETE_TOPICS}: {refused}" if refused else ""
    if why:
        raise CourseError(f"{why}: nothing was changed. Log in as the controllers do (-c)")


def _as_judged(found: Found, phase: RollbackPhase) -> None:
    """See that the znodes still show the phase that was judged."""
    held, copied = release.held_by_kraft(found), found.migration.kraft_metadata_offset >= 0
    if phase is RollbackPhase.COPYING and copied:
        raise CourseError(f"the copy has ended {MEANWHILE}")
    if phase not in {RollbackPhase.COPYING, RollbackPhase.DUAL_WRITE} and held:
        raise CourseError(f"a KRaft controller has claimed /controller {MEANWHILE}")


def _stop(world: RollbackWorld, seen: Situation, course: Course, wanted: Wanted) -> float | None:
    if not seen.running:
        return None
    if course.phase is RollbackPhase.DUAL_WRITE:
        world.report("waiting until nothing is missing in ZooKeeper")
        world.drain(seen, forced=wanted.accept_loss)
    ended = world.stop(seen)
    names = ", ".join(one.text for one in seen.running)
    course.did.append(f"stopped {names}")
    return ended


def _release(  # noqa: PLR0917 - what was found before the controllers ended
    world: RollbackWorld,
    seen: Situation,
    course: Course,
    wanted: Wanted,
    lowest: int,
    ended: float | None,
) -> None:
    held = sent = ours = applied = False
    late: set[str] = set()
    lost = missing.counted(seen.lost) if seen.lost else ""
    for _ in range(TRIES):
        found = _found(world)
        if release.done(found):
            break  # by somebody else, or by us if an answer was lost
        held = release.held_by_kraft(found)
        _as_judged(found, course.phase)
        # Somebody may have deleted /controller meanwhile: what is missing is missing all the same.
        if held or course.phase is RollbackPhase.DUAL_WRITE:
            world.over(seen)
            lost = _lost(world, seen, course.phase, found, wanted)
        if course.phase is RollbackPhase.DUAL_WRITE and not _dropped(world, found, late):
            continue
        sent = True
        answer = world.commit(release.multi(found, lowest))
        applied, ours = answer is True, ours or answer is not False
        if applied:
            break
    else:
        raise CourseError("another client writes the znodes of the controllers all the time")
    released = world.now()
    if late:
        names = ", ".join(sorted(late)[:NAMED_MAX])
        more = f" and {len(late) - NAMED_MAX} more" if len(late) > NAMED_MAX else ""
        course.did.append(f"dropped the late deletions of the topics {names}{more}")
    if lost and ours:
        course.did.append(f"gave up {lost}, because of --accept-loss")
    if ours:
        course.did.append(
            ("deleted /controller, marked /kraft_bridge" if held else "marked /kraft_bridge")
            + ("" if applied else " (or somebody else did: the answer was lost)")
        )
    elif sent or not seen.marked:
        world.report("somebody else marked /kraft_bridge meanwhile, as another rollback does")
    held = held and ours
    if held:
        course.ours_ms = None if ended is None else (released - ended) * 1e3
    if found.controller is not None and not release.held_by_kraft(found):
        course.controller = found.controller.broker_id
        return
    if not seen.survey.live_brokers:
        raise CourseError(
            "no broker runs in ZooKeeper mode: the first one that is started is elected"
        )
    elected = world.elected()
    if elected is None:
        raise CourseError("/controller is free, and no broker was elected: see the brokers' logs")
    course.controller, at = elected
    course.theirs_ms = (at - released) * 1e3 if held else None


def _dropped(world: RollbackWorld, found: Found, late: set[str]) -> bool:
    """Drop the deletions that the broker which is elected would carry out, and add their names.

    False: another client has written meanwhile, or an answer was lost.
    """
    for multi in release.without_deletions(found, world.deletions()):
        answer = world.commit(multi)
        if answer is not False:
            late.update(one.path.rpartition("/")[2] for one in multi.ops if isinstance(one, Delete))
        if not answer:
            return False
    return True


def _found(world: RollbackWorld) -> Found:
    found = release.parse(world.read())
    if isinstance(found, Reason):
        raise CourseError(found.text)
    return found


def _lost(
    world: RollbackWorld, seen: Situation, phase: RollbackPhase, found: Found, wanted: Wanted
) -> str:
    """What is lost with the release; empty: nothing.

    It is refused if the operator has not accepted it, or if the phase is not as it was judged.
    """
    if phase is RollbackPhase.COPYING:
        if world.state_moved(seen) and phase_of(world.look()) is not phase:
            raise CourseError(f"the copy has ended {MEANWHILE}")
        return ""
    ends = world.log_ends(seen, found)
    usable = [one for one in ends if not one.problem]
    if missing.finalised(usable, seen.quorum):
        raise CourseError(f"the migration was finalised {MEANWHILE}")
    lost = missing.missing(usable, seen.quorum)
    if wanted.accept_loss:
        if len(usable) < seen.logs_needed:
            return "changes that are in logs which cannot be read here, if there are any"
        return missing.counted(lost) if lost else ""
    if found.own is not None and found.own.reconciling:
        raise CourseError(f"the comparison of the whole tree was interrupted: {START_AND_STOP}")
    if len(usable) < seen.logs_needed:
        problems = [*(one.problem for one in ends if one.problem), not_here(seen)]
        raise CourseError(
            f"{len(usable)} of {seen.quorum} logs could be read, {seen.logs_needed} are needed: "
            f"{'; '.join(filter(None, problems))}: {START_AND_STOP}"
        )
    if lost:
        raise CourseError(f"{missing.counted(lost)} are not in ZooKeeper: {START_AND_STOP}")
    return ""


def _clear(world: RollbackWorld, seen: Situation, course: Course, wanted: Wanted) -> None:
    if phase_of(seen) is not RollbackPhase.ROLLED_BACK:
        return
    if not seen.controllers and not wanted.stopped:
        raise CourseError(
            "not cleared: no controller was given, and one that runs would not be noticed: give "
            "-c of each; or make sure that all are stopped, and give --stopped"
        )
    course.busy = [*seen.running, *(() if wanted.stopped else seen.unknown)]
    if course.busy:
        names = ", ".join(one.text for one in course.busy)
        raise CourseError(f"not cleared: {names} may run; stop it first (or give --stopped)")
    for one in seen.survey.folders:
        if one.end_offset:
            # This folder has higher epochs than new ones: its controller would become their leader.
            what = "empty it, and format it, before a controller starts"
            world.report(f"{one.name} holds a log: {what}")
    for _ in range(TRIES):
        found = _found(world)
        if release.held_by_kraft(found):
            raise CourseError("not cleared: a KRaft controller holds /controller")
        multi = release.forgotten(found)
        if multi is None:
            return
        if world.commit(multi):
            course.did.append(CLEARED)
            return
    raise CourseError("another client writes the znodes of the controllers all the time")
