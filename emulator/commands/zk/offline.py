"""Compares ZooKeeper with the folder of a stopped controller, and writes what differs.

The machine is ``emulator.migration.offline``; here are the folder, its lock, and the sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from emulator.commands.common import fail
from emulator.commands.configuration import source_of, text_of
from emulator.commands.exits import ExitCode
from emulator.commands.folders import FolderUnreadableError, committed_image, open_log
from emulator.commands.zk import compare
from emulator.commands.zk.compare import ReconcileOutcome, print_outcome
from emulator.config import properties
from emulator.config.listeners import HostPort, voters_of
from emulator.config.passwords import PasswordSettings
from emulator.config.reading import PropertyReader
from emulator.config.zookeeper import ZooKeeperSecurity, connect_string
from emulator.io.clock import Clock
from emulator.io.disk import Disk, FolderLockedError
from emulator.io.folder_holder import holder, in_use
from emulator.io.log_output import logger
from emulator.io.printable import sentence
from emulator.io.reach import why_unreachable
from emulator.io.run import Shell
from emulator.io.tls import TlsError, profiles
from emulator.metadata.image import Image
from emulator.migration.offline import OfflineReconcile, unwanted
from emulator.migration.position import Claimer
from emulator.migration.taking_over.tasks import Attempt
from emulator.raft import layout
from emulator.raft.machine import Raft
from emulator.znodes import cluster, controller, migration, own
from emulator.znodes.entities import entities
from emulator.znodes.passwords import Passwords
from emulator.zookeeper.client import ZkClient

SESSION_TIMEOUT_MS: Final = 18_000
CONNECT_TIMEOUT_MS: Final = 3_000
_ASK_IT: Final = "ask that controller with --url or -c FILE, or stop it"
_PATHS: Final = (cluster.PATH, controller.EPOCH_PATH, migration.PATH, own.PATH)


@dataclass(frozen=True, slots=True)
class OfflineRun:
    """What to compare; ``security`` and ``passwords`` as the controller has them."""

    hosts: str
    security: ZooKeeperSecurity
    passwords: PasswordSettings
    voters: tuple[HostPort, ...]
    """Addresses of the controllers, as far as the properties name them."""
    folder: Path
    timeout_s: float
    dry_run: bool


class RefusedError(Exception):
    """Nothing was written; the text says why."""


class _StoppedLog:
    """The log of a folder as the guards of a claim see it, with what is committed as its end."""

    def __init__(self, raft: Raft, committed: int) -> None:
        self._raft = raft
        self.high_watermark = committed

    @property
    def log_start_offset(self) -> int:
        return self._raft.log_start_offset

    def epoch_at(self, offset: int) -> int | None:
        return self._raft.epoch_at(offset)

    def digest_at(self, offset: int) -> str:
        return self._raft.digest_at(offset)


def settings(
    config: Path | None, overrides: Iterable[str]
) -> tuple[PasswordSettings, tuple[HostPort, ...]]:
    """How passwords are encoded in ZooKeeper, and where controllers listen, by the properties.

    Args:
        config: the file.
        overrides: that were read already.

    Raises:
        typer.Exit: the properties cannot be used.
    """
    given = properties.parse("", overrides)
    try:
        raw = properties.parse("" if config is None else text_of(config)) | given
    except OSError as error:
        raise fail(sentence(error), ExitCode.WRONG) from error
    except ValueError as error:
        raise fail(f"{config}: {error}", ExitCode.WRONG) from error
    reader = PropertyReader(raw)
    found = PasswordSettings.read(reader)
    none: dict[int, HostPort] = {}
    named = reader.take("controller.quorum.voters", voters_of, none)
    if reader.problems:
        source = source_of(reader.problems[0], config, given)
        raise fail(f"{source}: {'; '.join(reader.problems)}", ExitCode.WRONG)
    return found, tuple(named.values())


def run(asked: OfflineRun, *, as_json: bool) -> None:
    """Compare, write unless it is a dry run, print.

    Raises:
        typer.Exit: always; with the exit code.
    """
    try:
        with _left_alone(asked.folder) if asked.dry_run else _owned(asked.folder):
            machine = _machine(asked)
            _run(machine, asked.security)
    except FolderUnreadableError as error:
        raise fail(str(error), ExitCode.WRONG) from error
    except FolderLockedError as error:
        raise fail(f"{in_use(error.folder)}: {_ASK_IT}") from error
    except RefusedError as error:
        raise fail(str(error)) from error
    except (compare.ZooKeeperUnreadableError, TlsError) as error:
        raise fail(str(error), ExitCode.UNREACHABLE) from error
    found = machine.comparison
    done = "; the cluster is claimed, what was written stays" if machine.claimed else ""
    outcome = ReconcileOutcome(
        dry_run=found.dry_run,
        offset=found.offset,
        counts=found.counts,
        differences=[(one.path, one.kind) for one in found.differences],
        refused={},
        why=machine.why and f"{machine.why}{done}",
    )
    code = ExitCode.FOUND if machine.reachable else ExitCode.UNREACHABLE
    print_outcome(outcome, as_json=as_json, unended=code)


@contextlib.contextmanager
def _owned(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, so that its controller does not start meanwhile.

    Raises:
        FolderUnreadableError: not a controller's folder, or it is another user's.
        FolderLockedError: its controller runs.
    """
    if not (folder / layout.META_PROPERTIES).is_file():
        why = f"{folder} has no meta.properties: not a formatted controller's folder"
        raise FolderUnreadableError(why)
    try:
        disk = Disk(folder)
    except PermissionError as error:
        why = (
            f"{error.filename}: {error.strerror}: run it as the user of the controller, or as root"
        )
        raise FolderUnreadableError(why) from error
    with contextlib.closing(disk):
        yield


@contextlib.contextmanager
def _left_alone(folder: Path) -> Iterator[None]:
    """See that its controller does not run; nothing is written there, not even a lock.

    Raises:
        FolderLockedError: it runs.
    """
    if holder(folder).held:
        raise FolderLockedError(folder)
    yield


def _machine(asked: OfflineRun) -> OfflineReconcile:
    """The machine for one folder, unless a check refuses it.

    Raises:
        RefusedError, FolderUnreadableError, ZooKeeperUnreadableError: see there.
    """
    contradicted = asked.folder / layout.CONTRADICTED
    if contradicted.exists():
        why = contradicted.read_text(errors="replace").strip()
        raise RefusedError(
            f"{contradicted}: {why}. An operator must decide first which log is right"
        )
    meta, raft = open_log(asked.folder)
    read = compare.read_some(asked.hosts, asked.security, _PATHS)
    _check_cluster(read, asked.hosts)
    written = compare.shown_committed(raft, read.get(migration.PATH), read.get(own.PATH))
    image = committed_image(raft, asked.folder, written)
    if why := unwanted(image.migration_state):
        raise RefusedError(f"{asked.folder}: {why}")
    _check_voters(image, asked.voters)
    typer.echo(_scope(raft, image), err=True)
    log = _StoppedLog(raft, image.offset + 1)
    claimer = Claimer(
        meta.node_id,
        image.epoch,
        f"offline-{secrets.token_hex(8)}",
        stopped=True,
    )
    classes = entities(Passwords(asked.passwords))
    attempt = Attempt(image, log, claimer, classes, meta.cluster_id)
    servers, chroot = connect_string(asked.hosts)
    shell_conn = iter(range(1, 1 << 30))
    zk = ZkClient(
        [(one.host, one.port) for one in servers],
        chroot,
        SESSION_TIMEOUT_MS,
        CONNECT_TIMEOUT_MS,
        shell_conn.__next__,
        random.Random(),  # noqa: S311 - the order of servers
        security=asked.security,
    )
    return OfflineReconcile(
        zk,
        attempt,
        Clock().now_ns,
        dry_run=asked.dry_run,
        timeout_ms=int(asked.timeout_s * 1000),
    )


def _check_cluster(read: Mapping[str, object], hosts: str) -> None:
    """A chroot that is not there would be made by the client: a mistyped one must not be."""
    if cluster.PATH not in read and controller.EPOCH_PATH not in read:
        raise RefusedError(
            f"ZooKeeper at {hosts} holds no Kafka cluster, neither {cluster.PATH} nor "
            f"{controller.EPOCH_PATH}: another ensemble, or the chroot is wrong"
        )


def _check_voters(image: Image, named: Iterable[HostPort]) -> None:
    """Refuse while a controller accepts connections where it has registered, or should be."""
    registered = {
        HostPort(endpoint.host, endpoint.port): f"controller {number}"
        for number, one in image.controllers.items()
        for endpoint in one.endpoints
    }
    for where in {**dict.fromkeys(named), **registered}:
        if not why_unreachable([where], 1.0):
            raise RefusedError(
                f"{registered.get(where, 'a controller')} accepts connections at {where}: ask the "
                "one that leads with --url, or stop all of them first"
            )


def _scope(raft: Raft, image: Image) -> str:
    note = compare.ends(raft, image.offset)
    if image.offset + 1 == raft.log_end_offset:
        return note
    return (
        f"{note}; whether the rest is committed only a majority of the voters knows: the next "
        "leader writes it, or truncates it"
    )


def _run(machine: OfflineReconcile, security: ZooKeeperSecurity) -> None:
    shell = Shell(
        machine,
        None,
        Clock(),
        log=logger("reconcile"),
        row=lambda _row: None,
        tls=profiles(security.tls),
    )
    with asyncio.Runner() as runner:
        runner.run(shell.run())
