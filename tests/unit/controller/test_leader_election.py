"""How a partition changes: elections, ISR, directories."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.controller.rules import broker_changes
from emulator.controller.tables.index import TipIndex
from emulator.metadata.leader_election import Election, PartitionChange
from emulator.metadata.metadata_version import MetadataVersion
from emulator.metadata.topics import Partition
from emulator.seam import whole
from tests.unit.controller.world import broker, config, image_of, partition, topic, uuid
from wire import records as r

BASE = Partition(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=5, partition_epoch=7)


def change(was: dict[str, Any], live: set[int], level: int = 16, **wishes: Any) -> Any:
    fields = {name: getattr(BASE, name) for name in BASE.__struct_fields__}
    built = PartitionChange(
        topic_id=uuid(1),
        partition_id=0,
        partition=Partition(**{**fields, **was}),
        may_lead=live.__contains__,
        metadata_version=MetadataVersion.from_level(level),
        **wishes,
    ).build()
    if built is None:
        return None
    unset = r.PartitionChangeRecord()
    return {
        name: getattr(built, name)
        for name in ("isr", "leader", "replicas", "leader_recovery_state")
        if getattr(built, name) != getattr(unset, name)
    }


ELECTIONS = [
    # what is, who is live, wishes -> what the record says
    pytest.param({}, {1, 2, 3}, {}, None, id="nothing to do"),
    pytest.param({}, {2, 3}, {}, {"leader": 2}, id="first in assignment order"),
    pytest.param({"isr": (3, 2, 1)}, {2, 3}, {}, {"leader": 2}, id="not in ISR order"),
    pytest.param({"isr": (1, 3)}, {2, 3}, {}, {"leader": 3}, id="only from the ISR"),
    pytest.param({}, set(), {}, {"leader": -1}, id="nobody"),
    pytest.param({"isr": (1,)}, {2}, {"target_isr": ()}, {"leader": -1}, id="last member stays"),
    pytest.param({"leader": -1}, {3}, {}, {"leader": 3}, id="leaderless again led"),
    pytest.param({"leader": -1}, set(), {}, None, id="leaderless stays"),
    pytest.param(
        {"isr": (1,)},
        {3},
        {"election": Election.UNCLEAN},
        {"leader": 3, "isr": (3,), "leader_recovery_state": 1},
        id="unclean",
    ),
    pytest.param(
        {"isr": (1, 3)},
        {2, 3},
        {"election": Election.UNCLEAN},
        {"leader": 3},
        id="unclean only as last resort",
    ),
    pytest.param(
        {"leader": 2}, {1, 2}, {"election": Election.PREFERRED}, {"leader": 1}, id="preferred"
    ),
    pytest.param(
        {"leader": 2}, {2, 3}, {"election": Election.PREFERRED}, None, id="preferred is away"
    ),
    pytest.param({}, {1, 2}, {"target_isr": (1, 2)}, {"isr": (1, 2)}, id="shrink"),
    pytest.param(
        {},
        {1, 2},
        {"target_isr": (1, 2), "migrating": True},
        {"isr": (1, 2), "leader": 1},
        id="shrink while migrating",
    ),
    pytest.param(
        {"isr": (1,)},
        {1, 2},
        {"target_isr": (1, 2), "migrating": True},
        {"isr": (1, 2)},
        id="growth while migrating",
    ),
    pytest.param(
        {},
        {1, 2, 3},
        {"target_replicas": (1, 2), "target_isr": (1, 2)},
        {"isr": (1, 2), "replicas": (1, 2), "leader": 1},
        id="a lost replica raises the leader epoch",
    ),
]


@pytest.mark.parametrize(("was", "live", "wishes", "expected"), ELECTIONS)
def test_elections(
    was: dict[str, Any], live: set[int], wishes: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    assert change(was, live, **wishes) == expected


@pytest.mark.parametrize(("level", "state"), [(2, None), (3, 1)])
def test_recovery_state_from_3_2_iv0_on(level: int, state: int | None) -> None:
    found = change({"isr": (1,)}, {3}, level, election=Election.UNCLEAN)
    assert found.get("leader_recovery_state") == state


@pytest.mark.parametrize(
    ("level", "migrating", "raised"),
    [(8, True, True), (11, True, True), (12, True, False), (21, True, False), (11, False, False)],
)
def test_brokers_before_3_6_learn_of_a_new_replica_by_a_higher_leader_epoch(
    level: int, migrating: bool, raised: bool
) -> None:
    record = change({}, {1, 2, 3, 4}, level, migrating=migrating, target_replicas=(1, 2, 3, 4))
    assert record == {"replicas": (1, 2, 3, 4), **({"leader": 1} if raised else {})}


def test_an_unclean_election_needs_the_topic_s_leave() -> None:
    def fenced_off(*settings: object) -> tuple[object, ...]:
        image = image_of(
            broker(0), broker(1), topic("t", 1), partition(1, replicas=(0, 1), isr=(0,)), *settings
        )
        return whole(broker_changes.fence(image, config(), TipIndex(image), image.brokers[0]))

    def set_to(kind: int, name: str) -> r.ConfigRecord:
        return r.ConfigRecord(
            resource_type=kind,
            resource_name=name,
            name="unclean.leader.election.enable",
            value="true",
        )

    lost = r.PartitionChangeRecord(partition_id=0, topic_id=uuid(1), leader=-1)
    taken = r.PartitionChangeRecord(
        partition_id=0, topic_id=uuid(1), leader=1, isr=(1,), leader_recovery_state=1
    )
    assert fenced_off()[0] == lost
    assert fenced_off(set_to(2, "t"))[0] == taken
    assert fenced_off(set_to(4, ""))[0] == taken
    assert fenced_off(set_to(4, "0"))[0] == lost


def test_directories_follow_the_replicas_from_3_7_iv2_on() -> None:
    new = b"\x09" * 16
    built = PartitionChange(
        topic_id=uuid(1),
        partition_id=0,
        partition=Partition(
            replicas=(1, 2),
            isr=(1, 2),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=(uuid(11), uuid(12)),
        ),
        may_lead=lambda _: True,
        metadata_version=MetadataVersion.from_level(17),
        target_replicas=(2, 3),
        target_isr=(2,),
        default_directory=lambda _: new,
    ).build()
    assert built.directories == (uuid(12), new)


def test_fencing_takes_the_broker_out_of_every_isr_at_once() -> None:
    """One batch for all: as recorded for a killed broker."""
    image = image_of(
        broker(0),
        broker(1),
        topic("a", 1),
        partition(1, 0, replicas=(0, 1)),
        partition(1, 1, replicas=(1, 0)),
        topic("b", 2),
        partition(2, 0, replicas=(0,)),
        partition(2, 1, replicas=(1,)),
    )
    index = TipIndex(image)
    records = whole(broker_changes.fence(image, config(), index, image.brokers[0]))
    assert records == (
        r.PartitionChangeRecord(partition_id=0, topic_id=uuid(1), isr=(1,), leader=1),
        r.PartitionChangeRecord(partition_id=1, topic_id=uuid(1), isr=(1,)),
        r.PartitionChangeRecord(partition_id=0, topic_id=uuid(2), leader=-1),
        r.BrokerRegistrationChangeRecord(broker_id=0, broker_epoch=100, fenced=1),
    )
    assert not [one for one in records[:-1] if one.isr and 0 in one.isr]
