"""The part of the ZooKeeper client that the migration sees."""

from __future__ import annotations

from typing import Protocol

from emulator.seam import Effect
from emulator.zookeeper.frame_limit import FrameLimit
from emulator.zookeeper.ops import ZkOp, ZkRequest


class Zk(Protocol):
    """The part of the ZooKeeper client that migration uses."""

    limit: FrameLimit
    """How large a request may be, as known now."""

    @property
    def connected(self) -> bool:
        """Whether requests are accepted; no older request of ours can be applied after them."""

    def submit(self, tag: object, request: ZkRequest, now_ms: int) -> list[Effect]:
        """Send a request; the outcome is returned with ``tag``."""

    def op_bytes(self, op: ZkOp) -> bytes:
        """One op of a multi as it is sent; see ``Multi.body``."""

    def op_size(self, op: ZkOp) -> int:
        """Bytes that one op adds to a multi."""
