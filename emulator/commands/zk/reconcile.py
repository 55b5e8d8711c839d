"""``kraft-bridge zk reconcile``: compare the whole tree with the metadata, write what differs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.common import Json, Override, fail
from emulator.commands.exits import ExitCode
from emulator.commands.status import leader_of
from emulator.commands.zk.client import Ensemble, SecuredBy, ensemble
from emulator.io.folder_holder import holder


def reconcile(
    log_dir: Annotated[
        Path | None,
        typer.Option("--log-dir", help="The controller's folder; not needed if that of -c runs."),
    ] = None,
    *,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", help="Ask the controller that runs there: its kraftbridge.metrics.port."
        ),
    ] = None,
    zookeeper: Ensemble = "",
    config: SecuredBy = None,
    overrides: Override = None,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds until it gives up.", min=1, max=100_000)
    ] = 300.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Name what differs; claim and write nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Write without asking first.")] = False,
    as_json: Json = False,
) -> None:
    """Compare ZooKeeper's whole tree with the metadata log, and write only what differs.

    While the controller of -c FILE runs, or with --url, the one that leads does it, on this
    machine: the token in its folder is needed. Else all controllers must be stopped: the cluster is
    claimed with the folder of one, which fences every other writer, as a leader does it. Each znode
    that differs is named.

    It ends with code 0 if nothing differs, or if what differed was written; a dry run that finds
    differences, a refusal and a failure end with code 1.
    """
    if url is not None and (zookeeper or config is not None or overrides):
        raise fail("--url excludes --zookeeper, --config and -X", ExitCode.WRONG)
    if not dry_run and not yes:
        _confirm()
    if config is not None and not zookeeper and (log_dir is None or holder(log_dir).held):
        url, log_dir = leader_of(config, own=True)
    if log_dir is None:
        raise fail("give -c FILE of a controller that runs, or --log-dir", ExitCode.WRONG)
    if url is not None:
        from emulator.commands.zk import by_leader

        by_leader.run(url, log_dir, dry_run=dry_run, timeout_s=timeout, as_json=as_json)
        return
    from emulator.commands.zk import offline

    hosts, security = ensemble(zookeeper, config, overrides)
    passwords, voters = offline.settings(config, overrides or ())
    asked = offline.OfflineRun(hosts, security, passwords, voters, log_dir, timeout, dry_run)
    offline.run(asked, as_json=as_json)


def _confirm() -> None:
    """Ask before ZooKeeper is written; without a terminal the answer is no."""
    if not sys.stdin.isatty():
        raise fail("ZooKeeper would be written: say --yes, or --dry-run to look", ExitCode.WRONG)
    if not typer.confirm("What differs in ZooKeeper is overwritten. Go on?", err=True):
        raise typer.Exit(ExitCode.FOUND)
