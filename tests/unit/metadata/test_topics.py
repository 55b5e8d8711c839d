import pytest

from emulator.metadata import ReplayError, topics
from tests.unit.metadata.build import D1, D2, D3, A, B, change, image_of, partition, topic
from wire import records as r

BASE = (topic("t", A), partition(leader_epoch=5, partition_epoch=7))


def after(**fields: object) -> topics.Partition:
    return image_of(*BASE, change(**fields)).partition(A, 0)


def test_a_topic_is_found_by_id_and_by_name() -> None:
    image = image_of(*BASE)
    assert image.topics[A] is image.topic("t")
    assert image.topic_ids == {"t": A}
    assert image.topic("u") is None
    assert (image.partition(A, 1), image.partition(B, 0)) == (None, None)


def test_a_partition_record_states_everything() -> None:
    image = image_of(
        topic("t", A),
        partition(
            index=3,
            replicas=[1, 2, 3],
            isr=[3, 1],
            removing_replicas=[2],
            adding_replicas=[3],
            leader=3,
            leader_recovery_state=1,
            leader_epoch=4,
            partition_epoch=9,
            directories=[D1, D2, D3],
        ),
    )
    assert image.partition(A, 3) == topics.Partition(
        replicas=(1, 2, 3),
        isr=(3, 1),
        leader=3,
        leader_epoch=4,
        partition_epoch=9,
        adding_replicas=(3,),
        removing_replicas=(2,),
        leader_recovery_state=1,
        directories=(D1, D2, D3),
    )
    assert image.partition(A, 3).directory(2) == D2


def test_a_second_partition_record_replaces_the_first() -> None:
    image = image_of(*BASE, partition(leader=2, leader_epoch=0))
    assert (image.partition(A, 0).leader, image.partition(A, 0).leader_epoch) == (2, 0)


@pytest.mark.parametrize(
    ("fields", "leader", "leader_epoch", "isr"),
    [
        ({}, 1, 5, (1, 2)),
        ({"leader": -2}, 1, 5, (1, 2)),
        ({"isr": [1]}, 1, 5, (1,)),
        ({"isr": [1], "leader": 1}, 1, 6, (1,)),
        ({"leader": 2}, 2, 6, (1, 2)),
        ({"leader": -1}, -1, 6, (1, 2)),
    ],
    ids=["nothing", "no change", "isr", "same leader", "leader", "no leader"],
)
def test_a_change_raises_the_partition_epoch_and_a_leader_the_leader_epoch(
    fields: dict[str, object], leader: int, leader_epoch: int, isr: tuple[int, ...]
) -> None:
    one = after(**fields)
    assert (one.leader, one.leader_epoch, one.partition_epoch, one.isr) == (
        leader,
        leader_epoch,
        8,
        isr,
    )


def test_a_reassignment_and_its_end() -> None:
    begun = image_of(*BASE, change(replicas=[3, 1, 2], adding_replicas=[3], removing_replicas=[2]))
    one = begun.partition(A, 0)
    assert (one.replicas, one.adding_replicas, one.removing_replicas) == ((3, 1, 2), (3,), (2,))
    ended = image_of(
        change(replicas=[3, 1], isr=[3, 1], leader=3, adding_replicas=[], removing_replicas=[]),
        start=begun,
    ).partition(A, 0)
    assert (ended.replicas, ended.adding_replicas, ended.removing_replicas) == ((3, 1), (), ())
    assert (ended.leader_epoch, ended.partition_epoch) == (6, 9)


def test_recovery_state_stays_unless_named() -> None:
    recovering = image_of(*BASE, change(leader=2, leader_recovery_state=1))
    assert recovering.partition(A, 0).leader_recovery_state == topics.RECOVERING
    assert image_of(change(), start=recovering).partition(A, 0).leader_recovery_state == 1
    done = image_of(change(leader_recovery_state=0), start=recovering)
    assert done.partition(A, 0).leader_recovery_state == topics.RECOVERED


def test_directories_nobody_named_are_migrating_ones() -> None:
    zero = topics.MIGRATING
    assert image_of(*BASE).partition(A, 0).directories == (zero, zero)
    assert after(replicas=[1, 2, 3]).directories == (zero, zero, zero)
    assert after(directories=[]).directories == (zero, zero)
    assert after(directories=[D1, D2]).directories == (D1, D2)


@pytest.mark.parametrize(
    "fields",
    [
        {"directories": [D1]},
        {"directories": [D1], "replicas": [1, 2, 3]},
        {"leader_recovery_state": 2},
        {"eligible_leader_replicas": [1]},
        {"last_known_elr": [1]},
    ],
    ids="+".join,
)
def test_a_change_that_does_not_fit_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ReplayError, match="offset 2: PartitionChangeRecord: "):
        after(**fields)


def test_replicas_cannot_change_away_from_known_directories() -> None:
    known = image_of(*BASE, change(directories=[D1, D2]))
    with pytest.raises(ReplayError, match=r"2 directories for the 3 replicas \(1, 2, 3\)"):
        image_of(change(replicas=[1, 2, 3]), start=known)


@pytest.mark.parametrize(
    "fields",
    [{"directories": [D1]}, {"leader_recovery_state": -1}, {"eligible_leader_replicas": []}],
    ids="+".join,
)
def test_a_partition_that_does_not_fit_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ReplayError, match="offset 1: PartitionRecord: "):
        image_of(topic("t", A), partition(**fields))


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (topic("t", B), "topic t exists with id AAAAAAAAAAAAAAAAAAAAqg"),
        (topic("t", A), "topic t exists with id"),
        (topic("u", A), "AAAAAAAAAAAAAAAAAAAAqg exists under another name"),
        (partition(B), "there is no topic with id AAAAAAAAAAAAAAAAAAAAuw"),
        (change(B), "there is no topic with id"),
        (change(index=1), "topic t has no partition 1"),
        (r.RemoveTopicRecord(topic_id=B), "there is no topic with id"),
    ],
)
def test_a_record_without_its_topic_is_refused(record: object, why: str) -> None:
    with pytest.raises(ReplayError, match=why):
        image_of(*BASE, record)


def test_equal_replica_lists_are_one_object() -> None:
    image = image_of(*BASE, partition(index=1, replicas=[1, 2], isr=[1, 2]))
    first, second = image.partition(A, 0), image.partition(A, 1)
    assert first.replicas is second.replicas is first.isr
    assert first.directories is second.directories


def test_partitions_that_changed_alike_are_one_object() -> None:
    """All that a dead broker led did, and so they are read from a snapshot: 90 bytes each."""
    fresh = {"leader_epoch": 0, "partition_epoch": 0}
    before = topics.new_partition(r.PartitionRecord(replicas=(1, 2), isr=(1, 2), leader=1, **fresh))
    first, second = (
        topics.changed_partition(before, r.PartitionChangeRecord(isr=(2,), leader=2))
        for _ in range(2)
    )
    assert (first.leader, first.leader_epoch, first.partition_epoch) == (2, 1, 1)
    assert first is second
    read = r.PartitionRecord(replicas=(1, 2), isr=(2,), leader=2, leader_epoch=1, partition_epoch=1)
    assert topics.new_partition(read) is topics.new_partition(read) is first


def test_few_of_those_that_changed_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_CHANGED", {})
    monkeypatch.setattr(topics, "_CHANGED_MAX", 2)
    one = topics.new_partition(r.PartitionRecord(replicas=(1,), isr=(1,), leader=1))
    for _ in range(5):
        one = topics.changed_partition(one, r.PartitionChangeRecord(leader=1))
        assert len(topics._CHANGED) <= 2


def test_the_shared_tuples_are_forgotten_before_they_fill_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topics, "_SHARED", {})
    monkeypatch.setattr(topics, "_SHARED_MAX", 2)
    first = [topics.shared([n]) for n in range(2)]
    assert topics.shared([0]) == first[0]
    assert list(topics._SHARED) == [(0,)]
