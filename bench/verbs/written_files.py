"""Writes the files of production's nodes for a copy on this machine: ``rehearse --write-files``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import javaproperties
import typer

from bench.rehearsal.clone import CloneError, CloneFile, NodeInput, NodeKind, clones
from emulator.commands.common import fail
from emulator.commands.exits import ExitCode
from emulator.commands.preflight import inputs
from emulator.config.zookeeper import connect_string
from emulator.io.printable import printable, sentence
from emulator.operations.preflight.node_file import Properties
from emulator.servers.ports import free_ports


def write(folder: Path, configs: Sequence[Path], targets: Sequence[Path], zookeeper: str) -> None:
    """Write a file for each that is given, and say what is in them; nothing is started.

    Raises:
        typer.Exit: it cannot be done, and the reason was printed; then nothing was written.
    """
    folder = folder.absolute()
    if not configs and not targets:
        raise fail("--write-files needs the files of nodes: -c, --target", ExitCode.WRONG)
    try:
        servers, chroot = connect_string(zookeeper)
    except ValueError as error:
        raise fail(f"--copy-zookeeper {zookeeper}: {error}", ExitCode.WRONG) from error
    if chroot:
        raise fail(
            f"--copy-zookeeper {zookeeper}: without a chroot: each file keeps its own",
            ExitCode.WRONG,
        )
    zookeeper = ",".join(map(str, servers))
    _check_place(folder, [*configs, *targets])
    try:
        nodes = [_node(inputs.read_properties(one), target=False) for one in configs]
        nodes += [_node(inputs.read_properties(one), target=True) for one in targets]
        made = clones(nodes, _ports(), folder, zookeeper)
    except (inputs.PreflightError, CloneError) as error:
        raise fail(str(error), ExitCode.WRONG) from error
    _check_folders(made)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for one in made:
            _written(folder / one.name, one)
    except OSError as error:
        raise fail(f"--write-files {sentence(error)}") from error
    for one in made:
        typer.echo(printable(f"{folder / one.name}: {one.values.get('listeners', '')}"))
        if one.left:
            typer.echo(printable(f"  still names what it named: {', '.join(one.left)}"))
    typer.echo(f"ZooKeeper: {zookeeper}; each node may be started now, and none was")


def _check_place(folder: Path, files: Sequence[Path]) -> None:
    here = folder.resolve()
    if inside := next((one for one in files if one.resolve().is_relative_to(here)), None):
        raise fail(
            f"--write-files {folder}: {inside} is there, and nothing is written where inputs are",
            ExitCode.WRONG,
        )


def _check_folders(made: Sequence[CloneFile]) -> None:
    for path in dict.fromkeys(one for file in made for one in file.folders):
        try:
            used = path.exists() and (not path.is_dir() or any(path.iterdir()))
        except OSError as error:
            raise fail(f"--write-files {sentence(error)}") from error
        if used:
            raise fail(
                f"--write-files: the log folder {path} is not empty: give another folder, or "
                "delete what an earlier copy has left there",
                ExitCode.WRONG,
            )


def _node(one: Properties, *, target: bool) -> NodeInput:
    number = one.node_id
    if number is None:
        raise CloneError(f"{one.name}: neither node.id nor broker.id is a number")
    kind = NodeKind.CONTROLLER if one.is_controller else NodeKind.BROKER
    kind = NodeKind.TARGET if target and kind is NodeKind.BROKER else kind
    return NodeInput(one.name, kind, number, one.values)


def _ports() -> Iterator[int]:
    """Free ones, without end."""
    return itertools.chain.from_iterable(free_ports(1) for _ in itertools.count())


def _written(path: Path, one: CloneFile) -> None:
    """Readable by its owner alone: passwords are in it as they were."""
    text = javaproperties.dumps(dict(one.values), timestamp=False, comments=None)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="latin-1") as file:
        file.write(text)
