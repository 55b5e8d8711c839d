"""A migrating broker reads how far the metadata log goes, and none of its records."""

from __future__ import annotations

import pytest

from emulator.broker.kraft.followed import FollowedMetadata, FollowerIdentity
from emulator.broker.zookeeper.quorum_registration import LogOffsets
from emulator.broker.zookeeper.side import ZooKeeperSide
from emulator.raft.layout import RecoveryError, SnapshotId
from emulator.raft.snapshots import render
from tests.unit.broker.zookeeper_stage import MIGRATING, ZooKeeperStage
from wire import messages as m
from wire import records as r
from wire.batch import Batch, encode_batch
from wire.errors import DecodeError
from wire.record_serde import encode_record

OTHER = b"\x7f is no record of Kafka"


def batch(base: int, *values: bytes, epoch: int = 1) -> bytes:
    return encode_batch(Batch(base, epoch, 0, 0, [(None, value) for value in values]))


def fetched(log: FollowedMetadata, records: bytes, high_watermark: int) -> None:
    told = m.FetchResponse.PartitionData(high_watermark=high_watermark, records=records)
    log.fetched(told)


def reading() -> FollowedMetadata:
    return FollowedMetadata(FollowerIdentity(1, "a-cluster", bytes(16)), LogOffsets())


def test_it_counts_what_is_committed_whatever_the_records_are() -> None:
    log = reading()
    fetched(log, batch(0, OTHER, OTHER) + batch(2, OTHER, epoch=2), 2)
    assert (log.image.offset, log.current) == (1, True)
    fetched(log, b"", 3)
    assert (log.image.offset, log.image.epoch) == (2, 2)
    assert not log.image.topics


def test_a_transaction_that_is_open_does_not_hold_it_back() -> None:
    log = reading()
    begin = encode_record(r.BeginTransactionRecord(), 0)
    fetched(log, batch(0, begin, OTHER), 2)
    assert log.image.offset == 1


def test_bytes_that_were_changed_on_the_way_are_refused() -> None:
    log, data = reading(), bytearray(batch(0, OTHER))
    data[-1] ^= 1
    with pytest.raises(DecodeError, match="CRC-32C"):
        fetched(log, bytes(data), 1)
    assert log.image.offset == -1


def test_a_snapshot_is_checked_and_its_end_is_where_it_goes_on() -> None:
    whole = render(SnapshotId(100, 3), [OTHER], 0, lambda _: None)
    offsets = LogOffsets()
    found = offsets.of_snapshot(whole, 100, 3)
    assert (found.stable.offset, found.stable.epoch) == (99, 3)
    with pytest.raises(RecoveryError):
        offsets.of_snapshot(whole[:-1], 100, 3)


def test_a_broker_in_zookeeper_mode_is_unfenced_with_no_metadata_of_the_log() -> None:
    stage = ZooKeeperStage().had_a_cluster(old={0: [1], 1: [1]})
    (broker,) = stage.running(1, raw=MIGRATING)
    controller = stage.controller()
    side = broker.side
    assert isinstance(side, ZooKeeperSide)
    registration = side.registration
    stage.joined.until(lambda: side.cluster.topic("old") is not None)
    observer, life = registration.observer, registration.life
    assert observer is not None
    assert life is not None
    stage.joined.until(lambda: life.state.name == "RUNNING")
    stage.joined.wait(5_000)
    assert controller.controller.stable.topics
    assert observer.log.image.offset == controller.controller.stable.offset
    assert not observer.log.image.topics
