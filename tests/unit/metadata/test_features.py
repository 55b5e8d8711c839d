import pytest

from emulator.metadata import EMPTY, MetadataVersion, ReplayError
from tests.unit.metadata.build import image_of, level
from wire import records as r


def feature(name: str, value: int) -> r.FeatureLevelRecord:
    return r.FeatureLevelRecord(name=name, feature_level=value)


@pytest.mark.requirement("J05")
def test_a_log_without_a_level_stands_at_the_floor() -> None:
    assert EMPTY.metadata_version is MetadataVersion.from_level(1)


@pytest.mark.requirement("J01")
def test_a_record_sets_the_level_at_run_time() -> None:
    image = image_of(level(8))
    assert image.metadata_version.name == "3.4-IV0"
    assert image.metadata_version.record_version(r.PartitionRecord) == 0
    later = image_of(level(21), start=image)
    assert later.metadata_version.record_version(r.PartitionRecord) == 1


def test_level_zero_removes_a_feature() -> None:
    image = image_of(level(21), feature("group.version", 1), feature("kraft.x", 2))
    assert image.features == {"metadata.version": 21, "group.version": 1, "kraft.x": 2}
    after = image_of(feature("group.version", 0), feature("never.seen", 0), start=image)
    assert after.features == {"metadata.version": 21, "kraft.x": 2}


@pytest.mark.parametrize("value", [0, -1, 22, 23])
def test_an_unknown_metadata_version_is_refused(value: int) -> None:
    with pytest.raises(ReplayError, match=f"metadata.version {value} is not known; known are 1 to"):
        image_of(level(value))


def test_a_negative_level_is_refused() -> None:
    with pytest.raises(ReplayError, match=r"group\.version cannot have level -1"):
        image_of(feature("group.version", -1))
