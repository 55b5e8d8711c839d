"""Makes the context of each handler call, and keeps state between calls."""

from __future__ import annotations

import random

from emulator.controller.context import Call, Context, ControllerConfig
from emulator.controller.heartbeats import Heartbeats
from emulator.controller.index import TipIndex
from emulator.controller.journal import Journal
from emulator.controller.moving import MovingTopics
from emulator.controller.mutation_quota import MutationQuotas
from emulator.controller.refused_broker import attempt
from emulator.controller.registrations import Registrations
from emulator.controller.result import ApiError, Registering, Result
from emulator.controller.token_index import TokenIndex
from emulator.trace.distribution import Distribution
from wire import messages as m
from wire.errors import ErrorCode


class Surroundings:
    """The input of handlers besides the image and the request.

    The active controller owns everything here, and it is read at each call; only the buckets of the
    mutation quota, what is known of refused brokers, and how long calls waited, are kept in this
    class.
    """

    def __init__(
        self, config: ControllerConfig, journal: Journal, heartbeats: Heartbeats, rng: random.Random
    ) -> None:
        self._config = config
        self._journal = journal
        self._heartbeats = heartbeats
        self._rng = rng
        self._quotas = MutationQuotas(config.mutation_quota)
        self.registrations = Registrations()
        self.tokens = TokenIndex(config.tokens.secret)
        self._moving = MovingTopics()
        self.queue_ms = Distribution()
        """How long each call that may append waited for those before it."""

    @property
    def index(self) -> TipIndex:
        """Partitions by what is special about them, of the newest image; to be read only."""
        return self._journal.index

    def of(self, call: Call, now_ms: int, leader_id: int) -> Context:
        """The context for the handler of a call now."""
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
            tokens=self.tokens,
            moving=self._moving,
        )

    def denied(self, call: Call, error: ApiError, now_ms: int) -> None:
        """A caller may not make this call; of a broker that would register, it is remembered."""
        request, code = call.message, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if isinstance(request, m.BrokerRegistrationRequest) and error.code is code:
            told = attempt(self._journal.tip, call, self._config, code, now_ms)
            text = f"{call.principal} may not register brokers: it lacks ClusterAction"
            told_of = Registering(request.broker_id, ApiError(code, text), told)
            self.registrations.tried(told_of)

    def performed(self, result: Result[object]) -> None:
        """Store what a call leaves behind besides its records, once it is performed."""
        if result.spent is not None:
            self._quotas.performed(result.spent)
        if result.registering is not None:
            self.registrations.tried(result.registering)
