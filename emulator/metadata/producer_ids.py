"""The next producer id to allocate.

Source: ProducerIdsRecord; ProducerIdControlManager.replay, Kafka 3.9.
"""

from __future__ import annotations

import msgspec

from emulator.metadata.errors import ReplayError
from wire import records as r


class ProducerIds(msgspec.Struct, frozen=True, gc=False):
    """``next_producer_id`` (0: no block was allocated), and the broker of the last block."""

    next_producer_id: int = 0
    broker_id: int = -1
    broker_epoch: int = -1


def allocate(before: ProducerIds, record: r.ProducerIdsRecord) -> ProducerIds:
    """The state after a block was allocated.

    Raises:
        ReplayError: ids would be allocated twice. An equal next id is refused too, as by a Kafka
            controller.
    """
    # Kafka 3.4 copies a first block from ZooKeeper as next id 0.
    lowest = before.next_producer_id + (before != ProducerIds())
    if record.next_producer_id < lowest:
        raise ReplayError(
            f"next producer id {record.next_producer_id} is not above {before.next_producer_id}"
        )
    return ProducerIds(record.next_producer_id, record.broker_id, record.broker_epoch)
