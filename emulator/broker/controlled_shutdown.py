"""ControlledShutdown: asks a ZooKeeper controller to move what this broker leads elsewhere.

A KRaft controller is not asked by this request but by heartbeats (``lifecycle``). Source:
KafkaServer.controlledShutdown, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import override

from emulator.broker.controller_channel import ControllerChannel, Outcome
from emulator.broker.part import Part
from emulator.net.channel import Answered
from emulator.seam import Effect, Event, Log, earliest
from wire import messages as m


class ControlledShutdown(Part):
    """A ``Part``; ``done`` once it was granted, or was refused too often.

    Args:
        broker_id: this broker.
        channel: to the ZooKeeper controller; gives up after the request timeout.
        broker_epoch: of its znode.
        retries: requests at most.
        backoff_ms: pause after one that did not succeed.
    """

    def __init__(
        self,
        broker_id: int,
        channel: ControllerChannel[None],
        broker_epoch: Callable[[], int],
        retries: int,
        backoff_ms: int,
    ) -> None:
        self.done = False
        self.granted = False
        self._broker_id = broker_id
        self._channel = channel
        self._broker_epoch = broker_epoch
        self._left = retries
        self._backoff_ms = backoff_ms
        self._due_ms: int | None = None
        self._effects: list[Effect] = []

    def begin(self, now_ms: int) -> None:
        """Ask now."""
        if not self.done:
            self._due_ms = now_ms

    # ---------------------------------------------------------------- a part
    @property
    @override
    def deadline_ms(self) -> int | None:
        times = (self._due_ms, self._channel.deadline_ms)
        return earliest(times)

    @override
    def start(self, now_ms: int) -> None:
        """:meth:`begin` asks."""

    @override
    def handle(self, event: Event, now_ms: int) -> None:
        self._take(self._channel.handle(event, now_ms), now_ms)

    @override
    def tick(self, now_ms: int) -> None:
        if self._due_ms is not None and self._due_ms <= now_ms:
            self._due_ms = None
            self._left -= 1
            request = m.ControlledShutdownRequest(
                broker_id=self._broker_id, broker_epoch=self._broker_epoch()
            )
            self._channel.put(request, None, now_ms)
        self._take(self._channel.tick(now_ms), now_ms)

    @override
    def effects(self, now_ms: int) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects + self._channel.effects(now_ms)

    @override
    def close(self) -> None:
        self._due_ms = None
        self._channel.close()

    def _take(self, outcomes: list[Outcome[None]], now_ms: int) -> None:
        for outcome in outcomes:
            why = "no answer"
            if isinstance(outcome, Answered):
                answer: m.ControlledShutdownResponse = outcome.message
                remaining = len(answer.remaining_partitions)
                why = f"error {answer.error_code}, {remaining} partitions remain"
                self.granted = not answer.error_code and not remaining
            self.done = self.granted or self._left <= 0
            if not self.granted:
                fields: dict[str, object] = {"why": why, "tries_left": self._left}
                self._effects.append(Log("warning", "controlled shutdown refused", fields))
            if not self.done:
                self._due_ms = now_ms + self._backoff_ms
