"""Rules on the quorum: what the controllers' folders hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emulator.config.java_text import trim
from emulator.metadata.metadata_version import VERSIONS
from emulator.metadata.migration_state import MigrationState
from emulator.operations.preflight.controller_folder import ControllerFolder
from emulator.operations.preflight.engine import FindingOf, NotRun, Outcome, Severity, rule
from emulator.operations.preflight.identities import is_uuid
from emulator.operations.preflight.node_file import BOOTSTRAP, IBP, VOTERS, number
from emulator.operations.preflight.stage import standing
from emulator.operations.preflight.survey import Survey

MIGRATION_LEVEL: Final = 8
TRANSACTION_LEVEL: Final = 13
KRAFT_META: Final = 1
_B15: Final = FindingOf("B15", "KIP-866, Preparing the Cluster")


def level_name(level: int) -> str:
    """A level with the version it is of, as far as Kafka 3.9 knows it.

    >>> level_name(21), level_name(99)
    ('21 (3.9-IV0)', '99')
    """
    return f"{level} ({VERSIONS[level].name})" if level in VERSIONS else str(level)


@rule(
    "B15",
    "controllers' folders can migrate this cluster",
    "Controllers were formatted without --release-version: they began at the newest "
    "metadata.version, the brokers ran an older inter.broker.protocol.version, and every "
    "registration was refused for hours. Others were started once without the migration flag: "
    "their log began as a pure KRaft cluster, and they refuse to migrate for ever.",
)
def folders(survey: Survey) -> Iterator[Outcome]:
    """metadata.version, migration state, ids and voters in the folders of the controllers."""
    if not survey.folders:
        yield NotRun(
            "B15", f"no folder of a controller given: use --controller-dir{_format_with(survey)}"
        )
        return
    yield from _begins_with(survey)
    seen: dict[int, str] = {}
    for one in survey.folders:
        if not one.meta:
            yield _B15(
                one.name,
                "no meta.properties: it was never formatted",
                "a controller does not start on it",
                "kraft-bridge format, with the cluster id of /cluster/id",
            )
            continue
        if one.problem:
            yield _B15(
                one.name,
                one.problem,
                "the controller does not start, or starts without a part of its log",
                "restore an undamaged copy, or format an empty folder",
            )
        if number(trim(one.meta.get("version", ""))) != KRAFT_META:
            yield _B15(
                one.name,
                f"meta.properties has version {one.meta.get('version', 'none')}, a controller's "
                "has 1",
                "the controller does not start",
                "format an empty folder: kraft-bridge format",
            )
        directory = one.meta.get("directory.id", "")
        if "directory.id" in one.meta and not is_uuid(directory):
            yield _B15(
                one.name,
                f"directory.id {directory} in meta.properties is no UUID",
                "the controller does not start",
                "restore the file, or format an empty folder",
            )
        yield from _identity(survey, one, seen)
        yield from _levels(survey, one)
        yield from _state(one)
        yield from _migrated(survey, one)
        if one.uncommitted:
            yield _B15(
                one.name,
                f"the last {one.uncommitted} of its records are not known to be committed",
                "the next leader may drop them, so they are not judged here",
                "ask the leader: kraft-bridge status",
                Severity.INFO,
            )


def _begins_with(survey: Survey) -> Iterator[Outcome]:
    """Folders of one quorum that was never started, formatted for different levels."""
    made = [one for one in survey.folders if one.level is None and one.bootstrap_level is not None]
    first = made[0] if made and not any(one.level for one in survey.folders) else None
    for one in made if first is not None else ():
        if first is not None and one.bootstrap_level != first.bootstrap_level:
            yield _B15(
                one.name,
                f"metadata.version {level_name(one.bootstrap_level or 0)} in bootstrap.checkpoint, "
                f"and {level_name(first.bootstrap_level or 0)} in that of {first.name}",
                "the quorum begins with that of its first leader, whichever it is: brokers of the "
                "other are refused",
                "format all with one --release-version, the brokers' inter.broker.protocol.version",
                Severity.WARNING,
            )


def _format_with(survey: Survey) -> str:
    """What a controller's folder is to be formatted with; empty if no broker's file is given."""
    protocols = {file.protocol.name for file in survey.brokers if file.protocol is not None}
    if len(protocols) == 1:
        (name,) = protocols
        return f". Format each with -r {name}: brokers have {IBP}={name}"
    if not survey.brokers:
        return ""
    return f". Format each with -r VERSION, the {IBP} of the brokers, one for all"


def _identity(survey: Survey, one: ControllerFolder, seen: dict[int, str]) -> Iterator[Outcome]:
    files = {file.node_id: file for file in survey.all_files if file.is_controller}
    node_id = one.node_id
    if node_id is None or (files and node_id not in files):
        ids = ", ".join(str(x) for x in sorted(x for x in files if x is not None))
        yield _B15(
            one.name,
            f"node.id {one.meta.get('node.id', 'missing')}, and the controllers' files have "
            f"{ids or 'none'}",
            "no controller starts with this folder",
            "give the file of this controller too, or format the folder with its node.id",
        )
        return
    if node_id in seen:
        yield _B15(
            one.name,
            f"node.id {node_id}, as {seen[node_id]} has",
            "two controllers with one id depose each other",
            "format one of them with another node.id",
        )
    seen.setdefault(node_id, one.name)
    file = files.get(node_id)
    if file is not None and file.voters and one.voters and file.voters != one.voters:
        yield _B15(
            one.name,
            f"quorum-state was written for the voters {sorted(one.voters)}, and {file.name} names "
            f"{sorted(file.voters)}",
            "the controller does not start",
            f"write the voters of the folder into {VOTERS}, or format all controllers anew",
        )
    if file is not None and file.get(BOOTSTRAP) and not file.get(VOTERS) and not one.dynamic:
        yield _B15(
            one.name,
            f"formatted for the voters of {VOTERS}, and {file.name} has {BOOTSTRAP} only",
            "the quorum has no voter: nobody is elected, and the controller serves nobody",
            f"write {VOTERS} into the file, or format the folder with --standalone or "
            "--initial-controllers",
        )
    if one.dynamic:
        yield _B15(
            one.name,
            "formatted for a dynamic quorum (--standalone or --initial-controllers)",
            "Kafka's controllers start on it; kraft-bridge does not yet",
            f"for kraft-bridge: format without these options, with {VOTERS}",
            Severity.INFO,
        )


def _levels(survey: Survey, one: ControllerFolder) -> Iterator[Outcome]:
    level = one.metadata_level
    if level is None:
        if not one.end_offset:
            yield NotRun("B15", f"{one.name} names no metadata.version: no bootstrap.checkpoint")
        return
    where = "its log" if one.level is not None else "bootstrap.checkpoint"
    if level < MIGRATION_LEVEL:
        yield _B15(
            one.name,
            f"metadata.version {level_name(level)} in {where}; a migration needs 8 (3.4-IV0)",
            "the controller refuses to migrate",
            "format it with --release-version of the brokers' inter.broker.protocol.version",
        )
    versions = {file.protocol for file in survey.brokers if file.protocol is not None}
    for version in sorted(versions, key=lambda version: version.level):
        if version.level != level:
            yield _B15(
                one.name,
                f"metadata.version {level_name(level)} in {where}; brokers have {IBP}="
                f"{version.name} ({version.level})",
                "every registration of those brokers is refused with UNSUPPORTED_VERSION, and the "
                "migration never starts",
                f"format the controllers with --release-version {version.name}, or set {IBP} on "
                "the brokers to the controllers' version",
            )
    if not versions:
        yield NotRun("B15", f"no broker's file says {IBP}: {one.name} has {level_name(level)}")


def _state(one: ControllerFolder) -> Iterator[Outcome]:
    begun = one.level is not None or one.end_offset > 0
    level = one.level or 0
    if begun and one.state == MigrationState.NONE and (level >= TRANSACTION_LEVEL or one.holds):
        yield _B15(
            one.name,
            "its log began without zookeeper.metadata.migration.enable: a pure KRaft cluster"
            + (f" with {one.holds} topics and brokers" if one.holds else ""),
            "it refuses to start with the migration switched on, and can never migrate",
            "stop the controllers and format them anew, then start them with the migration "
            "switched on",
        )


def _migrated(survey: Survey, one: ControllerFolder) -> Iterator[Outcome]:
    now = standing(survey)
    if one.state == MigrationState.MIGRATION and not now.in_kraft and not now.unreadable:
        yield _B15(
            one.name,
            f"its log has migrated already, and {now.text}",
            "once started it writes its old metadata over ZooKeeper: what was changed since is "
            "lost",
            "after a rollback format the controllers anew, then kraft-bridge rollback --clear "
            "--yes",
        )
