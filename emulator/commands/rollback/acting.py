"""What ``rollback --yes`` does to a real cluster, as ``emulator.rollback.course`` asks for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from emulator.commands.rollback import processes
from emulator.commands.rollback.looking import Looker, alive, status_url
from emulator.commands.status import fetch
from emulator.commands.zk.client import Connector
from emulator.metadata.migration_state import MigrationState
from emulator.migration.taking_over.claim import Found
from emulator.migration.zk_tree import controller
from emulator.preflight.node_file import Properties
from emulator.raft import layout
from emulator.rollback import missing, release
from emulator.rollback.course import MEANWHILE, CourseError
from emulator.rollback.missing import FolderEnd
from emulator.rollback.situation import ControllerSeen, Situation
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import (
    Check,
    Create,
    Delete,
    Multi,
    NodeData,
    ReadFailed,
    ReadValue,
    SetData,
    Stat,
)

CONNECT_TIMEOUT_S: Final = 10.0
POLL_S: Final = 0.02
SILENT_S: Final = 5.0
"""How long a controller that was seen to run cannot be asked before --stopped is believed."""
AGAIN: Final = "stop it there, and run this command again"
ELECTION_S: Final = 30.0
"""How long brokers may take: each watches ``/controller``."""
_NO_VERSION: Final = 2**31 - 2
"""Of the root: it would have been written that often."""
_CHANGED: Final = (BadVersionError, NoNodeError, NodeExistsError)
_LOST: Final = (ConnectionLoss, SessionExpiredError, OperationTimeoutError, KazooTimeoutError)


class LiveRollback:
    """A real cluster as the course of a rollback sees it.

    Args:
        looker: looks at it.
        hosts: ZooKeeper.
        connect: makes a client of it, with the login.
        files: properties of the controllers, for ``/status``.
        timeout_s: for the controllers to write what is missing, and again to end.
        creator_only: whether a znode that is created belongs to its creator (``set.acl``).
        say: tells the operator what is being done.
        stopped: whether the operator says that controllers which cannot be asked are stopped.
    """

    def __init__(  # noqa: PLR0917 - one argument per part of the world
        self,
        looker: Looker,
        hosts: str,
        connect: Connector,
        files: Sequence[Properties],
        timeout_s: float,
        creator_only: bool,
        say: Callable[[str], None],
        stopped: bool = False,
    ) -> None:
        self._looker = looker
        self._hosts = hosts
        self._connect = connect
        self._files = {one.node_id: one for one in files if one.is_controller}
        self._timeout_s = timeout_s
        self._creator_only = creator_only
        self._client: KazooClient | None = None
        self._stopped = stopped
        self.say = say

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            self._client.stop()
            self._client.close()

    def look(self) -> Situation:
        """See :meth:`Looker.look`."""
        return self._looker.look()

    def now(self) -> float:
        """Seconds, monotonic."""
        return time.monotonic()

    # ------------------------------------------------------------- the controllers
    def drain(self, seen: Situation, *, forced: bool) -> None:
        """Ask the leader until its lag is 0."""
        until, said = time.monotonic() + self._timeout_s, ""
        if seen.leader is None and seen.checked_at_the_end:
            return  # nobody shows a status: the logs will
        while True:
            behind, why = self._behind(seen)
            if behind == 0:
                return
            if why != said:
                self.say(why)
                said = why
            if time.monotonic() > until and forced:
                self.say(f"{why}: going on, as --accept-loss says")
                return
            if time.monotonic() > until:
                raise CourseError(
                    f"{why}: nothing was changed. Wait, see kraft-bridge status, and try again"
                )
            time.sleep(0.1)

    def _behind(self, seen: Situation) -> tuple[int | None, str]:
        """Changes that ZooKeeper lacks, and a sentence; None: nobody knows."""
        for one in sorted(seen.controllers, key=lambda one: not one.leads):
            file = self._files.get(one.node_id)
            url = None if file is None else status_url(file, one.address)
            try:
                found: dict[str, Any] = {} if url is None else msgspec.json.decode(fetch(url))
            except (OSError, ValueError):
                continue
            told = found.get("migration") or {}
            lag = told.get("lag") or {}
            if not found.get("active"):
                continue
            if told.get("migration_state") == MigrationState.POST_MIGRATION.name:
                raise CourseError(f"the migration was finalised {MEANWHILE}")
            behind = lag.get("records_without_no_ops")
            if behind is None:
                return None, f"{one.text} leads, and has not compared the stores yet"
            return int(behind), f"{behind} changes are not in ZooKeeper yet"
        return None, "no controller says that it leads"

    def stop(self, seen: Situation) -> float | None:
        """Wait for those that the operator stops, then SIGTERM to ours, the leader first."""
        running = sorted(seen.running, key=lambda one: not one.leads)
        last = time.monotonic()
        if others := [one for one in running if one.pid is None]:
            names = ", ".join(one.text for one in others)
            self.say(f"stop {names} now, by SIGTERM: waiting for the end")
        until = time.monotonic() + self._timeout_s
        for one in others:
            last = max(last, self._await_end(one, until))
        if len(others) == len(running):
            return last
        ending = processes.Ending(
            (one.pid, Path(one.folder)) for one in running if one.pid is not None
        )
        try:
            if ending.others:
                raise CourseError(f"{_again(ending.others[0])}: {AGAIN}")
            ending.terminate()
            if ending.refused:
                pids = ", ".join(map(str, ending.refused))
                self.say(f"stop the processes {pids} now, by SIGTERM: this user may not")
            ended, left = ending.wait(self._timeout_s)
        finally:
            ending.close()
        if left:
            pids = ", ".join(map(str, left))
            raise CourseError(f"controllers (pid {pids}) did not end: see their logs")
        return max(last, ended)

    def _await_end(self, one: ControllerSeen, until: float) -> float:
        """Wait until it is seen to be gone, or cannot be asked for a while with ``--stopped``."""
        silent = said = None
        while True:
            running, why = alive(one)
            now = time.monotonic()
            if running is False:
                return now
            silent = (now if silent is None else silent) if running is None else None
            if silent is not None and self._stopped and now - silent >= SILENT_S:
                return silent
            if silent is not None and said is None:
                said = why
                self.say(f"{one.text} cannot be asked any more ({why}): whether it has ended?")
            if now > until:
                break
            time.sleep(POLL_S)
        if silent is None:
            raise CourseError(f"{one.text} still runs: stop it, and run this command again")
        raise CourseError(f"{_unknown(one, why)}")

    def over(self, seen: Situation) -> None:
        """See that none of them runs, whoever may have started it again."""
        for one in seen.controllers:
            running, why = alive(one)
            if running:
                raise CourseError(f"{_again(one.text)}: {AGAIN}")
            if running is None and not self._stopped:
                raise CourseError(_unknown(one, why))

    def log_ends(self, seen: Situation, found: Found) -> Sequence[FolderEnd]:
        """The end of each log on this machine, from the segment on that holds the offset."""
        said = found.migration
        ends = []
        for name in (one.folder for one in seen.controllers if one.folder):
            folder = Path(name)
            try:
                files = _segments(folder, said.kraft_metadata_offset)
            except OSError as error:
                ends.append(FolderEnd(name, problem=f"{error.filename}: {error.strerror}"))
                continue
            ends.append(
                missing.read(name, files, said.kraft_metadata_offset, said.kraft_metadata_epoch)
            )
        return ends

    # ------------------------------------------------------------- ZooKeeper
    def _zookeeper(self) -> KazooClient:
        if self._client is None:
            client = self._connect(self._hosts)
            try:
                client.start(timeout=CONNECT_TIMEOUT_S)
            except KazooTimeoutError as error:
                client.stop()
                client.close()
                raise CourseError(f"ZooKeeper at {self._hosts}: {error}") from error
            self._client = client
        return self._client

    def read(self) -> Sequence[ReadValue]:
        """Read the four znodes, after a sync."""
        client, until = self._zookeeper(), time.monotonic() + CONNECT_TIMEOUT_S
        while True:
            try:
                client.sync("/")
                return [_read(client, path) for path in release.PATHS]
            except _LOST as error:
                if time.monotonic() > until:
                    raise self._failed(error) from error
                time.sleep(POLL_S)
            except KazooException as error:
                raise self._failed(error) from error

    def _failed(self, error: Exception) -> CourseError:
        what = str(error) or type(error).__name__
        return CourseError(f"ZooKeeper at {self._hosts}: {what}: run this command again")

    def forbidden(self, multi: Multi) -> str:
        """Send a multi that is refused in any case: a refused right comes before that."""
        never = Check("/", _NO_VERSION)
        results = self._send(Multi((*multi.ops, never)))
        refused = [one for one in results if isinstance(one, NoAuthError)]
        return "ZooKeeper does not let this login change the controllers' znodes" if refused else ""

    def commit(self, multi: Multi) -> bool:
        """Send a multi; after a lost answer the next read says whether it was applied."""
        try:
            results = self._send(multi)
        except _LOST:
            time.sleep(POLL_S)
            return False
        except KazooException as error:
            raise self._failed(error) from error
        failed = [one for one in results if isinstance(one, Exception)]
        if not failed:
            return True
        if any(isinstance(one, _CHANGED) for one in failed):
            return False
        raise CourseError(f"ZooKeeper refuses the release: {type(failed[-1]).__name__}")

    def _send(self, multi: Multi) -> list[object]:
        transaction = self._zookeeper().transaction()
        for op in multi.ops:
            match op:
                case Check():
                    transaction.check(op.path, op.version)
                case SetData():
                    transaction.set_data(op.path, op.data, op.version)
                case Delete():
                    transaction.delete(op.path, op.version)
                case Create():
                    acl = OPEN_ACL_UNSAFE
                    if self._creator_only:
                        acl = CREATOR_ALL_ACL + READ_ACL_UNSAFE
                    transaction.create(op.path, op.data, acl=acl)
        return list(transaction.commit())

    def elected(self) -> tuple[int, float] | None:
        """Watch ``/controller`` until it names a broker in ZooKeeper mode."""
        client, until = self._zookeeper(), time.monotonic() + ELECTION_S
        while (left := until - time.monotonic()) > 0:
            changed = threading.Event()
            try:
                exists = client.exists(controller.PATH, watch=lambda _, told=changed: told.set())
                if exists is not None:
                    data, _ = client.get(controller.PATH)
                    at, holder = time.monotonic(), controller.try_parse(data)
                    if holder is not None and holder.kraft_epoch < 0:
                        return holder.broker_id, at
            except NoNodeError:
                continue
            except KazooException as error:
                raise self._failed(error) from error
            changed.wait(min(left, 1.0))
        return None


def _again(what: object) -> str:
    return f"{what} was started again, perhaps by a supervisor"


def _unknown(one: ControllerSeen, why: str) -> str:
    return (
        f"{one.text} cannot be asked ({why}): it is not known whether it has ended. See that it "
        "is stopped, and run this command again with --stopped"
    )


def _segments(folder: Path, offset: int) -> dict[str, bytes]:
    """Segments that can hold what follows an offset, by path below the folder."""
    inner = folder / layout.FOLDER
    found = {
        base: path
        for path in inner.iterdir()
        if (base := layout.segment_base(f"{layout.FOLDER}/{path.name}")) is not None
    }
    first = max((base for base in found if base <= offset), default=0)
    return {
        f"{layout.FOLDER}/{path.name}": path.read_bytes()
        for base, path in found.items()
        if base >= first
    }


def _read(client: KazooClient, path: str) -> ReadValue:
    try:
        data, stat = client.get(path)
    except NoNodeError:
        return ReadFailed(ZkCode.NO_NODE)
    return NodeData(
        data,
        Stat(
            stat.czxid,
            stat.mzxid,
            stat.ctime,
            stat.mtime,
            stat.version,
            stat.cversion,
            stat.aversion,
            stat.ephemeralOwner,
            stat.dataLength,
            stat.numChildren,
            stat.pzxid,
        ),
    )
