"""``kraft-bridge format``: prepare a node's folders, as ``kafka-storage`` of Kafka 3.9."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from emulator.commands.common import ConfigFile, Override, configured, fail
from emulator.commands.exits import ExitCode
from emulator.config import zookeeper as config_zookeeper
from emulator.config.broker import BrokerConfig, load_broker
from emulator.config.java_text import trim
from emulator.config.load import Config, ConfigError, load
from emulator.config.reading import name_list
from emulator.io import formatting
from emulator.io.formatting import FormatError, WrongFormatError
from emulator.io.printable import printable

if TYPE_CHECKING:
    from emulator.commands.format.deciding import Decision

NEEDED_S: Final = 10.0
"""How long ZooKeeper, and then brokers, are asked for what is not given."""
COMPARED_S: Final = 2.0
"""How long each is asked for what is given, and would only be compared."""


def format_command(
    config: ConfigFile,
    cluster_id: Annotated[
        str | None,
        typer.Option(
            "--cluster-id", "-t", help="The cluster's id; default: that of /cluster/id, read."
        ),
    ] = None,
    release_version: Annotated[
        str | None,
        typer.Option(
            "--release-version",
            "-r",
            help="First metadata.version, such as 3.9-IV0; default in a migration: the brokers' "
            "inter.broker.protocol.version, read.",
        ),
    ] = None,
    overrides: Override = None,
    *,
    brokers: Annotated[
        list[Path] | None,
        typer.Option(
            "--broker", metavar="FILE", help="A broker's server.properties, in place of asking it."
        ),
    ] = None,
    unchecked: Annotated[
        bool,
        typer.Option("--unchecked", help="Take -t and -r as given; compare them with nothing."),
    ] = False,
    ignore_formatted: Annotated[
        bool,
        typer.Option(
            "--ignore-formatted", "-g", help="Do nothing if already formatted, and as asked for."
        ),
    ] = False,
    new_quorum: Annotated[
        bool,
        typer.Option(
            "--new-quorum",
            help="Of several controllers none has ever run. Not for one whose disk was replaced.",
        ),
    ] = False,
) -> None:
    """Prepare the log folders of a controller or a broker, as kafka-storage does.

    In a migration the cluster's id is read from ZooKeeper and the version from its brokers, and
    what is given is compared with them.
    """
    from emulator.commands.format import following

    settings = configured(config, overrides, _either)
    if isinstance(settings, BrokerConfig):
        if new_quorum or brokers:
            option = "--new-quorum" if new_quorum else "--broker"
            raise fail(f"{option} is for controllers, and this is a broker", ExitCode.WRONG)
        if release_version is not None:
            _warn(f"not used: -r {release_version}: the controllers have it, and this is a broker")
    asked = ToFormat(settings, config, cluster_id, release_version, tuple(brokers or ()), unchecked)
    try:
        done, decisions, rolled_back = _formatted(
            asked, ignore_formatted=ignore_formatted, new_quorum=new_quorum
        )
    except FormatError as error:
        code = ExitCode.WRONG if isinstance(error, WrongFormatError) else ExitCode.FOUND
        raise fail(printable(str(error)), code) from error
    for line in (line for one in decisions for line in one.unchecked):
        _warn(f"not checked: {line}")
    sources = [line for one in decisions for line in one.sources]
    for line in (done, *sources, *following.lines(settings, config, bool(overrides), rolled_back)):
        typer.echo(printable(line))


def _formatted(
    asked: ToFormat, *, ignore_formatted: bool, new_quorum: bool
) -> tuple[str, tuple[Decision, Decision], bool]:
    """Format the folders: what was done, the cluster id and version, whether it was rolled back.

    Raises:
        FormatError: it cannot be done, or not all of it.
        typer.Exit: see :func:`_decided`.
    """
    present = _present(asked, ignore_formatted=ignore_formatted)
    identity, version, rolled_back = _decided(asked, needed=present is None)
    if ignore_formatted:
        _check_same(asked.settings, identity.value, version.value)
    done = _format(
        asked,
        identity.value or present or "",
        version.value,
        ignore_formatted=ignore_formatted,
        new_quorum=new_quorum,
    )
    if ignore_formatted:  # by another process, if it was not formatted before
        _check_same(asked.settings, identity.value, version.value)
    return done, (identity, version), rolled_back


def _warn(line: str) -> None:
    typer.echo(printable(line), err=True)


@dataclass(frozen=True, slots=True)
class ToFormat:
    """What is to be formatted, and what was given; ``unchecked``: that is compared with nothing."""

    settings: Config | BrokerConfig
    file: Path
    cluster_id: str | None
    version: str | None
    brokers: tuple[Path, ...]
    unchecked: bool

    @property
    def migrates(self) -> bool:
        """Whether it is a controller with the migration on."""
        return isinstance(self.settings, Config) and self.settings.migration_enabled


def _present(asked: ToFormat, *, ignore_formatted: bool) -> str | None:
    """The cluster id in the folders, if all are formatted and may be; None: some are not.

    Raises:
        FormatError: one is and may not be, or is another node's; or what is given is wrong.
    """
    if asked.cluster_id is not None:
        formatting.check_cluster_id(asked.cluster_id)
    if asked.version is not None and isinstance(asked.settings, Config):
        formatting.checked_version(asked.settings, asked.version)
    if not ignore_formatted:
        for root in formatting.folders_of(asked.settings):
            formatting.check_unformatted(root)
        return None
    return _check_same(asked.settings, asked.cluster_id, asked.version)


def _check_same(
    settings: Config | BrokerConfig, cluster_id: str | None, version: str | None
) -> str | None:
    first = None
    if version is not None and isinstance(settings, Config):
        first = formatting.checked_version(settings, version)
    return formatting.check_same(settings, cluster_id, first)


def _decided(asked: ToFormat, *, needed: bool) -> tuple[Decision, Decision, bool]:
    """The cluster id and the version, as far as they are given, or can be read in time.

    Third: whether ``/kraft_bridge`` was read, and is marked by a rollback.

    Raises:
        typer.Exit: one that is needed is missing, or differs from what was read.
    """
    from emulator.commands.format import asking, deciding

    no_file = asked.migrates and not asked.brokers
    reads_id = asked.cluster_id is None and needed
    compares_id = asked.migrates and not (asked.unchecked and asked.cluster_id is not None)
    reads_version = asked.version is None and needed and no_file
    compares_version = no_file and not (asked.unchecked and asked.version is not None)
    identity, versions, rolled_back = deciding.ReadValues(), deciding.ReadValues(), False
    if reads_id or compares_id or compares_version:
        static = asked.settings.static
        hosts = trim(static.get("zookeeper.connect", ""))
        if hosts:
            patience_s = NEEDED_S if reads_id or reads_version else COMPARED_S
            answer = asking.zookeeper(hosts, config_zookeeper.read(static)[0], patience_s)
            rolled_back = answer.rolled_back
            if reads_id or compares_id:
                identity = answer.cluster_id
            if compares_version and isinstance(asked.settings, Config):
                patience_s = NEEDED_S if reads_version else COMPARED_S
                versions = asking.versions(answer, asked.settings, patience_s)
        else:
            unasked = f"{asked.file} has no zookeeper.connect; give -t"
            identity = deciding.ReadValues(unasked=unasked)
    if asked.brokers and not (asked.unchecked and asked.version is not None):
        versions = asking.of_files(asked.brokers)
    try:
        return (
            deciding.cluster_id(asked.cluster_id, identity, needed=needed),
            deciding.version(
                asked.version, versions, needed=needed and (asked.migrates or bool(asked.brokers))
            ),
            rolled_back,
        )
    except deciding.UndecidedError as error:
        raise fail(printable(str(error)), error.code) from error


def _format(
    asked: ToFormat,
    cluster_id: str,
    version: str | None,
    *,
    ignore_formatted: bool,
    new_quorum: bool,
) -> str:
    """Format what is not formatted."""
    settings = asked.settings
    if isinstance(settings, BrokerConfig):
        return formatting.format_broker(settings, cluster_id, ignore_formatted=ignore_formatted)
    return formatting.format_folder(
        settings, cluster_id, version, ignore_formatted=ignore_formatted, new_quorum=new_quorum
    )


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
