"""The probe: its pace by a clock of the test, and what it leaves in a ZooKeeper on a socket."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NoAuthError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError

from bench.predict import probe
from bench.predict.probe import FOLDER, LEVELS, SHARE, Pace, Probed, ProbeError
from emulator.zookeeper.ops import Create
from tests.kit.joined_zookeeper import ZooKeeperMachine
from tests.unit.commands.socketed_zookeeper import on_a_socket


@dataclass
class Ensemble:
    """Takes its time for each request, by a clock of its own."""

    request_s: float = 0.001
    operation_s: float = 0.00002
    slow_from: int = 10**9
    """From this request on a request takes ten times as long."""
    stalls_at: int = 10**9
    """This request takes 30 s."""
    now_s: float = 0.0
    begins: list[tuple[float, int, float]] = field(default_factory=list)
    """When each began, its operations, its seconds."""

    def write(self, operations: int) -> None:
        took = self.request_s + self.operation_s * operations
        took *= 10 if len(self.begins) >= self.slow_from else 1
        took = 30.0 if len(self.begins) == self.stalls_at else took
        self.begins.append((self.now_s, operations, took))
        self.now_s += took

    def make(self, count: int) -> None:
        self.write(count)

    @property
    def pace(self) -> Pace:
        return Pace(lambda: self.now_s, self.passes)

    def passes(self, seconds: float) -> None:
        self.now_s += seconds


def measured(ensemble: Ensemble) -> Probed:
    found = Probed()
    probe.measure(ensemble, ensemble.pace, found)
    return found


@pytest.mark.parametrize(("request_s", "operation_s"), [(0.001, 0.00002), (0.02, 0.0001)])
def test_it_finds_what_the_ensemble_takes_and_takes_a_twentieth(
    request_s: float, operation_s: float
) -> None:
    ensemble = Ensemble(request_s, operation_s)
    found = measured(ensemble)
    assert found.fitted == (
        pytest.approx(request_s, rel=0.01),
        pytest.approx(operation_s, rel=0.05),
    )
    assert (found.stopped, found.known) == ("", True)
    assert found.written == sum(operations for operations, _ in found.points) + LEVELS[-1]
    firsts = [one for one in ensemble.begins if one[1] == 1][: probe.SAMPLES + 1]
    gaps = [after[0] - one[0] for one, after in itertools.pairwise(firsts)]
    assert min(gaps) >= 1 / probe.FIRST_PER_S - 1e-9
    for one, after in itertools.pairwise(ensemble.begins):
        assert one[2] <= SHARE * (after[0] - one[0]) + 1e-9
    busy_s = sum(one[2] for one in ensemble.begins)
    assert busy_s <= SHARE * ensemble.now_s + 1e-9


def test_it_ends_when_one_operation_takes_twice_as_long() -> None:
    ensemble = Ensemble(slow_from=12)
    found = measured(ensemble)
    assert found.stopped.startswith("at requests of 10 operations: one of 1 took 10.2 ms, not 1.0")
    assert max(operations for _, operations, _ in ensemble.begins) == 10
    assert not found.known


def test_it_ends_after_a_minute_of_a_slow_ensemble() -> None:
    ensemble = Ensemble(request_s=0.5)
    found = measured(ensemble)
    assert found.stopped == f"after {probe.LIMIT_S:g} s"
    assert ensemble.now_s < 2 * probe.LIMIT_S


@pytest.mark.parametrize(("at", "slowest_s"), [(12, 0.001), (13, 30.0), (29, 0.001)])
def test_a_stall_ends_it_and_the_pause_after_it_is_not_nineteen_times_as_long(
    at: int, slowest_s: float
) -> None:
    ensemble = Ensemble(stalls_at=at)
    found = measured(ensemble)
    assert found.stopped.endswith("0 operations: ZooKeeper stalled for 30.0 s")
    assert found.slowest_s == pytest.approx(slowest_s, rel=0.1)
    assert ensemble.now_s < 30 + probe.STALL_S / SHARE + 3
    assert found.fitted == (pytest.approx(0.001, rel=0.1), pytest.approx(0.00002, rel=0.1))


def test_a_pause_follows_each_request_and_the_share_counts_all() -> None:
    ensemble = Ensemble()
    pace, found = ensemble.pace, Probed()
    probe.measure(ensemble, pace, found)
    assert 0.01 < pace.share <= SHARE
    assert pace.busy_s == pytest.approx(sum(one[2] for one in ensemble.begins))


@contextmanager
def zookeeper(*paths: str) -> Iterator[tuple[ZooKeeperMachine, str]]:
    server = ZooKeeperMachine()
    for path in paths:
        server.model.tree.write(Create(path, b""), 1, 0)
    with on_a_socket(server) as hosts:
        yield server, hosts


@contextmanager
def connected(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts=hosts)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> Pace:
    """No pauses."""
    monkeypatch.setattr(probe, "SLOWER", 1e9)
    return Pace(sleep=lambda _seconds: None)


def test_it_leaves_nothing_behind_and_counts_what_it_wrote(fast: Pace) -> None:
    with zookeeper("/kafka", "/kafka/topics") as (server, hosts):
        before = set(server.model.tree.nodes)
        with connected(f"{hosts}/kafka") as client:
            found = probe.probe(client, owned=False, pace=fast)
        assert set(server.model.tree.nodes) == before
        transactions = found.written
    samples = probe.SAMPLES
    # Its folder and the mark of a probe that runs; what was created; what was written over.
    assert transactions == 2 + 400 + samples * (1 + 3 + 10 + 100 + 400)
    assert (found.removed, found.left) == (402, 0)
    assert found.read_s > 0


def test_what_a_killed_probe_left_is_removed_by_the_next(fast: Pace) -> None:
    with zookeeper() as (server, hosts):
        before = set(server.model.tree.nodes)
        with connected(hosts) as client:
            killed = probe.Folder(client, fast, owned=False)
            killed.open(0.0)
            killed.make(17)
            runs = pytest.raises(ProbeError, match="another probe of this ZooKeeper is running")
            with connected(hosts) as other, runs:
                probe.probe(other, owned=False, pace=fast, patience_s=0.0)
        with connected(hosts) as other:
            found = probe.probe(other, owned=False, pace=fast)
        assert (found.left, found.removed) == (18, 401)
        assert set(server.model.tree.nodes) == before


@pytest.mark.parametrize("inside", [False, True])
def test_what_others_made_under_that_name_is_not_touched(fast: Pace, *, inside: bool) -> None:
    with zookeeper() as (server, hosts), connected(hosts) as client:
        client.create(FOLDER, probe.MARK if inside else b"mine")
        if inside:
            client.create(f"{FOLDER}/mine", b"")
        before = set(server.model.tree.nodes)
        why = "mine is not of kraft-bridge" if inside else "was not made by kraft-bridge predict"
        with pytest.raises(ProbeError, match=why):
            probe.probe(client, owned=False, pace=fast)
        assert set(server.model.tree.nodes) == before


@pytest.mark.filterwarnings("ignore:No chroot path")
def test_a_chroot_that_is_not_there_is_not_made(fast: Pace) -> None:
    with zookeeper() as (server, hosts), connected(f"{hosts}/none") as client:
        before = set(server.model.tree.nodes)
        with pytest.raises(ProbeError, match="the chroot /none does not exist"):
            probe.probe(client, owned=False, pace=fast)
        assert set(server.model.tree.nodes) == before


@pytest.mark.parametrize(
    ("error", "why", "lost"),
    [
        (NoAuthError(), "this login may not write", False),
        (ConnectionLoss(), r"does not answer any more \(ConnectionLoss\): nothing is left", True),
    ],
)
def test_what_ends_it_midway_is_said_in_a_sentence(
    fast: Pace, monkeypatch: pytest.MonkeyPatch, error: Exception, why: str, *, lost: bool
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(probe.Folder, "write", fails)
    with zookeeper() as (server, hosts), connected(hosts) as client:
        before = set(server.model.tree.nodes)
        with pytest.raises(ProbeError, match=why) as found:
            probe.probe(client, owned=False, pace=fast)
        assert found.value.lost is lost
        assert set(server.model.tree.nodes) == before


def test_ctrl_c_removes_everything(fast: Pace, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(folder: probe.Folder, _operations: int) -> None:
        folder.make(20)
        raise KeyboardInterrupt

    monkeypatch.setattr(probe.Folder, "write", interrupted)
    with zookeeper() as (server, hosts), connected(hosts) as client:
        before = set(server.model.tree.nodes)
        with pytest.raises(KeyboardInterrupt):
            probe.probe(client, owned=False, pace=fast)
        assert set(server.model.tree.nodes) == before


def test_a_session_that_expired_claims_the_folder_again_unless_another_probe_has_it(
    fast: Pace,
) -> None:
    with zookeeper() as (server, hosts):
        before = set(server.model.tree.nodes)
        with connected(hosts) as first:
            expired = probe.Folder(first, fast, owned=False)
            expired.open(0.0)
            expired.make(3)
        with connected(hosts) as first, connected(hosts) as second:
            expired._client = first
            with pytest.raises(SessionExpiredError):
                expired.write(1)
            other = probe.Folder(second, fast, owned=False)
            assert other.open(0.0) == (1, 4)
            other.make(2)
            theirs = set(server.model.tree.nodes)
            with pytest.raises(ProbeError, match="another probe of this ZooKeeper is running"):
                expired.close()
            assert set(server.model.tree.nodes) == theirs
            other.make(5)
            with connected(hosts) as third:
                other._client = third
                second.stop()
                assert other.close() == 6
        assert set(server.model.tree.nodes) == before


def test_a_zookeeper_that_goes_away_is_said_with_what_is_left(
    fast: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "ANSWER_S", 0.3)
    monkeypatch.setattr(probe, "CLOSE_S", 0.0)
    with ExitStack() as server:
        _, hosts = server.enter_context(zookeeper())
        client = server.enter_context(connected(hosts))

        def gone(_folder: probe.Folder, _operations: int) -> None:
            raise ConnectionLoss

        monkeypatch.setattr(probe.Folder, "write", gone)
        monkeypatch.setattr(probe.Folder, "_keep_claim", lambda folder: gone(folder, 0))
        why = "does not answer any more .*: the next probe removes what is left in /kraft-bridge"
        with pytest.raises(ProbeError, match=why) as found:
            probe.probe(client, owned=False, pace=fast)
        assert found.value.lost


def test_an_answer_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "ANSWER_S", 0.1)
    with zookeeper() as (_, hosts), connected(hosts) as client:
        folder = probe.Folder(client, Pace(), owned=False)
        with pytest.raises(KazooTimeoutError):
            folder._ask(client.handler.async_result)


def test_a_login_that_may_make_the_folder_and_not_remove_it_is_said(
    fast: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = probe.Folder._delete

    def refused(folder: probe.Folder, paths: Sequence[str]) -> None:
        if FOLDER in paths:
            raise NoAuthError
        delete(folder, paths)

    monkeypatch.setattr(probe.Folder, "_delete", refused)
    with zookeeper() as (_, hosts), connected(hosts) as client:
        with pytest.raises(ProbeError, match="; /kraft-bridge-predict is left there"):
            probe.probe(client, owned=False, pace=fast)
        assert client.get_children(FOLDER) == ["running"]
