"""The orderly stop of a node: new work is refused, what is committed goes to ZooKeeper first.

The leader of several voters does that for a short time only, as their leader, since two of them
must not write to ZooKeeper at once: then it resigns, and the next one writes what is left. One that
cannot read its log, as it finalises a level that this release does not support, resigns at once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from emulator.metadata.migration_state import MigrationState, record_of
from emulator.node.assembly import Machines
from emulator.seam import Effect, Log

DRAIN_MS_MAX: Final = 60_000
"""How long an orderly stop waits for ZooKeeper before it ends with an error."""
HANDING_OVER_MS_MAX: Final = 2_000
"""How long the leader of several voters writes to ZooKeeper before it resigns."""
TELLING_MS_MAX: Final = 1_000
"""How long it waits until the others know that it has resigned."""


class End(NamedTuple):
    """The process may end."""

    why: str
    exit_code: int


def saying(*, writes: bool, leads: bool) -> str:
    """The line with which a stop begins.

    Args:
        writes: whether this node writes to ZooKeeper.
        leads: whether it leads several voters.

    >>> saying(writes=False, leads=True)
    'stopping: another voter leads then; a second signal stops at once'
    """
    at_most_ms = HANDING_OVER_MS_MAX if leads else DRAIN_MS_MAX
    written = f"remaining changes are written to ZooKeeper, for at most {at_most_ms // 1000} s"
    parts = [*[written] * writes, *["another voter leads then"] * leads]
    return f"stopping{': ' * bool(parts)}{'; '.join(parts)}; a second signal stops at once"


class OrderlyStop:
    """The machines of a node on their way to its end."""

    def __init__(self, machines: Machines) -> None:
        self._raft = machines.raft
        self._controller = machines.controller
        self._migration = machines.migration
        self._peers = machines.peers
        self._alone = len(machines.raft.config.voters) == 1
        self.begun = False
        """Whether the stop has begun."""
        self._since_ms: int | None = None
        self._leads = False
        """Whether this node still leads several voters."""
        self._resigned_ms: int | None = None
        self._told: list[Effect] = []
        """Lines to be logged."""
        self._checked = False
        """Whether the claim is read back before the mark."""
        self._broken = ""
        """Why it ends at once, without a look at ZooKeeper."""
        self._marked = False
        """Whether the mark was appended, or could not be."""
        self._mark_offset: int | None = None
        """Of the mark, until it is known to be kept; None: nothing is waited for."""
        self._mark_epoch = -1

    @property
    def deadline_ms(self) -> int | None:
        """When it goes on whatever ZooKeeper does; None before it has begun."""
        if self._since_ms is None:
            return None
        if self._leads:
            return self._since_ms + HANDING_OVER_MS_MAX
        if self._resigned_ms is not None:
            return self._resigned_ms + TELLING_MS_MAX
        return self._since_ms + DRAIN_MS_MAX

    def begin(self, now_ms: int) -> list[Effect]:
        """Refuse new work, write what is left."""
        self.begun, self._since_ms = True, now_ms
        self._leads = not self._alone and self._raft.is_leader
        writes = self._migration.driver is not None and (self._alone or self._leads)
        effects: list[Effect] = [Log("info", saying(writes=writes, leads=self._leads), {})]
        if not self._leads:
            effects += self._raft.shutdown(now_ms)
        self._controller.end()
        return effects + self._migration.drain(now_ms)

    def break_off(self, why: str, now_ms: int) -> list[Effect]:
        """Resign and end, with ``why`` as the error, once the others know; nothing if it is empty.

        What is left the next leader writes to ZooKeeper: this one cannot go on with the log.
        """
        if not why or self.begun:
            return []
        self._broken, self._marked = why, True
        self.begun, self._since_ms, self._resigned_ms = True, now_ms, now_ms
        effects: list[Effect] = [Log("error", "cannot lead on: resigns and ends", {"why": why})]
        effects += self._raft.shutdown(now_ms, self._with_flag)
        self._controller.end()
        return effects

    def leave_mark(self, now_ms: int) -> list[Effect]:
        """Tell a leader without the flag, in the log, that ZooKeeper has everything, if it has.

        The last record of this leader; ZooKeeper gets its offset too.
        """
        raft, late = self._raft, self._late(now_ms)
        if self._marked or self._since_ms is None or late or not raft.is_leader:
            return []
        if self._behind or raft.high_watermark < raft.log_end_offset:
            return []
        if not self._checked:
            self._checked = True
            if checking := self._migration.check(now_ms):
                return checking
        self._marked = True
        mark = self._migration.mark(raft.leader_epoch)
        if mark is None:
            self._told = self._no_mark()
            return []
        self._mark_epoch = raft.leader_epoch
        self._mark_offset = self._controller.append((record_of(mark),), now_ms)
        text = "ZooKeeper has everything: the mark is written, which says so"
        return [Log("info", text, {"offset": self._mark_offset})]

    def failed(self, why: str) -> list[Effect]:
        """The disk failed in an orderly stop: say what becomes of the mark."""
        if not self.begun or not self._raft.is_leader:
            return []
        return self._doubt(why) if self._marked else self._no_mark(why)

    def _kept(self, now_ms: int) -> list[Effect]:
        """Say that the mark is kept as soon as it is committed, or once nobody waits for that."""
        if self._mark_offset is None:
            return []
        if self._raft.high_watermark > self._mark_offset:
            own = self._raft.epoch_at(self._mark_offset) == self._mark_epoch
            self._mark_offset = None
            if not own:
                return self._no_mark("another leader wrote over it")
            return [Log("info", "the mark is kept: a leader without the flag may finalise", {})]
        if not self._late(now_ms):
            return []
        return self._doubt("it was not stored, by a majority of the voters, in time")

    def _doubt(self, why: str) -> list[Effect]:
        if self._mark_offset is None:
            return []
        self._mark_offset = None
        text = (
            "it is not known whether the mark is kept, without which no controller without the "
            "flag may finalise: status of the next leader says it"
        )
        return [Log("warning", text, {"why": why})]

    def _no_mark(self, why: str = "") -> list[Effect]:
        """Say that a leader without the flag cannot finalise, and why."""
        image, migration = self._controller.stable, self._migration
        if migration.driver is None or image.migration_state is not MigrationState.MIGRATION:
            return []
        why = why or migration.no_mark_because(self._raft.leader_epoch)
        why = why or "what was left took too long: stop it again when the lag is 0"
        text = "no mark is left, without which no controller without the flag may finalise"
        return [Log("warning", text, {"why": why})]

    def hand_over(self, now_ms: int) -> list[Effect]:
        """Resign, as soon as nothing is left to write or too much; what follows is to be sent."""
        told, self._told = self._told + self._kept(now_ms), []
        return told + self._resigned(now_ms)

    def _resigned(self, now_ms: int) -> list[Effect]:
        if not self._leads or self._since_ms is None:
            return []
        late = now_ms >= self._since_ms + HANDING_OVER_MS_MAX
        open_end = self._raft.high_watermark < self._raft.log_end_offset
        if self._raft.is_leader and (self._behind or open_end) and not late:
            return []
        self._leads = False
        self._resigned_ms = now_ms
        missed = [] if self._marked or not self._raft.is_leader else self._no_mark()
        return [*missed, *self._raft.shutdown(now_ms, self._with_flag)]

    def go_on(self, now_ms: int) -> tuple[list[Effect], End | None]:
        """What is to do now, and the end if it has come."""
        effects, end = self._go_on(now_ms)
        if end is not None:
            effects = [*self._doubt("it ends before a majority of the voters stored it"), *effects]
        return effects, end

    def _go_on(self, now_ms: int) -> tuple[list[Effect], End | None]:
        deadline_ms, migration = self.deadline_ms, self._migration
        if deadline_ms is None or self._leads:
            return [], None
        late = now_ms >= deadline_ms
        if self._broken:
            over = late or not (self._peers.ending or self._raft.dirty)
            return [], End(self._broken, 1) if over else None
        if not late and (self._behind or self._peers.ending):
            # Records that are not committed yet must still go to ZooKeeper.
            return [], None
        if not migration.drained:
            why = migration.out_of_charge() or "it did not answer"
            return [], End(f"stopped; changes may be missing in ZooKeeper: {why}", 1)
        effects, closing = migration.close(now_ms)
        if closing and not late:
            return effects, None
        if not self._alone:
            return effects, End("stopped; the other voters go on", 0)
        dual_write = self._controller.stable.migration_state == MigrationState.MIGRATION
        if migration.driver is None or not dual_write:
            return effects, End("stopped", 0)
        why = migration.out_of_charge()
        if not why:
            return effects, End("everything committed is in ZooKeeper", 0)
        return effects, End(f"stopped; changes may be missing in ZooKeeper: {why}", 1)

    @property
    def _with_flag(self) -> list[int]:
        """Voters that can go on with a migration; others would only hand it on to them."""
        image = self._controller.stable
        if image.migration_state is not MigrationState.MIGRATION:
            return []
        return [each.id for each in image.controllers.values() if each.zk_migration_ready]

    def _late(self, now_ms: int) -> bool:
        deadline_ms = self.deadline_ms
        return deadline_ms is not None and now_ms >= deadline_ms

    @property
    def _behind(self) -> bool:
        """Whether something that was accepted is not where it has to be yet."""
        busy = self._controller.busy or self._raft.dirty
        return busy or not self._migration.drained
