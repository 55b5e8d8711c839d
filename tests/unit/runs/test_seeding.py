"""Which of many topics present are compared."""

import pytest

from bench.runs.seeding import PREFIX, present_name, unread


@pytest.mark.parametrize(
    ("topics", "partitions", "compared"),
    [(10, 1, 10), (1_000, 1, 1_000), (1_001, 1, 1_000), (20_000, 1, 1_000), (1_000, 20, 1_000),
     (200, 100, 200), (201, 100, 0), (1_000, 100, 0), (16, 1_000, 16), (8_000, 10, 1_000),
     (0, 1, 0)],
)  # fmt: skip
def test_the_first_thousand_unless_they_are_large(topics, partitions, compared):
    left_out = tuple(unread(PREFIX, topics, partitions))
    names = [present_name(number) for number in range(topics)]
    assert sum(not name.startswith(left_out) for name in names) == compared
    assert not "made-000001".startswith(left_out)
