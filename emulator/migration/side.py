"""The migration part of a node as one object: a ZooKeeper client and the driver that uses it.

A node that has none to do holds a ``Finalising`` in its place, which answers the same calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emulator.metadata.brokers import Brokers
from emulator.metadata.delta import Delta
from emulator.metadata.history import History
from emulator.metadata.image import Image
from emulator.metadata.migration_state import FinalisationMark, MarkKind, MigrationState
from emulator.migration.authority import SILENT, Authority
from emulator.migration.driver import MigrationDriver
from emulator.migration.dual_write.comparison import Comparison, why_not
from emulator.migration.dual_write.modes import Mode
from emulator.migration.states import State
from emulator.seam import Closed, Connected, Effect, Log, Received, earliest
from emulator.zookeeper.client import ZkClient
from emulator.zookeeper.states import ZkState

# Whether ZooKeeper has everything, which the leader that writes it can state before it stops.
#
# The leader can state it while it writes both stores, when the whole tree was compared with the log
# in this term, each change since then is confirmed, and nothing that ZooKeeper refuses was left
# out. Each confirmed multi has checked ``/controller_epoch`` at our claim, and the claim is read
# back once more right before the mark.
#
# The tree is compared once more when the last broker has left ZooKeeper mode: until then such a
# broker, or a tool for it, may have written there.


class LastLook:
    """Asks for the comparison, and knows whether the mark may be left."""

    def __init__(self) -> None:
        self._brokers: Brokers | None = None
        self._zookeeper_mode = False
        """Whether a broker was in ZooKeeper mode when it was looked last."""
        self.since_ms: int | None = None
        """When the last one had left it; None: none has, while this process looked."""

    def step(self, driver: MigrationDriver, image: Image, now_ms: int) -> None:
        """Have the stores compared if that is due; to be called after each step of the driver."""
        if image.brokers is not self._brokers:
            self._brokers, before = image.brokers, self._zookeeper_mode
            self._zookeeper_mode = any(
                broker.is_migrating_zk_broker for broker in image.brokers.values()
            )
            if self._zookeeper_mode:
                self.since_ms = None
            elif before:
                self.since_ms = now_ms
        if self.since_ms is None or self._compared(driver) or driver.state is not State.DUAL_WRITE:
            return
        behind = driver.write_behind
        asked = behind.comparing.now
        if asked is not None and not asked.ended:
            return
        if not why_not(behind.mode, reconciled=behind.confirmations.reconciled):
            behind.comparing.ask(Comparison())

    def hindrance(self, driver: MigrationDriver, image: Image, leader_epoch: int) -> str:
        """Why the mark cannot be left now, and what to do, in a sentence; empty if it can.

        Args:
            driver: of the leader.
            image: the newest stable one.
            leader_epoch: of this term.
        """
        behind = driver.write_behind
        chain = behind.pipeline.chain
        if driver.state is not State.DUAL_WRITE:
            return "the migration is not in dual write: wait for phase 'dual write' in the status"
        skipped = {one.path: None for one in (*behind.poison.skipped, *behind.poison.znodes)}
        if skipped:
            paths = ", ".join([*skipped][:3])
            return (
                f"ZooKeeper refuses {paths}: do what the status says of it, then "
                "kraft-bridge zk reconcile"
            )
        if any(broker.is_migrating_zk_broker for broker in image.brokers.values()):
            return "a broker is in ZooKeeper mode: restart it in KRaft mode"
        if not self._compared(driver):
            return (
                "the tree was not read since the last broker left ZooKeeper mode: wait until the "
                "comparison has ended, as migration.compared_at in the status shows"
            )
        ours = chain is not None and chain.term.kraft_epoch == leader_epoch
        if not ours or not behind.idle or behind.confirmations.read_ms is None:
            return BEHIND
        if image.migration_state is not MigrationState.MIGRATION:
            return "the metadata log is not in a migration"
        return ""

    def mark(
        self, driver: MigrationDriver, image: Image, leader_epoch: int
    ) -> FinalisationMark | None:
        """The mark that a leader leaves; None if :meth:`hindrance` says why not."""
        behind = driver.write_behind
        read_ms, chain = behind.confirmations.read_ms, behind.pipeline.chain
        if self.hindrance(driver, image, leader_epoch) or chain is None or read_ms is None:
            return None
        return FinalisationMark(
            MarkKind.LEFT,
            chain.term.node_id,
            leader_epoch,
            chain.term.zk_epoch,
            read_ms,
            behind.lag.confirmed,
        )

    def _compared(self, driver: MigrationDriver) -> bool:
        """Whether the tree was read after the last broker had left ZooKeeper mode."""
        if self.since_ms is None:
            return True
        read_ms = driver.write_behind.confirmations.read_ms
        return read_ms is not None and read_ms >= self.since_ms


BEHIND: Final = "ZooKeeper does not have everything yet: wait until the lag is 0"
"""The one hindrance that an orderly stop removes, as it writes what is left."""
FINALISED: Final = "ZooKeeper is not used any more, for good"
_OUT_OF_CHARGE: Final = {
    Mode.STOPPED: "ZooKeeper was not compared with the log since the start",
    Mode.DEPOSED: "this controller has lost its claim;",
}


class MigrationSide:
    """Every call may return effects, to be performed in order."""

    def __init__(self, zk: ZkClient, driver: MigrationDriver, history: History) -> None:
        """``history``: the metadata of this node."""
        self.zk = zk
        self.driver = driver
        self._history = history
        self._last_look = LastLook()
        self._seen: Image | None = None
        """What was stable in the last :meth:`exchange`."""
        self._seen_generation = 0
        self._started = False
        self._leads = False
        self._over = False
        """Whether the migration was finalised while this process ran."""
        self._left = False
        """Whether it has taken leave: what ZooKeeper answers after that changes nothing."""
        self._done = False
        """Whether ZooKeeper is not used any more, by this process: it is over, or has left."""

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` has something to do."""
        if self._done:
            return self.zk.deadline_ms
        times = (self.zk.deadline_ms, self.driver.deadline_ms)
        return earliest(times)

    @property
    def connected(self) -> bool:
        """Whether there is a session with ZooKeeper, if one is needed."""
        return self._over or self.zk.connected

    @property
    def mode(self) -> Mode:
        """The mode of the write-behind."""
        return self.driver.write_behind.mode

    @property
    def authority(self) -> Authority:
        """Whether brokers and callers may be answered."""
        return self.driver.authority

    @property
    def drained(self) -> bool:
        """Whether nothing committed is missing in ZooKeeper, or nothing is written there.

        Before the log has a copy ZooKeeper is owed nothing: a copy goes on only with a session.
        """
        copied = self._history.tip.migration_state is MigrationState.MIGRATION
        return self._left or self.driver.drained or not (copied or self.zk.connected)

    def start(self, now_ms: int) -> list[Effect]:
        """Connect to ZooKeeper; a follower only reads there. A second call changes nothing."""
        if self._started:
            return []
        self._started = True
        return [*self.driver.start(now_ms), *self.zk.start(now_ms)]

    def lead(self, leader_epoch: int, now_ms: int) -> list[Effect]:
        """Begin a term: this node leads in that epoch, and has appended its first records."""
        self._leads = True
        if self._over:
            return []
        effects = self.start(now_ms)
        return effects + self.driver.became_leader(leader_epoch, now_ms)

    def resign(self, now_ms: int) -> list[Effect]:
        """End the term: nothing more is written to ZooKeeper."""
        self._leads = False
        self.zk.withdraw()
        return self.driver.resigned(now_ms)

    def handle(self, conn: int, event: Received | Closed | Connected, now_ms: int) -> list[Effect]:
        """Take an event of a connection; one that neither of the two has opened changes nothing."""
        if self.zk.owns(conn):
            return self.zk.handle(event, now_ms)
        return self.driver.handle(event, now_ms) if self.driver.owns(conn) else []

    def tick(self, now_ms: int) -> list[Effect]:
        """Do what is due."""
        effects: list[Effect] = []
        for machine in (self.zk,) if self._done else (self.zk, self.driver):
            due_ms = machine.deadline_ms
            if due_ms is not None and due_ms <= now_ms:
                effects += machine.tick(now_ms)
        return effects

    @property
    def dirty(self) -> bool:
        """Whether :meth:`exchange` has something to do."""
        zk = self.zk
        same = self._history.stable is self._seen and zk.generation == self._seen_generation
        return not same or bool(zk.outcomes) or self._last_look.since_ms is not None

    def exchange(self, now_ms: int) -> list[Effect]:
        """Hand on to the driver what ZooKeeper has answered, and a session that is new."""
        effects: list[Effect] = []
        results = self.zk.take_results()
        self._seen = stable = self._history.stable
        if self._done:
            return []
        if stable.migration_state is MigrationState.POST_MIGRATION:
            return self._end(now_ms)
        if results:
            effects += self.driver.zk_results(results, now_ms)
        if self.zk.generation != self._seen_generation and self.zk.connected:
            self._seen_generation = self.zk.generation
            effects += self.driver.zk_connected(now_ms)
        self._last_look.step(self.driver, stable, now_ms)
        return effects

    def _end(self, now_ms: int) -> list[Effect]:
        """The log is final: ZooKeeper is not used any more, by this process at once (F09)."""
        self._over = self._done = True
        effects = self.driver.resigned(now_ms) + self.zk.close(now_ms)
        return [*effects, Log("info", "the migration is finalised", {"why": FINALISED})]

    def metadata(self, deltas: Sequence[Delta], now_ms: int) -> list[Effect]:
        """Take what became stable, oldest first; to be called when the high watermark has moved."""
        return [] if self._done else self.driver.metadata(deltas, now_ms)

    def mark(self, leader_epoch: int) -> FinalisationMark | None:
        """What to leave in the log if ZooKeeper has everything, and may be left; else None."""
        if self._over:
            return None
        return self._last_look.mark(self.driver, self._history.stable, leader_epoch)

    def no_mark_because(self, leader_epoch: int) -> str:
        """Why a leader could leave no mark now, and what to do; empty if it could."""
        if self._over or not self._leads:
            return ""
        return self._last_look.hindrance(self.driver, self._history.stable, leader_epoch)

    def check(self, now_ms: int) -> list[Effect]:
        """See whether the claim is still ours; ``drained`` is false until it is known."""
        return [] if self._over else self.driver.write_behind.check(now_ms)

    def keep_from(self, stable: Image) -> int | None:
        """From which offset on the log is kept for the next claim; None: nothing has to be.

        A voter that follows keeps nothing for it. It may lead later, and lack the batch that
        ZooKeeper followed last; then the majority proves its log (``continuity``).
        """
        if not self._leads or self._over:
            return None
        if self.driver.state is State.BECOME_CONTROLLER:
            return 0  # a claim without an answer may have been applied: it names our newest batch
        return self.driver.write_behind.keep_from(stable)

    @property
    def apart_since_ms(self) -> int | None:
        """Since when ZooKeeper cannot be reached; None if it can, or was not tried yet."""
        down = self.zk.servers.down
        return None if down is None or self.connected else down.since_ms

    @property
    def unfit_because(self) -> str:
        """Why this node must not lead, though another voter may; empty if nothing is known."""
        return self.driver.waits.own_fault

    @property
    def over_because(self) -> str:
        """Why this leader may not write in its epoch, though one of a later epoch may; else empty.

        The claim was taken from it, or cannot be recognised as its own any more.
        """
        return self.driver.waits.over

    @property
    def refused_because(self) -> str:
        """Why this leader cannot claim, though another voter perhaps can; empty if it can or has.

        Not while it waits for brokers: another voter would have to wait for them too.
        """
        claims = self.driver.state is State.BECOME_CONTROLLER or self.authority in SILENT
        return self.driver.waits.perhaps_own if claims and self.mode is Mode.STOPPED else ""

    @property
    def fitter(self) -> Sequence[int]:
        """Voters that are known to be able to lead, if this one is not; nothing is known here."""
        return ()

    def drain(self, now_ms: int) -> list[Effect]:
        """Clean shutdown: write what is left at once."""
        return self.driver.drain(now_ms)

    def close(self, now_ms: int) -> tuple[list[Effect], bool]:
        """Take leave of ZooKeeper; whether its answer is still to come.

        What is in flight is answered before, and nothing follows from it: a claim that succeeds now
        would begin a takeover without a session, and the stop would wait for it.
        """
        self._left = self._done = True
        effects = self.zk.close(now_ms)
        return effects, self.zk.state is ZkState.CLOSING

    def release(self) -> None:
        """Nothing is held by a node with the flag."""

    def out_of_charge(self) -> str:
        """Why ZooKeeper may miss something, drained or not; empty if no reason is known."""
        behind = self.driver.write_behind
        why = _OUT_OF_CHARGE.get(behind.mode)
        if why is not None:
            return f"{why} {behind.why}".rstrip()
        poison = behind.poison
        if blocked := [f"{one.path} ({one.cause})" for one in poison.znodes if not one.skipped]:
            return f"it refuses {', '.join(blocked)}"
        skipped = [one.path for one in poison.skipped]
        return f"skipped, as ZooKeeper refuses them: {', '.join(skipped)}" if skipped else ""
