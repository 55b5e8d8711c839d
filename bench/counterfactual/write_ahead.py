"""A node that writes to ZooKeeper first and to its log afterwards, for the bench alone.

It is the order that was rejected for this product: every commit waits for ZooKeeper, and after a
crash ZooKeeper may hold changes that the log never got. Everything else is the node's own: the
same machines, multis, log and group commit. While nothing is written to ZooKeeper yet (before dual
write), it is an ordinary node.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from emulator.controller.queue.answers import EncodedReply
from emulator.metadata.delta import Delta
from emulator.migration.dual_write.modes import Mode
from emulator.migration.states import State
from emulator.node.machine import Node
from emulator.seam import Effect, Row
from emulator.trace.rows import BlockCause, BlockEnd, BlockRow
from wire.schema import api_name

_KEPT: Final = 10_000
"""Groups whose times are kept, for answers that are given later."""
_ENDED: Final = frozenset({Mode.STOPPED, Mode.DEPOSED})


@dataclass(slots=True)
class _Group:
    """Batches appended in one step, and the effects that would make them durable."""

    first_offset: int
    end_offset: int
    files: Sequence[Effect]
    begin_ns: int
    end_ns: int = 0


class WriteAheadNode(Node):
    """See the module's docstring. Arguments as of Node."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._ahead = False
        self._handed = -1
        """Offset up to which the migration was given the changes."""
        self._withheld: deque[_Group] = deque()
        self._released: list[_Group] = []
        self._union_ns = 0
        self._total_ns = 0

    def blocked_union_ms(self, now_ms: int) -> int:
        """See Node; the time in which a batch waited for ZooKeeper, too."""
        since = self._stamp() - self._withheld[0].begin_ns if self._withheld else 0
        return super().blocked_union_ms(now_ms) + (self._union_ns + since) // 1_000_000

    def blocked_total_ms(self, now_ms: int) -> int:
        """See Node; the waits of all operations that were answered, too."""
        return super().blocked_total_ms(now_ms) + self._total_ns // 1_000_000

    def _appended(self, now_ms: int) -> list[Effect]:
        before = self._seen_end
        effects = super()._appended(now_ms)
        if self._seen_end == before or not self._writes_ahead():
            return effects
        assert not self.history.in_transaction, "dual write appends no metadata transaction"
        rows: list[Effect] = [effect for effect in effects if isinstance(effect, Row)]
        files = [effect for effect in effects if not isinstance(effect, Row)]
        self._withheld.append(_Group(before, self._seen_end, files, self._stamp()))
        deltas = self.history.appended_deltas(self._handed)
        self._handed = self._seen_end - 1
        return rows + self.migration.metadata(deltas, now_ms)

    def _writes_ahead(self) -> bool:
        driver = self.driver
        if driver is None:
            return False
        if not self._ahead and driver.state is State.DUAL_WRITE:
            self._ahead = driver.write_behind.mode is Mode.RUNNING
            self._handed = self.history.stable_offset
        return self._ahead and driver.write_behind.mode not in _ENDED

    def _committed(self, now_ms: int) -> list[Effect]:
        return self._release() + super()._committed(now_ms)

    def _stable(self, deltas: Sequence[Delta], now_ms: int) -> list[Effect]:
        fresh = [delta for delta in deltas if delta.last_offset > self._handed or not self._ahead]
        return super()._stable(fresh, now_ms)

    def _release(self) -> list[Effect]:
        """The log may now be written up to what ZooKeeper has confirmed."""
        driver = self.driver
        if not self._withheld or driver is None:
            return []
        ended = driver.write_behind.mode in _ENDED
        confirmed = driver.write_behind.lag.confirmed
        effects: list[Effect] = []
        now_ns = self._stamp()
        begin_ns = self._withheld[0].begin_ns
        while self._withheld and (ended or self._withheld[0].end_offset - 1 <= confirmed):
            group = self._withheld.popleft()
            group.end_ns = now_ns
            effects += group.files
            self._released.append(group)
        if effects:
            # Time during which something waited counts once.
            until_ns = self._withheld[0].begin_ns if self._withheld else now_ns
            self._union_ns += min(until_ns, now_ns) - begin_ns
            del self._released[:-_KEPT]
        return effects

    def _answer(self, reply: EncodedReply, now_ms: int) -> list[Effect]:
        effects = super()._answer(reply, now_ms)
        offsets = reply.ticket.offsets
        if not offsets or not self._released:
            return effects
        at = bisect_left(self._released, offsets[1] + 1, key=lambda group: group.end_offset)
        if at == len(self._released) or offsets[1] < self._released[at].first_offset:
            return effects
        group = self._released[at]
        waited_ns = group.end_ns - group.begin_ns
        self._total_ns += waited_ns
        self.blocking_ms.observe(waited_ns / 1e6)
        if self._tracing:
            api = api_name(reply.call.header.api_key)
            cause, end = BlockCause.WRITE_AHEAD, BlockEnd.RELEASED
            row = BlockRow(group.begin_ns, group.end_ns, cause, api, reply.ticket.request_id, end)
            effects.append(Row(row))
        return effects
