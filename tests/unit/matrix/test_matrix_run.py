"""A step that fails ends its release: what follows is told, and so is what it left behind."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import pytest
from kazoo.exceptions import NoNodeError

from bench import record
from bench.load.cluster_api import RefusedError
from bench.matrix import __main__ as command
from bench.matrix import controllers, known, run
from bench.matrix.leftovers import Standing
from bench.matrix.stage import Stage, WrongError
from emulator.servers.process import ProcessError, ServerProcess, running

NEWEST, OLDEST = "3.9.2", "3.4.1"
QUIET = {f"broker {n}": "in ZooKeeper mode" for n in range(3)}


class FakeStage:
    """What `run.play` needs of a `Stage`, without servers."""

    made: list[FakeStage]

    def __init__(self, release: str, _begin: object, folder: Path, *_: object) -> None:
        self.release, self.folder = release, folder
        self.kept: dict[str, Any] = {}
        self.cluster = SimpleNamespace(brokers=[])
        self.paths = {"/brokers/topics", "/brokers/topics/old", "/controller"}
        self.brokers = dict(QUIET)
        self.differ: list[str] = []
        self.taken: list[str] = []
        self.made.append(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def standing(self) -> Standing:
        return Standing(frozenset(self.paths), dict(self.brokers))

    def differences(self) -> list[str]:
        return list(self.differ)


def fails(error: Exception, **left: Any) -> Any:
    """A step that changes the cluster and then raises."""

    def step(stage: FakeStage) -> None:
        stage.taken.append("failing")
        stage.paths |= left.get("paths", set())
        stage.brokers |= left.get("brokers", {})
        stage.differ += left.get("differ", [])
        raise error

    return step


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Every step of the matrix, green; a test plants others."""
    planted = {name: (lambda stage, name=name: stage.taken.append(name)) for name in run.STEPS}
    FakeStage.made = []
    monkeypatch.setattr(run, "Stage", FakeStage)
    monkeypatch.setattr(run, "STEPS", planted)
    monkeypatch.setattr(run, "CLASSES", ())
    return planted


def play(release: str = NEWEST) -> tuple[dict[str, run.Cell], list[str]]:
    said: list[str] = []
    done = run.play(release, "ours", Path("unused"), host=SimpleNamespace(), print_line=said.append)
    assert [cell.step for cell in done.cells] == list(run.STEPS)
    return {cell.step: cell for cell in done.cells}, said


def states(cells: dict[str, run.Cell]) -> Counter[str]:
    return Counter(cell.state for cell in cells.values())


def test_every_step_is_taken_where_none_fails(steps: dict[str, Any]) -> None:
    cells, said = play()
    assert states(cells) == {run.GREEN: len(steps)}
    assert FakeStage.made[0].taken == list(steps)
    assert FakeStage.made[0].kept["green"] == set(steps)
    assert len(said) == len(steps)


@pytest.mark.parametrize("step", run.STEPS)
def test_what_follows_a_red_step_is_not_run_and_told(steps: dict[str, Any], step: str) -> None:
    steps[step] = fails(WrongError("planted"))
    cells, said = play()
    before, after = (
        list(steps)[: list(steps).index(step)],
        list(steps)[list(steps).index(step) + 1 :],
    )
    assert [cells[name].state for name in before] == [run.GREEN] * len(before)
    assert (cells[step].state, cells[step].why) == (run.RED, "WrongError: planted")
    for name in after:
        assert (cells[name].state, cells[name].why) == (
            run.NOT_RUN,
            f"not run: {step} before it failed",
        )
        assert f"{NEWEST} on ours, {name}: not run: {step} before it failed" in said
    assert FakeStage.made[0].taken == [*before, "failing"]


def test_what_a_release_does_not_have_is_no_flaw_and_forgives_none(steps: dict[str, Any]) -> None:
    cells, _ = play(OLDEST)
    assert {name for name, cell in cells.items() if cell.state == run.NOT_APPLICABLE} == {
        step for release, step in known.NOT_APPLICABLE if release == OLDEST
    }
    assert states(cells)[run.GREEN] == len(steps) - states(cells)[run.NOT_APPLICABLE]
    steps["topics"] = fails(WrongError("planted"))
    cells, _ = play(OLDEST)
    assert cells["SCRAM"].state == run.NOT_APPLICABLE
    assert cells["finalise"].state == run.NOT_RUN


def test_what_a_red_step_left_behind_is_told(steps: dict[str, Any]) -> None:
    """One flaw is one red cell, with the topic, the znode, the broker and the difference."""
    steps["topics"] = fails(
        RefusedError("no"),
        paths={
            "/brokers/topics/made",
            "/brokers/topics/made/partitions",
            "/config/topics/made",
            "/admin/reassign_partitions",
            "/config/changes/config_change_0000000001",
        },
        brokers={"broker 2": "ended"},
        differ=["topic made: only in ZooKeeper"],
    )
    cells, said = play()
    assert states(cells)[run.RED] == 1
    left = cells["topics"].left
    assert left == (
        "topics more: made; znodes more: /admin/reassign_partitions; broker 2 ended; "
        "the stores differ: topic made: only in ZooKeeper"
    )
    assert any(line.endswith(f"left behind: {left}") for line in said)


def test_a_red_step_that_left_nothing_says_so(steps: dict[str, Any]) -> None:
    steps["topics"] = fails(WrongError("planted"))
    assert play()[0]["topics"].left == "nothing"


def test_stores_that_cannot_be_read_are_told(
    steps: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(_stage: FakeStage) -> list[str]:
        raise WrongError("kafka-dump-log cannot read the log")

    monkeypatch.setattr(FakeStage, "differences", unread)
    steps["topics"] = fails(WrongError("planted"))
    assert "cannot be compared: WrongError: kafka-dump-log" in play()[0]["topics"].left


@pytest.mark.parametrize("step", ["copy", "finalise"])
def test_a_process_left_behind_is_ended_and_told(
    steps: dict[str, Any], tmp_path: Path, step: str
) -> None:
    mine = ServerProcess("mine", tmp_path).launch(["sleep", "60"])
    try:
        left = ServerProcess("forgotten", tmp_path)
        steps[step] = lambda _stage: left.launch(["sleep", "60"])
        _, said = play()
        assert not left.alive
        assert mine in running()
        assert any(f"forgotten {left.pid} was left behind" in line for line in said)
    finally:
        mine.kill()


def test_an_old_cluster_that_takes_no_data_is_no_red_cell(
    steps: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has been asked of a controller yet."""
    seed = SimpleNamespace(name="quotas", seed=fails(WrongError("planted")))
    monkeypatch.setattr(run, "CLASSES", (seed,))
    with pytest.raises(ProcessError, match=r"3\.9\.2 in ZooKeeper mode: what quotas begins with"):
        play()
    assert steps


class FakeHost:
    """Kafka's tools, which no planted step asks."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def matrix(
    steps: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """``python -m bench.matrix`` with arguments: exit code, table, progress."""
    monkeypatch.setattr(command, "ToolHost", FakeHost)
    monkeypatch.setattr(command, "interrupt_on_terminate", lambda: None)
    monkeypatch.delenv(record.VARIABLE, raising=False)

    def invoke(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bench.matrix", *arguments])
        code = command.main()
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    assert steps
    return invoke


def test_the_whole_matrix_is_good_if_every_cell_is_green_or_listed(matrix: Any) -> None:
    code, table, _ = matrix()
    assert code == 0
    assert table.count("n/a |") == len(known.NOT_APPLICABLE)


def test_a_red_step_counts_and_so_does_each_that_was_not_run(
    matrix: Any, steps: dict[str, Any]
) -> None:
    steps["reassignment"] = fails(WrongError("planted"))
    code, table, _ = matrix("--release", NEWEST)
    assert code == 1
    # Kafka's own controller fails for the same reason: what follows stays unproven all the same.
    assert "| reassignment | Kafka's (Kafka: red) |" in table
    after = list(steps)[list(steps).index("reassignment") + 1 :]
    for step in after:
        assert f"| {step} | not run" in table
    assert f"- {NEWEST}, ours: not run: reassignment before it failed: {', '.join(after)}" in table
    assert f"- {NEWEST} reassignment, ours: WrongError: planted; left behind: nothing" in table


def test_the_last_step_red_for_kafkas_reason_is_no_flaw_of_ours(
    matrix: Any, steps: dict[str, Any]
) -> None:
    steps["finalise"] = fails(WrongError("planted"))
    assert matrix("--release", NEWEST)[0] == 0


def test_a_step_that_pleads_not_to_apply_is_red(
    matrix: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        run, "not_known", lambda _r, step: "too hard" if step == "rollback" else None
    )
    code, table, _ = matrix("--release", NEWEST)
    assert code == 1
    assert "| rollback | RED |" in table
    assert f"- {NEWEST} rollback, ours: n/a, which no table says of this release: too hard" in table


def test_a_step_that_is_left_out_is_missed(matrix: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    some = [name for name in run.STEPS if name != "rollback"]
    monkeypatch.setattr(run, "steps_of", lambda _only: some)
    code, table, _ = matrix("--release", NEWEST)
    assert code == 1
    assert "| rollback | missing |" in table


class Tree:
    """A ZooKeeper of three znodes, one of which is deleted while it is listed."""

    LISTS: ClassVar = {"/": ["a", "b"], "/a": ["c"], "/a/c": []}

    def get_children(self, path: str) -> list[str]:
        if path not in self.LISTS:
            raise NoNodeError
        return self.LISTS[path]


def test_a_stage_says_how_it_stands(tmp_path: Path) -> None:
    stage = Stage(NEWEST, controllers.ours, tmp_path, secured=False, host=SimpleNamespace())
    stage.zk = SimpleNamespace(alive=True)
    stage.look = Tree()
    brokers = [
        SimpleNamespace(id=0, alive=True, zk="h"),
        SimpleNamespace(id=1, alive=True, zk=None),
        SimpleNamespace(id=2, alive=False, zk="h"),
    ]
    stage.cluster = SimpleNamespace(brokers=brokers)
    found = stage.standing()
    assert found.paths == {"/", "/a", "/a/c"}
    assert list(found.brokers.values()) == ["in ZooKeeper mode", "in KRaft mode", "ended"]
    assert stage.differences() == []
    stage.zk.alive = False
    assert stage.standing().paths is None
