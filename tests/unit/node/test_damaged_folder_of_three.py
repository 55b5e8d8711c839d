"""What one of several voters is told about its damaged folder is followed to the letter, and works.

It is never to remove a file by itself: that forgets its vote, or what it has acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulator.raft import RecoveryError
from emulator.raft.layout import (
    FOLDER,
    QUORUM_STATE,
    RECOVERY_POINT,
    segment_base,
    segment_path,
    snapshot_id,
)
from emulator.raft.machine import OF_SEVERAL
from tests.unit.node.test_quorum import IDS, Quorum

Files = dict[str, bytes]


def segments(files: Files) -> list[str]:
    bases = sorted(base for path in files if (base := segment_base(path)) is not None)
    return [segment_path(base) for base in bases]


def no_election_state(files: Files) -> None:
    files[QUORUM_STATE] = b""


def torn_election_state(files: Files) -> None:
    files[QUORUM_STATE] = files[QUORUM_STATE][:-9]


def negative_epoch(files: Files) -> None:
    files[QUORUM_STATE] = files[QUORUM_STATE].replace(b'"leaderEpoch":', b'"leaderEpoch":-')


def no_recovery_point(files: Files) -> None:
    files[RECOVERY_POINT] = b"?"


def end_of_the_log_is_gone(files: Files) -> None:
    files[segments(files)[-1]] = b""


def damaged_batch(files: Files) -> None:
    path = segments(files)[-1]
    files[path] = bytes(40) + files[path][40:]


def missing_segment(files: Files) -> None:
    files[segment_path(10**6)] = b""


def damaged_snapshot(files: Files) -> None:
    newest = max(path for path in files if snapshot_id(path))
    files[newest] = files[newest][:-1]


DAMAGES = [
    no_election_state,
    torn_election_state,
    negative_epoch,
    no_recovery_point,
    end_of_the_log_is_gone,
    damaged_batch,
    missing_segment,
    damaged_snapshot,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda one: one.__name__)
def test_it_gets_everything_from_the_others_and_votes_for_nobody_before(
    damage: Callable[[Files], None],
) -> None:
    quorum = Quorum(metadata_log_max_record_bytes_between_snapshots="1000")
    leader = quorum.leader
    for number in range(30):
        assert quorum.change(leader, f"user-{number}") == 0
    quorum.joined.wait(6_000)
    one, third = (each for each in IDS if each != leader)
    party = quorum.parties[one]
    quorum.joined.perform(party, party.machine.shutdown(quorum.joined.now_ms))
    quorum.joined.until(lambda: party.halt is not None)
    quorum.kill(one)
    damage(quorum.files[one])
    with pytest.raises(RecoveryError) as refused:
        quorum.start(one)
    text = str(refused.value)
    assert text.endswith(OF_SEVERAL)
    assert "remove" not in text
    assert "truncate the" not in text
    quorum.files[one] = {
        path: data for path, data in quorum.files[one].items() if not path.startswith(FOLDER)
    }
    quorum.kill(leader)
    quorum.kill(third)
    quorum.start(one)
    quorum.start(third)
    quorum.joined.wait(10_000)
    assert quorum.active() == [], "it has not heard from a leader yet"
    quorum.start(leader)
    quorum.joined.until(lambda: len(quorum.active()) == 1)
    quorum.wait_equal()
    assert {f"user-{number}" for number in range(30)} <= quorum.quotas(one)
