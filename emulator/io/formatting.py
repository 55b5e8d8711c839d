"""A node's folders made ready for its first start, as ``kafka-storage`` of Kafka 3.9 does it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emulator.broker.kraft import folders as broker_folders
from emulator.config.broker import BrokerConfig
from emulator.config.load import Config
from emulator.io import folder_holder
from emulator.io.clock import Clock
from emulator.io.disk import Disk, FolderLockedError
from emulator.io.printable import sentence
from emulator.metadata.metadata_version import (
    FEATURE_NAME,
    LATEST,
    VERSIONS,
    Feature,
    MetadataVersion,
)
from emulator.node import recovery
from emulator.raft import layout
from emulator.raft.format import (
    MetaProperties,
    parse_bootstrap_checkpoint,
    parse_meta_properties,
    render_bootstrap_checkpoint,
    render_meta_properties,
    usable_directory_id,
)
from emulator.raft.layout import RecoveryError
from emulator.raft.quorum_state import NEW_QUORUM
from emulator.seam import ReplaceFile
from wire import records as r
from wire.record_serde import decode_record, encode_record
from wire.text import uuid_from_text, uuid_text

_NEW_VOTER = "; a voter of a new quorum"
_OLD_VOTER = (
    "; it has to follow a leader before it votes. In a new quorum every voter needs --new-quorum"
)


class FormatError(Exception):
    """The folder cannot be formatted or used; the text says why and what to do."""


class WrongFormatError(FormatError):
    """What was asked for is wrong: a cluster id or a version."""


def new_cluster_id() -> str:
    """Any id, as Kafka writes one."""
    return uuid_text(os.urandom(16))


def newest_of(release: str) -> MetadataVersion:
    """The newest metadata.version of a release, which a migrating broker's IBP must equal."""
    return MetadataVersion.from_ibp(release)


def format_folder(
    config: Config,
    cluster_id: str,
    release_version: str | None,
    *,
    ignore_formatted: bool,
    new_quorum: bool = False,
) -> str:
    """Write ``meta.properties`` and ``bootstrap.checkpoint``; returns a sentence on what was done.

    Args:
        config: names the folder, the node and the release.
        cluster_id: 22 characters as ZooKeeper's ``/cluster/id`` holds them.
        release_version: ``3.9-IV0`` or ``3.9``; None: the newest of ``kraftbridge.release``.
        ignore_formatted: a formatted folder is left as it is instead of being an error.
        new_quorum: this voter, of several, never had a record; one in whose folder there are some
            is refused. Of a folder that is formatted this is noted too.

    Raises:
        FormatError: wrong id or version, a folder in use, one already formatted, or records in the
            folder of a voter that is said to be new.
    """
    check_cluster_id(cluster_id)
    version = checked_version(config, release_version or config.release)
    root = Path(config.log_dir).absolute()
    several = len(config.voters) > 1
    new_voter = new_quorum and several
    noted = [ReplaceFile(layout.VOTER_STATE, NEW_QUORUM)] if new_voter else []
    already = f"{root} is already formatted{_NEW_VOTER if noted else ''}"
    if new_voter:
        _check_empty(root)
    if _formatted(root, ignore_formatted=ignore_formatted) and not noted:
        return already
    directory = _directory_id()
    with _locked(root) as disk:
        # What was found before is another process's by now, if that has had the lock meanwhile.
        if new_voter:
            _check_empty(root)
        if _formatted(root, ignore_formatted=ignore_formatted):
            _write(disk, *noted)
            return already
        record = encode_record(
            r.FeatureLevelRecord(name="metadata.version", feature_level=version.level), 0
        )
        meta = MetaProperties(cluster_id, config.node_id, directory)
        checkpoint = render_bootstrap_checkpoint([record], Clock().now_ms())
        _write(
            disk,
            ReplaceFile(layout.BOOTSTRAP_CHECKPOINT, checkpoint),
            *noted,
            ReplaceFile(layout.META_PROPERTIES, render_meta_properties(meta)),
        )
    voter = _NEW_VOTER if noted else _OLD_VOTER if several else ""
    return (
        f"Formatted {root} with metadata.version {version.name}, "
        f"directory {uuid_text(directory)}{voter}"
    )


def checked_version(config: Config, text: str) -> MetadataVersion:
    """A metadata.version by its name, if this controller can begin with it.

    Raises:
        WrongFormatError: it cannot.
    """
    try:
        version = MetadataVersion.from_ibp(text)
    except ValueError as error:
        first = next(one for one in VERSIONS.values() if one.supports(Feature.MIGRATION))
        why = f"release version: {error}; a migration needs {first.name} to {LATEST.name}"
        raise WrongFormatError(why) from error
    if version.level > newest_of(config.release).level:
        raise WrongFormatError(
            f"{version.name} is newer than release {config.release} knows; "
            "set kraftbridge.release or choose an older one"
        )
    if config.migration_enabled and not version.supports(Feature.MIGRATION):
        raise WrongFormatError(
            f"{version.name} cannot migrate, and zookeeper.metadata.migration.enable is true: "
            "choose 3.4 or later, that of the brokers' inter.broker.protocol.version"
        )
    return version


def format_broker(config: BrokerConfig, cluster_id: str, *, ignore_formatted: bool) -> str:
    """Write ``meta.properties`` into every log folder of a broker; returns what was done.

    Raises:
        FormatError: a wrong id, a folder in use, or one already formatted.
    """
    check_cluster_id(cluster_id)
    done: list[str] = []
    for root in folders_of(config):
        try:
            if _format_one(root, cluster_id, config.node_id, ignore_formatted=ignore_formatted):
                done.append(str(root))
        except FormatError as error:
            if not done:
                raise
            rest = f"formatted before: {', '.join(done)}; --ignore-formatted does the others"
            raise FormatError(f"{error}; {rest}") from error
    return f"Formatted {', '.join(done)}" if done else "All folders are already formatted"


def _format_one(root: Path, cluster_id: str, node_id: int, *, ignore_formatted: bool) -> bool:
    """Format one folder of a broker; whether it was not formatted before."""
    if _formatted(root, ignore_formatted=ignore_formatted):
        return False
    with _locked(root) as disk:
        if _formatted(root, ignore_formatted=ignore_formatted):
            return False
        meta = MetaProperties(cluster_id, node_id, _directory_id())
        _write(disk, ReplaceFile(layout.META_PROPERTIES, render_meta_properties(meta)))
    return True


def folders_of(config: Config | BrokerConfig) -> list[Path]:
    """The folders that ``format`` writes, absolute."""
    if isinstance(config, BrokerConfig):
        named = dict.fromkeys((config.metadata_log_dir, *config.log_dirs))
        return [Path(name).absolute() for name in named]
    return [Path(config.log_dir).absolute()]


def is_formatted(root: Path) -> bool:
    """Whether ``format`` has written a folder."""
    return (root / layout.META_PROPERTIES).exists()


def check_unformatted(root: Path) -> None:
    """Refuse a folder that is formatted.

    Raises:
        FormatError: it is.
    """
    _formatted(root, ignore_formatted=False)


def check_same(
    config: Config | BrokerConfig, cluster_id: str | None, version: MetadataVersion | None
) -> str | None:
    """Refuse formatted folders of another cluster or node, or with another first version.

    Returns the id of their cluster; None if one of them is not formatted.

    Args:
        config: names the folders and the node.
        cluster_id: that they are to have; None: any, but one.
        version: the same; a folder that does not say its first version has any.

    Raises:
        FormatError: one differs, or cannot be read.
    """
    roots = [root for root in folders_of(config) if is_formatted(root)]
    found = {}
    for root in roots:
        theirs, differs = _compared(config, root, version)
        if cluster_id is not None and theirs != cluster_id:
            differs.insert(0, f"cluster id {theirs}, not {cluster_id}")
        if differs:
            raise FormatError(
                f"{root} is already formatted, with {' and '.join(differs)}: it is another "
                "node's, or was formatted wrongly; name another folder in log.dirs, or empty this "
                "one first"
            )
        found[str(root)] = {"cluster.id": theirs}
    try:
        one = broker_folders.one_cluster(found)
    except broker_folders.BrokerFolderError as error:
        raise FormatError(str(error)) from error
    return one if len(roots) == len(folders_of(config)) else None


def _compared(
    config: Config | BrokerConfig, root: Path, version: MetadataVersion | None
) -> tuple[str, list[str]]:
    """The cluster of a formatted folder, and what else differs from what is asked for."""
    try:
        data = (root / layout.META_PROPERTIES).read_bytes()
        if isinstance(config, BrokerConfig):
            (values,) = broker_folders.parsed_folders(config.node_id, {str(root): data}).values()
            return values["cluster.id"], []
        meta, first = parse_meta_properties(data), _first_version(root)
    except OSError as error:
        raise FormatError(sentence(error)) from error
    except RecoveryError as error:
        raise FormatError(recovery.damaged(str(root), error)) from error
    except broker_folders.BrokerFolderError as error:
        raise FormatError(str(error)) from error
    differs = []
    if meta.node_id != config.node_id:
        differs.append(f"node id {meta.node_id}, not {config.node_id}")
    if version is not None and first not in {None, version.level}:
        named = VERSIONS[first].name if first in VERSIONS else first
        differs.append(f"{FEATURE_NAME} {named}, not {version.name}")
    return meta.cluster_id, differs


def _first_version(root: Path) -> int | None:
    """The level of metadata.version in ``bootstrap.checkpoint``; None: there is none.

    Raises:
        OSError: the file cannot be read.
        RecoveryError: it is damaged.
    """
    path = root / layout.BOOTSTRAP_CHECKPOINT
    if not path.exists():
        return None
    values = parse_bootstrap_checkpoint({layout.BOOTSTRAP_CHECKPOINT: path.read_bytes()})
    try:
        for record, _ in map(decode_record, values):
            if isinstance(record, r.FeatureLevelRecord) and record.name == FEATURE_NAME:
                return record.feature_level
    except ValueError as error:
        raise RecoveryError(layout.BOOTSTRAP_CHECKPOINT, None, str(error)) from error
    return None


def check_cluster_id(cluster_id: str) -> None:
    """Refuse what is no uuid.

    Raises:
        WrongFormatError: it is none.
    """
    try:
        uuid_from_text(cluster_id)
    except ValueError as error:
        why = f"cluster id {cluster_id!r}: {error}; give the id that /cluster/id holds"
        raise WrongFormatError(why) from error


def _check_empty(root: Path) -> None:
    """Refuse the folder of a voter that has records.

    Raises:
        FormatError: there are some.
        OSError: its log's folder cannot be listed.
    """
    folder = root / layout.FOLDER
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.suffix in {".log", ".checkpoint"} and path.stat().st_size:
            raise FormatError(f"{path} holds records, so this voter belongs to a quorum already")


def _formatted(root: Path, *, ignore_formatted: bool) -> bool:
    formatted = is_formatted(root)
    if formatted and not ignore_formatted:
        raise FormatError(
            f"{root} is already formatted; --ignore-formatted leaves it as it is, and to format it "
            "anew, empty it first"
        )
    return formatted


def _directory_id() -> bytes:
    directory = os.urandom(16)
    while not usable_directory_id(directory):
        directory = os.urandom(16)
    return directory


@contextmanager
def _locked(root: Path) -> Iterator[Disk]:
    """The folder, with its lock.

    Raises:
        FormatError: it cannot be made, or is in use.
    """
    try:
        disk = Disk(root)
    except OSError as error:
        raise FormatError(sentence(error)) from error
    except FolderLockedError as error:
        raise FormatError(folder_holder.sentence_of(error)) from error
    try:
        yield disk
    finally:
        disk.close()


def _write(disk: Disk, *files: ReplaceFile) -> None:
    try:
        for file in files:
            disk.replace(file)
    except OSError as error:
        raise FormatError(f"{sentence(error)}; nothing was formatted in {disk.root}") from error
