"""Producer ids, which a broker takes from the controller in blocks and gives away one by one.

The next block is asked for when nine tenths of one are given away, and when there is none. No
request waits for it: a producer that comes too early gets an error, and asks again.

Source: RPCProducerIdManager, Kafka 3.9; KIP-730.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from wire import messages as m

RETRY_MS: Final = 50
PRODUCER_ID_MAX: Final = 2**63 - 1

Then: TypeAlias = Callable[[Any | None, int], None]
"""Takes the answer, or None if there is none, and the time in ms."""
AskController: TypeAlias = Callable[[Any, Then, int], None]
"""Sends a request to the controller, under the broker's own name, at a time in ms."""


@dataclass(slots=True)
class _IdBlock:
    next: int
    end: int
    """The id after the last one."""
    prefetch: int
    """The id that asks for the next block."""


class ProducerIdSource:
    """See the module's docstring.

    Args:
        broker_id: this broker.
        broker_epoch: the epoch of its registration now.
        ask: its channel for forwarding.
    """

    def __init__(self, broker_id: int, broker_epoch: Callable[[], int], ask: AskController) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._ask = ask
        self._current: _IdBlock | None = None
        self._following: _IdBlock | None = None
        self._in_flight = False
        self._not_before_ms = 0

    def claim(self, now_ms: int) -> int | None:
        """A producer id that no producer had before; None: there is none yet."""
        current = self._current
        if current is None or current.next == current.end:
            self._current, self._following = self._following, None
            current = self._current
        if current is None:
            self._want(now_ms)
            return None
        claimed = current.next
        current.next += 1
        if claimed == current.prefetch:
            self._want(now_ms)
        return claimed

    def _want(self, now_ms: int) -> None:
        if self._in_flight or self._following is not None or now_ms < self._not_before_ms:
            return
        self._in_flight = True
        request = m.AllocateProducerIdsRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch()
        )
        self._ask(request, self._take, now_ms)

    def _take(self, answer: Any | None, now_ms: int) -> None:
        self._in_flight = False
        match answer:
            case m.AllocateProducerIdsResponse(
                error_code=0, producer_id_start=start, producer_id_len=length
            ) if start >= 0 and 0 < length <= PRODUCER_ID_MAX - start:
                self._following = _IdBlock(start, start + length, start + length * 9 // 10)
            case _:
                self._not_before_ms = now_ms + RETRY_MS
