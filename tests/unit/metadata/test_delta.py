import pytest

from emulator.metadata import EMPTY, Delta, Image, Touched, touch
from tests.unit.metadata.build import (
    A,
    B,
    broker,
    change,
    config,
    image_of,
    level,
    partition,
    state,
    topic,
)
from wire import records as r

BASE = image_of(
    level(21),
    topic("t", A),
    partition(index=0),
    partition(index=1),
    config(2, "t", "a", "1"),
    broker(1, 10),
)


def touched_by(*records: object, start: Image = BASE) -> Touched:
    touched, image = Touched(), start
    for record in records:
        touch(touched, image, record)
        image = image_of(record, start=image)
    return touched


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (topic("u", B), Touched(topics={B: "u"}, created_topics={B})),
        (partition(A, 2), Touched(topics={A: "t"}, partitions={(A, 2)})),
        (change(A, 1), Touched(topics={A: "t"}, partitions={(A, 1)})),
        (
            r.RemoveTopicRecord(topic_id=A),
            Touched(
                topics={A: "t"},
                deleted_topics={A},
                partitions={(A, 0), (A, 1)},
                configs={(2, "t")},
            ),
        ),
        (config(4, "", "x", "1"), Touched(configs={(4, "")})),
        (broker(2, 20), Touched(brokers={2})),
        (r.UnregisterBrokerRecord(broker_id=1, broker_epoch=10), Touched(brokers={1})),
        (
            r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=-1),
            Touched(brokers={1}),
        ),
        (r.FenceBrokerRecord(id=1, epoch=10), Touched(brokers={1})),
        (r.UnfenceBrokerRecord(id=1, epoch=10), Touched(brokers={1})),
        (r.RegisterControllerRecord(controller_id=3000), Touched(controllers={3000})),
        (
            r.FeatureLevelRecord(name="group.version", feature_level=1),
            Touched(features={"group.version"}),
        ),
        (r.ProducerIdsRecord(next_producer_id=1000), Touched(producer_ids=True)),
        (state(2), Touched(migration_state=True)),
        (r.NoOpRecord(), Touched()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_each_record_touches(record: object, expected: object) -> None:
    assert touched_by(record) == expected


def test_a_topic_created_and_deleted_again_is_touched_though_no_image_shows_it() -> None:
    records = (
        topic("u", B),
        partition(B, 0),
        config(2, "u", "a", "1"),
        r.RemoveTopicRecord(topic_id=B),
    )
    assert image_of(*records, start=BASE).topics == BASE.topics
    assert touched_by(*records) == Touched(
        topics={B: "u"},
        created_topics={B},
        deleted_topics={B},
        partitions={(B, 0)},
        configs={(2, "u")},
    )


def test_a_name_created_anew_stands_under_both_ids() -> None:
    touched = touched_by(r.RemoveTopicRecord(topic_id=A), topic("t", B))
    assert touched.topics == {A: "t", B: "t"}
    assert (touched.deleted_topics, touched.created_topics) == ({A}, {B})


def test_a_removed_topic_without_config_touches_none() -> None:
    touched = touched_by(topic("u", B), r.RemoveTopicRecord(topic_id=B))
    assert touched.configs == set()


@pytest.mark.parametrize(
    "touched",
    [Touched(topics={A: "t"}), Touched(brokers={0}), Touched(migration_state=True)],
)
def test_touched_is_true_when_anything_is(touched: Touched) -> None:
    assert touched
    assert not Touched()


def test_deltas_add_up() -> None:
    first = (topic("u", B), r.ProducerIdsRecord(next_producer_id=1000))
    second = (change(A, 1), broker(2, 20), state(2))
    middle = image_of(*first, start=BASE)
    end = image_of(*second, start=middle)
    one = Delta(BASE, middle, touched_by(*first), BASE.offset + 1, middle.offset)
    two = Delta(middle, end, touched_by(*second, start=middle), middle.offset + 1, end.offset)
    both = one.then(two)
    assert both == Delta(BASE, end, touched_by(*first, *second), BASE.offset + 1, end.offset)
    assert one.touched == touched_by(*first)


def test_deltas_with_a_gap_do_not_add_up() -> None:
    one = Delta(EMPTY, BASE, Touched(), 0, BASE.offset)
    with pytest.raises(AssertionError, match="without a gap"):
        one.then(one)
