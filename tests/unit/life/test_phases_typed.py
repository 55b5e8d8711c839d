"""The phases of both lives type every command of the runbook, with a value for each of its words.

The servers are not started: what phases do to them is noted, and what they ask of them is made up.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest

from bench.demo.controllers import IDS, Controllers
from bench.judge.stores import Entities
from bench.life import advised, commands, phases
from bench.life import life as lives
from bench.life.commands import Form, untyped, words
from bench.life.life import Life
from bench.life.stage import Stage
from bench.life.standing import BrokerStanding, Mode, Quorum, Standing
from bench.life.waits import Ruling
from bench.load.admin import AdminResult
from emulator.commands.finalise import judged
from emulator.operations.next_steps import Action, BrokerMode, NextStep, as_json, next_steps
from emulator.servers.machine import Sharing
from tests.kit.status_document import broker, document, ends, quorum, reason, voter

LEADER = IDS[1]
FILES = {each: f"controllers/{each}.properties" for each in IDS}
SAID = {
    Form.PREFLIGHT: "0 blockers",
    Form.ROLLBACK: "DONE: rolled back, from copying: broker 1 holds /controller\n"
    "without a controller: 1,310 ms from the end of the last controller on: 58 ms until "
    "/controller was free, 1,252 ms that the brokers took to elect one",
    Form.RAISE_TO: "Could not upgrade to 22: Local controller 3001 only supports 1 to 21",
}
"""What a command prints, where a phase looks at it."""


class DryLife(Life):
    """A life whose servers are changed on paper."""

    def restart(self, broker, mode, release=None, *, while_stopped=None, when_started=None):
        standing = self.stage.standing
        before = standing.brokers[broker.id]
        standing.brokers[broker.id] = BrokerStanding(mode, release or before.release)
        if when_started is not None:
            when_started()

    def restart_controller(self, number, change, while_stopped=lambda: None):
        while_stopped()

    def same_metadata(self):
        """Nobody can be asked."""


class Paper:
    """What the verbs show of a life on paper, with the advice that they have in such a state."""

    stage: Stage
    final = False

    def document(self, verb, *_options):
        return getattr(self, verb)()

    def preflight(self):
        return {"stage": {"name": "not migrating"}, "next": as_json([NextStep(Action.FORMAT)])}

    def status(self):
        found = self._shown()
        return found | {"next": as_json(next_steps(found, asked=" -c FILES", files=FILES))}

    def _shown(self):
        modes = {each: one.mode for each, one in self.stage.standing.brokers.items()}
        if left := [each for each, mode in modes.items() if mode is Mode.ZOOKEEPER]:
            reasons = [reason("broker_not_registered", str(each)) for each in left]
            return document("pre-migration", waiting=reasons)
        kraft = {each for each, mode in modes.items() if mode is Mode.KRAFT}
        rows = [broker(each, "kraft" if each in kraft else "zookeeper") for each in modes]
        voters = [
            voter(each, migration_flag=each not in self.stage.standing.without_flag) for each in IDS
        ]
        found = document(
            "dual write" if len(kraft) == len(modes) else "hybrid",
            rows,
            node_id=LEADER,
            leader_id=LEADER,
            quorum=quorum(*voters, leader=LEADER),
            finalisation=ends("finalised" if self.final else "migrating"),
        )
        if len(self.stage.standing.without_flag) == len(IDS) and not self.final:
            found["finalisation"] = ends("held", "held", hold=True)
            found["phase"]["ahead"] = "end the hold"
        return found

    def finalise(self):
        found = judged(self._shown(), f" -c {FILES[LEADER]}", own=FILES[LEADER])
        return {"said": found.lines, "next": as_json(found.steps)}

    def rollback(self):
        if kraft := self.stage.in_mode(Mode.KRAFT):
            steps = [_restarted(each, BrokerMode.MIGRATION) for each in kraft]
        elif self.stage.standing.quorum is Quorum.MIGRATING:
            steps = [NextStep(Action.ROLLBACK, command="kraft-bridge rollback -c a.properties")]
        else:
            left = self.stage.in_mode(Mode.MIGRATING)
            steps = [_restarted(each, BrokerMode.ZOOKEEPER) for each in left]
        there = self.stage.standing.quorum is Quorum.MIGRATING
        name = "dual write" if there else "rolled back"
        steps = steps or [NextStep(Action.NOTHING)]
        return {"phase": {"name": name}, "next": as_json(steps)}

    def run(self, _stage, rest):
        self.final |= rest[0] == "finalise"
        return 0, SAID[Form.ROLLBACK] if rest[0] == "rollback" else ""


def _restarted(number, mode):
    return NextStep(Action.RESTART_BROKER, node=number, mode=mode)


@pytest.fixture
def dry(monkeypatch, tmp_path):
    """Makes a life of a release; the second: the forms that were typed, in order."""
    typed = []

    def note(stage, form, *codes, **values):
        words(form, **values)
        typed.append(form)
        return SAID.get(form, "")

    @contextlib.contextmanager
    def held(stage):
        stage.start_quorum()
        yield lambda: None

    paper = Paper()
    monkeypatch.setattr(commands, "run", note)
    monkeypatch.setattr(commands, "document", paper.document)
    monkeypatch.setattr(commands, "_ours", paper.run)
    monkeypatch.setattr(advised, "LOOK_S", 0.0)
    monkeypatch.setattr(Stage, "typed", lambda _, name: typed.append(Form[name]))
    monkeypatch.setattr(phases, "held_copy", held)
    monkeypatch.setattr(Controllers, "start", lambda *_: None)
    monkeypatch.setattr(Controllers, "format", lambda *_: typed.append(Form.FORMAT))
    znode = {"id": "abc", "brokerid": 0, "kraftControllerEpoch": -1}
    monkeypatch.setattr(Stage, "znode", lambda *_: znode)
    monkeypatch.setattr(Stage, "ruling", lambda _: Ruling(someone=True))
    monkeypatch.setattr(Stage, "leader", lambda self: self.controllers.nodes[LEADER])
    monkeypatch.setattr(Stage, "end_zookeeper", lambda _: None)
    monkeypatch.setattr(
        Stage,
        "status",
        lambda _: {
            "node_id": LEADER,
            "finalisation": {"state": "held"},
            "metadata_version": {"level": phases.LEVEL},
        },
    )

    def made(release):
        brokers = {each: BrokerStanding(Mode.ZOOKEEPER, release) for each in range(3)}
        folder = tmp_path / release
        folder.mkdir()
        stage = Stage(folder, Standing(release, "code", brokers))
        paper.stage, paper.final = stage, False
        return DryLife(stage, None, None, None, lambda _line: None)

    return made, typed


def played(dry, release):
    """The phases of a life, with what was typed in each."""
    made, typed = dry
    life, found = made(release), {}
    for phase in phases.phases_from(release):
        before = len(typed)
        phase.act(life)
        found[phase.name] = typed[before:]
    assert life.row.wrong == []
    return found


def test_both_lives_together_type_every_command_of_the_page(dry):
    for release in (phases.NEWEST, phases.OLDEST):
        played(dry, release)
    assert untyped(form.name for form in dry[1]) == []


def test_each_command_is_typed_where_the_page_has_it(dry):
    found = played(dry, phases.OLDEST)
    waits = [Form.WAIT_COPYING, Form.WAIT_DUAL_WRITE]
    assert found["dual-write"] == [Form.PREFLIGHT, *waits, Form.STATUS]
    assert found["rollback"] == [Form.PLAN_ROLLBACK, Form.ROLLBACK]
    assert found["to-kraft"] == found["roll"] == [Form.WAIT_KRAFT]
    assert found["copying"] == [Form.FORMAT, Form.CLEAR, Form.PLAN_ROLLBACK, Form.ROLLBACK]
    assert found["again"][:3] == [Form.FORMAT, Form.CLEAR, Form.PREFLIGHT]
    assert found["finalise"] == [Form.MISSING, Form.WAIT_FINAL]
    assert found["upgrade"] == [Form.RAISE]
    assert found["4.3.0"] == [Form.RAISE_TO]
    found = played(dry, phases.NEWEST)
    assert found["finalise"] == [Form.COMPARE, Form.FINALISE, Form.WAIT_FINAL]
    assert found["to-kraft"] == [Form.COMPARE, Form.WAIT_KRAFT]


@pytest.mark.parametrize(
    ("said", "cut", "wrong"),
    [
        ("1,000 ms until /controller was free", 0, []),
        ("1,001 ms until /controller was free", 0, ["1001 ms"]),
        ("1,001 ms until /controller was free", 1, ["1001 ms"]),
        ("rollback from: rolled back", 0, ["the command does not say"]),
        ("rollback from: rolled back", 1, []),
    ],
)
def test_a_release_that_takes_longer_than_a_second_is_an_error(dry, monkeypatch, said, cut, wrong):
    life = given_back(dry, monkeypatch, said, cut, others=0.1)
    assert life.row.wrong == [f"{FREE} ({one})" for one in wrong]
    assert life.row.unjudged == []


@pytest.mark.parametrize(
    ("said", "wrong", "unjudged"),
    [
        ("1,000 ms until /controller was free", [], []),
        (
            "1,001 ms until /controller was free",
            [],
            ["1001 ms; on this machine other programs used 1.3 of 2 cores, ours 0.5"],
        ),
        ("rollback from: rolled back", ["the command does not say"], []),
    ],
)
def test_on_a_busy_machine_it_is_not_judged(dry, monkeypatch, said, wrong, unjudged):
    life = given_back(dry, monkeypatch, said, 0, others=1.3)
    assert life.row.wrong == [f"{FREE} ({one})" for one in wrong]
    assert life.row.unjudged == [f"{FREE} ({one})" for one in unjudged]


FREE = "/controller was free within a second"


def given_back(dry, monkeypatch, said, cut, *, others):
    """A life after the rollback, beside programs that used so many of two cores."""
    life = dry[0](phases.NEWEST)
    life.row.cut = cut
    sharing = Sharing(2, 0.5, others)
    monkeypatch.setitem(SAID, Form.ROLLBACK, said)
    monkeypatch.setattr(phases, "Shared", lambda: SimpleNamespace(read=lambda: sharing))
    phases._give_back(life)
    return life


@pytest.mark.parametrize("release", [phases.NEWEST, phases.OLDEST])
def test_the_leading_controller_restarts_last(dry, monkeypatch, release):
    order = []
    restart = DryLife.restart_controller

    def noting(self, number, change, while_stopped=lambda: None):
        order.append(number)
        restart(self, number, change, while_stopped)

    monkeypatch.setattr(DryLife, "restart_controller", noting)
    played(dry, release)
    assert sorted(order) == sorted(IDS)
    assert order[-1] == LEADER


def test_the_stores_are_compared_by_the_command_while_there_are_two(dry, monkeypatch):
    made, typed = dry
    life = made(phases.NEWEST)
    life.stage.standing.quorum = Quorum.MIGRATING
    seen = SimpleNamespace(plain=Entities(topics={"a": {}}))
    monkeypatch.setattr(Life, "_migrated", lambda _: True)
    monkeypatch.setattr(Life, "_gauge", lambda _: None)
    monkeypatch.setattr(lives.stores, "agree", lambda _: (seen, []))
    monkeypatch.setattr(lives.stores, "log", lambda _: seen)
    monkeypatch.setattr(lives.books, "unlike", lambda *_: [])
    monkeypatch.setattr(lives.people, "wrong", lambda *_: [])
    life.book = SimpleNamespace(topics={"a": 1}, loads=[AdminResult()], records=list)
    read = SimpleNamespace(
        held=True, acknowledged=1, read=1, missing=[], duplicated=[], out_of_order=[]
    )
    life.clients = SimpleNamespace(verify=lambda _: read)
    life._judge()
    assert typed == [Form.COMPARE]
    assert life.row.wrong == []


def test_a_command_is_noted_when_it_is_typed(monkeypatch, tmp_path):
    monkeypatch.setattr(commands, "_ours", lambda _stage, rest: (0, " ".join(rest)))
    brokers = {each: BrokerStanding(Mode.KRAFT, phases.NEWEST) for each in range(3)}
    stage = Stage(tmp_path, Standing(phases.NEWEST, "code", brokers))
    for _ in range(2):
        assert commands.run(stage, Form.STATUS, FILES=["a", "b"]) == "status -c a b"
    assert stage.standing.typed == ["STATUS"]
    assert Standing.load(stage.state_file).typed == ["STATUS"]
