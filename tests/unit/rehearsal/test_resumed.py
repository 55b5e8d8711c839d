"""An interrupted rehearsal goes on with its phase, given the same; whatever else is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from bench.rehearsal.evidence import FILE, Evidence, NotInterruptedError, interrupted, verified
from bench.rehearsal.made import document
from bench.rehearsal.phases import PHASES, RehearsedPhase, Standing
from bench.rehearsal.plan import BrokerMode
from bench.rehearsal.run import play
from bench.rehearsal.verdict import FAILED, REHEARSED, PhaseFigures, Rehearsal
from bench.verbs import resumed
from bench.verbs.rehearsed_inputs import Given, Prepared, prepared
from tests.unit.rehearsal.test_phases import IDS, SHORT, Recorded

NAMES = [one.name for one in PHASES]


def ready(folder: Path, **more: Any) -> Prepared:
    """What is given for a small cluster."""
    dump = folder / "tree.json"
    tree = document(topics=2, partitions=2, brokers=3)
    dump.write_text(json.dumps(tree))
    return prepared(Given(str(dump), tree, **more))


def left(folder: Path, found: Prepared, done: int, **change: Any) -> Path:
    """What a rehearsal of it leaves that was interrupted behind so many phases."""
    run = folder / "run"
    run.mkdir()
    evidence = Evidence(run)
    rehearsal = found.found
    evidence.add(
        "begin",
        phases=NAMES,
        load_per_s=rehearsal.load_per_s,
        brokers=[*rehearsal.brokers],
    )
    for name, digest in found.digests.items():
        evidence.add("input", name=name, sha256=digest)
    for number, one in enumerate(PHASES[:done]):
        figures = PhaseFigures(one.name, one.did, REHEARSED, begin_s=number, end_s=number + 0.5)
        evidence.add("phase", **asdict(figures) | change)
    evidence.add("reason", of="change", text="CreateTopics: X, 1 times")
    evidence.close()
    return run


@pytest.mark.parametrize("done", range(len(PHASES)))
def test_what_was_rehearsed_is_known_and_the_next_phase_is_begun_again(
    done: int, tmp_path: Path
) -> None:
    run = left(tmp_path, ready(tmp_path), done)
    given = ready(tmp_path)
    going_on = resumed.read(run, given)
    assert going_on.folder == run
    assert [one.phase for one in given.found.phases] == NAMES[:done]
    assert given.found.lost == ["CreateTopics: X, 1 times"]
    assert given.found.resumed == 1
    assert f"interrupted in '{NAMES[done]}'" in given.found.assumed[-1]
    assert f"--resume {run}" in resumed.advice(run, given)


def test_a_run_of_which_only_the_end_is_missing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = left(tmp_path, ready(tmp_path), len(PHASES))
    refused(run, ready(tmp_path), "every phase was rehearsed", capsys)


def refused(
    run: Path, given: Prepared, said: str, capsys: pytest.CaptureFixture[str], code: int = 2
) -> None:
    with pytest.raises(typer.Exit) as ended:
        resumed.read(run, given)
    assert ended.value.exit_code == code
    assert said in capsys.readouterr().err


def other_tree(folder: Path) -> Prepared:
    found = ready(folder)
    tree = document(topics=3, partitions=2, brokers=3)
    (folder / "tree.json").write_text(json.dumps(tree))
    return prepared(Given(str(folder / "tree.json"), tree, load=found.found.load_per_s))


OTHERS: dict[str, tuple[Callable[[Path], Prepared], str]] = {
    "another tree": (other_tree, "is for the same inputs, and "),
    "another load": (lambda one: ready(one, load=7.0), "is for the same --load and --release"),
    "another release": (lambda one: ready(one, release="3.8"), "for the same --load and --release"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_other_inputs_are_refused(
    other: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = left(tmp_path, ready(tmp_path), 3)
    make, said = OTHERS[other]
    refused(run, make(tmp_path), said, capsys)


def test_what_is_no_interrupted_rehearsal_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ready(tmp_path)
    refused(tmp_path, given, "is not the folder of a rehearsal", capsys)
    run = left(tmp_path, given, 3, state=FAILED)
    refused(run, given, "a phase failed", capsys)
    text = (run / FILE).read_bytes()
    (run / FILE).write_bytes(text.replace(b"orders", b"Orders", 1).replace(b"begin", b"Begin", 1))
    refused(run, given, "was changed", capsys)
    (run / FILE).write_bytes(b"")
    refused(run, given, "it does not begin as it should", capsys)
    (run / FILE).write_bytes(text)
    evidence = Evidence(run, resumed=interrupted(run).hash)
    evidence.add("end", verdict="no-go")
    evidence.close()
    refused(run, given, "came to its end", capsys)


def test_a_row_that_was_cut_is_taken_away_and_the_chain_goes_on(tmp_path: Path) -> None:
    evidence = Evidence(tmp_path)
    evidence.add("begin", phases=["a"])
    evidence.add("phase", phase="a", state=REHEARSED)
    evidence.close()
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'0123 {"kind":')
    evidence = Evidence(tmp_path, resumed=interrupted(tmp_path).hash)
    evidence.add("resumed", at=0.0)
    evidence.add("end", verdict="go")
    evidence.close()
    found = verified(tmp_path, evidence.hash)
    assert (found.problems, found.verdict, found.rows) == ([], "go", 4)
    with pytest.raises(NotInterruptedError, match="came to its end"):
        interrupted(tmp_path)


def test_what_another_rehearsal_writes_is_left_as_it_is(tmp_path: Path) -> None:
    running = Evidence(tmp_path)
    running.add("begin", phases=["a"])
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'0123 {"kind":')  # so much of a row is on its way
    held = (tmp_path / FILE).read_bytes()
    for go_on in (lambda: interrupted(tmp_path), lambda: Evidence(tmp_path, resumed=running.hash)):
        with pytest.raises(NotInterruptedError, match="another rehearsal writes it"):
            go_on()
        assert (tmp_path / FILE).read_bytes() == held
    running.close()


def test_two_that_go_on_at_once_do_not_both_do(tmp_path: Path) -> None:
    first = Evidence(tmp_path)
    first.add("begin", phases=["a"])
    first.close()
    seen = interrupted(tmp_path).hash
    other = Evidence(tmp_path, resumed=seen)
    other.add("resumed", at=0.0)
    other.close()
    held = (tmp_path / FILE).read_bytes()
    with pytest.raises(NotInterruptedError, match="another rehearsal has written it"):
        Evidence(tmp_path, resumed=seen)
    assert (tmp_path / FILE).read_bytes() == held


class Left(Recorded):
    """A stage on what an earlier run has left."""

    def __init__(self) -> None:
        super().__init__()
        self.client = self
        self.quorum = self
        self.nodes = {3000: SimpleNamespace(zk="here", extra={}, url="http://x")}
        self.sessions = 2

    def reload(self, _count: int) -> None:
        self.asked.append("reload")

    def keep_quorum(self, attempt: int) -> None:
        self.asked.append(f"quorum {attempt}")

    def start_quorum(self) -> None:
        self.asked.append("start")

    def kill(self, number: int) -> None:
        self.asked.append(f"kill {number}")

    def exists(self, path: str) -> object:
        self.sessions -= 1
        return path if self.sessions > 0 else None


@pytest.mark.parametrize(
    ("standing", "quorum"),
    [
        (Standing(BrokerMode.MIGRATION), ["quorum 1", "start"]),
        (Standing(BrokerMode.KRAFT, attempt=2), ["quorum 2", "start"]),
        (Standing(BrokerMode.ZOOKEEPER, attempt=0, ruled=False), []),
        (Standing(BrokerMode.ZOOKEEPER, ruled=False), ["quorum 1"]),
        (Standing(BrokerMode.KRAFT, attempt=2, held=True), ["quorum 2", "start"]),
    ],
)
def test_everything_is_started_as_it_stood_and_time_goes_on(
    standing: Standing, quorum: list[str], tmp_path: Path
) -> None:
    stage, found = Left(), Rehearsal("tree.json", 1, 2, 1.0)
    found.phases = [PhaseFigures("first", "a", REHEARSED, begin_s=0.0, end_s=50.0)]
    table = [
        RehearsedPhase("first", "a", lambda _play: None, SHORT),
        RehearsedPhase("second", "b", lambda one: one.note("played"), SHORT, standing),
    ]
    evidence = Evidence(tmp_path)
    lines: list[str] = []
    play(stage, [], found, evidence, lines.append, phases=table)  # type: ignore[arg-type]
    evidence.close()
    assert stage.asked[: 1 + len(quorum) + 3] == [
        "reload",
        *quorum,
        *(f"begin {one} {standing.mode.name}" for one in IDS),
    ]
    assert [one.state for one in found.phases] == [REHEARSED, REHEARSED], found.phases[1].why
    assert found.phases[1].begin_s is not None
    assert found.phases[1].begin_s >= 50.0
    assert "played" in lines
    (node,) = stage.nodes.values()
    assert (node.zk is None) is standing.held


def test_behind_the_command_of_a_rollback_no_controller_and_no_broker_is_started(
    tmp_path: Path,
) -> None:
    stage, found = Left(), Rehearsal("tree.json", 1, 2, 1.0)
    stage.rolled_back = True
    found.phases = [PhaseFigures("first", "a", REHEARSED, begin_s=0.0, end_s=50.0)]
    (behind,) = [one for one in PHASES if one.name == "rollback"]
    table = [RehearsedPhase("first", "a", lambda _play: None, SHORT), behind]
    evidence = Evidence(tmp_path)
    play(stage, [], found, evidence, str, phases=table)  # type: ignore[arg-type]
    evidence.close()
    begun = [f"begin {one} ZOOKEEPER" for one in IDS]
    killed = [f"kill {one}" for one in IDS]
    assert stage.asked == ["reload", "quorum 1", *killed, *begun]
    assert [one.state for one in found.phases] == [REHEARSED, REHEARSED], found.phases[1].why


def test_a_tree_that_was_read_is_kept_and_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = document(topics=1, partitions=1, brokers=1)
    resumed.keep_tree(tmp_path, tree)
    assert resumed.kept_tree(tmp_path, "zk1:2181/kafka", []) == ("zk1:2181/kafka", tree)
    (tmp_path / resumed.TREE).unlink()
    with pytest.raises(typer.Exit):
        resumed.kept_tree(tmp_path, "zk1:2181/kafka", [])
    assert "rehearse anew" in capsys.readouterr().err
