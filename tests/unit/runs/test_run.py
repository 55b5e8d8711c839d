"""Rows are taken once, a row that fails does not end the run, an interrupted run goes on."""

import os
import signal
import subprocess
import sys

import pytest
from kazoo.exceptions import KazooException, NoAuthError
from kazoo.handlers.threading import KazooTimeoutError

from bench import __main__ as program
from bench.__main__ import SCENARIOS, Part, parts, play
from bench.runs import code
from bench.runs import run as runner
from bench.runs.reading import HOME
from bench.runs.row import BenchRow
from bench.runs.scenario import Case, planned
from bench.runs.store import Store
from emulator.servers.process import ProcessError
from emulator.servers.waiting import wait_for
from tests.unit.runs.kit import one, row, scenario
from wire.errors import DecodeError


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "run")


def played(monkeypatch, store, plan, take):
    taken, said = [], []

    def taking(each, _store, _patience, _say):
        taken.append(each.run_id)
        return take(each)

    monkeypatch.setattr(runner.stage, "take", taking)
    rows = runner.run(plan, store, patience_s=0, command="me", print_line=said.append)
    return rows, taken, said


def plan_of_two(targets=("kraft-bridge", "kafka")):
    cases = (Case("a", rate=1, count=1), Case("b", rate=1, count=1))
    return planned(scenario(*cases), targets, 1)


def test_rows_that_are_there_are_not_taken_again(monkeypatch, store):
    plan = plan_of_two()
    rows, taken, _ = played(monkeypatch, store, plan[:2], BenchRow.of)
    assert len(rows) == len(taken) == 2
    assert rows[0].command == "me"
    rows, taken, said = played(monkeypatch, store, plan, BenchRow.of)
    assert len(rows) == 4
    assert taken == [each.run_id for each in plan[2:]]
    assert sum("is there" in line for line in said) == 2


def test_a_row_that_fails_is_tried_twice_and_the_others_go_on(monkeypatch, store):
    plan = plan_of_two()

    def take(each):
        if each.target == "kafka" and each.case.name == "a":
            raise ProcessError("it ended\nlog line")
        return BenchRow.of(each)

    rows, taken, said = played(monkeypatch, store, plan, take)
    assert [found.run_id for found in rows] == [
        each.run_id for each in plan if (each.target, each.case.name) != ("kafka", "a")
    ]
    assert taken.count("storm.a.kafka.r1") == 2
    assert any(line.startswith("FAILED storm.a.kafka.r1: it ended") for line in said)
    rows, taken, _ = played(monkeypatch, store, plan, BenchRow.of)
    assert taken == ["storm.a.kafka.r1"]
    assert len(rows) == 4


@pytest.mark.parametrize(
    "error",
    [
        KazooException(),
        KazooTimeoutError("no ZooKeeper"),
        NoAuthError(),
        DecodeError("Metadata", 1, "", 4, "cut off"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_zookeeper_or_a_controller_that_fails_costs_one_row_only(monkeypatch, store, error):
    plan = plan_of_two()

    def take(each):
        if each is plan[0]:
            raise error
        return BenchRow.of(each)

    rows, taken, said = played(monkeypatch, store, plan, take)
    assert len(rows) == 3
    assert taken.count(plan[0].run_id) == 2
    why = str(error) or type(error).__name__
    assert f"{plan[0].run_id}: once more, because: {why}" in said
    assert f"FAILED {plan[0].run_id}: {why}" in said


def test_a_row_taken_while_the_source_code_changed_is_void(monkeypatch, store):
    plan = plan_of_two()
    monkeypatch.setattr(runner, "code_now", lambda: "changed")
    rows, _, _ = played(monkeypatch, store, plan[:1], BenchRow.of)
    assert "the source code was changed" in rows[0].void


def test_a_short_measurement_does_not_stand_for_the_long_one():
    done = [
        {part.name: part.done for part in parts(quick=quick, scenario=None, any_code=False)}
        for quick in (True, False)
    ]
    assert done[0]["request path"] != done[1]["request path"]


def test_what_decides_the_flags_of_kafka_is_part_of_the_code(tmp_path, monkeypatch):
    monkeypatch.setattr(code, "_ROOT", tmp_path)
    file = tmp_path / "emulator" / "servers" / "kafka.py"
    file.parent.mkdir(parents=True)
    found = {code.code_now()}
    for text in ("1", "2"):
        file.write_text(text)
        found.add(code.code_now())
    assert len(found) == 3


def test_another_build_of_python_takes_rows_of_its_own(monkeypatch):
    before = code.code_now()
    monkeypatch.setattr(code.sys, "version", "3.11.2 (another one)")
    assert code.code_now() != before


def test_an_interrupted_run_keeps_what_it_has(monkeypatch, store):
    plan = plan_of_two()

    def take(each):
        if each is plan[2]:
            raise KeyboardInterrupt
        return BenchRow.of(each)

    with pytest.raises(KeyboardInterrupt):
        played(monkeypatch, store, plan, take)
    assert len(store.rows()) == 2
    assert (store.folder / "rows.parquet").exists()


def test_rows_of_other_code_are_taken_again_unless_wanted(store):
    old = row()
    old.code = "other"
    store.keep(old)
    assert store.taken(one()) is None
    assert store.rows() == []
    lenient = Store(store.folder, any_code=True)
    assert lenient.taken(one()) is not None
    assert len(lenient.rows()) == 1


def test_make_bench_knows_every_scenario():
    assert {path.stem for path in HOME.glob("*.toml")} == {*SCENARIOS, "tiny"}


def test_a_part_that_is_done_is_not_done_again(tmp_path):
    found = [
        Part("a", ("a",), tmp_path / "out" / "a.done"),
        Part("b", ("b",), tmp_path / "out" / "b.done"),
        Part("c", ("c",)),
    ]
    ran = []

    def run(command):
        ran.append(command[1])
        return int(command[1] == "b" and ran.count("b") == 1)

    assert play(found, run) == 1
    assert play(found, run) == 0
    assert ran == ["a", "b", "c", "b", "c"]


def test_the_report_is_of_all_scenarios_that_have_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(program, "OUT", tmp_path)
    assert program.report(SCENARIOS) is None
    for name in ("knee", "freeze"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows.parquet").touch()
    found = program.report(SCENARIOS).arguments
    assert found[3:] == (
        *(str(tmp_path / "knee"), str(tmp_path / "freeze")),
        *("--out", str(tmp_path / "report")),
    )


def test_quick_and_one_scenario():
    quick = parts(quick=True, scenario=None, any_code=False)
    assert [part.name for part in quick] == ["scenarios", "request path", "codec"]
    assert "--quick" in quick[0].arguments
    [alone] = parts(quick=False, scenario="knee", any_code=True)
    assert alone.arguments[-6:] == ("knee", "--repeat", "5", "--out", "out/bench", "--any-code")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_program_begins_ends_it(monkeypatch, number):
    """Popen itself may be interrupted once the child is there: nothing would know of it."""
    begin, begun = subprocess.Popen, []

    def interrupted(command):
        begun.append(begin(command))
        signal.raise_signal(number)
        return begun[0]

    before = {one: signal.getsignal(one) for one in program._ENDING}
    monkeypatch.setattr(program.subprocess, "Popen", interrupted)
    monkeypatch.setattr(program, "_CTRL_C_S", 0.1)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        program.end_on_terminate()
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            program.run([sys.executable, "-c", "import signal; signal.pause()"])
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    assert begun[0].poll() is not None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_ends_the_program_of_all_ends_the_one_that_runs(tmp_path, number):
    """It had gone on to measure, and held the lock of the folder."""
    inner = tmp_path / "inner.py"
    inner.write_text(
        "import os, signal, sys\n"
        f"signal.signal(signal.SIGTERM, lambda *_: open({str(tmp_path / 'asked')!r}, 'w'))\n"
        "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(3))\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(f'{{os.getpid()}} ')\n"
        "while True: signal.pause()\n"
    )
    outer = (
        "import signal, sys\nfrom bench import __main__ as program\n"
        # A shell that starts this in the background lets all below it ignore Ctrl-C.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "program.end_on_terminate()\n"
        "program._CTRL_C_S = 0.1\n"
        f"program.run([sys.executable, {str(inner)!r}])\n"
    )
    with subprocess.Popen([sys.executable, "-c", outer], stderr=subprocess.DEVNULL) as process:
        started = tmp_path / "pid"
        wait_for("start", lambda: started.exists() and started.read_text().endswith(" "))
        process.send_signal(number)
        pid = int(started.read_text())
        try:
            wait_for("the request to end", (tmp_path / "asked").exists)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.3)
        finally:
            os.kill(pid, signal.SIGUSR1)
        process.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
