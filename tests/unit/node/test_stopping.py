"""The orderly stop step by step, at each of its time limits; the machines are stand-ins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.metadata.controllers import ControllerRegistration
from emulator.metadata.image import EMPTY
from emulator.metadata.migration_state import FinalisationMark, MarkKind, MigrationState
from emulator.metadata.pmap import PMap
from emulator.node.stopping import (
    DRAIN_MS_MAX,
    HANDING_OVER_MS_MAX,
    TELLING_MS_MAX,
    End,
    OrderlyStop,
)
from emulator.seam import Effect, Log

T = 1_000_000
WRITES = "remaining changes are written to ZooKeeper, for at most"
AGAIN = "a second signal stops at once"
MARK = FinalisationMark(MarkKind.LEFT, 1, 7, 3, 5, 9)
GOODBYE = Log("info", "goodbye", {})
KEPT = "the mark is kept: a leader without the flag may finalise"
WRITTEN = "ZooKeeper has everything: the mark is written, which says so"
NO_MARK = "no mark is left, without which no controller without the flag may finalise"
DOUBT = (
    "it is not known whether the mark is kept, without which no controller without the "
    "flag may finalise: status of the next leader says it"
)


class Stage:
    """The machines around a stop. Leads three voters, and everything is in ZooKeeper."""

    def __init__(
        self,
        *,
        voters: int = 3,
        leads: bool = True,
        state: MigrationState = MigrationState.MIGRATION,
    ) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.raft = SimpleNamespace(
            config=SimpleNamespace(voters=dict.fromkeys(range(voters))),
            is_leader=leads,
            leader_epoch=7,
            high_watermark=10,
            log_end_offset=10,
            dirty=False,
            epochs={},
            shutdown=self._shutdown,
        )
        self.raft.epoch_at = lambda offset: self.raft.epochs.get(offset, 7)
        ready = {at: ControllerRegistration(at, b"", at != 2) for at in (1, 2, 3)}
        self.controller = SimpleNamespace(
            busy=False,
            stable=replace(EMPTY, migration_state=state, controllers=PMap(ready)),
            end=lambda: self.calls.append(("end",)),
            append=self._append,
        )
        self.checks: list[list[Effect]] = []
        self.migration = SimpleNamespace(
            driver=object(),
            drained=True,
            why="",
            charge="",
            leaves=MARK,
            closing=False,
            drain=self._drain,
            check=self._check,
        )
        self.migration.mark = lambda _: self.migration.leaves
        self.migration.no_mark_because = lambda _: self.migration.why
        self.migration.close = lambda _: ([GOODBYE], self.migration.closing)
        self.migration.out_of_charge = lambda: self.migration.charge
        self.peers = SimpleNamespace(ending=False)
        machines: Any = self  # whose attributes they are
        self.stop = OrderlyStop(machines)

    def _shutdown(self, now_ms: int, fitter: Any = ()) -> list[Effect]:
        self.calls.append(("shutdown", now_ms, list(fitter)))
        self.raft.is_leader = False
        return [Log("info", "resigns", {})]

    def _append(self, records: Any, now_ms: int) -> int:
        self.calls.append(("append", len(records), now_ms))
        self.raft.log_end_offset += 1
        return int(self.raft.log_end_offset) - 1

    def _drain(self, now_ms: int) -> list[Effect]:
        self.calls.append(("drain", now_ms))
        return []

    def _check(self, now_ms: int) -> list[Effect]:
        self.calls.append(("check", now_ms))
        return self.checks.pop() if self.checks else []

    def marked(self) -> Stage:
        """The stop has begun, and the mark is appended at offset 10."""
        self.stop.begin(T)
        assert texts(self.stop.leave_mark(T)) == [WRITTEN]
        return self


def texts(effects: list[Effect]) -> list[str]:
    return [one.event for one in effects if isinstance(one, Log)]


def why(effects: list[Effect]) -> list[object]:
    return [one.fields["why"] for one in effects if isinstance(one, Log)]


def test_before_it_begins_nothing_is_done() -> None:
    stage = Stage()
    assert not stage.stop.begun
    assert stage.stop.deadline_ms is None
    assert stage.stop.leave_mark(T) == []
    assert stage.stop.hand_over(T) == []
    assert stage.stop.go_on(T) == ([], None)
    assert stage.stop.failed("full") == []
    assert stage.calls == []


@pytest.mark.parametrize(
    ("voters", "leads", "text", "limit_ms", "calls"),
    [
        (
            3,
            True,
            f"stopping: {WRITES} 2 s; another voter leads then; {AGAIN}",
            HANDING_OVER_MS_MAX,
            [("end",), ("drain", T)],
        ),
        (
            3,
            False,
            f"stopping; {AGAIN}",
            DRAIN_MS_MAX,
            [("shutdown", T, []), ("end",), ("drain", T)],
        ),
        (
            1,
            True,
            f"stopping: {WRITES} 60 s; {AGAIN}",
            DRAIN_MS_MAX,
            [("shutdown", T, []), ("end",), ("drain", T)],
        ),
    ],
)
def test_a_leader_of_several_voters_leads_on_for_a_short_time(
    voters: int, leads: bool, text: str, limit_ms: int, calls: list[Any]
) -> None:
    stage = Stage(voters=voters, leads=leads)
    assert texts(stage.stop.begin(T))[0] == text
    assert stage.calls == calls
    assert stage.stop.begun
    assert stage.stop.deadline_ms == T + limit_ms


@pytest.mark.parametrize("open_end", ["busy", "dirty", "undrained", "uncommitted"])
def test_it_resigns_when_nothing_is_left_or_the_time_is_over(open_end: str) -> None:
    stage = Stage()
    match open_end:
        case "busy":
            stage.controller.busy = True
        case "dirty":
            stage.raft.dirty = True
        case "undrained":
            stage.migration.drained = False
        case _:
            stage.raft.high_watermark = 9
    stage.stop.begin(T)
    late_ms = T + HANDING_OVER_MS_MAX
    assert stage.stop.leave_mark(late_ms - 1) == []
    assert stage.stop.hand_over(late_ms - 1) == []
    assert stage.stop.go_on(late_ms - 1) == ([], None)
    assert stage.stop.leave_mark(late_ms) == []
    effects = stage.stop.hand_over(late_ms)
    assert texts(effects) == [NO_MARK, "resigns"]
    assert stage.calls[-1] == ("shutdown", late_ms, [1, 3]), "to voters with the flag"
    assert stage.stop.deadline_ms == late_ms + TELLING_MS_MAX
    assert stage.stop.hand_over(late_ms) == []


def test_the_claim_is_read_back_once_before_the_mark() -> None:
    stage = Stage()
    stage.checks = [[GOODBYE]]
    stage.stop.begin(T)
    assert stage.stop.leave_mark(T + 1) == [GOODBYE]
    assert stage.stop.leave_mark(T + 2) == [Log("info", WRITTEN, {"offset": 10})]
    assert stage.stop.leave_mark(T + 3) == []
    assert stage.calls[2:] == [("check", T + 1), ("append", 1, T + 2)]


def test_no_mark_is_left_after_the_time_or_by_a_follower() -> None:
    stage = Stage()
    stage.stop.begin(T)
    assert stage.stop.leave_mark(T + HANDING_OVER_MS_MAX) == []
    follower = Stage(leads=False)
    follower.stop.begin(T)
    assert follower.stop.leave_mark(T) == []
    assert ("check", T) not in stage.calls + follower.calls


def test_a_mark_that_is_committed_is_kept() -> None:
    stage = Stage().marked()
    assert stage.stop.hand_over(T) == []
    stage.raft.high_watermark = 11
    assert texts(stage.stop.hand_over(T)) == [KEPT, "resigns"]
    assert stage.stop.hand_over(T) == []


def test_a_mark_that_another_leader_has_written_over_is_none() -> None:
    stage = Stage().marked()
    stage.raft.high_watermark, stage.raft.epochs = 11, {10: 8}
    assert why(stage.stop.hand_over(T)[:1]) == ["another leader wrote over it"]


def test_a_mark_that_is_not_stored_in_time_is_in_doubt() -> None:
    stage = Stage().marked()
    late_ms = T + HANDING_OVER_MS_MAX
    assert stage.stop.hand_over(late_ms - 1) == []
    effects = stage.stop.hand_over(late_ms)
    assert texts(effects) == [DOUBT, "resigns"]
    assert why(effects[:1]) == ["it was not stored, by a majority of the voters, in time"]
    assert DOUBT not in texts(stage.stop.go_on(late_ms)[0])


def test_a_mark_that_is_not_stored_at_the_end_is_in_doubt() -> None:
    stage = Stage().marked()
    stage.raft.is_leader = False
    assert texts(stage.stop.hand_over(T)) == ["resigns"]
    effects, end = stage.stop.go_on(T)
    assert texts(effects) == [DOUBT, "goodbye"]
    assert end == End("stopped; the other voters go on", 0)


@pytest.mark.parametrize(
    ("hindrance", "reason"),
    [
        ("a broker is in ZooKeeper mode", "a broker is in ZooKeeper mode"),
        ("", "what was left took too long: stop it again when the lag is 0"),
    ],
)
def test_why_no_mark_is_left(hindrance: str, reason: str) -> None:
    stage = Stage()
    stage.migration.leaves, stage.migration.why = None, hindrance
    stage.stop.begin(T)
    assert stage.stop.leave_mark(T) == []
    effects = stage.stop.hand_over(T)
    assert texts(effects) == [NO_MARK, "resigns"]
    assert why(effects[:1]) == [reason]


@pytest.mark.parametrize("state", [one for one in MigrationState if one.name != "MIGRATION"])
def test_without_a_copied_migration_no_mark_is_missed(state: MigrationState) -> None:
    stage = Stage(state=state)
    stage.migration.leaves = None
    stage.stop.begin(T)
    stage.stop.leave_mark(T)
    assert texts(stage.stop.hand_over(T)) == ["resigns"]
    assert stage.calls[-1] == ("shutdown", T, [])


def test_a_failing_disk_says_what_becomes_of_the_mark() -> None:
    assert why(Stage().marked().stop.failed("full")) == ["full"]
    assert texts(Stage().marked().stop.failed("full")) == [DOUBT]
    unmarked = Stage()
    unmarked.stop.begin(T)
    assert texts(unmarked.stop.failed("full")) == [NO_MARK]
    assert why(unmarked.stop.failed("full")) == ["full"]
    follower = Stage(leads=False)
    follower.stop.begin(T)
    assert follower.stop.failed("full") == []


def test_what_breaks_off_resigns_at_once_and_ends_when_the_others_know() -> None:
    stage = Stage()
    assert stage.stop.break_off("", T) == []
    assert not stage.stop.begun
    effects = stage.stop.break_off("unreadable", T)
    assert texts(effects) == ["cannot lead on: resigns and ends", "resigns"]
    assert why(effects[:1]) == ["unreadable"]
    assert stage.calls == [("shutdown", T, [1, 3]), ("end",)]
    assert stage.stop.deadline_ms == T + TELLING_MS_MAX
    assert stage.stop.break_off("again", T) == []
    assert stage.stop.leave_mark(T) == []
    stage.migration.drained = False
    for name in ("ending", "dirty"):
        stage.peers.ending, stage.raft.dirty = name == "ending", name == "dirty"
        assert stage.stop.go_on(T + TELLING_MS_MAX - 1) == ([], None)
        assert stage.stop.go_on(T + TELLING_MS_MAX) == ([], End("unreadable", 1))
    stage.raft.dirty = False
    assert stage.stop.go_on(T) == ([], End("unreadable", 1))


UNANSWERED = End("stopped; changes may be missing in ZooKeeper: it did not answer", 1)


def test_it_waits_for_zookeeper_and_for_the_others_until_the_time_is_over() -> None:
    stage = Stage(leads=False)
    stage.stop.begin(T)
    late_ms = T + DRAIN_MS_MAX
    stage.peers.ending = True
    assert stage.stop.go_on(late_ms - 1) == ([], None)
    assert stage.stop.go_on(late_ms) == ([GOODBYE], End("stopped; the other voters go on", 0))
    stage.peers.ending, stage.migration.drained = False, False
    assert stage.stop.go_on(late_ms - 1) == ([], None)
    assert stage.stop.go_on(late_ms) == ([], UNANSWERED)
    stage.migration.charge = "it refuses /a"
    refused = "stopped; changes may be missing in ZooKeeper: it refuses /a"
    assert stage.stop.go_on(late_ms) == ([], End(refused, 1))
    stage.migration.drained, stage.migration.closing = True, True
    assert stage.stop.go_on(late_ms - 1) == ([GOODBYE], None)
    assert stage.stop.go_on(late_ms)[1] == End("stopped; the other voters go on", 0)


@pytest.mark.parametrize(
    ("state", "driver", "charge", "end"),
    [
        (MigrationState.MIGRATION, True, "", End("everything committed is in ZooKeeper", 0)),
        (
            MigrationState.MIGRATION,
            True,
            "deposed",
            End("stopped; changes may be missing in ZooKeeper: deposed", 1),
        ),
        (MigrationState.MIGRATION, False, "deposed", End("stopped", 0)),
        (MigrationState.PRE_MIGRATION, True, "deposed", End("stopped", 0)),
        (MigrationState.POST_MIGRATION, False, "", End("stopped", 0)),
    ],
)
def test_the_end_of_a_single_voter(
    state: MigrationState, driver: bool, charge: str, end: End
) -> None:
    stage = Stage(voters=1, state=state)
    stage.migration.charge = charge
    if not driver:
        stage.migration.driver = None
    stage.stop.begin(T)
    assert stage.stop.go_on(T) == ([GOODBYE], end)
