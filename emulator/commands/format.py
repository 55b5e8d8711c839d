"""``kraft-bridge format``: prepare a node's folders, as ``kafka-storage`` of Kafka 3.9."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from os.path import normpath
from typing import Annotated

import typer

from emulator.commands.common import ConfigFile, Override, configured, fail
from emulator.commands.exits import ExitCode
from emulator.config.broker import BrokerConfig, load_broker
from emulator.config.java_text import trim
from emulator.config.load import Config, ConfigError, load
from emulator.config.reading import name_list
from emulator.io.formatting import FormatError, WrongFormatError, format_broker, format_folder


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
