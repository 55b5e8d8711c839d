"""Whether ZooKeeper has everything, as the leader that writes it can say it before it goes.

It can while it writes both stores, when the whole tree was compared with the log in this term, each
change since then is confirmed, and nothing that ZooKeeper refuses was left out. Each confirmed
multi has checked ``/controller_epoch`` at our claim, the last one of an orderly stop too.
"""

from __future__ import annotations

from emulator.metadata.finalisation_mark import FinalisationMark, MarkKind
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.migration.driver import MigrationDriver
from emulator.migration.states import State


def mark(driver: MigrationDriver, image: Image, leader_epoch: int) -> FinalisationMark | None:
    """The mark that a leader leaves; None if it cannot say so, or brokers still need ZooKeeper.

    Args:
        driver: of the leader.
        image: the newest stable one.
        leader_epoch: of this term.
    """
    behind = driver.write_behind
    compared_ms = behind.confirmations.compared_ms
    chain = behind.pipeline.chain
    if driver.state is not State.DUAL_WRITE or not behind.idle:
        return None
    if chain is None or compared_ms is None or chain.term.kraft_epoch != leader_epoch:
        return None
    if behind.poison.skipped or behind.poison.znodes:
        return None
    if image.migration_state is not MigrationState.MIGRATION:
        return None
    if any(broker.is_migrating_zk_broker for broker in image.brokers.values()):
        return None
    return FinalisationMark(
        MarkKind.LEFT,
        chain.term.node_id,
        leader_epoch,
        chain.term.zk_epoch,
        compared_ms,
        behind.lag.confirmed,
    )
