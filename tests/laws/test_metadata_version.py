"""Laws of metadata.version at run time, over random histories of changes and other work."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from emulator.controller.queue.batches import record_version
from emulator.metadata.metadata_version import MINIMUM, VERSIONS, MetadataVersion
from emulator.metadata.snapshot import from_records, to_records
from tests.kit.laws import examples
from tests.kit.requests import raise_level
from tests.unit.controller.world import World, create
from wire import records as r
from wire.messages.update_features import SAFE_DOWNGRADE, UPGRADE
from wire.record_serde import decode_record, encode_record

Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("level"), st.integers(1, 22)),
        st.tuples(st.sampled_from(["create", "register", "heartbeat", "leave"]), st.integers(1, 3)),
    ),
    max_size=14,
)


def play(world: World, step: Step, number: int) -> None:
    """One change, granted or not."""
    what, value = step
    known = world.tip.brokers.get(value)
    if what == "level":
        kind = UPGRADE if value >= world.tip.metadata_version.level else SAFE_DOWNGRADE
        world.ask(raise_level(value, how=kind))
    elif what == "create":
        world.ask(create(f"t{number}", 1, value))
    elif what == "register":
        world.register(value)
    elif known is not None:
        world.heartbeat(value, want_shut_down=what == "leave")


@examples(60)
@given(st.integers(1, 21), STEPS)
def test_every_record_is_in_the_version_of_the_level_in_force(
    first: int, steps: list[Step]
) -> None:
    """KIP-778: whatever the order of changes; and a level is left downwards over no wall."""
    world = World(metadata_version=first)
    for number, step in enumerate(steps):
        play(world, step, number)
    level = MINIMUM
    for values in (values for _base, values in world.log.batches):
        records = [decode_record(value) for value in values]
        for record, _version in records:
            if isinstance(record, r.FeatureLevelRecord):
                after = MetadataVersion.from_level(record.feature_level)
                left = range(after.level + 1, level.level + 1)
                assert not [one for one in left if VERSIONS[one].wall]
                level = after
        for record, version in records:
            assert version == record_version(record, level), (record, level)
    assert world.tip.metadata_version is level


@examples(60)
@given(st.integers(1, 21), STEPS)
def test_a_snapshot_at_any_level_is_the_image(first: int, steps: list[Step]) -> None:
    """Written after every change, in the versions of the level, and read back."""
    world = World(metadata_version=first)
    for number, step in enumerate(steps):
        play(world, step, number)
        image = world.controller.stable
        written = [encode_record(record, version) for record, version in to_records(image)]
        read: list[Any] = [decode_record(value)[0] for value in written]
        assert from_records(read, image.offset, image.epoch) == image
