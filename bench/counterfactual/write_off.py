"""A node that stops writing to ZooKeeper once dual write has begun, for the bench alone.

What remains is the cost of everything else: the counterfactual to a row of the ordinary node. The
a change is propagated to brokers after ZooKeeper has it, so none is propagated either.
"""

from __future__ import annotations

from collections.abc import Sequence

from emulator.metadata.delta import Delta
from emulator.migration.states import State
from emulator.node.machine import Node
from emulator.seam import Effect


class WriteOffNode(Node):
    """See the module's docstring. Arguments as of Node."""

    def _stable(self, deltas: Sequence[Delta], now_ms: int) -> list[Effect]:
        if self.driver is not None and self.driver.state is State.DUAL_WRITE:
            return []
        return super()._stable(deltas, now_ms)
