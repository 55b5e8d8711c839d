"""Where a migration stands already: the first line of a report, and the rules that judge it.

The tree alone shows who holds ``/controller`` and how far ``/migration`` says that ZooKeeper has
followed a log. It cannot show that this log is the one of the controllers given: a KRaft controller
that was formatted again claims ``/controller`` with the same id, skips the copy because
``/migration`` is complete, and later empties ZooKeeper. Only a controller's folder shows which
log it is, so without one a complete ``/migration`` is always a blocker.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from emulator.metadata.migration_state import MigrationState
from emulator.migration.phases import OperatorPhase
from emulator.operations.preflight.controller_folder import ControllerFolder
from emulator.operations.preflight.engine import NotRun, Outcome, Severity, finding, rule
from emulator.operations.preflight.node_file import ENABLE
from emulator.operations.preflight.survey import Survey
from emulator.znodes import controller, migration, own
from emulator.znodes.controller import ControllerZnode
from emulator.znodes.migration import MigrationZnode
from emulator.znodes.tree import ZnodeError

SILENT_MS: Final = 10_000
"""Kafka from 3.6 on writes ``/migration`` every 500 ms in dual write, and kraft-bridge does."""


class MigrationStage(Enum):
    """The phase of the migration as a tree shows it; the words are those of every verb."""

    UNREADABLE = OperatorPhase.UNKNOWN.value
    NOT_BEGUN = OperatorPhase.NOT_MIGRATING.value
    PREPARED = OperatorPhase.WAITING.value
    UNDER_WAY = OperatorPhase.COPYING.value
    DUAL_WRITE = OperatorPhase.DUAL_WRITE.value
    FINALISED = OperatorPhase.FINAL.value
    ROLLED_BACK = OperatorPhase.ROLLED_BACK.value
    FOREIGN = OperatorPhase.FOREIGN.value
    EMPTIED = OperatorPhase.EMPTIED.value


@dataclass(frozen=True, slots=True)
class StageFound:
    """The stage, one sentence about it, and what shows it.

    ``shown``: a controller's folder confirms it. ``mark``: ``/migration``; ``holder``: of
    ``/controller``, None if there is no such znode.
    """

    stage: MigrationStage
    text: str
    shown: bool = False
    mark: MigrationZnode = migration.INITIAL
    holder: ControllerZnode | None = None

    @property
    def complete(self) -> bool:
        """Whether ``/migration`` says that a copy was completed."""
        return self.mark.kraft_metadata_offset >= 0

    @property
    def unreadable(self) -> bool:
        """Whether a znode that shows the stage cannot be read."""
        return self.stage is MigrationStage.UNREADABLE

    @property
    def in_kraft(self) -> bool:
        """Whether a KRaft controller holds ``/controller``."""
        return self.holder is not None and self.holder.kraft_epoch >= 0


def standing(survey: Survey) -> StageFound:
    """Where the migration stands."""
    holder = controller.try_parse(survey.data(controller.PATH))
    try:
        present = migration.PATH in survey.nodes
        mark = migration.parse(survey.data(migration.PATH)) if present else migration.INITIAL
    except ZnodeError as error:
        return StageFound(
            MigrationStage.UNREADABLE, f"/migration cannot be read: {error}", holder=holder
        )
    if controller.PATH in survey.nodes and holder is None:
        return StageFound(MigrationStage.UNREADABLE, "/controller cannot be read", mark=mark)
    stage, text, shown = _stage(survey, mark, holder)
    return StageFound(stage, text, shown, mark, holder)


def _stage(
    survey: Survey, mark: MigrationZnode, holder: ControllerZnode | None
) -> tuple[MigrationStage, str, bool]:
    done = mark.kraft_metadata_offset >= 0
    finalised = [one.name for one in survey.folders if one.state == MigrationState.POST_MIGRATION]
    if finalised:
        return (
            MigrationStage.FINALISED,
            f"the log in {finalised[0]} says that it was finalised",
            True,
        )
    if holder is None or holder.kraft_epoch < 0:
        return _in_zookeeper(survey, mark, holder)
    where = f"KRaft controller {holder.broker_id} holds /controller in epoch {holder.kraft_epoch}"
    if survey.controller_ids and holder.broker_id not in survey.controller_ids:
        return MigrationStage.FOREIGN, f"{where}, and is none of the controllers given", False
    if done and emptied(survey):
        return MigrationStage.EMPTIED, f"{where}, and every topic is gone from ZooKeeper", False
    follows = _follows(survey, mark)
    if not done:
        return (
            MigrationStage.UNDER_WAY,
            f"{where}, and /migration names no offset yet",
            follows is not None,
        )
    mark_text = f"{where}; /migration is at offset {mark.kraft_metadata_offset}{_silence(survey)}"
    if not survey.live_brokers:
        text = f"{mark_text}; no broker is in ZooKeeper mode any more"
        if follows is None and (_quiet_ms(survey) < SILENT_MS or _rolled(survey)):
            return MigrationStage.DUAL_WRITE, text, False
        if follows is None:
            return MigrationStage.FINALISED, f"{text}: finalised, or about to be", False
        return (
            MigrationStage.DUAL_WRITE,
            f"{text}, and the log in {follows.name} is not finalised",
            True,
        )
    if follows is not None:
        return (
            MigrationStage.DUAL_WRITE,
            f"{mark_text}, and the log in {follows.name} holds that offset",
            True,
        )
    return MigrationStage.DUAL_WRITE, f"{mark_text}; no folder given shows that log", False


def _rolled(survey: Survey) -> bool:
    """Whether files show the end of the roll: brokers in KRaft mode, controllers with the flag."""
    flagged = any(one.is_controller and one.flag(ENABLE) for one in survey.properties)
    return flagged and any(one.is_kraft_broker for one in survey.properties)


def _in_zookeeper(
    survey: Survey, mark: MigrationZnode, holder: ControllerZnode | None
) -> tuple[MigrationStage, str, bool]:
    holder_text = "nobody" if holder is None else f"broker {holder.broker_id} in ZooKeeper mode"
    if mark.kraft_metadata_offset >= 0:
        stage = MigrationStage.EMPTIED if emptied(survey) else MigrationStage.ROLLED_BACK
        what = "every topic is gone from ZooKeeper, and " if stage is MigrationStage.EMPTIED else ""
        text = (
            f"{what}{holder_text} holds /controller, and /migration is left, at offset "
            f"{mark.kraft_metadata_offset}"
        )
        return stage, text, False
    if migration.PATH in survey.nodes:
        return (
            MigrationStage.PREPARED,
            f"{holder_text} holds /controller; controllers have made /migration",
            False,
        )
    return (
        MigrationStage.NOT_BEGUN,
        f"{holder_text} holds /controller, and there is no /migration",
        False,
    )


def emptied(survey: Survey) -> bool:
    """Whether there were topics, and there is none."""
    root = survey.nodes.get("/brokers/topics")
    if root is None:
        # A broker makes it when it starts, and nothing of Kafka removes it.
        return bool(survey.live_brokers)
    if survey.children("/brokers/topics"):
        return False
    changes = (survey.json(path) for path, _ in survey.below("/config/changes"))
    topics_configured = any(
        str(one.get("entity_path", "")).startswith("topics/") for one in changes
    )
    return root.child_changes > 0 or topics_configured or bool(survey.children("/config/topics"))


def _follows(survey: Survey, mark: MigrationZnode) -> ControllerFolder | None:
    """A folder whose log is the one that ZooKeeper follows; None if none is known to be."""
    offset, epoch = mark.kraft_metadata_offset, mark.kraft_metadata_epoch
    for one in survey.folders:
        if offset < 0 and one.state == MigrationState.PRE_MIGRATION:
            return one
        if one.state != MigrationState.MIGRATION:
            continue
        trimmed = offset < one.start_offset
        if offset < 0 or one.epoch_at(offset) == epoch or trimmed:
            return one
    return None


def _quiet_ms(survey: Survey) -> float:
    """How long ``/migration`` has not been written; infinite if it is not known."""
    node = survey.nodes.get(migration.PATH)
    if node is None or node.mtime_ms is None or survey.read_at_ms is None:
        return math.inf
    return survey.read_at_ms - node.mtime_ms


def _silence(survey: Survey) -> str:
    quiet_ms = _quiet_ms(survey)
    if quiet_ms < SILENT_MS or math.isinf(quiet_ms):
        return ""
    return f", and nobody has written it for {quiet_ms / 1e3:,.0f} s"


@rule(
    "B02",
    "/migration holds no earlier migration",
    "After a rollback /migration was left. New controllers took the migration for complete, "
    "skipped the copy, and wrote their empty metadata over ZooKeeper: all topics were gone.",
)
def migration_stale(survey: Survey) -> Iterator[Outcome]:
    """A complete ``/migration`` that no given controller's log continues; a rollback's mark."""
    now = standing(survey)
    if not now.complete and own.rolled_back(own.try_parse(survey.data(own.PATH))):
        yield finding(
            "B02",
            own.PATH,
            "kraft-bridge rollback has marked it",
            "no kraft-bridge controller claims as long as it is there",
            "before a second attempt format the controllers anew, then kraft-bridge rollback "
            "--clear --yes",
            "KIP-866, Rollback to ZK",
        )
    if not now.complete or now.shown or now.stage is MigrationStage.FINALISED:
        return
    done = [one.name for one in survey.properties if one.is_kraft_broker]
    if done and _ours(now, survey):
        yield NotRun(
            "B02",
            f"{done[0]} is in KRaft mode already and a controller given holds /controller, so the "
            "migration is taken for yours; give --controller-dir of its controllers to see it",
        )
        return
    mark = now.mark
    holds = "holds /controller" if now.in_kraft else "does not hold /controller any more"
    yield finding(
        "B02",
        migration.PATH,
        f"controller {mark.kraft_controller_id} wrote up to offset {mark.kraft_metadata_offset} "
        f"of epoch {mark.kraft_metadata_epoch} and {holds}{_conflict(survey, mark)}"
        + (_silence(survey) if now.in_kraft else ""),
        "a Kafka controller whose log is another one skips the copy and then writes its empty "
        "metadata over ZooKeeper; kraft-bridge refuses to start",
        "if this migration is yours and under way, give --controller-dir of its controllers; to "
        "end it: kraft-bridge rollback --config FILES. Of Kafka's controllers: stop them, delete "
        "/controller if it names one of them, delete /migration, and format them anew"
        if now.in_kraft
        else "after a rollback format the controllers anew, then kraft-bridge rollback --clear "
        "--yes",
        "KAFKA-17146",
    )


def _ours(now: StageFound, survey: Survey) -> bool:
    """Whether a controller that was given leads a migration, as far as the tree shows it."""
    silent = SILENT_MS <= _quiet_ms(survey) < math.inf
    holder = now.holder
    given = holder is not None and holder.broker_id in survey.controller_ids
    contradicted = any(not one.problem and one.end_offset for one in survey.folders)
    return now.stage is MigrationStage.DUAL_WRITE and given and not silent and not contradicted


def _conflict(survey: Survey, mark: MigrationZnode) -> str:
    for one in survey.folders:
        if one.problem and not one.end_offset:
            continue
        there = one.epoch_at(mark.kraft_metadata_offset)
        has = "ends before it" if there is None else f"has epoch {there} there"
        if one.state not in {MigrationState.MIGRATION, MigrationState.POST_MIGRATION}:
            has += ", and has never migrated"
        return f"; the log in {one.name} {has}"
    return ""


@rule(
    "B03",
    "no foreign KRaft controller leads",
    "A second set of controllers was pointed at a cluster that another quorum was migrating. "
    "Each deposed the other, and wrote its own metadata.",
)
def controller_held(survey: Survey) -> Iterator[Outcome]:
    """``/controller`` names a KRaft controller that is not in the given quorum."""
    holder = controller.try_parse(survey.data(controller.PATH))
    if holder is None or holder.kraft_epoch < 0 or holder.broker_id in survey.controller_ids:
        return
    yield finding(
        "B03",
        controller.PATH,
        f"KRaft controller {holder.broker_id} holds it, in epoch {holder.kraft_epoch}",
        "two quorums would write to one tree; the controller that claims later deposes the other",
        "finish or roll back that migration; if it is yours, give its server.properties with -c",
        "KIP-866, Controller Migration",
    )


@rule(
    "B13",
    "no migration is half done or finalised",
    "A migration was started a second time while the first was copying, or after it was final: "
    "ZooKeeper is old then, and going back to it loses every change since.",
)
def half_done(survey: Survey) -> Iterator[Outcome]:
    """A claim without a completed copy, or a tree that no ZooKeeper-mode broker uses any more."""
    now = standing(survey)
    if now.stage is MigrationStage.FINALISED:
        yield finding(
            "B13",
            migration.PATH if migration.PATH in survey.nodes else "/",
            now.text,
            "there is nothing to migrate, and no way back to ZooKeeper once it is finalised",
            "none, if it is finalised: ZooKeeper may be stopped. If it is not, give "
            "--controller-dir of its controllers",
            "KIP-866, Finalizing the Migration",
        )
        for broker_id in sorted(survey.live_brokers) if now.shown else ():
            yield finding(
                "B13",
                f"/brokers/ids/{broker_id}",
                "still in ZooKeeper mode, and the migration is finalised",
                "nobody writes ZooKeeper any more: this broker sees no change of leaders, topics "
                "or configs",
                "restart it as a KRaft broker",
                "KIP-866, Finalizing the Migration",
            )
    elif now.stage is MigrationStage.UNDER_WAY:
        yield finding(
            "B13",
            controller.PATH,
            now.text,
            "a copy is in progress, or was interrupted; a second one would begin in the middle",
            "wait for it: kraft-bridge status. To end it: kraft-bridge rollback --config FILES. Of "
            "Kafka's controllers: stop them, delete /controller, then /migration",
            "KIP-866, Initial Data Migration",
            Severity.WARNING if now.shown else None,
        )


@rule(
    "B14",
    "ZooKeeper was not emptied",
    "Controllers with an empty log took a left-over /migration for their own and deleted every "
    "topic, config and ACL from ZooKeeper.",
)
def not_emptied(survey: Survey) -> Iterator[Outcome]:
    """Topics were there, and none is left."""
    if not emptied(survey):
        return
    now = standing(survey)
    root = survey.nodes.get("/brokers/topics")
    left = len(survey.children("/config/topics"))
    missing = "missing, and brokers are alive" if root is None else ""
    yield finding(
        "B14",
        "/brokers/topics",
        # Whoever deletes a topic by Kafka deletes its config too.
        missing
        or (
            f"empty, and {left} topics still have a config in /config/topics"
            if left
            else f"empty, after {root.child_changes if root else 0} changes of its children"
        ),
        "if topics should be here, their metadata was deleted; migrating now makes that final, and "
        "brokers then delete or rename the folders of partitions that they still hold",
        "stop the controllers and the brokers; restore ZooKeeper from a backup that has the topics",
        "KAFKA-17146",
        None if missing or now.complete or now.in_kraft or left else Severity.INFO,
    )
