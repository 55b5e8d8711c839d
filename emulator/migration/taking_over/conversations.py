"""Which conversation with ZooKeeper a state of the driver begins; what one leaves to the next."""

from __future__ import annotations

from emulator.migration.dual_write.modes import Mode
from emulator.migration.dual_write.write_behind import WriteBehind
from emulator.migration.reading import Reading
from emulator.migration.rounds import Zk
from emulator.migration.settings import Settings
from emulator.migration.states import State
from emulator.migration.taking_over.checking import Checked, CheckTask, ClaimTask
from emulator.migration.taking_over.continuity import LogView
from emulator.migration.taking_over.copying import Appender, CopyTask
from emulator.migration.taking_over.purge import PurgeTask
from emulator.migration.taking_over.tasks import (
    Attempt,
    Done,
    GuardTask,
    Lost,
    RecoverTask,
    Task,
)
from emulator.znodes.entity import Entities


class Conversations:
    """Makes the tasks of the driver's states.

    Args:
        settings: configuration.
        zk: the ZooKeeper client.
        controller: appends the copy.
        log: our metadata log.
        write_behind: knows whether the claim is ours.
        entities: the classes beside topics.
    """

    def __init__(  # noqa: PLR0917  # what the tasks are made from
        self,
        settings: Settings,
        zk: Zk,
        controller: Appender,
        log: LogView,
        write_behind: WriteBehind,
        entities: Entities,
    ) -> None:
        self._settings = settings
        self._zk = zk
        self._controller = controller
        self._log = log
        self._write_behind = write_behind
        self._entities = entities
        self._checked: Checked | None = None
        """What the last task has found, if it was a check."""
        self._unfinished: Reading | None = None
        """A reading of this state that a lost connection has interrupted."""
        self.recovered = False
        """Whether what ZooKeeper needs at first is known to be there, since this node led."""
        self._several = len(settings.voters) > 1

    def next(self, state: State, kraft_epoch: int, epoch_version: int, now_ms: int) -> Task | None:
        """The task of a state; None if it has none now.

        Args:
            state: the driver's.
            kraft_epoch: our leader epoch; -1 while we do not lead: nothing is written then.
            epoch_version: of ``/controller_epoch`` since our claim.
            now_ms: the clock.
        """
        zk, log, classes = self._zk, self._log, self._entities
        claimer = self._settings.claimer(kraft_epoch)
        cluster_id = self._settings.cluster_id
        listener = self._settings.inter_broker_listener_name
        attempt = Attempt(self._controller.stable, log, claimer, classes, cluster_id, listener)
        unfinished, self._unfinished = self._unfinished, None
        match state:
            case State.UNINITIALIZED:
                create = kraft_epoch >= 0 or not self._several
                return RecoverTask(zk, cluster_id, look=self._several, create=create)
            case State.WAIT_FOR_CONTROLLER_QUORUM if not self.recovered:
                return RecoverTask(zk, cluster_id, look=True)
            case State.WAIT_FOR_CONTROLLER_QUORUM if self._several:
                return GuardTask(zk, attempt)
            case State.WAIT_FOR_BROKERS:
                return CheckTask(zk, attempt, self._checked, unfinished)
            case State.BECOME_CONTROLLER if self._write_behind.mode is Mode.STOPPED:
                fresh = self._checked is not None and self._checked.holds(attempt.image, now_ms)
                return ClaimTask(zk, attempt, checked=fresh, unfinished=unfinished)
            case State.DUAL_WRITE:
                return PurgeTask(zk, epoch_version)
            case State.ZK_MIGRATION:
                batch = self._settings.migration_min_batch_size
                return CopyTask(
                    zk, self._controller, log, self._write_behind, batch, classes, unfinished
                )
            case _:
                return None

    def ended(self, task: Task) -> None:
        """A task of this state has a result."""
        if isinstance(task, RecoverTask) and task.create and isinstance(task.result, Done):
            self.recovered = True
        self._unfinished = task.unfinished if isinstance(task.result, Lost) else None
        self._checked = task.checked if isinstance(task, CheckTask) else None

    def entered(self) -> None:
        """The driver is in another state: what a reading showed before it may have changed."""
        self._unfinished = None

    def forget(self) -> None:
        """The term is over."""
        self._checked = self._unfinished = None
