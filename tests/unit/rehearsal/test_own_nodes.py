"""When nodes with files of their own are given up: never as a machine is slow, full or taken."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.handlers.threading import KazooTimeoutError
from typing_extensions import override

from bench.verbs import own_nodes
from bench.verbs.own_files import Here, OwnFile
from bench.verbs.own_nodes import STILL, StartedFiles
from emulator.io.serving import BindError
from emulator.servers.process import ProcessError, running
from tests.unit.operations.preflight.clean import clean

LISTENS = {"listeners": "PLAINTEXT://127.0.0.1:20001"}


def status(*, active: bool = True, state: str = "DUAL_WRITE", why: str = "") -> dict[str, Any]:
    waiting = [{"why": why, "subject": "/brokers/ids", "text": why, "fatal": False}]
    migration = {"driver_state": state, "waiting": waiting if why else []}
    return {"active": active, "migration": migration, "refusals": []}


@dataclass
class Controller:
    """Says one thing after the other, the last one for ever."""

    said: list[dict[str, Any] | None]
    alive: bool = True
    file: OwnFile = field(default_factory=lambda: OwnFile("controller", 3000, LISTENS))
    why: str = "it ended"
    exit_code: int = 1
    looks: int = 0

    def tail(self) -> str:
        return self.why

    def status(self) -> dict[str, Any] | None:
        self.looks += 1
        return self.said.pop(0) if len(self.said) > 1 else self.said[0]


@dataclass
class Broker:
    """Registered after so many looks."""

    after: int = 0
    error: Exception | None = None
    file: OwnFile = field(default_factory=lambda: OwnFile("broker-1", 1, LISTENS))
    node_id: int = 1
    ended: bool = False
    text: str = "it says no"
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        self.after -= 1
        return self.after < 0


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_nodes, "_POLL_S", 1e-6)


def around(*, alive: bool = True, silent: int = 0) -> Any:
    """A ZooKeeper that does not answer so often."""
    left = [silent]

    def get(timeout: float) -> None:
        assert timeout > 0
        left[0] -= 1
        if left[0] >= 0:
            raise KazooTimeoutError

    server = SimpleNamespace(alive=alive, exit_code=137, tail=lambda: "no memory")
    client = SimpleNamespace(exists_async=lambda _path: SimpleNamespace(get=get))
    return SimpleNamespace(server=server, client=client)


def started(controllers: Sequence[Controller], brokers: Sequence[Broker] = ()) -> StartedFiles:
    found = StartedFiles(
        clean("plain"), "x", lambda _id: "3.9", [], lambda name, text: f"{name}: {text}"
    )
    found._controllers, found._expected = [*controllers], len(controllers)  # type: ignore[list-item]
    found._brokers = [*brokers]  # type: ignore[list-item]
    found._listen = {"20001": [(1, False)]}
    return found


def settled(one: StartedFiles, zookeeper: Any = None) -> list[str]:
    asyncio.run(one._settle(zookeeper or around()))
    return one._found.refused


def test_controllers_alone_are_given_the_time_to_elect_one() -> None:
    slow = Controller([*[status(active=False)] * (STILL // 2), status()])
    assert settled(started([slow])) == []


def test_without_a_file_of_a_broker_nobody_has_to_be_registered() -> None:
    none = status(state="WAIT_FOR_BROKERS", why="no_brokers")
    one = Controller([status(active=False), none])
    assert settled(started([one])) == []
    assert one.looks < STILL


def test_where_nobody_is_elected_it_is_said_after_so_many_looks() -> None:
    never = Controller([status(active=False)])
    assert settled(started([never])) == [
        "controllers: none leads: they do not find each other, or refuse it"
    ]
    assert never.looks == STILL + 1


@pytest.mark.parametrize("silent", ["a controller", "ZooKeeper"])
def test_a_look_at_which_not_all_answer_does_not_count(silent: str) -> None:
    by_controller = [None] * (3 * STILL) if silent == "a controller" else []
    one = Controller([*by_controller, *[status(active=False)] * (STILL - 1), status()])
    assert settled(started([one]), around(silent=0 if by_controller else 3 * STILL)) == []


def test_what_never_answers_is_no_fault_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_nodes, "PATIENCE_S", 0.05)
    one = started([Controller([None])])
    with pytest.raises(ProcessError, match="gave no answer within"):
        settled(one)
    assert one._found.refused == []


def test_a_zookeeper_that_has_ended_is_no_fault_of_a_file() -> None:
    one = started([Controller([status()])], [Broker(after=10**6)])
    with pytest.raises(ProcessError, match="ZooKeeper ended by itself with 137:\nno memory"):
        settled(one, around(alive=False))
    assert one._found.refused == []


def test_while_brokers_are_only_about_to_register_there_may_be_none() -> None:
    none = status(state="WAIT_FOR_BROKERS", why="no_brokers")
    slow = Controller([*[none] * (STILL // 2), status()])
    assert settled(started([slow], [Broker(after=2 * STILL)])) == []
    never = started([Controller([none])], [Broker(after=10**6)])
    assert settled(never) == ["broker-1: it says no"]


def test_a_reason_that_waiting_does_not_remove_is_believed_soon() -> None:
    other = Controller([status(state="WAIT_FOR_BROKERS", why="other_cluster")])
    found = settled(started([other], [Broker(after=10**6)]))
    assert found == ["broker-1: it says no", "controllers: other_cluster"]
    assert other.looks < STILL


def test_the_timers_of_files_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_nodes, "_POLL_S", 0.2)

    def still(**timers: str) -> int:
        file = OwnFile("a", 1, timers)
        return own_nodes._still(SimpleNamespace(controllers=[file], brokers=[], targets=[]))  # type: ignore[arg-type]

    assert still() == STILL
    assert still(**{"broker.session.timeout.ms": "60000"}) == STILL + 300
    assert still(**{"broker.session.timeout.ms": "9" * 9_999}) == STILL
    assert still(**{"controller.quorum.fetch.timeout.ms": "2000000000"}) == STILL + 4_500


def bound(code: int) -> BindError:
    error = BindError("listeners: PLAINTEXT://127.0.0.1:20001")
    error.__cause__ = OSError(code, os.strerror(code))
    return error


def raised(error: Exception) -> Exception:
    """With a traceback."""

    def act() -> None:
        raise error

    with pytest.raises(type(error)) as found:
        act()
    return found.value


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/x"), "No space left on device"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files"),
        (bound(errno.EADDRINUSE), "its file is not to blame"),
        (KeyError("hunter2"), "KeyError in test_own_nodes.py, line .*: a defect of kraft-bridge"),
    ],
)
def test_what_no_file_is_to_blame_for_is_no_refusal(error: Exception, said: str) -> None:
    one = started([Controller([status()])], [Broker(error=raised(error), ended=True)])
    with pytest.raises(ProcessError, match=said) as found:
        settled(one)
    assert one._found.refused == []
    assert "hunter2" not in str(found.value)


@pytest.mark.parametrize(
    ("code", "why", "said"),
    [
        (-9, "it ended", "controller 3000 ended: signal 9: its file is not to blame"),
        (1, "kraft-bridge: /x: No space left on device", "3000 ended: No space left on device"),
        (1, "kraft-bridge: Too many open files", "3000 ended: Too many open files"),
    ],
)
def test_a_controller_that_the_machine_ended_is_not_refused(code: int, why: str, said: str) -> None:
    ended = Controller([None], alive=False, exit_code=code, why=why)
    one = started([Controller([status()]), Controller([status()]), ended])
    with pytest.raises(ProcessError, match=said):
        settled(one)
    assert one._found.refused == []


@pytest.mark.parametrize("error", [bound(errno.EADDRNOTAVAIL), OSError(errno.EACCES, "no")])
def test_what_a_file_is_to_blame_for_is_one(error: Exception) -> None:
    broker = Broker(after=10**6, error=raised(error), ended=True)
    assert settled(started([Controller([status()])], [broker])) == ["broker-1: it says no"]


def own(name: str, node_id: int, *ports: int) -> OwnFile:
    ends = ",".join(f"L{x}://127.0.0.1:{port}" for x, port in enumerate(ports))
    return OwnFile(name, node_id, {"listeners": ends})


def taken(brokers: Sequence[OwnFile], targets: Sequence[OwnFile], at: OwnFile) -> StartedFiles:
    """One finds a port of its taken."""
    broker = Broker(10**6, raised(bound(errno.EADDRINUSE)), at, ended=True)
    one = started([Controller([status()])], [broker])
    files: Any = SimpleNamespace(controllers=[], brokers=brokers, targets=targets)
    one._listen = own_nodes._listening(files)
    return one


BROKER, OTHER = own("broker-1", 1, 20001), own("broker-2", 2, 20002)
TWICE, TARGET = own("broker-1", 1, 20001, 20001), own("target-1", 1, 20002)


@pytest.mark.parametrize(
    ("brokers", "targets", "at"),
    [
        ([BROKER, own("broker-2", 2, 20001)], [], BROKER),
        ([BROKER, own("again", 1, 20001)], [], BROKER),
        ([TWICE], [], TWICE),
        ([BROKER, OTHER], [TARGET], TARGET),
    ],
    ids=["two brokers", "one id", "two listeners", "a target"],
)
def test_a_port_that_files_have_twice_is_their_fault(
    brokers: list[OwnFile], targets: list[OwnFile], at: OwnFile
) -> None:
    assert settled(taken(brokers, targets, at)) == [f"{at.name}: it says no"]


@pytest.mark.parametrize("port", [20001, 20003])
def test_a_port_that_one_node_alone_has_another_program_took(port: int) -> None:
    target = own("target-1", 1, port)
    with pytest.raises(ProcessError, match="its file is not to blame"):
        settled(taken([BROKER, OTHER], [target], target))


@pytest.mark.parametrize("chroot", ["/a//b", "/a/../b", "/.", "/a\x01b"])
def test_a_chroot_that_no_zookeeper_takes_is_refused(chroot: str) -> None:
    survey = clean("plain")
    files = [
        replace(one, values={**one.values, "zookeeper.connect": f"zk1:2181{chroot}"})
        for one in survey.properties
    ]
    spoilt = replace(survey, properties=files, targets=[])
    assert own_nodes._chroot(spoilt) == ""
    one = StartedFiles(spoilt, "x", lambda _id: "3.9", [], lambda name, text: f"{name}: {text}")
    ports = iter(range(20_000, 60_000))
    here = Here("127.0.0.1:1", Path("/own"), ports, Path("k"), Path("t"))
    refused = one.read(own_nodes.files_of(spoilt, here)).refused
    assert len(refused) == len(files)
    assert all("zookeeper.connect: a name in the chroot" in one for one in refused)


def refusing(error: str, times: int) -> dict[str, Any]:
    one = {"broker": 1, "times": times, "error": error, "text": "why", "remedy": "do"}
    return status() | {"refusals": [one]}


@pytest.mark.parametrize(
    ("error", "times", "said"),
    [
        ("INCONSISTENT_CLUSTER_ID", 1, "it says no"),
        (
            "INCONSISTENT_CLUSTER_ID",
            2,
            "the controller refuses it: INCONSISTENT_CLUSTER_ID: why do",
        ),
        ("DUPLICATE_BROKER_REGISTRATION", 99, "it says no"),
    ],
)
def test_a_refusal_is_believed_the_second_time_unless_it_passes(
    error: str, times: int, said: str
) -> None:
    one = started([Controller([refusing(error, times)])], [Broker(after=10**6)])
    assert settled(one) == [f"broker-1: {said}"]


def test_a_controller_that_ended_is_refused_and_where_too_few_run_no_broker_is() -> None:
    ended = Controller([None], alive=False)
    found = settled(started([Controller([status()]), Controller([status()]), ended]))
    assert found == ["controller: it ended"]
    alone = started([Controller([status(active=False)]), ended], [Broker(after=10**6)])
    assert settled(alone) == ["controller: it ended"]


def test_a_target_needs_its_role() -> None:
    one = started([Controller([status()])])
    asyncio.run(one._roll([OwnFile("target", 1, LISTENS)], around(), copied=True))
    assert one._found.refused == ["target: process.roles=broker is required in KRaft mode"]


def test_nodes_are_started_below_their_chroot() -> None:
    survey = clean("three controllers below a chroot")
    assert own_nodes._chroot(survey) == "/kafka/prod"
    controllers = [one for one in survey.properties if one.is_controller]
    assert own_nodes._chroot(replace(survey, properties=controllers, targets=[])) == "/kafka/prod"


def test_of_two_brokers_with_one_address_the_second_is_refused() -> None:
    ends = {"1": ["A://h:1"], "2": ["A://h:2", "B://h:1"], "3": ["A://live:9"], "4": ["A://h:4"]}

    def answer(value: object) -> Any:
        return SimpleNamespace(get=lambda timeout: value)

    client: Any = SimpleNamespace(
        get_children_async=lambda _path: answer([*ends]),
        get_async=lambda path: answer(
            (json.dumps({"endpoints": ends[path.rpartition("/")[2]]}).encode(), None)
        ),
    )
    one = started([Controller([status()])])
    one._look_at_addresses(client, {"live:9": 7})
    assert [x.partition(":")[0] for x in one._found.refused] == ["2", "3"]


# ---------------------------------------------------------------- what is left behind
class Interrupted(own_nodes._Controller):
    """Ctrl-C is typed while it is formatted."""

    @override
    def format(self, *_: object, **__: object) -> Any:
        self.launch([sys.executable, "-c", "import signal; signal.pause()"])
        raise KeyboardInterrupt


class Formatted(own_nodes._Controller):
    """It ends while it is formatted."""

    ends = ""

    @override
    def format(self, *_: object, **__: object) -> Any:
        self.launch([sys.executable, "-c", self.ends]).wait()
        raise ProcessError("ended")


class NoZooKeeper:
    """A ZooKeeper that is not asked anything."""


@pytest.fixture
def without_zookeeper(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Any]:
    @contextlib.contextmanager
    def made(*_: object) -> Iterator[Any]:
        yield SimpleNamespace(server=SimpleNamespace(hosts="127.0.0.1:1"), client=None)

    monkeypatch.setattr(own_nodes, "_zookeeper", made)
    return lambda _folder: NoZooKeeper()


def test_ctrl_c_in_the_middle_of_a_format_leaves_nothing(
    without_zookeeper: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(own_nodes, "_Controller", Interrupted)
    one = StartedFiles(
        clean("plain"), "x", lambda _id: "3.9", [], lambda *_: "", server=without_zookeeper
    )
    (tmp_path / own_nodes.FOLDER).mkdir()
    (tmp_path / own_nodes.FOLDER / "of a run that was killed").touch()
    before = {*running()}
    with pytest.raises(KeyboardInterrupt):
        one.play(tmp_path, str)
    assert {*running()} <= before
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ("import os; os.kill(os.getpid(), 9)", "ended: signal 9"),
        ("raise OSError(28, 'No space left on device')", "ended: No space left on device"),
    ],
)
def test_a_format_that_the_machine_ended_is_no_fault_of_a_file(
    ends: str, said: str, without_zookeeper: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(own_nodes, "_Controller", Formatted)
    monkeypatch.setattr(Formatted, "ends", ends)
    one = StartedFiles(
        clean("plain"), "x", lambda _id: "3.9", [], lambda *_: "", server=without_zookeeper
    )
    with pytest.raises(ProcessError, match=said):
        one.play(tmp_path, str)
    assert one._found.refused == []
    assert not [*tmp_path.iterdir()]


def test_what_nodes_write_is_for_this_user_alone(
    without_zookeeper: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    modes: list[int] = []

    def seen(self: StartedFiles, *_: object) -> None:
        modes.append((tmp_path / own_nodes.FOLDER).stat().st_mode & 0o777)
        raise ProcessError("enough")

    monkeypatch.setattr(StartedFiles, "_start_controllers", seen)
    one = StartedFiles(
        clean("plain"), "x", lambda _id: "3.9", [], lambda *_: "", server=without_zookeeper
    )
    with pytest.raises(ProcessError, match="enough"):
        one.play(tmp_path, str)
    assert modes == [0o700]
    assert not [*tmp_path.iterdir()]
