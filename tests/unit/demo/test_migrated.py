"""What is checked of the migration waits for whoever leads, and for metadata that are there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bench.demo import migrate
from bench.demo.migrate import LEAVING
from bench.demo.narrator import Narrator
from bench.demo.seed import TOPICS, unheard
from bench.load.cluster_api import Shape


class Leads(SimpleNamespace):
    """Controllers of which another one leads at each look, until the last one."""

    def wait_dual_write(self):
        self.leader = next(self.leaders, self.leader)
        return {"migration": {"driver_state": "DUAL_WRITE"}}


@pytest.fixture
def judged(capsys):
    """Lines of the checks, by who leads, who owns ``/controller``, and what the watch has seen."""

    def run(leaders, owner, states, copied):
        stat = SimpleNamespace(ephemeralOwner=0, czxid=5, pzxid=7)
        stage = SimpleNamespace(
            controllers=Leads(leader=None, leaders=iter(leaders)),
            znode=lambda _: {"brokerid": owner},
            stat=lambda path: None if LEAVING in path else stat,
        )
        watch = SimpleNamespace(states=states, copied=copied)
        migrate._check(stage, Narrator(), watch, 1)
        return capsys.readouterr().out

    return run


def test_a_leader_of_before_and_a_look_at_a_follower_are_no_faults(judged):
    out = judged([3000, 3001], 3001, ["ZK_MIGRATION", "INACTIVE"], 177)
    assert out.count("OK ") == 3, out


def test_a_claim_of_another_is_a_fault_and_so_is_a_copy_of_nothing(judged, monkeypatch):
    def late(*_):
        raise TimeoutError

    monkeypatch.setattr(migrate, "wait_for", late)
    out = judged([3000], 3001, ["DUAL_WRITE"], 0)
    assert "FAILED      the leading controller owns" in out
    assert "FAILED      dual write: 0 records copied" in out


def test_metadata_that_are_empty_lack_everything():
    seen = Shape(controller_id=1, brokers={1: "h:1"}, topics={})
    assert set(unheard(seen)) == set(TOPICS)
    whole = {name: {0: (1, (1, 2), (1, 2))} for name in TOPICS}
    assert not unheard(Shape(1, {}, whole))
    assert unheard(Shape(1, {}, {**whole, "clicks": {0: (1, (1, 2), (1,))}})) == ["clicks-0"]
