"""Makes the context of each handler call, and keeps what such calls leave behind for the next."""

from __future__ import annotations

import random

from emulator.controller.context import Call, Context, ControllerConfig
from emulator.controller.heartbeats import Heartbeats
from emulator.controller.journal import Journal
from emulator.controller.mutation_quota import MutationQuotas
from emulator.controller.result import Result


class Surroundings:
    """What handlers may know besides the image and the request.

    Everything is the active controller's own and read where a call is made; only the buckets of the
    quota on mutations live here.
    """

    def __init__(
        self, config: ControllerConfig, journal: Journal, heartbeats: Heartbeats, rng: random.Random
    ) -> None:
        self._config = config
        self._journal = journal
        self._heartbeats = heartbeats
        self._rng = rng
        self._quotas = MutationQuotas(config.mutation_quota)

    def of(self, call: Call, now_ms: int, leader_id: int) -> Context:
        """What the handler of a call may know now."""
        tip = self._journal.tip
        return Context(
            config=self._config,
            call=call,
            now_ms=now_ms,
            next_offset=self._journal.next_offset,
            heartbeats=self._heartbeats,
            index=self._journal.index,
            rng=self._rng,
            features_epoch=self._journal.features_epoch,
            leader_id=leader_id,
            mutation_quota=self._quotas.of(
                tip.client_quotas, call.principal, call.header.client_id, now_ms
            ),
        )

    def performed(self, result: Result[object]) -> None:
        """Keep what a call took, now that it counts."""
        if result.spent is not None:
            self._quotas.performed(result.spent)
