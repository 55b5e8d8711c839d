"""Fences brokers whose session has timed out, one at a time, oldest contact first.

Source: QuorumController.maybeFenceReplicas and ReplicationControlManager.maybeFenceOneStaleBroker,
Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.controller import broker_changes
from emulator.controller.broker_changes import Moves
from emulator.controller.context import ControllerConfig
from emulator.controller.heartbeats import Heartbeats
from emulator.controller.journal import Journal
from emulator.metadata.migration_state import MigrationState


class SessionTimer:
    """Fences the broker with the oldest heartbeat when its session ends.

    Args:
        config: what fencing depends on.
        journal: the metadata.
        heartbeats: the sessions.
        work: makes records in slices, and appends them, in as many batches as needed; they count
            for the bounds on what ZooKeeper does not have.
    """

    def __init__(
        self,
        config: ControllerConfig,
        journal: Journal,
        heartbeats: Heartbeats,
        work: Callable[[Moves, int], None],
    ) -> None:
        self._config = config
        self._journal = journal
        self._heartbeats = heartbeats
        self._work = work

    @property
    def deadline_ms(self) -> int | None:
        """When the next session ends; None if there is none."""
        oldest = self._silent_longest()
        return None if oldest is None else oldest[1]

    def tick(self, now_ms: int) -> None:
        """Fence the broker with the oldest heartbeat, if its session has ended."""
        oldest = self._silent_longest()
        if oldest is not None and oldest[1] <= now_ms:
            self._fence(oldest[0], now_ms)

    def fence_if_lapsed(self, broker_id: int, now_ms: int) -> None:
        """Fence a broker whose session has expired before the timer reaches it."""
        broker = self._journal.tip.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return
        if not self._heartbeats.has_valid_session(self._journal.tip, broker_id, now_ms):
            self._fence(broker_id, now_ms)

    def _fence(self, broker_id: int, now_ms: int) -> None:
        tip = self._journal.tip
        broker = tip.brokers[broker_id]
        if broker.fenced:
            moves = broker_changes.abdicate(tip, self._config, broker)
        else:
            moves = broker_changes.fence(tip, self._config, self._journal.index, broker)
        self._work(moves, now_ms)

    def _silent_longest(self) -> tuple[int, int] | None:
        tip = self._journal.tip
        if tip.migration_state is MigrationState.PRE_MIGRATION:
            return self._heartbeats.oldest(tip)
        return self._heartbeats.oldest(tip, self._journal.index.leads)
