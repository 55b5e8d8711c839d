"""What a phase does to servers, and when it gives up, on servers that only record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.life.waits import Ruling
from bench.load.admin import AdminResult
from bench.rehearsal import phases
from bench.rehearsal.brokers import BrokerRefusedError
from bench.rehearsal.changes import not_done
from bench.rehearsal.evidence import Evidence, verified
from bench.rehearsal.own import OwnFound, OwnNodes
from bench.rehearsal.phases import Play, RehearsedPhase, Takes
from bench.rehearsal.plan import BrokerMode
from bench.rehearsal.run import play
from bench.rehearsal.stage import ClusterFaultError, StuckError
from bench.rehearsal.verdict import Rehearsal, text
from emulator.servers.process import ProcessError

IDS = [1, 2, 3]
SHORT = Takes(1.0)
KINDS = {BrokerMode.MIGRATION: "zookeeper", BrokerMode.KRAFT: "kraft"}


class Recorded:
    """Brokers and a stage in one: what was asked of them, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.ids = IDS
        self.bootstrap = "127.0.0.1:1"
        self.brokers = self
        self.around = None
        self.own: OwnNodes | None = None
        self.folder = Path("run")
        self.rolled_back = False
        self.controllers = None
        self.blocked = SimpleNamespace(ms=0.0, bound=None, look=lambda *_, **__: None)
        self.modes: dict[int, BrokerMode] = {}
        self.behind = 0
        """Looks until replicas are in sync."""
        self.active = True
        self.waiting: list[dict[str, Any]] = []
        self.refusals: list[dict[str, Any]] = []
        self.never = ""
        """What a broker that does not run says."""
        self.gone = ""
        """Why brokers ended by themselves."""
        self.repairs: list[dict[str, Any]] = []

    # ---- brokers
    def begin(self, number: int, mode: BrokerMode, _around: object) -> None:
        self.asked.append(f"begin {number} {mode.name}")
        self.modes[number] = mode
        self.behind = 3

    def end(self, number: int, _patience_s: float) -> None:
        self.asked.append(f"end {number}")

    def absent(self, _number: int) -> str:
        return self.never

    def ended(self, _number: int) -> str:
        return self.gone

    def short(self) -> int:
        self.behind -= 1
        if self.behind <= 0:
            self.asked.append("whole")
        return max(0, self.behind)

    # ---- stage
    def is_rolled_back(self) -> bool:
        return self.rolled_back

    def load(self, _nodes: object) -> None:
        self.asked.append("load")

    def check_servers(self) -> None:
        pass

    def ruling(self) -> Ruling:
        return Ruling(False)

    def leading(self) -> dict[str, Any] | None:
        return self.status() if self.active else None

    def statuses(self) -> list[dict[str, Any]]:
        return [self.status()]

    def status(self) -> dict[str, Any]:
        return {
            "migration": {
                "driver_state": "DUAL_WRITE",
                "waiting": self.waiting,
                "going_back": {"text": "as before"},
                "repairs": self.repairs,
            },
            "refusals": self.refusals,
            "finalisation": None,
            "brokers": [
                {"id": number, "kind": KINDS.get(mode, ""), "fenced": False}
                for number, mode in self.modes.items()
            ],
        }


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "_POLL_S", 0.0)
    monkeypatch.setattr(phases, "_FATAL_S", 0.0)


def playing(stage: Recorded) -> Play:
    return Play(stage, None, 1.0, lambda _line: None, [], [])  # type: ignore[arg-type]


def test_a_roll_restarts_one_broker_at_a_time_and_waits_until_all_is_in_sync() -> None:
    stage = Recorded()
    phases.to_kraft(playing(stage))
    each = [[f"end {one}", f"begin {one} KRAFT", "whole"] for one in IDS]
    assert stage.asked == [line for some in each for line in some]


@pytest.mark.parametrize(
    "reason",
    [
        {"subject": "/migration", "text": "it stays", "why": "x", "fatal": True},
        {"subject": "/config/topics/a", "text": "it stays", "why": "malformed_znode"},
        {"subject": "9", "text": "it stays"},
        {"subject": "9", "text": "it stays", "why": "offline_replicas"},
    ],
)
def test_a_reason_that_waiting_does_not_remove_ends_the_phase_with_its_text(
    reason: dict[str, Any],
) -> None:
    stage = Recorded()
    other = {"why": "broker_not_registered", "fatal": False}
    stage.waiting = [
        {**other, "subject": "1", "text": "a broker of ours, which comes"},
        {**other, **reason},
    ]
    with pytest.raises(StuckError, match=r"^it stays$"):
        phases._until(playing(stage), "x", lambda _status: False)


@pytest.mark.parametrize("act", [phases.from_kraft, phases.copy])
def test_what_zookeeper_refuses_of_every_controller_ends_the_phase_too(
    act: Callable[[Play], None],
) -> None:
    stage = Recorded()
    stage.active = False
    fatal = {"subject": "/controller_epoch", "text": "it is not there", "fatal": True}
    stage.waiting = [{**fatal, "why": "no_controller_epoch"}]
    with pytest.raises(StuckError, match=r"^it is not there$"):
        act(playing(stage))


def test_it_ends_while_brokers_are_about_to_register_and_not_for_what_a_rollback_leaves() -> None:
    stage = Recorded()
    stage.active, stage.never = False, "no controller answers"
    fatal = {"subject": "/x", "text": "it is not there", "fatal": True}
    stage.waiting = [{**fatal, "why": "no_controller_epoch"}]
    with pytest.raises(StuckError, match=r"^it is not there$"):
        phases.all_run(playing(stage))
    stage.waiting = [{**fatal, "why": "zookeeper_mode_took_over"}]
    hopeless = phases._Hopeless(playing(stage), phases._STAYS_FROM_THE_START)
    for _ in range(3):
        hopeless.look()


def test_a_broker_that_is_refused_again_and_again_ends_the_phase() -> None:
    stage = Recorded()
    stage.never = "it was refused"
    stage.refusals = [
        {"broker": 1, "times": 2, "error": "UNSUPPORTED_VERSION", "text": "t", "remedy": "do r"},
        {"broker": 2, "times": 9, "error": "X", "text": "of another", "remedy": ""},
    ]
    with pytest.raises(StuckError, match="broker 1 is refused: UNSUPPORTED_VERSION: t do r"):
        phases.from_kraft(playing(stage))


def test_nodes_that_are_refused_with_files_of_their_own_are_no_go_and_all_goes_on(
    tmp_path: Path,
) -> None:
    class Own:
        def play(self, _folder: object, _note: object) -> OwnFound:
            return OwnFound(["broker-1: no such role"], ["broker-2: Kerberos"])

    stage, found = Recorded(), Rehearsal("tree.json", 1, 2, 1.0)
    stage.own = Own()
    table = [
        RehearsedPhase("own files", "a", phases.own_files, SHORT),
        RehearsedPhase("second", "b", lambda _play: None, SHORT),
    ]
    evidence = Evidence(tmp_path)
    evidence.add("begin", phases=[one.name for one in table])
    play(stage, [], found, evidence, str, phases=table)  # type: ignore[arg-type]
    evidence.add("end", verdict="no-go")
    evidence.close()
    assert [one.state for one in found.phases] == ["rehearsed", "rehearsed"]
    assert [(one.kind, one.text) for one in found.reasons] == [("node", "broker-1: no such role")]
    assert found.assumed == ["that Kafka's nodes take part with broker-2: Kerberos"]
    assert (verified(tmp_path).verdict, verified(tmp_path).problems) == ("no-go", [])


def raising(error: Exception) -> Callable[[Play], None]:
    def act(_play: Play) -> None:
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "kinds", "in_cluster"),
    [
        (StuckError("stuck\nhere"), ["phase", "phase"], False),
        (ClusterFaultError("stuck here"), ["phase", "phase"], True),
        (ProcessError("stuck here"), ["phase", "phase"], False),
        (TimeoutError("stuck here"), ["phase", "phase"], False),
        (BrokerRefusedError("stuck here"), ["broker", "phase", "phase"], True),
    ],
)
def test_what_is_behind_a_phase_that_failed_is_not_rehearsed(
    error: Exception, kinds: list[str], tmp_path: Path, *, in_cluster: bool
) -> None:
    stage, found, evidence = Recorded(), Rehearsal("tree.json", 1, 2, 1.0), Evidence(tmp_path)
    table = [
        RehearsedPhase("first", "a", lambda one: one.note("played"), SHORT),
        RehearsedPhase("second", "b", raising(error), SHORT),
        RehearsedPhase("third", "c", raising(AssertionError("not to be played")), SHORT),
    ]
    evidence.add("begin", phases=[one.name for one in table])
    lines: list[str] = []
    play(stage, [], found, evidence, lines.append, phases=table)  # type: ignore[arg-type]
    evidence.add("end", verdict="no-go")
    evidence.close()
    states = [(one.phase, one.state, one.why) for one in found.phases]
    assert states == [
        ("first", "rehearsed", ""),
        ("second", "failed", "stuck here"),
        ("third", "not rehearsed", ""),
    ]
    assert [one.kind for one in found.reasons] == kinds
    assert found.in_cluster is in_cluster
    assert found.phases[0].going_back == "as before"
    assert "played" in lines
    assert (verified(tmp_path).verdict, verified(tmp_path).problems) == ("no-go", [])


def test_what_ours_repairs_and_kafkas_controller_does_not_is_named_once(tmp_path: Path) -> None:
    stage, found, evidence = Recorded(), Rehearsal("tree.json", 1, 2, 1.0), Evidence(tmp_path)
    one = {"kind": "full_as_incremental", "broker": 2, "request": "LeaderAndIsr"}
    one |= {"error": "UNKNOWN_SERVER_ERROR", "done": "sent again", "kafka": "would not go on"}
    stage.repairs = [
        one,
        {**one, "kind": "errors"},
        {**one, "kind": "znode_compared", "broker": -1},
    ]
    table = [RehearsedPhase(name, "a", lambda _play: None, SHORT) for name in ("first", "second")]
    evidence.add("begin", phases=[one.name for one in table])
    play(stage, [], found, evidence, str, phases=table)  # type: ignore[arg-type]
    evidence.add("end", verdict="go")
    evidence.close()
    behind = "UNKNOWN_SERVER_ERROR: sent again. Kafka's controller: would not go on"
    assert found.repaired == [
        f"LeaderAndIsr of broker 2 failed: {behind}",
        f"ZooKeeper refused LeaderAndIsr: {behind}",
    ]
    assert found.go
    assert found.repaired[0] in text(found)
    assert (verified(tmp_path).verdict, verified(tmp_path).problems) == ("go", [])


def test_a_broker_that_ends_by_itself_in_a_phase_is_no_go(tmp_path: Path) -> None:
    stage, found = Recorded(), Rehearsal("tree.json", 1, 2, 1.0)

    def ends(_play: Play) -> None:
        stage.gone = "its session is over"

    evidence = Evidence(tmp_path)
    table = [RehearsedPhase("last", "a", ends, SHORT)]
    play(stage, [], found, evidence, str, phases=table)  # type: ignore[arg-type]
    evidence.close()
    assert not found.go
    assert [one.why for one in found.phases] == ["broker 1 ended: its session is over"]


def test_a_change_that_a_second_attempt_found_done_is_not_lost() -> None:
    found = AdminResult()
    found.failed["CreateTopics", "TOPIC_ALREADY_EXISTS"] = 2
    assert not_done(found) == []
    found.failed["CreateTopics", "INVALID_PARTITIONS"] = 1
    found.unsent = 3
    assert not_done(found) == [
        "CreateTopics: INVALID_PARTITIONS, once",
        "3 changes were never sent",
    ]
