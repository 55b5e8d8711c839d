"""``kraft-bridge zk diff``: a tree compared with a controller's metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.common import Json, Override, fail
from emulator.commands.exits import ExitCode
from emulator.commands.zk.ensemble import Ensemble, SecuredBy, ensemble


def diff(
    log_dir: Annotated[Path, typer.Option("--log-dir", help="The controller's folder.")],
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

    from bench.rig.zk_dump import redact
    from emulator.commands.folders import FolderUnreadableError
    from emulator.commands.zk import compare

    try:
        hosts, security = ensemble(zookeeper, config, overrides)
        found, note = compare.compare(hosts, log_dir, security)
    except FolderUnreadableError as error:
        raise fail(str(error), ExitCode.WRONG) from error
    except compare.ZooKeeperUnreadableError as error:
        raise fail(str(error), ExitCode.UNREACHABLE) from error
    typer.echo(note, err=True)
    for difference in found:
        if as_json:
            both = (difference.have, difference.want)
            have, want = (
                both if with_secrets else (one and redact(difference.path, one) for one in both)
            )
            row = {
                "path": difference.path,
                "kind": difference.kind,
                "zookeeper": _text(have),
                "controller": _text(want),
            }
            typer.echo(msgspec.json.encode(row).decode())
        else:
            typer.echo(f"{difference.kind:10} {difference.path}")
    raise typer.Exit(1 if found else 0)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")
