"""The servers that ``make conformance`` judges: Kafka's own, ours, and two mocks by others."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from bench.conformance.case import Where
from bench.conformance.choosing import GROUPS
from bench.conformance.runner import Address
from emulator.servers.bridge import COMMAND
from emulator.servers.cluster import known_to
from emulator.servers.jars import cache_dir
from emulator.servers.kafka import KafkaBroker, KraftController, authorizer, tokens
from emulator.servers.patience import patiently
from emulator.servers.ports import HOST
from emulator.servers.process import ProcessError
from emulator.servers.zookeeper import ZooKeeper

Places: TypeAlias = Mapping[Where, Address]
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
PEERS: Final = Path(__file__).parent / "peers"
_WITH_ACLS: Final = ("acls", "records")
"""Groups for a cluster with an authorizer, and one broker, which then leads each partition."""
_WITHOUT: Final = tuple(one for one in GROUPS if one not in _WITH_ACLS)
_END_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Part:
    """One cluster of a server, and the groups that are judged on it."""

    start: Callable[[Path, ExitStack], Places]
    groups: Sequence[str]


@dataclass(frozen=True, slots=True)
class Server:
    """A row of the table. ``jvm``: whether it is Kafka itself, and needs Java and its jars."""

    name: str
    parts: Sequence[Part]
    jvm: bool = False


def _address(text: str) -> Address:
    host, _, port = text.partition(",")[0].rpartition(":")
    return Address(host, int(port))


# ------------------------------------------------------------------ Kafka
def _kraft(release: str, count: int, *, acls: bool) -> Callable[[Path, ExitStack], Places]:
    """A controller and brokers of a release of Kafka."""

    def start(folder: Path, stack: ExitStack) -> Places:
        secured = authorizer(kraft=True) if acls else {}
        shared = {**tokens(release), **secured}
        controller = KraftController(release, folder, None, CLUSTER_ID, properties=shared)
        stack.callback(controller.kill)
        controller.start()
        brokers = [
            KafkaBroker(
                release,
                id_,
                folder,
                None,
                controller_port=controller.port,
                properties=shared,
                broker_count=count,
            )
            for id_ in range(count)
        ]
        controller.wait_started()
        for one in brokers:
            stack.callback(one.kill)
            one.identify(CLUSTER_ID).start()
        for one in brokers:
            one.wait_started()
        return {
            Where.BROKER: _address(brokers[0].bootstrap),
            Where.CONTROLLER: Address(HOST, controller.port),
        }

    return start


def _zookeeper_mode(release: str, count: int, *, acls: bool) -> Callable[[Path, ExitStack], Places]:
    """Brokers of a release in ZooKeeper mode; one of them is the controller."""

    def start(folder: Path, stack: ExitStack) -> Places:
        keeper = stack.enter_context(ZooKeeper(folder / "zookeeper"))
        brokers = [
            KafkaBroker(release, id_, folder, keeper, broker_count=count, authorizer=acls)
            for id_ in range(count)
        ]
        for one in brokers:
            stack.callback(one.kill)
            one.start()
        for one in brokers:
            one.wait_started()
        ruler = patiently("a controller", lambda: _ruler(brokers), brokers)
        assert ruler is not None, "it was waited for"
        return {Where.BROKER: _address(ruler.bootstrap)}

    return start


def _ruler(brokers: Sequence[KafkaBroker]) -> KafkaBroker | None:
    """The broker that is the controller, once all know of it and of each other."""
    told = {known_to(one.client_port) for one in brokers}
    ids = frozenset(one.id for one in brokers)
    return next((one for one in brokers if told == {(ids, one.id)}), None)


# ------------------------------------------------------------------ ours, and mocks
def _told(command: Sequence[str | Path], folder: Path, stack: ExitStack) -> str:
    """Start a program and return its first line; it ends when its input does.

    Raises:
        ProcessError: it ended before it printed one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    errors = stack.enter_context((folder / "errors.txt").open("w"))
    child = stack.enter_context(
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    )
    stack.callback(_end, child)
    assert child.stdout is not None
    line = child.stdout.readline().strip()
    if not line:
        said = (folder / "errors.txt").read_text()[-500:]
        raise ProcessError(f"{command[0]} ended before it listened: {said}")
    return line


def _end(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    with contextlib.suppress(OSError):
        child.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_END_S)
    child.kill()


def _ours(*properties: str, brokers: int) -> Callable[[Path, ExitStack], Places]:
    def start(folder: Path, stack: ExitStack) -> Places:
        given = [part for one in properties for part in ("-X", one)]
        program = [sys.executable, "-c", COMMAND]
        line = _told([*program, "cluster", "--brokers", str(brokers), *given], folder, stack)
        told = json.loads(line)
        return {
            Where.BROKER: _address(told["bootstrap"]),
            Where.CONTROLLER: _address(told["controllers"]),
        }

    return start


def _librdkafka(folder: Path, stack: ExitStack) -> Places:
    line = _told([sys.executable, "-m", "bench.conformance.peers.librdkafka"], folder, stack)
    return {Where.BROKER: _address(line)}


def _kfake(folder: Path, stack: ExitStack) -> Places:
    # Its last broker is the controller, and only that one makes topics.
    addresses = _told([built()], folder, stack).split(",")
    return {Where.BROKER: _address(addresses[-1])}


def built() -> Path:
    """The program of franz-go's mock, built with Go from the modules that go.sum names.

    Raises:
        ProcessError: there is no Go, or it cannot be built.
    """
    program = cache_dir() / "conformance" / "kfake"
    if shutil.which("go") is None:
        raise ProcessError("kfake needs Go on the PATH; leave it out by --server")
    program.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["go", "build", "-o", program, "."], cwd=PEERS, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ProcessError(f"kfake cannot be built: {done.stderr.strip()[-500:]}")
    return program


def _kafka(release: str) -> Server:
    plain = Part(_kraft(release, 2, acls=False), _WITHOUT)
    return Server(
        f"kafka-{release}", [plain, Part(_kraft(release, 1, acls=True), _WITH_ACLS)], jvm=True
    )


_AUTHORIZER: Final = tuple(f"{key}={value}" for key, value in authorizer(kraft=True).items())
SERVERS: Final = (
    Server(
        "ours", [Part(_ours(brokers=3), _WITHOUT), Part(_ours(*_AUTHORIZER, brokers=1), _WITH_ACLS)]
    ),
    Server("librdkafka", [Part(_librdkafka, GROUPS)]),
    Server("kfake", [Part(_kfake, GROUPS)]),
    _kafka("3.9.2"),
    _kafka("3.4.1"),
    _kafka("4.3.0"),
    Server(
        "zookeeper-3.9.2",
        [
            Part(_zookeeper_mode("3.9.2", 2, acls=False), _WITHOUT),
            Part(_zookeeper_mode("3.9.2", 1, acls=True), _WITH_ACLS),
        ],
        jvm=True,
    ),
)
"""In the order in which they are judged: those without Java first."""
