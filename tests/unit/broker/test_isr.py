"""One hosted partition: what the metadata says of it, and since when it is led."""

from __future__ import annotations

import pytest

from emulator.broker import isr
from emulator.broker.isr import NEXT, HostedPartition, IsrEvent, IsrState
from emulator.metadata.topics import Partition
from tests.kit.tables import Watched, check_pairs
from wire import messages as m
from wire.errors import ErrorCode

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
    hosted.propose_expansion(3)
    assert hosted.take_partition(told, NOW_MS) is taken
    assert hosted.led_since_ms == since_ms
    assert hosted.state is (IsrState.COMMITTED if taken else IsrState.EXPANDING)
    assert hosted.partition == (told if taken else partition(4, 10))


def _hosted(state: IsrState = IsrState.COMMITTED) -> HostedPartition:
    hosted = HostedPartition(("t", 0), b"t" * 16, partition(4, 10), BEGAN_MS)
    if state is IsrState.EXPANDING:
        hosted.propose_expansion(3)
    if state is IsrState.SHRINKING:
        hosted.propose_shrink([2])
    assert hosted.state is state
    return hosted


def test_every_row_of_the_table_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Watched(monkeypatch, isr)
    answer = m.AlterPartitionResponse.PartitionData(
        leader_epoch=4, partition_epoch=11, isr=(1, 2, 3)
    )
    for state in IsrState:
        applied = _hosted(state)
        assert applied.take_partition(partition(4, 11), NOW_MS)
        ended = [applied]
        if state is not IsrState.COMMITTED:
            given, refused = _hosted(state), _hosted(state)
            assert given.proposal is not None
            assert refused.proposal is not None
            assert given.granted(given.proposal, answer)
            refused.refused(refused.proposal, ErrorCode.INELIGIBLE_REPLICA)
            ended += [given, refused]
        assert {(one.state, one.proposal) for one in ended} == {(IsrState.COMMITTED, None)}
    assert not table.unreached


def test_every_pair_that_is_not_in_the_table_is_refused() -> None:
    def after(state: IsrState, event: IsrEvent) -> IsrState:
        hosted = _hosted()
        hosted.state = state
        hosted._enter(event)
        return hosted.state

    check_pairs(NEXT, IsrState, IsrEvent, after)
