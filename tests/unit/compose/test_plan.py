"""How servers of ``compose/migration.yaml`` run: properties by mode, and what a step asks for."""

import pytest

from bench.compose import control, health, plan, steps
from bench.compose.plan import Wanted


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv(control.STATE, str(tmp_path / "state"))
    monkeypatch.setenv(control.TRACE, str(tmp_path / "trace"))


FLAG = "zookeeper.metadata.migration.enable"


@pytest.mark.parametrize(
    ("wanted", "has", "lacks"),
    [
        (Wanted.ZOOKEEPER, {"broker.id", "zookeeper.connect"}, {FLAG, "controller.quorum.voters"}),
        (Wanted.MIGRATING, {"broker.id", FLAG, "controller.quorum.voters"}, {"process.roles"}),
        (
            Wanted.KRAFT,
            {"node.id", "process.roles", "controller.quorum.voters"},
            {"broker.id", FLAG, "zookeeper.connect", "inter.broker.protocol.version"},
        ),
    ],
)
def test_a_broker_has_the_properties_of_its_mode(wanted, has, lacks):
    found = plan.broker(2, wanted, "data")
    assert has <= found.keys()
    assert not lacks & found.keys()


def test_a_controller_loses_the_flag_and_zookeeper_at_the_end():
    gone = plan.controller(3000, Wanted.MIGRATING, "data").keys()
    assert gone - plan.controller(3000, Wanted.KRAFT, "data").keys() == {FLAG, "zookeeper.connect"}


def test_brokers_begin_in_zookeeper_mode_and_controllers_wait():
    assert control.wanted("broker-1") is Wanted.ZOOKEEPER
    assert control.wanted("controller-3000") is Wanted.STOPPED
    assert health.healthy("controller-3000"), "one that is to wait is healthy"


def test_what_is_asked_for_is_kept_and_is_not_what_runs():
    control.want("broker-1", Wanted.KRAFT)
    assert control.wanted("broker-1") is Wanted.KRAFT
    assert control.running("broker-1") is Wanted.STOPPED


def test_nothing_goes_back_after_the_end(capsys):
    control.want("controller-3001", Wanted.KRAFT)
    assert steps.run("back") == 1
    assert "no way back" in capsys.readouterr().err


def test_the_end_waits_for_every_broker(capsys):
    control.want("broker-1", Wanted.KRAFT)
    assert steps.run("finalise") == 1
    assert "[2, 3] are not in KRaft mode" in capsys.readouterr().err


def test_a_controller_that_should_run_and_does_not_answer_is_not_healthy(monkeypatch):
    control.want("controller-3000", Wanted.MIGRATING)
    monkeypatch.setattr(plan, "url", lambda _number: "http://127.0.0.1:1")
    assert not health.healthy("controller-3000")
