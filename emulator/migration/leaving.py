"""Whether ZooKeeper has everything, which the leader that writes it can state before it stops.

The leader can state it while it writes both stores, when the whole tree was compared with the log
in this term, each change since then is confirmed, and nothing that ZooKeeper refuses was left out.
Each confirmed multi has checked ``/controller_epoch`` at our claim, and the claim is read back once
more right before the mark.

The tree is compared once more when the last broker has left ZooKeeper mode: until then such a
broker, or a tool for it, may have written there.
"""

from __future__ import annotations

from emulator.metadata.brokers import Brokers
from emulator.metadata.image import Image
from emulator.metadata.migration_state import FinalisationMark, MarkKind, MigrationState
from emulator.migration.driver import MigrationDriver
from emulator.migration.dual_write.comparison import Comparison, why_not
from emulator.migration.states import State


class LastLook:
    """Asks for the comparison, and knows whether the mark may be left."""

    def __init__(self) -> None:
        self._brokers: Brokers | None = None
        self._zookeeper_mode = False
        """Whether a broker was in ZooKeeper mode when it was looked last."""
        self._since_ms: int | None = None
        """When the last one had left it; None: none has, while this process looked."""

    def step(self, driver: MigrationDriver, image: Image, now_ms: int) -> None:
        """Have the stores compared if that is due; to be called after each step of the driver."""
        if image.brokers is not self._brokers:
            self._brokers, before = image.brokers, self._zookeeper_mode
            self._zookeeper_mode = any(
                broker.is_migrating_zk_broker for broker in image.brokers.values()
            )
            if self._zookeeper_mode:
                self._since_ms = None
            elif before:
                self._since_ms = now_ms
        behind = driver.write_behind
        asked = behind.comparing.now
        if self._compared(driver) or driver.state is not State.DUAL_WRITE:
            return
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
            return "ZooKeeper does not have everything yet: wait until the lag is 0"
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
        if self._since_ms is None:
            return True
        read_ms = driver.write_behind.confirmations.read_ms
        return read_ms is not None and read_ms >= self._since_ms
