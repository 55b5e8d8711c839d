"""Responses that wait for the log: sent when their last record is committed or stable, or dropped.

Source: DeferredEventQueue, the two queues of QuorumController, Kafka 3.9.
"""

from __future__ import annotations

import heapq
from collections import deque
from enum import IntEnum

import msgspec

from emulator.controller.context import Call
from emulator.controller.queue.answers import EncodedReply


class Until(IntEnum):
    """What an answer waits for.

    COMMITTED: its offset is below the high watermark. STABLE: also, the metadata transaction that
    it is part of is no longer open.
    """

    COMMITTED = 0
    STABLE = 1


def deadline_of(call: Call) -> int | None:
    """The deadline of the call, else the one from the request's timeout."""
    if call.deadline_ms is not None:
        return call.deadline_ms
    timeout_ms = getattr(call.message, "timeout_ms", None)
    return None if timeout_ms is None else call.received_ms + int(timeout_ms)


class _Waiting(msgspec.Struct, eq=False, gc=False):
    offset: int
    reply: EncodedReply
    done: bool = False


class Purgatory:
    """Deferred responses, in order of offset, with deadlines.

    Invariant: within a queue offsets never fall, since the log only grows.
    """

    def __init__(self) -> None:
        self._queues: tuple[deque[_Waiting], deque[_Waiting]] = (deque(), deque())
        self._deadlines: list[tuple[int, int, _Waiting]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return sum(not waiting.done for queue in self._queues for waiting in queue)

    def add(self, until: Until, offset: int, reply: EncodedReply, deadline_ms: int | None) -> None:
        """Keep a response until ``offset`` is reached, at most until the deadline."""
        waiting = _Waiting(offset, reply)
        self._queues[until].append(waiting)
        if deadline_ms is not None:
            self._sequence += 1
            heapq.heappush(self._deadlines, (deadline_ms, self._sequence, waiting))

    def highest_pending_offset(self, until: Until) -> int | None:
        """Offset that a response without records must wait for; None if it need not wait."""
        committed, stable = self._queues
        offset = committed[-1].offset if committed else None
        if until is Until.COMMITTED or not stable:
            return offset
        return stable[-1].offset if offset is None else max(offset, stable[-1].offset)

    def reached(self, committed_offset: int, stable_offset: int) -> list[EncodedReply]:
        """Responses whose offset is reached, per queue in order."""
        replies = []
        for queue, offset in zip(self._queues, (committed_offset, stable_offset), strict=True):
            while queue and queue[0].offset <= offset:
                waiting = queue.popleft()
                if not waiting.done:
                    waiting.done = True
                    replies.append(waiting.reply)
        return replies

    @property
    def deadline_ms(self) -> int | None:
        """When the next waiting response times out."""
        while self._deadlines and self._deadlines[0][2].done:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expired(self, now_ms: int) -> list[Call]:
        """Calls whose deadline has passed; their responses are dropped."""
        calls = []
        while (deadline_ms := self.deadline_ms) is not None and deadline_ms <= now_ms:
            waiting = heapq.heappop(self._deadlines)[2]
            waiting.done = True
            calls.append(waiting.reply.call)
        return calls

    def drain(self) -> list[Call]:
        """Every call still waiting; all their responses are dropped."""
        calls = [one.reply.call for queue in self._queues for one in queue if not one.done]
        for queue in self._queues:
            for waiting in queue:
                waiting.done = True
            queue.clear()
        self._deadlines.clear()
        return calls
