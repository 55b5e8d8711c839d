import pytest

from emulator.metadata import ReplayError, configs
from tests.unit.metadata.build import A, config, image_of, topic
from wire import records as r

TOPIC, BROKER = configs.TOPIC, configs.BROKER


def test_keys_are_set_replaced_and_deleted() -> None:
    image = image_of(
        config(TOPIC, "t", "a", "1"),
        config(TOPIC, "t", "b", ""),
        config(TOPIC, "t", "a", "2"),
        config(BROKER, "", "b", "3"),
        config(BROKER, "1", "c", "4"),
    )
    assert image.configs == {
        (TOPIC, "t"): {"a": "2", "b": ""},
        (BROKER, ""): {"b": "3"},
        (BROKER, "1"): {"c": "4"},
    }
    after = image_of(config(TOPIC, "t", "b", None), config(BROKER, "", "b", None), start=image)
    assert after.config(TOPIC, "t") == {"a": "2"}
    assert after.config(BROKER, "") == {}
    assert (BROKER, "") not in after.configs


@pytest.mark.parametrize("name", ["t", "u"])
def test_deleting_what_is_not_there_changes_nothing(name: str) -> None:
    image = image_of(config(TOPIC, "t", "a", "1"))
    assert image_of(config(TOPIC, name, "b", None), start=image).configs == image.configs


@pytest.mark.parametrize("resource_type", [0, 8, 32])
def test_other_resources_are_refused(resource_type: int) -> None:
    with pytest.raises(ReplayError, match=f"resource type {resource_type} are not supported"):
        image_of(config(resource_type, "x", "a", "1"))


def test_a_removed_topic_loses_its_config_and_only_its_own() -> None:
    image = image_of(
        topic("t", A),
        config(TOPIC, "t", "a", "1"),
        config(TOPIC, "u", "a", "1"),
        config(BROKER, "t", "a", "1"),
        r.RemoveTopicRecord(topic_id=A),
    )
    assert set(image.configs) == {(TOPIC, "u"), (BROKER, "t")}
    assert (len(image.topics), len(image.topic_ids)) == (0, 0)
