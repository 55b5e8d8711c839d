"""Makes the context of each handler call, and keeps state between calls."""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from emulator.controller.context import (
    Call,
    Context,
    ControllerConfig,
    MovingTopics,
    MutationQuotas,
)
from emulator.controller.queue.heartbeats import Heartbeats
from emulator.controller.queue.journal import Journal
from emulator.controller.result import ApiError, RefusedAttempt, Registering, Result
from emulator.controller.rules.refused_broker import attempt, printable
from emulator.controller.tables.index import TipIndex
from emulator.controller.tables.token_index import TokenIndex
from emulator.seam import Log
from emulator.trace.distribution import Distribution
from wire import messages as m
from wire.errors import ErrorCode

# Why brokers cannot register: a broker logs a code and tries again, so the controller says it.
#
# Each cause is logged once for each broker; the newest cause is shown by ``/status``.

CAUSES_MAX: Final = 1_000
"""Causes that are remembered: a caller may try with any number of ids."""


class Cause(NamedTuple):
    """Why a broker was refused: the name of the error, and its text."""

    broker_id: int
    code: str
    text: str

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


class RefusedBroker(NamedTuple):
    """The newest cause for a broker, how often it was refused for it, and the last attempt."""

    cause: Cause
    times: int
    attempt: RefusedAttempt | None


class Registrations:
    """Refused registrations since the start, of brokers that have not registered afterwards."""

    def __init__(self) -> None:
        self._causes: dict[Cause, None] = {}
        self._newest: dict[int, RefusedBroker] = {}
        self.lines: list[Log] = []

    def tried(self, one: Registering) -> None:
        """A broker was registered or refused."""
        if one.error is None:
            if self._newest.pop(one.broker_id, None) is not None:
                gone = [cause for cause in self._causes if cause.broker_id == one.broker_id]
                for cause in gone:
                    del self._causes[cause]
            return
        # The text may quote the caller, and is shown on terminals.
        cause = Cause(one.broker_id, one.error.code.name, printable(one.error.message or ""))
        if cause not in self._causes:
            full = len(self._causes) >= CAUSES_MAX
            fields: dict[str, object] = cause._asdict()
            self.lines.append(Log("debug" if full else "warning", "broker refused", fields))
            if full:
                return
            self._causes[cause] = None
        before = self._newest.get(one.broker_id)
        times = before.times if before is not None and before.cause == cause else 0
        self._newest[one.broker_id] = RefusedBroker(cause, times + 1, one.attempt)

    def why_not(self, broker_id: int) -> Cause | None:
        """Why a broker was refused last; None if it was not, or has registered afterwards."""
        found = self._newest.get(broker_id)
        return None if found is None else found.cause

    def refusals(self) -> list[RefusedBroker]:
        """The newest refusal of each broker that has not registered afterwards, by broker."""
        return [self._newest[broker_id] for broker_id in sorted(self._newest)]

    def take(self) -> list[Log]:
        """Lines for the log since the last call."""
        taken, self.lines = self.lines, []
        return taken


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
        tip = self._journal.history.tip
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
            told = attempt(self._journal.history.tip, call, self._config, code, now_ms)
            text = f"{call.principal} may not register brokers: it lacks ClusterAction"
            told_of = Registering(request.broker_id, ApiError(code, text), told)
            self.registrations.tried(told_of)

    def performed(self, result: Result[object]) -> None:
        """Store what a call leaves behind besides its records, once it is performed."""
        if result.spent is not None:
            self._quotas.performed(result.spent)
        if result.registering is not None:
            self.registrations.tried(result.registering)
