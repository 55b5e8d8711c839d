"""All sweeps (periodic work): those of two elections here, and the list; add a new one to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emulator.controller.context import ControllerConfig
from emulator.controller.queue.periodic import Sweep
from emulator.controller.queue.urgency import Urgency
from emulator.controller.result import Record
from emulator.controller.rules.broker_changes import partition_change
from emulator.controller.rules.delegation_tokens import EXPIRED_TOKENS
from emulator.controller.rules.reassignment import READY_REASSIGNMENTS
from emulator.controller.tables.config_defs import unclean_election_allowed
from emulator.controller.tables.partition_set import PartitionKey
from emulator.metadata.image import Image
from emulator.metadata.leader_election import Election
from emulator.metadata.topics import NO_LEADER

UNCLEAN_INTERVAL_MS: Final = 300_000
"""Default of Kafka's internal unclean.leader.election.interval.ms."""


def _elect(
    image: Image, config: ControllerConfig, key: PartitionKey, how: Election
) -> Sequence[Record]:
    change = partition_change(image, config, key)
    change.election = how
    record = change.build()
    return () if record is None else (record,)


def _preferred_ms(config: ControllerConfig) -> int | None:
    if not config.auto_leader_rebalance_enable:
        return None
    return config.leader_imbalance_check_interval_seconds * 1_000


def _elect_preferred(
    image: Image, config: ControllerConfig, key: PartitionKey, _now_ms: int
) -> Sequence[Record]:
    if image.partition(*key) is None:
        return ()
    return _elect(image, config, key, Election.PREFERRED)


PREFERRED_LEADERS = Sweep(
    name="preferred leaders",
    interval_ms=_preferred_ms,
    candidates=lambda _image, index: index.imbalanced,
    visit=_elect_preferred,
)
"""``auto.leader.rebalance.enable``: ``leader.imbalance.check.interval.seconds`` after a change left
a partition with another leader, and repeatedly while there are such partitions, the preferred
replica of each is elected if it is alive and in sync. ``leader.imbalance.per.broker.percentage``
has no effect, as in every KRaft controller of Kafka 3.4-3.9: only KafkaController, the
ZooKeeper-mode controller, reads it.

Source: ReplicationControlManager.maybeBalancePartitionLeaders, Kafka 3.9.
"""


def _unclean_ms(_config: ControllerConfig) -> int:
    return UNCLEAN_INTERVAL_MS


def _elect_unclean(
    image: Image, config: ControllerConfig, key: PartitionKey, _now_ms: int
) -> Sequence[Record]:
    partition = image.partition(*key)
    if partition is None or partition.leader != NO_LEADER:
        return ()
    if not unclean_election_allowed(image, config, image.topics[key[0]].name):
        return ()
    return _elect(image, config, key, Election.UNCLEAN)


UNCLEAN_LEADERS = Sweep(
    name="unclean leaders",
    interval_ms=_unclean_ms,
    candidates=lambda _image, index: index.unled,
    visit=_elect_unclean,
    urgency=Urgency.VITAL,
)
"""For partitions without a leader whose topic allows an unclean election. An operator may allow it
after the last in-sync replica is gone; no other event would start an election.

Source: ReplicationControlManager.maybeElectUncleanLeaders, Kafka 3.9 (KAFKA-12670); older releases
do not do this.
"""

SWEEPS: Final[tuple[Sweep, ...]] = (
    PREFERRED_LEADERS,
    UNCLEAN_LEADERS,
    READY_REASSIGNMENTS,
    EXPIRED_TOKENS,
)
