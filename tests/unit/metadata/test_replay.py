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
        r.ClientQuotaRecord(),
        r.UserScramCredentialRecord(),
        r.RemoveUserScramCredentialRecord(),
        r.AccessControlRecord(),
        r.AccessControlEntryRecord(),
        r.RemoveAccessControlEntryRecord(),
        r.DelegationTokenRecord(),
        r.RemoveDelegationTokenRecord(),
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


def test_an_abort_needs_a_history() -> None:
    with pytest.raises(ReplayError, match="only a History knows"):
        replay(EMPTY, r.AbortTransactionRecord(), 0, 1)
