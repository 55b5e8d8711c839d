import pytest
from msgspec.structs import replace

from emulator.metadata import EMPTY, Image
from tests.unit.metadata.build import A, image_of, partition, topic


def test_images_with_equal_content_are_equal() -> None:
    one = image_of(topic("t", A), partition())
    two = image_of(topic("t", A), partition(replicas=[1, 2]))
    assert one == two
    assert one != replace(two, offset=5)
    assert Image() == EMPTY


def test_an_image_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        EMPTY.offset = 1
    with pytest.raises(AttributeError):
        image_of(topic("t", A)).topics[A].name = "u"
