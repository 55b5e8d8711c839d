"""What the migration part of a node asks of its two machines, and when; both are stand-ins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.metadata.image import EMPTY
from emulator.metadata.migration_state import MigrationState
from emulator.migration.authority import Authority
from emulator.migration.dual_write.modes import Mode
from emulator.migration.side import FINALISED, MigrationSide
from emulator.migration.states import State
from emulator.seam import Closed, Effect, Log
from emulator.zookeeper.states import ZkState


def _said(name: str) -> list[Effect]:
    return [Log("info", name, {})]


class Stage:
    """A side over machines that note what they are asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        image = replace(EMPTY, migration_state=MigrationState.MIGRATION)
        self.history = SimpleNamespace(stable=image, tip=image)
        call = self._call
        self.zk = SimpleNamespace(
            deadline_ms=None,
            connected=True,
            generation=1,
            state=ZkState.CLOSING,
            servers=SimpleNamespace(down=None),
            start=call("zk.start"),
            handle=call("zk.handle"),
            tick=call("zk.tick"),
            close=call("zk.close"),
            withdraw=lambda: self.calls.append(("zk.withdraw",)),
            owns=lambda conn: conn == 1,
            outcomes=[],
            take_results=lambda: self.zk.outcomes,
        )
        behind = SimpleNamespace(
            mode=Mode.STOPPED,
            why="",
            poison=SimpleNamespace(skipped=[], znodes=[]),
            keep_from=lambda _: 77,
            check=call("check"),
            # Nothing is to be compared: the driver is in no dual write.
            confirmations=SimpleNamespace(read_ms=None),
            comparing=SimpleNamespace(now=None),
            pipeline=SimpleNamespace(chain=None),
        )
        self.behind = behind
        self.driver = SimpleNamespace(
            deadline_ms=None,
            write_behind=behind,
            authority=Authority.GRANTED,
            drained=True,
            state=State.INACTIVE,
            waits=SimpleNamespace(own_fault="", perhaps_own=""),
            start=call("driver.start"),
            became_leader=call("driver.became_leader"),
            resigned=call("driver.resigned"),
            handle=call("driver.handle"),
            tick=call("driver.tick"),
            zk_results=call("driver.zk_results"),
            zk_connected=call("driver.zk_connected"),
            metadata=call("driver.metadata"),
            drain=call("driver.drain"),
            owns=lambda conn: conn == 2,
        )
        zk: Any = self.zk
        driver: Any = self.driver
        self.side = MigrationSide(zk, driver, self.history)

    def _call(self, name: str) -> Any:
        def called(*arguments: object) -> list[Effect]:
            self.calls.append((name, *arguments))
            return _said(name)

        return called

    def taken(self) -> list[tuple[Any, ...]]:
        calls, self.calls = self.calls, []
        return calls

    def finalise(self) -> Stage:
        """The log is final, and this process has seen it."""
        self.history.stable = replace(
            self.history.stable, migration_state=MigrationState.POST_MIGRATION
        )
        effects = self.side.exchange(5)
        said = Log("info", "the migration is finalised", {"why": FINALISED})
        assert effects == [*_said("driver.resigned"), *_said("zk.close"), said]
        assert self.taken() == [("driver.resigned", 5), ("zk.close", 5)]
        return self


def test_it_starts_once() -> None:
    stage = Stage()
    assert stage.side.start(5) == [*_said("driver.start"), *_said("zk.start")]
    assert stage.side.start(6) == []
    assert stage.side.lead(3, 7) == _said("driver.became_leader")
    calls = [("driver.start", 5), ("zk.start", 5), ("driver.became_leader", 3, 7)]
    assert stage.taken() == calls
    first = Stage()
    names = ("driver.start", "zk.start", "driver.became_leader")
    assert first.side.lead(3, 7) == [one for name in names for one in _said(name)]


def test_a_term_that_ends_takes_back_what_was_not_sent() -> None:
    stage = Stage()
    assert stage.side.resign(7) == _said("driver.resigned")
    assert stage.taken() == [("zk.withdraw",), ("driver.resigned", 7)]


@pytest.mark.parametrize(
    ("conn", "calls"), [(1, ["zk.handle"]), (2, ["driver.handle"]), (3, list[str]())]
)
def test_an_event_is_for_who_has_the_connection(conn: int, calls: list[str]) -> None:
    stage = Stage()
    effects = stage.side.handle(conn, Closed(conn, ""), 7)
    assert effects == [one for name in calls for one in _said(name)]
    assert [name for name, *_ in stage.taken()] == calls


@pytest.mark.parametrize(
    ("zk_ms", "driver_ms", "earliest", "ticked"),
    [
        (None, None, None, []),
        (9, None, 9, []),
        (8, 9, 8, ["zk.tick"]),
        (9, 8, 8, ["driver.tick"]),
        (0, 7, 0, ["zk.tick", "driver.tick"]),
    ],
)
def test_what_is_due_is_done(
    zk_ms: int | None, driver_ms: int | None, earliest: int | None, ticked: list[str]
) -> None:
    stage = Stage()
    stage.zk.deadline_ms, stage.driver.deadline_ms = zk_ms, driver_ms
    assert stage.side.deadline_ms == earliest
    assert stage.side.tick(8) == [one for name in ticked for one in _said(name)]


def test_the_driver_hears_of_answers_and_of_each_session_once() -> None:
    stage = Stage()
    stage.zk.connected = False
    assert stage.side.exchange(5) == []
    stage.zk.connected, stage.zk.outcomes = True, ["answer"]
    effects = [*_said("driver.zk_results"), *_said("driver.zk_connected")]
    assert stage.side.exchange(6) == effects
    stage.zk.outcomes = []
    assert stage.side.exchange(7) == []
    stage.zk.generation = 2
    assert stage.side.exchange(8) == _said("driver.zk_connected")
    calls = [("driver.zk_results", ["answer"], 6), ("driver.zk_connected", 6)]
    assert stage.taken() == [*calls, ("driver.zk_connected", 8)]


def test_once_the_log_is_final_zookeeper_alone_is_served_until_it_is_closed() -> None:
    stage = Stage()
    stage.side.lead(3, 1)
    stage.taken()
    stage.driver.state = State.BECOME_CONTROLLER
    assert stage.side.keep_from(stage.history.stable) == 0
    stage.finalise()
    stage.zk.deadline_ms, stage.driver.deadline_ms = 9, 1
    stage.zk.connected, stage.zk.outcomes = False, ["answer"]
    assert stage.side.connected
    assert stage.side.deadline_ms == 9
    assert stage.side.tick(9) == _said("zk.tick")
    assert stage.side.exchange(9) == []
    assert stage.side.lead(4, 9) == []
    assert stage.side.metadata([], 9) == []
    assert stage.side.check(9) == []
    assert stage.side.mark(4) is None
    assert stage.side.no_mark_because(4) == ""
    assert stage.side.keep_from(stage.history.stable) is None
    assert stage.taken() == [("zk.tick", 9)]


def test_before_that_the_driver_is_asked() -> None:
    stage = Stage()
    stage.side.lead(3, 1)
    assert stage.side.metadata([], 9) == _said("driver.metadata")
    assert stage.side.check(9) == _said("check")
    assert stage.side.drain(9) == _said("driver.drain")
    assert stage.side.keep_from(stage.history.stable) == 77
    assert "not in dual write" in stage.side.no_mark_because(3)
    assert stage.side.connected
    stage.zk.connected = False
    assert not stage.side.connected
    stage.side.resign(9)
    assert stage.side.keep_from(stage.history.stable) is None
    assert stage.side.no_mark_because(3) == ""


@pytest.mark.parametrize("state", list(ZkState))
def test_taking_leave_is_over_when_zookeeper_has_answered(state: ZkState) -> None:
    stage = Stage()
    stage.zk.state = state
    assert stage.side.close(7) == (_said("zk.close"), state is ZkState.CLOSING)


def test_after_taking_leave_no_answer_changes_anything() -> None:
    """A claim that succeeded then began a takeover without a session, and a stop waited for it."""
    stage = Stage()
    stage.side.lead(3, 1)
    stage.side.close(7)
    stage.taken()
    stage.driver.drained, stage.zk.outcomes = False, ["answer"]
    stage.zk.deadline_ms, stage.driver.deadline_ms, stage.zk.generation = 9, 1, 2
    assert stage.side.exchange(8) == []
    assert stage.side.metadata([], 8) == []
    assert stage.side.drained
    assert stage.side.deadline_ms == 9
    assert stage.side.tick(9) == _said("zk.tick")
    assert stage.side.keep_from(stage.history.stable) == 77
    assert stage.taken() == [("zk.tick", 9)]


@pytest.mark.parametrize("state", list(MigrationState))
@pytest.mark.parametrize("connected", [True, False])
def test_without_a_copy_in_the_log_zookeeper_is_owed_nothing(
    state: MigrationState, connected: bool
) -> None:
    stage = Stage()
    stage.driver.drained, stage.zk.connected = False, connected
    stage.history.tip = replace(stage.history.tip, migration_state=state)
    assert stage.side.drained == (not connected and state is not MigrationState.MIGRATION)
    stage.driver.drained = True
    assert stage.side.drained


def test_since_when_zookeeper_is_away() -> None:
    stage = Stage()
    assert stage.side.apart_since_ms is None
    stage.zk.servers.down = SimpleNamespace(since_ms=4)
    assert stage.side.apart_since_ms is None, "there is a session"
    stage.zk.connected = False
    assert stage.side.apart_since_ms == 4


@pytest.mark.parametrize(
    ("state", "authority", "mode", "told"),
    [
        (State.BECOME_CONTROLLER, Authority.GRANTED, Mode.STOPPED, True),
        (State.WAIT_FOR_BROKERS, Authority.UNPROVEN, Mode.STOPPED, True),
        (State.WAIT_FOR_BROKERS, Authority.GRANTED, Mode.STOPPED, False),
        (State.BECOME_CONTROLLER, Authority.GRANTED, Mode.STARTING, False),
        (State.BECOME_CONTROLLER, Authority.DEPOSED, Mode.DEPOSED, False),
    ],
)
def test_why_it_cannot_claim(state: State, authority: Authority, mode: Mode, told: bool) -> None:
    stage = Stage()
    stage.driver.waits.perhaps_own = "no secret"
    stage.driver.state, stage.driver.authority, stage.behind.mode = state, authority, mode
    assert stage.side.refused_because == ("no secret" if told else "")


@pytest.mark.parametrize(
    ("mode", "why", "skipped", "told"),
    [
        (Mode.STOPPED, "", (), "ZooKeeper was not compared with the log since the start"),
        (Mode.DEPOSED, "by 7", ("/a",), "this controller has lost its claim; by 7"),
        (Mode.RUNNING, "by 7", (), ""),
        (Mode.RUNNING, "", ("/a", "/b"), "skipped, as ZooKeeper refuses them: /a, /b"),
    ],
)
def test_why_zookeeper_may_miss_something(
    mode: Mode, why: str, skipped: tuple[str, ...], told: str
) -> None:
    stage = Stage()
    stage.behind.mode, stage.behind.why = mode, why
    stage.behind.poison.skipped = [SimpleNamespace(path=path, skipped=True) for path in skipped]
    assert stage.side.out_of_charge() == told
    refused = SimpleNamespace(path="/c", cause="Create: NO_AUTH", skipped=False)
    stage.behind.poison.znodes = [refused, *stage.behind.poison.skipped]
    if mode is Mode.RUNNING:
        assert stage.side.out_of_charge() == "it refuses /c (Create: NO_AUTH)"
