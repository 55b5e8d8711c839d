import pytest

from emulator.metadata import EMPTY, MigrationState, ReplayError
from tests.unit.metadata.build import image_of, state


@pytest.mark.requirement("S02")
def test_a_log_without_the_record_was_never_migrated() -> None:
    assert EMPTY.migration_state is MigrationState.NONE


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, MigrationState.NONE),
        (1, MigrationState.MIGRATION),
        (2, MigrationState.PRE_MIGRATION),
        (3, MigrationState.POST_MIGRATION),
    ],
)
def test_the_numbers_are_those_of_kafka_3_5_and_later(value: int, expected: object) -> None:
    assert image_of(state(value)).migration_state is expected


def test_a_whole_migration() -> None:
    image = image_of(state(2), state(1), state(3), state(3))
    assert image.migration_state is MigrationState.POST_MIGRATION


@pytest.mark.requirement("R07")
@pytest.mark.parametrize("value", [-128, -1, 4, 127])
def test_an_unknown_value_is_refused_and_named(value: int) -> None:
    with pytest.raises(ReplayError) as caught:
        image_of(state(2), state(value))
    assert str(caught.value) == (
        f"offset 1: ZkMigrationStateRecord: migration state {value} is unknown; known are "
        "0 NONE, 1 MIGRATION, 2 PRE_MIGRATION, 3 POST_MIGRATION"
    )


@pytest.mark.parametrize("value", [0, 1, 2])
def test_finalised_is_final(value: int) -> None:
    with pytest.raises(ReplayError, match="a finalised migration cannot return to"):
        image_of(state(3), state(value))
