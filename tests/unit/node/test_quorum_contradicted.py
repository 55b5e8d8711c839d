"""Two of three nodes get old copies of their folders: the third does not give up what they lost."""

from __future__ import annotations

import pytest

from emulator.raft import RecoveryError
from emulator.raft.layout import CONTRADICTED, FOLDER
from emulator.raft.replica import RECOVERY_POINT_MS
from tests.unit.node.test_quorum import IDS, Quorum


def restored() -> tuple[Quorum, int, set[str]]:
    """The third node when it has met the others, its id, and the users that it knows."""
    quorum = Quorum()
    assert quorum.change(quorum.leader, "early") == 0
    quorum.wait_equal()
    old = {each: dict(quorum.parties[each].files) for each in IDS}
    for number in range(3):
        assert quorum.change(quorum.leader, f"late-{number}") == 0
    quorum.wait_equal()
    third = IDS[2]
    known = quorum.quotas(third)
    quorum.joined.wait(RECOVERY_POINT_MS + 1_000)  # what is committed is written down
    quorum.kill(*IDS)
    for each in IDS[:2]:
        quorum.files[each] = old[each]
        quorum.start(each)
    assert quorum.change(quorum.leader, "other") == 0
    quorum.start(third)
    quorum.joined.until(lambda: quorum.parties[third].halt is not None)
    return quorum, third, known


def test_the_node_ends_and_says_so_at_each_start():
    quorum, third, known = restored()
    assert known == {"early", "late-0", "late-1", "late-2"}
    halt = quorum.parties[third].halt
    assert halt.exit_code == 1
    quorum.kill(third)
    text = quorum.files[third][CONTRADICTED].decode().strip()
    assert halt.why.startswith(f"{text}. ")
    for _ in range(2):
        with pytest.raises(RecoveryError, match="a copy of its folder") as found:
            quorum.start(third)
        assert text in str(found.value)
    assert quorum.change(quorum.leader, "they go on") == 0


def test_its_copy_brings_everything_back():
    quorum, third, known = restored()
    quorum.kill(third)
    log = {
        path: data
        for path, data in quorum.files[third].items()
        if path.startswith(f"{FOLDER}/") and path != CONTRADICTED
    }
    for each in IDS[:2]:
        quorum.kill(each)
    for each in IDS:
        own = {p: d for p, d in quorum.files[each].items() if not p.startswith(f"{FOLDER}/")}
        quorum.files[each] = {**own, **log}
        quorum.start(each)
    assert quorum.change(quorum.leader, "after") == 0
    quorum.wait_equal()
    assert quorum.quotas(third) == known | {"after"}


def test_without_its_log_it_takes_theirs():
    quorum, third, _ = restored()
    quorum.kill(third)
    files = quorum.files[third]
    quorum.files[third] = {p: d for p, d in files.items() if not p.startswith(f"{FOLDER}/")}
    quorum.start(third)
    quorum.wait_equal()
    assert quorum.quotas(third) == {"early", "other"}
