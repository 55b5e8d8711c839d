"""The steps back to ZooKeeper mode, in order: the actor of each, the action, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from shlex import quote

from emulator.operations.rollback.phases import RollbackPhase
from emulator.operations.rollback.situation import Situation
from emulator.znodes import controller, migration, own


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
    return [*_before(seen, phase), *_release(seen, phase), *_afterwards(seen, phase)]


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


def _release(seen: Situation, phase: RollbackPhase) -> Iterator[RollbackStep]:
    over = phase in {RollbackPhase.RELEASED, RollbackPhase.ROLLED_BACK}
    local = [one for one in seen.running if one.pid is not None]
    remote = [one for one in seen.running if one.pid is None]
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
    if local or not remote:
        mine = ", ".join(one.text for one in local) or names
        cost = "no change of metadata is answered, and no leader is elected, until a broker is "
        cost += "elected; clients go on to produce and consume"
        yield RollbackStep(
            Actor.COMMAND,
            f"stop {mine} by SIGTERM, and see that nothing is missing in ZooKeeper",
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
            "elect one of them, which is still in migration mode, as the controller",
            "less than a second, and its reading of all topics from ZooKeeper",
            done=over and phase is not RollbackPhase.RELEASED,
        )


def _files(seen: Situation) -> str:
    """How the controllers are named on a command line."""
    found = [quote(one.file) for one in seen.controllers if one.file]
    if len(found) < len(seen.controllers) or not found:
        found.append("FILE_OF_EACH_CONTROLLER")
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
        "kraft-bridge format -c server.properties -t CLUSTER_ID -r VERSION --new-quorum",
    )
    yield RollbackStep(
        Actor.COMMAND,
        f"before a second attempt only: delete {migration.PATH} and {own.PATH}",
        "a controller with the folder of the first attempt is then no longer refused for certain: "
        "format first",
        f"kraft-bridge rollback {_files(seen)} --clear --yes",
        done=phase is RollbackPhase.ROLLED_BACK
        and not {migration.PATH, own.PATH} & seen.survey.nodes.keys(),
    )
