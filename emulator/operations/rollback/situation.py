"""What a rollback looks at: the tree, the nodes' files, the controllers, how the stores differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from emulator.config.listeners import HostPort
from emulator.migration.tree_diff import Difference
from emulator.operations.preflight.stage import StageFound, standing
from emulator.operations.preflight.survey import Survey
from emulator.operations.rollback import missing
from emulator.operations.rollback.missing import FolderEnd
from emulator.znodes import controller, own
from emulator.znodes.own import OwnZnode

# Whether a controller runs, by the lock of its folder and by its address.
#
# Neither is enough. A lock is not seen on a network file system, and the folder given may be a
# copy, also one at the path that the controller's own file names; an address may be one that this
# machine does not reach.


class Reached(Enum):
    """What came of connecting to a controller's address."""

    YES = "accepts connections"
    REFUSED = "refuses connections"
    NONE = "nothing is known"
    NO_ADDRESS = "no file names an address"


def runs(held: bool | None, answer: Reached, *, own: bool) -> bool | None:
    """Whether a controller runs; None: not known.

    What is not known decides nothing, so only a controller that is seen to be gone counts as ended.

    Args:
        held: whether somebody holds the lock of its folder; None: not known, or no folder.
        answer: of its address.
        own: whether the folder is known to be the controller's own, and no copy.
    """
    if held or answer is Reached.YES:
        return True
    if answer is Reached.REFUSED:
        return False
    return False if held is False and own else None


@dataclass(frozen=True, slots=True)
class ControllerSeen:
    """One controller of the quorum, as seen from outside.

    ``runs``: None: not known (:mod:`emulator.operations.rollback.situation`), and ``why`` says why.
    ``pid``: of the process that holds its folder, if it is on this machine and ours to signal.
    ``status``: what ``/status`` says; None: nothing. ``folder``: where its log can be read once it
    has ended; ``own``: it is known to be no copy. ``copied``: a folder that it does not write
    while it runs, so that it proves nothing. ``file``: its properties; ``log_dir``: what they
    name, wherever that is. ``unread``: why what ``/status`` says cannot be read; empty: it can, or
    is not there.
    """

    node_id: int | None
    name: str
    runs: bool | None
    address: HostPort | None = None
    pid: int | None = None
    status: Mapping[str, Any] | None = None
    folder: str = ""
    own: bool = True
    copied: str = ""
    file: str = ""
    log_dir: str = ""
    why: str = ""
    unread: str = ""

    @property
    def leads(self) -> bool:
        """Whether it says that it is the active controller."""
        return bool(self.status and self.status.get("active"))

    @property
    def migration(self) -> Mapping[str, Any]:
        """The migration in its ``/status``; empty if it says nothing of one."""
        found = None if self.status is None else self.status.get("migration")
        return found if isinstance(found, Mapping) else {}

    @property
    def phase(self) -> str:
        """The phase in its ``/status``, in the words of every verb."""
        found = None if self.status is None else self.status.get("phase")
        return str(found.get("text")) if isinstance(found, Mapping) else "unknown"

    @property
    def phase_name(self) -> str:
        """The word for that phase; empty if it shows none."""
        found = None if self.status is None else self.status.get("phase")
        return str(found.get("name", "")) if isinstance(found, Mapping) else ""

    @property
    def voters_down(self) -> tuple[tuple[int, str], ...]:
        """The voters that do not answer it, by its ``/status``, and why."""
        quorum = None if self.status is None else self.status.get("quorum")
        voters = quorum.get("voters", ()) if isinstance(quorum, Mapping) else ()
        return tuple(
            (one["id"], f"it does not answer at {one['endpoint']}: {one['why_not']}")
            for one in voters
            if not one.get("answers", True)
        )

    @property
    def without_flag(self) -> bool:
        """Whether it leads without ``zookeeper.metadata.migration.enable``, and has not ended it.

        What is changed under it is in the log alone, and brokers in ZooKeeper mode are refused.
        """
        found = None if self.status is None else self.status.get("finalisation")
        return isinstance(found, Mapping) and found.get("state") in {"held", "waiting"}

    @property
    def text(self) -> str:
        """How to call it."""
        return self.name if self.node_id is None else f"controller {self.node_id}"


@dataclass(frozen=True, slots=True)
class FolderSeen:
    """The ``meta.properties`` of a broker's folder. ``node_id``: of its file, None without one."""

    name: str
    meta: Mapping[str, str]
    node_id: int | None = None


@dataclass(frozen=True)
class Situation:
    """Everything that a rollback is judged by.

    ``differences``: of the tree from the newest log; None: not compared, ``not_compared`` says why.
    ``modes``: broker id -> whether it is registered in KRaft mode; None: not known. ``voters``: how
    many the files and folders name, of which not each may be among ``controllers``. ``ends``: of
    the logs that can be read here, if ``freed_by_others`` and no controller runs.
    """

    survey: Survey
    controllers: Sequence[ControllerSeen] = ()
    broker_folders: Sequence[FolderSeen] = ()
    modes: Mapping[int, bool] | None = None
    differences: Sequence[Difference] | None = None
    not_compared: str = ""
    voters: int = 0
    ends: Sequence[FolderEnd] = ()

    @property
    def quorum(self) -> int:
        """How many voters there are, as far as is known."""
        return max(self.voters, len(self.controllers))

    @property
    def logs_needed(self) -> int:
        """Logs of which one has every change that was acknowledged: a majority."""
        return self.quorum // 2 + 1

    @property
    def logs_here(self) -> int:
        """Controllers whose logs can be read here once they have ended."""
        return sum(bool(one.folder) for one in self.controllers)

    @cached_property
    def stage(self) -> StageFound:
        """The stage of the migration, as preflight finds it."""
        return standing(self.survey)

    @cached_property
    def mine(self) -> OwnZnode | None:
        """``/kraft_bridge``; None if it is absent or cannot be read."""
        return own.try_parse(self.survey.data(own.PATH))

    @property
    def marked(self) -> bool:
        """Whether a rollback wrote ``/kraft_bridge`` last."""
        return own.rolled_back(self.mine)

    @property
    def held(self) -> bool:
        """Whether anybody holds ``/controller``."""
        return controller.PATH in self.survey.nodes

    @property
    def freed_by_others(self) -> bool:
        """Whether a broker is the controller again, and no run of this command made it so.

        After a copy, so that callers had been served.
        """
        return self.held and not self.stage.in_kraft and self.stage.complete and not self.marked

    @property
    def lost(self) -> tuple[tuple[int, str], ...]:
        """Changes that ``ends`` show, and that were not in ZooKeeper when it was freed."""
        return missing.missing([one for one in self.ends if not one.problem], self.quorum)

    @property
    def running(self) -> tuple[ControllerSeen, ...]:
        """Controllers that run."""
        return tuple(one for one in self.controllers if one.runs)

    @property
    def unknown(self) -> tuple[ControllerSeen, ...]:
        """Controllers of which it is not known whether they run."""
        return tuple(one for one in self.controllers if one.runs is None)

    @property
    def leader(self) -> ControllerSeen | None:
        """The active controller, if one says so."""
        return next((one for one in self.controllers if one.leads), None)

    @property
    def without_flag(self) -> ControllerSeen | None:
        """A leader that cannot write to ZooKeeper; see there."""
        return next((one for one in self.running if one.without_flag), None)

    @property
    def clusters(self) -> tuple[tuple[str, str], ...]:
        """Names of controllers and folders, with the id of the cluster that each is of."""
        found = [(one.name, one.meta.get("cluster.id", "")) for one in self.survey.folders]
        found += [
            (one.name, str(one.status.get("cluster_id", "")))
            for one in self.controllers
            if one.status
        ]
        return tuple(found)

    @property
    def checked_at_the_end(self) -> bool:
        """Whether the logs of all controllers can be read here once they have ended."""
        return bool(self.controllers) and all(one.folder for one in self.controllers)

    @property
    def in_kraft_mode(self) -> tuple[int, ...]:
        """Brokers registered in KRaft mode that are not back in ``/brokers/ids``, ascending."""
        found = (one for one, kraft in (self.modes or {}).items() if kraft)
        return tuple(sorted(one for one in found if one not in self.survey.live_brokers))

    @property
    def with_keys(self) -> tuple[int, ...]:
        """Brokers in ZooKeeper mode that have not registered again since the rollback, ascending.

        They were not restarted since, and have ``zookeeper_mode.KEYS``. One that has registered
        may have been restarted with them: no znode shows that.
        """
        marked_ms = self._written_ms(own.PATH) if self.marked else None
        found = ((one, self._written_ms(f"/brokers/ids/{one}")) for one in self.survey.live_brokers)
        return tuple(
            sorted(one for one, at in found if marked_ms is None or at is None or at <= marked_ms)
        )

    def _written_ms(self, path: str) -> int | None:
        node = self.survey.nodes.get(path)
        return None if node is None else node.mtime_ms
