"""``kraft-bridge predict``: what it prints, and what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.predict import model, probe, trace
from bench.predict.model import Speed, Stall
from bench.predict.probe import Pace, Probed
from emulator.commands.json_forms import FORMS
from emulator.trace.rows import Row
from tests.kit.json_form import never_shown, problems
from tests.unit.commands.running import run
from tests.unit.predict.test_probe import zookeeper
from tests.unit.predict.test_trace import a_copy, write
from tests.unit.predict.virtual import measured

SPEED = Speed(0.02, 0.0002)
TOPIC = '{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","partitions":{"0":[0]}}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows: list[Row] = []
    measured(100, 150, SPEED, 2.6, Stall(0.5, 1.5), rows)
    place = tmp_path_factory.mktemp("trace")
    write(place, rows)
    return place


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    file = tmp_path / "tree.json"
    file.write_text(json.dumps({"nodes": {"/brokers/ids": {"null": True}}}))
    return file


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe without pauses, on a machine on which anything may take long."""
    monkeypatch.setattr(Pace, "asked", _asked)
    monkeypatch.setattr(probe, "SLOWER", 1e9)


def _asked(_pace: Pace, work: Callable[[], object], _least_s: float = 0.0) -> tuple[float, object]:
    return 0.001, work()


def shown(*arguments: object) -> dict[str, object]:
    code, out, error = run("predict", *arguments, "--json")
    assert (code, error) == (0, ""), error
    found: dict[str, object] = json.loads(out)
    assert problems(FORMS["predict"], found) == []
    return found


def test_a_trace_is_predicted_from(folder: Path, dump: Path) -> None:
    found = shown("--trace", folder, "--stall", "1.5", "--dump", dump)
    assert (found["source"], found["bound_records"]) == ("trace", 150)
    border = model.border(model.creation(1), 150, SPEED)
    assert found["border_per_s"] == pytest.approx(border, rel=0.1)
    (stall,) = found["stalls"]  # type: ignore[misc]
    assert stall["blocked_ms"] == pytest.approx(900, abs=200)
    assert found["replay"]["blocked_ms"] == pytest.approx(  # type: ignore[index]
        found["trace"]["blocked_ms"],  # type: ignore[index]
        abs=60,
    )
    # The verdict first, then each stall, then one step.
    code, out, _ = run("predict", "--trace", folder, "--bound", "100")
    assert code == 0
    first, _, _, *stalls, _, step = out.splitlines()[:8]
    assert first.startswith(
        "Changes wait for up to 59.6 s in a stall of 60 s of ZooKeeper; none in "
    )
    assert first.endswith("one shorter than about 500 ms (100 changes/s, bound 100).")
    assert [one.partition(" s ")[0].strip() for one in stalls] == ["1", "10", "60"]
    assert re.search(r"after 4\d\d ms", stalls[-1])
    assert step.startswith(f"next: {trace.BOUND_KEY}=14000 lets no change wait in a stall of 60 s;")
    assert "260 changes of controller-3000, run 7" in out
    assert "a change is 2 records and 5 operations on znodes; without a stall waiting begins" in out
    assert "\nin the trace, bound 150: " in out
    assert re.search(r" changes waited, some change for 9\d\d ms; the same .* bound 100: 1", out)
    assert "assumed" not in out
    none = run("predict", "--trace", folder, "--bound", "0")[1]
    assert none.startswith("No change waits for ZooKeeper, as there is no bound (100 changes/s, b")
    # The bound of the next step is enough, and a tenth less is not.
    for bound, waits in ((14_000, False), (11_700, True)):
        again = shown("--trace", folder, "--bound", bound, "--stall", 60)
        assert bool(again["stalls"][0]["operations"]) is waits  # type: ignore[index]


def test_the_copy_of_a_dump_takes_what_a_record_of_the_traces_own_copy_took(tmp_path: Path) -> None:
    rows: list[Row] = []
    measured(20, 0, SPEED, 0.5, None, rows)
    write(tmp_path / "trace", [*a_copy(2_000, read_s=0.5, written_s=1.5), *rows])
    topics = {f"/brokers/topics/t{at}": {"text": TOPIC} for at in range(3)}
    topics |= {"/brokers": {"null": True}, "/brokers/topics": {"null": True}}
    dump = tmp_path / "tree.json"
    dump.write_text(json.dumps({"nodes": topics}))
    found: dict[str, Any] = shown("--trace", tmp_path / "trace", "--dump", dump)
    copy = found["copy"]
    assert copy["records"]
    assert copy["copy_record_us"] == pytest.approx(1_000)
    assert copy["copy_ms"] == pytest.approx(copy["records"])
    assert [one["member"] for one in found["assumed"]] == ["operation_us", "election_ms"]
    # A claim without a copy, as after a failover, says nothing of one.
    write(tmp_path / "later", [*a_copy(200, read_s=0.5, written_s=1.5), *rows])
    found = shown("--trace", tmp_path / "later", "--dump", dump)
    assert "copy_record_us" in {one["member"] for one in found["assumed"]}


@pytest.mark.usefixtures("fast")
def test_a_probe_is_predicted_from(dump: Path) -> None:
    with zookeeper("/kafka") as (server, hosts):
        before = set(server.model.tree.nodes)
        found = shown(
            *("--zookeeper", f"{hosts}/kafka", "--rate", 20, "--yes", "--dump", dump),
            *("--partitions", 3, "--bound", 100),
        )
        assert set(server.model.tree.nodes) == before
        code, out, _ = run("predict", "--zookeeper", hosts, "--rate", 5e3, "--yes", "--stall", 4)
        _, one_broker, _ = run(
            "predict", "--zookeeper", hosts, "--rate", 300, "--yes", "--stall", 1
        )
    assert (found["source"], found["records_per_change"]) == ("probe", 4)
    assert found["request_ms"] == pytest.approx(1, rel=0.01)
    wrote, removed = (found["probe"][f"znodes_{name}"] for name in ("written", "removed"))  # type: ignore[index]
    assert (wrote, removed) == (2 + 400 + 8 * (1 + 3 + 10 + 100 + 400), 402)
    assert never_shown(FORMS["predict"], [found]) >= {"trace.run_id"}
    assumed = {one["member"]: one["value"] for one in found["assumed"]}  # type: ignore[attr-defined]
    assert assumed.pop("copy_record_us") == found["copy"]["copy_record_us"]  # type: ignore[index]
    assert assumed == {"commit_ms": 4.0, "append_ms": 0.6, "election_ms": 2400.0}
    assert code == 0
    assert f"the probe wrote {wrote:,} znodes below /kraft-bridge-predict, in " in out
    assert "; all 402 that it made are removed\n" in out
    assert "without a stall waiting begins at" in out
    assert out.startswith("Changes wait for the controller: it appends at most 1,667/s (5,000 ")
    assert " without end\n" in out
    assert "assumed, not measured: a commit takes 4.0 ms (docs/benchmarks.md); yours is in" in out
    assert "one broker forwards one change at a time: at most 250 changes/s" in out
    assert "\nnext: send changes through several brokers: one forwards at most 250/s" in one_broker


@pytest.mark.usefixtures("fast")
def test_what_was_left_and_an_early_end_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Probed([(1, 0.5)], 0.5, 0.1, 20, 19, "after 60 s", 7)
    monkeypatch.setattr(probe, "probe", lambda *_, **__: found)
    with zookeeper() as (_, hosts):
        code, out, _ = run("predict", "--zookeeper", hosts, "--rate", 20, "--yes")
    assert code == 0
    assert "and 7 of an earlier probe, which was killed\nit stopped after 60 s\n" in out
    assert "assumed, not measured: an operation takes 15.0 µs" in out
    first, *_ = out.splitlines()
    assert first.startswith("No change waits if ZooKeeper stalls for 60 s: that takes a stall of ")
    assert "\nnext: nothing to change; once the controller runs, give --trace with its" in out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "give --trace FOLDER, or --zookeeper host:port to be probed"),
        (("--zookeeper", "h:1"), "a probe shows no arrivals: give --rate"),
        (("--zookeeper", "h:1", "--rate", "5"), "and removes them; add --yes"),
        (("--zookeeper", "h:1/a,h:2/a", "--rate", "5", "--yes"), "is not host:port[,…][/chroot]"),
        (("--zookeeper", "h:1", "--rate", "5", "--run-id", "x"), "--run-id needs --trace"),
        (("--zookeeper", "h:1", "--rate", "nan", "--yes"), "'nan' is no number"),
        (("--trace", "t", "--stall", "0"), "Invalid value for '--stall'"),
        (("--zookeeper", "h:1", "--rate", "1e5", "--yes"), "at most 2,000,000 are played"),
        (("--zookeeper", "h:1", "--rate", "5", "--yes", "-c", "none"), "none: No such file"),
        (("--zookeeper", "h:1", "--rate", "5", "--yes", "--dump", "none"), "--dump: none: No such"),
        (("--trace", "t", "--yes"), "--trace goes without --zookeeper, -c and --yes"),
        (("--trace", "t"), "t: no trace of a controller is there"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_asked(
    arguments: tuple[str, ...], why: str
) -> None:
    code, out, error = run("predict", *arguments)
    assert (code, out) == (2, "")
    assert why in error
    assert error.count("\n") == 1 or "Usage" in error


def test_no_zookeeper_is_code_3() -> None:
    code, _, error = run("predict", "--zookeeper", "127.0.0.1:1", "--rate", 5, "--yes")
    assert code == 3
    assert "127.0.0.1:1: Connection refused" in error


@pytest.mark.filterwarnings("ignore:No chroot path")
def test_what_the_probe_refuses_is_code_1() -> None:
    with zookeeper() as (_, hosts):
        code, _, error = run("predict", "--zookeeper", f"{hosts}/no", "--rate", 5, "--yes")
    assert code == 1
    assert "the chroot /no does not exist" in error
