import pytest

from emulator.metadata import EMPTY, ProducerIds, ReplayError
from tests.unit.metadata.build import image_of
from wire import records as r


def block(next_producer_id: int, broker_id: int = 1, broker_epoch: int = 10) -> r.ProducerIdsRecord:
    return r.ProducerIdsRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=next_producer_id
    )


def test_the_last_block_counts() -> None:
    assert EMPTY.producer_ids == ProducerIds(0, -1, -1)
    image = image_of(block(1000), block(2000, 2, 20))
    assert image.producer_ids == ProducerIds(2000, 2, 20)


def test_a_first_block_may_start_at_zero() -> None:
    image = image_of(block(0))
    assert image.producer_ids == ProducerIds(0, 1, 10)
    with pytest.raises(ReplayError, match="next producer id 0 is not above 0"):
        image_of(block(0), start=image)
    with pytest.raises(ReplayError, match="next producer id -1 is not above 0"):
        image_of(block(-1))


@pytest.mark.parametrize("again", [1000, 999, -1])
def test_ids_are_never_handed_out_twice(again: int) -> None:
    with pytest.raises(ReplayError, match=f"next producer id {again} is not above 1000"):
        image_of(block(1000), block(again))
