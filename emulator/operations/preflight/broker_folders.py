"""Rules on what brokers' folders hold, where they are on this machine, against the tree."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from posixpath import normpath
from typing import Any, Final

import msgspec

from emulator.config.java_text import whole
from emulator.config.words import several
from emulator.operations.preflight.engine import (
    FindingOf,
    NotRun,
    Outcome,
    Severity,
    listed,
    named,
    rule,
)
from emulator.operations.preflight.identities import owner_of
from emulator.operations.preflight.node_file import FolderContents, Properties, number
from emulator.operations.preflight.stage import MigrationStage, standing
from emulator.operations.preflight.survey import Survey
from emulator.raft import layout
from wire.text import uuid_from_text

NAMED_MAX: Final = 10
_PARTITION: Final = re.compile(r"(.+)-([0-9]+)")
_BEFORE: Final = frozenset(
    {MigrationStage.NOT_BEGUN, MigrationStage.ROLLED_BACK, MigrationStage.EMPTIED}
)
"""Stages in which no broker has a metadata log yet that it needs."""
_W25: Final = FindingOf("W25", "LogManager.findStrayReplicas")


def partition_of(name: str) -> tuple[str, int] | None:
    """Topic and partition of a folder; None if its name is not of that form.

    >>> partition_of("a-b-3"), partition_of("a-0.d4c5e5-delete"), partition_of("lost+found")
    (('a-b', 3), None, None)
    """
    found = _PARTITION.fullmatch(name)
    return None if found is None else (found[1], int(found[2]))


def topic_id_of(text: str) -> str:
    r"""The topic id in a ``partition.metadata``, as Kafka reads it.

    Raises:
        ValueError: Kafka fails on it (PartitionMetadataFile.read).

    >>> topic_id_of("version: 0\ntopic_id: 1BufOAt-V6-xmhyahMEKmg")
    '1BufOAt-V6-xmhyahMEKmg'
    """
    lines = [re.split(r":\s+", line) for line in text.splitlines()[:2]]
    if [len(one) for one in lines] != [2, 2] or whole(lines[0][1]) != 0:
        raise ValueError("not version 0 of the file")
    topic_id = lines[1][1]
    if not any(uuid_from_text(topic_id)):
        raise ValueError("no topic has that id")
    return topic_id


@rule(
    "W25",
    "brokers' folders fit the tree",
    "A folder of a deleted topic had no partition.metadata: the broker failed each request with "
    "all its partitions. Another had the id of an earlier topic: its records were put aside, "
    "and an empty log led.",
)
def folders(survey: Survey) -> Iterator[Outcome]:
    """Each broker's partitions in its folders, with topic ids, and what an earlier attempt left."""
    files: dict[str, list[Properties]] = {}
    for one in survey.all_files:
        for folder in one.held if not one.is_controller else ():
            files.setdefault(folder, []).append(one)
    seen = {one.node_id for some in files.values() for one in some}
    brokers = [x for x in survey.all_files if not x.is_controller and x.node_id is not None]
    unseen = dict.fromkeys(str(one.node_id) for one in brokers if one.node_id not in seen)
    if unseen:
        yield NotRun("W25", f"the folders of {named('broker', unseen)} are not on this machine")
    for folder, some in files.items():
        owner = owner_of(some, some[0].metas.get(folder, {}))
        if owner is not None and owner.node_id is not None:
            if owner.held[folder].topic_ids and folder not in owner.metas:
                yield _without_meta(owner, folder)
            yield from _partitions(survey, owner, folder, owner.held[folder])
            yield from _left(owner, folder, owner.held[folder])
            yield from _metadata_log(survey, owner, folder, owner.held[folder])
    told: set[tuple[int | None, str, str]] = set()
    for one in survey.all_files:
        if not one.is_controller and one.node_id is not None:
            for found in _beside(survey, one):
                place, fact = "", ""
                if isinstance(found, NotRun):
                    fact = found.why
                else:  # a node's present file and its target name the same folders
                    place, fact = found.znode.removeprefix(one.at("")), found.fact
                if (key := (one.node_id, place, fact)) not in told:
                    told.add(key)
                    yield found


def _beside(survey: Survey, one: Properties) -> Iterator[Outcome]:
    """The folders of one file beside each other, as far as they are here."""
    here = {normpath(folder): folder for folder in one.held}
    here = {path: here[path] for path in dict.fromkeys(one.folders) if path in here}
    metas = [one.metas[x] for x in here.values() if x in one.metas]
    named_by = {number(x.get("node.id") or x.get("broker.id", "")) for x in metas}
    if named_by != {one.node_id} or one.provides("log.dirs"):
        return  # folders of another machine, or of another node: B18 says so
    if elsewhere := [x for x in dict.fromkeys(one.folders) if x not in here]:
        yield NotRun("W25", f"{listed(elsewhere)} of broker {one.node_id}: not on this machine")
    bare = [x for x in here.values() if x not in one.metas and x not in one.unread]
    for folder in bare:
        if not one.held[folder].topic_ids:  # with partitions it is said of the folder by itself
            yield _unmarked(one, folder)
    yield from _in_two(one, here)
    if not elsewhere and not any(x in one.unread for x in here.values()):
        names = {name for x in here.values() for name in one.held[x].partitions}
        yield from _missing(survey, one, names)


def _unmarked(one: Properties, folder: str) -> Outcome:
    return _W25(
        one.at(folder),
        "no meta.properties, and the broker's other folders have one",
        "a disk that was replaced, or one that was not mounted: a broker in ZooKeeper mode writes "
        "the file when it starts; as a KRaft broker it does not start",
        "mount the disk; if it is new, start the broker in ZooKeeper mode once, or copy "
        "meta.properties from another folder, without the line directory.id",
    )


def _in_two(one: Properties, here: Mapping[str, str]) -> Iterator[Outcome]:
    """Partitions that two folders of a broker have."""
    places: dict[str, list[str]] = {}
    for folder in here.values():
        for name in one.held[folder].partitions:
            places.setdefault(name, []).append(folder)
    if twice := sorted(name for name, some in places.items() if len(some) > 1):
        yield FindingOf("W25", "LogManager.loadLog")(
            one.at("log.dirs"),
            f"{several(len(twice), 'partition')} in two folders: {listed(twice, NAMED_MAX)} "
            f"in {listed(places[twice[0]])}",
            "the broker does not start: Duplicate log directories",
            "find out which has the newer records; stop the broker, and move the other away",
            Severity.BLOCKER,
        )


def _missing(survey: Survey, one: Properties, names: Collection[str]) -> Iterator[Outcome]:
    """Partitions that the tree has on a broker, and none of its folders."""
    gone: list[str] = []
    last: list[str] = []
    count = 0
    for topic in survey.children("/brokers/topics"):
        assigned = survey.json(f"/brokers/topics/{topic}").get("partitions")
        if topic in survey.pending or not isinstance(assigned, dict):
            continue
        for index, replicas in assigned.items():
            if not isinstance(replicas, list) or one.node_id not in replicas:
                continue
            count += 1
            if (name := f"{topic}-{index}") not in names:
                gone.append(name)
                state = survey.json(f"/brokers/topics/{topic}/partitions/{index}/state")
                last += [name] if state.get("isr") == [one.node_id] else []
    if gone:
        yield _W25(
            one.at("log.dirs"),
            f"{len(gone):,} of {several(count, 'partition')} that the tree has on broker "
            f"{one.node_id} in none of its folders: {listed(last or gone, NAMED_MAX)}"
            + (f"; of {len(last):,} no other broker has the records" if last else ""),
            "the broker begins empty logs for them"
            + (", leads those that nobody else has, and their records are gone" if last else ""),
            "none, if a disk was replaced and others are in sync; else write the folders that "
            "the broker has into log.dirs, or mount the disk",
            None if last else Severity.INFO,
        )


def _partitions(
    survey: Survey, owner: Properties, folder: str, held: FolderContents
) -> Iterator[Outcome]:
    if held.unread:
        first, why = next(iter(held.unread.items()))
        more = f" and {len(held.unread) - 1:,} more" if len(held.unread) > 1 else ""
        yield NotRun("W25", f"{folder}/{first}{more}: {why}")
    without, other, strange = [], [], []
    for name, topic_id in held.topic_ids.items():
        topic, index = partition_of(name) or (name, -1)
        if topic in survey.pending or survey.is_closed(f"/brokers/topics/{topic}"):
            continue
        znode = survey.json(f"/brokers/topics/{topic}")
        assigned = znode.get("partitions")
        replicas = assigned.get(str(index)) if isinstance(assigned, dict) else None
        if not isinstance(replicas, list) or owner.node_id not in replicas:
            strange.append(name)
        elif topic_id and znode.get("topic_id") not in (None, "", topic_id):
            other.append(f"{name} ({topic_id}; {znode.get('topic_id')} in the tree)")
        if not topic_id:
            without.append(name)
    yield from _of_kinds(owner, folder, without, other, strange)
    if held.malformed:
        yield FindingOf("W25", "PartitionMetadataFile.read")(
            owner.at(folder),
            f"partition.metadata that Kafka cannot read in {several(len(held.malformed), 'folder')}"
            f": {listed(held.malformed, NAMED_MAX)}",
            "the broker ends when it starts, or goes on without this folder's disk",
            "stop the broker, and write version: 0 and topic_id: with the id that the tree has, "
            "each in a line of its own",
            Severity.BLOCKER,
        )


def _of_kinds(
    owner: Properties, folder: str, without: list[str], other: list[str], strange: list[str]
) -> Iterator[Outcome]:
    where = owner.at(folder)
    if without:
        yield _W25(
            where,
            f"no partition.metadata in {several(len(without), 'folder')}: "
            f"{listed(without, NAMED_MAX)}",
            "a migrating broker in ZooKeeper mode throws in each FULL LeaderAndIsr. Kafka's "
            "controller does not go on then: the broker leads and follows nothing; kraft-bridge "
            "sends it again as INCREMENTAL",
            "of topics that are there: restart the broker before the migration, which writes the "
            "file with inter.broker.protocol.version 2.8 or later; of others: stop the broker and "
            "move the folder away",
        )
    if other:
        yield _W25(
            where,
            f"another topic id than the tree's in {several(len(other), 'folder')}: "
            f"{listed(other, NAMED_MAX)}",
            "the broker puts the folder aside as -stray and begins an empty log; with the only "
            "replica it leads that, and the records are gone for clients",
            "find out which of the two topics has the records (created again under one name?); "
            "stop the broker, and copy or move the folder away, before the migration",
            Severity.BLOCKER,
        )
    if strange:
        yield _W25(
            where,
            f"{several(len(strange), 'folder')} of partitions that the tree does not have on "
            f"broker {owner.node_id}: {listed(strange, NAMED_MAX)}",
            "left of deleted topics, of moves, or of another cluster: the broker puts them aside "
            "as -stray, or deletes them, once it starts for the migration",
            "if nobody misses their records, stop the broker and remove them; else copy them first",
        )


def _without_meta(owner: Properties, folder: str) -> Outcome:
    return _W25(
        owner.at(folder),
        "partitions, and no meta.properties",
        "whose they are is not known: a broker in ZooKeeper mode writes a new file; as a KRaft "
        "broker it does not start",
        "restore the file, or start the broker in ZooKeeper mode once more",
    )


def _left(owner: Properties, folder: str, held: FolderContents) -> Iterator[Outcome]:
    strays = [name for name in held.others if name.endswith("-stray")]
    futures = [name for name in held.others if name.endswith("-future")]
    if strays:
        yield _W25(
            owner.at(folder),
            f"{several(len(strays), 'folder')} put aside: {listed(strays, NAMED_MAX)}",
            "left of an earlier attempt, or of an earlier start in KRaft mode: they take space, "
            "and may have the only copy of records",
            "if nobody misses their records, remove them",
        )
    if futures:
        yield _W25(
            owner.at(folder),
            f"{several(len(futures), 'move')} between folders under way: "
            f"{listed(futures, NAMED_MAX)}",
            "goes on after each restart of the broker",
            "wait for it: kafka-log-dirs --describe",
            Severity.INFO,
        )


def _metadata_log(
    survey: Survey, owner: Properties, folder: str, held: FolderContents
) -> Iterator[Outcome]:
    """A metadata log on a broker: of this migration, or of an earlier one."""
    if held.quorum_state is None:
        return
    state = _decoded(held.quorum_state)
    voters = {
        one.get("voterId") for one in state.get("currentVoters") or () if isinstance(one, dict)
    }
    epoch = state.get("leaderEpoch", 0)
    foreign = bool(voters and survey.controller_ids and voters != survey.controller_ids)
    # A broker that was started for the migration before its controllers has seen no leader.
    early = standing(survey).stage in _BEFORE and (not state or epoch)
    if not foreign and not early:
        return
    said = f"leader epoch {epoch}, voters {listed(sorted(map(str, voters)))}" if state else "empty"
    yield _W25(
        owner.at(folder),
        f"{layout.FOLDER} of an earlier attempt ({said})"
        if not foreign
        else f"{layout.FOLDER} of other controllers ({said})",
        "a broker of 3.7.1 or later deletes it when it starts for the migration in ZooKeeper mode; "
        "an older one, or one in KRaft mode, takes it for its log and does not follow the new "
        "controllers",
        f"while the broker is down, remove {folder}/{layout.FOLDER}",
    )


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(data or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
