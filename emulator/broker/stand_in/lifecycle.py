"""Registration and heartbeats: one request to the controller at a time.

Source: BrokerLifecycleManager, Kafka 3.9. Beyond Kafka: a broker whose registration the controller
has lost registers again in the same life; a Kafka broker continues to send heartbeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

from emulator.broker.stand_in.notices import (
    BrokerNotice,
    ControllerLost,
    LifecycleRefused,
    RegisteredAs,
)
from emulator.broker.stand_in.settings import BrokerSettings
from emulator.net.channel import OutboundChannel
from emulator.net.outcomes import Answered, Broken, Turn, Unanswered
from wire import messages as m
from wire.errors import ErrorCode

FORGOTTEN: Final = frozenset({ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED})


class BrokerLifecycle:
    """See the module's docstring.

    Args:
        settings: the broker that registers.
        reached: offset up to which the broker has followed the metadata log.
        new_conn: allocates connection ids.
    """

    def __init__(
        self, settings: BrokerSettings, reached: Callable[[], int], new_conn: Callable[[], int]
    ) -> None:
        self.epoch = -1
        self.fenced = True
        self.channel: OutboundChannel[str] = OutboundChannel(
            settings.controller, settings.channel, new_conn, count(1)
        )
        self._settings = settings
        self._reached = reached
        self._registered = False
        self._due_ms: int | None = None
        """When the next request is due; None while one is in flight, and before the start."""

    @property
    def deadline_ms(self) -> int | None:
        """When the next request is due."""
        return self._due_ms

    def begin(self, now_ms: int) -> None:
        """Register now."""
        self._due_ms = now_ms

    def end(self) -> None:
        """Send nothing more."""
        self._due_ms = None
        self.channel.close()

    def go_on(self, now_ms: int) -> None:
        """Send the request that is due."""
        if self._due_ms is None or self._due_ms > now_ms:
            return
        self._due_ms = None
        if self._registered:
            self.channel.put(self._heartbeat(), "heartbeat")
        else:
            self.channel.put(self._registration(), "registration")

    def take(self, turns: list[Turn[str]], now_ms: int) -> Iterator[BrokerNotice]:
        """Take the outcome of a request, and set when the next one is due."""
        pace = self._settings.pace
        for turn in turns:
            match turn:
                case Answered(message=m.BrokerRegistrationResponse() as answer):
                    yield self._take_registration(answer, now_ms)
                case Answered(message=m.BrokerHeartbeatResponse() as answer):
                    yield from self._take_heartbeat(answer, now_ms)
                case Unanswered():
                    pause_ms = pace.hasty_ms if self._registered else pace.register_ms
                    self._due_ms = now_ms + pause_ms
                case Broken(why=why):
                    yield ControllerLost(why)
                case _:
                    """Connected; no answer yet."""

    def _take_registration(self, answer: m.BrokerRegistrationResponse, now_ms: int) -> BrokerNotice:
        if answer.error_code:
            self._due_ms = now_ms + self._settings.pace.register_ms
            return LifecycleRefused("registration", answer.error_code)
        self._registered, self.fenced = True, True
        self.epoch = answer.broker_epoch
        self._due_ms = now_ms
        return RegisteredAs(self.epoch)

    def _take_heartbeat(
        self, answer: m.BrokerHeartbeatResponse, now_ms: int
    ) -> Iterator[BrokerNotice]:
        pace = self._settings.pace
        if not answer.error_code:
            self.fenced = answer.is_fenced
        self._due_ms = now_ms + (pace.hasty_ms if self.fenced else pace.heartbeat_ms)
        if answer.error_code:
            yield LifecycleRefused("heartbeat", answer.error_code)
        if answer.error_code in FORGOTTEN:
            self._registered = False
            self._due_ms = now_ms + pace.register_ms

    def _heartbeat(self) -> m.BrokerHeartbeatRequest:
        return m.BrokerHeartbeatRequest(
            broker_id=self._settings.broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._reached(),
        )

    def _registration(self) -> m.BrokerRegistrationRequest:
        kind = m.BrokerRegistrationRequest
        own = self._settings
        low, high = own.metadata_versions
        return kind(
            broker_id=own.broker_id,
            cluster_id=own.cluster_id,
            incarnation_id=own.incarnation_id,
            listeners=[
                kind.Listener(
                    name=own.listener.name, host=own.listener.host, port=own.listener.port
                )
            ],
            features=[
                kind.Feature(
                    name="metadata.version", min_supported_version=low, max_supported_version=high
                )
            ],
            rack=None,
            is_migrating_zk_broker=True,
            log_dirs=(own.directory,),
        )
