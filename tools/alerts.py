"""The alert rules in a real Prometheus: ``make alerts``.

First ``promtool`` reads them, and runs their unit tests in packaging/ with the times that they
have. Then a Prometheus of our own, on a free port, scrapes real controllers to which one fault
after the other is done: each rule has to fire once, for its fault and for no other, and to end when
the fault ends. All times of the rules are a tenth there, and a scrape comes each second. Last, each
expression of the board must have found something at one time or another.

Brokers are a fleet of ours in ZooKeeper mode; ZooKeeper is a real one, behind a proxy. The last
part needs a file system of 4 MiB in a mount namespace, which root may make.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from kazoo.exceptions import KazooException
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from bench.load import cluster_api as api
from bench.load.connection import Connection
from emulator.servers.bridge import COMMAND, Bridge
from emulator.servers.ports import HOST, free_port
from emulator.servers.process import ProcessError, ServerProcess
from emulator.servers.waiting import wait_for
from emulator.servers.zookeeper import ZooKeeper
from tests.integration.migrating_controllers import MigratingControllers, migrating
from tests.integration.node_stage import CLUSTER_ID, Stage, new_topic, staged
from tests.integration.staged_brokers import LISTENER, announce
from tests.integration.test_full_disk import SmallDisk
from tests.kit.requests import create_topics, delete_topics, quota
from tools.board import ROOT, RULES, expressions
from wire import messages as m

UNIT_TESTS: Final = RULES.with_suffix(".test.yml")
UNPACKED: Final = ROOT / ".cache/prometheus/usr/bin"
"""Where `make alerts` leaves Prometheus if this machine has none."""
FASTER: Final = 10
JOB: Final = "kraft-bridge"
SCRAPE_S: Final = 1
END_S: Final = 240.0
"""How long what must come may take."""
SLOW_SYNC_S: Final = 0.4
SLOW: Final = (
    f"import os, time; sync = os.fdatasync; os.fdatasync = lambda fd: (time.sleep({SLOW_SYNC_S}), "
    f"sync(fd))[1]; {COMMAND}"
)
CLUSTER: Final = "5L6g3nShT-eMCtK--X86sw"
READ_ONLY: Final = [make_acl("world", "anyone", read=True, admin=True)]
"""Whoever set it may take it away again."""
STRANGE: Final = 9
"""Id of a broker that no fleet has."""


def faster(text: str) -> str:
    """The rules with every time a tenth of what it is.

    >>> faster("for: 1m; rate(x[15m]); lag_ms > 10000")
    'for: 6s; rate(x[90s]); lag_ms > 10000'
    """

    def tenth(found: re.Match[str]) -> str:
        seconds = int(found[2]) * (60 if found[3] == "m" else 1)
        return f"{found[1]}{seconds // FASTER}s"

    return re.sub(r"(for: |\[)(\d+)([ms])\b", tenth, text)


class Prometheus(ServerProcess):
    """A Prometheus with our rules, and what it says.

    Args:
        path: of the program.
        folder: for its files.
    """

    def __init__(self, path: str, folder: Path) -> None:
        super().__init__("prometheus", folder)
        self._path = path
        self._targets = folder / "targets.json"
        self.port = free_port()
        self.fired: dict[tuple[str, str], str] = {}
        """The labels of an alert and when it became active -> its name, once it has fired."""
        self.unanswered = {one for found in expressions().values() for one in found}
        """Expressions of the board and the rules that have found nothing so far."""
        self._over = threading.Event()
        self._looking = threading.Thread(target=self._look, daemon=True)

    def begin(self) -> None:
        """Start it."""
        folder = self.folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rules.yml").write_text(faster(RULES.read_text()))
        self.scrape()
        (folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: {SCRAPE_S}s, evaluation_interval: {SCRAPE_S}s}}\n"
            f"rule_files: [{folder}/rules.yml]\n"
            f"scrape_configs:\n  - job_name: {JOB}\n"
            f"    file_sd_configs: [{{files: [{self._targets}]}}]\n"
        )
        given = {
            "config.file": folder / "prometheus.yml",
            "storage.tsdb.path": folder / "data",
            "web.listen-address": f"{HOST}:{self.port}",
            "log.level": "warn",
        }
        self.launch([self._path, *(f"--{key}={value}" for key, value in given.items())])
        self.wait_until("an answer", self._answers)
        self._looking.start()

    def end(self) -> None:
        """Stop it."""
        self._over.set()
        if self._looking.is_alive():
            self._looking.join()
        self.stop()

    def scrape(self, *nodes: Bridge) -> None:
        """Look at these controllers from now on, and at no other."""
        targets = [f"{HOST}:{one.metrics_port}" for one in nodes]
        whole = self._targets.with_suffix(".new")
        whole.write_text(json.dumps([{"targets": targets}] if targets else []))
        whole.rename(self._targets)

    def ask(self, path: str, **given: str) -> Any:
        """The data of an answer of its API; raises OSError."""
        url = f"http://{HOST}:{self.port}/api/v1/{path}?{urllib.parse.urlencode(given)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def active(self) -> list[str]:
        """Names of the alerts that are pending or firing."""
        return sorted(one["labels"]["alertname"] for one in self.ask("alerts")["alerts"])

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            self.ask("alerts")
            return True
        return False

    def _look(self) -> None:
        while not self._over.wait(SCRAPE_S / 2):
            with contextlib.suppress(OSError):
                for one in self.ask("alerts")["alerts"]:
                    if one["state"] == "firing":
                        labels = json.dumps(one["labels"], sort_keys=True)
                        self.fired[labels, one["activeAt"]] = one["labels"]["alertname"]
                for expr in list(self.unanswered):
                    asked = expr.replace("$job", JOB).replace("$__rate_interval", "15s")
                    if "label_values" in expr or self.ask("query", query=asked)["result"]:
                        self.unanswered.discard(expr)


class Faults:
    """Does one fault after the other, and says what fired for it."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus
        self.wrong: list[str] = []
        self.seen: set[str] = set()
        """Names of all alerts that fired."""
        self.healing = ExitStack()
        """What ends the fault that is under way."""

    @contextmanager
    def fault(self, what: str, *expected: str, ends: bool = True) -> Iterator[None]:
        """The block begins a fault; when it is left, the fault is over.

        Args:
            what: the fault, in words.
            expected: the alerts that have to fire, each as often as it stands here.
            ends: whether they end with it.
        """
        began, before = time.monotonic(), set(self._prometheus.fired)
        wanted = Counter(f"KraftBridge{one}" for one in expected)

        def new() -> Counter[str]:
            fired = dict(self._prometheus.fired)
            return Counter(name for key, name in fired.items() if key not in before)

        with ExitStack() as healing:
            self.healing = healing
            yield
            with contextlib.suppress(TimeoutError):
                wait_for(what, lambda: wanted <= new(), END_S)
        if ends:
            with contextlib.suppress(TimeoutError):
                wait_for(f"the end of {what}", lambda: not self._prometheus.active(), END_S)
        found = new()
        self.seen |= set(found)
        named = ", ".join(f"{name} {count}x" for name, count in sorted(found.items()))
        left = self._prometheus.active() if ends else []
        held = found == wanted and not left
        after = f"{time.monotonic() - began:.0f} s"
        print(f"{'OK    ' if held else 'FAILED'}  {what}: {named or 'nothing'} ({after})")
        sys.stdout.flush()
        if found != wanted:
            self.wrong.append(f"{what}: {dict(found)} fired, and not {dict(wanted)}")
        if left:
            self.wrong.append(f"{what}: {left} do not end")


# ---------------------------------------------------------------- one controller in dual write
def one_controller(faults: Faults, prometheus: Prometheus, stage: Stage) -> None:
    """Faults of brokers, of ZooKeeper, and of the migration."""
    prometheus.scrape(stage.bridge)
    stage.create(stage.name())
    stage.settle()
    forward(stage)
    with faults.fault("a broker of another cluster registers", "BrokerRefused"):
        register(stage, "b3RoZXItY2x1c3Rlci1pZA", free_port())
        faults.healing.callback(_register_and_leave, stage)
    forward(stage)  # the second one: a rate needs two
    _a_znode_is_refused(faults, stage)
    _a_broker_ends(faults, stage)
    with faults.fault("ZooKeeper stands still", "ZooKeeperLost", "ZooKeeperBehind"):
        stage.proxy.freeze()
        faults.healing.callback(stage.proxy.thaw)
        for _ in range(3):
            stage.create(stage.name())
    with faults.fault("ZooKeeper is slow under load", "LagNearBound", "CallersWait"):
        over = threading.Event()
        stage.proxy.delay(300, 300)
        faults.healing.callback(stage.proxy.delay)
        for _ in range(8):
            stage.begin(_until(over, stage), [])
        faults.healing.callback(over.set)
    with faults.fault(
        "another controller claims", "MigrationStopped", "NoActiveController", ends=False
    ):
        epoch, _ = stage.client.get("/controller_epoch")
        stage.client.set("/controller_epoch", str(int(epoch) + 1).encode())
        stage.create(stage.name())
    prometheus.scrape()


def _a_znode_is_refused(faults: Faults, stage: Stage) -> None:
    """By its ACL, to our controller."""
    with faults.fault("ZooKeeper refuses a znode", "ZnodeRefused"):
        topic = stage.name()
        stage.create(topic)
        stage.settle()
        path = f"/brokers/topics/{topic}"
        stage.client.set_acls(f"{path}/partitions", READ_ONLY)
        stage.client.set_acls(path, READ_ONLY)
        stage.ask(_more_partitions(topic))
        for each in (path, f"{path}/partitions"):
            faults.healing.callback(stage.client.set_acls, each, OPEN_ACL_UNSAFE)


def _until(over: threading.Event, stage: Stage) -> Iterator[Any]:
    while not over.is_set():
        yield new_topic(stage.name(), timeout_ms=60_000)


def forward(stage: Stage) -> None:
    """Have a topic created through a broker."""
    status = stage.bridge.wait_status("brokers", lambda one: bool(one["brokers"]))
    address = status["brokers"][0]["endpoints"][0].partition("://")[2]
    stage.loop.run(api.create_topics(address, [api.topic(stage.name(), 1, 1, {})]))


def register(stage: Stage, cluster_id: str, port: int) -> Any:
    """Ask for a broker in ZooKeeper mode; returns the answer."""
    kinds = m.BrokerRegistrationRequest
    (answered,) = stage.ask(
        kinds(
            broker_id=STRANGE,
            cluster_id=cluster_id,
            incarnation_id=bytes(15) + b"s",
            listeners=[kinds.Listener(name=LISTENER, host=HOST, port=port)],
            features=[
                kinds.Feature(
                    name="metadata.version", min_supported_version=1, max_supported_version=21
                )
            ],
            is_migrating_zk_broker=True,
            log_dirs=[bytes(15) + b"d"],
        )
    )
    return answered.message


def _register_and_leave(stage: Stage) -> None:
    answer = register(stage, CLUSTER_ID, free_port())
    assert answer.error_code == 0, answer
    _unregister(stage)


def _unregister(stage: Stage) -> None:
    stage.ask(m.UnregisterBrokerRequest(broker_id=STRANGE))


def _more_partitions(topic: str) -> Any:
    kinds = m.CreatePartitionsRequest
    more = kinds.CreatePartitionsTopic(name=topic, count=3, assignments=None)
    return kinds(topics=[more], timeout_ms=20_000)


def _a_broker_ends(faults: Faults, stage: Stage) -> None:
    """A broker that nobody can connect to is alive, and then it is not."""
    over = threading.Event()
    port = free_port()
    with faults.fault("a broker takes no connections", "BrokerNotReached", ends=False):
        announce(stage.client, STRANGE, port)
        epoch = register(stage, CLUSTER_ID, port).broker_epoch
        beat = m.BrokerHeartbeatRequest(
            broker_id=STRANGE, broker_epoch=epoch, current_metadata_offset=epoch
        )
        stage.loop.begin(_beating(stage, beat, over))
        wait_for("a broker in service", lambda: _unfenced(stage))
        stage.ask(create_topics("alone", assigned=[[STRANGE]], timeout_ms=20_000))
    with faults.fault("a broker ends", "BrokerFenced", "OfflinePartitions"):
        over.set()
        stage.client.delete(f"/brokers/ids/{STRANGE}")
        faults.healing.callback(_unregister, stage)
        faults.healing.callback(_delete, stage, "alone")


def _delete(stage: Stage, topic: str) -> None:
    stage.ask(delete_topics(topic, timeout_ms=20_000))


async def _beating(stage: Stage, beat: Any, over: threading.Event) -> None:
    while not over.is_set():
        await stage._ask([beat])  # noqa: SLF001 - this runs in its loop
        await asyncio.sleep(1)


def _unfenced(stage: Stage) -> bool:
    brokers = (stage.bridge.status() or {"brokers": []})["brokers"]
    return any(one["id"] == STRANGE and not one["fenced"] for one in brokers)


# ---------------------------------------------------------------- several controllers
def quorum(faults: Faults, prometheus: Prometheus, stage: MigratingControllers) -> None:
    """Voters end, one after the other."""
    leader = stage.start()
    nodes = {each: one for each, one in stage.nodes.items() if isinstance(one, Bridge)}
    prometheus.scrape(*nodes.values())
    others = [each for each in nodes if each != leader]
    with faults.fault("the leader ends, and another one leads", "ControllerDown"):
        nodes[leader].kill()
        faults.healing.callback(lambda: nodes[leader].start().wait_started())
        stage.in_dual_write(*others)
    lost = ("ControllerDown", "ControllerDown", "NoActiveController")
    with faults.fault("two of three controllers end", *lost):
        for each in others:
            nodes[each].kill()
            faults.healing.callback(nodes[each].start)
    prometheus.scrape()


# ---------------------------------------------------------------- disks
def disks(faults: Faults, prometheus: Prometheus, folder: Path) -> None:
    """A small one that fills up, and a slow one."""
    small = SmallDisk(folder / "small")
    nodes = []
    try:
        slow = _alone(folder / "slow")
        slow.command = SLOW
        traced = _alone(folder / "traced", kraftbridge_trace_dir=small.path / "trace")
        growing = _alone(folder / "growing", metadata_log_max_record_bytes_between_snapshots=60_000)
        growing.data = small.path / "data"
        nodes = [slow, traced, growing]
        with faults.fault("a slow disk", "LogSyncSlow"):
            _begin(slow)
            prometheus.scrape(slow)
            over = threading.Event()
            asking = threading.Thread(target=partial(_quotas, slow, over))
            asking.start()
            faults.healing.callback(prometheus.scrape)
            faults.healing.callback(asking.join)
            faults.healing.callback(over.set)
        with faults.fault("a full disk under the trace", "TraceMissing"):
            _begin(traced)
            prometheus.scrape(traced)
            small.fill(left=0)
            faults.healing.callback(small.make_room)
        with faults.fault("a disk without room for a snapshot", "SnapshotNotWritten", ends=False):
            prometheus.scrape()
            _begin(growing)
            prometheus.scrape(growing)
            small.fill(left=256 * 1024)
            _quotas(growing, count=300)
        with faults.fault("a full disk", "ControllerDown", "NoActiveController", ends=False):
            _quotas(growing)
    finally:
        for node in nodes:
            node.kill()
        small.close()


def _alone(folder: Path, **more: object) -> Bridge:
    given = {key.replace("_", "."): value for key, value in more.items()}
    return Bridge(folder, None, properties=given)


def _begin(node: Bridge) -> None:
    command, node.command = node.command, COMMAND
    node.format(CLUSTER)
    node.command = command
    node.start().wait_line("leader of the metadata log")


def _quotas(node: Bridge, over: threading.Event | None = None, count: int = 100_000) -> None:
    """Set quotas, one after the other, until it is over or the controller has ended."""

    async def set_all() -> None:
        connection = await Connection.open((HOST, node.port), "alerts", itertools.count())
        with contextlib.closing(connection):
            for number in range(count):
                if over is not None and over.is_set():
                    return
                await connection.call(quota(1e6, f"user-{number:06}".ljust(200, "x")))

    with contextlib.suppress(OSError):
        asyncio.run(set_all())


# ---------------------------------------------------------------- all
def program(name: str) -> str | None:
    """The path of a program of Prometheus; None: it is not there."""
    return shutil.which(name) or shutil.which(name, path=str(UNPACKED))


def promtool(tool: str) -> int:
    """Read the rules, run their unit tests; returns the exit code."""
    for verb in (["check", "rules", str(RULES)], ["test", "rules", str(UNIT_TESTS)]):
        code = subprocess.run([tool, *verb], check=False).returncode
        if code:
            return code
    return 0


def fire(path: str, folder: Path) -> list[str]:
    """Do all faults; returns what is not as it should be."""
    prometheus = Prometheus(path, folder / "prometheus")
    faults = Faults(prometheus)
    try:
        prometheus.begin()
        with (
            ZooKeeper(folder / "one", fsync=False) as zookeeper,
            staged(zookeeper, folder / "stage") as stage,
        ):
            one_controller(faults, prometheus, stage)
        with (
            ZooKeeper(folder / "three", fsync=False) as zookeeper,
            migrating(folder / "quorum", zookeeper) as controllers,
        ):
            quorum(faults, prometheus, controllers)
        disks(faults, prometheus, folder)
    finally:
        prometheus.end()
    names = set(re.findall(r"- alert: (\w+)", RULES.read_text()))
    faults.wrong += [f"{one} has never fired" for one in sorted(names - faults.seen)]
    faults.wrong += [f"nothing was ever found by: {one}" for one in sorted(prometheus.unanswered)]
    return faults.wrong


def main() -> int:
    """All of it; returns the exit code."""
    prometheus, tool = program("prometheus"), program("promtool")
    if prometheus is None or tool is None:
        print("no Prometheus: `make alerts` takes Debian's", file=sys.stderr)
        return 1
    if promtool(tool):
        return 1
    with tempfile.TemporaryDirectory() as folder:
        try:
            wrong = fire(prometheus, Path(folder))
        except (ProcessError, TimeoutError, OSError, KazooException) as error:
            wrong = [f"{type(error).__name__}: {error}"]
    for one in wrong:
        print(f"WRONG {one}")
    print(f"alerts {'FAILED' if wrong else 'OK: each rule fired once for its fault, and ended'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
