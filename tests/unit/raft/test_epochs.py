"""Where leader epochs begin and end."""

from __future__ import annotations

import pytest

from emulator.raft.log import LeaderEpochs


def epochs() -> LeaderEpochs:
    return LeaderEpochs([(2, 10), (3, 20), (6, 25)])


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(1, (1, 10)), (2, (2, 20)), (3, (3, 25)), (4, (3, 25)), (6, (6, 40)), (9, (6, 40))],
)
def test_the_largest_known_epoch_and_where_it_ends(asked, answer):
    assert epochs().end_offset(asked, 40) == answer


def test_an_empty_log_ends_every_epoch():
    assert LeaderEpochs().end_offset(3, 0) == (3, 0)
    assert LeaderEpochs().latest == 0
    assert LeaderEpochs().epoch_at(0) is None


def test_the_epoch_of_an_offset():
    assert [epochs().epoch_at(o) for o in (9, 10, 19, 20, 24, 25, 99)] == [None, 2, 2, 3, 3, 6, 6]


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, [(2, 10), (3, 20), (6, 25)]),
        (10, [(2, 10), (3, 20), (6, 25)]),
        (19, [(2, 19), (3, 20), (6, 25)]),
        (20, [(3, 20), (6, 25)]),
        (90, [(6, 90)]),
    ],
)
def test_what_ended_below_the_start_is_forgotten(start, left):
    found = epochs()
    found.truncate_from_start(start)
    assert list(found) == left
    assert len(found) == len(left)


def test_only_a_later_epoch_opens_a_new_entry_and_none_goes_back():
    found = epochs()
    assert not found.assign(6, 30)
    assert found.assign(7, 31)
    assert list(found)[-2:] == [(6, 25), (7, 31)]
    with pytest.raises(AssertionError, match="epoch 6 after 7"):
        found.assign(6, 32)
    with pytest.raises(AssertionError, match="never fall"):
        found.assign(8, 30)
