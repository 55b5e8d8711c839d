"""The brokers to which our controller epoch is an old one: they refuse all control requests.

They know a higher one from an earlier claim. A claim takes an epoch above all that ZooKeeper shows
(``taking_over/claim.py``), so this happens only if ZooKeeper has forgotten claims: it was restored
from an older state than our own znode allows to count from.
"""

from __future__ import annotations

from emulator.migration.status import Waiting
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.net.control import ControlRequest, ControlResponse
from emulator.znodes import controller
from wire.errors import ErrorCode


class Outdated:
    """Follows the brokers' answers. ``waiting``: the brokers, and what to do, for ``/status``."""

    def __init__(self) -> None:
        self._brokers: dict[int, Waiting] = {}

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """One reason for each broker whose last answer was a refusal of our epoch."""
        return tuple(self._brokers[broker_id] for broker_id in sorted(self._brokers))

    def answered(
        self, broker_id: int, request: ControlRequest, response: ControlResponse, now_ms: int
    ) -> None:
        """Take a broker's answer to a control request."""
        if response.error_code != ErrorCode.STALE_CONTROLLER_EPOCH:
            self._brokers.pop(broker_id, None)
        elif broker_id not in self._brokers:
            self._brokers[broker_id] = Waiting(_reason(broker_id, request), now_ms)

    def forget(self, broker_id: int) -> None:
        """There is no connection to this broker any more."""
        self._brokers.pop(broker_id, None)


def _reason(broker_id: int, request: ControlRequest) -> Reason:
    text = (
        f"broker {broker_id} knows a controller epoch above ours ({request.controller_epoch}) and "
        "refuses what it is told: ZooKeeper was restored from an older state. Stop this "
        f"controller, write the epoch that the broker knows into {controller.EPOCH_PATH} (its log "
        "names it as the latest known controller epoch) and start this controller again; or "
        "restart the broker, which then knows none"
    )
    return Reason(Why.STALE_CONTROLLER_EPOCH, str(broker_id), text, fatal=True)
