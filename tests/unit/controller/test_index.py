"""The index follows every batch exactly as if it were built anew."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.controller.tables import index as changes
from emulator.controller.tables.index import IndexChange, TipIndex, index_change
from emulator.controller.tables.partition_set import BLOCK, PartitionSet
from emulator.metadata.history import History
from emulator.metadata.image import Image
from emulator.seam import whole
from tests.unit.controller.world import image_of, partition, topic, uuid
from wire import records as r

REPLICAS = st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True).map(tuple)


def contents(index: TipIndex) -> Any:
    return (
        {broker: set(index.in_isr(broker)) for broker in range(5)},
        {broker: index.leads(broker) for broker in range(5)},
        set(index.leaderless()),
        set(index.imbalanced),
        set(index.reassigning),
        {name: index.colliding(name) is not None for name in ("a.b", "a_b", "c")},
    )


@st.composite
def batch_of(draw: st.DrawFn, image: Image) -> list[object]:
    """A batch that fits an image: creations, changes and removals, mixed."""
    records: list[object] = []
    names = {"a.b": 1, "a_b": 2, "c": 3}
    alive = {number for name, number in names.items() if image.topic(name) is not None}
    counts = {number: len(image.topics[uuid(number)].partitions) for number in alive}
    for _ in range(draw(st.integers(1, 4))):
        number = draw(st.integers(1, 3))
        if number not in alive:
            name = next(name for name, known in names.items() if known == number)
            records.append(topic(name, number))
            alive.add(number)
            counts[number] = 0
        elif counts[number] and draw(st.booleans()):
            isr = draw(st.none() | REPLICAS)
            leader = draw(st.sampled_from([-2, -1, 0, 1, 2, 3]))
            index = draw(st.integers(0, counts[number] - 1))
            adding = draw(st.none() | st.sampled_from([(), (3,)]))
            records.append(
                r.PartitionChangeRecord(
                    partition_id=index,
                    topic_id=uuid(number),
                    isr=isr,
                    leader=leader,
                    adding_replicas=adding,
                )
            )
        elif draw(st.integers(0, 3)) == 0:
            records.append(r.RemoveTopicRecord(topic_id=uuid(number)))
            alive.discard(number)
        else:
            replicas = draw(REPLICAS)
            records.append(partition(number, counts[number], replicas=replicas))
            counts[number] += 1
    return records


@given(st.data())
def test_following_is_rebuilding(data: st.DataObject) -> None:
    history, offset = History(), 0
    index = TipIndex(history.tip)
    for _ in range(data.draw(st.integers(1, 5))):
        before = history.tip
        records = data.draw(batch_of(before))
        history.append(records, offset, 1)
        offset += len(records)
        index.apply(whole(index_change(before, history.tip, records)))
        assert contents(index) == contents(TipIndex(history.tip))


def test_partitions_of_a_new_topic_that_are_alike_are_put_in_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also beyond the numbers of one block; each that differs counts for itself."""
    count = BLOCK + 6
    odd: dict[int, dict[str, Any]] = {5: {"replicas": (2, 1, 0)}, 9: {"leader": -1}}
    records: list[object] = [topic("c", 3)]
    for number in range(count):
        fields = {"leader_epoch": 0, "partition_epoch": 0, **odd.get(number, {})}
        records.append(partition(3, number, **fields))
    history = History()
    index, before = TipIndex(history.tip), history.tip
    history.append(records, 0, 1)
    together: list[int] = []
    real = IndexChange.add_alike

    def add(self: IndexChange, block: Any, bits: int, count: int, one: Any) -> None:
        together.append(count)
        real(self, block, bits, count, one)

    monkeypatch.setattr(IndexChange, "add_alike", add)
    index.apply(whole(index_change(before, history.tip, records)))
    assert together == [5, 1, 3, 1, BLOCK - 10, 6]
    assert contents(index) == contents(TipIndex(history.tip))
    assert len(list(index.in_isr(0))) == count
    assert set(index.leaderless()) == {(uuid(3), 9)}


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.integers(0, 5_000)), max_size=40))
def test_partitions_of_any_number_are_held_as_bits(keys: list[tuple[bytes, int]]) -> None:
    """ZooKeeper may hold a partition of any number: 2^31 - 1 takes no more than another."""
    held, model = PartitionSet(), dict.fromkeys(keys)
    for topic_id, number in [*model, (b"c", 2**31 - 1)]:
        held.add(topic_id, number)
    assert sorted(held) == [*sorted(model), (b"c", 2**31 - 1)]
    assert sum(map(sys.getsizeof, held._bits.values())) <= 200 * (len(model) + 1)
    for key in keys[::2]:
        if key in model:
            held.remove(*key)
            del model[key]
    assert sorted(held) == [*sorted(model), (b"c", 2**31 - 1)]
    with pytest.raises(KeyError):
        held.remove(b"d", 0)


def test_new_topics_are_collected_in_slices_as_long_as_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A topic of several partitions is collected at once, so a slice ends before it is too long."""
    monkeypatch.setattr(changes, "RECORDS_PER_SLICE", 6)
    records: list[object] = []
    for number in range(1, 6):
        records.append(topic(f"t{number}", number))
        records += [partition(number, index, replicas=(0, 1)) for index in range(3)]
    before, after = Image(), image_of(*records)
    collected: list[int] = []
    monkeypatch.setattr(changes, "_created", lambda *_args: iter(collected.append(1) or ()))
    assert list(index_change(before, after, [])) == []
    made = index_change(before, after, records)  # type: ignore[arg-type]
    slices = [len(collected) for _ in made]
    # First the records themselves, 20 by 6; then two topics of three partitions each.
    assert slices == [0, 0, 0, 2, 4]
    assert len(collected) == 5
