"""What becomes of a session: taken up to be closed, continued, expired, ended."""

from __future__ import annotations

import pytest

from emulator.zookeeper.client import SessionHold
from emulator.zookeeper.jute import JuteError

NONE = (0, bytes(16))
OLD = (7, b"password")


def held(*, kept: bool) -> SessionHold:
    """One session, whose connection is lost."""
    hold = SessionHold(kept=kept)
    assert (hold.asked, hold.id, hold.lost_id) == (NONE, 0, 0)
    assert hold.granted(*OLD, 9_000)
    assert (hold.asked, hold.id, hold.lost_id, hold.fencing) == (NONE, 7, 0, False)
    hold.lose()
    assert (hold.asked, hold.id, hold.lost_id) == (OLD, 0, 7)
    assert hold.fencing is not kept
    return hold


def test_a_fenced_session_is_taken_up_only_to_be_closed() -> None:
    hold = held(kept=False)
    assert hold.granted(*OLD, 9_000)
    assert (hold.id, hold.fencing) == (0, True)
    hold.forget_lost()
    assert (hold.asked, hold.fencing) == (NONE, False)
    assert hold.granted(8, b"another", 9_000)
    assert hold.id == 8


def test_a_kept_session_goes_on() -> None:
    hold = held(kept=True)
    assert hold.granted(*OLD, 9_000)
    assert (hold.id, hold.lost_id) == (7, 0)


def test_a_lost_connection_without_a_session_loses_nothing() -> None:
    hold = held(kept=True)
    hold.lose()
    assert hold.asked == OLD


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("lost", [False, True])
def test_after_its_end_a_new_one_is_asked_for(kept: bool, lost: bool) -> None:
    hold = held(kept=kept)
    if not lost:
        hold.granted(*OLD, 9_000)
    hold.end()
    assert (hold.asked, hold.id, hold.lost_id, hold.fencing) == (NONE, 0, 0, False)
    hold.lose()
    assert hold.asked == NONE


def test_what_the_server_grants_is_what_was_asked_for() -> None:
    hold = held(kept=True)
    assert not hold.granted(0, bytes(16), 0), "it has expired"
    with pytest.raises(JuteError, match="asked for session 0x7, got 0x8"):
        hold.granted(8, b"another", 9_000)
    new = SessionHold(kept=True)
    for answer in ((0, bytes(16), 9_000), (8, b"another", 0), (8, b"another", -1)):
        with pytest.raises(JuteError, match="refused a new session"):
            new.granted(*answer)
    assert new.granted(8, b"another", 1)
