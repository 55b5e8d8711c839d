"""AlterPartition: order of the checks, what changes, and the end of a reassignment."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from emulator.controller.api import alter_partition as api
from emulator.metadata.image import Image
from emulator.metadata.replay import replay
from emulator.metadata.topics import Partition
from tests.kit.laws import examples
from tests.unit.controller.world import broker, handle, image_of, partition, topic, uuid
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

BROKERS = (broker(0), broker(1), broker(2), broker(3, fenced=True))
IMAGE = image_of(*BROKERS, topic("t", 1), partition(1, isr=(0, 1)))


def wanted(isr: tuple[int, ...] = (0, 1, 2), **fields: Any) -> Any:
    epochs = fields.pop("epochs", {})
    values = {"leader_epoch": 5, "partition_epoch": 7, **fields}
    return m.AlterPartitionRequest.PartitionData(
        new_isr_with_epochs=[
            m.AlterPartitionRequest.BrokerState(broker_id=one, broker_epoch=epochs.get(one, -1))
            for one in isr
        ],
        **values,
    )


def request(*partitions: Any, topic_id: int = 1, **fields: Any) -> m.AlterPartitionRequest:
    values = {"broker_id": 0, "broker_epoch": 100, **fields}
    data = m.AlterPartitionRequest.TopicData(
        topic_name="t", topic_id=uuid(topic_id), partitions=list(partitions)
    )
    return m.AlterPartitionRequest(topics=[data], **values)


def only(response: m.AlterPartitionResponse) -> Any:
    ((one,),) = [topic.partitions for topic in response.topics]
    return one


@pytest.mark.parametrize(("broker_id", "epoch"), [(9, 100), (0, 99), (0, 101), (0, -1)])
def test_a_stale_broker_epoch_refuses_the_whole_request(broker_id: int, epoch: int) -> None:
    result = handle(IMAGE, request(wanted(), broker_id=broker_id, broker_epoch=epoch))
    assert result.response == m.AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    assert result.records == ()


class Many(list[Any]):
    """Members that nobody may look at."""

    def __iter__(self) -> Any:
        raise AssertionError("a request may name seven million")


def test_an_isr_longer_than_the_replicas_is_refused_unseen() -> None:
    asked = wanted()
    asked.new_isr_with_epochs = Many(asked.new_isr_with_epochs * 2)
    result = handle(IMAGE, request(asked))
    assert only(result.response).error_code == ErrorCode.INVALID_REQUEST
    assert result.records == ()


ORDER: list[tuple[dict[str, Any], ErrorCode]] = [
    # Everything is wrong at once; each row mends the first wrong thing left.
    ({}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ({"partition_index": 0}, ErrorCode.NOT_CONTROLLER),
    ({"leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
    ({"leader_epoch": 5}, ErrorCode.INVALID_REQUEST),
    ({"broker_id": 0}, ErrorCode.INVALID_UPDATE_VERSION),
    ({"partition_epoch": 7}, ErrorCode.INVALID_REQUEST),
    ({"isr": (3, 1), "leader_recovery_state": 0}, ErrorCode.INVALID_REQUEST),
    ({"isr": (0, 3)}, ErrorCode.INVALID_REQUEST),
    ({"isr": (0, 1, 2), "epochs": {2: 101}}, ErrorCode.INELIGIBLE_REPLICA),
    ({"epochs": {2: 102}}, ErrorCode.NONE),
]


def test_checks_in_order_of_precedence() -> None:
    wrong: dict[str, Any] = {
        "partition_index": 9,
        "leader_epoch": 6,
        "broker_id": 1,
        "partition_epoch": 6,
        "isr": (0, 0),
        "leader_recovery_state": 1,
    }
    for mended, expected in ORDER:
        wrong |= mended
        fields = dict(wrong)
        broker_id = fields.pop("broker_id")
        isr = fields.pop("isr")
        asked = request(wanted(isr, **fields), broker_id=broker_id, broker_epoch=100 + broker_id)
        assert only(handle(IMAGE, asked).response).error_code == expected, mended


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"partition_epoch": 8}, ErrorCode.NOT_CONTROLLER),
        ({"isr": ()}, ErrorCode.INVALID_REQUEST),
        ({"isr": (0, 1, 1)}, ErrorCode.INVALID_REQUEST),
        ({"isr": (0, 9)}, ErrorCode.INVALID_REQUEST),
        ({"isr": (1, 2)}, ErrorCode.INVALID_REQUEST),
        ({"isr": (0, 1), "leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ({"isr": (0,), "leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ({"isr": (0,), "leader_recovery_state": 7}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_makes_an_isr_invalid(fields: dict[str, Any], code: ErrorCode) -> None:
    fields = dict(fields)
    asked = request(wanted(fields.pop("isr", (0, 1, 2)), **fields))
    result = handle(IMAGE, asked)
    assert only(result.response).error_code == code
    assert result.records == ()


@pytest.mark.parametrize(
    "member",
    [
        pytest.param(broker(2, fenced=True), id="fenced"),
        pytest.param(broker(2, in_controlled_shutdown=True), id="leaving"),
        pytest.param(broker(7), id="unregistered"),
        pytest.param(broker(2, broker_epoch=900), id="another epoch"),
    ],
)
def test_a_member_that_may_not_join(member: object) -> None:
    image = image_of(broker(0), broker(1), member, topic("t", 1), partition(1, isr=(0, 1)))
    asked = request(wanted(epochs={2: 102}))
    assert only(handle(image, asked).response).error_code == ErrorCode.INELIGIBLE_REPLICA
    asked_v1 = handle(image, asked, version=1).response
    assert only(asked_v1).error_code == ErrorCode.OPERATION_NOT_ATTEMPTED


def test_topics_are_known_by_name_before_version_2_and_by_id_from_then_on() -> None:
    by_name = request(wanted(), topic_id=9)
    assert only(handle(IMAGE, by_name, version=1).response).error_code == 0
    unknown = only(handle(IMAGE, by_name, version=3).response)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_growth_raises_only_the_partition_epoch_and_keeps_the_order_asked() -> None:
    result = handle(IMAGE, request(wanted((2, 0, 1))))
    assert only(result.response) == m.AlterPartitionResponse.PartitionData(
        leader_id=0, leader_epoch=5, isr=(2, 0, 1), leader_recovery_state=0, partition_epoch=8
    )
    assert result.records == (
        r.PartitionChangeRecord(partition_id=0, topic_id=uuid(1), isr=(2, 0, 1)),
    )


@pytest.mark.parametrize(
    ("level", "migrating", "epoch"), [(21, True, 6), (21, False, 5), (11, False, 6), (12, False, 5)]
)
def test_a_shrink_raises_the_leader_epoch_while_migrating_and_below_3_6_iv0(
    level: int, migrating: bool, epoch: int
) -> None:
    """KAFKA-15021; brokers in ZooKeeper mode look at nothing but the leader epoch."""
    image = image_of(
        *BROKERS,
        topic("t", 1),
        partition(1, directories=() if level < 17 else None or _directories()),
        mv=level,
    )
    result = handle(image, request(wanted((0, 2))), migration_enabled=migrating)
    found = only(result.response)
    assert (found.leader_id, found.leader_epoch, found.partition_epoch) == (0, epoch, 8)


def _directories() -> tuple[bytes, ...]:
    return tuple(uuid(5000 + replica) for replica in (0, 1, 2))


def test_asking_for_what_is_already_there_writes_nothing() -> None:
    result = handle(IMAGE, request(wanted((0, 1))))
    assert result.records == ()
    assert only(result.response).partition_epoch == 7


def test_the_same_partition_twice_sees_itself() -> None:
    result = handle(IMAGE, request(wanted(), wanted((0,))))
    first, second = result.response.topics[0].partitions
    assert first.error_code == 0
    assert second.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert len(result.records) == 1


def test_good_partitions_are_changed_beside_bad_ones() -> None:
    image = image_of(*BROKERS, topic("t", 1), partition(1, 0, isr=(0,)), partition(1, 1, isr=(0,)))
    result = handle(image, request(wanted(partition_index=0), wanted((0, 3), partition_index=1)))
    assert [one.error_code for one in result.response.topics[0].partitions] == [0, 42]
    assert [record.partition_id for record in result.records] == [0]


REASSIGNING = partition(
    1,
    replicas=(2, 1, 0),
    isr=(0, 1),
    leader=0,
    adding_replicas=(2,),
    removing_replicas=(0,),
)


@pytest.mark.parametrize(("version", "code"), [(3, 108), (1, 74)])
def test_a_reassignment_completes_and_moves_the_leader(version: int, code: int) -> None:
    """The answer is an error although the record is written: the leader must look again."""
    image = image_of(*BROKERS, topic("t", 1), REASSIGNING)
    result = handle(image, request(wanted((0, 1, 2))), version=version)
    assert only(result.response).error_code == code
    assert result.records == (
        r.PartitionChangeRecord(
            partition_id=0,
            topic_id=uuid(1),
            isr=(1, 2),
            leader=2,
            replicas=(2, 1),
            removing_replicas=(),
            adding_replicas=(),
            directories=(uuid(5002), uuid(5001)),
        ),
    )


def test_a_reassignment_waits_for_every_target_replica() -> None:
    image = image_of(
        *BROKERS,
        topic("t", 1),
        partition(
            1, replicas=(1, 2, 0), isr=(0,), leader=0, adding_replicas=(2,), removing_replicas=(0,)
        ),
    )
    result = handle(image, request(wanted((0, 2))))
    assert result.records == (
        r.PartitionChangeRecord(partition_id=0, topic_id=uuid(1), isr=(0, 2)),
    )
    assert only(result.response).error_code == 0


def test_a_recovered_leader_says_so() -> None:
    image = image_of(*BROKERS, topic("t", 1), partition(1, isr=(0,), leader_recovery_state=1))
    result = handle(image, request(wanted((0,), leader_recovery_state=0)))
    assert result.records[0].leader_recovery_state == 0
    assert only(result.response).leader_recovery_state == 0


# A change of the ISR alone takes a short way.


class History:
    """Partitions that are reassigned, recover and lose directories while leaders ask for ISRs."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.migrating = rng.random() < 0.5
        level = rng.choice((11, 15, 21))
        self.image = image_of(*(broker(one) for one in range(4)), topic("t", 1), mv=level)
        for index in range(2):
            replicas = tuple(rng.sample(range(4), 3))
            directories = () if level < 17 or rng.random() < 0.2 else None
            placed = {"replicas": replicas, "isr": replicas[: rng.randint(1, 3)]}
            if directories is not None:
                placed["directories"] = directories
            self.take(partition(1, index, **placed))

    def take(self, record: object) -> None:
        self.image = replay(self.image, record, self.image.offset + 1, 1)

    def step(self) -> None:
        index = self.rng.randrange(2)
        now = self.image.topics[uuid(1)].partitions[index]
        change = r.PartitionChangeRecord(partition_id=index, topic_id=uuid(1))
        if now.leader < 0:
            change.leader = now.isr[0]
            return self.take(change)
        registration = r.BrokerRegistrationChangeRecord(
            broker_id=now.leader, broker_epoch=100 + now.leader
        )
        match self.rng.randrange(6):
            case 0:
                # A reassignment that has ended may have left one replica.
                others = now.replicas[1:]
                change.adding_replicas = self.rng.sample(
                    others, min(len(others), self.rng.choice((0, 1)))
                )
                change.removing_replicas = now.replicas[: self.rng.choice((0, 1))]
                self.take(change)
            case 1:
                change.leader, change.isr, change.leader_recovery_state = (
                    now.leader,
                    [now.leader],
                    1,
                )
                self.take(change)
            case 2:
                registration.log_dirs = [uuid(self.rng.choice((1, 5000 + now.leader)))]
                self.take(registration)
            case _:
                self.ask(index, now)
        return None

    def ask(self, index: int, now: Partition) -> None:
        version = self.rng.choice((1, 3))
        isr = (now.leader, *self.rng.sample(range(4), self.rng.randint(0, 3)))
        epochs = {"leader_epoch": now.leader_epoch, "partition_index": index}
        state = self.rng.choice((now.leader_recovery_state, 0))
        entries = [
            wanted(
                tuple(dict.fromkeys(isr[:count])),
                **epochs,
                partition_epoch=now.partition_epoch + later,
                leader_recovery_state=state,
            )
            for later, count in enumerate((4, 2))
        ]
        asked = request(*entries, broker_id=now.leader, broker_epoch=100 + now.leader)
        fields: dict[str, Any] = {"version": version, "migration_enabled": self.migrating}
        found = handle(self.image, asked, **fields)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(api, "_isr_alone", lambda *_: False)
            expected = handle(self.image, asked, **fields)
        assert (found.records, found.response) == (expected.records, expected.response)
        for record in expected.records:
            self.take(record)


def run(seed: int) -> None:
    history = History(seed)
    for _ in range(15):
        history.step()


@examples(100)
@given(st.integers(0, 2**32))
def test_a_change_of_the_isr_alone_is_what_the_builder_of_all_changes_makes(seed: int) -> None:
    run(seed)


def without(**fields: Any) -> Callable[[pytest.MonkeyPatch], None]:
    """The short way does not look at these."""
    real = api._isr_alone

    def blind(image: Image, now: Partition, asked: Any) -> bool:
        if not fields:
            return real(
                image, replace(now, leader_recovery_state=asked.leader_recovery_state), asked
            )
        return real(image, replace(now, **fields), asked)

    return lambda patch: patch.setattr(api, "_isr_alone", blind)


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(without(adding_replicas=()), id="added"),
        pytest.param(without(removing_replicas=()), id="removed"),
        pytest.param(without(directories=()), id="directory of the leader"),
        pytest.param(without(), id="recovery"),
        pytest.param(
            lambda patch: patch.setattr(api, "keeps_leader_epoch", lambda *_, **__: True),
            id="epoch of a shrink",
        ),
    ],
)
def test_a_condition_that_is_left_out_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    def all_seeds() -> None:
        for seed in range(200):
            run(seed)

    with pytest.raises(AssertionError):
        all_seeds()


def test_an_isr_alone_needs_no_election(monkeypatch: pytest.MonkeyPatch) -> None:
    elections: list[object] = []
    real = api.partition_change
    monkeypatch.setattr(api, "partition_change", lambda *of: elections.append(of) or real(*of))
    assert handle(IMAGE, request(wanted())).records
    assert not elections
