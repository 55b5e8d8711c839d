"""Faults planted in the product: each is noticed, under the name of the promise it breaks."""

from dataclasses import replace

import pytest

from emulator.broker import controller_channel
from emulator.broker.controller_channel import ControllerChannel
from emulator.broker.zookeeper import znode
from emulator.controller import registry
from emulator.controller.machine import Controller
from emulator.migration.dual_write.lag import Lag
from emulator.migration.taking_over import claim
from emulator.node import role
from emulator.seam import Log
from emulator.simulation.models.disk import SimulatedDisk
from emulator.simulation.scenarios.scenario import Scenario
from tests.simulation import plants

BUSY = Scenario(
    faults=("controller-crash", "lost-replies", "controller-crash-in-step"),
    changes=40,
    change_every_ms=15,
    topics=3,
    multi_ops=3,
)


def broken(simulate, scenario=BUSY, seeds=12):
    """Name of the first promise that a few seeds find broken; empty when all held."""
    failures = (simulate(seed, scenario).failure for seed in range(seeds))
    return next((failure.split(":")[0] for failure in failures if failure), "")


def test_nothing_planted_nothing_noticed(simulate):
    assert broken(simulate, seeds=4) == ""


def test_a_disk_that_lies_about_syncs(simulate, monkeypatch):
    monkeypatch.setattr(SimulatedDisk, "synced", lambda *_: None)
    assert broken(simulate) in {"committed-survives", "keeps-running"}


def test_a_unit_that_forgets_its_last_operation(simulate, monkeypatch):
    plants.last_operation_forgotten(monkeypatch)
    assert broken(simulate) == "tree-is-image"


def test_a_claim_that_leaves_the_epoch(simulate, monkeypatch):
    plants.epoch_left(monkeypatch)
    assert broken(simulate, Scenario(faults=("controller-crash",) * 3))


def test_a_rollback_that_is_not_recognised(simulate, monkeypatch):
    """The log still holds all that ZooKeeper's counters name: only the epoch tells."""
    monkeypatch.setattr(claim, "_taken_over", lambda *_: [])
    back = Scenario(faults=("rollback@DUAL_WRITE+200",), changes=10)
    assert broken(simulate, back, seeds=2) == "zookeeper-shows-committed"


def test_a_full_list_one_short(simulate, monkeypatch):
    plants.full_list_one_short(monkeypatch)
    assert broken(simulate) in {"full-lists-all", "brokers-agree"}


def test_a_bound_that_binds_nobody(simulate, monkeypatch):
    real = Controller.hold

    def open_door(self, *, now_ms, **_bounds):
        real(self, now_ms=now_ms)

    monkeypatch.setattr(Controller, "hold", open_door)
    frozen = Scenario(faults=("zookeeper-freeze",) * 3, changes=150, bound=15)
    assert broken(simulate, frozen, seeds=4) == "lag-bounded"


def test_a_gauge_that_reads_zero(simulate, monkeypatch):
    monkeypatch.setattr(Lag, "records", property(lambda self: 0))
    assert broken(simulate, seeds=3) == "lag-gauge"


def test_a_write_before_the_commit(simulate, monkeypatch):
    plants.committed_at_once(monkeypatch)
    assert broken(simulate)


def test_a_handler_that_raises(simulate, monkeypatch):
    handler = registry.handlers()[63]
    monkeypatch.setitem(registry._HANDLERS, 63, replace(handler, function=lambda *_: {}[1]))
    assert broken(simulate, seeds=1) == "handlers-cope"


@pytest.mark.parametrize("speaker", [role, znode])
def test_a_log_line_that_no_table_has(simulate, monkeypatch, speaker):
    """A controller's, and a broker's."""
    monkeypatch.setattr(speaker, "Log", lambda level, text, fields: Log(level, f"{text}!", fields))
    assert broken(simulate, seeds=1) == "log-lines-listed"


def test_an_answer_before_the_sync(simulate, monkeypatch):
    plants.answered_at_once(monkeypatch)
    assert broken(simulate, seeds=40) == "answered-is-committed"


def test_a_broker_that_tells_its_clients_who_is_not_the_controller(simulate, monkeypatch):
    monkeypatch.setattr(controller_channel, "says", lambda *_: False)
    deposed = Scenario(faults=("epoch-bumped",) * 2, changes=60, change_every_ms=40)
    assert broken(simulate, deposed, seeds=3) in {"passed-on-until-timeout", "refused-unnamed"}


def test_a_broker_that_gives_up_before_the_time_of_a_request_is_over(simulate, monkeypatch):
    monkeypatch.setattr(ControllerChannel, "_expires_ms", property(_at_once))
    assert broken(simulate, seeds=4) == "passed-on-until-timeout"


def _at_once(self):
    return self._queue[0].put_ms + 10 if self._queue else None
