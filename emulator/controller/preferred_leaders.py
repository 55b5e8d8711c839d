"""Periodic election of preferred leaders (``auto.leader.rebalance.enable``).

``leader.imbalance.check.interval.seconds`` after a change left a partition with another leader, and
repeatedly while there are such partitions, the preferred replica of each is elected if it is alive
and in sync. ``leader.imbalance.per.broker.percentage`` has no effect, as in every KRaft controller
of Kafka 3.4-3.9: only KafkaController, the ZooKeeper-mode controller, reads it.

Source: ReplicationControlManager.maybeBalancePartitionLeaders, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from emulator.controller.broker_changes import partition_change
from emulator.controller.context import ControllerConfig
from emulator.controller.leader_election import Election
from emulator.controller.partition_set import PartitionKey
from emulator.controller.periodic import Sweep
from emulator.controller.result import Record
from emulator.metadata.image import Image


def _interval_ms(config: ControllerConfig) -> int | None:
    if not config.auto_leader_rebalance_enable:
        return None
    return config.leader_imbalance_check_interval_seconds * 1_000


def _elect(
    image: Image, config: ControllerConfig, key: PartitionKey, _now_ms: int
) -> Sequence[Record]:
    if image.partition(*key) is None:
        return ()
    change = partition_change(image, config, key)
    change.election = Election.PREFERRED
    record = change.build()
    return () if record is None else (record,)


PREFERRED_LEADERS = Sweep(
    name="preferred leaders",
    interval_ms=_interval_ms,
    candidates=lambda _image, index: index.imbalanced,
    visit=_elect,
)
