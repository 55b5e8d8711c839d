import pytest

from emulator.metadata import EMPTY, Image, ReplayError, replay
from tests.unit.metadata.build import A, image_of, topic
from wire import records as r


def test_the_image_stands_at_its_last_record() -> None:
    image = replay(EMPTY, topic("t", A), 7, 3)
    assert (image.offset, image.epoch) == (7, 3)
    assert (EMPTY.offset, EMPTY.epoch, len(EMPTY.topics)) == (-1, -1, 0)


@pytest.mark.parametrize(
    "record", [r.NoOpRecord(), r.BeginTransactionRecord(name="x"), r.EndTransactionRecord()]
)
def test_some_records_only_move_the_offset(record: object) -> None:
    image = image_of(topic("t", A))
    assert replay(image, record, 9, 2) == Image(
        9, 2, topics=image.topics, topic_ids=image.topic_ids
    )


@pytest.mark.parametrize(
    "record",
    [
        r.AccessControlRecord(),
        object(),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_class_that_is_not_kept_is_refused_by_name(record: object) -> None:
    with pytest.raises(ReplayError) as caught:
        replay(EMPTY, record, 4, 1)
    assert str(caught.value) == (
        f"offset 4: {type(record).__name__}: records of this class are not supported"
    )


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (r.RemoveAccessControlEntryRecord(id=bytes(16)), "there is no ACL"),
        (r.RemoveUserScramCredentialRecord(name="u", mechanism=1), "no credential of mechanism 1"),
        (r.UserScramCredentialRecord(name="u", mechanism=3), "SCRAM mechanism 3 is unknown"),
    ],
)
def test_what_is_not_there_cannot_be_removed(record: object, why: str) -> None:
    with pytest.raises(ReplayError, match=why):
        replay(EMPTY, record, 4, 1)


def test_an_acl_id_is_never_used_twice() -> None:
    one = r.AccessControlEntryRecord(id=bytes(16), resource_type=2, pattern_type=3, operation=3)
    other = r.AccessControlEntryRecord(id=bytes(16), resource_type=2, pattern_type=3, operation=4)
    with pytest.raises(ReplayError, match="exists with another content"):
        replay(replay(EMPTY, one, 0, 1), other, 1, 1)


def test_an_abort_needs_a_history() -> None:
    with pytest.raises(ReplayError, match="only a History knows"):
        replay(EMPTY, r.AbortTransactionRecord(), 0, 1)
