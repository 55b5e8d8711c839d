"""What a leader knows of the other voters."""

from __future__ import annotations

import pytest

from emulator.raft.election import Progress


@pytest.mark.parametrize(
    ("own", "others", "majority"),
    [
        (7, [], 7),
        (7, [3], 3),
        (7, [3, 5], 5),
        (7, [9, 3], 7),
        (7, [9, 9], 7),
        (7, [9, 9, 8, 8], 7),
        (7, [3, 5, 6], 5),
        (7, [1, 2, 6, 6], 6),
        (7, [1, 2, 6, 7], 6),
        (7, [None, 6], 6),
        (7, [None, None], -1),
    ],
)
def test_the_offset_below_which_a_majority_has_everything(own, others, majority):
    progress = Progress(range(len(others)), 0)
    for voter, end in enumerate(others):
        if end is not None:
            progress.fetched(voter, end, own, 1)
    assert progress.majority_end(own) == majority


def test_when_a_majority_was_heard_from():
    assert Progress([], 5).majority_contact_ms() is None
    progress = Progress([2, 3], 100)
    assert progress.majority_contact_ms() == 100
    progress.fetched(3, 0, 0, 150)
    assert progress.majority_contact_ms() == 150, "with the leader two of three"
    five = Progress([2, 3, 4, 5], 100)
    five.fetched(3, 0, 0, 150)
    assert five.majority_contact_ms() == 100
    five.note_contact(4, 130)
    assert five.majority_contact_ms() == 130


def test_successors_are_those_with_the_longest_logs_first():
    progress = Progress([2, 3, 4], 0)
    progress.fetched(3, 5, 9, 1)
    progress.fetched(4, 9, 9, 1)
    assert progress.successors() == [4, 3, 2]
    assert progress.voters[4].last_caught_up_ms == 1
    assert progress.voters[3].last_caught_up_ms == -1


def test_observers_are_no_contact():
    progress = Progress([2, 3], 100)
    progress.note_contact(7, 150)
    assert progress.majority_contact_ms() == 100
    assert 7 not in progress.successors()
