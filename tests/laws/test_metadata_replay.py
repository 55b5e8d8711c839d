from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from emulator.metadata import (
    EMPTY,
    Delta,
    History,
    Image,
    Touched,
    from_records,
    replay,
    to_records,
    touch,
)
from tests.laws.metadata_records import LAW, logs
from wire import records as r
from wire.record_serde import decode_record, encode_record


def replayed(records: Sequence[object], start: Image = EMPTY) -> Image:
    image = start
    for offset, record in enumerate(records, start.offset + 1):
        image = replay(image, record, offset, 1)
    return image


def batches(records: list[object], cuts: list[int]) -> list[list[object]]:
    """The records cut at some of their indices."""
    at = sorted({0, len(records), *(cut % (len(records) + 1) for cut in cuts)})
    return [records[low:high] for low, high in pairwise(at)]


def appended(parts: list[list[object]]) -> History:
    history = History()
    for part in parts:
        history.append(part, history.tip.offset + 1, 1)
    return history


cuts = st.lists(st.integers(0, 60), max_size=8)


@LAW
@given(logs())
def test_a_snapshot_replays_to_its_image(records: list[object]) -> None:
    image = replayed(records)
    values = [encode_record(record, version) for record, version in to_records(image)]
    read = [decode_record(value)[0] for value in values]
    assert from_records(read, image.offset, image.epoch) == image


@LAW
@given(logs(), cuts)
def test_batching_changes_nothing(records: list[object], where: list[int]) -> None:
    history = appended(batches(records, where))
    assert history.tip == replayed(records)
    history.advance(len(records))
    assert history.stable is history.tip


@LAW
@given(logs(), st.integers(0, 60))
def test_names_and_ids_tell_of_the_same_topics(records: list[object], cut: int) -> None:
    image = replayed(records[:cut])
    assert {one.name: one.id for one in image.topics.values()} == image.topic_ids
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            assert len(partition.directories) == len(partition.replicas)


def patched(before: Image, after: Image, touched: Touched) -> Image:
    """``before`` with only the touched entities taken from ``after``."""
    maps = {}
    for field, keys in (
        ("topics", touched.topics),
        ("topic_ids", set(touched.topics.values())),
        ("brokers", touched.brokers),
        ("controllers", touched.controllers),
        ("configs", touched.configs),
        ("client_quotas", touched.client_quotas),
        ("scram_credentials", touched.scram_credentials),
        ("acls", {one for side in (before, after) for one in _acl_ids(side, touched)}),
        ("acls_by_resource", touched.acls),
        ("delegation_tokens", touched.delegation_tokens),
        ("features", touched.features),
    ):
        one, target = getattr(before, field), getattr(after, field)
        for key in keys:
            if key in target:
                one = one.set(key, target[key])
            elif key in one:
                one = one.delete(key)
        maps[field] = one
    return replace(
        before,
        offset=after.offset,
        epoch=after.epoch,
        producer_ids=after.producer_ids if touched.producer_ids else before.producer_ids,
        migration_state=(
            after.migration_state if touched.migration_state else before.migration_state
        ),
        **maps,
    )


def _acl_ids(image: Image, touched: Touched) -> list[bytes]:
    return [one for resource in touched.acls for one in image.resource_acls(resource)]


@LAW
@given(logs(), cuts)
def test_what_is_not_touched_is_the_same_on_both_sides(
    records: list[object], where: list[int]
) -> None:
    history = appended(batches(records, where))
    for delta in history.advance(len(records)):
        assert patched(delta.before, delta.after, delta.touched) == delta.after
        for topic_id, name in delta.touched.topics.items():
            one, two = delta.before.topics.get(topic_id), delta.after.topics.get(topic_id)
            assert all(topic is None or topic.name == name for topic in (one, two))
            for index in {*(one.partitions if one else ()), *(two.partitions if two else ())}:
                same = delta.before.partition(topic_id, index) == delta.after.partition(
                    topic_id, index
                )
                assert same or (topic_id, index) in delta.touched.partitions
            created, deleted = delta.touched.created_topics, delta.touched.deleted_topics
            assert (one is None and topic_id in created) or one is not None
            assert (two is None and topic_id in deleted) or two is not None


@LAW
@given(logs())
def test_every_entity_a_record_names_is_touched(records: list[object]) -> None:
    touched, image = Touched(), EMPTY
    for record in records:
        touch(touched, image, record)
        image = replay(image, record, image.offset + 1, 1)
    named = {one.topic_id for one in records if hasattr(one, "topic_id")}
    assert set(touched.topics) == named
    written = (r.PartitionRecord, r.PartitionChangeRecord)
    assert touched.partitions == {
        (one.topic_id, one.partition_id) for one in records if isinstance(one, written)
    }
    created = {one.topic_id for one in records if isinstance(one, r.TopicRecord)}
    assert touched.created_topics == created
    assert touched.deleted_topics == {
        one.topic_id for one in records if isinstance(one, r.RemoveTopicRecord)
    }


@LAW
@given(logs(), cuts)
def test_deltas_one_by_one_and_added_up_agree(records: list[object], where: list[int]) -> None:
    parts = batches(records, where)
    deltas = appended(parts).advance(len(records))
    assert [(one.first_offset, one.last_offset) for one in deltas] == [
        (replayed(records[:low]).offset + 1, low + size - 1)
        for low, size in zip(_starts(parts), map(len, parts), strict=True)
    ]
    if deltas:
        added: Delta = deltas[0]
        for later in deltas[1:]:
            added = added.then(later)
        (whole,) = appended([records]).advance(len(records))
        assert added == whole


def _starts(parts: list[list[object]]) -> list[int]:
    return [sum(map(len, parts[:n])) for n in range(len(parts))]
