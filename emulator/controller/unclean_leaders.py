"""Periodic unclean election for partitions without a leader whose topic allows it.

An operator may allow it after the last in-sync replica is gone. No other event would start an
election for such a partition.

Source: ReplicationControlManager.maybeElectUncleanLeaders, Kafka 3.9 (KAFKA-12670); older releases
do not do this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emulator.controller.broker_changes import partition_change
from emulator.controller.config_defs import unclean_election_allowed
from emulator.controller.context import ControllerConfig
from emulator.controller.leader_election import Election
from emulator.controller.partition_set import PartitionKey
from emulator.controller.periodic import Sweep
from emulator.controller.result import Record
from emulator.controller.urgency import Urgency
from emulator.metadata.image import Image
from emulator.metadata.topics import NO_LEADER

INTERVAL_MS: Final = 300_000
"""Default of Kafka's internal unclean.leader.election.interval.ms."""


def _interval_ms(_config: ControllerConfig) -> int:
    return INTERVAL_MS


def _elect(
    image: Image, config: ControllerConfig, key: PartitionKey, _now_ms: int
) -> Sequence[Record]:
    partition = image.partition(*key)
    if partition is None or partition.leader != NO_LEADER:
        return ()
    if not unclean_election_allowed(image, config, image.topics[key[0]].name):
        return ()
    change = partition_change(image, config, key)
    change.election = Election.UNCLEAN
    record = change.build()
    return () if record is None else (record,)


UNCLEAN_LEADERS = Sweep(
    name="unclean leaders",
    interval_ms=_interval_ms,
    candidates=lambda _image, index: index.unled,
    visit=_elect,
    urgency=Urgency.VITAL,
)
