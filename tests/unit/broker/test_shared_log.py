"""The metadata log, decoded once for all brokers of a process; and what a broker makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.broker.kraft.followed import FollowedMetadata, FollowerIdentity
from emulator.broker.kraft.shared_log import LogImages
from emulator.metadata.errors import ReplayError
from emulator.metadata.image import EMPTY
from emulator.metadata.pmap import PMap
from emulator.raft.layout import SnapshotId
from emulator.raft.snapshots import render
from emulator.seam import RECORDS_PER_SLICE
from tests.unit.broker.joined_brokers import Stage
from wire import messages as m
from wire import records as r
from wire.batch import CONTROL, Batch, encode_batch
from wire.errors import DecodeError
from wire.record_serde import encode_control, encode_record

WHO = FollowerIdentity(1, "a-cluster", bytes(16))
T = bytes(15) + b"t"


def batch(base: int, *records: object, epoch: int = 1) -> bytes:
    return encode_batch(
        Batch(base, epoch, 0, 0, [(None, encode_record(one, 0)) for one in records])
    )


def leader_change(base: int, epoch: int = 1) -> bytes:
    change = r.LeaderChangeMessage(leader_id=3000)
    return encode_batch(Batch(base, epoch, CONTROL, 0, [encode_control(change)]))


def topic(name: str, number: int = 1) -> r.TopicRecord:
    return r.TopicRecord(name=name, topic_id=bytes([number]) * 16)


def told(records: bytes = b"", high_watermark: int = -1) -> m.FetchResponse.PartitionData:
    return m.FetchResponse.PartitionData(high_watermark=high_watermark, records=records)


class Reader:
    """One broker's reading; ``names`` are the topics that may be shown."""

    def __init__(self, images: LogImages | None = None) -> None:
        self.images = images or LogImages()
        self.log = FollowedMetadata(WHO, self.images)

    def fetched(self, records: bytes = b"", high_watermark: int = -1) -> None:
        self.log.fetched(told(records, high_watermark))

    @property
    def names(self) -> set[str]:
        return set(self.log.image.topic_ids)

    @property
    def asks(self) -> tuple[int, int]:
        """Offset and last epoch of the next Fetch."""
        request = self.log.request(5)
        assert isinstance(request, m.FetchRequest)
        (partition,) = request.topics[0].partitions
        return partition.fetch_offset, partition.last_fetched_epoch


def test_only_what_is_committed_is_shown() -> None:
    reader = Reader()
    reader.fetched(leader_change(0) + batch(1, topic("a")) + batch(2, topic("b", 2)), 2)
    assert reader.names == {"a"}
    assert reader.asks == (3, 1)
    reader.fetched(high_watermark=3)
    assert reader.names == {"a", "b"}
    assert reader.log.current


def test_a_transaction_is_shown_when_it_ends_and_never_when_it_is_aborted() -> None:
    reader = Reader()
    reader.fetched(batch(0, topic("a"), r.BeginTransactionRecord(), topic("b", 2)), 3)
    assert reader.names == {"a"}
    reader.fetched(leader_change(3) + batch(4, topic("c", 3)), 5)
    assert reader.names == {"a"}
    reader.fetched(batch(5, r.EndTransactionRecord(), topic("d", 4)), 7)
    assert reader.names == {"a", "b", "c", "d"}
    _, deltas = reader.log.take_deltas()
    assert [(one.first_offset, one.last_offset) for one in deltas] == [(0, 0), (1, 6)]
    assert deltas[1].touched.created_topics == {bytes([n]) * 16 for n in (2, 3, 4)}
    reader.fetched(batch(7, r.BeginTransactionRecord(), topic("e", 5)), 9)
    reader.fetched(batch(9, r.AbortTransactionRecord(), topic("f", 6)), 11)
    assert reader.names == {"a", "b", "c", "d", "f"}


@pytest.mark.parametrize(
    "records",
    [
        (r.BeginTransactionRecord(), r.BeginTransactionRecord()),
        (r.EndTransactionRecord(),),
        (r.AbortTransactionRecord(),),
        (r.RemoveTopicRecord(topic_id=T),),
    ],
)
def test_a_record_that_does_not_fit_ends_the_reading(records: tuple[object, ...]) -> None:
    with pytest.raises(ReplayError):
        Reader().fetched(batch(0, *records), 10)


def test_batches_that_the_leader_does_not_have_are_dropped() -> None:
    reader = Reader()
    reader.fetched(batch(0, topic("a")), 1)
    reader.fetched(batch(1, topic("lost", 2)) + batch(2, topic("lost-too", 3)), 1)
    diverging = m.FetchResponse.EpochEndOffset(epoch=1, end_offset=2)
    reader.log.fetched(m.FetchResponse.PartitionData(diverging_epoch=diverging))
    assert reader.asks == (2, 1)
    diverging = m.FetchResponse.EpochEndOffset(epoch=1, end_offset=2)
    reader.log.fetched(m.FetchResponse.PartitionData(diverging_epoch=diverging))
    assert reader.asks == (1, 1), "what it has of that epoch is not the leader's: read again"
    reader.fetched(batch(1, topic("other", 2), epoch=2), 2)
    assert reader.names == {"a", "other"}
    diverging = m.FetchResponse.EpochEndOffset(epoch=1, end_offset=1)
    with pytest.raises(ReplayError, match="were committed"):
        reader.log.fetched(m.FetchResponse.PartitionData(diverging_epoch=diverging))


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (batch(1, topic("gap")), "metadata log at byte 0: a batch at offset 1 instead of 0"),
        (batch(0, topic("a"))[:-1], "metadata log at byte 0: an incomplete batch"),
        (batch(0, topic("a")) + batch(1, topic("b"))[:-1], "byte 0: an incomplete batch"),
        (b"\0" * 70, "."),
        (b"\xff" * 100, "."),
    ],
)
def test_what_is_no_log_is_refused_and_changes_nothing(records: bytes, why: str) -> None:
    reader = Reader()
    with pytest.raises(DecodeError, match=why):
        reader.fetched(records, 10)
    reader.log.forget_unfinished()
    assert reader.log.image is EMPTY
    assert reader.asks == (0, 0)


# ---------------------------------------------------------------- snapshots
def snapshot(end_offset: int, *records: object) -> bytes:
    values = [encode_record(one, 0) for one in records]
    return render(SnapshotId(end_offset, 3), values, 0, lambda _: None)


def piece(data: bytes, position: int, size: int, end_offset: int = 100) -> object:
    kind = m.FetchSnapshotResponse
    return kind.PartitionSnapshot(
        snapshot_id=kind.SnapshotId(end_offset=end_offset, epoch=3),
        size=len(data),
        position=position,
        unaligned_records=data[position : position + size],
    )


def begins_with_a_snapshot(reader: Reader) -> None:
    where = m.FetchResponse.SnapshotId(end_offset=100, epoch=3)
    reader.log.fetched(m.FetchResponse.PartitionData(snapshot_id=where))


def test_a_snapshot_is_read_in_pieces_cut_anywhere() -> None:
    reader = Reader()
    begins_with_a_snapshot(reader)
    data = snapshot(100, topic("a"), topic("b", 2))
    for position in range(0, len(data), 37):
        request = reader.log.request(5)
        assert isinstance(request, m.FetchSnapshotRequest)
        (asked,) = request.topics[0].partitions
        assert (asked.position, asked.snapshot_id.end_offset) == (position, 100)
        reader.log.downloaded(piece(data, position, 37))  # type: ignore[arg-type]
    assert reader.names == {"a", "b"}
    assert reader.log.take_deltas() == (True, [])
    assert reader.asks == (100, 3)
    assert reader.log.current


@pytest.mark.parametrize(
    "wrong",
    [
        {"position": 1},
        {"size": 0},
        {"size": 2**40},
        {"unaligned_records": b""},
        {"snapshot_id": m.FetchSnapshotResponse.SnapshotId(end_offset=101, epoch=3)},
    ],
)
def test_a_piece_of_something_else_is_refused(wrong: dict[str, object]) -> None:
    reader = Reader()
    begins_with_a_snapshot(reader)
    got = piece(snapshot(100, topic("a")), 0, 40)
    for name, value in wrong.items():
        setattr(got, name, value)
    with pytest.raises(DecodeError):
        reader.log.downloaded(got)  # type: ignore[arg-type]


def test_a_snapshot_that_is_gone_is_given_up() -> None:
    reader = Reader()
    begins_with_a_snapshot(reader)
    reader.log.downloaded(m.FetchSnapshotResponse.PartitionSnapshot(error_code=98))
    assert reader.asks == (0, 0)


# ---------------------------------------------------------------- long batches
def topics(count: int, first: int = 0) -> list[object]:
    """As one CreateTopics makes them: each with a config and a partition."""
    records: list[object] = []
    for number in range(first, first + count):
        name, topic_id = f"t{number}", (number + 1).to_bytes(16, "big")
        config = r.ConfigRecord(resource_type=2, resource_name=name, name="a", value="b")
        alone = r.PartitionRecord(
            partition_id=0, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1, leader_epoch=0
        )
        records += [r.TopicRecord(name=name, topic_id=topic_id), config, alone]
    return records


def test_a_long_batch_is_applied_in_slices_and_shown_whole() -> None:
    reader = Reader()
    long, after = topics(RECORDS_PER_SLICE), topic("after", 255)
    reader.fetched(batch(0, *long) + batch(len(long), after), len(long) + 1)
    slices = 1
    while reader.log.behind:
        assert len(reader.names) in {0, RECORDS_PER_SLICE}, "none or all of the long one"
        assert not reader.log.current
        reader.log.go_on()
        slices += 1
    assert slices == 5
    assert len(reader.names) == RECORDS_PER_SLICE + 1
    assert reader.log.current
    _, deltas = reader.log.take_deltas()
    assert [one.last_offset for one in deltas] == [len(long) - 1, len(long)]
    assert len(deltas[0].touched.created_topics) == RECORDS_PER_SLICE


def test_many_short_batches_are_applied_in_slices_too() -> None:
    reader, count = Reader(), 3 * RECORDS_PER_SLICE
    log = b"".join(batch(n, r.NoOpRecord()) for n in range(count))
    reader.fetched(log, count)
    assert reader.log.image.offset == RECORDS_PER_SLICE - 1
    reader.log.forget_unfinished()
    assert not reader.log.behind
    assert reader.asks == (RECORDS_PER_SLICE, 1), "it goes on where it is"


def test_a_run_of_records_makes_one_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one for each of them, as each copies parts of two maps."""
    reader, built = Reader(), list[object]()
    runs = [r.TopicRecord(name=f"t{n}", topic_id=(n + 1).to_bytes(16, "big")) for n in range(400)]
    made: Any = PMap._built
    monkeypatch.setattr(PMap, "_built", lambda _, *args: (built.append(args), made(*args))[1])
    reader.fetched(batch(0, *runs), len(runs))
    assert len(reader.names) == len(runs)
    assert len(built) == 2, "topics and their ids"


def test_brokers_of_a_process_do_the_slices_of_a_batch_together() -> None:
    images, long = LogImages(), topics(RECORDS_PER_SLICE)
    readers = [Reader(images) for _ in range(3)]
    for reader in readers:
        reader.fetched(batch(0, *long), len(long))
    slices = len(readers)
    for reader in readers:
        while reader.log.behind:
            reader.log.go_on()
            slices += 1
    assert images.decoded_total == 1
    assert slices == 9, "each alone takes five"
    first, *others = [reader.log.image for reader in readers]
    assert all(image is first for image in others)


# ---------------------------------------------------------------- shared
def test_equal_batches_are_decoded_once_and_give_one_image() -> None:
    images = LogImages()
    one, other = Reader(images), Reader(images)
    for reader in (one, other):
        reader.fetched(batch(0, topic("a")), 1)
        reader.fetched(batch(1, topic("b", 2)), 2)
    assert one.log.image is other.log.image
    assert images.decoded_total == 2
    (_, deltas), (replaced, others) = one.log.take_deltas(), other.log.take_deltas()
    assert replaced, "it began where the first one is"
    assert others == deltas[1:]


def test_the_same_offset_of_another_log_is_another_image() -> None:
    images = LogImages()
    one, other = Reader(images), Reader(images)
    one.fetched(batch(0, topic("a")), 1)
    other.fetched(batch(0, topic("b")), 1)
    assert (one.names, other.names) == ({"a"}, {"b"})


def test_one_that_comes_late_goes_on_where_others_are() -> None:
    images = LogImages()
    one = Reader(images)
    log = [batch(number, topic(f"t{number}", number + 1)) for number in range(150)]
    for number, data in enumerate(log):
        one.fetched(data, number + 1)
    decoded = images.decoded_total
    late = Reader(images)
    late.fetched(b"".join(log), 150)
    assert late.log.image is one.log.image
    assert images.decoded_total == decoded
    assert late.log.take_deltas() == (True, [])


def test_brokers_of_a_process_hold_one_image_each_batch_decoded_once() -> None:
    stage = Stage()
    brokers = stage.running(1, 2, 3, 4, 5)
    stage.joined.wait(10_000)
    first, *others = stage.images_of(*brokers)
    assert all(image is first for image in others)
    assert stage.images.decoded_total <= first.offset + 1


def test_brokers_ask_for_more_when_a_long_batch_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, many, asked = Stage(), 3 * RECORDS_PER_SLICE, list[bool]()
    brokers: Any = stage.running(1, 2)
    controller: Any = stage.controller.machine.controller  # type: ignore[attr-defined]
    kind, request = r.ConfigRecord, FollowedMetadata.request

    def noted(log: FollowedMetadata, epoch: int) -> Any:
        asked.append(log.behind)
        return request(log, epoch)

    monkeypatch.setattr(FollowedMetadata, "request", noted)
    long = [kind(resource_type=2, resource_name=f"t{n}", name="a", value="b") for n in range(many)]
    for _ in range(3):
        controller.append(long, stage.joined.now_ms)
        stage.joined.wait(1_000)
    first, other = stage.images_of(*brokers)
    assert first is other
    assert len(first.configs) == many
    assert asked
    assert not any(asked)
