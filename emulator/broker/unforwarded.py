"""What a broker answers that cannot forward: in ZooKeeper mode, without migration.

A Kafka broker in that mode refuses what only the controller does: the client then asks the
controller that Metadata names. Some changes it writes to ZooKeeper itself, whichever broker is
asked; here they are refused by a code that is not retried, as another broker must be asked.

Source: KafkaApis.maybeForwardToController and the handlers behind it, Kafka 3.4-3.9.
"""

from __future__ import annotations

from typing import Final

from wire.errors import ErrorCode

WRITTEN_BY_ANY_BROKER: Final = frozenset({30, 31, 33, 44, 49})
"""CreateAcls, DeleteAcls, AlterConfigs, IncrementalAlterConfigs, AlterClientQuotas."""
_NOT_HERE: Final = (
    "This broker is in ZooKeeper mode without migration and does not write to ZooKeeper; ask a "
    "Kafka broker."
)
NOT_CONTROLLER: Final = (
    ErrorCode.NOT_CONTROLLER,
    "This is not the correct controller for this cluster.",
)


def unforwarded(api_key: int) -> tuple[ErrorCode, str]:
    """The error for a request that only a controller can serve, and its text."""
    if api_key in WRITTEN_BY_ANY_BROKER:
        return ErrorCode.INVALID_REQUEST, _NOT_HERE
    return NOT_CONTROLLER
