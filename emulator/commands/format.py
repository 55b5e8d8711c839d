"""``kraft-bridge format``: prepare a node's folders, as ``kafka-storage`` of Kafka 3.9."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from os.path import normpath
from pathlib import Path
from typing import Annotated

import typer

from emulator.commands import in_use
from emulator.commands.common import ConfigFile, Override, configured, fail
from emulator.commands.exits import ExitCode
from emulator.config.broker import BrokerConfig, load_broker
from emulator.config.java_text import trim
from emulator.config.load import Config, ConfigError, load
from emulator.config.reading import name_list
from emulator.io.clock import Clock
from emulator.io.disk import Disk, FolderLockedError
from emulator.io.failures import sentence
from emulator.metadata.metadata_version import Feature, MetadataVersion
from emulator.raft import layout
from emulator.raft.format import (
    MetaProperties,
    render_bootstrap_checkpoint,
    render_meta_properties,
    usable_directory_id,
)
from emulator.raft.voter_state import NEW_QUORUM
from emulator.seam import ReplaceFile
from wire import records as r
from wire.record_serde import encode_record
from wire.text import uuid_from_text, uuid_text

_NEW_VOTER = "; a voter of a new quorum"
_OLD_VOTER = (
    "; it has to follow a leader before it votes. In a new quorum every voter needs --new-quorum"
)


class FormatError(Exception):
    """The folder cannot be formatted or used; the text says why and what to do."""


class WrongFormatError(FormatError):
    """What was asked for is wrong: a cluster id or a version."""


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
    _check(cluster_id)
    try:
        version = MetadataVersion.from_ibp(release_version or config.release)
    except ValueError as error:
        raise WrongFormatError(f"release version: {error}") from error
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
    root = Path(config.log_dir)
    several = len(config.voters) > 1
    noted: list[ReplaceFile] = []
    if new_quorum and several:
        _check_empty(root)
        noted.append(ReplaceFile(layout.VOTER_STATE, NEW_QUORUM))
    if _formatted(root, ignore_formatted=ignore_formatted):
        if noted:
            _write(root, *noted)
        return f"{root} is already formatted{_NEW_VOTER if noted else ''}"
    directory = _directory_id()
    record = encode_record(
        r.FeatureLevelRecord(name="metadata.version", feature_level=version.level), 0
    )
    meta = MetaProperties(cluster_id, config.node_id, directory)
    checkpoint = render_bootstrap_checkpoint([record], Clock().now_ms())
    _write(
        root,
        ReplaceFile(layout.BOOTSTRAP_CHECKPOINT, checkpoint),
        *noted,
        ReplaceFile(layout.META_PROPERTIES, render_meta_properties(meta)),
    )
    voter = _NEW_VOTER if noted else _OLD_VOTER if several else ""
    return (
        f"Formatted {root} with metadata.version {version.name}, "
        f"directory {uuid_text(directory)}{voter}"
    )


def format_broker(config: BrokerConfig, cluster_id: str, *, ignore_formatted: bool) -> str:
    """Write ``meta.properties`` into every log folder of a broker; returns what was done.

    Raises:
        FormatError: a wrong id, a folder in use, or one already formatted.
    """
    _check(cluster_id)
    done = []
    for name in dict.fromkeys((config.metadata_log_dir, *config.log_dirs)):
        root = Path(name)
        if not _formatted(root, ignore_formatted=ignore_formatted):
            meta = MetaProperties(cluster_id, config.node_id, _directory_id())
            _write(root, ReplaceFile(layout.META_PROPERTIES, render_meta_properties(meta)))
            done.append(name)
    return f"Formatted {', '.join(done)}" if done else "All folders are already formatted"


def _check(cluster_id: str) -> None:
    try:
        uuid_from_text(cluster_id)
    except ValueError as error:
        raise WrongFormatError(f"cluster id {cluster_id!r}: {error}") from error


def _check_empty(root: Path) -> None:
    """Refuse the folder of a voter that has records.

    Raises:
        FormatError: there are some.
    """
    for path in (root / layout.FOLDER).glob("*"):
        if path.suffix in {".log", ".checkpoint"} and path.stat().st_size:
            raise FormatError(f"{path} holds records, so this voter belongs to a quorum already")


def _formatted(root: Path, *, ignore_formatted: bool) -> bool:
    formatted = (root / layout.META_PROPERTIES).exists()
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


def _write(root: Path, *files: ReplaceFile) -> None:
    try:
        disk = Disk(root)
    except OSError as error:
        raise FormatError(sentence(error)) from error
    except FolderLockedError as error:
        raise FormatError(in_use.sentence_of(error)) from error
    try:
        for file in files:
            disk.replace(file)
    except OSError as error:
        raise FormatError(f"{sentence(error)}; nothing was formatted in {root}") from error
    finally:
        disk.close()


def format_command(
    config: ConfigFile,
    cluster_id: Annotated[
        str,
        typer.Option(
            "--cluster-id", "-t", help="The cluster's id; for a migration that of /cluster/id."
        ),
    ],
    release_version: Annotated[
        str | None,
        typer.Option("--release-version", "-r", help="First metadata.version, such as 3.9-IV0."),
    ] = None,
    overrides: Override = None,
    *,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", "-g", help="Do nothing if already formatted.")
    ] = False,
    new_quorum: Annotated[
        bool,
        typer.Option(
            "--new-quorum",
            help="Of several controllers none has ever run. Not for one whose disk was replaced.",
        ),
    ] = False,
) -> None:
    """Prepare the log folders of a controller or a broker, as kafka-storage does."""
    settings = configured(config, overrides, _either)
    if new_quorum and isinstance(settings, BrokerConfig):
        raise fail("--new-quorum is for controllers, and this is a broker")
    try:
        if isinstance(settings, BrokerConfig):
            text = format_broker(settings, cluster_id, ignore_formatted=ignore_formatted)
        else:
            text = format_folder(
                settings,
                cluster_id,
                release_version,
                ignore_formatted=ignore_formatted,
                new_quorum=new_quorum,
            )
    except FormatError as error:
        wrong = isinstance(error, WrongFormatError)
        raise fail(str(error), ExitCode.WRONG if wrong else ExitCode.FOUND) from error
    typer.echo(text)


def _either(raw: Mapping[str, str]) -> tuple[Config | BrokerConfig, tuple[str, ...]]:
    """The settings of a broker if ``process.roles`` says so, else of a controller."""
    roles = trim(raw.get("process.roles", ""))
    if not roles and trim(raw.get("zookeeper.connect", "")):
        why = "a broker in ZooKeeper mode (no process.roles) is not formatted, only started"
        raise ConfigError([why], ())
    if roles == "broker":
        return load_broker(raw, socket.getfqdn())
    config, warnings = load(raw)
    return config, (*warnings, *_unused(raw, config.log_dir))


def _unused(raw: Mapping[str, str], used: str) -> tuple[str, ...]:
    """A line about the folders that ``kafka-storage`` would format too."""
    named = name_list(trim(raw.get("log.dirs", "")) or raw.get("log.dir", ""))
    others = ", ".join(one for one in dict.fromkeys(named) if normpath(one) != normpath(used))
    if not others:
        return ()
    one = f"a controller has one folder, that of the metadata log, which is {used} here"
    return (f"log.dirs: not used, and not formatted: {others}; {one}",)
