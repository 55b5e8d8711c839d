"""What the next run must know is on disk before it takes effect."""

from __future__ import annotations

import pytest

from bench.life.standing import BrokerStanding, Mode, Quorum, Standing


def standing():
    return Standing(
        "3.9.2",
        "abc",
        {0: BrokerStanding(Mode.KRAFT, "4.1.1"), 1: BrokerStanding(Mode.MIGRATING, "3.9.2")},
        quorum=Quorum.FINAL,
        attempt=2,
        run=3,
        done=["zookeeper"],
        begun="dual-write",
        rows=[{"phase": "zookeeper"}],
    )


def test_what_was_saved_is_read(tmp_path):
    path = tmp_path / "state.json"
    assert Standing.load(path) is None
    standing().save(path)
    assert Standing.load(path) == standing()
    found = Standing.load(path)
    assert found.quorum is Quorum.FINAL
    assert found.brokers[0].mode is Mode.KRAFT


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"quorum": "gone"}', '{"quorum": "absent"}'])
def test_what_another_version_left_is_not_continued(tmp_path, text):
    path = tmp_path / "state.json"
    path.write_text(text)
    assert Standing.load(path) is None
