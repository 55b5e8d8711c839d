"""ListOffsets of a broker that stores no records: every log is empty, and that is no error."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.requests import create_topics
from tests.unit.broker.joined_brokers import Stage
from wire import messages as m

Topic = m.ListOffsetsRequest.ListOffsetsTopic
Part = m.ListOffsetsRequest.ListOffsetsPartition
LATEST, EARLIEST, HIGHEST, LOCAL, TIERED = -1, -2, -3, -4, -5


def stage() -> Stage:
    made = Stage()
    made.running(1, 2)
    answer = made.client(1).ask(create_topics("t", assigned=[(1,), (2,)]), 7)
    assert answer.topics[0].error_code == 0, answer
    made.joined.wait(1_000)
    return made


def asked(made: Stage, version: int, *parts: Any, topic: str = "t", node: int = 1) -> list[Any]:
    request = m.ListOffsetsRequest(replica_id=-1, topics=[Topic(name=topic, partitions=[*parts])])
    (found,) = made.client(node).ask(request, version).topics
    assert found.name == topic
    return list(found.partitions)


@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize("timestamp", [LATEST, EARLIEST])
def test_the_first_and_the_next_offset_are_0(version: int, timestamp: int) -> None:
    (found,) = asked(stage(), version, Part(partition_index=0, timestamp=timestamp))
    assert found.error_code == 0
    assert (found.old_style_offsets == (0,)) if version == 0 else (found.offset == 0)
    assert found.leader_epoch == (0 if version >= 4 else -1)
    assert found.timestamp == -1


@pytest.mark.parametrize(
    ("timestamp", "since", "offset"),
    [(HIGHEST, 7, -1), (LOCAL, 8, 0), (TIERED, 9, -1), (-6, 99, 0)],
)
def test_a_special_timestamp_is_known_since_its_version(
    timestamp: int, since: int, offset: int
) -> None:
    made = stage()
    for version in range(1, 10):
        (found,) = asked(made, version, Part(partition_index=0, timestamp=timestamp))
        expected = (0, offset) if version >= since else (35, -1)
        assert (found.error_code, found.offset) == expected


def test_nothing_is_found_by_a_timestamp() -> None:
    (found,) = asked(stage(), 9, Part(partition_index=0, timestamp=1_700_000_000_000))
    assert (found.error_code, found.offset, found.timestamp) == (0, -1, -1)


def test_only_the_leader_of_the_epoch_answers() -> None:
    made = stage()

    def codes(*parts: Any, **more: Any) -> list[int]:
        return [one.error_code for one in asked(made, 9, *parts, **more)]

    assert codes(Part(partition_index=1, timestamp=LATEST)) == [6]
    assert codes(Part(partition_index=1, timestamp=LATEST), node=2) == [0]
    assert codes(Part(partition_index=2, timestamp=LATEST)) == [3]
    assert codes(Part(partition_index=0, timestamp=LATEST), topic="nosuch") == [3]
    assert codes(Part(partition_index=0, timestamp=LATEST, current_leader_epoch=1)) == [75]
    assert codes(Part(partition_index=0, timestamp=LATEST, current_leader_epoch=0)) == [0]
    twice = Part(partition_index=0, timestamp=LATEST)
    assert codes(twice, twice) == [42, 42]


def test_of_a_topic_that_may_not_be_described_nothing_is_told() -> None:
    made = Stage()
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    made.running(1, authorizer_class_name=authorizer)
    for name in ("t", "nosuch"):
        (found,) = asked(made, 9, Part(partition_index=0, timestamp=LATEST), topic=name)
        assert found.error_code == 29
