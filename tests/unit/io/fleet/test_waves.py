"""When each broker of a fleet has its turn."""

from __future__ import annotations

from random import Random

import pytest

from emulator.io.fleet.settings import Due, Wave, WaveKind, parse_wave, schedule


def turns(*texts: str, brokers: int = 4) -> list[Due]:
    return schedule([parse_wave(text) for text in texts], brokers, Random(3))


@pytest.mark.parametrize(
    ("text", "wave"),
    [
        ("die@3", Wave(WaveKind.DIE, 3.0)),
        ("roll@0.5:all/2", Wave(WaveKind.ROLL, 0.5, None, 2.0)),
        (" revive@9:7 ", Wave(WaveKind.REVIVE, 9.0, 7)),
    ],
)
def test_a_wave_is_read(text: str, wave: Wave) -> None:
    assert parse_wave(text) == wave


@pytest.mark.parametrize(
    "text",
    [
        "",
        "die",
        "die@",
        "die@-1",
        "burn@3",
        "die@3:0",
        "die@3/0",
        "die@3:1:2",
        "die@1e9",
        "die@" + "9" * 400,
        "die@1:" + "9" * 5000,
        "die@1/0.0000001",
        "die@3\x00",
    ],
)
def test_what_is_no_wave_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ValueError, match=r"KIND@SECOND|no wave"):
        parse_wave(text)


def test_restarts_go_through_the_brokers_at_the_rate() -> None:
    assert [(one.at_ms, one.index) for one in turns("restart@2:3/4")] == [
        (2_000, 0),
        (2_250, 1),
        (2_500, 2),
    ]


def test_those_that_died_are_revived_and_no_others() -> None:
    due = turns("die@1:2", "revive@2", "restart@1.5")
    died = {one.index for one in due if one.kind is WaveKind.DIE}
    revived = {one.index for one in due if one.kind is WaveKind.REVIVE}
    restarted = {one.index for one in due if one.kind is WaveKind.RESTART}
    assert len(died) == 2
    assert revived == died
    assert restarted == set(range(4)) - died


def test_a_revival_in_two_waves_takes_each_once() -> None:
    due = turns("die@1", "revive@2:3", "revive@3:3")
    revived = [one.index for one in due if one.kind is WaveKind.REVIVE]
    assert sorted(revived) == [0, 1, 2, 3]


def test_more_than_there_are_is_all() -> None:
    assert len(turns("restart@1:99")) == 4
