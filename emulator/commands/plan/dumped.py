"""``kraft-bridge plan --dump``: what a migration would copy from a dumped tree, folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import asdict
from rich.console import Console
from rich.table import Table

from emulator.commands import folders, input_file
from emulator.commands.json_forms import stamped
from emulator.config.load import Config
from emulator.config.passwords import PasswordSettings
from emulator.io.printable import printable, sentence
from emulator.metadata import EMPTY, replay
from emulator.metadata.metadata_version import LATEST, MetadataVersion
from emulator.migration.taking_over.dry_run import DryRun, Note, dry_run
from emulator.node import recovery
from emulator.raft import layout
from emulator.raft.format import parse_bootstrap_checkpoint
from emulator.raft.layout import RecoveryError
from emulator.znodes.entities import entities
from emulator.znodes.passwords import Passwords
from wire.record_serde import decode_record


class PlanError(Exception):
    """The dump or the controller's folder cannot be read; the text names it."""


def plan(file: Path, config: Config | None, release_version: str | None = None) -> DryRun:
    """Find what would be copied from a dump.

    Args:
        file: what ``kraft-bridge zk dump`` printed, secrets left out or not.
        config: the controller's; None: a controller of the newest release.
        release_version: metadata.version, such as 3.9-IV0; None: that of the controller's folder,
            else what ``kraft-bridge format`` would choose.

    Raises:
        PlanError: see there.
    """
    try:
        tree = input_file.load(file)
        version = _version(config, release_version)
    except (input_file.TreeFileError, folders.FolderUnreadableError) as error:
        raise PlanError(str(error)) from error
    except ValueError as error:
        raise PlanError(f"release version: {error}") from error
    settings = PasswordSettings() if config is None else config.passwords
    return dry_run(tree, version, entities(Passwords(settings)))


def _version(config: Config | None, release_version: str | None) -> MetadataVersion:
    if release_version is not None:
        return MetadataVersion.from_ibp(release_version)
    if config is None:
        return LATEST
    folder = Path(config.log_dir)
    if (folder / layout.META_PROPERTIES).exists():
        _meta, raft = folders.open_log(folder)
        image = folders.committed_image(raft, folder)
        return image.metadata_version if image.offset >= 0 else _formatted(folder)
    return MetadataVersion.from_ibp(config.release)


def _formatted(folder: Path) -> MetadataVersion:
    """What a controller that has not been started yet will begin with."""
    try:
        data = (folder / layout.BOOTSTRAP_CHECKPOINT).read_bytes()
        values = parse_bootstrap_checkpoint({layout.BOOTSTRAP_CHECKPOINT: data})
    except OSError as error:
        raise PlanError(sentence(error)) from error
    except RecoveryError as error:
        raise PlanError(recovery.damaged(str(folder), error)) from error
    image = EMPTY
    for value in values:
        image = replay(image, decode_record(value)[0], image.offset + 1, 0)
    return image.metadata_version


def as_json(found: DryRun) -> dict[str, Any]:
    """One object of the form ``plan``."""
    version = found.metadata_version
    plain = {
        "metadata_version": {"level": version.level, "name": version.name},
        "records": found.records,
        "refusals": [asdict(one) for one in found.refusals],
        "left": [asdict(one) for one in found.left],
        "unchecked": [asdict(one) for one in found.unchecked],
    }
    return stamped("plan", plain)


def show(found: DryRun, console: Console) -> None:
    """Print the same as text."""
    version = found.metadata_version
    name = version.name
    console.print(
        f"Nothing would be copied at metadata.version {name}: znodes are refused. Without them:"
        if found.refusals
        else f"Would be copied at metadata.version {name}:"
    )
    table = Table()
    table.add_column("record")
    table.add_column("count", justify="right")
    for name, count in found.records.items():
        table.add_row(name, str(count))
    table.add_row("total", str(sum(found.records.values())), style="bold")
    console.print(table)
    if found.refusals:
        console.print(f"Refused: {_znodes(len(found.refusals))}")
        for refusal in found.refusals:
            _line(console, refusal.znode, f"{refusal.reason} ({refusal.code})")
    _notes(console, "Left as it is", found.left)
    _notes(console, "Not looked at", found.unchecked)


def _znodes(count: int) -> str:
    return "1 znode" if count == 1 else f"{count} znodes"


def _notes(console: Console, title: str, notes: list[Note]) -> None:
    if notes:
        console.print(f"{title}: {_znodes(len(notes))}")
    for note in notes:
        _line(console, note.znode, note.reason)


def _line(console: Console, znode: str, text: str) -> None:
    console.print(printable(f"  {znode}: {text}"), markup=False, highlight=False, soft_wrap=True)
