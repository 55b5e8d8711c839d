"""``kraft-bridge zk diff``: a tree compared with a controller's metadata."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from emulator.commands.common import Json, Override, fail
from emulator.commands.exits import ExitCode
from emulator.commands.json_forms import stamped
from emulator.commands.zk.client import Ensemble, SecuredBy, ensemble
from emulator.io.printable import printable, printable_json

if TYPE_CHECKING:
    from emulator.migration.tree_diff import Difference

EQUAL: Final = "EQUAL"
DIFFERENT: Final = "DIFFERENT"


def diff(
    log_dir: Annotated[
        Path, typer.Option("--log-dir", help="The folder of the controller that leads.")
    ],
    zookeeper: Ensemble = "",
    config: SecuredBy = None,
    overrides: Override = None,
    *,
    as_json: Json = False,
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="Show SCRAM keys, passwords and tokens too.")
    ] = False,
) -> None:
    """Compare ZooKeeper's tree with a controller's metadata, and name every znode that differs."""
    import msgspec

    from emulator.commands.folders import FolderUnreadableError
    from emulator.commands.zk import compare

    try:
        hosts, security = ensemble(zookeeper, config, overrides)
        found, note = compare.compare(hosts, log_dir, security)
    except FolderUnreadableError as error:
        raise fail(str(error), ExitCode.WRONG) from error
    except compare.ZooKeeperUnreadableError as error:
        raise fail(str(error), ExitCode.UNREACHABLE) from error
    typer.echo(f"{_verdict(found)}: {note}{_summary(found)}", err=as_json)
    if as_json:
        document = to_json(found, note, with_secrets=with_secrets)
        typer.echo(printable_json(msgspec.json.encode(document).decode()))
    else:
        for difference in found:
            typer.echo(printable(to_text(difference)))
    raise typer.Exit(ExitCode.FOUND if found else ExitCode.DONE)


def _verdict(found: Sequence[Difference]) -> str:
    plural = "s" if len(found) > 1 else ""
    return f"{DIFFERENT}: {len(found)} znode{plural}" if found else EQUAL


def _summary(found: Sequence[Difference]) -> str:
    """What the list does not show: that it is empty, or that it may be about the folder alone."""
    from emulator.znodes import controller, migration, own

    if not found:
        return ": no znode differs"
    if {one.path for one in found} <= {controller.PATH, migration.PATH, own.PATH}:
        return (
            ". The controllers' own znodes alone differ, as they do from the folder of a "
            "controller that does not lead"
        )
    return ""


def to_text(one: Difference) -> str:
    """One line: kind and path, and of a version what it is and what it should be at least."""
    line = f"{one.kind:10} {one.path}"
    return line if one.epoch is None else f"{line} {one.version}, below {one.epoch}"


def to_json(found: Sequence[Difference], note: str, *, with_secrets: bool) -> dict[str, Any]:
    """One object of the form ``zk-diff``."""
    from emulator.servers.zk_dump import redact

    def shown(path: str, data: bytes | None) -> str | None:
        if data is None:
            return None
        return (data if with_secrets else redact(path, data)).decode("utf-8", "backslashreplace")

    rows = [
        {
            "path": one.path,
            "kind": one.kind,
            "zookeeper": shown(one.path, one.have),
            "controller": shown(one.path, one.want),
            "version": one.version,
            "partition_epoch": one.epoch,
        }
        for one in found
    ]
    verdict = DIFFERENT if found else EQUAL
    return stamped("zk-diff", {"verdict": verdict, "compared": note, "differences": rows})
