"""What ``rollback --yes`` does to a real cluster, as ``operations.rollback.course`` asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from emulator.commands.asking import plain
from emulator.commands.rollback import looking
from emulator.commands.rollback.looking import (
    UNREADABLE,
    Looker,
    alive,
    controller_status,
    url_of_status,
)
from emulator.commands.rollback.znodes import RollbackZnodes
from emulator.commands.status import OtherReleaseError
from emulator.commands.zk.client import Connector
from emulator.io import folder_holder
from emulator.metadata.migration_state import MigrationState
from emulator.migration.taking_over.claim import Found
from emulator.operations.preflight.node_file import Properties
from emulator.operations.rollback.course import MEANWHILE, CourseError
from emulator.operations.rollback.missing import FolderEnd
from emulator.operations.rollback.situation import ControllerSeen, Situation
from emulator.zookeeper.ops import (
    Multi,
    ReadValue,
)

POLL_S: Final = 0.02
SILENT_S: Final = 5.0
"""How long a controller that was seen to run cannot be asked before --stopped is believed."""
AGAIN: Final = "stop it there, and run this command again"


class LiveRollback:
    """A real cluster as the course of a rollback sees it.

    Args:
        looker: looks at it.
        hosts: ZooKeeper.
        connect: makes a client of it, with the login.
        files: properties of the controllers, for ``/status``.
        timeout_s: for the controllers to write what is missing, and again to end.
        creator_only: whether a znode that is created belongs to its creator (``set.acl``).
        report: prints to the operator what is being done.
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
        report: Callable[[str], None],
        stopped: bool = False,
    ) -> None:
        self._looker = looker
        self._znodes = RollbackZnodes(hosts, connect, creator_only)
        self._files = {one.node_id: one for one in files if one.is_controller}
        self._timeout_s = timeout_s
        self._looked = False
        self._stopped = stopped
        self.report = report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._znodes.close()

    def look(self) -> Situation:
        """See :meth:`Looker.look`.

        Raises:
            CourseError: it was looked at before, and cannot be looked at any more.
        """
        try:
            found = self._looker.look()
        except UNREADABLE as error:
            if not self._looked:
                raise
            raise CourseError(f"{error}: run this command again") from error
        self._looked = True
        return found

    def now(self) -> float:
        """Seconds, monotonic."""
        return time.monotonic()

    # ------------------------------------------------------------- the controllers
    def drain(self, seen: Situation, *, forced: bool) -> None:
        """Ask the leader until its lag is 0."""
        until, reported = time.monotonic() + self._timeout_s, ""
        if seen.leader is None and seen.checked_at_the_end:
            return  # no controller shows a status: the logs are read later
        while True:
            behind, why = self._behind(seen)
            if behind == 0:
                return
            if why != reported:
                self.report(why)
                reported = why
            if time.monotonic() > until and forced:
                self.report(f"{why}: going on because of --accept-loss")
                return
            if time.monotonic() > until:
                raise CourseError(
                    f"{why}: nothing was changed. Wait, see kraft-bridge status, and try again"
                )
            time.sleep(0.1)

    def _behind(self, seen: Situation) -> tuple[int | None, str]:
        """Changes that ZooKeeper lacks, and a sentence; None: not known."""
        why = "no controller shows that it leads"
        cluster = seen.survey.json("/cluster/id").get("id")
        for one in sorted(seen.controllers, key=lambda one: not one.leads):
            file = self._files.get(one.node_id)
            url = None if file is None else url_of_status(file, one.address)
            try:
                found = {} if url is None else controller_status(url)
            except OtherReleaseError as error:
                why = f"{url}/status: {error}"
                continue
            except (OSError, ValueError):
                continue
            migration = found.get("migration") or {}
            lag = migration.get("lag") or {}
            if not found.get("active") or found.get("node_id") != one.node_id:
                continue  # a file may name the port of another controller
            of = found.get("cluster_id")
            if cluster and of != cluster:
                why = f"{url}/status is of cluster {plain(of)}, and ZooKeeper of {cluster}"
                continue
            if migration.get("migration_state") == MigrationState.POST_MIGRATION.name:
                raise CourseError(f"the migration was finalised {MEANWHILE}")
            behind = lag.get("records_without_no_ops")
            if behind is None:
                return None, f"{one.text} leads, and has not compared the stores yet"
            return int(behind), f"{behind} changes are not in ZooKeeper yet"
        return None, why

    def stop(self, seen: Situation) -> float | None:
        """Wait for those that the operator stops, then SIGTERM to ours, the leader first."""
        running = sorted(seen.running, key=lambda one: not one.leads)
        last = time.monotonic()
        if others := [one for one in running if one.pid is None]:
            names = ", ".join(one.text for one in others)
            self.report(f"stop {names} now, by SIGTERM: waiting for the end")
        until = time.monotonic() + self._timeout_s
        for one in others:
            last = max(last, self._await_end(one, until))
        if len(others) == len(running):
            return last
        ending = folder_holder.Ending(
            (one.pid, Path(one.folder)) for one in running if one.pid is not None
        )
        try:
            if ending.others:
                raise CourseError(f"{_again(ending.others[0])}: {AGAIN}")
            ending.terminate()
            if ending.stopping:
                pids = ", ".join(map(str, ending.stopping))
                self.report(
                    f"the processes {pids} are being stopped already: waiting for their end"
                )
            if ending.left_to_others:
                pids = ", ".join(map(str, ending.left_to_others))
                self.report(f"another rollback stops the processes {pids}: waiting for their end")
            self._may_not(ending.refused)
            ended, left = ending.wait(self._timeout_s, lambda pids: self._taken_over(ending, pids))
        finally:
            ending.close()
        if left:
            pids = ", ".join(map(str, left))
            if set(left) & set(ending.left_to_others):
                raise CourseError(
                    f"controllers (pid {pids}) still run: another rollback has its turn with them, "
                    "and has not stopped them: end it, and run this command again"
                )
            raise CourseError(f"controllers (pid {pids}) did not end: see their logs")
        return max(last, ended)

    def _may_not(self, refused: Sequence[int]) -> None:
        if refused:
            pids = ", ".join(map(str, refused))
            self.report(f"stop the processes {pids} now, by SIGTERM: this user may not")

    def _taken_over(self, ending: folder_holder.Ending, taken: Sequence[int]) -> None:
        pids = ", ".join(map(str, taken))
        self.report(
            f"the other rollback ended without stopping the processes {pids}: stopping them"
        )
        self._may_not([one for one in taken if one in ending.refused])

    def _await_end(self, one: ControllerSeen, until: float) -> float:
        """Wait until it is seen to be gone, or cannot be asked for a while with ``--stopped``."""
        silent = reported = None
        while True:
            running, why = alive(one)
            now = time.monotonic()
            if running is False:
                return now
            silent = (now if silent is None else silent) if running is None else None
            if silent is not None and self._stopped and now - silent >= SILENT_S:
                return silent
            if silent is not None and reported is None:
                reported = why
                self.report(f"{one.text} cannot be asked any more ({why}); it may have ended")
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
                raise CourseError(f"{_again(one.text)} ({why}): {AGAIN}")
            if running is None and not self._stopped:
                raise CourseError(_unknown(one, why))

    def log_ends(self, seen: Situation, found: Found) -> Sequence[FolderEnd]:
        """The end of each log on this machine, from the segment on that holds the offset."""
        return looking.read_log_end(seen.controllers, found.migration)

    def state_moved(self, seen: Situation) -> bool:
        """See :func:`log_ends.state_moved`."""
        return looking.state_moved(seen)

    # ------------------------------------------------------------- ZooKeeper
    def read(self) -> Sequence[ReadValue]:
        """See :meth:`RollbackZnodes.read`."""
        return self._znodes.read()

    def deletions(self) -> Sequence[str]:
        """See :meth:`RollbackZnodes.deletions`."""
        return self._znodes.deletions()

    def forbidden(self, multi: Multi) -> str:
        """See :meth:`RollbackZnodes.forbidden`."""
        return self._znodes.forbidden(multi)

    def commit(self, multi: Multi) -> bool | None:
        """See :meth:`RollbackZnodes.commit`."""
        return self._znodes.commit(multi)

    def elected(self) -> tuple[int, float] | None:
        """See :meth:`RollbackZnodes.elected`."""
        return self._znodes.elected()


def _again(what: object) -> str:
    return f"{what} was started again, perhaps by a supervisor"


def _unknown(one: ControllerSeen, why: str) -> str:
    return (
        f"{one.text} cannot be asked ({why}): it is not known whether it has ended. See that it "
        "is stopped, and run this command again with --stopped"
    )
