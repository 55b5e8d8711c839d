"""A comparison of ZooKeeper with the folder of a stopped controller: a leader's claim without one.

The machine asks the same guards as a leader that claims, makes the same claim, compares the whole
tree and writes what differs with the same chain of multis; so what it leaves is what a leader
leaves, and every other writer is fenced. It claims in the epoch of the last committed record of the
folder. The next leader has a higher one, and goes on as after any other claim.

Before that it looks twice, :data:`WATCH_MS` apart: a leader at work writes ``/migration`` twice a
second. Not in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from emulator.metadata.migration_state import MigrationState
from emulator.migration.dual_write.comparison import Comparison
from emulator.migration.dual_write.modes import Mode
from emulator.migration.dual_write.write_behind import WriteBehind
from emulator.migration.reading import Reading
from emulator.migration.taking_over.checking import ClaimTask
from emulator.migration.taking_over.claim import Found
from emulator.migration.taking_over.tasks import (
    Attempt,
    Claimed,
    Done,
    GuardTask,
    Lost,
    Missing,
    Task,
)
from emulator.seam import Closed, Connected, Effect, Event, Halt, Log, Received, state_after
from emulator.zookeeper.client import ZkClient
from emulator.zookeeper.ops import ZkOutcome

WATCH_MS: Final = 3_000
"""Between two looks at the znodes that a leader writes at least twice a second."""
RETRY_MS: Final = 500


class OfflineStage(Enum):
    """What is done; in this order."""

    LOOK = "look at the claim"
    WATCH = "wait whether somebody writes"
    LOOK_AGAIN = "look at the claim again"
    READ = "read the tree"
    COMPARE = "compare the tree"
    CLAIM = "claim the cluster"
    WRITE = "write the differences"
    ENDED = "end"


class OfflineEvent(Enum):
    """Why the stage changes."""

    CLAIM_READ = "claim read"
    """The guards of the claim have passed, for the first time."""
    WATCH_OVER = "watch over"
    """Both looks are far enough apart."""
    NOBODY_WRITES = "nobody writes"
    """The second look found what the first did; the differences are to be written."""
    NOBODY_WRITES_DRY_RUN = "nobody writes, dry run"
    """So it did, and the differences are only to be named."""
    TREE_READ = "tree read"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    """All differences are found, or written."""
    FAILED = "failed"
    """A guard refuses, a controller is at work, or ZooKeeper refuses a znode."""
    TIMED_OUT = "timed out"
    INTERRUPTED = "interrupted"
    """The process is to end."""


_S, _E = OfflineStage, OfflineEvent
NEXT: Final[Mapping[tuple[OfflineStage, OfflineEvent], OfflineStage]] = MappingProxyType(
    {
        (_S.LOOK, _E.CLAIM_READ): _S.WATCH,
        (_S.LOOK, _E.FAILED): _S.ENDED,
        (_S.WATCH, _E.WATCH_OVER): _S.LOOK_AGAIN,
        (_S.LOOK_AGAIN, _E.NOBODY_WRITES): _S.CLAIM,
        (_S.LOOK_AGAIN, _E.NOBODY_WRITES_DRY_RUN): _S.READ,
        (_S.LOOK_AGAIN, _E.FAILED): _S.ENDED,
        (_S.READ, _E.TREE_READ): _S.COMPARE,
        (_S.READ, _E.FAILED): _S.ENDED,
        (_S.COMPARE, _E.COMPLETED): _S.ENDED,
        (_S.CLAIM, _E.CLAIMED): _S.WRITE,
        (_S.CLAIM, _E.FAILED): _S.ENDED,
        (_S.WRITE, _E.COMPLETED): _S.ENDED,
        (_S.WRITE, _E.FAILED): _S.ENDED,
        **{(stage, _E.TIMED_OUT): _S.ENDED for stage in _S if stage is not _S.ENDED},
        **{(stage, _E.INTERRUPTED): _S.ENDED for stage in _S},
    }
)
"""Stage and event -> the stage after it. An event in any other stage is a bug."""

_NOTHING_TO_WRITE: Final = {
    MigrationState.NONE: "the log has never migrated: ZooKeeper is not to be made equal to it",
    MigrationState.PRE_MIGRATION: "ZooKeeper's metadata was not copied into this log yet: it holds "
    "the newest, and is not to be overwritten",
    MigrationState.POST_MIGRATION: "the migration is finalised: ZooKeeper is not written any more",
}


def unwanted(state: MigrationState) -> str:
    """Why a log in this state is not to be written to ZooKeeper; empty if it is."""
    return _NOTHING_TO_WRITE.get(state, "")


class OfflineReconcile:
    """See the module's docstring.

    Args:
        zk: not started; of the ensemble to compare.
        attempt: image, log and claimer (``Claimer.stopped``) of the folder.
        stamp: monotonic nanoseconds.
        dry_run: claim and write nothing.
        timeout_ms: after which it gives up.
    """

    def __init__(
        self,
        zk: ZkClient,
        attempt: Attempt,
        stamp: Callable[[], int],
        *,
        dry_run: bool,
        timeout_ms: int,
    ) -> None:
        assert attempt.claimer.stopped
        self._zk = zk
        self._attempt = attempt
        self.comparison = Comparison(dry_run=dry_run)
        self.stage = OfflineStage.LOOK
        self.why = ""
        """Why it has failed, or what refuses it; empty after success."""
        self.reachable = False
        """Whether there has been a session."""
        self.claimed = False
        """Whether the claim was made: from then on every other writer is fenced."""
        self._write_behind = WriteBehind(
            zk, stamp, attempt.log.digest_at, entities=attempt.entities
        )
        self._task: Task | None = None
        self._reading: Reading | None = None
        self._found: Found | None = None
        self._due_ms: int | None = None
        self._timeout_ms = timeout_ms
        self._end_ms = 0
        self._generation = 0

    @property
    def deadline_ms(self) -> int | None:
        """When :meth:`step` is due even if nothing happens."""
        if self.stage is OfflineStage.ENDED:
            return None
        if self.stage is OfflineStage.COMPARE:
            return 0
        behind_ms = self._write_behind.deadline_ms(0) if self.stage is OfflineStage.WRITE else None
        times = (self._zk.deadline_ms, self._due_ms, behind_ms, self._end_ms)
        return min(each for each in times if each is not None)

    def start(self, now_ms: int) -> list[Effect]:
        """Connect."""
        self._end_ms = now_ms + self._timeout_ms
        return self._zk.start(now_ms) + self._proceed(now_ms)

    def step(self, events: list[Event], now_ms: int) -> list[Effect]:
        """Take events of the connection to ZooKeeper, and do what is due."""
        if self.stage is OfflineStage.ENDED:
            return []
        effects: list[Effect] = []
        for event in events:
            match event:
                case Received(conn=conn) | Closed(conn=conn) | Connected(conn=conn):
                    if self._zk.owns(conn):
                        effects += self._zk.handle(event, now_ms)
        due_ms = self._zk.deadline_ms
        if due_ms is not None and due_ms <= now_ms:
            effects += self._zk.tick(now_ms)
        return effects + self._proceed(now_ms)

    def shutdown(self, now_ms: int) -> list[Effect]:
        """Give up at once: what was written stays, and the next leader compares again."""
        return self._end(OfflineEvent.INTERRUPTED, now_ms, "interrupted")

    def _proceed(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for _ in range(100):
            moved = self._exchange(now_ms)
            moved += self._go_on(now_ms)
            effects += moved
            if not moved:
                break
        if self.stage is not OfflineStage.ENDED and now_ms >= self._end_ms:
            effects += self._end(OfflineEvent.TIMED_OUT, now_ms, self._too_late())
        return effects

    def _exchange(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for outcome in self._zk.take_results():
            effects += self._outcome(outcome, now_ms)
        if self._zk.connected and self._zk.generation != self._generation:
            self._generation, self.reachable = self._zk.generation, True
            self._due_ms = None if self.stage is OfflineStage.WATCH else now_ms
            effects += self._write_behind.zk_connected(now_ms)
            if self._reading is not None and self._reading.lost:
                effects += self._reading.resume(now_ms)
        return effects

    def _outcome(self, outcome: ZkOutcome, now_ms: int) -> list[Effect]:
        effects = self._write_behind.outcome(outcome, now_ms)
        if self._task is not None:
            effects += self._task.outcome(outcome, now_ms)
        if self._reading is not None and self._reading.owns(outcome.tag):
            effects += self._reading.outcome(outcome, now_ms)
        return effects

    def _go_on(self, now_ms: int) -> list[Effect]:
        """Take the next step that the stage allows."""
        due = self._due_ms is not None and self._due_ms <= now_ms
        match self.stage:
            case OfflineStage.LOOK | OfflineStage.LOOK_AGAIN | OfflineStage.CLAIM:
                if self._task is not None and self._task.result is not None:
                    return self._finished(self._task, now_ms)
                if self._task is None and due and self._zk.connected:
                    return self._begin(now_ms)
            case OfflineStage.WATCH if due:
                self._enter(OfflineEvent.WATCH_OVER, now_ms)
                return [_line(self.stage)]
            case OfflineStage.READ:
                return self._read(now_ms)
            case OfflineStage.COMPARE:
                if not self.comparison.ended:
                    self.comparison.step()
                if self.comparison.ended:
                    return self._end(OfflineEvent.COMPLETED, now_ms, "")
            case OfflineStage.WRITE:
                return self._write(now_ms)
            case _:
                pass
        return []

    def _begin(self, now_ms: int) -> list[Effect]:
        self._due_ms = None
        kind = ClaimTask if self.stage is OfflineStage.CLAIM else GuardTask
        self._task = kind(self._zk, self._attempt)
        return self._task.begin(now_ms)

    def _finished(self, task: Task, now_ms: int) -> list[Effect]:
        self._task = None
        match task.result:
            case Lost():
                self._due_ms = now_ms + RETRY_MS
                return []
            case Missing(reasons=reasons):
                return self._end(
                    OfflineEvent.FAILED, now_ms, "; ".join(reason.text for reason in reasons)
                )
            case Claimed(term=term, counters=counters, position=position):
                self.claimed = True
                self._enter(OfflineEvent.CLAIMED, now_ms)
                image = self._attempt.image
                effects = self._write_behind.begin(term, counters, position, image, now_ms)
                self._write_behind.comparing.ask(self.comparison)
                return [_line(self.stage), *effects]
            case _:
                assert isinstance(task.result, Done)
                assert isinstance(task, GuardTask)
                return self._looked(task.found, now_ms)

    def _looked(self, found: Found | None, now_ms: int) -> list[Effect]:
        assert found is not None
        if self.stage is OfflineStage.LOOK:
            self._found = found
            self._enter(OfflineEvent.CLAIM_READ, now_ms)
            self._due_ms = now_ms + WATCH_MS
            return [_line(self.stage)]
        if found != self._found:
            return self._end(
                OfflineEvent.FAILED,
                now_ms,
                "somebody writes to /migration, /kraft_bridge, /controller or /controller_epoch: a "
                "controller is at work. Ask the one that leads (--url), or stop all of them first",
            )
        if not self.comparison.dry_run:
            self._enter(OfflineEvent.NOBODY_WRITES, now_ms)
            return [_line(self.stage)]
        self._enter(OfflineEvent.NOBODY_WRITES_DRY_RUN, now_ms)
        self._reading = Reading(self._zk)
        return [_line(self.stage), *self._reading.begin(now_ms)]

    def _read(self, now_ms: int) -> list[Effect]:
        reading = self._reading
        assert reading is not None
        if reading.failure is not None:
            return self._end(OfflineEvent.FAILED, now_ms, reading.failure.text)
        if reading.tree is None:
            return []
        self._reading = None
        self.comparison.look(reading.tree, self._attempt.image, self._attempt.entities)
        self._enter(OfflineEvent.TREE_READ, now_ms)
        return [_line(self.stage)]

    def _write(self, now_ms: int) -> list[Effect]:
        behind = self._write_behind
        if behind.mode is Mode.CLAIMED:
            return behind.reconcile(now_ms)
        if behind.mode is Mode.DEPOSED:
            return self._end(OfflineEvent.FAILED, now_ms, behind.why)
        if behind.mode is Mode.POISONED:
            one = behind.poison.znodes[0]
            return self._end(OfflineEvent.FAILED, now_ms, f"{one.path}: {one.cause}. {one.remedy}")
        if self.comparison.ended and behind.idle:
            return self._end(OfflineEvent.COMPLETED, now_ms, "")
        due_ms = behind.deadline_ms(now_ms)
        return behind.tick(now_ms) if due_ms is not None and due_ms <= now_ms else []

    def _too_late(self) -> str:
        down = self._zk.servers.down
        if down is not None:
            return f"no session with ZooKeeper, tried {self._zk.server} last: {down.why}"
        return f"the time is over: it did not come to an end of this: {self.stage.value}"

    def _enter(self, event: OfflineEvent, now_ms: int) -> None:
        self.stage, self._due_ms = state_after(NEXT, self.stage, event), now_ms

    def _end(self, event: OfflineEvent, now_ms: int, why: str) -> list[Effect]:
        self._enter(event, now_ms)
        self.why, self._due_ms = why, None
        return [*self._zk.close(now_ms), Halt(1 if why else 0, why)]


def _line(stage: OfflineStage) -> Effect:
    return Log("info", stage.value, {})
