"""One hosted partition: what the metadata says of it, and since when it is led."""

from __future__ import annotations

import pytest

from emulator.broker.isr import HostedPartition, IsrState
from emulator.metadata.topics import Partition

BEGAN_MS, NOW_MS = 1_000, 5_000


def partition(leader_epoch: int, partition_epoch: int) -> Partition:
    return Partition(
        replicas=(1, 2, 3),
        isr=(1, 2),
        leader=1,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
    )


@pytest.mark.parametrize(
    ("told", "taken", "since_ms"),
    [
        (partition(4, 9), False, BEGAN_MS),
        (partition(5, 9), False, BEGAN_MS),
        (partition(4, 10), True, BEGAN_MS),
        (partition(4, 11), True, BEGAN_MS),
        (partition(5, 11), True, NOW_MS),
    ],
)
def test_the_metadata_counts_if_it_is_not_older(
    told: Partition, taken: bool, since_ms: int
) -> None:
    hosted = HostedPartition(("t", 0), b"t" * 16, partition(4, 10), BEGAN_MS)
    hosted.expanded(3)
    assert hosted.take_partition(told, NOW_MS) is taken
    assert hosted.led_since_ms == since_ms
    assert hosted.state is (IsrState.COMMITTED if taken else IsrState.EXPANDING)
    assert hosted.partition == (told if taken else partition(4, 10))
